"""Letting go of what is stale, night by night, by rules that the tenant sets.

A night has one instant, by which all its rules are reckoned, and works user by user: whoever kills
it in the middle finds it going on from there. Nothing goes that was edited, confirmed or recalled
since the scan: what is due is asked again under the user's lock, and must be the very same.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from itertools import groupby
from typing import Final, cast, get_args
from uuid import UUID, uuid4

from sqlalchemy import delete, select, tuple_, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from app.db import Scope, now
from app.memory import audit_log, cursor
from app.memory.core import Core
from app.memory.edit import remove_facts
from app.memory.forgetting_rules import Due, Rule, due_of, newest_due
from app.memory.policy import Forgetting, Policy, forgetting_of, policy_of
from app.memory.quarantine import names_of
from app.memory.tenants import every_tenant
from app.memory.users import drop_frozen, lock_user
from app.memory.write import record_events
from app.models import Fact, ForgettingEntry, ForgettingNight, Tenant, User
from app.telemetry import logger

log = logger(__name__)

USERS_AT_ONCE: Final = 100
"""Users whose facts are scanned together."""

FACTS_AT_ONCE: Final = 500
"""Facts of one user that go in one transaction."""

WORKER: Final = "worker:forgetting"
"""The name under which the nightly run acts."""


@dataclass(slots=True)
class Report:
    """What a run let go, or would have, by rule."""

    mode: Forgetting
    facts: Counter[Rule] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class _Run:
    """One run over a tenant: as of when, under which day it is logged, and who does it."""

    core: Core
    tenant_id: UUID
    at: datetime
    day: date
    by: str
    dry_run: bool
    """Only look and log, whatever the policy says."""


@dataclass(frozen=True, slots=True)
class _Terms:
    """The policy as it is at this moment of a run."""

    policy: Policy
    mode: Forgetting


async def forget_every_tenant(core: Core) -> None:
    """Do what is left of tonight, tenant by tenant; a fault costs only its own tenant."""
    for tenant_id in await every_tenant(core.db):
        try:
            await forget_tonight(core, tenant_id)
        except Exception:
            log.exception("forgetting_failed", tenant=tenant_id.hex)


async def forget_tonight(core: Core, tenant_id: UUID) -> Report | None:
    """Run a tenant's night, or the rest of it; None when it is done: there is one a day (UTC)."""
    async with core.db.tenant(tenant_id) as tx:
        night = await _night(tx, tenant_id)
    if night is None or night.finished_at is not None:
        return None
    run = _Run(core, tenant_id, night.started_at, night.day, WORKER, dry_run=False)
    report = await _carry_out(run)
    async with core.db.tenant(tenant_id) as tx:
        await tx.execute(
            update(ForgettingNight)
            .where(ForgettingNight.tenant_id == tenant_id, ForgettingNight.day == night.day)
            .values(finished_at=now(tx))
        )
    return report


async def _night(tx: AsyncSession, tenant_id: UUID) -> ForgettingNight | None:
    """Begin today's night if nobody has; give it, or None for a tenant that is gone."""
    if await tx.get(Tenant, tenant_id) is None:
        return None
    today = insert(ForgettingNight).values(
        tenant_id=tenant_id, day=_day(now(tx)), started_at=now(tx)
    )
    fresh = {"day": today.excluded.day, "started_at": today.excluded.started_at}
    await tx.execute(
        today.on_conflict_do_update(
            index_elements=["tenant_id"],
            set_={**fresh, "finished_at": None},
            where=ForgettingNight.day < today.excluded.day,
        )
    )
    return await tx.get(ForgettingNight, tenant_id)


def _day(at: datetime) -> date:
    return at.astimezone(UTC).date()


async def forget_now(core: Core, tenant_id: UUID, *, dry_run: bool = False, by: str) -> Report:
    """Let go what is due at this moment, besides the nights; the policy may make it a dry run."""
    async with core.db.tenant(tenant_id) as tx:
        at = now(tx)
    return await _carry_out(_Run(core, tenant_id, at, _day(at), by, dry_run))


async def _carry_out(run: _Run) -> Report:
    report, after = None, UUID(int=0)
    while True:
        async with run.core.db.tenant(run.tenant_id) as tx:
            terms = await _terms(tx, run)
            users = await _users_after(tx, run.tenant_id, after)
            found = (
                await due_of(tx, run.tenant_id, terms.policy, run.at, users[0], users[-1])
                if users
                else []
            )
        report = report or Report(terms.mode)
        for user_id, due in groupby(found, lambda one: one.user_id):
            for some in _slices(list(due)):
                report.facts.update(await _let_go(run, Scope(run.tenant_id, user_id), some))
        if len(users) < USERS_AT_ONCE:
            break
        after = users[-1]
    counts = {rule: report.facts[rule] for rule in get_args(Rule) if report.facts[rule]}
    log.info("forgetting", tenant=run.tenant_id.hex, mode=report.mode, **counts)
    return report


async def _terms(tx: AsyncSession, run: _Run) -> _Terms:
    policy = await policy_of(tx, run.core, run.tenant_id)
    mode = "dry_run" if run.dry_run else await forgetting_of(tx, run.tenant_id, policy)
    return _Terms(policy, mode)


async def _users_after(tx: AsyncSession, tenant_id: UUID, after: UUID) -> Sequence[UUID]:
    found = await tx.scalars(
        select(User.user_id)
        .where(User.tenant_id == tenant_id, User.user_id > after)
        .order_by(User.user_id)
        .limit(USERS_AT_ONCE)
    )
    return list(found)


def _slices(due: list[Due]) -> Iterator[list[Due]]:
    for start in range(0, len(due), FACTS_AT_ONCE):
        yield due[start : start + FACTS_AT_ONCE]


async def _let_go(run: _Run, scope: Scope, found: Sequence[Due]) -> Counter[Rule]:
    """Let go those of a user's facts that are due as they were at the scan, in one transaction."""
    async with run.core.db.tenant(run.tenant_id) as tx:
        terms = await _terms(tx, run)
        is_dry = terms.mode == "dry_run"
        person = await lock_user(tx, scope, exclusive=not is_dry)
        if person is None:
            return Counter()
        user = scope.user_id
        still = set(await due_of(tx, run.tenant_id, terms.policy, run.at, user, user))
        due = [one for one in found if one in still]
        if not due:
            return Counter()
        await _log(tx, run, due, is_dry=is_dry)
        counts = Counter(one.rule for one in due)
        if not is_dry:
            await _forget(tx, run, person, due)
            await audit_log.record(
                tx,
                run.tenant_id,
                run.by,
                "facts_forgotten",
                about=scope.user_id,
                details={"facts": dict(counts)},
            )
        return counts


async def _log(tx: AsyncSession, run: _Run, due: Sequence[Due], *, is_dry: bool) -> None:
    """Note each fact; one night of dry runs notes it once."""
    rows = [
        {
            "tenant_id": run.tenant_id,
            "user_id": one.user_id,
            "id": uuid4(),
            "fact_id": one.id,
            "rule": one.rule,
            "dry_run": is_dry,
            "day": run.day,
            "created_at": now(tx),
        }
        for one in due
    ]
    await tx.execute(insert(ForgettingEntry).on_conflict_do_nothing(), rows)


async def _forget(tx: AsyncSession, run: _Run, person: User, due: Sequence[Due]) -> None:
    """Mark what is forgotten, so that it can be restored; remove what was forgotten long ago."""
    scope = Scope(person.tenant_id, person.user_id)
    gone = {one.id for one in due if one.rule == "forgotten_retention"}
    forgotten = [one.id for one in due if one.id not in gone]
    if forgotten:
        await tx.execute(
            update(Fact)
            .where(
                Fact.tenant_id == scope.tenant_id,
                Fact.user_id == scope.user_id,
                Fact.id.in_(forgotten),
            )
            .values(forgotten_at=now(tx), revision=Fact.revision + 1)
        )
        await record_events(tx, scope, [(one, "forgotten") for one in forgotten], run.by)
        await drop_frozen(tx, person)
    if gone:
        await _remove(tx, scope, gone, run.by)


async def _remove(tx: AsyncSession, scope: Scope, gone: set[UUID], by: str) -> None:
    """Delete facts with evidence, verdicts and events; what led to them names who came after.

    Unlike a deletion by the user it brings nothing back, and the words may be learned again.
    """
    rows = await tx.scalars(
        select(Fact).where(
            Fact.tenant_id == scope.tenant_id,
            Fact.user_id == scope.user_id,
            Fact.id.in_(gone) | Fact.superseded_by.in_(gone),
        )
    )
    by_id = {row.id: row for row in rows}
    relinked = [row for row in by_id.values() if row.id not in gone]
    for row in relinked:
        while row.superseded_by in gone:
            row.superseded_by = by_id[row.superseded_by].superseded_by
        row.revision += 1
    await tx.flush()
    await remove_facts(tx, scope, gone)
    await record_events(tx, scope, [(row.id, "relinked") for row in relinked], by)


@dataclass(frozen=True, slots=True)
class Previewed:
    """A fact that would go, why, and the caller's own id of whom it is about."""

    due: Due
    fact: Fact
    user: str


@dataclass(frozen=True, slots=True)
class Preview:
    """One page of what a run at this moment would let go, newest facts first."""

    mode: Forgetting
    items: Sequence[Previewed]
    next_cursor: str | None


async def preview(
    tx: AsyncSession, core: Core, tenant_id: UUID, *, limit: int, after: str | None
) -> Preview:
    """Show what is due and why. Joins the caller's transaction and changes nothing."""
    binding = cursor.binding_of("forgetting preview", tenant_id)
    before = cursor.decode(core, binding, after) if after else None
    policy = await policy_of(tx, core, tenant_id)
    found = await newest_due(tx, tenant_id, policy, now(tx), limit=limit + 1, before=before)
    page = cursor.page(core, binding, found, limit)
    facts = {
        (fact.user_id, fact.id): fact
        for fact in await tx.scalars(
            select(Fact).where(
                Fact.tenant_id == tenant_id,
                tuple_(Fact.user_id, Fact.id).in_([(one.user_id, one.id) for one in page.items]),
            )
        )
    }
    names = await names_of(tx, tenant_id, {one.user_id for one in page.items})
    items = [
        Previewed(one, facts[one.user_id, one.id], name)
        for one in page.items
        if (name := names.get(one.user_id)) is not None and (one.user_id, one.id) in facts
    ]
    return Preview(await forgetting_of(tx, tenant_id, policy), items, page.next_cursor)


@dataclass(frozen=True, slots=True)
class Logged:
    """An entry of the log, with the caller's own id of its user."""

    entry: ForgettingEntry
    user: str | None

    @property
    def rule(self) -> Rule:
        """The rule by which the fact went."""
        return cast("Rule", self.entry.rule)


async def list_log(
    tx: AsyncSession, core: Core, tenant_id: UUID, *, limit: int, after: str | None
) -> tuple[Sequence[Logged], str | None]:
    """List what was let go, and what dry runs would have, newest first."""
    binding = cursor.binding_of("forgetting log", tenant_id)
    place = cursor.decode(core, binding, after) if after else None
    query = select(ForgettingEntry).where(ForgettingEntry.tenant_id == tenant_id)
    if place:
        query = query.where(tuple_(ForgettingEntry.created_at, ForgettingEntry.id) < tuple_(*place))
    query = query.order_by(ForgettingEntry.created_at.desc(), ForgettingEntry.id.desc())
    page = cursor.page(core, binding, list(await tx.scalars(query.limit(limit + 1))), limit)
    names = await names_of(tx, tenant_id, {entry.user_id for entry in page.items})
    return [Logged(entry, names.get(entry.user_id)) for entry in page.items], page.next_cursor


async def expire_log(tx: AsyncSession, tenant_id: UUID, policy: Policy) -> None:
    """Delete entries that are past the audit log's retention. Joins the caller's transaction."""
    await tx.execute(
        delete(ForgettingEntry).where(
            ForgettingEntry.tenant_id == tenant_id,
            ForgettingEntry.created_at < now(tx) - policy.audit_retention,
        )
    )
