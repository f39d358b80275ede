"""The same edge behind the real server: what arrives as bytes on a socket."""

import asyncio
import contextlib
import json
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import uvicorn

from app.main import create_app
from app.server import configuration
from app.settings import Settings
from app.wire import MAX_BODY
from tests.world import Caller, World


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Wire:
    """A server on loopback, spoken to in bytes."""

    port: int

    async def send(self, *pieces: bytes) -> Answer:
        """Send pieces while listening, for a server may answer before it has read all."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)

        async def write() -> None:
            with contextlib.suppress(ConnectionError):
                for piece in pieces:
                    writer.write(piece)
                    await writer.drain()

        writing = asyncio.create_task(write())
        try:
            async with asyncio.timeout(20):
                head = await reader.readuntil(b"\r\n\r\n")
                lines = head.decode("latin-1").split("\r\n")
                named = (line.split(": ", 1) for line in lines[1:] if line)
                headers = {name.lower(): value for name, value in named}
                length = int(headers.get("content-length", "0"))
                is_head = pieces[0].startswith(b"HEAD")
                body = b"" if is_head else await reader.readexactly(length)
                if is_head:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(0.2):
                            body = await reader.read(1)
            return Answer(int(lines[0].split(" ")[1]), headers, body)
        finally:
            writing.cancel()
            writer.close()
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await asyncio.gather(writing, writer.wait_closed(), return_exceptions=True)

    async def exchange(self, *pieces: bytes) -> bytes:
        """Send pieces a moment apart, and give all that comes until the server ends it."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        said = b""
        try:
            async with asyncio.timeout(20):
                for piece in pieces:
                    writer.write(piece)
                    await asyncio.sleep(0.05)
                with contextlib.suppress(ConnectionError):
                    said = await reader.read()
            return said
        finally:
            writer.close()


@asynccontextmanager
async def serving(world: World, **more: Any) -> AsyncIterator[Wire]:
    settings = Settings(database_url=world.urls.service, signing_key="k" * 40, extractor="rules")
    app = create_app(settings, world.urls.service, with_worker=False)
    server = uvicorn.Server(configuration(app, "127.0.0.1", 0, **more))
    running = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn tells of its start by a flag alone
        await asyncio.sleep(0.02)
    yield Wire(server.servers[0].sockets[0].getsockname()[1])
    server.should_exit = True
    await running


@pytest.fixture(scope="module")
async def wire(world: World) -> AsyncIterator[Wire]:
    async with serving(world) as opened:
        yield opened


def _request(line: str | bytes, *headers: str | bytes, body: bytes = b"") -> bytes:
    raw = [line if isinstance(line, bytes) else line.encode(), b"Host: x"]
    raw += [header if isinstance(header, bytes) else header.encode() for header in headers]
    return b"\r\n".join(raw) + b"\r\n\r\n" + body


def _key(caller: Caller) -> str:
    return f"Authorization: Bearer {caller.key}"


async def test_an_encoded_slash_stays_in_the_id(wire: Wire, alice: Caller):
    fact = b'{"text": "Uses Go.", "kind": "preference"}'
    posted = await wire.send(
        _request(
            "POST /v1/users/a%2Fb%3Fc/facts HTTP/1.1",
            _key(alice),
            "Content-Type: application/json",
            f"Content-Length: {len(fact)}",
            body=fact,
        )
    )
    assert posted.status == 201
    assert await alice.of("a/b?c").texts() == ["Uses Go."]


@pytest.mark.parametrize(
    ("target", "status"),
    [
        (b"/v1/users/%FF/facts", 400),
        (b"/v1/users/%00/facts", 422),
        (b"/v1/users/%2E%2E/facts", 422),
        (b"/v1/users/../facts", 422),
        (b"/v1/users//facts", 422),
        (b"/v1/users/\xc3\xa9/facts", 400),
        (b"/v1/users/\xff/facts", 400),
        (b"/v1/users/a/facts?limit=%FF", 400),
        (b"/v1/users/a/../b/facts", 404),
        (b"/v1/users/a/facts/", 404),
        (b"//v1/users/a/facts", 404),
        (b"/v1/users/a%/facts", 200),
        (b"/v1/users/a/facts#x", 200),
        (b"http://x/v1/users/a/facts", 200),
        (b"*", 404),
    ],
)
async def test_a_path_is_read_as_it_was_sent(wire: Wire, alice: Caller, target: bytes, status: int):
    answer = await wire.send(_request(b"GET " + target + b" HTTP/1.1", _key(alice)))
    assert answer.status == status, answer.body


async def test_head_sends_no_body(wire: Wire, alice: Caller):
    answer = await wire.send(_request("HEAD /v1/users/a/settings HTTP/1.1", _key(alice)))
    assert (answer.status, answer.body) == (200, b"")
    assert int(answer.headers["content-length"]) > 0


async def test_recalls_in_one_go_on_one_connection_are_answered_in_order(wire: Wire, alice: Caller):
    text = 'HTTP/1.1 200 OK is how 100% of <our> \\ "answers" begin 🦊.'
    await alice.post("/facts", {"text": text, "kind": "constraint"})
    key, path = _key(alice), f"{alice.base}/memory?query=HTTP"
    first = await wire.send(_request(f"GET {path} HTTP/1.1", key))
    block = json.loads(first.body)["block"]
    assert "HTTP/1.1 200 OK is how 100% of &lt;our&gt;" in block
    etag = f"If-None-Match: {first.headers['etag']}"
    reader, writer = await asyncio.open_connection("127.0.0.1", wire.port)
    writer.write(
        _request(f"HEAD {path} HTTP/1.1", key)
        + _request(f"GET {path} HTTP/1.1", key, etag)
        + _request(f"GET {path} HTTP/1.1", key, "Accept: text/plain")
        + _request(f"GET {path}&token_budget=1 HTTP/1.1", key)
        + _request(f"GET {path} HTTP/1.1", key, "Connection: close")
    )
    answers = []
    async with asyncio.timeout(20):
        for has_body in (False, False, True, True, True):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = re.search(r"content-length: (\d+)", head) if has_body else None
            body = await reader.readexactly(int(length[1]) if length else 0)
            answers.append((int(head.split(" ")[1]), body))
        assert await reader.read() == b""
    writer.close()

    assert answers[:3] == [(200, b""), (304, b""), (200, block.encode())]
    assert answers[3][0] == 422
    assert json.loads(answers[4][1])["block"] == block


@pytest.mark.parametrize(
    "header",
    [
        b"Authorization: Bearer um_\xff\xfe",
        b"Authorization: Bearer um_\x00",
        b"Authorization: " + b"x" * 10_000,
        b"Authorization:",
    ],
)
async def test_an_odd_header_is_never_a_fault(wire: Wire, header: bytes):
    answer = await wire.send(_request(b"GET /v1/users/a/facts HTTP/1.1", header))
    assert answer.status in {400, 401, 431}


async def test_a_stranger_is_refused_before_the_body_is_asked_for(wire: Wire):
    answer = await wire.send(
        _request(
            "POST /v1/users/a/memory HTTP/1.1",
            "Content-Type: application/json",
            "Content-Length: 1000000000",
            "Expect: 100-continue",
        )
    )
    assert answer.status == 401


@pytest.mark.parametrize("keyed", ["with a key", "without"])
async def test_an_endless_chunked_body_is_cut_within_a_second(
    wire: Wire, alice: Caller, keyed: str
):
    chunk = b"10000\r\n" + b" " * 65_536 + b"\r\n"
    head = _request(
        "POST /v1/users/a/memory HTTP/1.1",
        *([_key(alice)] if keyed == "with a key" else []),
        "Content-Type: application/json",
        "Transfer-Encoding: chunked",
    )
    started = time.monotonic()
    answer = await wire.send(head, *[chunk] * 4_000)
    assert time.monotonic() - started < 5
    assert answer.status == (413 if keyed == "with a key" else 401)
    if answer.status == 413:
        assert answer.headers["connection"] == "close"
        assert json.loads(answer.body)["code"] == "too_large"


async def test_a_body_longer_than_said_does_not_reach_the_route(wire: Wire, alice: Caller):
    fact = b'{"text": "Uses Go.", "kind": "preference"}'
    answer = await wire.send(
        _request(
            "POST /v1/users/a/facts HTTP/1.1",
            _key(alice),
            "Content-Type: application/json",
            "Content-Length: 10",
            body=fact,
        )
    )
    assert answer.status == 400
    assert await alice.of("a").facts("all") == []


async def test_a_client_that_leaves_in_the_middle_of_its_body_is_no_fault(
    wire: Wire, alice: Caller, caplog: pytest.LogCaptureFixture
):
    _, writer = await asyncio.open_connection("127.0.0.1", wire.port)
    writer.write(
        _request(
            "POST /v1/users/a/facts HTTP/1.1",
            _key(alice),
            "Content-Type: application/json",
            f"Content-Length: {MAX_BODY}",
            body=b'{"text": ',
        )
    )
    await writer.drain()
    await asyncio.sleep(0.2)
    writer.close()
    await writer.wait_closed()
    await asyncio.sleep(0.3)
    assert "request_failed" not in caplog.text
    assert "499" in caplog.text


async def _waits(caller: Caller, seconds: float) -> bytes:
    """Give a request whose answer takes so long."""
    await caller.post("/sessions/s/messages", {"messages": [{"role": "user", "content": "Hi."}]})
    line = f"GET {caller.base}/sessions/s?wait={seconds} HTTP/1.1"
    return _request(line, _key(caller))


async def test_what_is_no_http_is_a_problem_too(wire: Wire):
    answer = await wire.send(b"\x16\x03\x01\x02\x00\x01\r\n\r\n")
    assert answer.status == 400
    assert answer.headers["content-type"] == "application/problem+json"
    assert json.loads(answer.body)["code"] == "malformed"


@pytest.mark.parametrize(
    "more", [[b"no HTTP\r\n\r\n"], [b"GET /livez HTTP/1.1\r\nX: ", *[b"x" * 30_000] * 3]]
)
async def test_what_can_not_be_read_takes_no_earlier_requests_answer(
    wire: Wire, alice: Caller, more: list[bytes], caplog: pytest.LogCaptureFixture
):
    said = await wire.exchange(await _waits(alice, 1), *more)
    assert said.startswith(b"HTTP/1.1 200 ")
    assert b'"session":"s"' in said
    assert said.count(b"HTTP/1.1 ") == 1
    assert "request_failed" not in caplog.text


async def test_a_request_has_one_answer_whatever_follows_its_body(wire: Wire):
    head = b"POST /v1/users/a/facts HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    for more in ([b"0\r\nX: ", *[b"x" * 30_000] * 3], [b"no chunk\r\n"]):
        said = await wire.exchange(head, *more)
        assert said.startswith(b"HTTP/1.1 401 ")
        assert said.count(b"HTTP/1.1 ") == 1


async def test_who_waits_longer_than_the_process_can_is_told_so(alice: Caller):
    async with serving(alice.world, timeout_graceful_shutdown=1) as wire:
        waiting = asyncio.create_task(wire.exchange(await _waits(alice, 20)))
        await asyncio.sleep(0.5)
    said = await waiting
    assert said.startswith(b"HTTP/1.1 503 ")
    assert b"retry-after: 1\r\n" in said
    assert b'"code":"unavailable"' in said
