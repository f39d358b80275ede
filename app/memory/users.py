"""People, by the caller's own id: looked up in a directory, then known by a random id of ours.

A user exists from the first write. Reads of an unseen user create nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal
from uuid import UUID, uuid4

from sqlalchemy import BigInteger, cast, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from app.db import Scope, now
from app.errors import Unauthorized
from app.memory import audit_log
from app.memory.jobs import defer_look
from app.models import (
    FrozenBlock,
    PageLink,
    Session,
    Tenant,
    TenantPolicy,
    User,
    UserDirectory,
)

ORGANIZATION: Final = "\x1forganization"
"""Stands for the tenant's reserved user where an external id does. No id that comes over the wire
holds a control character, and the directory has no such row: nobody else can name it."""

MemoryMode = Literal["on", "paused", "restricted"]

_NEXT: Final = (
    cast(User.revision, BigInteger) + 1 + cast(func.floor(func.random() * 2**30), BigInteger)
) % (2**31)

RESTRICTED: Final = "memory_restricted"
"""The reason of sessions that wait until a restriction is lifted."""


@dataclass(frozen=True, slots=True)
class UserSettings:
    """What a user or their backend decided. Unseen users have the defaults."""

    memory: MemoryMode = "on"
    locale: str | None = None
    timezone: str | None = None


async def find_user(tx: AsyncSession, tenant_id: UUID, external_id: str) -> Scope | None:
    """Give the scope of a user that exists, else None."""
    if external_id == ORGANIZATION:
        return await _organization(tx, tenant_id)
    user_id = await tx.scalar(
        select(UserDirectory.user_id).where(
            UserDirectory.tenant_id == tenant_id, UserDirectory.external_id == external_id
        )
    )
    return Scope(tenant_id, user_id) if user_id else None


async def _organization(tx: AsyncSession, tenant_id: UUID) -> Scope | None:
    scope = Scope(tenant_id, tenant_id)
    return scope if await tx.get(User, (scope.tenant_id, scope.user_id)) else None


async def ensure_user(tx: AsyncSession, tenant_id: UUID, external_id: str) -> tuple[Scope, User]:
    """Give the user, creating it if need be, its row locked against erasure until commit."""
    while True:
        scope = await find_user(tx, tenant_id, external_id)
        if scope is not None:
            user = await lock_user(tx, scope, exclusive=False)
            if user is not None:
                return scope, user
        if external_id == ORGANIZATION:
            reserved = insert(User).values(tenant_id=tenant_id, user_id=tenant_id)
            await tx.execute(reserved.on_conflict_do_nothing())
            continue
        await _require_tenant(tx, tenant_id)
        created = await tx.scalar(
            insert(UserDirectory)
            .values(tenant_id=tenant_id, external_id=external_id, user_id=uuid4())
            .on_conflict_do_nothing()
            .returning(UserDirectory.user_id)
        )
        if created is not None:
            memory = await _default_memory(tx, tenant_id)
            user = User(tenant_id=tenant_id, user_id=created, memory=memory)
            tx.add(user)
            await tx.flush()
            await tx.refresh(user)
            return Scope(tenant_id, created), user
        # Somebody else created it a moment ago (look again), or is erasing it (start afresh).


async def _default_memory(tx: AsyncSession, tenant_id: UUID) -> MemoryMode:
    """Give what the tenant's policy says of people whom nobody asked yet."""
    chosen = TenantPolicy.policy["default_memory"].astext
    stored = await tx.scalar(select(chosen).where(TenantPolicy.tenant_id == tenant_id))
    return "paused" if stored == "paused" else "on"


async def _require_tenant(tx: AsyncSession, tenant_id: UUID) -> None:
    """Raise `Unauthorized` for a tenant that is gone, while a process still knows its keys."""
    held = (
        select(Tenant.id).where(Tenant.id == tenant_id).with_for_update(read=True, key_share=True)
    )
    if await tx.scalar(held) is None:
        raise Unauthorized("The API key is not valid.")


async def lock_user(tx: AsyncSession, scope: Scope, *, exclusive: bool = True) -> User | None:
    """Lock the user's row until commit: exclusively before facts change, else against erasure.

    The exclusive lock moves the user's revision, so that no process goes on to recall what it held
    in memory before; by a random step, so that after a restore or a failover, which takes it back,
    it never comes again to a number that somebody holds other facts under.
    """
    own = User.tenant_id == scope.tenant_id, User.user_id == scope.user_id
    fresh = {"populate_existing": True}
    if exclusive:
        moved = update(User).where(*own).values(revision=_NEXT).returning(User)
        options = {**fresh, "synchronize_session": False}
        return (await tx.scalars(moved, execution_options=options)).one_or_none()
    held = select(User).where(*own).with_for_update(read=True, key_share=True)
    return await tx.scalar(held, execution_options=fresh)


async def drop_frozen(tx: AsyncSession, user: User) -> None:
    """Drop the person's frozen blocks: what they hold was changed or taken back.

    The epoch keeps one from being served that is being frozen at this moment.
    """
    user.epoch += 1
    await tx.execute(
        delete(FrozenBlock).where(
            FrozenBlock.tenant_id == user.tenant_id, FrozenBlock.user_id == user.user_id
        )
    )


async def read_settings(tx: AsyncSession, tenant_id: UUID, external_id: str) -> UserSettings:
    """Read a user's settings; the defaults for an unseen user."""
    scope = await find_user(tx, tenant_id, external_id)
    user = await tx.get(User, (tenant_id, scope.user_id)) if scope else None
    if user is None:
        return UserSettings(await _default_memory(tx, tenant_id))
    return UserSettings(user.memory, user.locale, user.timezone)  # type: ignore[arg-type] # CHECKed


async def write_settings(
    tx: AsyncSession, tenant_id: UUID, external_id: str, changes: Mapping[str, Any], *, by: str
) -> UserSettings:
    """Change those settings that are named, and give all of them.

    A new `memory` moves the epoch, so it holds from this commit on, and is kept with its time and
    actor in the audit log.
    """
    scope, _ = await ensure_user(tx, tenant_id, external_id)
    user = await lock_user(tx, scope)
    if user is None:
        raise RuntimeError("the row is locked against erasure")
    before = user.memory
    changed = sorted(name for name, value in changes.items() if getattr(user, name) != value)
    for name in changed:
        setattr(user, name, changes[name])
    if user.memory != before:
        await drop_frozen(tx, user)
        await _after_consent(tx, scope, before, user.memory)
    if changed:
        details: dict[str, Any] = {"changed": changed}
        if user.memory != before:
            details["memory"] = {"from": before, "to": user.memory}
        await audit_log.record(
            tx, tenant_id, by, "settings_changed", about=scope.user_id, details=details
        )
    return UserSettings(user.memory, user.locale, user.timezone)  # type: ignore[arg-type] # CHECKed


async def _after_consent(tx: AsyncSession, scope: Scope, before: str, after: str) -> None:
    """End open links when memory is switched off; wake what a restriction had kept waiting."""
    if after != "on":
        await tx.execute(
            delete(PageLink).where(
                PageLink.tenant_id == scope.tenant_id, PageLink.user_id == scope.user_id
            )
        )
    if before != "restricted":
        return
    woken = await tx.scalars(
        update(Session)
        .where(
            Session.tenant_id == scope.tenant_id,
            Session.user_id == scope.user_id,
            Session.status == "queued",
            Session.reason == RESTRICTED,
        )
        .values(reason=None, extract_after=now(tx))
        .returning(Session.id)
    )
    for session_id in woken.all():
        await defer_look(tx, scope, session_id)
