"""Which facts were recalled, by id and never by text, and what people thought of the choice.

Nothing here is on a request's path: lines wait in memory and are written together, within about a
second. A crash loses those that wait, a clean shutdown none.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

import psycopg
from psycopg_pool import PoolTimeout
from pydantic_core import to_json
from sqlalchemy import delete, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from app.db import Database, Scope, now
from app.errors import Invalid, NotFound
from app.lines import Call, statement
from app.memory import guard
from app.memory.recent import Recent
from app.models import FrozenBlock, RecallEntry, UserDirectory
from app.telemetry import logger
from app.trip import trip

log = logger(__name__)

WRITE_AFTER: Final = 1.0
"""Seconds that a line may wait for company."""

MOST_WAITING: Final = 10_000
"""Lines beyond it are dropped: a database that can't keep up must not fill the memory."""

# A line brings how many seconds ago it was: when that is, the database's clock says.
_LINES: Final = statement("""
insert into recall_log (tenant_id, user_id, id, at, facts, frozen, degraded, tokens)
select %(tenant)s, l.user_id, l.id, now() - make_interval(secs => l.age), l.facts, l.frozen,
       l.degraded, l.tokens
from json_to_recordset(%(lines)s::json) as l
  (user_id uuid, id uuid, age float8, facts uuid[], frozen boolean, degraded text, tokens int)
where exists (select from memory_user u
              where u.tenant_id = %(tenant)s and u.user_id = l.user_id)
on conflict do nothing
""")

# The last of a batch, as with every commit: whoever holds the day's counts waits for no fact.
_COUNTS: Final = statement("""
with line as (
  select ((now() - make_interval(secs => l.age)) at time zone 'UTC')::date as day, l.degraded
  from json_to_recordset(%(lines)s::json) as l (age float8, degraded text)
), counted as (
  select day, 'recalls' as name, count(*) from line group by day
  union all
  select day, 'degraded', count(*) from line where degraded is not null group by day
)
insert into tenant_usage as u (tenant_id, day, name, count)
select %(tenant)s, c.day, c.name, c.count
from counted c
where exists (select from tenant t where t.id = %(tenant)s)
order by c.day, c.name
on conflict (tenant_id, day, name) do update set count = u.count + excluded.count
""")

# A row that somebody is changing is skipped: this is no reason to wait, and to wait for rows in
# another order than the others would be a deadlock.
_RECALLED: Final = statement("""
with due as (
  select id from memory_fact
  where tenant_id = %(tenant)s and user_id = %(user_id)s and id = any (%(facts)s::uuid[])
    and (last_recalled_at is null or last_recalled_at < now() - interval '1 day')
  for no key update skip locked
)
update memory_fact f set last_recalled_at = now() from due
where f.tenant_id = %(tenant)s and f.user_id = %(user_id)s and f.id = due.id
""")
# Recall has looked at a fact's sentence alone; one with metadata of a caller waits for the night.
_RECHECKED: Final = statement("""
with due as (
  select id from memory_fact
  where tenant_id = %(tenant)s and user_id = %(user_id)s and id = any (%(facts)s::uuid[])
    and guard_version < %(guard)s and metadata = '{}'
  for no key update skip locked
)
update memory_fact f set guard_version = %(guard)s from due
where f.tenant_id = %(tenant)s and f.user_id = %(user_id)s and f.id = due.id
""")


@dataclass(frozen=True, slots=True)
class LogLine:
    """One recall. `shared` are the organization's facts, `rechecked` passed a newer guard.

    `at` is monotonic, and serves to tell how long ago it was.
    """

    recall_id: UUID
    scope: Scope
    at: float
    facts: Sequence[str]
    shared: Sequence[str]
    rechecked: Sequence[str]
    frozen: bool
    degraded: str | None
    tokens: int


class RecallLog:
    """The lines of one process that are not yet in the database."""

    def __init__(self) -> None:
        self._waiting: list[LogLine] = []
        self._writing = asyncio.Lock()
        self._writer: asyncio.Task[None] | None = None
        self._recalled_today = Recent(50_000)

    def note(self, db: Database, line: LogLine) -> None:
        """Keep a line for later. Never waits, never fails."""
        if len(self._waiting) < MOST_WAITING:
            self._waiting.append(line)
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write_later(db), name="recall log")

    def forget(self, scope: Scope) -> None:
        """Drop the lines of a user who is being erased."""
        self._waiting = [line for line in self._waiting if line.scope != scope]

    def forget_tenant(self, tenant_id: UUID) -> None:
        """Drop the lines of a tenant that is being erased."""
        self._waiting = [line for line in self._waiting if line.scope.tenant_id != tenant_id]

    async def _write_later(self, db: Database) -> None:
        while self._waiting:
            await asyncio.sleep(WRITE_AFTER)
            await self.write(db)

    async def write(self, db: Database) -> None:
        """Write what waits; what can't be written is dropped, and counted in the service's log."""
        async with self._writing:
            lines, self._waiting = self._waiting, []
            by_tenant: dict[UUID, list[LogLine]] = defaultdict(list)
            for line in lines:
                by_tenant[line.scope.tenant_id].append(line)
            for tenant_id, own in by_tenant.items():
                try:
                    await trip(db, tenant_id, *self._calls(tenant_id, own))
                except (psycopg.Error, PoolTimeout) as error:
                    log.warning("recalls_dropped", lines=len(own), error=type(error).__name__)

    async def aclose(self, db: Database) -> None:
        """Write what waits and stop."""
        if self._writer is not None:
            self._writer.cancel()
        await self.write(db)

    def _calls(self, tenant_id: UUID, lines: Sequence[LogLine]) -> list[Call]:
        rows, calls = [], []
        at = time.monotonic()
        recalled: dict[UUID, set[str]] = defaultdict(set)
        for line in lines:
            rows.append(_row(line, at))
            recalled[line.scope.user_id].update(line.facts)
            recalled[tenant_id].update(line.shared)
            if line.rechecked:
                for owner in {line.scope.user_id, tenant_id}:
                    values = _values(tenant_id, owner, line.rechecked)
                    calls.append((_RECHECKED, {**values, "guard": guard.VERSION}))
        today = datetime.now(UTC).date().toordinal()
        for owner, facts in recalled.items():
            due = [fact for fact in facts if (fact, today) not in self._recalled_today]
            for fact in due:
                self._recalled_today.add((fact, today))
            if due:
                calls.append((_RECALLED, _values(tenant_id, owner, due)))
        values = {"tenant": tenant_id, "lines": to_json(rows).decode()}
        return [(_LINES, values), *calls, (_COUNTS, values)]


def _row(line: LogLine, at: float) -> dict[str, object]:
    return {
        "user_id": line.scope.user_id.hex,
        "id": line.recall_id.hex,
        "age": at - line.at,
        "facts": [*line.shared, *line.facts],
        "frozen": line.frozen,
        "degraded": line.degraded,
        "tokens": line.tokens,
    }


def _values(tenant_id: UUID, owner: UUID, facts: Iterable[str]) -> dict[str, object]:
    ids = "{" + ",".join(facts) + "}"
    return {"tenant": tenant_id, "user_id": owner, "facts": ids}


async def judge(
    db: Database,
    recalls: RecallLog,
    tenant_id: UUID,
    recall_id: UUID,
    *,
    relevant: Sequence[UUID],
    irrelevant: Sequence[UUID],
) -> None:
    """Keep what somebody thought of a recall's facts; a later word on a fact replaces an earlier.

    Raises `NotFound` for an unknown recall and `Invalid` for a fact that was not in it.
    """
    await recalls.write(db)
    if not await _judge(db, tenant_id, recall_id, set(relevant), set(irrelevant)):
        # Another process may have answered, and may not have written its lines yet.
        await asyncio.sleep(WRITE_AFTER * 1.2)
        if not await _judge(db, tenant_id, recall_id, set(relevant), set(irrelevant)):
            raise NotFound("There is no such recall.")


async def _judge(
    db: Database, tenant_id: UUID, recall_id: UUID, relevant: set[UUID], irrelevant: set[UUID]
) -> bool:
    async with db.tenant(tenant_id) as tx:
        entry = await tx.scalar(
            select(RecallEntry)
            .where(RecallEntry.tenant_id == tenant_id, RecallEntry.id == recall_id)
            .with_for_update()
        )
        if entry is None:
            return False
        if not relevant | irrelevant <= set(entry.facts):
            raise Invalid("A fact named was not in this recall.", code="not_in_recall")
        entry.relevant = sorted((set(entry.relevant) - irrelevant) | relevant)
        entry.irrelevant = sorted((set(entry.irrelevant) - relevant) | irrelevant)
        entry.judged_at = now(tx)
    return True


@dataclass(frozen=True, slots=True)
class Sampled:
    """A recall to be labelled by hand; `user` is the caller's own id."""

    entry: RecallEntry
    user: str


async def sample(tx: AsyncSession, tenant_id: UUID, most: int) -> list[Sampled]:
    """Give the newest recalls that brought facts, newest first. Joins the caller's transaction."""
    entries = list(
        await tx.scalars(
            select(RecallEntry)
            .where(RecallEntry.tenant_id == tenant_id, func.cardinality(RecallEntry.facts) > 0)
            .order_by(RecallEntry.at.desc(), RecallEntry.id.desc())
            .limit(most)
        )
    )
    rows = await tx.execute(
        select(UserDirectory.user_id, UserDirectory.external_id).where(
            UserDirectory.tenant_id == tenant_id,
            UserDirectory.user_id.in_({entry.user_id for entry in entries}),
        )
    )
    names: dict[UUID, str] = dict(rows.all())
    return [Sampled(entry, names[entry.user_id]) for entry in entries if entry.user_id in names]


async def precision(
    tx: AsyncSession, tenant_id: UUID, since: datetime, until: datetime
) -> float | None:
    """Give the share of relevant facts among those judged, or None without any judgement."""
    relevant = func.coalesce(func.sum(func.cardinality(RecallEntry.relevant)), 0)
    irrelevant = func.coalesce(func.sum(func.cardinality(RecallEntry.irrelevant)), 0)
    counts = await tx.execute(
        select(relevant, irrelevant).where(
            RecallEntry.tenant_id == tenant_id,
            RecallEntry.at >= since,
            RecallEntry.at < until,
            RecallEntry.judged_at.is_not(None),
        )
    )
    right, wrong = counts.one()
    return right / (right + wrong) if right + wrong else None


async def expire(tx: AsyncSession, tenant_id: UUID, keep: timedelta) -> int:
    """Delete lines older than `keep`, and frozen blocks that nobody gets any more.

    Joins the caller's transaction; gives how many lines went.
    """
    await tx.execute(
        delete(FrozenBlock).where(
            FrozenBlock.tenant_id == tenant_id,
            FrozenBlock.created_at < now(tx) - timedelta(hours=24),
        )
    )
    gone = await tx.execute(
        delete(RecallEntry)
        .where(RecallEntry.tenant_id == tenant_id, RecallEntry.at < now(tx) - keep)
        .returning(RecallEntry.id)
    )
    return len(gone.all())
