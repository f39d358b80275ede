"""Stand-ins behind the seams, and the handling of sessions and workers that several tests share.

Nothing else is ever faked: queue, database, HTTP and processes are real.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

import numpy as np

from app.embeddings import EmbedderError, Vector
from app.embeddings.seam import Purpose, State, unit
from app.llm import Candidate, Extraction, Judgement, Kind, Pair, Relation, Statement, Turn, Verdict
from app.memory.core import Core
from app.memory.policy import Policy, write_policy
from app.worker import Pace, Worker
from tests.world import World

FAST = Pace(heartbeat=0.2, dead_after=1.2, drain=10, poll=0.2, care=0.2, restart=0.1)
"""A worker that loses no time, so that tests needn't either."""


class FakeExtractor:
    """Reads "subject: value" from each line, or whatever `script` makes of the turns."""

    name = "fake/1"

    def __init__(self, script: Callable[[Sequence[Turn]], Sequence[Candidate]] | None = None):
        self.script = script or lines
        self.calls: list[Sequence[Turn]] = []
        self.known: list[Sequence[Statement]] = []
        self.started = asyncio.Event()
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.under_way = 0
        self.most_under_way = 0
        self.fails_with: list[Exception] = []

    async def extract(
        self, turns: Sequence[Turn], known: Sequence[Statement], *, instructions: str | None = None
    ) -> Extraction:
        del instructions
        self.calls.append(turns)
        self.known.append(known)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        self.started.set()
        try:
            await self.go_on.wait()
            if self.fails_with:
                raise self.fails_with.pop(0)
            return Extraction(self.script(turns))
        finally:
            self.under_way -= 1

    def hold(self) -> None:
        """Let the next call wait until `go_on` is set."""
        self.started.clear()
        self.go_on.clear()


def lines(turns: Sequence[Turn]) -> list[Candidate]:
    """Make one candidate of each line "subject: value"."""
    return [
        candidate(line, turn=turn.n, subject=line.partition(":")[0])
        for turn in turns
        for line in turn.text.splitlines()
        if ":" in line
    ]


def candidate(
    text: str,
    *,
    turn: int = 1,
    subject: str = "plan",
    quote: str | None = None,
    kind: Kind = "profile",
    valid_from: datetime | None = None,
    closes: bool = False,
) -> Candidate:
    return Candidate(text, kind, subject, turn, quote or text, valid_from, closes)


class FakeJudge:
    """Gives one relation for all pairs, or what `script` says."""

    name = "fake/1"

    def __init__(self, script: Relation | Callable[[Pair], Relation] = "INDEPENDENT"):
        self.script = script
        self.calls: list[Sequence[Pair]] = []

    async def judge(self, pairs: Sequence[Pair]) -> Judgement:
        self.calls.append(pairs)
        script = self.script
        relations = [script if isinstance(script, str) else script(pair) for pair in pairs]
        return Judgement([Verdict(relation, "as told") for relation in relations])


class FakeEmbedder:
    """Gives every text the same direction, or fails while `is_down`."""

    name = "fake/1"
    dimensions = 4
    recall_floor = 0.5
    neighbour_floor = 0.5
    state: State = "ok"

    def __init__(self) -> None:
        self.is_down = False

    async def embed(self, texts: Sequence[str], purpose: Purpose = "fact") -> list[Vector]:
        del purpose
        if self.is_down:
            raise EmbedderError("unavailable")
        return [unit(np.ones(self.dimensions)) for _ in texts]

    async def warm(self) -> None: ...

    async def aclose(self) -> None: ...


def reading(core: Core, extractor: Any = None, judge: Any = None, embedder: Any = None) -> Core:
    """Give the core with other implementations behind its seams."""
    return replace(
        core,
        extractor=extractor or core.extractor,
        judge=judge or core.judge,
        embedder=embedder or core.embedder,
    )


def silence(world: World) -> None:
    """Leave nothing of other tests for a worker to do."""
    world.execute("delete from procrastinate_jobs")
    world.execute("update memory_session set status = 'done', extract_after = null")


async def drain(world: World, core: Core) -> None:
    """Run every job that is due, and those that these defer."""
    due = (
        "select count(*) from procrastinate_jobs"
        " where status = 'todo' and coalesce(scheduled_at, now()) <= now()"
    )
    while world.rows(due) != [(0,)]:
        await world.drain(core)


@asynccontextmanager
async def working(core: Core, *, concurrency: int = 4, pace: Pace = FAST) -> AsyncIterator[Worker]:
    """Run a real worker in this process for the block's time."""
    worker = Worker(core, concurrency=concurrency, pace=pace)
    task = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        worker.stop()
        await task


async def until(
    true: Callable[[], bool] | Callable[[], Awaitable[bool]], *, within: float = 15
) -> None:
    """Wait until something holds; fail when it doesn't in time."""
    deadline = time.monotonic() + within
    while True:
        answer = true()
        if answer if isinstance(answer, bool) else await answer:
            return
        assert time.monotonic() < deadline, "it never came true"
        await asyncio.sleep(0.03)


async def decide(core: Core, tenant_id: UUID, policy: Policy) -> None:
    """Give a tenant a policy of its own."""
    async with core.db.tenant(tenant_id) as tx:
        await write_policy(tx, core, tenant_id, policy, by="test")
