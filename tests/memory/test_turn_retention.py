"""A turn goes once it is extracted, or is kept for as long as the tenant says, and read once."""

import pytest

from app.memory.retention import retain
from tests.world import Caller

pytestmark = pytest.mark.usefixtures("alone")

SAID = "I prefer window seats on long flights."


async def _policy(alice: Caller, turn_retention: str) -> None:
    answer = await alice.call("PATCH", "/v1/tenant/policy", json={"turn_retention": turn_retention})
    assert answer.status_code == 200, answer.text


def _turns(alice: Caller) -> list[tuple[str, bool]]:
    return alice.world.rows(
        "select text, extracted_at is not null from message where tenant_id = %s order by position",
        alice.tenant_id,
    )


def _age(alice: Caller, by: str) -> None:
    alice.world.execute(
        "update message set extracted_at = extracted_at - %s::interval where tenant_id = %s",
        by,
        alice.tenant_id,
    )


async def test_by_default_nothing_said_is_left_after_extraction(alice: Caller):
    await alice.say(SAID)

    assert len(await alice.facts()) == 1
    assert _turns(alice) == []


async def test_kept_turns_stay_for_their_time_and_no_longer(alice: Caller):
    await _policy(alice, "2d")
    await alice.say(SAID)
    assert _turns(alice) == [(SAID, True)]

    _age(alice, "47 hours")
    await retain(alice.world.core)
    assert _turns(alice) == [(SAID, True)]

    _age(alice, "2 hours")
    await retain(alice.world.core)
    assert _turns(alice) == []


async def test_a_shorter_retention_holds_for_turns_kept_already(alice: Caller):
    await _policy(alice, "30d")
    await alice.say(SAID)
    await _policy(alice, "0s")

    await retain(alice.world.core)

    assert _turns(alice) == []


async def test_a_restricted_memory_keeps_its_turns_until_that_is_lifted(alice: Caller):
    await _policy(alice, "30d")
    await alice.say(SAID)
    await _policy(alice, "0s")
    for memory, left in (("restricted", [(SAID, True)]), ("on", [])):
        await alice.call("PATCH", f"{alice.base}/settings", json={"memory": memory})
        await retain(alice.world.core)
        assert _turns(alice) == left, memory


async def test_turns_that_wait_are_not_swept(alice: Caller):
    await alice.post("/sessions/s/messages", {"messages": [{"role": "user", "content": SAID}]})

    await retain(alice.world.core)

    assert _turns(alice) == [(SAID, False)]


async def test_kept_turns_are_never_extracted_twice(alice: Caller):
    await _policy(alice, "30d")
    await alice.say(SAID, session="s")
    assert (await alice.get("/memory")).json()["pending_sessions"] == 0

    state = await alice.say("I live in Lisbon.", session="s")

    assert (state["user_turns"], state["facts"]["added"]) == (2, 2)
    assert state["facts"]["confirmed"] == 0
    assert [read for _, read in _turns(alice)] == [True, True]


async def test_deleting_a_session_takes_its_kept_turns_along(alice: Caller):
    await _policy(alice, "30d")
    await alice.say(SAID, session="s")

    await alice.delete("/sessions/s")

    assert _turns(alice) == []
