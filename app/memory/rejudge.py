"""Facts that the rules had to decide on, because the model was away, are judged again by it.

Whoever writes a fact waits for the judge for two seconds, no longer. What stood side by side since
then is compared without haste, and the verdict carried out as it would have been in time.
"""

from collections.abc import Iterable
from typing import Final, cast
from uuid import UUID

from sqlalchemy import ColumnElement, and_, func, literal, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.db import Scope, now
from app.llm import Judge, Kind, ModelError, ModelMisconfigured, ModelUnavailable
from app.memory.core import Core
from app.memory.covered import covered
from app.memory.jobs import defer_rejudge
from app.memory.learn import live, load_facts, prepare
from app.memory.policy import policy_of
from app.memory.reconcile import Known, Plan, Proposal, Ruling, plan
from app.memory.usage import count, over_budget, spend, spent
from app.memory.users import drop_frozen, lock_user
from app.memory.write import Prepared, end, expiry_said_again, record_events, to_verdict
from app.models import Evidence, Fact, FactVerdict
from app.rules import RulesJudge
from app.telemetry import logger

log = logger(__name__)

_RULES: Final = RulesJudge.name


async def rejudge(core: Core, scope: Scope, fact_id: UUID) -> None:
    """Judge a live fact against those that were there before it. Safe to run twice.

    No pair is judged again that a model judged already or a person overturned. While the model
    gives no answer, or the tenant's budget is spent, it is put off; a refusal or an answer that
    nobody can use leaves the rules' decision standing. Holds no connection while the model thinks.
    """
    found = await _find(core, scope, fact_id)
    if found is None:
        return
    proposal, judge, settled = found
    try:
        prepared = await prepare(core, scope, [proposal], judge=judge, apart_from=settled)
    except ModelError as error:
        await _put_off(core, scope, fact_id, error)
        return
    async with core.db.tenant(scope.tenant_id) as tx:
        user = await lock_user(tx, scope)
        if user is None:
            return
        superseded = 0
        if user.memory == "on":
            superseded = await _settle(tx, scope, proposal, prepared, judge)
            if scope.is_organization:
                # Everybody's stable part may hold what gave way.
                await drop_frozen(tx, user)
        counts = {**spent(prepared.usage), "facts_superseded": superseded}
        await count(tx, scope.tenant_id, counts)


async def _find(
    core: Core, scope: Scope, fact_id: UUID
) -> tuple[Proposal, Judge, frozenset[UUID]] | None:
    """Give the fact as if it were proposed now, its judge, and the facts it isn't judged against.

    None when there is nothing to do, or not yet.
    """
    async with core.db.tenant(scope.tenant_id) as tx:
        user = await lock_user(tx, scope, exclusive=False)
        fact = await tx.scalar(select(Fact).where(_is(scope, fact_id), live()))
        policy = await policy_of(tx, core, scope.tenant_id)
        _, judge = core.readers_of(policy)
        if user is None or user.memory != "on" or fact is None or judge.name == _RULES:
            return None
        if await over_budget(tx, scope.tenant_id, policy.monthly_token_budget):
            await defer_rejudge(tx, scope, fact_id, now(tx) + core.patience.budget)
            return None
        later = await tx.scalars(
            select(Fact.id).where(
                Fact.tenant_id == scope.tenant_id,
                Fact.user_id == scope.user_id,
                Fact.created_at >= fact.created_at,
            )
        )
        return as_proposal(fact), judge, await _judged(tx, scope, fact_id) | set(later)


def _is(scope: Scope, fact_id: UUID) -> ColumnElement[bool]:
    return and_(
        Fact.tenant_id == scope.tenant_id, Fact.user_id == scope.user_id, Fact.id == fact_id
    )


def as_proposal(fact: Fact) -> Proposal:
    """Give a stored fact as if it were proposed now."""
    return Proposal(
        id=fact.id,
        text=covered(fact.text, fact.guard_version),
        kind=cast("Kind", fact.kind),
        subject=fact.subject,
        slot=fact.slot,
        fingerprint=fact.fingerprint,
        source=fact.source,
        said_at=fact.last_confirmed_at,
        valid_from=fact.valid_from or fact.said_at,
        pinned=fact.pinned,
        expires_at=fact.expires_at,
    )


async def _judged(tx: AsyncSession, scope: Scope, fact_id: UUID) -> frozenset[UUID]:
    """Give the facts on which, beside this one, a model's or a person's word stands."""
    rows = await tx.execute(
        select(FactVerdict.old_id, FactVerdict.new_id).where(
            FactVerdict.tenant_id == scope.tenant_id,
            FactVerdict.user_id == scope.user_id,
            or_(FactVerdict.old_id == fact_id, FactVerdict.new_id == fact_id),
            or_(FactVerdict.judge != _RULES, FactVerdict.overturned_at.is_not(None)),
        )
    )
    return frozenset(one for pair in rows for one in pair if one not in (None, fact_id))


async def _put_off(core: Core, scope: Scope, fact_id: UUID, error: ModelError) -> None:
    async with core.db.tenant(scope.tenant_id) as tx:
        if await lock_user(tx, scope) is None:
            return
        await spend(tx, scope.tenant_id, error.usage)
        if isinstance(error, ModelUnavailable | ModelMisconfigured):
            wait = core.patience.after(error)
            await defer_rejudge(tx, scope, fact_id, now(tx) + wait)
        else:
            log.warning("not_judged_again", fact=fact_id.hex, code=error.code)


async def _settle(
    tx: AsyncSession, scope: Scope, proposal: Proposal, prepared: Prepared, judge: Judge
) -> int:
    """Carry out the verdicts under the user's lock; give how many facts gave way.

    Somebody may have been first meanwhile: what is gone or judged by now is left alone.
    """
    judged = await _judged(tx, scope, proposal.id)
    rulings = {
        ruling.old: ruling for ruling in prepared.rulings.values() if ruling.old not in judged
    }
    facts = {
        fact.id: fact
        for fact in await load_facts(tx, scope, live(), Fact.id.in_([proposal.id, *rulings]))
    }
    if facts.pop(proposal.id, None) is None:
        return 0
    decided = plan([proposal], facts.values(), lambda old, _: rulings.get(old.id))
    by = f"worker:{judge.name}"
    await keep_rulings(tx, scope, proposal.id, decided, facts, rulings.values())
    if decided.confirmed:
        await merge(tx, scope, proposal, decided.confirmed[0][0], by)
        return 0
    ended = [*decided.ended, *((proposal.id, winner, at) for _, winner, at in decided.history)]
    for old, successor, until in ended:
        await end(tx, scope, old, successor, at=now(tx), until=until)
    await record_events(tx, scope, [(old, "superseded") for old, *_ in ended], by)
    return len(ended)


async def keep_rulings(
    tx: AsyncSession,
    scope: Scope,
    fact_id: UUID,
    decided: Plan,
    facts: dict[UUID, Known],
    rulings: Iterable[Ruling],
) -> None:
    """Keep the verdicts that were carried out or overruled, and those that change nothing."""
    kept = {ruling.old: ruling for ruling in decided.rulings}
    for ruling in rulings:
        if ruling.old in facts and ruling.verdict.relation == "INDEPENDENT":
            kept.setdefault(ruling.old, ruling)
    tx.add_all(
        to_verdict(scope, Ruling(ruling.old, fact_id, ruling.verdict, ruling.judge))
        for ruling in kept.values()
    )
    await tx.flush()


async def merge(tx: AsyncSession, scope: Scope, proposal: Proposal, older: UUID, by: str) -> None:
    """Let a fact go into an older one that says the same: its evidence and its pin move along."""
    await tx.execute(
        update(Evidence)
        .where(
            Evidence.tenant_id == scope.tenant_id,
            Evidence.user_id == scope.user_id,
            Evidence.fact_id == proposal.id,
        )
        .values(fact_id=older, merged_from=proposal.id)
    )
    gone = select(Fact.confirmations).where(_is(scope, proposal.id)).scalar_subquery()
    at = now(tx)
    await tx.execute(
        update(Fact)
        .where(_is(scope, older))
        .values(
            confirmations=Fact.confirmations + gone + 1,
            last_confirmed_at=func.greatest(Fact.last_confirmed_at, proposal.said_at),
            pinned=Fact.pinned | literal(proposal.pinned),
            expires_at=expiry_said_again(at, proposal.expires_at),
        )
    )
    await end(tx, scope, proposal.id, older, at=at, until=at)
    await record_events(tx, scope, [(proposal.id, "superseded"), (older, "confirmed")], by)
