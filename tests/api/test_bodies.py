"""A body is strict JSON in UTF-8 of at most 1 MiB, read no further than that."""

import asyncio
import gzip
import json
import tracemalloc
from collections.abc import AsyncIterator
from typing import Any

import pytest

from app.wire import MAX_BODY, MAX_DEPTH, MAX_METADATA
from tests.api.test_errors import check_problem
from tests.world import Caller

_JSON = {"Content-Type": "application/json"}
_FACT = {"text": "Prefers window seats.", "kind": "preference"}


async def _post(alice: Caller, content: Any, **headers: str):
    sent = {**_JSON, **headers}
    return await alice.call("POST", f"{alice.base}/facts", content=content, headers=sent)


def _fact(**more: Any) -> bytes:
    return json.dumps({**_FACT, **more}).encode()


@pytest.mark.parametrize(
    "content",
    [
        b"   ",
        b"{",
        b"{'text': 1}",
        b'{"text": NaN}',
        b'{"text": Infinity}',
        b'{"text": -Infinity}',
        b'{"a": 1,}',
        b'{"a": 1} x',
        b'{"a": 1}{"a": 1}',
        b'{"a": ' + b"9" * 5000 + b"}",
        b'{"a": "\x01"}',
        b'{"a": "\xff\xfe"}',
        b'{"a": "\xc0\xaf"}',
        b'{"a": "\xed\xa0\x80"}',
        b"\xef\xbb\xbf" + _fact(),
        _fact().decode().encode("utf-16"),
        _fact().decode().encode("utf-32"),
        gzip.compress(_fact(), mtime=0),
    ],
    ids=lambda content: repr(content[:24]),
)
async def test_what_is_not_json_in_utf8_is_400(alice: Caller, content: bytes):
    check_problem(await _post(alice, content), 400, "malformed")


@pytest.mark.parametrize("content", [b"null", b"[]", b"1", b'"x"', b"true", b"[[]]"])
async def test_what_is_no_object_is_422(alice: Caller, content: bytes):
    check_problem(await _post(alice, content), 422)


async def test_no_body_where_one_is_due_is_no_json_either(alice: Caller):
    check_problem(await _post(alice, b""), 400, "malformed")
    bare = await alice.call("POST", f"{alice.base}/facts")
    check_problem(bare, 400, "malformed")


@pytest.mark.parametrize("number", ["1e999", "-1e999", "1" + "0" * 400 + ".0"])
async def test_a_number_that_can_not_be_kept_is_422(alice: Caller, number: str):
    check_problem(await _post(alice, b'{"a": %b}' % number.encode()), 422, "number_range")


@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 1_000, 200_000])
@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
async def test_a_body_that_nests_too_deep_is_422(
    alice: Caller, depth: int, opening: bytes, closing: bytes
):
    deep = opening * depth + b"1" + closing * depth
    if len(deep) > MAX_BODY:
        deep = deep[:MAX_BODY]
    check_problem(await _post(alice, deep), 422, "too_deep")


async def test_a_deep_tool_call_in_a_message_is_let_through(alice: Caller):
    arguments: Any = "x"
    for _ in range(MAX_DEPTH - 6):
        arguments = {"a": arguments}
    message = {"role": "assistant", "content": None, "tool_calls": [arguments]}
    answer = await alice.post("/sessions/s/messages", {"messages": [message]})
    assert (answer.status_code, answer.json()["ignored"]) == (202, 1)


async def test_a_repeated_key_keeps_its_last_value(alice: Caller):
    answer = await _post(alice, _fact()[:-1] + b', "text": "Prefers aisle seats."}')
    assert answer.json()["fact"]["text"] == "Prefers aisle seats."


@pytest.mark.parametrize(
    "media_type",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "",
     "application/xml", "application/jsonp", "text/json", "application/problem+json"],
)  # fmt: skip
async def test_another_type_of_body_is_415(alice: Caller, media_type: str):
    answer = await _post(alice, _fact(), **{"Content-Type": media_type})
    check_problem(answer, 415, "unsupported_media_type")


@pytest.mark.parametrize("media_type", ["application/json; charset=utf-8", "APPLICATION/JSON"])
async def test_the_type_may_be_written_otherwise(alice: Caller, media_type: str):
    assert (await _post(alice, _fact(), **{"Content-Type": media_type})).status_code == 201


@pytest.mark.parametrize("coding", ["gzip", "br", "deflate, gzip"])
async def test_a_compressed_body_is_415(alice: Caller, coding: str):
    bomb = gzip.compress(b" " * 50_000_000)
    assert len(bomb) < 100_000
    answer = await _post(alice, bomb, **{"Content-Encoding": coding})
    check_problem(answer, 415, "unsupported_media_type")


# The limit of the body.


async def test_a_body_of_exactly_the_limit_is_read(alice: Caller):
    body = _fact()
    answer = await _post(alice, body + b" " * (MAX_BODY - len(body)))
    assert answer.status_code == 201


async def test_one_byte_more_is_413(alice: Caller):
    body = _fact()
    answer = await _post(alice, body + b" " * (MAX_BODY + 1 - len(body)))
    check_problem(answer, 413, "too_large")
    assert answer.headers["connection"] == "close"


async def test_a_length_that_is_said_to_be_too_long_is_413_before_a_byte_is_read(alice: Caller):
    async def body() -> AsyncIterator[bytes]:
        raise AssertionError("the body was read")
        yield b""

    answer = await _post(alice, body(), **{"Content-Length": str(MAX_BODY + 1)})
    check_problem(answer, 413, "too_large")


@pytest.mark.parametrize("claim", [{}, {"Content-Length": "10"}, {"Content-Length": "x"}])
async def test_an_endless_body_is_cut_as_it_arrives(alice: Caller, claim: dict[str, str]):
    sent = 0

    async def body() -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += 65_536
            yield b" " * 65_536
            await asyncio.sleep(0)

    tracemalloc.start()
    try:
        answer = await _post(alice, body(), **claim)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    check_problem(answer, 413, "too_large")
    assert sent <= MAX_BODY + 2 * 65_536
    assert peak < 10 * MAX_BODY


# What is kept of what was sent.


async def test_free_text_loses_what_can_not_be_seen_and_keeps_what_can(alice: Caller):
    text = "Prefers\x00 tea\x1b\r\nand\u2028 coffee \ud83d👩\u200d🔬 of \u202eMünchen."
    answer = await _post(alice, json.dumps({**_FACT, "text": text}).encode())
    assert answer.json()["fact"]["text"] == "Prefers tea and coffee \ufffd👩\u200d🔬 of München."


async def test_metadata_is_kept_as_sent_but_for_what_can_not_be(alice: Caller):
    sent = {
        "n": 10**400,
        "small": 1e-300,
        "precise": 0.1,
        "big": 2**63 + 1,
        "b\x00ad \ud83d": ["a\x00", {"é": None, "t": True}],
        "lines": "one\ntwo",
        "": "empty name",
    }
    posted = await _post(alice, _fact(metadata=sent))
    kept = (await alice.get("/facts")).json()["items"][0]["metadata"]
    assert posted.json()["fact"]["metadata"] == kept
    assert kept == {
        **{name: sent[name] for name in ("n", "small", "precise", "big", "lines", "")},
        "bad \ufffd": ["a", {"é": None, "t": True}],
    }


async def test_metadata_is_bounded(alice: Caller):
    room = MAX_METADATA - len('{"a": ""}')
    words = "né " * (room // 4) + "n" * (room % 4)
    fits = await _post(alice, _fact(metadata={"a": words}))
    answer = await _post(alice, _fact(metadata={"a": words + "é"}))
    assert fits.status_code == 201
    check_problem(answer, 422, "metadata_too_large")
    changed = await alice.call(
        "PATCH",
        f"{alice.base}/facts/{fits.json()['fact']['id']}",
        json={"metadata": {"a": "x" * MAX_METADATA}},
        headers={"If-Match": '"1"'},
    )
    check_problem(changed, 422, "metadata_too_large")


@pytest.mark.parametrize("path", ["/sessions/s/end", "/sessions/s/retry"])
async def test_where_no_body_is_due_only_an_empty_one_is_taken(alice: Caller, path: str):
    check_problem(await alice.post(path, {}), 404)
    check_problem(await alice.post(path, {"force": True}), 422)
    check_problem(await alice.post(path, []), 422)
