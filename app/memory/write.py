"""Writing a plan down: rows, evidence, verdicts and events, in the caller's transaction."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID, uuid4

from pgvector import HalfVector
from sqlalchemy import ARRAY, Text, case, cast, func, insert, select, tuple_, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.db import Scope, now
from app.embeddings import Embedder, Vector
from app.llm import Usage
from app.memory import guard
from app.memory.core import Core
from app.memory.jobs import defer_embed
from app.memory.reconcile import Plan, Proposal, Ruling
from app.memory.space import embedder_of
from app.models import Evidence, Fact, FactEvent, FactVerdict
from app.text import words

EMBED_AGAIN_AFTER: Final = timedelta(seconds=30)

STORED: Final = case(
    (Fact.quarantined_at.is_not(None), "quarantined"),
    (Fact.forgotten_at.is_not(None), "forgotten"),
    (Fact.superseded_at.is_not(None), "superseded"),
    else_="live",
)
"""A fact's status as it is stored; of a live one only the clock tells whether it has expired."""


@dataclass(slots=True)
class Prepared:
    """Proposals with their vectors and the verdicts on them and the facts there were."""

    proposals: Sequence[Proposal]
    seen: set[UUID] = field(default_factory=set)
    """Those facts and the proposals: a pair of them that has no verdict was not worth one."""
    embedder: Embedder | None = None
    vectors: dict[UUID, Vector] = field(default_factory=dict)
    """Of that embedder; not used where the user's facts have become another's since."""
    rulings: dict[tuple[UUID, UUID], Ruling] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    judge_again: bool = False
    """The rules decided because the judge gave no answer in time."""


@dataclass(slots=True)
class Outcome:
    """What a commit wrote: ids by what became of them, and why the rest was dropped.

    `confirmed` also names the facts that a model's own words only repeated, and `quarantined`
    those that waited there already.
    """

    added: list[UUID] = field(default_factory=list)
    confirmed: list[UUID] = field(default_factory=list)
    superseded: list[UUID] = field(default_factory=list)
    quarantined: list[UUID] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)

    @property
    def counts(self) -> dict[str, int]:
        """Give what became of the facts, as the tenant's day counts it."""
        return {
            "facts_added": len(self.added),
            "facts_confirmed": len(self.confirmed),
            "facts_superseded": len(self.superseded),
            "facts_quarantined": len(self.quarantined),
        }


async def write(
    tx: AsyncSession, core: Core, scope: Scope, prepared: Prepared, decided: Plan, by: str
) -> Outcome:
    """Write what was decided; `by` names the actor in the facts' events."""
    outcome = Outcome(dropped=decided.dropped)
    at = now(tx)
    events: list[tuple[UUID, str]] = []
    if prepared.embedder is not await embedder_of(tx, core, scope):
        prepared.vectors = {}
    rows = _rows(scope, prepared, decided, at)
    # What was proposed a moment ago may have given way already: such a row is stored that way.
    fresh = {row.id: row for row in rows}
    for old, successor, until in decided.ended:
        if old in fresh:
            _give_way(fresh[old], successor, at, until)
        else:
            await end(tx, scope, old, successor, at=at, until=until)
        outcome.superseded.append(old)
        events.append((old, "superseded" if successor else "closed"))
    for old, successor, until in decided.relinked:
        if old in fresh:
            _give_way(fresh[old], successor, at, until)
        else:
            await relink(tx, scope, old, successor, until)
    stored = [p for p, _ in decided.added] + [p for p, *_ in decided.history]
    outcome.added += [p.id for p in stored]
    outcome.quarantined += [p.id for p in decided.quarantined]
    events = [(p.id, "added") for p in stored] + events
    events += [(p.id, "superseded") for p, *_ in decided.history]
    events += [(old, "relinked") for old, *_ in decided.relinked]
    events += [(p.id, "quarantined") for p in decided.quarantined]
    for n, row in enumerate(rows):
        # One instant each, in the order said: lists and blocks are sorted by it.
        row.created_at = at + timedelta(microseconds=n)
    tx.add_all(rows)
    await tx.flush()
    events += await _say_again(tx, scope, decided, outcome)
    entered = [(p.id, p) for p in (*stored, *decided.quarantined)]
    sources = [*decided.confirmed, *decided.held, *entered]
    tx.add_all(_evidence(scope, fact_id, p) for fact_id, p in sources if p.evidence)
    await _record(tx, scope, decided, prepared, rows, events, by)
    if any(row.embedding is None for row in rows):
        await defer_embed(tx, scope, at + EMBED_AGAIN_AFTER)
    return outcome


def _rows(scope: Scope, prepared: Prepared, decided: Plan, at: datetime) -> list[Fact]:
    """Make the rows of all new facts, each in its place: live, in history, in quarantine."""
    rows = [_row(scope, prepared, p, alone=alone) for p, alone in decided.added]
    for proposal, successor, until in decided.history:
        row = _row(scope, prepared, proposal, alone=True)
        _give_way(row, successor, at, until)
        rows.append(row)
    for proposal in decided.quarantined:
        row = _row(scope, prepared, proposal, alone=True)
        row.quarantined_at, row.quarantine_reason = at, proposal.quarantine
        rows.append(row)
    return rows


def _give_way(row: Fact, successor: UUID | None, at: datetime, until: datetime) -> None:
    row.superseded_at, row.superseded_by, row.valid_to = at, successor, until


async def end(
    tx: AsyncSession,
    scope: Scope,
    old: UUID,
    successor: UUID | None,
    *,
    at: datetime,
    until: datetime,
) -> None:
    """Mark a fact superseded, before its successor is stored: a slot holds one live fact."""
    await tx.execute(
        update(Fact)
        .where(_fact(scope, old))
        .values(
            superseded_at=at,
            superseded_by=successor,
            valid_to=until,
            revision=Fact.revision + 1,
        )
    )


async def relink(
    tx: AsyncSession, scope: Scope, old: UUID, successor: UUID, until: datetime
) -> None:
    """Give a fact of history another successor; since when it is history stays."""
    await tx.execute(
        update(Fact)
        .where(_fact(scope, old))
        .values(superseded_by=successor, valid_to=until, revision=Fact.revision + 1)
    )


async def _say_again(
    tx: AsyncSession, scope: Scope, decided: Plan, outcome: Outcome
) -> list[tuple[UUID, str]]:
    """Confirm what was there already, live or in quarantine; give the events."""
    outcome.confirmed += [fact_id for fact_id, _ in decided.confirmed] + decided.repeated
    outcome.quarantined += [fact_id for fact_id, _ in decided.held]
    stated = [held for held in decided.held if held[1].speaks_for_user]
    confirmed = [*decided.confirmed, *stated]
    for fact_id, proposal in confirmed:
        await _confirm(tx, scope, fact_id, proposal)
    return [(fact_id, "confirmed") for fact_id, _ in confirmed]


async def _confirm(tx: AsyncSession, scope: Scope, fact_id: UUID, proposal: Proposal) -> None:
    await tx.execute(
        update(Fact)
        .where(_fact(scope, fact_id))
        .values(
            last_confirmed_at=func.greatest(Fact.last_confirmed_at, proposal.said_at),
            confirmations=Fact.confirmations + 1,
            expires_at=expiry_said_again(now(tx), proposal.expires_at),
        )
    )


def expiry_said_again(at: datetime, said: datetime | None) -> Any:
    """Give a fact's end once it is said again: one that had expired holds as newer words say."""
    return case((Fact.expires_at <= at, said), else_=Fact.expires_at)


def _fact(scope: Scope, fact_id: UUID) -> Any:
    return tuple_(Fact.tenant_id, Fact.user_id, Fact.id) == tuple_(
        scope.tenant_id, scope.user_id, fact_id
    )


def _row(scope: Scope, prepared: Prepared, p: Proposal, *, alone: bool) -> Fact:
    vector, model = prepared.vectors.get(p.id), None
    if vector is not None and prepared.embedder is not None:
        model = prepared.embedder.name
    return Fact(
        tenant_id=scope.tenant_id,
        user_id=scope.user_id,
        id=p.id,
        text=p.text,
        kind=p.kind,
        subject=p.subject,
        slot=p.slot if alone else None,
        fingerprint=p.fingerprint,
        words=search_vector(p.text),
        embedding=None if vector is None else HalfVector(vector),
        embedding_model=model,
        source=p.source,
        source_session_id=p.evidence.session_id if p.evidence else None,
        source_message_id=p.evidence.message_id if p.evidence else None,
        source_quote=p.evidence.quote if p.evidence else None,
        extractor=p.extractor,
        guard_version=guard.VERSION,
        said_at=p.said_at,
        valid_from=p.valid_from,
        last_confirmed_at=p.said_at,
        expires_at=p.expires_at,
        pinned=p.pinned,
        extra=dict(p.extra),
    )


def search_vector(fact: str) -> Any:
    """Give the expression that stores a text's search lexemes."""
    return func.array_to_tsvector(cast(sorted(set(words(fact))), ARRAY(Text)))


def _evidence(scope: Scope, fact_id: UUID, proposal: Proposal) -> Evidence:
    source = proposal.evidence
    if source is None:
        raise ValueError("only a transcript's proposal has evidence")
    return Evidence(
        tenant_id=scope.tenant_id,
        user_id=scope.user_id,
        id=uuid4(),
        fact_id=fact_id,
        session_id=source.session_id,
        message_id=source.message_id,
        quote=source.quote,
        said_at=source.said_at,
    )


async def _record(
    tx: AsyncSession,
    scope: Scope,
    decided: Plan,
    prepared: Prepared,
    rows: Iterable[Fact],
    events: Iterable[tuple[UUID, str]],
    by: str,
) -> None:
    """Keep every verdict on stored facts, also that two are independent, and every event."""
    stored = {row.id for row in rows}
    kept = {(ruling.old, ruling.new): ruling for ruling in decided.rulings}
    for key, ruling in prepared.rulings.items():
        if ruling.new in stored and ruling.verdict.relation == "INDEPENDENT":
            kept.setdefault(key, ruling)
    known = stored | set(
        await tx.scalars(
            select(Fact.id).where(
                Fact.tenant_id == scope.tenant_id,
                Fact.user_id == scope.user_id,
                Fact.id.in_({ruling.old for ruling in kept.values()}),
            )
        )
    )
    tx.add_all(
        to_verdict(scope, ruling)
        for ruling in kept.values()
        if ruling.old in known and (ruling.new is None or ruling.new in stored)
    )
    await record_events(tx, scope, events, by)


async def close(
    tx: AsyncSession, scope: Scope, ruling: Ruling, *, until: datetime, by: str
) -> None:
    """End a fact without a successor, keeping the verdict so that it can be restored."""
    await end(tx, scope, ruling.old, None, at=now(tx), until=until)
    tx.add(to_verdict(scope, ruling))
    await record_events(tx, scope, [(ruling.old, "closed")], by)


def to_verdict(scope: Scope, ruling: Ruling) -> FactVerdict:
    """Give the row that keeps a ruling; both facts must be stored."""
    return FactVerdict(
        tenant_id=scope.tenant_id,
        user_id=scope.user_id,
        id=uuid4(),
        old_id=ruling.old,
        new_id=ruling.new,
        verdict=ruling.verdict.relation,
        reason=ruling.verdict.reason,
        judge=ruling.judge,
    )


async def record_events(
    tx: AsyncSession, scope: Scope, events: Iterable[tuple[UUID, str]], by: str
) -> None:
    """Append what happened to facts, by whom, and the state that it left them in.

    Call it after the change, under the user's lock: the state is read back from the facts.
    """
    happened = list(events)
    if not happened:
        return
    await tx.flush()
    states = await _states(tx, scope, {fact_id for fact_id, _ in happened})
    # One instant for all that a transaction did, for nobody ever saw a part of it; and after what
    # happened before, for one that waited for the lock may have begun before its forerunner.
    latest = max((state.latest for state in states.values() if state.latest), default=now(tx))
    at = now(tx) if latest <= now(tx) else latest + timedelta(microseconds=1)
    first: int = tx.info.get("events", 0)
    tx.info["events"] = first + len(happened)
    values = [
        {
            "tenant_id": scope.tenant_id,
            "user_id": scope.user_id,
            "id": uuid4(),
            "fact_id": fact_id,
            "at": at,
            "n": n,
            "what": what,
            "by": by,
            "status": states[fact_id].status,
            "valid_to": states[fact_id].valid_to,
            "expires_at": states[fact_id].expires_at,
        }
        for n, (fact_id, what) in enumerate(happened, first)
    ]
    await tx.execute(insert(FactEvent), values)


async def _states(tx: AsyncSession, scope: Scope, facts: Iterable[UUID]) -> dict[UUID, Any]:
    """Give the facts' stored state, and when something last happened to each."""
    latest = (
        select(func.max(FactEvent.at))
        .where(
            FactEvent.tenant_id == scope.tenant_id,
            FactEvent.user_id == scope.user_id,
            FactEvent.fact_id == Fact.id,
        )
        .scalar_subquery()
    )
    rows = await tx.execute(
        select(
            Fact.id,
            STORED.label("status"),
            Fact.valid_to,
            Fact.expires_at,
            latest.label("latest"),
        ).where(
            Fact.tenant_id == scope.tenant_id,
            Fact.user_id == scope.user_id,
            Fact.id.in_(facts),
        )
    )
    return {row.id: row for row in rows}
