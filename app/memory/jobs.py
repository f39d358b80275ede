"""Putting jobs into the queue, inside the transaction of their cause.

A job carries our own random ids and nothing else, for the queue stands outside row-level security.
"""

from datetime import datetime
from typing import Final
from uuid import UUID

from procrastinate import App, PsycopgConnector
from procrastinate.exceptions import AlreadyEnqueued
from sqlalchemy.ext.asyncio import AsyncSession

from app.db import Scope, raw_connection

DUE: Final = "due"
EXTRACT: Final = "extract"
EMBED: Final = "embed"

# Only builds the statement: it runs on the caller's connection, this app is never opened.
_unopened = App(connector=PsycopgConnector())


async def defer_due(tx: AsyncSession, scope: Scope, session_id: UUID, at: datetime) -> None:
    """Look at the session at this time, unless such a job waits already.

    No lock of the user: a scheduled job that held one would block every later job of that user.
    """
    await _defer(tx, DUE, scope, session_id, queueing_lock=f"due:{session_id.hex}", at=at)


async def defer_retry(
    tx: AsyncSession, scope: Scope, session_id: UUID, at: datetime | None
) -> None:
    """As `defer_due`, beside one that waits for a later time; at once without a time."""
    await _defer(tx, DUE, scope, session_id, queueing_lock=f"retry:{session_id.hex}", at=at)


async def defer_extract(tx: AsyncSession, scope: Scope, session_id: UUID) -> None:
    """Extract the session now; the sessions of one user run one after the other."""
    await _defer(
        tx,
        EXTRACT,
        scope,
        session_id,
        queueing_lock=f"extract:{session_id.hex}",
        lock=scope.user_id.hex,
    )


async def defer_embed(tx: AsyncSession, scope: Scope, at: datetime) -> None:
    """Embed the user's facts that have no vector yet, at this time."""
    await _defer(tx, EMBED, scope, None, queueing_lock=f"embed:{scope.user_id.hex}", at=at)


async def _defer(
    tx: AsyncSession,
    task: str,
    scope: Scope,
    session_id: UUID | None,
    *,
    queueing_lock: str,
    at: datetime | None = None,
    lock: str | None = None,
) -> None:
    arguments = {"tenant_id": scope.tenant_id.hex, "user_id": scope.user_id.hex}
    if session_id is not None:
        arguments["session_id"] = session_id.hex
    try:
        # In a savepoint: the unique violation would abort the caller's transaction. It is only set
        # when the connection is asked for inside the block.
        async with tx.begin_nested():
            job = _unopened.configure_task(
                task,
                lock=lock,
                queueing_lock=queueing_lock,
                schedule_at=at,
                connection=await raw_connection(tx),
            )
            await job.defer_async(**arguments)
    except AlreadyEnqueued:
        return
