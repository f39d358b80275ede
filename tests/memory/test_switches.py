"""Memory that is paused or restricted: at the door, at the claim, at the commit and at recall."""

import pytest

from tests.fakes import FakeExtractor, drain, reading, silence
from tests.world import Caller

TURNS = {"session": "s", "messages": [{"role": "user", "content": "plan: Pro"}]}


@pytest.fixture
def extractor():
    return FakeExtractor()


@pytest.fixture
def core(world, extractor):
    silence(world)
    return reading(world.core, extractor)


async def switch(caller: Caller, memory: str) -> None:
    answer = await caller.call("PATCH", f"{caller.base}/settings", json={"memory": memory})
    assert answer.status_code == 200, answer.text


def turns(caller: Caller) -> int:
    query = "select count(*) from message where tenant_id = %s"
    return caller.world.rows(query, caller.tenant_id)[0][0]


async def state(caller: Caller) -> tuple[str, str | None]:
    told = (await caller.get("/sessions/s")).json()
    return told["status"], told["reason"]


async def test_what_waits_when_memory_is_paused_is_dropped_unread(alice, core, extractor):
    await alice.post("/transcripts", TURNS)
    await switch(alice, "paused")
    await drain(alice.world, core)

    assert await state(alice) == ("done", "memory_paused")
    assert (extractor.calls, turns(alice), await alice.facts("all")) == ([], 0, [])
    await switch(alice, "on")
    await drain(alice.world, core)
    assert await alice.facts("all") == []


async def test_what_waits_under_a_restriction_is_kept_unread_until_it_is_lifted(
    alice, core, extractor
):
    await alice.post("/transcripts", TURNS)
    await switch(alice, "restricted")
    for _ in range(2):
        await drain(alice.world, core)
        await alice.post("/sessions/s/end")

    assert await state(alice) == ("queued", "memory_restricted")
    assert (extractor.calls, turns(alice), await alice.facts("all")) == ([], 1, [])

    await switch(alice, "on")
    await drain(alice.world, core)
    assert await state(alice) == ("done", None)
    assert await alice.texts() == ["plan: Pro"]


async def test_a_restriction_during_the_model_call_stores_nothing_and_loses_nothing(
    alice, core, extractor
):
    await alice.post("/facts", {"text": "Uses tea.", "kind": "constraint"})
    before = await alice.facts()

    async def restrict(*_: object) -> None:
        await switch(alice, "restricted")

    thinking = extractor.extract

    async def extract(*args, **kwargs):
        found = await thinking(*args, **kwargs)
        await restrict()
        return found

    extractor.extract = extract
    await alice.post("/transcripts", TURNS)
    await drain(alice.world, core)

    assert await state(alice) == ("queued", "memory_restricted")
    assert await alice.facts() == before
    answer = (await alice.get("/memory", params={"query": "tea"})).json()
    assert (answer["block"], answer["memory"]) == ("", "restricted")
    assert (await alice.post("/search", {"query": "tea"})).json()["items"] == []
    refused = await alice.post("/facts", {"text": "Uses Go.", "kind": "preference"})
    assert (refused.status_code, refused.json()["code"]) == (409, "memory_paused")

    extractor.extract = thinking
    await switch(alice, "on")
    await drain(alice.world, core)
    assert await alice.texts() == ["Uses tea.", "plan: Pro"]


async def test_a_restriction_that_becomes_a_pause_drops_what_waited(alice, core, extractor):
    await alice.post("/transcripts", TURNS)
    await switch(alice, "restricted")
    await drain(alice.world, core)
    await switch(alice, "paused")
    await drain(alice.world, core)

    assert await state(alice) == ("done", "memory_paused")
    assert (extractor.calls, turns(alice)) == ([], 0)


async def test_a_tenants_default_holds_for_whoever_was_not_asked(alice, core):
    await alice.call("PATCH", "/v1/tenant/policy", json={"default_memory": "paused"})
    assert (await alice.get("/memory")).json()["memory"] == "paused"  # of somebody unseen

    skipped = await alice.post("/transcripts", TURNS)

    assert skipped.json()["status"] == "skipped"
    assert (await alice.get("/settings")).json()["memory"] == "paused"
    await switch(alice, "on")
    await alice.post("/transcripts", TURNS)
    await drain(alice.world, core)
    assert await alice.texts() == ["plan: Pro"]


async def test_an_incognito_session_leaves_no_trace(alice, core, extractor):
    marker = "zqxhidden"
    message = [{"role": "user", "content": f"plan: {marker}", "id": marker}]
    path, keyed = f"/sessions/{marker}/messages", {"headers": {"Idempotency-Key": "before"}}
    await alice.post(path, {"messages": message}, **keyed)
    hidden = {"messages": message, "memory": "off"}
    first, again = [
        await alice.post(path, hidden, headers={"Idempotency-Key": "k"}) for _ in range(2)
    ]
    assert (first.status_code, first.json()) == (again.status_code, again.json())
    before = await alice.post(path, {"messages": message}, **keyed)
    assert (before.status_code, before.json()["code"]) == (410, "erased")
    await alice.get("/memory", params={"query": marker, "session": marker})
    await drain(alice.world, core)

    tables = alice.world.rows(
        "select table_name from information_schema.tables where table_schema = 'public'"
    )
    assert [
        name
        for (name,) in tables
        if alice.world.rows(f"select 1 from {name} t where lower(t::text) like %s", f"%{marker}%")
    ] == []
    assert extractor.calls == []
