"""How the service does: what it can't serve without, and what it can."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Literal, cast
from uuid import UUID

import psycopg
from psycopg_pool import PoolTimeout

from app.db import schema_serves
from app.memory import erasures
from app.memory.core import Check, Core

WORKER_SILENT_AFTER: Final = 60
"""Seconds without a worker's heartbeat."""

JOB_WAITS_TOO_LONG: Final = 300
"""Seconds that a due job may wait before the worker counts as degraded."""

_NEEDED: Final = ("database", "schema", "ledger")
_PATIENCE: Final = 2.0

_LOOK = """
select (select extract(epoch from now() - max(last_heartbeat)) from procrastinate_workers),
       (select array_agg(model) from worker_state where seen_at > now() - %(silent)s),
       count(*) filter (where status = 'todo' and not later),
       count(*) filter (where status = 'todo' and later),
       count(*) filter (where status = 'doing'),
       extract(epoch from now() - min(since) filter (where status = 'todo' and not later))
from (select j.status, j.scheduled_at > now() is true as later, coalesce(j.scheduled_at, e.at) since
      from procrastinate_jobs j
      left join procrastinate_events e on e.job_id = j.id and e.type = 'deferred') as job
"""

_TELL = """
insert into worker_state as w (id, model) values (%(id)s, %(model)s)
on conflict (id) do update set model = excluded.model, seen_at = now()
"""
_DROP_SILENT = "delete from worker_state where seen_at < now() - interval '1 day'"

_WORST_FIRST: Final[tuple[Check, ...]] = ("failed", "degraded", "ok", "off")


@dataclass(frozen=True, slots=True)
class Queue:
    """The jobs that there are, and how long the oldest of the due ones waits, in seconds."""

    due: int
    later: int
    running: int
    oldest_due: float | None


@dataclass(frozen=True, slots=True)
class Readiness:
    """One look at every part."""

    checks: dict[str, Check]
    queue: Queue | None = None

    @property
    def oldest_waiting_job_s(self) -> float | None:
        """How long the oldest due job waits; None when none does, or it can't be known."""
        return self.queue.oldest_due if self.queue else None

    @property
    def can_serve(self) -> bool:
        """False when a part that every answer needs has failed."""
        return all(self.checks[name] != "failed" for name in _NEEDED)

    @property
    def status(self) -> Literal["ok", "degraded"]:
        """Sum the checks up."""
        unwell = any(check in {"degraded", "failed"} for check in self.checks.values())
        return "degraded" if unwell else "ok"


async def readiness(core: Core) -> Readiness:
    """Look at every part; never waits longer than two seconds for the database."""
    checks: dict[str, Check] = {
        "database": "failed",
        "schema": "failed",
        "ledger": "degraded" if core.ledger is None else "failed",
        "worker": "failed",
        "model": core.model_state(),
        "embedder": _worst(each.state for each in (core.embedder, core.previous) if each),
    }
    try:
        async with asyncio.timeout(_PATIENCE):
            if not await schema_serves(core.db):
                checks["database"] = "ok"
                return Readiness(checks)
            checks["ledger"] = await erasures.check(core)
            async with core.db.pool.connection() as connection:
                silent = timedelta(seconds=WORKER_SILENT_AFTER)
                row = await (await connection.execute(_LOOK, {"silent": silent})).fetchone()
    except (psycopg.Error, PoolTimeout, TimeoutError):
        return Readiness(checks)
    checks["database"] = checks["schema"] = "ok"
    silent_for, models, due, later, running, oldest = cast("tuple[Any, ...]", row)
    oldest = None if oldest is None else round(max(0.0, float(oldest)), 1)
    if silent_for is not None and silent_for < WORKER_SILENT_AFTER:
        waits_too_long = oldest is not None and oldest > JOB_WAITS_TOO_LONG
        checks["worker"] = "degraded" if waits_too_long else "ok"
    checks["model"] = _worst((checks["model"], *(models or ())))
    return Readiness(checks, Queue(due, later, running, oldest))


def _worst(found: Iterable[Check]) -> Check:
    return min(found, key=_WORST_FIRST.index)


async def tell(core: Core, worker: UUID) -> None:
    """Write down how this worker's process finds the model, for processes that don't ask it."""
    async with core.db.pool.connection() as connection:
        await connection.execute(_TELL, {"id": worker, "model": core.model_state()})
        await connection.execute(_DROP_SILENT)
