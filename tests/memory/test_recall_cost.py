"""What one recall costs: round trips, statements, embedding calls; and what a slow part costs."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace

import psycopg
import pytest
from cachetools import TTLCache

from app.db import Database
from app.lines import Line, statement
from app.memory.core import Core
from app.memory.recall import Question, recall
from app.memory.recall_log import RecallLog
from app.trip import trip
from tests.planting import Planted, embedded, plant
from tests.world import Caller


@dataclass
class Bill:
    """What was used: statements of each round trip, texts of each embedding call."""

    trips: list[list[str]] = field(default_factory=list)
    embedded: list[list[str]] = field(default_factory=list)

    @property
    def cost(self) -> tuple[int, int]:
        return len(self.trips), len(self.embedded)


class SlowEmbedder:
    """The local embedder, billed; a text with `slow` in it takes a second."""

    def __init__(self, embedder, bill: Bill) -> None:
        self._embedder = embedder
        self._bill = bill

    def __getattr__(self, name: str):
        return getattr(self._embedder, name)

    async def embed(self, texts, purpose="fact"):
        self._bill.embedded.append(list(texts))
        if any("slow" in text for text in texts):
            await asyncio.sleep(1)
        return await self._embedder.embed(texts, purpose)


@contextmanager
def billed(bill: Bill) -> Iterator[None]:
    """Count at the seam to libpq: each call sends everything, then waits once."""
    send = Line.exchange

    async def counted(line, calls):
        statements = [call.query.decode() for call, _ in calls]
        # What is written in batches is on nobody's path, and may fall into any second.
        if not any("recall_log" in statement for statement in statements):
            bill.trips.append(statements)
        return await send(line, calls)

    Line.exchange = counted  # type: ignore[method-assign]
    try:
        yield
    finally:
        Line.exchange = send  # type: ignore[method-assign]


@asynccontextmanager
async def process(caller: Caller, bill: Bill, **changes) -> AsyncIterator[Core]:
    core = replace(
        caller.world.core,
        people=TTLCache(100, 60),
        asked=TTLCache(100, 60),
        recalls=RecallLog(),
        embedder=SlowEmbedder(caller.world.core.embedder, bill),
        **changes,
    )
    yield core
    await core.recalls.aclose(core.db)


@pytest.fixture
async def drinker(alice: Caller) -> Caller:
    plant(
        alice,
        *await embedded(alice, Planted("Likes tea."), Planted("Answer briefly.", "constraint")),
    )
    return alice


async def test_a_recall_is_one_round_trip_and_one_embedding_call(drinker: Caller):
    bill = Bill()
    async with process(drinker, bill) as core:
        await recall(core, drinker.tenant_id, drinker.user, Question("warms the directory"))
        with billed(bill):
            bill.embedded.clear()
            await recall(core, drinker.tenant_id, drinker.user, Question("Tea? I like it. Do I?"))
    assert bill.cost == (1, 1)
    begin, enter, _, commit = bill.trips[0]
    assert (begin, commit) == ("begin", "commit")
    assert "app.enter_tenant" in enter
    assert len(bill.embedded[0]) > 1  # its sentences travel in the same call


async def test_the_first_recall_of_a_user_looks_the_directory_up_once(drinker: Caller):
    bill = Bill()
    async with process(drinker, bill) as core:
        with billed(bill):
            await recall(core, drinker.tenant_id, drinker.user, Question("tea"))
    assert bill.cost == (2, 1)


async def test_freezing_a_session_costs_one_trip_more_and_a_frozen_one_embeds_nothing(
    drinker: Caller,
):
    bill = Bill()
    async with process(drinker, bill) as core:
        await recall(core, drinker.tenant_id, drinker.user, Question("warms the directory"))
        bill.embedded.clear()
        with billed(bill):
            await recall(core, drinker.tenant_id, drinker.user, Question("tea", "s"))
            assert bill.cost == (2, 1)
            again = await recall(core, drinker.tenant_id, drinker.user, Question("coffee", "s"))
    assert again.frozen
    assert bill.cost == (3, 1)


async def test_recall_writes_nothing_on_its_path_but_the_frozen_row(drinker: Caller):
    bill = Bill()
    async with process(drinker, bill) as core:
        with billed(bill):
            await recall(core, drinker.tenant_id, drinker.user, Question("tea", "s"))
    written = [
        statement.split()[:3]
        for trip in bill.trips
        for statement in trip
        if statement.split()[0] in {"insert", "update", "delete"}
    ]
    assert written == [["insert", "into", "frozen_block"]]


async def test_one_slow_embedding_holds_up_nobody_else(drinker: Caller):
    async with process(drinker, Bill()) as core:
        slow = asyncio.create_task(
            recall(core, drinker.tenant_id, drinker.user, Question("a slow one"))
        )
        await asyncio.sleep(0.05)
        started = time.perf_counter()
        for n in range(5):
            await recall(core, drinker.tenant_id, drinker.user, Question(f"tea {n}"))
        assert time.perf_counter() - started < 0.8
        assert not slow.done()
        await slow


async def test_after_the_deadline_recall_answers_without_embeddings(drinker: Caller):
    async with process(drinker, Bill(), recall_deadline=0.05) as core:
        started = time.perf_counter()
        answer = await recall(core, drinker.tenant_id, drinker.user, Question("slow tea"))
    assert time.perf_counter() - started < 0.9
    assert answer.degraded == "deadline"
    assert {fact.text for fact in answer.facts} == {"Likes tea.", "Answer briefly."}


async def test_connections_that_died_are_replaced_within_the_same_recall(drinker: Caller):
    world = drinker.world
    db = Database(world.urls.service, pool_size=3)
    await db.open()
    try:
        async with process(drinker, Bill(), db=db) as core:
            ask = [recall(core, drinker.tenant_id, drinker.user, Question("tea")) for _ in range(3)]
            await asyncio.gather(*ask)
            idle = [*db.pool._pool, *(line.connection for line in db.lines._idle)]
            assert len(idle) == 3
            pids = [connection.info.backend_pid for connection in idle]
            with psycopg.connect(world.urls.superuser, autocommit=True) as connection:
                for pid in pids:
                    connection.execute("select pg_terminate_backend(%s, 1000)", (pid,))
            answer = await recall(core, drinker.tenant_id, drinker.user, Question("tea"))
    finally:
        await db.close()
    assert "Likes tea." in {fact.text for fact in answer.facts}


async def test_connections_that_forgot_their_statements_are_replaced_within_the_same_recall(
    drinker: Caller,
):
    db = Database(drinker.world.urls.service, pool_size=1)
    await db.open()
    try:
        async with process(drinker, Bill(), db=db) as core:
            await recall(core, drinker.tenant_id, drinker.user, Question("tea"))
            async with db.pool.connection() as connection:
                await connection.execute("deallocate all")
            answer = await recall(core, drinker.tenant_id, drinker.user, Question("tea"))
    finally:
        await db.close()
    assert "Likes tea." in {fact.text for fact in answer.facts}


async def test_nobody_who_waits_for_a_connection_is_overtaken_by_who_asks_again(drinker: Caller):
    db = Database(drinker.world.urls.service, pool_size=2, pool_timeout=0.5)
    await db.open()
    trips = [0] * 4

    async def ask(caller: int) -> None:
        until = time.monotonic() + 1
        while time.monotonic() < until:
            await trip(db, drinker.tenant_id, (statement("select pg_sleep(0.005)"), {}))
            trips[caller] += 1

    try:
        await asyncio.gather(*map(ask, range(4)))
    finally:
        await db.close()
    assert min(trips) > max(trips) / 2


async def test_a_database_that_does_not_answer_is_given_up_within_two_seconds(drinker: Caller):
    db = Database(drinker.world.urls.service, pool_size=2)
    await db.open()
    try:
        async with process(drinker, Bill(), db=db) as core:
            await recall(core, drinker.tenant_id, drinker.user, Question())
            with psycopg.connect(drinker.world.urls.superuser) as blocker:
                blocker.execute("lock table memory_fact in access exclusive mode")
                started = time.perf_counter()
                with pytest.raises(psycopg.OperationalError):
                    await recall(core, drinker.tenant_id, drinker.user, Question())
                assert time.perf_counter() - started < 2
                blocker.rollback()
            answer = await recall(core, drinker.tenant_id, drinker.user, Question())
    finally:
        await db.close()
    assert "Answer briefly." in {fact.text for fact in answer.facts}


async def test_it_works_without_prepared_statements(drinker: Caller):
    db = Database(drinker.world.urls.service, pool_size=2, prepared_statements=False)
    await db.open()
    try:
        async with process(drinker, Bill(), db=db) as core:
            answers = [
                await recall(core, drinker.tenant_id, drinker.user, Question("tea", "s"))
                for _ in range(3)
            ]
    finally:
        await db.close()
    assert [answer.frozen for answer in answers] == [False, True, True]


async def test_no_transaction_is_left_open(drinker: Caller):
    for n in range(5):
        await drinker.block(f"tea {n}", session=f"s{n}")
    assert drinker.world.rows(
        "select count(*) from pg_stat_activity where starts_with(state, 'idle in transaction')"
    ) == [(0,)]
