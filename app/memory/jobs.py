"""Putting jobs into the queue, inside the transaction of their cause.

A job is a wake-up and carries our own random ids, nothing else: the queue stands outside row-level
security, and what there is to do stands in the session's row.
"""

import json
from datetime import datetime
from typing import Final
from uuid import UUID

from procrastinate import App, PsycopgConnector
from procrastinate.exceptions import AlreadyEnqueued
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from app.db import Scope, raw_connection

DUE: Final = "due"
EXTRACT: Final = "extract"
EMBED: Final = "embed"
REJUDGE: Final = "rejudge"

# Only builds the statement: it runs on the caller's connection, this app is never opened.
_unopened = App(connector=PsycopgConnector())

_WAITS = text(
    "select scheduled_at from procrastinate_jobs where queueing_lock = :twin and status = 'todo'"
)
_EARLIER = text(
    "update procrastinate_jobs set scheduled_at = :at where queueing_lock = :twin"
    " and status = 'todo' returning id"
)

_DROP = text(
    "delete from procrastinate_jobs where status = 'todo' and args @> cast(:whose as jsonb)"
)


async def drop_jobs(tx: AsyncSession, scope: Scope) -> None:
    """Drop what waits to be done for a user."""
    await tx.execute(_DROP, {"whose": json.dumps({"user_id": scope.user_id.hex})})


async def defer_look(
    tx: AsyncSession, scope: Scope, session_id: UUID, at: datetime | None = None
) -> None:
    """Look at the session at this time, or at once; one look waits, at the earliest time asked for.

    No lock of the user: a scheduled job that held one would block every later job of that user.
    """
    await _defer(tx, DUE, scope, twin=f"due:{session_id.hex}", at=at, session_id=session_id)


async def defer_extract(tx: AsyncSession, scope: Scope, session_id: UUID) -> None:
    """Extract the session now; the sessions of one user run one after the other."""
    twin, lock = f"extract:{session_id.hex}", scope.user_id.hex
    await _defer(tx, EXTRACT, scope, twin=twin, lock=lock, session_id=session_id)


async def defer_embed(tx: AsyncSession, scope: Scope, at: datetime) -> None:
    """Embed the user's facts that have no vector yet, at this time."""
    await _defer(tx, EMBED, scope, twin=f"embed:{scope.user_id.hex}", at=at)


async def defer_rejudge(tx: AsyncSession, scope: Scope, fact_id: UUID, at: datetime) -> None:
    """Let the judge look at a fact, at this time, that the rules had to decide on."""
    await _defer(tx, REJUDGE, scope, twin=f"rejudge:{fact_id.hex}", at=at, fact_id=fact_id)


async def _defer(
    tx: AsyncSession,
    task: str,
    scope: Scope,
    *,
    twin: str,
    at: datetime | None = None,
    lock: str | None = None,
    **ids: UUID,
) -> None:
    """Defer a job unless its twin waits; one that waits for a later time is moved to this one.

    The caller holds the lock (session or user) that the job takes first: so a twin that a worker
    fetches at this moment still sees what the caller commits.
    """
    if await _twin_serves(tx, twin, at):
        return
    ids |= {"tenant_id": scope.tenant_id, "user_id": scope.user_id}
    try:
        # In a savepoint: the unique violation would abort the caller's transaction. It is only set
        # when the connection is asked for inside the block.
        async with tx.begin_nested():
            job = _unopened.configure_task(
                task,
                lock=lock,
                queueing_lock=twin,
                schedule_at=at,
                connection=await raw_connection(tx),
            )
            await job.defer_async(**{name: given.hex for name, given in ids.items()})
    except AlreadyEnqueued:
        return


async def _twin_serves(tx: AsyncSession, twin: str, at: datetime | None) -> bool:
    waiting = (await tx.execute(_WAITS, {"twin": twin})).first()
    if waiting is None:
        return False
    if waiting.scheduled_at is None or (at is not None and waiting.scheduled_at <= at):
        return True
    moved = await tx.execute(_EARLIER, {"twin": twin, "at": at})
    return moved.first() is not None  # else a worker has fetched it since
