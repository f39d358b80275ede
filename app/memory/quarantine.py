"""Quarantine: what must not be served until a person has looked, and taking back what came wrong.

What was shown is what is released, byte for byte: a release names the revision that it saw. A sweep
takes away everything that came one way, and what it had superseded is live again.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import ColumnElement, and_, delete, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.db import Scope, now
from app.errors import NotFound
from app.memory import audit_log, cursor
from app.memory.core import Core
from app.memory.edit import withdraw
from app.memory.facts import require_revision
from app.memory.idempotency import forget_answers
from app.memory.users import drop_frozen, find_user, lock_user
from app.memory.write import record_events
from app.models import Fact, Session, User, UserDirectory

SWEPT = "swept"
"""The reason of facts that a sweep took away."""


@dataclass(frozen=True, slots=True)
class Held:
    """A fact in quarantine, with the caller's own id of whom it is about; None is everybody."""

    fact: Fact
    user: str | None


@dataclass(frozen=True, slots=True)
class Way:
    """How facts came in: all that is given must match; nothing given matches nothing."""

    session: str | None = None
    source: str | None = None
    extractor: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    user: str | None = None


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep did."""

    quarantined: int
    restored: int


async def list_quarantine(
    tx: AsyncSession, core: Core, tenant_id: UUID, *, limit: int, after: str | None
) -> tuple[Sequence[Held], str | None]:
    """List a tenant's facts in quarantine, newest first."""
    binding = cursor.binding_of("quarantine", tenant_id)
    place = cursor.decode(core, binding, after) if after else None
    query = select(Fact).where(Fact.tenant_id == tenant_id, Fact.quarantined_at.is_not(None))
    if place:
        query = query.where(tuple_(Fact.created_at, Fact.id) < tuple_(*place))
    query = query.order_by(Fact.created_at.desc(), Fact.id.desc()).limit(limit + 1)
    page = cursor.page(core, binding, list(await tx.scalars(query)), limit)
    names = await names_of(tx, tenant_id, {fact.user_id for fact in page.items})
    held = [Held(fact, names[fact.user_id]) for fact in page.items if fact.user_id in names]
    return held, page.next_cursor


async def names_of(
    tx: AsyncSession, tenant_id: UUID, users: set[UUID]
) -> Mapping[UUID, str | None]:
    """Give the caller's own ids of users; the organization is known and has none."""
    rows = await tx.execute(
        select(UserDirectory.user_id, UserDirectory.external_id).where(
            UserDirectory.tenant_id == tenant_id, UserDirectory.user_id.in_(users)
        )
    )
    return {tenant_id: None, **{row.user_id: row.external_id for row in rows}}


async def find_held(
    tx: AsyncSession, tenant_id: UUID, fact_id: UUID, revisions: Collection[int] | None = None
) -> tuple[Scope, Fact]:
    """Lock the user of a fact in quarantine and give it. Raises `NotFound`, or `Stale`."""
    held = and_(Fact.tenant_id == tenant_id, Fact.id == fact_id, Fact.quarantined_at.is_not(None))
    user_id = await tx.scalar(select(Fact.user_id).where(held))
    if user_id is None:
        raise NotFound("There is no such fact in quarantine.")
    scope = Scope(tenant_id, user_id)
    await lock_user(tx, scope)
    fact = await tx.scalar(
        select(Fact).where(held, Fact.user_id == user_id).execution_options(populate_existing=True)
    )
    if fact is None:
        raise NotFound("There is no such fact in quarantine.")
    require_revision(fact, revisions)
    return scope, fact


async def reject(tx: AsyncSession, tenant_id: UUID, fact_id: UUID, *, by: str) -> None:
    """Erase a fact in quarantine for good. Raises `NotFound`."""
    scope, fact = await find_held(tx, tenant_id, fact_id)
    await forget_answers(tx, tenant_id, user_id=scope.user_id, facts=[fact.id])
    await tx.execute(
        delete(Fact).where(
            Fact.tenant_id == tenant_id, Fact.user_id == scope.user_id, Fact.id == fact_id
        )
    )
    details = {"fact": str(fact_id)}
    await audit_log.record(
        tx, tenant_id, by, "quarantine_rejected", about=scope.user_id, details=details
    )


async def sweep(tx: AsyncSession, tenant_id: UUID, way: Way, *, by: str) -> Swept:
    """Put everything that came one way into quarantine, in one transaction, user by user.

    What those facts had superseded is live again. Facts in quarantine already stay as they are.
    """
    matching = await _matching(tx, tenant_id, way)
    by_user: dict[UUID, set[UUID]] = defaultdict(set)
    for user_id, fact_id in await tx.execute(select(Fact.user_id, Fact.id).where(*matching)):
        by_user[user_id].add(fact_id)
    quarantined = restored = 0
    for user_id in sorted(by_user):
        scope = Scope(tenant_id, user_id)
        person = await lock_user(tx, scope)
        if person is None:
            continue
        facts = set(await tx.scalars(select(Fact.id).where(*matching, Fact.user_id == user_id)))
        restored += await take(tx, person, facts, reason=SWEPT, by=by)
        quarantined += len(facts)
    return Swept(quarantined, restored)


async def take(tx: AsyncSession, person: User, facts: set[UUID], *, reason: str, by: str) -> int:
    """Put a locked user's facts into quarantine; give how many others are live again for that."""
    scope = Scope(person.tenant_id, person.user_id)

    async def mark() -> None:
        await tx.execute(
            update(Fact)
            .where(
                Fact.tenant_id == scope.tenant_id,
                Fact.user_id == scope.user_id,
                Fact.id.in_(facts),
            )
            .values(quarantined_at=now(tx), quarantine_reason=reason, revision=Fact.revision + 1)
        )

    restored = await withdraw(tx, scope, facts, mark, by=by)
    await record_events(tx, scope, [(fact_id, "quarantined") for fact_id in sorted(facts)], by)
    await drop_frozen(tx, person)
    await audit_log.record(
        tx,
        scope.tenant_id,
        by,
        "quarantine_swept",
        about=scope.user_id,
        details={"quarantined": len(facts)},
    )
    return restored


async def _matching(tx: AsyncSession, tenant_id: UUID, way: Way) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if way.session is not None:
        sessions = select(Session.id).where(
            Session.tenant_id == tenant_id, Session.external_id == way.session
        )
        conditions.append(Fact.source_session_id.in_(list(await tx.scalars(sessions))))
    if way.source is not None:
        conditions.append(Fact.source == way.source)
    if way.extractor is not None:
        conditions.append(Fact.extractor == way.extractor)
    if way.since is not None:
        conditions.append(Fact.created_at >= way.since)
    if way.until is not None:
        conditions.append(Fact.created_at < way.until)
    if way.user is not None:
        scope = await find_user(tx, tenant_id, way.user)
        conditions.append(Fact.user_id == (scope.user_id if scope else None))
    if not conditions:
        conditions.append(Fact.id.is_(None))
    return [Fact.tenant_id == tenant_id, Fact.quarantined_at.is_(None), *conditions]
