"""Erasing a user or a tenant: everything, in one transaction, and never to come back.

What belongs to a user is known from the tables themselves, so that a new table is covered by being
one about users. The user's row is locked first: whoever writes meanwhile is waited for or finds
nobody any more. Last before the commit the ledger is written, so that no erasure is confirmed that
a restored backup could undo unnoticed; a crash between the two leaves an entry to be replayed, and
a commit that fails has it voided.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, cast
from uuid import UUID, uuid4

import psycopg
from sqlalchemy import CursorResult, Table, delete, func, literal, select, text, union_all
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncSession

from app.db import Base, Scope
from app.errors import NotFound, Unavailable
from app.memory import audit_log
from app.memory.core import Core
from app.memory.idempotency import forget_answers
from app.memory.ledger import Entry
from app.memory.users import find_user
from app.models import ApiKey, Erasure, IdempotencyKey, Tenant, User, UserDirectory

_TABLES: Final = Base.metadata.sorted_tables

OF_USERS: Final[tuple[Table, ...]] = tuple(
    table
    for table in _TABLES
    if {"tenant_id", "user_id"} <= set(table.c.keys())
    and table.name != IdempotencyKey.__tablename__
)
"""Every table about users. Idempotency keys stay for a day, without their answers, to say 410."""

_ROOTS: Final = tuple(
    table
    for table in OF_USERS
    if not any(key.referred_table in OF_USERS for key in table.foreign_key_constraints)
)
"""What no other table about users takes along when it goes; all others hang on these."""

_OF_TENANTS: Final = tuple(table for table in _TABLES if "tenant_id" in table.c)

_TRIES: Final = 3

_IN_LEDGER: Final = "in_ledger"

_JOBS: Final = text("delete from procrastinate_jobs where args @> cast(:whose as jsonb)")


@dataclass(frozen=True, slots=True)
class Erased:
    """The receipt: what went from where, and until when backups may still hold it."""

    erasure_id: UUID
    erased_at: datetime
    counts: Mapping[str, int]
    backups_until: datetime


def user_hash(core: Core, tenant_id: UUID, user: str) -> bytes:
    """Give the keyed hash by which the ledger knows a user."""
    return core.keyed_hash("erased user", tenant_id, user)


def tenant_hash(core: Core, tenant_id: UUID) -> bytes:
    """Give the keyed hash by which the ledger knows a whole tenant."""
    return core.keyed_hash("erased tenant", tenant_id)


def key_check(core: Core) -> str:
    """Give what tells this signing key from others, and nothing more of it."""
    return core.keyed_hash("ledger").hex()[:16]


async def erase_user(core: Core, tenant_id: UUID, user: str, *, by: str) -> Erased:
    """Erase a user; one who never existed is answered alike, and is not created."""

    async def act() -> Erased:
        async with erasing(core, tenant_id) as tx:
            return await erase(tx, core, tenant_id, user, by=by)

    return await _insist(act)


@asynccontextmanager
async def erasing(core: Core, tenant_id: UUID) -> AsyncIterator[AsyncSession]:
    """Open a transaction to erase in: the ledger's entry is void if it isn't committed."""
    tx: AsyncSession | None = None
    try:
        async with core.db.tenant(tenant_id) as tx:
            yield tx
    except BaseException:  # a cancelled request's too
        if core.ledger is not None and tx is not None and _IN_LEDGER in tx.info:
            core.ledger.void(tx.info[_IN_LEDGER])
        raise


async def _insist(act: Callable[[], Awaitable[Erased]]) -> Erased:
    """Try again when the database broke a circle of waiting by undoing this erasure's part."""
    for _ in range(_TRIES - 1):
        try:
            return await act()
        except DBAPIError as error:
            if not isinstance(error.orig, psycopg.errors.DeadlockDetected):
                raise
    return await act()


async def erase(
    tx: AsyncSession,
    core: Core,
    tenant_id: UUID,
    user: str,
    *,
    by: str,
    merged_into: str | None = None,
    replayed: Entry | None = None,
) -> Erased:
    """Erase a user as the last act of the caller's transaction, opened by `erasing`.

    `merged_into` names another user to whom all was moved just now. With `replayed` it is the
    ledger's own erasure that is done again, and not entered again.
    Raises `Unavailable` when the ledger can't be written: then the caller's work is undone too.
    """
    found = await find_user(tx, tenant_id, user)
    # For somebody unknown the same statements run, about an id that nobody has.
    scope = found or Scope(tenant_id, uuid4())
    await tx.execute(
        select(User.user_id)
        .where(User.tenant_id == tenant_id, User.user_id == scope.user_id)
        .with_for_update()
    )
    counts = await _count(tx, scope)
    counts["idempotency_key"] = await forget_answers(tx, tenant_id, user_id=scope.user_id)
    for table in _ROOTS:
        await tx.execute(
            delete(table).where(table.c.tenant_id == tenant_id, table.c.user_id == scope.user_id)
        )
    # A key bound to the user names the user, and would open nothing but an empty memory.
    counts["api_key"] = await _run(
        tx, delete(ApiKey).where(ApiKey.tenant_id == tenant_id, ApiKey.bound_to == user)
    )
    counts["procrastinate_jobs"] = await _run(
        tx, _JOBS.bindparams(whose=f'{{"user_id": "{scope.user_id.hex}"}}')
    )
    core.people.pop((tenant_id, user), None)
    core.mirrors.drop(scope.user_id)
    core.recalls.forget(scope)
    entry = replayed or await _entry(tx, core, tenant_id, user_hash(core, tenant_id, user))
    if merged_into is not None:
        entry = replace(entry, merged_into=user_hash(core, tenant_id, merged_into))
    await audit_log.record(
        tx,
        tenant_id,
        by,
        "user_erased",
        about=found.user_id if found else None,
        details={"erasure_id": str(entry.erasure_id)},
    )
    return await _enter(tx, core, entry, counts, replayed=replayed is not None)


async def _entry(tx: AsyncSession, core: Core, tenant_id: UUID, subject_hash: bytes) -> Entry:
    """Make the ledger's entry, of a time after all that the erasure has waited for."""
    at = (await tx.execute(select(func.clock_timestamp()))).scalar_one()
    return Entry(uuid4(), tenant_id, subject_hash, at, key_check(core))


async def _count(tx: AsyncSession, scope: Scope) -> dict[str, int]:
    """Count what the user has in every table, under the lock that keeps it so."""
    rows = await tx.execute(
        union_all(
            *(
                select(literal(table.name), func.count()).where(
                    table.c.tenant_id == scope.tenant_id, table.c.user_id == scope.user_id
                )
                for table in OF_USERS
            )
        )
    )
    return dict(cast("list[tuple[str, int]]", rows.all()))


async def _run(tx: AsyncSession, statement: object) -> int:
    result = cast("CursorResult[object]", await tx.execute(statement))  # type: ignore[call-overload]
    return result.rowcount


async def _enter(
    tx: AsyncSession, core: Core, entry: Entry, counts: dict[str, int], *, replayed: bool
) -> Erased:
    """Enter the erasure in the database and, last of all, in the ledger."""
    tx.add(entered(entry))
    await tx.flush()
    if core.ledger is not None and not replayed:
        tx.info[_IN_LEDGER] = entry.erasure_id  # before: if cancelled, the line is written yet
        try:
            await core.ledger.append([entry])
        except Unavailable:
            del tx.info[_IN_LEDGER]
            raise
    return Erased(
        entry.erasure_id, entry.erased_at, counts, entry.erased_at + core.backup_retention
    )


def entered(entry: Entry) -> Erasure:
    """Give the row by which the database knows that it has seen an erasure."""
    return Erasure(
        tenant_id=entry.tenant_id,
        id=entry.erasure_id,
        subject_hash=entry.subject_hash,
        erased_at=entry.erased_at,
        merged_into=entry.merged_into,
    )


async def erase_tenant(core: Core, tenant_id: UUID, *, replayed: Entry | None = None) -> Erased:
    """Erase a whole tenant: its users, keys, policy and audit log. Raises `NotFound`.

    What stays is that it was erased, and its users before it: random ids, times, keyed hashes.
    """

    async def act() -> Erased:
        async with erasing(core, tenant_id) as tx:
            return await _erase_tenant(tx, core, tenant_id, replayed)

    return await _insist(act)


async def _erase_tenant(
    tx: AsyncSession, core: Core, tenant_id: UUID, replayed: Entry | None
) -> Erased:
    locked = select(Tenant.id).where(Tenant.id == tenant_id).with_for_update()
    if await tx.scalar(locked) is None:
        raise NotFound("There is no such tenant.")
    counts = {
        table.name: await tx.scalar(
            select(func.count()).select_from(table).where(table.c.tenant_id == tenant_id)
        )
        or 0
        for table in _OF_TENANTS
        if table.name != Erasure.__tablename__
    }
    await tx.execute(delete(UserDirectory).where(UserDirectory.tenant_id == tenant_id))
    await tx.execute(delete(Tenant).where(Tenant.id == tenant_id))
    counts["procrastinate_jobs"] = await _run(
        tx, _JOBS.bindparams(whose=f'{{"tenant_id": "{tenant_id.hex}"}}')
    )
    core.policies.pop(tenant_id, None)
    for known in [key for key in core.people if key[0] == tenant_id]:
        core.people.pop(known, None)
    core.mirrors.clear()  # whose they are isn't kept; others are read anew
    core.recalls.forget_tenant(tenant_id)
    entry = replayed or await _entry(tx, core, tenant_id, tenant_hash(core, tenant_id))
    return await _enter(tx, core, entry, counts, replayed=replayed is not None)
