"""A user's settings over HTTP."""

import asyncio
from typing import Any

import pytest

from tests.api.test_errors import check_problem
from tests.world import Caller

_DEFAULTS = {"memory": "on", "locale": None, "timezone": None}


async def _set(alice: Caller, method: str, **changes: Any) -> dict[str, Any]:
    answer = await alice.call(method, f"{alice.base}/settings", json=changes)
    assert answer.status_code == 200, answer.text
    assert (await alice.get("/settings")).json() == answer.json()
    return answer.json()


async def test_an_unseen_user_has_the_defaults(alice: Caller):
    assert (await alice.get("/settings")).json() == _DEFAULTS
    assert await _set(alice.of("bob"), "PATCH") == _DEFAULTS
    assert await _set(alice.of("eve"), "PUT") == _DEFAULTS


async def test_put_replaces_and_patch_changes(alice: Caller):
    full = {"memory": "paused", "locale": "pt-PT", "timezone": "Europe/Lisbon"}
    assert await _set(alice, "PUT", **full) == full
    assert await _set(alice, "PATCH", memory="on") == {**full, "memory": "on"}
    assert await _set(alice, "PATCH", locale=None) == {**full, "memory": "on", "locale": None}
    assert await _set(alice, "PUT", locale="ro") == {**_DEFAULTS, "locale": "ro"}


async def test_two_changes_at_once_are_both_kept(alice: Caller):
    for _ in range(5):
        await _set(alice, "PUT")
        await asyncio.gather(
            alice.call("PATCH", f"{alice.base}/settings", json={"locale": "ro"}),
            alice.call("PATCH", f"{alice.base}/settings", json={"timezone": "UTC"}),
            alice.call("PATCH", f"{alice.base}/settings", json={"memory": "paused"}),
        )
        kept = (await alice.get("/settings")).json()
        assert kept == {"memory": "paused", "locale": "ro", "timezone": "UTC"}


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
@pytest.mark.parametrize(
    "body",
    [
        {"memory": "off"},
        {"memory": None},
        {"memory": True},
        {"locale": "portuguese"},
        {"locale": ""},
        {"locale": "x" * 40},
        {"timezone": "Lisbon"},
        {"timezone": "../../etc/passwd"},
        {"timezone": ""},
        {"plan": "pro"},
        [],
    ],
    ids=repr,
)
async def test_what_is_no_setting_is_refused(alice: Caller, method: str, body: Any):
    check_problem(await alice.call(method, f"{alice.base}/settings", json=body), 422)
    assert (await alice.get("/settings")).json() == _DEFAULTS


async def test_pausing_holds_at_once_and_lists_go_on(alice: Caller):
    fact = {"text": "Never suggest AWS.", "kind": "constraint"}
    await alice.post("/facts", fact)
    for memory in ("paused", "restricted"):
        await _set(alice, "PATCH", memory=memory)
        recalled = (await alice.get("/memory", params={"session": "s"})).json()
        assert (recalled["block"], recalled["memory"]) == ("", memory)
        check_problem(
            await alice.post("/facts", {**fact, "text": "Uses Go."}), 409, "memory_paused"
        )
        assert await alice.texts() == ["Never suggest AWS."]
    await _set(alice, "PATCH", memory="on")
    assert "AWS" in await alice.block(session="s")
