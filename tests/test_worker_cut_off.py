"""A worker whose packets to Postgres vanish: others do its work, and it comes back by itself."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import psycopg
import pytest

from app.db import Database
from app.memory.core import Core
from app.memory.recall_log import RecallLog
from app.worker import Pace
from tests.cut import Wire
from tests.fakes import FAST, FakeExtractor, reading, silence, until, working
from tests.world import Caller, Urls, World

SOON = replace(FAST, patience=1, drain=0.5)


@dataclass
class Far:
    """What a worker needs whose database lies behind a wire."""

    core: Core
    wire: Wire
    extractor: FakeExtractor


@pytest.fixture
async def far(world: World, urls: Urls) -> AsyncIterator[Far]:
    silence(world)
    async with Wire.to_database(urls.service) as (wire, url):
        db = Database(url, pool_size=3, abandoned_after=3)
        await db.open()
        extractor = FakeExtractor()
        core = replace(reading(world.core, extractor), db=db, recalls=RecallLog())
        try:
            yield Far(core, wire, extractor)
        finally:
            wire.mend()
            await db.close()
            silence(world)


async def post(caller: Caller, session: str, text: str) -> None:
    body = {"session": session, "messages": [{"role": "user", "content": text}]}
    assert (await caller.post("/transcripts", body)).status_code == 202


def is_done(caller: Caller, session: str):
    query = "select status from memory_session where tenant_id = %s and external_id = %s"
    return lambda: caller.world.rows(query, caller.tenant_id, session) == [("done",)]


async def learned(caller: Caller) -> list[tuple[str, int]]:
    return sorted((fact["text"], fact["confirmations"]) for fact in await caller.facts("all"))


async def cut_while_thinking(far: Far, alice: Caller, pace: Pace, seconds: float) -> None:
    far.extractor.hold()
    await post(alice, "first", "plan: Pro")
    async with working(far.core, pace=pace):
        await asyncio.wait_for(far.extractor.started.wait(), 15)
        far.wire.cut()
        async with working(reading(alice.world.core, FakeExtractor()), pace=pace):
            await until(is_done(alice, "first"), within=90)
        far.extractor.go_on.set()  # and now it wants to save what was saved
        await asyncio.sleep(seconds)
        far.wire.mend()

        await post(alice, "second", "team: data")
        await until(is_done(alice, "second"), within=60)

    assert len(far.extractor.calls) == 2
    assert await learned(alice) == [("plan: Pro", 0), ("team: data", 0)]


async def cut_while_saving(far: Far, alice: Caller, pace: Pace, seconds: float) -> None:
    """Cut in the middle of the last transaction, whose locks nobody gives back."""
    await post(alice, "first", "plan: Pro")
    waits = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
    with psycopg.connect(alice.world.urls.superuser) as in_the_way:
        in_the_way.execute("lock table memory_fact in exclusive mode")
        async with working(far.core, pace=pace):
            await until(lambda: alice.world.rows(waits) != [(0,)])
            far.wire.cut()
            in_the_way.rollback()
            async with working(reading(alice.world.core, FakeExtractor()), pace=pace):
                await until(is_done(alice, "first"), within=90)
            await asyncio.sleep(seconds)
            far.wire.mend()

            await post(alice, "second", "team: data")
            await until(is_done(alice, "second"), within=60)

    assert await learned(alice) == [("plan: Pro", 0), ("team: data", 0)]


async def test_cut_off_in_the_middle_of_a_job_it_loses_it_to_another_and_comes_back(far, alice):
    await cut_while_thinking(far, alice, SOON, seconds=2)


async def test_cut_off_in_the_middle_of_a_commit_its_locks_end_too(far, alice):
    await cut_while_saving(far, alice, SOON, seconds=0)


async def test_cut_off_while_it_has_nothing_to_do_it_comes_back(far, alice):
    async with working(far.core, pace=SOON):
        await post(alice, "first", "plan: Pro")
        await until(is_done(alice, "first"))
        far.wire.cut()
        await post(alice, "second", "team: data")
        await asyncio.sleep(3)
        assert not is_done(alice, "second")()
        far.wire.mend()
        await until(is_done(alice, "second"), within=15)

    assert await learned(alice) == [("plan: Pro", 0), ("team: data", 0)]


@pytest.mark.soak
@pytest.mark.timeout(400)
@pytest.mark.parametrize("cut", [cut_while_thinking, cut_while_saving])
async def test_cut_off_for_half_a_minute_another_takes_its_job_over_within_ninety(far, alice, cut):
    await cut(far, alice, Pace(), seconds=30)
