"""Releasing a fact from quarantine: a person has looked at these very words and lets them in.

It is judged as if it had just been said, so it may supersede, repeat or come too late.
"""

from collections.abc import Collection
from datetime import datetime
from uuid import UUID

from sqlalchemy import or_
from sqlalchemy.ext.asyncio import AsyncSession

from app.db import Scope, now
from app.errors import Invalid
from app.memory import audit_log, guard
from app.memory.core import Core
from app.memory.facts import judge_for, require_on
from app.memory.jobs import defer_rejudge
from app.memory.learn import live, load_facts, prepare, rule_on
from app.memory.policy import policy_of
from app.memory.quarantine import find_held
from app.memory.reconcile import Plan, Proposal, plan
from app.memory.rejudge import as_proposal, keep_rulings, merge
from app.memory.usage import spend
from app.memory.users import drop_frozen, lock_user
from app.memory.write import Prepared, end, record_events
from app.models import Fact


async def release(
    core: Core, tenant_id: UUID, fact_id: UUID, *, revisions: Collection[int] | None, by: str
) -> tuple[Fact, datetime]:
    """Let a fact of such a revision out of quarantine; give it, or the one that it repeats.

    Opens its own transactions, for the judge is waited for in between. Raises `NotFound`, `Stale`,
    `Invalid` for what an older guard let in with a secret, or `Conflict` while the user's memory is
    not on.
    """
    async with core.db.tenant(tenant_id) as tx:
        scope, fact = await find_held(tx, tenant_id, fact_id, revisions)
        if fact.guard_version < guard.VERSION and guard.scrub(fact.text).found:
            # Nobody was shown it as it is, so nobody can let it in.
            raise Invalid("The fact holds what looks like a secret.", code="secret")
        proposal = as_proposal(fact)
        judge = await judge_for(tx, core, tenant_id, await policy_of(tx, core, tenant_id))
    prepared = await prepare(core, scope, [proposal], judge=judge, patience=core.patience.judge)
    async with core.db.tenant(tenant_id) as tx:
        scope, fact = await find_held(tx, tenant_id, fact_id, revisions)
        person = await lock_user(tx, scope)
        if person is None:
            raise RuntimeError("the row is locked against erasure")
        require_on(person)
        await spend(tx, tenant_id, prepared.usage)
        kept = await _let_in(tx, scope, fact, proposal, prepared, by)
        if prepared.judge_again:
            await defer_rejudge(tx, scope, fact.id, now(tx) + core.patience.retry)
        await drop_frozen(tx, person)
        details = {"fact": str(fact_id)}
        await audit_log.record(
            tx, tenant_id, by, "quarantine_released", about=scope.user_id, details=details
        )
        await tx.refresh(kept)
        return kept, now(tx)


async def _let_in(
    tx: AsyncSession, scope: Scope, fact: Fact, proposal: Proposal, prepared: Prepared, by: str
) -> Fact:
    """Carry out what the judge said of the fact, under the user's lock."""
    judged = {ruling.old for ruling in prepared.rulings.values()}
    near = await load_facts(
        tx,
        scope,
        live(),
        or_(
            Fact.id.in_(judged),
            Fact.fingerprint == proposal.fingerprint,
            Fact.subject == proposal.subject,
        ),
    )
    known = {one.id: one for one in near}
    decided = plan(
        [proposal],
        near,
        lambda old, new: prepared.rulings.get((old.id, new.id)) or rule_on(prepared, old, new),
    )
    for old, successor, until in decided.ended:
        await end(tx, scope, old, successor, at=now(tx), until=until)
    await _admit(tx, fact, decided)
    await keep_rulings(tx, scope, fact.id, decided, known, prepared.rulings.values())
    events = [(old, "superseded") for old, *_ in decided.ended]
    await record_events(tx, scope, [(fact.id, "released"), *events], by)
    if not decided.confirmed:
        return fact
    older = known[decided.confirmed[0][0]]
    await merge(tx, scope, proposal, older.id, by)
    kept = await tx.get(Fact, (scope.tenant_id, scope.user_id, older.id))
    if kept is None:
        raise RuntimeError("a fact under the user's lock stays")
    return kept


async def _admit(tx: AsyncSession, fact: Fact, decided: Plan) -> None:
    """Give the fact its place: live, or in history where a newer statement stands."""
    at = now(tx)
    fact.quarantined_at = fact.quarantine_reason = None
    fact.superseded_at = fact.superseded_by = fact.valid_to = None
    fact.guard_version = guard.RELEASED
    fact.revision += 1
    if decided.confirmed:
        # It goes into an older one at once; until then it may not stand beside it.
        fact.superseded_at, fact.superseded_by, fact.valid_to = at, decided.confirmed[0][0], at
    for _, successor, until in decided.history:
        fact.superseded_at, fact.superseded_by, fact.valid_to = at, successor, until
    for _, alone in decided.added:
        fact.slot = fact.slot if alone else None
    if decided.quarantined:
        # A model's own words against the user's may stand beside them, but never in their place.
        fact.slot = None
    await tx.flush()
