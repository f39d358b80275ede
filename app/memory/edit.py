"""What a person does to facts: correct, pin, delete. Each change is whole and under the lock.

Every verb locks the user's row first, so a worker and a person never lose each other's change; a
change that names a revision is refused when the fact has moved on meanwhile.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID, uuid4

from sqlalchemy import ColumnElement, Select, delete, or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from app.db import Scope, now
from app.errors import Conflict, Invalid, NotFound
from app.llm import Kind, Verdict
from app.memory import audit_log
from app.memory.core import Core
from app.memory.facts import (
    NO_FACT,
    Source,
    check_metadata,
    checked,
    get_fact,
    judge_for,
    require_on,
    require_revision,
)
from app.memory.idempotency import forget_answers
from app.memory.learn import commit, prepare, unlearned_digests
from app.memory.policy import Policy, policy_of
from app.memory.reconcile import Proposal, Ruling
from app.memory.usage import count, spent
from app.memory.users import drop_frozen, find_user, lock_user
from app.memory.view import status_of, with_status
from app.memory.write import Prepared, end, record_events, to_verdict
from app.models import Evidence, Fact, Unlearned, User
from app.rules import is_single_valued, subject_of
from app.text import fingerprint, one_line

_BY_HAND: Final = Verdict("CONTRADICTS", "corrected by hand")


@dataclass(frozen=True, slots=True)
class Change:
    """What to change of a fact. `fields` holds those named; a new `text` makes a successor."""

    text: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Of `kind`, `pinned`, `expires_at` and `extra`."""


async def change_fact(
    core: Core,
    tenant_id: UUID,
    user: str,
    fact_id: UUID,
    change: Change,
    *,
    revisions: Collection[int] | None,
    source: Source = "api",
    by: str,
) -> tuple[Fact, datetime]:
    """Change a live fact of such a revision; give it, or its successor when the text is new.

    None stands for any revision; a successor is of the `source`.

    Opens its own transactions, for a new text is embedded and judged in between. Raises
    `NotFound`, `Stale`, `Conflict` when the fact is not live, and `Invalid` for a text that the
    guard won't keep.
    """
    check_metadata(change.fields.get("extra", {}))
    async with core.db.tenant(tenant_id) as tx:
        scope, fact = await get_fact(tx, tenant_id, user, fact_id)
        _require(fact, revisions, now(tx))
        if change.text is None or one_line(change.text) == fact.text:
            person = await lock_owner(tx, scope)
            _, fact = await get_fact(tx, tenant_id, user, fact_id)
            _require(fact, revisions, now(tx))
            await _change_in_place(tx, scope, person, fact, change.fields, by)
            await _log_correction(tx, scope, fact, change, by)
            return fact, now(tx)
        policy = await policy_of(tx, core, tenant_id)
        proposal = _correction(fact, change, policy, source, now(tx))
        judge = await judge_for(tx, core, tenant_id, policy)
    prepared = await prepare(
        core,
        scope,
        [proposal],
        judge=judge,
        patience=core.patience.judge,
        apart_from={fact.id},
    )
    async with core.db.tenant(tenant_id) as tx:
        person = await lock_owner(tx, scope)
        _, fact = await get_fact(tx, tenant_id, user, fact_id)
        _require(fact, revisions, now(tx))
        kept, counts = await _replace(tx, core, scope, person, fact, prepared, change=change, by=by)
        await _log_correction(tx, scope, fact, change, by)
        await count(tx, tenant_id, {**counts, **spent(prepared.usage)})
        return kept, now(tx)


async def _replace(
    tx: AsyncSession,
    core: Core,
    scope: Scope,
    person: User,
    fact: Fact,
    prepared: Prepared,
    *,
    change: Change,
    by: str,
) -> tuple[Fact, dict[str, int]]:
    """Let the one proposal, or what says the same already, supersede a fact; give it and counts.

    What was there already takes on what the change names, and the pin.
    """
    (proposal,) = prepared.proposals
    until = max(proposal.said_at, fact.valid_from or fact.said_at)
    await end(tx, scope, fact.id, proposal.id, at=now(tx), until=until)
    outcome = await commit(tx, core, scope, prepared, by=by)
    successor = (*outcome.added, *outcome.confirmed)[0]
    if successor != proposal.id:
        await _point_to(tx, scope, fact.id, successor)
    tx.add(to_verdict(scope, Ruling(fact.id, successor, _BY_HAND, "person")))
    await record_events(tx, scope, [(fact.id, "superseded")], by)
    await drop_frozen(tx, person)
    kept = await tx.get(Fact, (scope.tenant_id, scope.user_id, successor), populate_existing=True)
    if kept is None:
        raise RuntimeError("a fact under the user's lock stays")
    if successor != proposal.id:
        pin = {"pinned": True} if proposal.pinned else {}
        await _change_in_place(tx, scope, person, kept, {**pin, **change.fields}, by)
    return kept, {**outcome.counts, "facts_superseded": len(outcome.superseded) + 1}


async def _log_correction(
    tx: AsyncSession, scope: Scope, fact: Fact, change: Change, by: str
) -> None:
    changed = [*(["text"] if change.text is not None else []), *sorted(change.fields)]
    await audit_log.record(
        tx,
        scope.tenant_id,
        by,
        "fact_corrected",
        about=scope.user_id,
        details={"fact": str(fact.id), "changed": changed},
    )


async def lock_owner(tx: AsyncSession, scope: Scope) -> User:
    """Lock the user for a change of facts. Raises `NotFound`, or `Conflict` while memory is off."""
    person = await lock_user(tx, scope)
    if person is None:
        raise NotFound(NO_FACT)
    require_on(person)
    return person


def _require(fact: Fact, revisions: Collection[int] | None, at: datetime) -> None:
    require_revision(fact, revisions)
    if status_of(fact, at) != "live":
        raise Conflict("Only a live fact can be changed.", code="fact_not_live")


def _correction(
    fact: Fact, change: Change, policy: Policy, source: Source, at: datetime
) -> Proposal:
    """Make the successor of a corrected fact: it keeps what the change doesn't name."""
    kind: Kind = change.fields.get("kind", fact.kind)
    said, quarantine = checked(change.text or "", kind, policy)
    if quarantine is not None:
        raise Invalid("The text can't replace a fact without a release.", code="not_a_fact")
    subject = subject_of(said, kind)
    return Proposal(
        id=uuid4(),
        text=said,
        kind=kind,
        subject=subject,
        slot=subject if is_single_valued(subject) else None,
        fingerprint=fingerprint(said),
        source=source,
        said_at=at,
        expires_at=change.fields.get("expires_at", fact.expires_at),
        pinned=change.fields.get("pinned", fact.pinned),
        extra=change.fields.get("extra", fact.extra),
    )


async def _change_in_place(
    tx: AsyncSession,
    scope: Scope,
    person: User,
    fact: Fact,
    fields: Mapping[str, Any],
    by: str,
) -> None:
    if not fields:
        return
    for name, value in fields.items():
        setattr(fact, name, value)
    fact.revision += 1
    await drop_frozen(tx, person)
    await tx.flush()
    await record_events(tx, scope, [(fact.id, "changed")], by)


async def _point_to(tx: AsyncSession, scope: Scope, old: UUID, successor: UUID) -> None:
    """Let a corrected fact name the one that already said what the correction says."""
    await tx.execute(
        update(Fact)
        .where(Fact.tenant_id == scope.tenant_id, Fact.user_id == scope.user_id, Fact.id == old)
        .values(superseded_by=successor)
    )


async def chain_of(tx: AsyncSession, tenant_id: UUID, user: str, fact_id: UUID) -> Sequence[Fact]:
    """Give the facts that one superseded and was superseded by, itself too, oldest first."""
    scope, _ = await get_fact(tx, tenant_id, user, fact_id)
    fact = select(Fact.id, Fact.superseded_by).where(*_own(scope))
    later = fact.where(Fact.id == fact_id).cte("later", recursive=True)
    later = later.union(fact.where(Fact.id == later.c.superseded_by))
    chain = await _linked(tx, scope, select(later.c.id))
    return sorted(chain, key=lambda row: (row.valid_from or row.said_at, row.created_at))


async def delete_fact(
    tx: AsyncSession, core: Core, tenant_id: UUID, user: str, fact_id: UUID, *, by: str
) -> None:
    """Erase a fact with its evidence and the predecessors it had superseded; not learned again.

    Joins the caller's transaction. Raises `NotFound`, also for one already deleted.
    """
    scope = await find_user(tx, tenant_id, user)
    person = await lock_user(tx, scope) if scope else None
    if scope is None or person is None:
        raise NotFound(NO_FACT)
    chain = await predecessors(tx, scope, fact_id)
    if not chain:
        raise NotFound(NO_FACT)
    quotes = await tx.scalars(
        select(Evidence.quote).where(
            Evidence.tenant_id == scope.tenant_id,
            Evidence.user_id == scope.user_id,
            Evidence.fact_id.in_(chain),
        )
    )
    digests = unlearned_digests(core, scope, *(fact.text for fact in chain.values()), *quotes)
    await tx.execute(
        insert(Unlearned)
        .values(
            [
                {"tenant_id": scope.tenant_id, "user_id": scope.user_id, "digest": digest}
                for digest in dict.fromkeys(digests)
            ]
        )
        .on_conflict_do_nothing()
    )
    await remove_facts(tx, scope, chain)
    await drop_frozen(tx, person)
    details = {"facts": [str(gone) for gone in sorted(chain)]}
    await audit_log.record(tx, tenant_id, by, "fact_deleted", about=scope.user_id, details=details)


async def predecessors(tx: AsyncSession, scope: Scope, fact_id: UUID) -> dict[UUID, Fact]:
    """Give the fact and all that it superseded, directly or not, by id."""
    itself = select(Fact.id).where(*_own(scope), Fact.id == fact_id)
    return {row.id: row for row in await _linked(tx, scope, itself)}


async def _linked(tx: AsyncSession, scope: Scope, heads: Select[UUID]) -> Sequence[Fact]:
    """Give facts and all that they superseded, in one statement however long the chains are."""
    earlier = heads.cte("earlier", recursive=True)
    # Not `union all`: it would go round a ring of links for ever.
    earlier = earlier.union(select(Fact.id).where(*_own(scope), Fact.superseded_by == earlier.c.id))
    found = select(Fact).where(*_own(scope), Fact.id.in_(select(earlier.c.id)))
    return (await tx.scalars(found)).all()


def _own(scope: Scope) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return Fact.tenant_id == scope.tenant_id, Fact.user_id == scope.user_id


async def remove_facts(tx: AsyncSession, scope: Scope, facts: Iterable[UUID]) -> None:
    """Delete facts with all that hangs on them; the caller sees to what they had superseded."""
    facts = list(facts)
    await forget_answers(tx, scope.tenant_id, user_id=scope.user_id, facts=facts)
    await tx.execute(
        delete(Fact).where(
            Fact.tenant_id == scope.tenant_id,
            Fact.user_id == scope.user_id,
            Fact.id.in_(facts),
        )
    )


async def erase_facts(tx: AsyncSession, scope: Scope, facts: set[UUID], *, by: str) -> int:
    """Erase facts whose source is gone, and let live again what they had superseded.

    The caller holds the user's row lock. Gives how many facts are live again.
    """

    async def erase() -> None:
        await remove_facts(tx, scope, facts)

    return await withdraw(tx, scope, facts, erase, by=by)


async def withdraw(
    tx: AsyncSession,
    scope: Scope,
    facts: set[UUID],
    remove: Callable[[], Awaitable[None]],
    *,
    by: str,
) -> int:
    """Take facts away by `remove`, and let live again what they had superseded.

    A predecessor whose successor's own successor stays is linked to that one instead; a forgotten
    one stays forgotten. The caller holds the user's row lock. Gives how many facts are live again.
    """
    if not facts:
        return 0
    rows = await tx.scalars(
        select(Fact).where(
            Fact.tenant_id == scope.tenant_id,
            Fact.user_id == scope.user_id,
            or_(Fact.id.in_(facts), Fact.superseded_by.in_(facts)),
        )
    )
    by_id = {row.id: row for row in rows}
    bereft = [row for row in by_id.values() if row.id not in facts]
    successors = {row: _surviving(row, by_id, facts) for row in bereft}
    ends = {row: _erased_end(row, by_id, facts) for row in bereft}
    await remove()
    restored = 0
    for row, successor in successors.items():
        row.superseded_by = successor
        row.valid_to = ends[row] if successor else None
        row.revision += 1
        if successor is None and row.forgotten_at is None:
            await revive(tx, scope, row, by=by)
            restored += row.superseded_at is None
        else:
            await record_events(tx, scope, [(row.id, "relinked")], by)
    return restored


def _surviving(row: Fact, by_id: Mapping[UUID, Fact], erased: set[UUID]) -> UUID | None:
    successor = row.superseded_by
    while successor in erased:
        successor = by_id[successor].superseded_by
    return successor


def _erased_end(row: Fact, by_id: Mapping[UUID, Fact], erased: set[UUID]) -> datetime | None:
    end, successor = row.valid_to, row.superseded_by
    while successor in erased:
        end, successor = by_id[successor].valid_to, by_id[successor].superseded_by
    return end


async def revive(tx: AsyncSession, scope: Scope, row: Fact, *, by: str) -> None:
    """Make a superseded or forgotten fact live again, unless the very same one is live already.

    Where another fact holds its slot, both stay: a restore may leave two of one subject.
    """
    rivals = list(
        await tx.scalars(
            select(Fact).where(
                Fact.tenant_id == scope.tenant_id,
                Fact.user_id == scope.user_id,
                Fact.id != row.id,
                with_status("live", now(tx)) | with_status("expired", now(tx)),
                or_(Fact.fingerprint == row.fingerprint, Fact.slot == row.slot),
            )
        )
    )
    same = next((rival for rival in rivals if rival.fingerprint == row.fingerprint), None)
    if same is not None:
        began, same_began = row.valid_from or row.said_at, same.valid_from or same.said_at
        row.superseded_by, row.valid_to = same.id, max(began, same_began)
        await record_events(tx, scope, [(row.id, "relinked")], by)
        return
    if rivals:
        row.slot = None
    row.superseded_at = row.superseded_by = row.valid_to = row.forgotten_at = None
    await tx.flush()
    await record_events(tx, scope, [(row.id, "restored")], by)
