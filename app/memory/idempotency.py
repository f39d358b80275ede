"""Idempotency keys: a request that is sent again is answered as before, and done once.

A key is claimed in a transaction of its own, so that a twin sees the claim; its answer is kept in
the transaction of the work itself, so that after a crash either both are there or neither. A
claim whose process died can be taken over after a minute; until then work that takes longer holds
it. Keys are stored as keyed hashes.
"""

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

import psycopg
from sqlalchemy import ColumnElement, cast, delete, null, or_, update
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as CheckoutTimeout
from sqlalchemy.ext.asyncio import AsyncSession

from app.db import now
from app.errors import Conflict, Gone, Invalid
from app.memory.core import Core
from app.models import IdempotencyKey

KEPT_FOR: Final = timedelta(hours=24)
CLAIM_LASTS: Final = timedelta(minutes=1)


@dataclass(slots=True)
class Claim:
    """A key that this request holds until its answer is kept or the claim is released."""

    tenant_id: UUID
    digest: bytes
    since: datetime
    """When it was last held: after a takeover it is somebody else's."""
    moving: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False)


@dataclass(frozen=True, slots=True)
class Replay:
    """The answer that was given before."""

    status: int
    body: Any


async def claim(
    core: Core, tenant_id: UUID, user: str, route: str, key: str, body: Any
) -> Claim | Replay:
    """Claim a key for one user and route, or give the answer kept for it.

    Raises `Invalid` when it came with another body, `Conflict` while its twin is at work, `Gone`
    after the user was erased. Bodies are compared as parsed JSON.
    """
    digest = core.keyed_hash("idempotency", tenant_id, user, route, key)
    canonical = json.dumps(body, sort_keys=True, ensure_ascii=True)
    body_digest = core.keyed_hash("idempotent body", digest, canonical)
    async with core.db.tenant(tenant_id) as tx:
        await tx.execute(
            delete(IdempotencyKey).where(
                IdempotencyKey.tenant_id == tenant_id,
                IdempotencyKey.digest == digest,
                or_(
                    IdempotencyKey.created_at < now(tx) - KEPT_FOR,
                    IdempotencyKey.status.is_(None)
                    & (IdempotencyKey.created_at < now(tx) - CLAIM_LASTS),
                ),
            )
        )
        claimed = await tx.scalar(
            insert(IdempotencyKey)
            .values(tenant_id=tenant_id, digest=digest, body_digest=body_digest)
            .on_conflict_do_nothing()
            .returning(IdempotencyKey.created_at)
        )
        if claimed is not None:
            return Claim(tenant_id, digest, claimed)
        row = await tx.get(IdempotencyKey, (tenant_id, digest))
    if row is None or (row.status is None and row.body_digest == body_digest):
        raise Conflict(
            "A request with this key is at work.", code="idempotency_in_progress", retry_after=1
        )
    if row.status == Gone.status:
        raise Gone("What this key stood for was erased.", code="erased")
    if row.body_digest != body_digest or row.status is None:
        raise Invalid("This key came with another body before.", code="idempotency_mismatch")
    return Replay(row.status, row.answer)


async def keep(
    tx: AsyncSession,
    held: Claim,
    status: int,
    answer: Any,
    *,
    user_id: UUID,
    fact_id: UUID | None = None,
) -> None:
    """Keep the answer with the work, in its transaction.

    Raises `Conflict`, which undoes the work, when the claim was taken over meanwhile.
    """
    async with held.moving:
        kept = await tx.execute(
            update(IdempotencyKey)
            .where(*_is(held))
            .values(status=status, answer=answer, user_id=user_id, fact_id=fact_id)
            .returning(IdempotencyKey.digest)
        )
    if kept.first() is None:
        raise Conflict(
            "A request with this key took over.", code="idempotency_in_progress", retry_after=1
        )


async def hold(core: Core, held: Claim) -> None:
    """Keep a claim from being taken over, for as long as the caller lets it."""
    while True:
        await asyncio.sleep(CLAIM_LASTS.total_seconds() / 3)
        with suppress(psycopg.Error, DBAPIError, CheckoutTimeout):  # then the next time
            async with held.moving:
                async with core.db.tenant(held.tenant_id) as tx:
                    moved = update(IdempotencyKey).where(*_is(held)).values(created_at=now(tx))
                    since = await tx.scalar(moved.returning(IdempotencyKey.created_at))
                if since is None:
                    return
                held.since = since


def _is(held: Claim) -> tuple[ColumnElement[bool], ...]:
    return (
        IdempotencyKey.tenant_id == held.tenant_id,
        IdempotencyKey.digest == held.digest,
        IdempotencyKey.created_at == held.since,
        IdempotencyKey.status.is_(None),
    )


async def release(core: Core, held: Claim) -> None:
    """Give up a claim whose work failed, so that the request can be tried again."""
    async with core.db.tenant(held.tenant_id) as tx:
        await tx.execute(delete(IdempotencyKey).where(*_is(held)))


async def forget_answers(
    tx: AsyncSession,
    tenant_id: UUID,
    *,
    user_id: UUID,
    facts: list[UUID] | None = None,
    session: str | None = None,
) -> int:
    """Drop kept answers about a user, some facts or a session; their keys answer 410 from now on.

    Gives how many there were.
    """
    query = update(IdempotencyKey).where(
        IdempotencyKey.tenant_id == tenant_id, IdempotencyKey.user_id == user_id
    )
    if facts is not None:
        query = query.where(IdempotencyKey.fact_id.in_(facts))
    if session is not None:
        body = cast(IdempotencyKey.answer["body"].astext, JSONB)
        query = query.where(body["session"].astext == session)
    gone = query.values(status=Gone.status, answer=null(), user_id=None, fact_id=None)
    return len((await tx.execute(gone.returning(IdempotencyKey.digest))).all())
