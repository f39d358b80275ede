"""The queue and its workers: who may end a job, who takes over, and who waits for whom."""

import asyncio
import json
import logging
import random
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
import structlog
from cachetools import TTLCache
from procrastinate.jobs import Status

from app.db import Scope
from app.memory import extract, overdue
from app.memory.jobs import defer_embed
from app.worker import build_queue
from tests.fakes import FAST, FakeEmbedder, FakeExtractor, drain, reading, silence, until, working
from tests.world import Caller, World

NO_POLL = replace(FAST, poll=600)


@pytest.fixture(autouse=True)
def _alone(world):
    silence(world)


@pytest.fixture
def extractor():
    return FakeExtractor()


@pytest.fixture
def core(world, extractor):
    return reading(world.core, extractor)


async def post(caller: Caller, text: str, session: str | None = None) -> str:
    session = session or uuid4().hex
    body = {"session": session, "messages": [{"role": "user", "content": text}]}
    answer = await caller.post("/transcripts", body)
    assert answer.status_code == 202, answer.text
    return session


def is_done(caller: Caller, count: int = 1):
    query = "select count(*) from memory_session where tenant_id = %s and status = 'done'"
    return lambda: caller.world.rows(query, caller.tenant_id) == [(count,)]


def jobs(world: World) -> list[tuple[Any, ...]]:
    return world.rows("select status::text, worker_id from procrastinate_jobs order by id")


async def test_worker_that_was_presumed_dead_cannot_end_the_job_of_its_successor(core, alice):
    await post(alice, "plan: Pro")
    queue = build_queue(core)
    async with queue.open_async(core.db.pool):
        manager = queue.job_manager
        first, second = await manager.register_worker(), await manager.register_worker()
        stale = await manager.fetch_job(None, first)
        alice.world.execute("delete from procrastinate_workers where id = %s", first)
        for job in await manager.get_stalled_jobs(seconds_since_heartbeat=30):
            await manager.retry_job(job)
        taken = await manager.fetch_job(None, second)
        assert stale
        assert taken
        assert stale.id == taken.id

        await manager.finish_job(stale, Status.SUCCEEDED, delete_job=True)
        assert jobs(alice.world) == [("doing", second)]
        await manager.retry_job(stale)
        assert jobs(alice.world) == [("doing", second)]
        await manager.finish_job(taken, Status.SUCCEEDED, delete_job=True)
        assert jobs(alice.world) == []


async def test_second_rescuer_leaves_alone_what_the_first_gave_back(core, alice):
    await post(alice, "plan: Pro")
    queue = build_queue(core)
    async with queue.open_async(core.db.pool):
        manager = queue.job_manager
        dead, living = await manager.register_worker(), await manager.register_worker()
        await manager.fetch_job(None, dead)
        alice.world.execute(
            "update procrastinate_workers set last_heartbeat = now() - interval '1 hour'"
            " where id = %s",
            dead,
        )
        (seen_by_one,) = await manager.get_stalled_jobs()
        (seen_by_other,) = await manager.get_stalled_jobs()

        await manager.retry_job(seen_by_one)
        await manager.fetch_job(None, living)
        await manager.retry_job(seen_by_other)

        assert jobs(alice.world) == [("doing", living)]


async def test_failing_job_whose_twin_waits_goes_instead_of_staying_doing(core, alice):
    await post(alice, "plan: Pro")
    ((user,),) = alice.world.rows(
        "select user_id from memory_session where tenant_id = %s", alice.tenant_id
    )
    silence(alice.world)
    scope = Scope(alice.tenant_id, user)
    queue = build_queue(core)

    async def defer() -> None:
        async with core.db.tenant(alice.tenant_id) as tx:
            at = alice.world.rows("select now()")[0][0]
            await defer_embed(tx, scope, at)

    async with queue.open_async(core.db.pool):
        manager = queue.job_manager
        worker = await manager.register_worker()
        await defer()
        job = await manager.fetch_job(None, worker)
        assert job
        await defer()

        await manager.retry_job(job)

    assert [status for status, _ in jobs(alice.world)] == ["todo"]


class _Broken(TTLCache[Any, Any]):
    """Policies that can't be read: a fault of the infrastructure, not of a session."""

    def get(self, key: Any, default: Any = None) -> Any:
        del key, default
        raise ConnectionError("the words of the user")


async def test_infrastructure_fault_blocks_nobody_and_is_made_good(core, alice):
    broken = replace(core, policies=_Broken(1, 1))
    await post(alice, "plan: Pro", "s")
    await drain(alice.world, broken)
    assert jobs(alice.world) == [], "no retry may wait with the user's lock"

    await post(alice, "dog: Rex")
    await drain(alice.world, core)
    assert await alice.texts() == ["dog: Rex"]

    alice.world.execute(
        "update memory_session set extract_after = now() - interval '2 minutes'"
        " where external_id = 's' and tenant_id = %s",
        alice.tenant_id,
    )
    assert await overdue.wake(core.db) == 1
    await drain(alice.world, core)
    assert await alice.texts() == ["dog: Rex", "plan: Pro"]


async def test_job_lost_during_extraction_is_made_good_when_the_lease_ends(core, alice):
    await post(alice, "plan: Pro")
    alice.world.execute(
        "update memory_session set status = 'extracting', attempt = 1,"
        " extract_after = now() - interval '2 minutes' where tenant_id = %s",
        alice.tenant_id,
    )
    alice.world.execute("delete from procrastinate_jobs")

    async with working(core):
        await until(is_done(alice))

    assert await alice.texts() == ["plan: Pro"]


async def test_lease_is_extended_while_the_extractor_is_slow(core, alice, extractor, monkeypatch):
    # The one constant that a test can't wait for.
    monkeypatch.setattr(extract, "LEASE", timedelta(seconds=0.6))
    query = "select extract_after from memory_session where tenant_id = %s"
    extractor.hold()
    async with working(core):
        await post(alice, "plan: Pro")
        await extractor.started.wait()
        ((first,),) = alice.world.rows(query, alice.tenant_id)
        await until(lambda: alice.world.rows(query, alice.tenant_id)[0][0] > first)
        extractor.go_on.set()
        await until(is_done(alice))


async def test_next_session_of_a_user_starts_at_once_when_the_first_is_done(core, alice):
    async with working(core, pace=NO_POLL):
        for n in range(4):
            await post(alice, f"plan: {n}")
        await until(is_done(alice, 4), within=20)


async def test_sessions_of_one_user_run_alone_and_block_no_other_user(core, alice, extractor):
    extractor.hold()
    async with working(core, concurrency=4):
        for n in range(3):
            await post(alice, f"plan: {n}")
            await post(alice.of("bob"), f"plan: {n}")
        await until(lambda: extractor.under_way == 2)
        await asyncio.sleep(0.5)
        assert extractor.most_under_way == 2, "one of each user"
        extractor.go_on.set()
        await until(is_done(alice, 6))


async def test_job_of_a_dead_worker_is_taken_over(core, alice):
    await post(alice, "plan: Pro")
    queue = build_queue(core)
    async with queue.open_async(core.db.pool):
        await queue.job_manager.fetch_job(None, await queue.job_manager.register_worker())

    async with working(core):
        await until(is_done(alice))

    assert jobs(alice.world) == []


async def test_stopping_worker_finishes_what_it_does(core, alice, extractor):
    extractor.hold()
    async with working(core) as worker:
        await post(alice, "plan: Pro")
        await extractor.started.wait()
        worker.stop()
        await asyncio.sleep(0.1)
        extractor.go_on.set()

    assert is_done(alice)()
    assert jobs(alice.world) == []


async def test_job_that_outlasts_the_stop_is_handed_to_the_next_worker(core, alice, extractor):
    extractor.hold()
    async with working(core, pace=replace(FAST, drain=0.3)):
        await post(alice, "plan: Pro")
        await extractor.started.wait()
    assert [status for status, _ in jobs(alice.world)] == ["todo"]

    extractor.go_on.set()
    await drain(alice.world, core)

    assert await alice.texts() == ["plan: Pro"]


async def test_worker_works_on_after_the_database_dropped_every_connection(core, alice):
    kill = (
        "select count(pg_terminate_backend(pid)) from pg_stat_activity"
        " where datname = current_database() and pid <> pg_backend_pid()"
    )
    async with working(core):
        for n in range(3):
            alice.world.rows(kill)
            await asyncio.sleep(0.2)
            alice.world.rows(kill)
            await core.db.pool.check()
            await asyncio.sleep(0.2)
            await post(alice, f"plan: {n}")
            await until(is_done(alice, n + 1), within=30)


async def test_cancelled_at_any_moment_a_session_is_still_extracted_once(core, alice):
    for n in range(12):
        await post(alice, f"plan: {n}", f"s{n}")
        query = "select user_id, id from memory_session where tenant_id = %s and external_id = %s"
        ((user, session),) = alice.world.rows(query, alice.tenant_id, f"s{n}")
        scope = Scope(alice.tenant_id, user)
        task = asyncio.create_task(extract.extract_session(core, scope, session))
        await asyncio.sleep(random.uniform(0, 0.15))  # noqa: S311 - a moment, not a secret
        task.cancel()
        await asyncio.wait({task})

        await extract.extract_session(core, scope, session)

    stuck = "select count(*) from pg_stat_activity where state like 'idle in transaction%%'"
    assert alice.world.rows(stuck) == [(0,)]
    everything = await alice.texts("all")
    assert everything == sorted(f"plan: {n}" for n in range(12))


async def test_facts_without_a_vector_get_one_when_the_embedder_is_back(core, alice, extractor):
    embedder = FakeEmbedder()
    embedder.is_down = True
    down = reading(core, extractor, embedder=embedder)
    without = "select count(*) from memory_fact where tenant_id = %s and embedding is null"
    await post(alice, "plan: Pro")
    await drain(alice.world, down)
    assert alice.world.rows(without, alice.tenant_id) == [(1,)]

    for is_down in (True, False):
        embedder.is_down = is_down
        alice.world.execute("update procrastinate_jobs set scheduled_at = null")
        await alice.world.drain(down)

    assert alice.world.rows(without, alice.tenant_id) == [(0,)]
    assert jobs(alice.world) == []


async def test_queue_holds_random_ids_and_nothing_else(core, alice):
    await post(alice, "plan: Pro")
    turns = [{"role": "user", "content": "plan: Max"}]
    await alice.post("/sessions/canary/messages", {"messages": turns})

    for args, lock, twin in alice.world.rows(
        "select args, lock, queueing_lock from procrastinate_jobs"
    ):
        assert set(args) == {"tenant_id", "user_id", "session_id"}
        words = [*args.values(), *([lock] if lock else []), twin.partition(":")[2]]
        assert all(len(word) == 32 and int(word, 16) >= 0 for word in words)


async def test_no_log_repeats_what_a_user_said_however_extraction_fails(
    core, alice, extractor, caplog
):
    canary = "xylophone-canary"
    extractor.fails_with = [RuntimeError(canary)]
    async with working(core):
        await post(alice, f"plan: {canary}")
        await until(lambda: not extractor.fails_with)
        await asyncio.sleep(0.3)
    await post(alice, f"dog: {canary}")
    await drain(alice.world, replace(core, policies=_Broken(1, 1)))

    ours = [handler.formatter for handler in logging.getLogger().handlers]
    (formatter,) = [f for f in ours if isinstance(f, structlog.stdlib.ProcessorFormatter)]
    lines = [formatter.format(record) for record in caplog.records]
    events = {json.loads(line)["event"] for line in lines}
    assert {"extraction_failed", "job_failed"} <= events
    assert not [line for line in lines if canary in line or "the words of the user" in line]
