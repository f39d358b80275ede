"""Lines to Postgres under faults: nobody gets another's answer, nothing hangs, none is lost."""

import asyncio
import os
import random
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
import uvloop

from app.db import Database
from app.lines import Line, NoAnswer, statement
from app.trip import trip
from tests.world import Urls

WHO = statement("select %(me)s::text, current_setting('app.tenant_id')")
SLOW = statement("select %(me)s::text from pg_sleep(%(seconds)s::float8)")
LONG = statement("select repeat(%(me)s::text, %(times)s::integer), %(much)s::text")
PID = statement("select pg_backend_pid()")
BAD = statement("select %(me)s::text::integer")

KILL = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = %s"


@asynccontextmanager
async def database(urls: Urls, name: str = "", **options: Any) -> AsyncIterator[Database]:
    """One whose connections can be told from others by their name."""
    db = Database(urls.service, **options)
    assert isinstance(db.pool.kwargs, dict)
    db.pool.kwargs["application_name"] = name or "lines"
    await db.open()
    try:
        yield db
    finally:
        await db.close()


async def who(db: Database, tenant_id: UUID | None = None) -> tuple[UUID, bool]:
    """Ask in a tenant's name; tell whether the answer was its own."""
    tenant_id = tenant_id or uuid4()
    (rows,) = await trip(db, tenant_id, (WHO, {"me": str(tenant_id)}))
    return tenant_id, rows == [(str(tenant_id), str(tenant_id))]


async def all_work_at_once(db: Database, size: int) -> bool:
    """Whether as many as there are connections are served side by side: none was lost."""
    for _ in range(4):  # it may have to connect first, on a busy machine
        started = time.monotonic()
        asks = [trip(db, uuid4(), (SLOW, {"me": "me", "seconds": 0.3})) for _ in range(size)]
        await asyncio.gather(*asks)
        if time.monotonic() - started < 0.55:
            return True
    return False


@pytest.mark.parametrize("held", [0, 1])
async def test_who_waits_for_a_connection_is_served_by_every_line_that_comes_back(
    urls: Urls, held: int
):
    async with database(urls, pool_size=4 - 2 * held, pool_timeout=1) as db:
        others = [await db.pool.getconn() for _ in range(held)]

        async def ask_on() -> None:
            until = time.monotonic() + 1.3
            while time.monotonic() < until:
                assert (await who(db))[1]

        await asyncio.gather(*(ask_on() for _ in range(12)))
        for connection in others:
            await db.pool.putconn(connection)


@pytest.mark.parametrize("size", [1, 2, 5])
async def test_nobody_gets_what_somebody_asked_who_gave_up(urls: Urls, size: int):
    chance = random.Random(size)  # noqa: S311 - the same each time
    done = 0

    async with database(urls, pool_size=size) as db:
        for _ in range(25):
            asks = [asyncio.create_task(who(db)) for _ in range(16)]
            for _ in range(16):
                for _ in range(chance.randrange(8)):
                    await asyncio.sleep(0)
                task = chance.choice(asks)
                task.cancel()
                if chance.random() < 0.5:  # again, while it cleans up
                    await asyncio.sleep(0)
                    task.cancel()
            for answer in await asyncio.gather(*asks, return_exceptions=True):
                if not isinstance(answer, asyncio.CancelledError):
                    assert not isinstance(answer, BaseException)
                    assert answer[1]
                    done += 1
        assert await all_work_at_once(db, size)
        assert db.pool.get_stats()["pool_size"] <= size
    assert done > 50


async def test_an_asker_who_gives_up_at_any_step_leaves_nothing_behind(urls: Urls):
    async with database(urls, pool_size=2) as db:
        await who(db)
        for steps in range(40):
            task = asyncio.create_task(who(db))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            assert (await who(db))[1]


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_backends_that_end_all_the_time_cost_no_connection_and_no_patience(urls: Urls, run: Any):
    async def act() -> None:
        async with database(urls, name := f"ending {run.__module__}", pool_size=4) as db:
            ended = silent = 0
            admin = await psycopg.AsyncConnection.connect(urls.superuser, autocommit=True)

            async def ask_on() -> None:
                nonlocal silent
                while ended < 150:
                    try:
                        assert (await who(db))[1]
                    except psycopg.OperationalError as error:  # its second line ended too
                        silent += isinstance(error, NoAnswer)

            asking = [asyncio.create_task(ask_on()) for _ in range(6)]
            while ended < 150:
                ended += (await admin.execute(f"{KILL} limit 1", (name,))).rowcount
                await asyncio.sleep(0.005)
            await asyncio.gather(*asking)
            await admin.close()
            assert not silent
            await asyncio.sleep(0.3)
            assert await all_work_at_once(db, 4)
            assert db.pool.get_stats()["pool_size"] <= 4

    run(act())


async def test_lines_whose_backends_ended_take_no_time_of_the_processor(urls: Urls):
    async with database(urls, "resting", pool_size=6) as db:
        await asyncio.gather(*(who(db) for _ in range(6)))
        with psycopg.connect(urls.superuser, autocommit=True) as admin:
            admin.execute(KILL, ("resting",))
        await asyncio.sleep(0.3)
        before = time.process_time()
        await asyncio.sleep(0.5)
        assert time.process_time() - before < 0.1
        assert (await who(db))[1]


class SendFailed:
    """A libpq whose send failed while there was something to read.

    It then owes no answer, gives none for ever, and calls the connection well.
    """

    def __init__(self, line: Line) -> None:
        self._line = line
        self._pgconn = line._pgconn

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pgconn, name)

    def flush(self) -> int:
        asyncio.get_running_loop().call_soon(self._line._read)
        return 0

    def is_busy(self) -> bool:
        return False

    def get_result(self) -> None:
        return None


@pytest.mark.timeout(20)
async def test_a_line_that_will_never_answer_is_left_and_not_asked_for_ever(urls: Urls):
    async with database(urls, pool_size=2) as db:
        await who(db)
        [line] = db.lines._idle
        line._pgconn = SendFailed(line)  # type: ignore[assignment]
        assert (await who(db))[1]


async def test_an_answer_nobody_was_told_of_is_found(urls: Urls):
    """As uvloop tells of no error, and of nothing before a timer when the loop stood still."""
    async with database(urls, pool_size=2) as db:
        await who(db)
        [line] = db.lines._idle
        line._loop.remove_reader(line._socket)
        assert (await who(db))[1]
        stood = asyncio.create_task(trip(db, uuid4(), (SLOW, {"me": "me", "seconds": 0.05})))
        await asyncio.sleep(0.02)
        time.sleep(1.7)  # noqa: ASYNC251 - as a busy process would
        await stood


async def test_a_backend_that_stands_still_is_given_up_soon_and_left(urls: Urls):
    async with database(urls, pool_size=2) as db:
        (((pid,),),) = await trip(db, uuid4(), (PID, {}))
        os.kill(pid, signal.SIGSTOP)
        try:
            started = time.monotonic()
            with pytest.raises(NoAnswer):
                await who(db)
            assert time.monotonic() - started < 2
            assert (await who(db))[1]
        finally:
            os.kill(pid, signal.SIGCONT)
        assert await all_work_at_once(db, 2)


async def test_more_than_a_socket_holds_goes_both_ways_at_once(urls: Urls):
    async with database(urls, pool_size=4) as db:

        async def long(tenant_id: UUID) -> bool:
            me, much = str(tenant_id), "w" * 3_000_000
            values = {"me": me, "times": 100_000, "much": much}
            answers = await trip(db, tenant_id, (LONG, values), (LONG, values))
            return answers == [[(me * 100_000, much)]] * 2

        assert all(await asyncio.gather(*(long(uuid4()) for _ in range(6))))
        asks = [asyncio.create_task(long(uuid4())) for _ in range(6)]
        for task in asks[::2]:
            await asyncio.sleep(0.01)
            task.cancel()
        assert all(await asyncio.gather(*asks[1::2]))


async def test_a_statement_that_fails_spoils_nothing_for_the_next(urls: Urls):
    async with database(urls, pool_size=2) as db:
        for _ in range(5):
            with pytest.raises(psycopg.errors.InvalidTextRepresentation):
                await trip(db, uuid4(), (WHO, {"me": "me"}), (BAD, {"me": "x"}))
            with pytest.raises(UnicodeEncodeError):  # before anything of it is sent
                await trip(db, uuid4(), (WHO, {"me": "\ud83d"}))
            assert (await who(db))[1]
        assert await all_work_at_once(db, 2)


async def test_closing_waits_for_nobody_and_leaves_no_connection(urls: Urls):
    async with database(urls, "closing", pool_size=4) as db:
        await asyncio.gather(*(who(db) for _ in range(4)))
        under_way = [
            asyncio.create_task(trip(db, uuid4(), (SLOW, {"me": "me", "seconds": 0.2})))
            for _ in range(8)
        ]
        await asyncio.sleep(0.05)
        await db.close()
        ends = await asyncio.gather(*under_way, return_exceptions=True)
        assert all(isinstance(end, list | psycopg.OperationalError) for end in ends)
        with pytest.raises(psycopg.OperationalError):
            await who(db)
    await asyncio.sleep(0.1)
    count = "select count(*) from pg_stat_activity where application_name = 'closing'"
    with psycopg.connect(urls.superuser) as admin:
        assert admin.execute(count).fetchone() == (0,)
