"""Proposals become facts: neighbours, judgement, one commit. Every way in ends here.

`prepare` may wait for the embedder and the judge and holds no connection meanwhile; `commit` joins
the transaction of its caller, who has locked the user's row. What changed between the two is judged
by the rules, at once and under the lock, so that no race leaves two live facts of one subject.
"""

import asyncio
from collections.abc import Collection, Iterable, Sequence
from datetime import timedelta
from typing import Any, Final, cast
from uuid import UUID

from pgvector import HalfVector
from sqlalchemy import ColumnElement, or_, select, text, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.db import Scope, now
from app.embeddings import Embedder, EmbedderError, Vector
from app.llm import Judge, ModelError, ModelRefused, ModelUnavailable, Pair, Usage, Verdict
from app.memory.core import Core
from app.memory.covered import covered
from app.memory.jobs import defer_rejudge
from app.memory.pairs import pairs_of
from app.memory.reconcile import Known, Plan, Proposal, Ruling, plan
from app.memory.space import embedder_of
from app.memory.users import lock_user
from app.memory.write import Outcome, Prepared, write
from app.models import LIVE, Fact, Unlearned
from app.rules import RulesJudge
from app.text import any_word, fold

NEIGHBOURS: Final = 10
"""Most similar facts that each proposal is judged against, besides those of its subject."""

EMBEDDED_AT_ONCE: Final = 100
"""Facts without a vector that are embedded together, between two short locks."""

_rules = RulesJudge()
_ONE_VALUE = Verdict("CONTRADICTS", "same single-valued subject, newer statement")

_SIMILAR = text(
    f"""
    select p.n - 1 as n, near.id
    from unnest(cast(:vectors as text[])) with ordinality as p (vector, n)
    cross join lateral (
      select id, (embedding <=> cast(p.vector as halfvec)) + 0 as distance
      from memory_fact
      where tenant_id = :tenant_id and user_id = :user_id
        and {LIVE}
        and embedding_model = :model
      order by distance limit :most
    ) near
    where near.distance <= 1 - cast(:floor as float8)
    """  # noqa: S608 - the text put in is a constant
)
_SHARING_WORDS = text(
    f"""
    select p.n - 1 as n, near.id
    from unnest(cast(:queries as text[])) with ordinality as p (query, n)
    cross join lateral (
      select id from memory_fact
      where tenant_id = :tenant_id and user_id = :user_id
        and {LIVE}
        and words @@ cast(p.query as tsquery)
      order by ts_rank(words, cast(p.query as tsquery)) desc, id limit :most
    ) near
    """  # noqa: S608 - as above
)


async def prepare(
    core: Core,
    scope: Scope,
    proposals: Sequence[Proposal],
    *,
    judge: Judge | None,
    patience: timedelta | None = None,
    apart_from: Collection[UUID] = (),
) -> Prepared:
    """Embed and judge proposals against the user's facts and each other, in at most one call.

    After `patience`, or when the judge fails and `patience` is given, the rules decide for now, as
    they do without a judge. Without `patience` a `ModelError` is the caller's, but for a refusal,
    where the rules' word is final: no fact is lost for it. Facts in `apart_from` are not compared
    with. Holds no connection while it waits.
    """
    seconds = patience.total_seconds() if patience is not None else None
    embedder = await _embedder_of(core, scope)
    vectors = await _embed(embedder, proposals, seconds)
    prepared = Prepared(proposals, embedder=embedder, vectors=vectors)
    async with core.db.tenant(scope.tenant_id) as tx:
        neighbours = await _neighbours(tx, embedder, scope, prepared)
    prepared.seen = {p.id for p in proposals} | {fact.id for _, fact in neighbours}
    pairs = pairs_of(proposals, [near for near in neighbours if near[1].id not in apart_from])
    if pairs:
        verdicts, by = await _judge(prepared, judge, [pair for *_, pair in pairs], seconds)
        for (old, new, _), verdict in zip(pairs, verdicts, strict=True):
            prepared.rulings[old, new] = Ruling(old, new, verdict, by)
    return prepared


async def _embedder_of(core: Core, scope: Scope) -> Embedder:
    if core.previous is None:
        return core.embedder
    async with core.db.tenant(scope.tenant_id) as tx:
        return await embedder_of(tx, core, scope)


async def _embed(
    embedder: Embedder, proposals: Sequence[Proposal], seconds: float | None
) -> dict[UUID, Vector]:
    try:
        async with asyncio.timeout(seconds):
            vectors = await embedder.embed([proposal.text for proposal in proposals])
    except (EmbedderError, TimeoutError):
        return {}  # kept and found by their words; a job embeds them later
    return {proposal.id: vector for proposal, vector in zip(proposals, vectors, strict=True)}


async def _judge(
    prepared: Prepared, judge: Judge | None, pairs: Sequence[Pair], seconds: float | None
) -> tuple[Sequence[Verdict], str]:
    """Give the verdicts and who gave them; note what they cost and whether to ask again."""
    try:
        if judge is None:
            raise ModelUnavailable
        async with asyncio.timeout(seconds):
            judgement = await judge.judge(pairs)
    except ModelRefused as error:
        prepared.usage = error.usage
    except (TimeoutError, ModelError) as error:
        if judge is not None and seconds is None:
            raise
        prepared.usage = error.usage if isinstance(error, ModelError) else Usage()
        prepared.judge_again = True
    else:
        prepared.usage = judgement.usage
        return judgement.verdicts, judge.name
    return [_rules.relation(pair.old, pair.new) for pair in pairs], _rules.name


async def _neighbours(
    tx: AsyncSession, embedder: Embedder, scope: Scope, prepared: Prepared
) -> list[tuple[int, Known]]:
    """Give (number of the proposal, live fact): of its subject, similar, or sharing a word."""
    proposals = prepared.proposals
    found = {
        (row.n, row.id)
        for row in await tx.execute(
            _SHARING_WORDS,
            {
                "queries": [any_word(p.text) for p in proposals],
                "tenant_id": scope.tenant_id,
                "user_id": scope.user_id,
                "most": NEIGHBOURS,
            },
        )
    }
    embedded = [p for p in proposals if p.id in prepared.vectors]
    if embedded:
        rows = await tx.execute(
            _SIMILAR,
            {
                "vectors": [HalfVector(prepared.vectors[p.id]).to_text() for p in embedded],
                "tenant_id": scope.tenant_id,
                "user_id": scope.user_id,
                "model": embedder.name,
                "most": NEIGHBOURS,
                "floor": embedder.neighbour_floor,
            },
        )
        number = {p.id: n for n, p in enumerate(proposals)}
        found |= {(number[embedded[row.n].id], row.id) for row in rows}
    by_subject = await load_facts(
        tx,
        scope,
        Fact.subject.in_({p.subject for p in proposals}),
        or_(live(), Fact.id.in_({fact_id for _, fact_id in found})),
    )
    found |= {
        (n, fact.id)
        for n, p in enumerate(proposals)
        for fact in by_subject
        if fact.subject == p.subject
    }
    known = {
        fact.id: fact
        for fact in await load_facts(tx, scope, Fact.id.in_({i for _, i in found}), live())
    }
    return sorted(
        ((n, known[fact_id]) for n, fact_id in found if fact_id in known),
        key=lambda item: (item[0], item[1].id.hex),
    )


def live() -> ColumnElement[bool]:
    """Select facts that are served: not superseded, quarantined or forgotten."""
    return (
        Fact.superseded_at.is_(None) & Fact.quarantined_at.is_(None) & Fact.forgotten_at.is_(None)
    )


async def load_facts(
    tx: AsyncSession, scope: Scope, *conditions: ColumnElement[bool], newest: int | None = None
) -> list[Known]:
    """Give the user's facts that meet the conditions, newest first, at most `newest` of them."""
    rows = await tx.execute(
        select(
            Fact.id,
            Fact.text,
            Fact.guard_version,
            Fact.kind,
            Fact.subject,
            Fact.slot,
            Fact.fingerprint,
            Fact.source,
            Fact.said_at,
            Fact.last_confirmed_at,
            Fact.valid_from,
            Fact.valid_to,
            Fact.superseded_at.is_not(None),
            Fact.superseded_by,
        )
        .where(Fact.tenant_id == scope.tenant_id, Fact.user_id == scope.user_id, *conditions)
        .order_by(Fact.created_at.desc(), Fact.id.desc())
        .limit(newest)
    )
    # The table's CHECK makes `kind` one of the four; its column is plain text to the type checker.
    return [
        Known(fact_id, covered(said, guard_version), *cast("Any", rest))
        for fact_id, said, guard_version, *rest in rows
    ]


async def fingerprints(tx: AsyncSession, scope: Scope) -> frozenset[bytes]:
    """Give the fingerprints of all facts of the user that are or were served."""
    return frozenset(
        await tx.scalars(
            select(Fact.fingerprint).where(
                Fact.tenant_id == scope.tenant_id,
                Fact.user_id == scope.user_id,
                Fact.quarantined_at.is_(None),
            )
        )
    )


async def commit(
    tx: AsyncSession,
    core: Core,
    scope: Scope,
    prepared: Prepared,
    *,
    by: str,
    room: int | None = None,
) -> Outcome:
    """Write what the proposals come to, in the caller's transaction under the user's row lock.

    `by` names the actor in the facts' events; at most `room` facts are added, if given. The lock
    has moved the user's revision; frozen blocks stay unless the caller drops them.
    """
    if not prepared.proposals:
        return Outcome()
    decided = await decide(tx, core, scope, prepared, room=room)
    await _hold_once(tx, scope, decided)
    outcome = await write(tx, core, scope, prepared, decided, by)
    if prepared.judge_again:
        for fact_id in outcome.added:
            await defer_rejudge(tx, scope, fact_id, now(tx) + core.patience.retry)
    return outcome


async def _hold_once(tx: AsyncSession, scope: Scope, decided: Plan) -> None:
    """Find what waits in quarantine already: said again it gains evidence, not a second row."""
    if not decided.quarantined:
        return
    waiting = await tx.execute(
        select(Fact.fingerprint, Fact.id).where(
            Fact.tenant_id == scope.tenant_id,
            Fact.user_id == scope.user_id,
            Fact.quarantined_at.is_not(None),
            Fact.fingerprint.in_({p.fingerprint for p in decided.quarantined}),
        )
    )
    held: dict[bytes, UUID] = dict(waiting.all())
    proposed, decided.quarantined = decided.quarantined, []
    for proposal in proposed:
        if proposal.fingerprint in held:
            decided.held.append((held[proposal.fingerprint], proposal))
        else:
            held[proposal.fingerprint] = proposal.id
            decided.quarantined.append(proposal)


async def decide(
    tx: AsyncSession, core: Core, scope: Scope, prepared: Prepared, *, room: int | None = None
) -> Plan:
    """Decide what the proposals come to, under the user's row lock; nothing is written yet."""
    proposals = prepared.proposals
    slots = {p.slot for p in proposals if p.slot}
    judged = {old for old, _ in prepared.rulings}
    facts = await load_facts(
        tx,
        scope,
        Fact.quarantined_at.is_(None),
        Fact.forgotten_at.is_(None),
        or_(
            Fact.fingerprint.in_({p.fingerprint for p in proposals}) & live(),
            Fact.id.in_(judged) & live(),
            Fact.subject.in_({p.subject for p in proposals}),
            Fact.slot.in_(slots),
        ),
    )
    unlearned = await _unlearned(tx, core, scope, proposals)
    return plan(
        proposals,
        facts,
        lambda old, new: prepared.rulings.get((old.id, new.id)) or rule_on(prepared, old, new),
        unlearned=lambda proposal: proposal.id in unlearned,
        room=room,
    )


def rule_on(prepared: Prepared, old: Known, new: Proposal) -> Ruling | None:
    """Judge by rule what no judge saw: a fact that came or changed since `prepare`.

    Of a single-valued subject the newer statement holds, where the rules can't tell more.
    """
    is_rival = old.slot is not None and old.slot == new.slot
    if old.subject != new.subject or (old.id in prepared.seen and not is_rival):
        return None
    verdict = _rules.relation(old.statement(), new.statement())
    if verdict.relation == "INDEPENDENT" and is_rival:
        verdict = _ONE_VALUE
    return Ruling(old.id, new.id, verdict, _rules.name)


async def _unlearned(
    tx: AsyncSession, core: Core, scope: Scope, proposals: Iterable[Proposal]
) -> set[UUID]:
    """Give the extracted proposals whose words the user had deleted."""
    digests = {
        proposal.id: unlearned_digests(core, scope, proposal.text, proposal.evidence.quote)
        for proposal in proposals
        if proposal.evidence
    }
    wanted = {digest for of_one in digests.values() for digest in of_one}
    if not wanted:
        return set()
    deleted = set(
        await tx.scalars(
            select(Unlearned.digest).where(
                Unlearned.tenant_id == scope.tenant_id,
                Unlearned.user_id == scope.user_id,
                Unlearned.digest.in_(wanted),
            )
        )
    )
    return {proposal for proposal, of_one in digests.items() if not deleted.isdisjoint(of_one)}


def unlearned_digests(core: Core, scope: Scope, *texts: str | None) -> list[bytes]:
    """Give the keyed hashes under which deleted words are remembered; like `incognito_digest`."""
    return [
        core.keyed_hash("unlearned", scope.tenant_id, fold(said).rstrip(" .!?"))
        for said in texts
        if said
    ]


async def embed_missing(core: Core, scope: Scope) -> None:
    """Give vectors to the user's facts that were kept without one. Raises `EmbedderError`."""
    without = (
        Fact.tenant_id == scope.tenant_id,
        Fact.user_id == scope.user_id,
        Fact.embedding.is_(None),
    )
    while True:
        async with core.db.tenant(scope.tenant_id) as tx:
            # Under the lock: a commit that found this job waiting is read too, once it is through.
            await lock_user(tx, scope)
            embedder = await embedder_of(tx, core, scope)
            some = select(Fact.id, Fact.text, Fact.guard_version).where(*without)
            rows = (await tx.execute(some.limit(EMBEDDED_AT_ONCE))).all()
        if not rows:
            return
        vectors = await embedder.embed([covered(row.text, row.guard_version) for row in rows])
        async with core.db.tenant(scope.tenant_id) as tx:
            # Several facts are written, as in any commit: without it the two could deadlock.
            await lock_user(tx, scope)
            if embedder is not await embedder_of(tx, core, scope):
                continue
            for row, vector in zip(rows, vectors, strict=True):
                await tx.execute(
                    update(Fact)
                    .where(*without, Fact.id == row.id)
                    .values(embedding=HalfVector(vector), embedding_model=embedder.name)
                )
