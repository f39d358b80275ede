"""People, by the caller's own id: looked up in a directory, then known by a random id of ours.

A user exists from the first write. Reads of an unseen user create nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID, uuid4

from sqlalchemy import delete, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from app.db import Scope
from app.models import FrozenBlock, TenantPolicy, User, UserDirectory

MemoryMode = Literal["on", "paused", "restricted"]


@dataclass(frozen=True, slots=True)
class UserSettings:
    """What a user or their backend decided. Unseen users have the defaults."""

    memory: MemoryMode = "on"
    locale: str | None = None
    timezone: str | None = None


async def find_user(tx: AsyncSession, tenant_id: UUID, external_id: str) -> Scope | None:
    """Give the scope of a user that exists, else None."""
    user_id = await tx.scalar(
        select(UserDirectory.user_id).where(
            UserDirectory.tenant_id == tenant_id, UserDirectory.external_id == external_id
        )
    )
    return Scope(tenant_id, user_id) if user_id else None


async def ensure_user(tx: AsyncSession, tenant_id: UUID, external_id: str) -> tuple[Scope, User]:
    """Give the user, creating it if need be, its row locked against erasure until commit."""
    while True:
        scope = await find_user(tx, tenant_id, external_id)
        if scope is not None:
            user = await lock_user(tx, scope, exclusive=False)
            if user is not None:
                return scope, user
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


async def lock_user(tx: AsyncSession, scope: Scope, *, exclusive: bool = True) -> User | None:
    """Lock the user's row until commit: exclusively before facts change, else against erasure.

    The exclusive lock moves the user's revision, so that no process goes on to recall what it held
    in memory before.
    """
    own = User.tenant_id == scope.tenant_id, User.user_id == scope.user_id
    fresh = {"populate_existing": True}
    if exclusive:
        moved = update(User).where(*own).values(revision=User.revision + 1).returning(User)
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
    tx: AsyncSession, tenant_id: UUID, external_id: str, changes: Mapping[str, Any]
) -> UserSettings:
    """Change those settings that are named, and give all of them.

    A new `memory` moves the epoch: it holds from this commit on.
    """
    scope, _ = await ensure_user(tx, tenant_id, external_id)
    user = await lock_user(tx, scope)
    if user is None:
        raise RuntimeError("the row is locked against erasure")
    before = user.memory
    for name, value in changes.items():
        setattr(user, name, value)
    if user.memory != before:
        await drop_frozen(tx, user)
    return UserSettings(user.memory, user.locale, user.timezone)  # type: ignore[arg-type] # CHECKed
