"""Whatever is sent to whatever parameter or field, no answer is a fault of ours or repeats it."""

import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from app.problems import MEDIA_TYPE
from tests.api.routes import KEYED, Route
from tests.world import Caller

CANARY = "zqx771"

TEXTS = (
    f"') or true or (' {CANARY}",
    f"{CANARY}'; drop table memory_fact; --",
    f"{CANARY}; select pg_sleep(5)",
    f"../../etc/passwd%00{CANARY}",
    f"{CANARY}\x00\x1b[31m",
    f"{CANARY}\ud83d b",
    f"\u202e{CANARY}\u2066\U000e0041",
    f"%s %n {{{CANARY}}} ${{{CANARY}}}",
    CANARY * 400,
    "",
    "null",
)
VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    2**63,
    10**400,
    1e308,
    [],
    ["a", CANARY],
    {"$ne": ""},
    {f"{CANARY}!": {f"{CANARY}!": [CANARY]}},  # a plain name would be repeated, as it should
    *TEXTS,
)


def _leaves(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield place
    keys = (
        value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    )
    for key in keys:
        yield from _leaves(value[key], (*place, key))


def _changed(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    if not place:
        return new
    copy = value.copy()
    copy[place[0]] = _changed(value[place[0]], place[1:], new)
    return copy


def _check(answer: Any, what: object) -> None:
    assert answer.status_code < 500, (what, answer.text)
    if answer.status_code >= 400:
        assert answer.headers["content-type"] == MEDIA_TYPE, what
        assert CANARY not in answer.text, what


@pytest.fixture(autouse=True)
def silent(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Nothing that was sent may be in a log either."""
    caplog.set_level("DEBUG")
    yield
    assert CANARY not in "".join(record.getMessage() for record in caplog.get_records("call"))


@pytest.fixture
async def ids(alice: Caller) -> dict[str, str]:
    posted = await alice.post("/facts", {"text": "Uses Postgres.", "kind": "preference"})
    return {"user": alice.user, "session": "s", "fact": posted.json()["fact"]["id"]}


async def _send(alice: Caller, route: Route, path: str, body: Any, **more: Any) -> Any:
    # Escaped, for httpx would refuse to send a lone surrogate that a caller's JSON may well hold.
    content = None if body is None else json.dumps(body, ensure_ascii=True).encode()
    headers = {**route.headers, **more.pop("headers", {})}
    if content is not None:
        headers["Content-Type"] = "application/json"
    return await alice.call(route.method, path, content=content, headers=headers, **more)


@pytest.mark.parametrize("route", [r for r in KEYED if r.body], ids=lambda route: route.name)
async def test_hostile_bodies(route: Route, alice: Caller, ids: dict[str, str]):
    for place in _leaves(route.body):
        for value in VALUES:
            body = _changed(route.body, place, value)
            _check(await _send(alice, route, route.fill(**ids), body), (place, value))


@pytest.mark.parametrize("route", [r for r in KEYED if r.query], ids=lambda route: route.name)
async def test_hostile_query_strings(route: Route, alice: Caller, ids: dict[str, str]):
    for name in route.query:
        for value in (t.encode("utf-8", "replace").decode() for t in TEXTS):
            _check(
                await _send(alice, route, route.fill(**ids), None, params={name: value}),
                (name, value),
            )


@pytest.mark.parametrize("route", KEYED, ids=lambda route: route.name)
async def test_hostile_paths_and_headers(route: Route, alice: Caller, ids: dict[str, str]):
    names = [name for name in ids if f"{{{name}}}" in route.path]
    for text in (t.encode("utf-8", "replace").decode() for t in TEXTS):
        for name in names:
            path = route.fill(**{**ids, name: text})
            _check(await _send(alice, route, path, route.body), (name, text))
    for value in (b"\xff\xfe" + CANARY.encode(), b'"' * 500, b"W/*,;q=", b"*", b"0", b'"1"'):
        odd = [
            (name, value)
            for name in (b"if-match", b"if-none-match", b"accept", b"content-language", b"range")
        ]
        answer = await alice.world.http.request(
            route.method,
            route.fill(**{**ids, "fact": str(uuid4())}),
            headers=[(b"authorization", f"Bearer {alice.key}".encode()), *odd],
        )
        _check(answer, value)


async def test_hostile_names_of_fields(alice: Caller):
    for text in TEXTS:
        body = {"text": "Uses Go.", "kind": "preference", text: 1, "metadata": {text: text}}
        content = json.dumps(body).encode()
        answer = await alice.call(
            "POST",
            f"{alice.base}/facts",
            content=content,
            headers={"Content-Type": "application/json"},
        )
        _check(answer, text)
        assert answer.status_code == 422


async def test_nothing_was_dropped_by_all_that(alice: Caller, ids: dict[str, str]):
    body = {"text": "Uses x'); drop table memory_fact; --", "kind": "preference"}
    assert (await alice.post("/facts", body)).status_code < 300
    assert len(await alice.facts("all")) == 2
