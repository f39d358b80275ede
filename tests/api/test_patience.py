"""Slow clients are cut, those who left are worked for no longer, and neither is felt by others."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
import uvicorn

from app import edge, metrics, server
from app.deps import KeyCache
from app.embeddings.seam import State
from app.main import create_app
from app.settings import Settings
from tests.world import Caller, World

SOON = 0.5


@pytest.fixture(scope="module")
async def port(world: World) -> AsyncIterator[int]:
    """A server that waits half a second where it would wait half a minute."""
    with pytest.MonkeyPatch.context() as patch:
        # Constants that a test can't wait for.
        patch.setattr(edge, "BODY_WITHIN", SOON)
        patch.setattr(server, "HEAD_WITHIN", SOON)
        patch.setattr(server, "READ_WITHIN", SOON)
        async with serving(world) as number:
            yield number


@asynccontextmanager
async def serving(world: World) -> AsyncIterator[int]:
    settings = Settings(database_url=world.urls.service, signing_key="k" * 40, extractor="rules")
    app = create_app(settings, world.urls.service, with_worker=False)

    async def big(scope, receive, send) -> None:
        """Also what no route gives: an answer that never ends."""
        if scope["type"] != "http" or scope["path"] != "/big":
            await app(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while (await asyncio.wait({left := asyncio.create_task(receive())}, timeout=0))[1]:
            left.cancel()
            await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})

    running = uvicorn.Server(server.configuration(big, "127.0.0.1", 0))
    task = asyncio.create_task(running.serve())
    while not running.started:  # noqa: ASYNC110 - uvicorn tells of its start by a flag alone
        await asyncio.sleep(0.02)
    yield running.servers[0].sockets[0].getsockname()[1]
    running.should_exit = True
    await task


async def until_closed(reader: asyncio.StreamReader) -> tuple[bytes, float]:
    started = time.monotonic()
    said = b""
    with contextlib.suppress(ConnectionError):
        async with asyncio.timeout(10):
            said = await reader.read()
    return said, time.monotonic() - started


def test_the_times_are_within_half_a_minute():
    assert edge.BODY_WITHIN <= 30
    assert server.HEAD_WITHIN <= 30
    assert server.READ_WITHIN <= 30


@pytest.mark.parametrize(
    ("head", "piece"), [(b"", b"\r\n"), (b"GET /livez HTTP/1.1\r\nHost: x\r\nX-A: ", b"x")]
)
async def test_a_head_that_does_not_come_is_cut(port: int, head: bytes, piece: bytes):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head)
    dripping = asyncio.create_task(drip(writer, piece))
    said, took = await until_closed(reader)
    dripping.cancel()
    writer.close()
    assert said == b""
    assert took < 5


@pytest.mark.parametrize("piece", [b"a" * 2**16, b"X-A: b\r\n" * 2**13])
async def test_a_head_without_end_is_refused(port: int, piece: bytes):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\nX-A: b")
    dripping = asyncio.create_task(drip(writer, piece))
    said, _ = await until_closed(reader)
    dripping.cancel()
    writer.close()
    assert said.startswith(b"HTTP/1.1 431 ")
    assert b'"code":"head_too_large"' in said


async def posted(port: int, head: str, body: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"POST /v1/users/a/facts HTTP/1.1\r\nHost: x\r\n{head}\r\n".encode() + body)
    said, _ = await until_closed(reader)
    writer.close()
    return said


async def test_what_frames_a_body_without_end_is_cut(port: int, alice: Caller):
    head = f"Authorization: Bearer {alice.key}\r\nTransfer-Encoding: chunked\r\n"
    for frame in (b"1;a=" + b"b" * 2**20, b"1\r\n \r\n" * 2**17, b"0\r\nX-A: " + b"b" * 2**20):
        assert await posted(port, head, frame) == b""  # and not 408, when it took long enough


async def test_a_body_in_small_pieces_is_read(port: int, alice: Caller):
    head = (
        f"Authorization: Bearer {alice.key}\r\nContent-Type: application/json\r\n"
        "Connection: close\r\nTransfer-Encoding: chunked\r\n"
    )
    piece = b"20\r\n" + b" " * 32 + b"\r\n"
    said = await posted(port, head, piece * 10_000 + b"2\r\n{}\r\n0\r\n\r\n")
    assert said.startswith(b"HTTP/1.1 422 ")


async def test_what_follows_a_body_is_no_head(port: int, alice: Caller):
    key = f"Authorization: Bearer {alice.key}\r\n"
    head = "Connection: close\r\nTransfer-Encoding: chunked\r\n"
    assert (await posted(port, head, f"0\r\n{key}\r\n".encode())).startswith(b"HTTP/1.1 401 ")


async def drip(writer: asyncio.StreamWriter, piece: bytes) -> None:
    with contextlib.suppress(ConnectionError):
        while True:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.1)


async def test_a_body_that_comes_byte_by_byte_is_408_and_the_connection_ends(
    port: int, alice: Caller
):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        f"POST {alice.base}/facts HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {alice.key}\r\n"
        "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n".encode()
    )
    dripping = asyncio.create_task(drip(writer, b" "))
    said, took = await until_closed(reader)
    dripping.cancel()
    writer.close()
    assert said.startswith(b"HTTP/1.1 408 ")
    assert b"application/problem+json" in said
    assert took < 5


async def test_the_rest_of_a_refused_body_keeps_no_connection_open(port: int):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST /v1/users/a/facts HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n")
    dripping = asyncio.create_task(drip(writer, b" "))
    said, took = await until_closed(reader)
    dripping.cancel()
    writer.close()
    assert said.startswith(b"HTTP/1.1 401 ")
    assert took < 5


async def test_an_answer_that_nobody_reads_is_cut(port: int):
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
    writer.write(b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n")
    await asyncio.sleep(SOON * 4)
    _, took = await until_closed(reader)
    writer.close()
    assert took < 5


async def test_others_are_served_beside_hundreds_of_slow_ones(port: int):
    slow = [await asyncio.open_connection("127.0.0.1", port) for _ in range(300)]
    for _, writer in slow:
        writer.write(b"G")
    started = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    said, _ = await until_closed(reader)
    assert said.startswith(b"HTTP/1.1 200 ")
    assert time.monotonic() - started < 2
    for waiting, own in [*slow, (reader, writer)]:
        await until_closed(waiting)
        own.close()


async def test_past_a_number_of_connections_those_that_say_nothing_longest_are_cut(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(server, "MOST_WAITING", 50)
    monkeypatch.setattr(server, "HEAD_WITHIN", 20)  # none is cut for its slowness here
    async with serving(world) as port:
        kept, kept_writer = await asyncio.open_connection("127.0.0.1", port)
        ask = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
        slow = []
        for n in range(150):
            slow.append(await asyncio.open_connection("127.0.0.1", port))
            slow[-1][1].write(b"G")
            if n % 20 == 0:  # somebody who keeps a connection and uses it
                kept_writer.write(ask)
                assert (await kept.readuntil(b"}")).startswith(b"HTTP/1.1 200 ")
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(ask)
        assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 200 ")
        await asyncio.sleep(0.2)
        open_still = [not waiting.at_eof() and waiting.exception() is None for waiting, _ in slow]
        for _, own in [*slow, (kept, kept_writer), (reader, writer)]:
            own.transport.abort()
    assert 40 <= sum(open_still) <= 50
    assert not any(open_still[:100])


async def test_who_is_watched_before_the_key_was_looked_up_is_answered(
    alice: Caller, monkeypatch: pytest.MonkeyPatch
):
    """The one who looks whether the client has left asks the server too, and gets its answer."""
    monkeypatch.setattr(edge, "WATCH_AFTER", 0)
    monkeypatch.setattr(KeyCache, "credential", _late(KeyCache.credential))
    async with serving(alice.world) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(
            f"GET {alice.base}/memory HTTP/1.1\r\nHost: x\r\n"
            f"Authorization: Bearer {alice.key}\r\nConnection: close\r\n\r\n".encode()
        )
        answer = await asyncio.wait_for(reader.read(), 10)
        writer.close()
    assert answer.startswith(b"HTTP/1.1 200 ")


def _late(credential):
    async def late(*args):
        await asyncio.sleep(0.2)
        return await credential(*args)

    return late


class _Stuck:
    """An embedder that never answers, and knows who waits for it."""

    name, dimensions, recall_floor, neighbour_floor = "stuck/1", 4, 0.5, 0.5
    state: State = "ok"

    def __init__(self) -> None:
        self.waiting = 0
        self.started = asyncio.Event()

    async def embed(self, texts, purpose="fact"):
        del texts, purpose
        self.waiting += 1
        self.started.set()
        try:
            await asyncio.sleep(60)
        finally:
            self.waiting -= 1

    async def warm(self) -> None: ...

    async def aclose(self) -> None: ...


async def test_an_abandoned_recall_stops_working(alice: Caller, monkeypatch):
    await alice.post("/facts", {"text": "Likes tea.", "kind": "preference"})
    stuck = _Stuck()
    core = replace(alice.world.core, embedder=stuck, recall_deadline=30)
    left = asyncio.Event()

    parts = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive():
        if parts:
            return parts.pop()
        await left.wait()
        return {"type": "http.disconnect"}

    sent = []

    async def send(message):
        sent.append(message)

    path = f"{alice.base}/memory"
    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"query=tea",
        "headers": [(b"authorization", f"Bearer {alice.key}".encode())],
        "client": ("127.0.0.1", 1),
        "state": {**alice.world.state, "core": core},
    }

    served = asyncio.create_task(alice.world.app(scope, receive, send))
    await asyncio.wait_for(stuck.started.wait(), 10)
    assert stuck.waiting == 1

    left.set()
    await asyncio.wait_for(served, 5)

    assert stuck.waiting == 0
    assert sent == []
    assert 'status="499"' in metrics.render().decode()
