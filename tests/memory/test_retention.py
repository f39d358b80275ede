"""What is kept for a time only goes when its time is over."""

import pytest

from app.memory.retention import retain
from tests.world import Caller

CANARY = "Prefers ZQX-771 seats."


def _count(alice: Caller, table: str) -> int:
    [(count,)] = alice.world.rows(
        f"select count(*) from {table} where tenant_id = %s", alice.tenant_id
    )
    return count


async def _fill(alice: Caller) -> None:
    await alice.post(
        "/facts", {"text": CANARY, "kind": "preference"}, headers={"Idempotency-Key": "k"}
    )
    turn = {"role": "user", "content": "Hello there.", "id": "m1"}
    await alice.post("/sessions/s/messages", {"messages": [turn]})
    await alice.block("seats", session="s")


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(
    ("table", "column", "kept", "gone"),
    [
        ("idempotency_key", "created_at", "23 hours", "25 hours"),
        ("seen_message", "seen_at", "29 days", "31 days"),
        ("frozen_block", "created_at", "23 hours", "25 hours"),
    ],
)
async def test_rows_stay_for_their_time_and_no_longer(alice: Caller, table, column, kept, gone):
    await _fill(alice)
    for age, left in ((kept, 1), (gone, 0)):
        alice.world.execute(
            f"update {table} set {column} = now() - %s::interval where tenant_id = %s",
            age,
            alice.tenant_id,
        )
        await retain(alice.world.core)
        assert _count(alice, table) == left, age


@pytest.mark.usefixtures("alone")
async def test_the_recall_log_stays_as_long_as_the_policy_says(alice: Caller):
    await _fill(alice)
    await alice.world.core.recalls.write(alice.world.core.db)
    alice.world.execute(
        "update recall_log set at = now() - interval '29 days' where tenant_id = %s",
        alice.tenant_id,
    )
    for kept, left in (("30d", 1), ("28d", 0)):
        await alice.call("PATCH", "/v1/tenant/policy", json={"recall_log_retention": kept})
        await retain(alice.world.core)
        assert _count(alice, "recall_log") == left, kept


async def test_a_deleted_fact_leaves_no_word_in_a_frozen_block(alice: Caller):
    await _fill(alice)
    assert _count(alice, "frozen_block") == 1
    [fact] = await alice.facts()

    await alice.delete(f"/facts/{fact['id']}")

    assert _count(alice, "frozen_block") == 0


async def test_an_incognito_session_takes_its_frozen_block_along(alice: Caller):
    await _fill(alice)

    turn = {"role": "user", "content": "Hello."}
    await alice.post("/sessions/s/messages", {"messages": [turn], "memory": "off"})

    assert _count(alice, "frozen_block") == 0
    assert (await alice.get("/memory", params={"session": "s"})).json()["frozen"] is False


async def test_a_fact_said_again_after_it_expired_holds_again(alice: Caller):
    past = "2026-01-01T00:00:00Z"
    fact = {"text": "Is learning FastAPI.", "kind": "goal"}
    await alice.post("/facts", {**fact, "expires_at": past})
    assert await alice.facts() == []

    again = await alice.post("/facts", fact)

    assert (again.status_code, again.json()["fact"]["status"]) == (200, "live")
    assert await alice.texts() == ["Is learning FastAPI."]


async def test_a_new_user_begins_as_the_policy_says(alice: Caller):
    await alice.call("PATCH", "/v1/tenant/policy", json={"default_memory": "paused"})

    settings = (await alice.get("/settings")).json()
    state = await alice.post(
        "/transcripts", {"messages": [{"role": "user", "content": "I live in Lisbon."}]}
    )

    assert settings["memory"] == "paused"
    assert state.json()["status"] == "skipped"
    assert await alice.facts("all") == []


@pytest.mark.usefixtures("alone")
async def test_a_tenant_that_fails_stops_no_other(alice: Caller, other: Caller, caplog):
    for one in (alice, other):
        await _fill(one)
        one.world.execute(
            "update seen_message set seen_at = now() - interval '31 days' where tenant_id = %s",
            one.tenant_id,
        )
    alice.world.execute(
        "create function refuse() returns trigger language plpgsql as "
        f"$$ begin if old.tenant_id = '{alice.tenant_id}' then raise exception '{CANARY}'; end if; "
        "return old; end $$"
    )
    alice.world.execute(
        "create trigger refuse before delete on seen_message for each row execute function refuse()"
    )
    try:
        await retain(alice.world.core)
    finally:
        alice.world.execute("drop function refuse cascade")

    assert (_count(alice, "seen_message"), _count(other, "seen_message")) == (1, 0)
    assert alice.tenant_id.hex in caplog.text
    assert CANARY not in caplog.text
