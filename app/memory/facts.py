"""Facts one by one: read, list, explain, write.

Every change locks the user's row first, so that a worker and a person never lose each other's edit.
"""

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID, uuid4

from sqlalchemy import and_, or_, select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from app import metrics
from app.db import Scope, now
from app.errors import Conflict, Invalid, NotFound, Stale
from app.llm import Judge, Kind, Verdict
from app.memory import cursor, guard
from app.memory.core import Core
from app.memory.ingest import clamp_time
from app.memory.learn import commit, prepare
from app.memory.policy import Policy, policy_of
from app.memory.reconcile import Proposal, Ruling
from app.memory.usage import count, over_budget, spent
from app.memory.users import drop_frozen, ensure_user, find_user, lock_user
from app.memory.view import View, seen, status_of
from app.memory.write import Outcome, close
from app.models import Evidence, Fact, FactEvent, FactVerdict, Session, User
from app.rules import is_single_valued, subject_of
from app.text import fingerprint, one_line

Source = Literal["api", "page", "mcp", "import"]

NO_FACT = "There is no such fact."
_FORGOTTEN = Verdict("CONTRADICTS", "forgotten on request")


@dataclass(frozen=True, slots=True)
class NewFact:
    """A fact that a person or program states directly."""

    text: str
    kind: Kind
    valid_from: datetime | None = None
    expires_at: datetime | None = None
    pinned: bool = False
    metadata: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """What became of a new fact; for a duplicate, `fact` is the one that was there."""

    fact: Fact
    verdict: Literal["added", "duplicate", "quarantined"]
    superseded: Sequence[UUID]


Settle = Callable[[AsyncSession, Written], Awaitable[None]]
"""What else belongs into the commit that writes a fact."""


@dataclass(frozen=True, slots=True)
class Why:
    """Why a fact is believed: evidence with the caller's session id, verdicts oldest first."""

    fact: Fact
    evidence: Sequence[tuple[Evidence, str | None]]
    verdicts: Sequence[FactVerdict]
    events: Sequence[FactEvent]


async def get_fact(
    tx: AsyncSession, tenant_id: UUID, user: str, fact_id: UUID
) -> tuple[Scope, Fact]:
    """Give one fact of the user. Raises `NotFound`, whoever else's it may be."""
    scope = await find_user(tx, tenant_id, user)
    if scope is None:
        raise NotFound(NO_FACT)
    fact = await tx.get(Fact, (tenant_id, scope.user_id, fact_id), populate_existing=True)
    if fact is None:
        raise NotFound(NO_FACT)
    return scope, fact


async def list_facts(
    tx: AsyncSession,
    core: Core,
    tenant_id: UUID,
    user: str,
    view: View,
    *,
    limit: int = 50,
    after: str | None = None,
) -> cursor.Page[Fact]:
    """List a user's facts, newest first, each as it stands now; an unseen user has none."""
    binding = cursor.binding_of("facts", tenant_id, user, **asdict(view))
    place = cursor.decode(core, binding, after) if after else None
    scope = await find_user(tx, tenant_id, user)
    if scope is None:
        return cursor.Page([], None)
    query = seen(scope, view, now(tx))
    if place:
        query = query.where(tuple_(Fact.created_at, Fact.id) < tuple_(*place))
    query = query.order_by(Fact.created_at.desc(), Fact.id.desc()).limit(limit + 1)
    return cursor.page(core, binding, list(await tx.scalars(query)), limit)


async def explain(tx: AsyncSession, tenant_id: UUID, user: str, fact_id: UUID) -> Why:
    """Give a fact with its evidence, verdicts and events. Raises `NotFound`."""
    scope, fact = await get_fact(tx, tenant_id, user, fact_id)
    evidence = await tx.execute(
        select(Evidence, Session.external_id)
        .outerjoin(
            Session,
            and_(
                Session.tenant_id == Evidence.tenant_id,
                Session.user_id == Evidence.user_id,
                Session.id == Evidence.session_id,
            ),
        )
        .where(
            Evidence.tenant_id == scope.tenant_id,
            Evidence.user_id == scope.user_id,
            Evidence.fact_id == fact_id,
        )
        .order_by(Evidence.said_at, Evidence.id)
    )
    verdicts = await tx.scalars(
        select(FactVerdict)
        .where(
            FactVerdict.tenant_id == scope.tenant_id,
            FactVerdict.user_id == scope.user_id,
            or_(FactVerdict.old_id == fact_id, FactVerdict.new_id == fact_id),
        )
        .order_by(FactVerdict.at, FactVerdict.id)
    )
    events = await tx.scalars(
        select(FactEvent)
        .where(
            FactEvent.tenant_id == scope.tenant_id,
            FactEvent.user_id == scope.user_id,
            FactEvent.fact_id == fact_id,
        )
        .order_by(FactEvent.at, FactEvent.n)
    )
    return Why(fact, [(row, session) for row, session in evidence], list(verdicts), list(events))


def check_metadata(metadata: Mapping[str, Any]) -> None:
    """Refuse metadata that holds a secret: it is stored and shown as it is. Raises `Invalid`."""
    if any(guard.scrub(line).found for line in _lines(metadata)):
        raise Invalid("The metadata holds what looks like a secret.", code="secret")


def _lines(value: object, name: str = "") -> Iterator[str]:
    """Give every string of a JSON value after its name, as a person would tell it."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _lines(item, str(key))
    elif isinstance(value, list):
        for item in value:
            yield from _lines(item, name)
    elif isinstance(value, str):
        yield f"my {name} is {value}" if name else value


def checked(text: str, kind: Kind, policy: Policy) -> tuple[str, str | None]:
    """Hold a text against the guard: its one line, and why it must wait in quarantine if so.

    Raises `Invalid` with the guard's reason as code.
    """
    said = one_line(text)
    decision = guard.check(said, kind, blocked=policy.blocked)
    metrics.guarded(decision.action, decision.reason)
    if decision.action == "reject":
        raise Invalid("The text can't be kept as a fact.", code=decision.reason)
    return said, decision.reason if decision.action == "quarantine" else None


async def judge_for(tx: AsyncSession, core: Core, tenant_id: UUID, policy: Policy) -> Judge | None:
    """Give the tenant's judge; None while its budget is spent."""
    if await over_budget(tx, tenant_id, policy.monthly_token_budget):
        return None
    return core.readers_of(policy)[1]


async def add_fact(
    core: Core,
    tenant_id: UUID,
    user: str,
    new: NewFact,
    *,
    source: Source,
    by: str,
    settle: Settle | None = None,
) -> tuple[Written, datetime]:
    """Write a fact through the same guard and judge as a conversation's.

    Opens its own transactions, for the judge is waited for in between; gives what was written and
    the instant of the commit. Raises `Invalid` with the guard's reason as code, or `Conflict`
    while the user's memory is not on.
    """
    check_metadata(new.metadata or {})
    async with core.db.tenant(tenant_id) as tx:
        policy = await policy_of(tx, core, tenant_id)
        said, quarantine = checked(new.text, new.kind, policy)
        judge = await judge_for(tx, core, tenant_id, policy)
        scope, person = await ensure_user(tx, tenant_id, user)
        require_on(person)
        at = now(tx)
        valid_from = clamp_time(new.valid_from, at) if new.valid_from else None
    subject = subject_of(said, new.kind)
    proposal = Proposal(
        id=uuid4(),
        text=said,
        kind=new.kind,
        subject=subject,
        slot=subject if is_single_valued(subject) else None,
        fingerprint=fingerprint(said),
        source=source,
        said_at=at,
        valid_from=valid_from,
        expires_at=new.expires_at,
        pinned=new.pinned,
        extra=new.metadata or {},
        quarantine=quarantine,
    )
    prepared = await prepare(core, scope, [proposal], judge=judge, patience=core.patience.judge)
    async with core.db.tenant(tenant_id) as tx:
        locked = await lock_user(tx, scope)
        if locked is None:
            raise Conflict("The user was erased meanwhile.", code="user_erased")
        require_on(locked)
        outcome = await commit(tx, core, scope, prepared, by=by)
        await count(tx, tenant_id, {**outcome.counts, **spent(prepared.usage)})
        if scope.is_organization:
            # Everybody's stable part holds what is new here.
            await drop_frozen(tx, locked)
        kept = [*outcome.added, *outcome.quarantined, *outcome.confirmed]
        fact = await tx.get(Fact, (tenant_id, scope.user_id, kept[0]), populate_existing=True)
        if fact is None:
            raise RuntimeError("a fact just written is there")
        written = _written(fact, outcome)
        if settle is not None:
            await settle(tx, written)
        return written, now(tx)


def _written(fact: Fact, outcome: Outcome) -> Written:
    if outcome.quarantined:
        return Written(fact, "quarantined", [])
    return Written(fact, "added" if outcome.added else "duplicate", outcome.superseded)


def require_revision(fact: Fact, revisions: Collection[int] | None) -> None:
    """Raise `Stale` unless the fact is of such a revision; None stands for any."""
    if revisions is not None and fact.revision not in revisions:
        raise Stale("The fact has changed since; read it again.")


async def close_fact(
    tx: AsyncSession, tenant_id: UUID, user: str, fact_id: UUID, *, source: Source, by: str
) -> Fact:
    """End a live fact that nothing replaces, as when a person says "forget that".

    It can be restored. Joins the caller's transaction; raises `NotFound`, or `Conflict` when it is
    not live or the user's memory is not on.
    """
    scope, _ = await get_fact(tx, tenant_id, user, fact_id)
    person = await lock_user(tx, scope)
    if person is None:
        raise NotFound(NO_FACT)
    require_on(person)
    _, fact = await get_fact(tx, tenant_id, user, fact_id)
    if status_of(fact, now(tx)) != "live":
        raise Conflict("Only a live fact can be forgotten.", code="fact_not_live")
    ruling = Ruling(fact.id, None, _FORGOTTEN, source)
    await close(tx, scope, ruling, until=now(tx), by=by)
    await drop_frozen(tx, person)
    await tx.refresh(fact)
    return fact


def require_on(user: User) -> None:
    """Raise `Conflict` while the user's memory is paused or restricted."""
    if user.memory != "on":
        raise Conflict(f"The user's memory is {user.memory}.", code="memory_paused")
