"""How the service does: what it can't serve without, and what it can."""

import asyncio
from dataclasses import dataclass
from typing import Final, Literal, cast

import psycopg
from psycopg_pool import PoolTimeout

from app.db import schema_is_current
from app.memory import erasures
from app.memory.core import Check, Core

WORKER_SILENT_AFTER: Final = 60
"""Seconds without a worker's heartbeat."""

JOB_WAITS_TOO_LONG: Final = 300
"""Seconds that a due job may wait before the worker counts as degraded."""

_NEEDED: Final = ("database", "schema", "ledger")
_PATIENCE: Final = 2.0

_QUEUE = """
select (select extract(epoch from now() - max(last_heartbeat)) from procrastinate_workers),
       (select extract(epoch from now() - min(coalesce(j.scheduled_at, e.at)))
        from procrastinate_jobs j
        join procrastinate_events e on e.job_id = j.id and e.type = 'deferred'
        where j.status = 'todo' and (j.scheduled_at is null or j.scheduled_at <= now()))
"""


@dataclass(frozen=True, slots=True)
class Readiness:
    """One look at every part."""

    checks: dict[str, Check]
    oldest_waiting_job_s: float | None = None

    @property
    def can_serve(self) -> bool:
        """False when a part that every answer needs has failed."""
        return all(self.checks[name] != "failed" for name in _NEEDED)

    @property
    def status(self) -> Literal["ok", "degraded", "failed"]:
        """Sum the checks up."""
        if not self.can_serve:
            return "failed"
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
        "embedder": "ok",
    }
    waiting: float | None = None
    try:
        async with asyncio.timeout(_PATIENCE):
            if not await schema_is_current(core.db):
                checks["database"] = "ok"
                return Readiness(checks)
            checks["ledger"] = await erasures.check(core)
            async with core.db.pool.connection() as connection:
                row = await (await connection.execute(_QUEUE)).fetchone()
    except (psycopg.Error, PoolTimeout, TimeoutError):
        return Readiness(checks)
    checks["database"] = checks["schema"] = "ok"
    silent, oldest = cast("tuple[float | None, float | None]", row)
    if silent is not None and silent < WORKER_SILENT_AFTER:
        checks["worker"] = "ok"
    if oldest is not None:
        waiting = round(max(0.0, float(oldest)), 1)
        if waiting > JOB_WAITS_TOO_LONG and checks["worker"] == "ok":
            checks["worker"] = "degraded"
    return Readiness(checks, waiting)
