"""The database is away, or its connections are used up: a short wait and a clear answer."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import psycopg
import pytest

from app.db import Database
from app.memory.core import Core
from app.memory.recall_log import RecallLog
from tests.api.test_errors import check_problem
from tests.fakes import FakeExtractor, reading, silence, until, working
from tests.world import Caller, Urls, World


@asynccontextmanager
async def small(world: World, size: int = 2) -> AsyncIterator[tuple[World, Core]]:
    """The same service over few connections, for which nobody waits long."""
    db = Database(world.urls.service, pool_size=size, pool_timeout=0.5)
    await db.open()
    core = replace(world.core, db=db, recalls=RecallLog())
    try:
        async with world.over(core) as opened:
            yield opened, core
    finally:
        await core.recalls.aclose(db)
        await db.close()


def at(world: World, caller: Caller) -> Caller:
    return Caller(world, caller.tenant_id, caller.key, caller.user)


@asynccontextmanager
async def crowded(core: Core, caller: Caller, size: int) -> AsyncIterator[None]:
    """All connections for ordinary requests are busy."""
    async with AsyncExitStack() as stack:
        for _ in range(size):
            await stack.enter_async_context(core.db.tenant(caller.tenant_id))
        yield


async def test_a_full_pool_is_a_short_wait_and_503(alice: Caller):
    async with small(alice.world) as (world, core):
        caller = at(world, alice)
        assert (await caller.get("/facts")).status_code == 200
        async with crowded(core, alice, 2):
            started = time.monotonic()
            answer = await caller.get("/facts")
            took = time.monotonic() - started
        check_problem(answer, 503, "unavailable")
        assert int(answer.headers["retry-after"]) >= 1
        assert took < 2
        assert (await caller.get("/facts")).status_code == 200


async def test_whoever_wants_to_be_erased_does_not_wait_behind_a_crowd(alice: Caller):
    async with small(alice.world) as (world, core):
        caller = at(world, alice)
        await caller.post("/facts", {"text": "Likes tea.", "kind": "preference"})
        async with crowded(core, alice, 2):
            export = await caller.get("/export")
            erased = await caller.delete("")
        assert "Likes tea." in export.text
        assert (erased.status_code, erased.json()["counts"]["memory_fact"]) == (200, 1)
        assert await caller.facts() == []


async def test_fifty_recalls_and_twenty_slow_extractions_share_five_connections(alice: Caller):
    silence(alice.world)
    extractor = FakeExtractor()
    extractor.hold()
    async with small(alice.world, 5) as (world, core):
        users = [at(world, alice).of(f"user {n}") for n in range(20)]
        for user in users:
            body = {"messages": [{"role": "user", "content": "plan: Pro"}]}
            assert (await user.post("/transcripts", body)).status_code == 202
        async with working(reading(core, extractor), concurrency=20):
            await until(lambda: extractor.under_way == 20, within=60)

            async def ask(n: int) -> tuple[int, float]:
                started = time.monotonic()
                answer = await users[n % 20].get("/memory", params={"query": f"plan {n}"})
                if answer.status_code == 503:
                    assert answer.headers["retry-after"]
                return answer.status_code, time.monotonic() - started

            answers = await asyncio.gather(*map(ask, range(50)))
            ((oldest,),) = world.rows(
                "select coalesce(max(extract(epoch from now() - xact_start)), 0)"
                " from pg_stat_activity where state like 'idle in transaction%%'"
            )
            extractor.go_on.set()
    silence(alice.world)
    assert {status for status, _ in answers} <= {200, 503}
    assert sum(status == 200 for status, _ in answers) >= 5
    # Two seconds are promised; the rest is for a machine that does other things too.
    assert max(took for _, took in answers) < 8
    assert oldest < 5


@pytest.fixture
def door(urls: Urls):
    """Shut the database to everybody, and open it again."""
    name = psycopg.conninfo.conninfo_to_dict(urls.superuser)["dbname"]
    beside = psycopg.conninfo.make_conninfo(urls.superuser, dbname="postgres")

    def turn(*, is_open: bool) -> None:
        with psycopg.connect(beside, autocommit=True) as connection:
            connection.execute(f'alter database "{name}" allow_connections {is_open}')
            if not is_open:
                connection.execute(
                    "select pg_terminate_backend(pid, 2000) from pg_stat_activity"
                    " where datname = %s",
                    (name,),
                )

    yield turn
    turn(is_open=True)


async def test_without_its_database_the_service_says_so_and_comes_back_by_itself(
    alice: Caller, door
):
    said = {"messages": [{"role": "user", "content": "I live in Lisbon."}]}
    async with small(alice.world) as (world, _):
        caller = at(world, alice)
        assert (await caller.post("/transcripts", said)).status_code == 202

        door(is_open=False)
        for call in (
            caller.post("/transcripts", said),
            caller.get("/memory"),
            caller.get("/facts"),
            caller.delete(""),
        ):
            started = time.monotonic()
            answer = await call
            check_problem(answer, 503, "unavailable")
            assert answer.headers["retry-after"]
            assert time.monotonic() - started < 5
        ready = await world.http.get("/readyz")
        assert (ready.status_code, ready.json()["checks"]["database"]) == (503, "failed")
        assert (await world.http.get("/livez")).status_code == 200
        numbers = (await world.http.get("/metrics")).text
        assert 'usermem_check{check="database"} 2.0' in numbers

        door(is_open=True)

        async def is_back() -> bool:
            return (await caller.get("/memory")).status_code == 200

        await until(is_back, within=10)
        assert (await caller.post("/transcripts", said)).status_code == 202
        assert (await world.http.get("/readyz")).status_code == 200
    waiting = "select count(*) from message where tenant_id = %s"
    assert alice.world.rows(waiting, alice.tenant_id) == [(2,)]
