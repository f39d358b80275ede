"""A session becomes facts: read, extract, check, judge, save.

Short transactions with the model between them, so that no connection is held while it thinks.
A session's `attempt` fences the last one: whoever claimed later wins, and a job that runs twice
finds the session settled. A crash at any point leaves the session as it was, to be tried again.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from sqlalchemy import ColumnElement, and_, delete, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from app import metrics
from app.db import Scope, now
from app.llm import (
    ModelError,
    ModelMisconfigured,
    ModelRefused,
    ModelUnavailable,
    Turn,
    Usage,
    Verdict,
)
from app.memory.candidates import Claim, Found, find
from app.memory.core import Core
from app.memory.forgetting_rules import LEARNED
from app.memory.ingest import look_after_silence, open_again, queue_session, waiting
from app.memory.jobs import defer_look
from app.memory.known import known_facts
from app.memory.learn import commit, fingerprints, live, load_facts, prepare
from app.memory.policy import MAX_ATTEMPTS, Policy, policy_of
from app.memory.reconcile import Known, Ruling
from app.memory.usage import count, over_budget, spent
from app.memory.users import RESTRICTED, drop_frozen, lock_user
from app.memory.write import Outcome, Prepared, close
from app.models import Fact, Message, Session, User
from app.rules import ForgetRequest
from app.telemetry import logger
from app.text import words

log = logger(__name__)

LEASE: Final = timedelta(seconds=60)
"""A claim's life, extended while its holder lives: should its job be lost too, the session is
looked at again."""


async def look_at(core: Core, scope: Scope, session_id: UUID) -> None:
    """Run when a session may be due: queue it, or look again later while it is still active."""
    async with core.db.tenant(scope.tenant_id) as tx:
        row = await _locked(tx, scope, session_id)
        if row is None or row.status in {"done", "failed"} or row.extract_after is None:
            return
        if row.extract_after > now(tx):
            await defer_look(tx, scope, session_id, row.extract_after)
            return
        if row.status == "extracting":
            row.status = "queued"  # its lease has run out; the old claim can't commit any more
        turns = await tx.scalar(select(func.count()).where(waiting(scope, session_id)))
        await queue_session(tx, scope, row, turns=turns or 0)


async def extract_session(core: Core, scope: Scope, session_id: UUID) -> None:
    """Extract what waits in a session. Safe to run twice, by several workers, and to be killed."""
    claim = await _claim(core, scope, session_id)
    if claim is None:
        return
    try:
        async with _extended(core, claim):
            known = await known_facts(core, scope, claim.turns)
            found = await find(core, claim, known)
            prepared = await _judged(core, claim, found)
        await _save(core, claim, found, prepared)
    except ModelError as error:
        await _postpone(core, claim, error)
    except Exception:
        log.exception("extraction_failed", session=session_id.hex, attempt=claim.attempt)
        await _fail(core, claim, "internal_error", Usage())


async def _judged(core: Core, claim: Claim, found: Found) -> Prepared:
    _, judge = core.readers_of(claim.policy)
    try:
        return await prepare(core, claim.scope, found.proposals, judge=judge)
    except ModelError as error:
        error.usage += found.usage
        raise


@asynccontextmanager
async def _extended(core: Core, claim: Claim) -> AsyncIterator[None]:
    """Extend the claim's lease while the block runs: slow is not dead."""
    task = asyncio.create_task(_extend(core, claim))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


async def _extend(core: Core, claim: Claim) -> None:
    while True:
        await asyncio.sleep(LEASE.total_seconds() / 3)
        try:
            async with core.db.tenant(claim.scope.tenant_id) as tx:
                await tx.execute(
                    update(Session).where(_held(claim)).values(extract_after=now(tx) + LEASE)
                )
        except Exception as error:  # noqa: BLE001 - next time, perhaps; the commit checks the claim
            log.warning("lease_not_extended", error=type(error).__name__)


def _is_session(scope: Scope, session_id: UUID) -> ColumnElement[bool]:
    return and_(
        Session.tenant_id == scope.tenant_id,
        Session.user_id == scope.user_id,
        Session.id == session_id,
    )


def _held(claim: Claim) -> ColumnElement[bool]:
    """Select the session while the claim holds it."""
    return and_(
        _is_session(claim.scope, claim.session_id),
        Session.status == "extracting",
        Session.attempt == claim.attempt,
    )


async def _locked(tx: AsyncSession, scope: Scope, session_id: UUID) -> Session | None:
    return await tx.scalar(select(Session).where(_is_session(scope, session_id)).with_for_update())


async def _claim(core: Core, scope: Scope, session_id: UUID) -> Claim | None:
    """Take the session on; None when there is nothing to do or the user's memory is not on."""
    async with core.db.tenant(scope.tenant_id) as tx:
        user = await lock_user(tx, scope, exclusive=False)
        row = await _locked(tx, scope, session_id)
        if user is None or row is None or row.status not in {"queued", "extracting"}:
            return None
        if user.memory != "on":
            await _set_aside(tx, scope, row, user)
            return None
        messages = list(
            await tx.scalars(
                select(Message).where(waiting(scope, session_id)).order_by(Message.position)
            )
        )
        if not messages:
            _settle(row, now(tx), reason=row.reason)
            return None
        if row.failures >= MAX_ATTEMPTS:
            row.status, row.reason, row.extract_after = "failed", row.reason or "crashed", None
            return None
        policy = await policy_of(tx, core, scope.tenant_id)
        if await over_budget(tx, scope.tenant_id, policy.monthly_token_budget):
            row.status, row.reason = "queued", "monthly_token_budget"
            row.extract_after = now(tx) + core.patience.budget
            await defer_look(tx, scope, session_id, row.extract_after)
            return None
        # Counted before the work: a session that kills its worker must not be tried for ever.
        row.attempt += 1
        row.failures += 1
        row.status, row.extract_after = "extracting", now(tx) + LEASE
        row.ended = False  # what comes from now on is a new stretch, until it is ended too
        return Claim(
            scope,
            session_id,
            row.attempt,
            turns=[Turn(n, m.text, m.said_at) for n, m in enumerate(messages, 1)],
            messages=messages,
            served=await fingerprints(tx, scope)
            | await fingerprints(tx, Scope(scope.tenant_id, scope.tenant_id)),
            policy=policy,
        )


async def _set_aside(tx: AsyncSession, scope: Scope, row: Session, user: User) -> None:
    """Settle a session whose user's memory is not on.

    Paused, its turns go and nothing is stored. Restricted, all is kept as it is and nothing is
    done with it until the restriction is lifted.
    """
    if user.memory == "restricted":
        row.status, row.reason, row.extract_after = "queued", RESTRICTED, None
        row.failures = 0
        return
    await tx.execute(delete(Message).where(waiting(scope, row.id)))
    _settle(row, now(tx), reason="memory_" + user.memory)


def _settle(row: Session, at: datetime, *, reason: str | None) -> None:
    row.status, row.reason, row.extract_after, row.extracted_at = "done", reason, None, at
    row.failures = 0


async def _save(core: Core, claim: Claim, found: Found, prepared: Prepared) -> None:
    """Write facts, counts and status in one commit, if the claim still holds."""
    scope = claim.scope
    async with core.db.tenant(scope.tenant_id) as tx:
        held = await _hold(tx, claim)
        if held is None:
            return
        user, row = held
        room = await _room(tx, scope, claim.policy)
        by = f"worker:{core.readers_of(claim.policy)[0].name}"
        outcome = await commit(tx, core, scope, prepared, by=by, room=room)
        closed = await _forget_asked(tx, scope, found.forget)
        for reason in outcome.dropped:
            found.rejected[reason] += 1
        await _count(tx, row, outcome, closed, found, found.usage + prepared.usage)
        if closed or outcome.quarantined:
            await drop_frozen(tx, user)  # what they may hold was taken back
        await _finish(tx, core, claim, row)
    made = {
        "added": len(outcome.added),
        "confirmed": len(outcome.confirmed),
        "superseded": len(outcome.superseded) + closed,
        "quarantined": len(outcome.quarantined),
        "rejected": found.rejected.total(),
    }
    metrics.extracted(**made)
    log.info("session_extracted", session=row.id.hex, attempt=claim.attempt, **made)


async def _hold(tx: AsyncSession, claim: Claim) -> tuple[User, Session] | None:
    """Lock user and session; None when the claim is lost: deleted, erased, paused, taken over."""
    user = await lock_user(tx, claim.scope)
    row = await tx.scalar(select(Session).where(_held(claim)).with_for_update())
    if user is None or row is None:
        session = claim.session_id.hex
        log.info("claim_lost", session=session, attempt=claim.attempt)
        return None
    if user.memory != "on":
        await _set_aside(tx, claim.scope, row, user)
        return None
    return user, row


async def _room(tx: AsyncSession, scope: Scope, policy: Policy) -> int:
    """Give how many facts extraction may still add, by the caps on a user and on a day.

    As for forgetting, what a person or program wrote takes no place of what is learned.
    """
    learned = (
        live()
        & Fact.source.in_(LEARNED)
        & or_(Fact.expires_at.is_(None), Fact.expires_at > now(tx))
    )
    today = now(tx).replace(hour=0, minute=0, second=0, microsecond=0)
    learned_today = (
        (Fact.created_at >= today) & (Fact.source == "transcript") & Fact.quarantined_at.is_(None)
    )
    held, fresh = (
        await tx.execute(
            select(func.count().filter(learned), func.count().filter(learned_today)).where(
                Fact.tenant_id == scope.tenant_id, Fact.user_id == scope.user_id
            )
        )
    ).one()
    most = policy.max_facts_per_user
    left = policy.max_facts_per_day - fresh
    return max(0, left if most is None else min(most - held, left))


async def _count(
    tx: AsyncSession,
    row: Session,
    outcome: Outcome,
    closed: int,
    found: Found,
    usage: Usage,
) -> None:
    """Add what happened to the session's counts and to the tenant's day."""
    row.added += len(outcome.added)
    row.confirmed += len(outcome.confirmed)
    row.superseded += len(outcome.superseded) + closed
    row.quarantined += len(outcome.quarantined)
    row.rejected = dict(Counter(row.rejected) + found.rejected)
    counts = outcome.counts
    counts["facts_superseded"] += closed
    counts |= {"sessions": 1, "session_facts": len(outcome.added)}
    counts |= {f"rejected.{reason}": number for reason, number in found.rejected.items()}
    await _spend(tx, row, usage, counts)


async def _spend(
    tx: AsyncSession, row: Session, usage: Usage, counts: Mapping[str, int] | None = None
) -> None:
    """Book what the model cost on the session and, with other counts, on the tenant's day."""
    await count(tx, row.tenant_id, {**(counts or {}), **spent(usage)})
    row.model_calls += usage.calls
    row.input_tokens += usage.input_tokens
    row.output_tokens += usage.output_tokens


async def _finish(
    tx: AsyncSession, core: Core, claim: Claim, row: Session, reason: str | None = None
) -> None:
    """Drop the turns that were read, or keep them as read; go on with newer ones, or be done."""
    scope, ended = claim.scope, row.ended
    read = waiting(scope, row.id) & Message.position.in_([turn.position for turn in claim.messages])
    if claim.policy.turn_retention:
        await tx.execute(update(Message).where(read).values(extracted_at=now(tx)))
    else:
        await tx.execute(delete(Message).where(read))
    newer, since = (
        await tx.execute(
            select(func.count(), func.min(Message.created_at)).where(waiting(scope, row.id))
        )
    ).one()
    _settle(row, now(tx), reason=reason)
    if not newer:
        return
    open_again(row, since)
    if ended:
        await queue_session(tx, scope, row, turns=newer)
    else:
        await look_after_silence(tx, core, scope, row)


async def _forget_asked(
    tx: AsyncSession, scope: Scope, asked: Sequence[tuple[ForgetRequest, datetime]]
) -> int:
    """Close the facts that the user asked in chat to forget; verdict kept, so it can be undone."""
    closed = 0
    facts = await load_facts(tx, scope, live()) if asked else []
    for request, said_at in asked:
        wanted = set(words(request.what))
        named = [
            f for f in facts if wanted and f.last_confirmed_at <= said_at and _names(wanted, f)
        ]
        facts = [f for f in facts if f not in named]
        for fact in named:
            verdict = Verdict("CONTRADICTS", "the user asked to forget it")
            ruling = Ruling(fact.id, None, verdict, "rules/1")
            await close(tx, scope, ruling, until=said_at, by="user")
            closed += 1
    return closed


def _names(wanted: set[str], fact: Known) -> bool:
    """Tell whether a request's words name the fact: all of them, or all but one of many."""
    said = set(words(f"{fact.text} {fact.subject}"))
    missing = len(wanted - said)
    return missing == 0 or (len(wanted) > 3 and missing == 1)


async def _postpone(core: Core, claim: Claim, error: ModelError) -> None:
    """Settle a session that got no answer: wait where waiting helps, else count the try."""
    if isinstance(error, ModelRefused):
        async with core.db.tenant(claim.scope.tenant_id) as tx:
            held = await _hold(tx, claim)
            if held is not None:
                await _spend(tx, held[1], error.usage)
                await _finish(tx, core, claim, held[1], reason=error.code)
        return
    if isinstance(error, ModelUnavailable | ModelMisconfigured):
        await _wait(core, claim, error)
        return
    await _fail(core, claim, error.code, error.usage)


async def _fail(core: Core, claim: Claim, reason: str, usage: Usage) -> None:
    """Count a failed try: again after a growing wait, or `failed` when there were enough."""
    async with core.db.tenant(claim.scope.tenant_id) as tx:
        held = await _hold(tx, claim)
        if held is None:
            return
        row = held[1]
        await _spend(tx, row, usage)
        row.reason = reason
        if row.failures >= MAX_ATTEMPTS:
            row.status, row.extract_after = "failed", None
            return
        row.status = "queued"
        wait = core.patience.retry * 4 ** (row.failures - 1)
        row.extract_after = now(tx) + min(wait, core.patience.longest)
        await defer_look(tx, claim.scope, row.id, row.extract_after)


async def _wait(core: Core, claim: Claim, error: ModelError) -> None:
    """Put a session back that could not be tried: it costs it nothing but time."""
    async with core.db.tenant(claim.scope.tenant_id) as tx:
        held = await _hold(tx, claim)
        if held is None:
            return
        row = held[1]
        await _spend(tx, row, error.usage)
        row.failures -= 1
        row.status, row.reason = "queued", error.code
        row.extract_after = now(tx) + core.patience.after(error)
        await defer_look(tx, claim.scope, row.id, row.extract_after)
