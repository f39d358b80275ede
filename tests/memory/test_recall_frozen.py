"""A session's first block stays, byte for byte, until something the contract names drops it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import psycopg
import pytest
from cachetools import TTLCache

from app.embeddings import EmbedderError, embedder_from
from app.memory.mirror import Mirrors
from app.memory.recall_log import RecallLog
from tests.planting import Planted, plant
from tests.world import Caller


async def ask(caller: Caller, query: str = "tea", **params):
    answer = await caller.get("/memory", params={"query": query, "session": "s", **params})
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.fixture
def drinker(alice: Caller) -> Caller:
    plant(
        alice,
        Planted("Likes tea.", age=1),
        Planted("Likes coffee.", age=2),
        Planted("Answer briefly.", "constraint", 3),
    )
    return alice


@asynccontextmanager
async def another_process(caller: Caller, **changes) -> AsyncIterator[Caller]:
    """The same database behind a core that remembers nothing."""
    core = replace(
        caller.world.core,
        people=TTLCache(100, 60),
        asked=TTLCache(100, 60),
        recalls=RecallLog(),
        **changes,
    )
    async with caller.world.over(core) as world:
        yield Caller(world, caller.tenant_id, caller.key, caller.user)
    await core.recalls.aclose(core.db)


async def test_the_first_block_stays_whatever_is_asked_later(drinker: Caller):
    first = await ask(drinker)
    again = await ask(drinker, "coffee", token_budget=200)
    assert (first["frozen"], again["frozen"]) == (False, True)
    assert again["recall_id"] != first["recall_id"]
    drop = {"frozen", "recall_id"}
    assert {k: v for k, v in again.items() if k not in drop} == {
        k: v for k, v in first.items() if k not in drop
    }
    other = await drinker.get("/memory", params={"query": "coffee", "session": "other"})
    assert "coffee" in other.json()["block"]


async def test_another_process_gives_the_same_block(drinker: Caller):
    first = await ask(drinker)
    async with another_process(drinker) as elsewhere:
        again = await ask(elsewhere, "coffee")
    assert (again["frozen"], again["block"]) == (True, first["block"])


async def test_first_calls_at_once_in_two_processes_give_one_block(drinker: Caller):
    async with another_process(drinker) as one, another_process(drinker) as two:
        for n in range(8):
            answers = await asyncio.gather(
                *(
                    caller.get("/memory", params={"query": query, "session": f"race {n}"})
                    for caller, query in ((one, "tea"), (two, "coffee"), (one, "briefly"))
                )
            )
            assert len({answer.json()["block"] for answer in answers}) == 1


async def test_a_frozen_block_needs_no_embedder(drinker: Caller):
    first = await ask(drinker)
    dead = embedder_from("openai", url="http://127.0.0.1:9/v1", model="m")
    try:
        async with another_process(drinker, embedder=dead) as elsewhere:
            again = await ask(elsewhere, "coffee")
    finally:
        await dead.aclose()
    assert (again["frozen"], again["degraded"], again["block"]) == (True, None, first["block"])


async def test_newly_learned_facts_do_not_drop_it(drinker: Caller):
    first = await ask(drinker)
    await drinker.say("I live in Lisbon.")
    await drinker.post("/facts", {"text": "Prefers green tea.", "kind": "preference"})
    assert (await ask(drinker))["block"] == first["block"]


async def test_refresh_makes_a_new_one_and_keeps_that(drinker: Caller):
    await ask(drinker)
    fresh = await ask(drinker, "coffee", refresh="true")
    assert (fresh["frozen"], "coffee" in fresh["block"]) == (False, True)
    kept = await ask(drinker)
    assert (kept["frozen"], kept["block"]) == (True, fresh["block"])


async def test_a_deleted_fact_is_never_served_again(drinker: Caller):
    first = await ask(drinker)
    fact = next(fact for fact in first["facts"] if "briefly" in fact["text"])
    async with another_process(drinker) as elsewhere:
        assert (await ask(elsewhere))["frozen"]
        assert (await drinker.delete(f"/facts/{fact['id']}")).status_code == 204
        for caller in (drinker, elsewhere):
            answer = await ask(caller)
            assert "briefly" not in answer["block"]


@pytest.mark.parametrize("memory", ["paused", "restricted"])
async def test_pause_drops_it_at_once_and_for_good(drinker: Caller, memory: str):
    await ask(drinker)
    await drinker.call("PUT", f"{drinker.base}/settings", json={"memory": memory})
    assert (await ask(drinker))["block"] == ""
    await drinker.call("PUT", f"{drinker.base}/settings", json={"memory": "on"})
    assert not (await ask(drinker))["frozen"]


async def test_an_epoch_moved_by_the_organization_drops_it(drinker: Caller):
    plant(drinker, Planted("We ship on Fridays.", "constraint"), owner=drinker.tenant_id)
    await ask(drinker)
    with psycopg.connect(drinker.world.urls.superuser) as connection:
        connection.execute(
            "update memory_user set epoch = epoch + 1 where tenant_id = %s and user_id = %s",
            (drinker.tenant_id, drinker.tenant_id),
        )
    assert not (await ask(drinker))["frozen"]


async def test_it_lasts_a_day(drinker: Caller):
    await ask(drinker)
    with psycopg.connect(drinker.world.urls.superuser) as connection:
        connection.execute(
            "update frozen_block set created_at = now() - interval '24 hours' where tenant_id = %s",
            (drinker.tenant_id,),
        )
    assert not (await ask(drinker))["frozen"]
    assert (await ask(drinker))["frozen"]


async def test_an_incognito_session_is_never_frozen(drinker: Caller):
    message = {"role": "user", "content": "I live in Porto."}
    await drinker.post("/sessions/s/messages", {"messages": [message], "memory": "off"})
    await ask(drinker)
    assert not (await ask(drinker))["frozen"]


async def test_a_session_that_turns_incognito_during_a_recall_is_not_frozen(drinker: Caller):
    class Late:
        """Makes the session incognito after the recall has read how things stand."""

        def __getattr__(self, name: str):
            return getattr(drinker.world.core.embedder, name)

        async def embed(self, texts, kind="document"):
            message = {"role": "user", "content": "I live in Porto."}
            body = {"messages": [message], "memory": "off"}
            assert (await drinker.post("/sessions/s/messages", body)).status_code == 202
            return await drinker.world.core.embedder.embed(texts, kind)

    async with another_process(drinker, embedder=Late(), recall_deadline=60) as elsewhere:
        answer = await ask(elsewhere)

    assert (answer["frozen"], answer["degraded"], "tea" in answer["block"]) == (False, None, True)
    frozen = "select 1 from frozen_block where tenant_id = %s"
    assert drinker.world.rows(frozen, drinker.tenant_id) == []


async def test_a_session_needs_not_be_known_to_be_frozen(drinker: Caller):
    await ask(drinker, session="naïve/ses sion %2F")
    assert (await ask(drinker, session="naïve/ses sion %2F"))["frozen"]


async def test_an_erased_user_who_comes_back_finds_nothing_frozen(drinker: Caller):
    await ask(drinker)
    with psycopg.connect(drinker.world.urls.superuser) as connection:
        connection.execute("delete from memory_user where tenant_id = %s", (drinker.tenant_id,))
        connection.execute("delete from user_directory where tenant_id = %s", (drinker.tenant_id,))
    assert (await ask(drinker))["block"] == ""
    plant(drinker, Planted("Answer in Romanian.", "constraint"))
    answer = await ask(drinker)
    assert (answer["frozen"], "Romanian" in answer["block"]) == (False, True)


@pytest.mark.parametrize("change", ["answer - 'etag'", "answer || '{\"guard_version\": 0}'"])
async def test_one_of_another_version_or_an_older_guard_makes_room(drinker: Caller, change: str):
    await ask(drinker)
    drinker.world.execute(
        f"update frozen_block set answer = {change} where tenant_id = %s",
        drinker.tenant_id,
    )
    assert [(await ask(drinker))["frozen"] for _ in range(3)] == [False, True, True]


async def test_an_embedder_first_heard_of_during_a_recall_is_missed_aloud(drinker: Caller):
    class Unheard:
        """Has no name before its first success, as a remote one whose width nobody told."""

        heard = False

        def __getattr__(self, name: str):
            return getattr(drinker.world.core.embedder, name)

        @property
        def name(self) -> str:
            if not self.heard:
                raise EmbedderError("unavailable")
            return drinker.world.core.embedder.name

        async def embed(self, texts, purpose="fact"):
            self.heard = True
            return await drinker.world.core.embedder.embed(texts, purpose)

    async with another_process(drinker, embedder=Unheard(), mirrors=Mirrors(2**20)) as elsewhere:
        answers = [await ask(elsewhere, "Which hot drink?") for _ in range(3)]

    assert [one["degraded"] for one in answers] == ["embedder", None, None]
    assert [one["frozen"] for one in answers] == [False, False, True]
