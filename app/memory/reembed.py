"""A change of embedding model: every user's vectors are made anew, one user after the other.

New vectors are collected beside the old ones, and taken over in one transaction once a user has all
of them. So a user is always searched by one model, and a run that was cut off goes on where it was.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final
from uuid import UUID

from pgvector import HalfVector
from sqlalchemy import ColumnElement, Row, delete, distinct, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from app.db import Scope
from app.memory.core import Core
from app.memory.covered import covered
from app.memory.tenants import every_tenant
from app.memory.users import lock_user
from app.models import Fact, NewVector

AT_ONCE: Final = 100
"""Facts that are embedded together, between two short locks."""

_USERS: Final = 200


async def count_old(core: Core) -> int:
    """Count the facts that have no vector of the configured embedder."""
    total = 0
    for tenant_id in await every_tenant(core.db):
        async with core.db.tenant(tenant_id) as tx:
            old = Fact.tenant_id == tenant_id, _is_old(core)
            total += await tx.scalar(select(func.count()).select_from(Fact).where(*old)) or 0
    return total


async def reembed(core: Core, advance: Callable[[int], object]) -> None:
    """Make all vectors anew with the configured embedder; `advance` is told of facts done.

    Raises `EmbedderError`; what is done stays done.
    """
    for tenant_id in await every_tenant(core.db):
        after = UUID(int=0)
        while users := await _next_users(core, tenant_id, after):
            for user_id in users:
                await reembed_user(core, Scope(tenant_id, user_id), advance)
            after = users[-1]


async def reembed_user(core: Core, scope: Scope, advance: Callable[[int], object]) -> None:
    """Collect the user's new vectors, and take them over once there is none left to make."""
    while True:
        async with core.db.tenant(scope.tenant_id) as tx:
            if await lock_user(tx, scope) is None:
                return
            rows = await _without(tx, core, scope)
            if not rows:
                advance(await _take_over(tx, core, scope))
                return
        vectors = await core.embedder.embed([covered(row.text, row.guard_version) for row in rows])
        values = [
            {
                "tenant_id": scope.tenant_id,
                "user_id": scope.user_id,
                "fact_id": row.id,
                "embedding": HalfVector(vector),
                "embedding_model": core.embedder.name,
            }
            for row, vector in zip(rows, vectors, strict=True)
        ]
        async with core.db.tenant(scope.tenant_id) as tx:
            await lock_user(tx, scope)
            await _keep(tx, scope, values)


def _is_old(core: Core) -> ColumnElement[bool]:
    return Fact.embedding_model.is_distinct_from(core.embedder.name)


async def _next_users(core: Core, tenant_id: UUID, after: UUID) -> Sequence[UUID]:
    async with core.db.tenant(tenant_id) as tx:
        of = Fact.tenant_id == tenant_id, Fact.user_id > after, _is_old(core)
        users = select(distinct(Fact.user_id)).where(*of).order_by(Fact.user_id).limit(_USERS)
        return (await tx.scalars(users)).all()


async def _without(tx: AsyncSession, core: Core, scope: Scope) -> Sequence[Row[UUID, str, int]]:
    """Give (id, text, guard_version) of some facts that have no new vector anywhere yet."""
    made = select(NewVector.fact_id).where(
        NewVector.tenant_id == scope.tenant_id,
        NewVector.user_id == scope.user_id,
        NewVector.embedding_model == core.embedder.name,
    )
    of = Fact.tenant_id == scope.tenant_id, Fact.user_id == scope.user_id
    words = select(Fact.id, Fact.text, Fact.guard_version)
    some = words.where(*of, _is_old(core), Fact.id.not_in(made)).limit(AT_ONCE)
    return (await tx.execute(some)).all()


async def _keep(tx: AsyncSession, scope: Scope, values: Sequence[dict[str, Any]]) -> None:
    """Store new vectors of those facts that are still there."""
    left = set(
        await tx.scalars(
            select(Fact.id).where(
                Fact.tenant_id == scope.tenant_id,
                Fact.user_id == scope.user_id,
                Fact.id.in_([value["fact_id"] for value in values]),
            )
        )
    )
    kept = [value for value in values if value["fact_id"] in left]
    if kept:
        new = insert(NewVector).values(kept)
        changed = {name: new.excluded[name] for name in ("embedding", "embedding_model")}
        key = ["tenant_id", "user_id", "fact_id"]
        await tx.execute(new.on_conflict_do_update(index_elements=key, set_=changed))


async def _take_over(tx: AsyncSession, core: Core, scope: Scope) -> int:
    """Give all of the user's facts their new vectors, and count them."""
    whose = NewVector.tenant_id == scope.tenant_id, NewVector.user_id == scope.user_id
    taken = await tx.scalars(
        update(Fact)
        .where(
            Fact.tenant_id == scope.tenant_id,
            Fact.user_id == scope.user_id,
            *whose,
            Fact.id == NewVector.fact_id,
            NewVector.embedding_model == core.embedder.name,
        )
        .values(embedding=NewVector.embedding, embedding_model=NewVector.embedding_model)
        .returning(Fact.id)
        .execution_options(synchronize_session=False)
    )
    count = len(taken.all())
    await tx.execute(delete(NewVector).where(*whose))
    return count
