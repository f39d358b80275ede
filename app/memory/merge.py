"""Two user ids turn out to be one person: an anonymous id's memory moves to the account's.

What the two say is judged as if the one had said it to the other: what repeats confirms, what
contradicts is superseded by when it was said. Rows are written anew under the account and the old
id is erased in the same transaction, for a row's user never changes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Select, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from app.db import Scope, now
from app.errors import Conflict, Invalid, NotFound
from app.llm import Judge
from app.memory import audit_log, erase
from app.memory.core import Core, incognito_digest
from app.memory.facts import judge_for, require_on
from app.memory.files import bring
from app.memory.ingest import leave_no_trace, open_again, resume
from app.memory.jobs import defer_embed, defer_rejudge, drop_jobs
from app.memory.learn import decide, live, prepare
from app.memory.policy import policy_of
from app.memory.reconcile import Plan, Proposal, Source
from app.memory.rejudge import as_proposal, merge
from app.memory.usage import spend
from app.memory.users import drop_frozen, ensure_user, find_user, lock_user
from app.memory.write import EMBED_AGAIN_AFTER, Prepared, end, record_events, relink, to_verdict
from app.models import (
    Evidence,
    Fact,
    FactEvent,
    FactVerdict,
    ForgettingEntry,
    IncognitoSession,
    MemoryFile,
    Message,
    SeenMessage,
    Session,
    Unlearned,
    User,
)

JUDGED_AT_ONCE: Final = 50
TRIES: Final = 3
"""How often facts are judged anew because they changed meanwhile."""

_TOGETHER: Final = 200
_FILES_TOGETHER: Final = 50

_OF_BOTH: Final = (IncognitoSession, Unlearned)
"""Of these the two may hold the same row; anywhere else a conflict would lose something."""

Change = Callable[[Mapping[str, Any]], dict[str, Any] | None]
"""What is different of a row under its new user; None where it doesn't come along."""


@dataclass(frozen=True, slots=True)
class Merged:
    """What came of the moved memory."""

    into: str
    facts_moved: int
    facts_confirmed: int
    facts_superseded: int
    facts_quarantined: int
    sessions_moved: int
    files_moved: int
    files_refused: int
    """Files that are gone, for something of the account's stands at or above their path."""


@dataclass(slots=True)
class _Move:
    """A merge under way, with both users' rows locked."""

    tx: AsyncSession
    core: Core
    source: Scope
    target: Scope
    by: str
    fates: dict[UUID, dict[str, Any] | None] = field(default_factory=dict)
    """What becomes of the live facts: columns that differ, None for one that stays behind."""
    sessions: dict[UUID, UUID] = field(default_factory=dict)
    """Sessions that go into one of the same name."""
    hidden: set[UUID] = field(default_factory=set)
    """Sessions that are incognito for the account: nothing of them comes along."""


async def merge_users(core: Core, tenant_id: UUID, user: str, into: str, *, by: str) -> Merged:
    """Move a user's memory to another one of the tenant, who is created if need be; erase the old.

    Opens its own transactions, for the judge is waited for in between. Raises `Invalid` for one
    and the same user, `NotFound` for an unseen one, `Conflict` while either's memory is not on.
    """
    if user == into:
        raise Invalid("A user can't be merged into itself.", code="same_user")
    for _ in range(TRIES):
        async with core.db.tenant(tenant_id) as tx:
            source = await find_user(tx, tenant_id, user)
            person = await tx.get(User, (tenant_id, source.user_id)) if source else None
            if source is None or person is None:
                raise NotFound("There is no such user.")
            require_on(person)
            target, account = await ensure_user(tx, tenant_id, into)
            require_on(account)
            proposals = await _proposals(tx, source)
            judge = await judge_for(tx, core, tenant_id, await policy_of(tx, core, tenant_id))
        prepared = await _prepare(core, target, proposals, judge)
        async with erase.erasing(core, tenant_id) as tx:
            locked, revision = await _lock_both(tx, source, target)
            if source.user_id not in locked:
                raise NotFound("There is no such user.")
            if target.user_id not in locked or revision[source.user_id] != person.revision:
                continue
            for one in locked.values():
                require_on(one)
            move = _Move(tx, core, source, target, by)
            merged = await _carry_out(move, prepared, locked[target.user_id], into)
            counts = {name: count for name, count in asdict(merged).items() if name != "into"}
            await audit_log.record(
                tx, tenant_id, by, "user_merged", about=target.user_id, details=counts
            )
            await erase.erase(tx, core, tenant_id, user, by=by, merged_into=into)
            return merged
    raise Conflict("The user's facts keep changing; try again.", code="busy", retry_after=1)


async def _lock_both(
    tx: AsyncSession, source: Scope, target: Scope
) -> tuple[dict[UUID, User], dict[UUID, int]]:
    """Lock both users against every write, in an order that is the same for everybody.

    Gives them, and which revision each had before the lock itself moved it.

    Harder than for a change of facts: whoever appends a turn is waited for too, or what was
    acknowledged would go with the old id.
    """
    locked, revision = {}, {}
    for scope in sorted((source, target), key=lambda one: one.user_id):
        of_user = User.tenant_id == scope.tenant_id, User.user_id == scope.user_id
        before = await tx.scalar(select(User.revision).where(*of_user).with_for_update())
        row = await lock_user(tx, scope)
        if row is not None and before is not None:
            locked[scope.user_id], revision[scope.user_id] = row, before
    return locked, revision


async def _proposals(tx: AsyncSession, source: Scope) -> list[Proposal]:
    """Give the live facts as if they were proposed to the account."""
    facts = await tx.scalars(
        select(Fact).where(
            Fact.tenant_id == source.tenant_id, Fact.user_id == source.user_id, live()
        )
    )
    return [replace(as_proposal(fact), evidence=_source_of(fact)) for fact in facts]


def _source_of(fact: Fact) -> Source | None:
    if fact.source_session_id is None or fact.source_quote is None:
        return None
    return Source(fact.source_session_id, fact.source_message_id, fact.source_quote, fact.said_at)


async def _prepare(
    core: Core, target: Scope, proposals: Sequence[Proposal], judge: Judge | None
) -> list[Prepared]:
    """Judge the proposals against the account's facts, not against each other: that was done."""
    own = {proposal.id for proposal in proposals}
    parts = []
    for start in range(0, len(proposals), JUDGED_AT_ONCE):
        some = proposals[start : start + JUDGED_AT_ONCE]
        part = await prepare(core, target, some, judge=judge, patience=core.patience.judge)
        part.seen |= own
        part.rulings = {pair: one for pair, one in part.rulings.items() if one.old not in own}
        if part.judge_again:
            judge = None  # it is away; the rest is decided by rule too
        parts.append(part)
    return parts


async def _carry_out(move: _Move, parts: Sequence[Prepared], account: User, into: str) -> Merged:
    tx, target = move.tx, move.target
    await drop_jobs(tx, move.source)  # sessions keep their ids: the old jobs would pass for new
    decided = Plan()
    for part in parts:
        await _decide(move, part, decided)
        await spend(tx, target.tenant_id, part.usage)
    await _hide(move)
    sessions = await _move_sessions(move)
    await _copy(move, Fact, lambda row: _moved_fact(move, row))
    for table in (Evidence, FactVerdict, FactEvent):
        await _copy(move, table, lambda row: _of_moved_fact(move, row))
    await _copy(move, Unlearned, lambda _: {})
    await _copy(move, ForgettingEntry, lambda row: _of_moved_fact(move, row))
    files_moved, files_refused = await _move_files(move)
    await _record(move, parts, decided)
    await drop_frozen(tx, account)
    await defer_embed(tx, target, now(tx) + EMBED_AGAIN_AFTER)
    return Merged(
        into,
        facts_moved=len(decided.added) + len(decided.history),
        facts_confirmed=len(decided.confirmed),
        facts_superseded=len(decided.ended) + len(decided.history),
        facts_quarantined=len(decided.quarantined),
        sessions_moved=sessions,
        files_moved=files_moved,
        files_refused=files_refused,
    )


async def _decide(move: _Move, part: Prepared, decided: Plan) -> None:
    """Decide for some facts, end what gives way to them, and note what becomes of each."""
    at = now(move.tx)
    some = await decide(move.tx, move.core, move.target, part)
    fates: dict[UUID, dict[str, Any] | None] = {p.id: None for p in part.proposals}
    fates |= {p.id: {"slot": p.slot if alone else None} for p, alone in some.added}
    gone = [(p.id, successor, until) for p, successor, until in some.history]
    # What repeats a fact of the account is kept behind it; its evidence goes there afterwards.
    gone += [(p.id, older, at) for older, p in some.confirmed]
    for old, successor, until in [*gone, *some.ended]:
        if old in fates:
            fates[old] = {"superseded_at": at, "superseded_by": successor, "valid_to": until}
        else:
            await end(move.tx, move.target, old, successor, at=at, until=until)
    for old, successor, until in some.relinked:
        if old in fates:
            fates[old] = {"superseded_at": at, "superseded_by": successor, "valid_to": until}
        else:
            await relink(move.tx, move.target, old, successor, until)
    for held in some.quarantined:
        fates[held.id] = {"quarantined_at": at, "quarantine_reason": held.quarantine}
    move.fates |= fates
    for name in ("added", "history", "confirmed", "ended", "relinked", "quarantined", "rulings"):
        getattr(decided, name).extend(getattr(some, name))


def _moved_fact(move: _Move, row: Mapping[str, Any]) -> dict[str, Any] | None:
    """Give what is different of a fact; one of history may have followed what stays behind."""
    fate = move.fates.get(row["id"], {})
    if fate is None:
        return None
    session = row["source_session_id"]
    moved = {"source_session_id": move.sessions.get(session, session), **fate}
    successor = row["superseded_by"]
    if successor is not None and move.fates.get(successor, {}) is None:
        moved["superseded_by"] = None
    return moved


def _of_moved_fact(move: _Move, row: Mapping[str, Any]) -> dict[str, Any] | None:
    for name in ("fact_id", "old_id", "new_id"):
        about = row.get(name)
        if about is not None and move.fates.get(about, {}) is None:
            return None
    session = row.get("session_id")
    return {"session_id": move.sessions.get(session, session)} if session else {}


async def _move_files(move: _Move) -> tuple[int, int]:
    """Move the memory tool's files, and tell how many could and could not be.

    On the same path the account's own stays; directories are not counted.
    """
    files = func.count(MemoryFile.content)
    theirs = await move.tx.scalar(_rows(move.source, MemoryFile, files)) or 0
    before = await move.tx.scalar(_rows(move.target, MemoryFile, files)) or 0
    found = await move.tx.stream(
        _rows(move.source, MemoryFile, *MemoryFile.__table__.c).order_by(MemoryFile.path),
        execution_options={"yield_per": _FILES_TOGETHER},
    )
    async for rows in found.mappings().partitions():
        await bring(move.tx, move.target, [dict(row) for row in rows])
    moved = (await move.tx.scalar(_rows(move.target, MemoryFile, files)) or 0) - before
    return moved, theirs - moved


async def _record(move: _Move, parts: Sequence[Prepared], decided: Plan) -> None:
    """Keep verdicts and events, and let what repeats go into what it repeats."""
    tx, target = move.tx, move.target
    come = {one for one, fate in move.fates.items() if fate is not None}
    kept = {(ruling.old, ruling.new): ruling for ruling in decided.rulings}
    for part in parts:
        for pair, ruling in part.rulings.items():
            if ruling.verdict.relation == "INDEPENDENT":
                kept.setdefault(pair, ruling)
    tx.add_all(
        to_verdict(target, ruling)
        for ruling in kept.values()
        if ruling.new is None or ruling.new in come
    )
    events = [(fact_id, "moved") for fact_id in sorted(come)]
    events += [(old, "superseded") for old, *_ in decided.ended]
    events += [(old, "relinked") for old, *_ in decided.relinked]
    await record_events(tx, target, events, move.by)
    for older, proposal in decided.confirmed:
        await merge(tx, target, proposal, older, move.by)
    again = {p.id for part in parts if part.judge_again for p in part.proposals}
    for proposal, _ in decided.added:
        if proposal.id in again:
            at = now(tx) + move.core.patience.retry
            await defer_rejudge(tx, target, proposal.id, at)


async def _hide(move: _Move) -> None:
    """Let the account's sessions go that were incognito for the old id: they are for good."""
    tx, target = move.tx, move.target
    await _copy(move, IncognitoSession, lambda _: {})
    digests = set(await tx.scalars(_rows(move.source, IncognitoSession, IncognitoSession.digest)))
    for row in (await tx.scalars(_rows(target, Session, Session))).all() if digests else ():
        if incognito_digest(move.core, target.tenant_id, row.external_id) in digests:
            await leave_no_trace(tx, target, row)


async def _move_sessions(move: _Move) -> int:
    """Move sessions with their turns; one whose name the account knows goes into that one."""
    tx, tenant_id = move.tx, move.target.tenant_id
    names = {
        row.external_id: row.id
        for row in await tx.execute(_rows(move.source, Session, Session.external_id, Session.id))
    }
    digests = {incognito_digest(move.core, tenant_id, name): name for name in names}
    for digest in await tx.scalars(_rows(move.target, IncognitoSession, IncognitoSession.digest)):
        if digest in digests:
            move.hidden.add(names[digests[digest]])
    there = _rows(move.target, Session, Session.external_id, Session.id, Session.user_turns)
    last = func.max(Message.position)
    ends = _rows(move.target, Message, Message.session_id, last).group_by(Message.session_id)
    end_of = {row[0]: row[1] for row in await tx.execute(ends)}
    base: dict[UUID, int] = {}
    for row in await tx.execute(there):
        if row.external_id in names:
            move.sessions[names[row.external_id]] = row.id
            # Positions may be ahead of the count, where turns were imported.
            base[names[row.external_id]] = max(row.user_turns, end_of.get(row.id, 0))
    apart = move.hidden | set(move.sessions)
    await _copy(move, Session, lambda row: None if row["id"] in apart else {})
    await _copy(move, SeenMessage, lambda row: None if row["session_id"] in apart else {})
    waiting: set[UUID] = set()

    def behind(row: Mapping[str, Any]) -> dict[str, Any] | None:
        session = row["session_id"]
        if session in move.hidden:
            return None
        if row["extracted_at"] is None:
            waiting.add(move.sessions.get(session, session))
        return {
            "session_id": move.sessions.get(session, session),
            "position": row["position"] + base.get(session, 0),
        }

    await _copy(move, Message, behind)
    await _go_on(move, waiting)
    return len(names) - len(move.hidden)


async def _go_on(move: _Move, waiting: set[UUID]) -> None:
    """Count the turns of sessions that became one, and have read what waits."""
    tx, target = move.tx, move.target
    for old, new in move.sessions.items():
        gone = await tx.get(Session, (target.tenant_id, move.source.user_id, old))
        row = await tx.get(Session, (target.tenant_id, target.user_id, new))
        if gone is not None and row is not None:
            row.user_turns += gone.user_turns
            if new in waiting and row.status in {"done", "failed"}:
                open_again(row, now(tx))
    await tx.flush()
    for session_id in sorted(waiting):
        await resume(tx, move.core, target, session_id)


def _rows(scope: Scope, table: Any, *columns: Any) -> Select[*tuple[Any, ...]]:
    return select(*columns).where(
        table.tenant_id == scope.tenant_id, table.user_id == scope.user_id
    )


async def _copy(move: _Move, table: Any, change: Change) -> None:
    """Write a table's rows of the old id anew for the account."""
    found = await move.tx.stream(
        _rows(move.source, table, *table.__table__.c),
        execution_options={"yield_per": _TOGETHER},
    )
    connection = await move.tx.connection()
    statement = insert(table)
    if table in _OF_BOTH:
        statement = statement.on_conflict_do_nothing()
    async for rows in found.mappings().partitions():
        moved = [
            {**row, "user_id": move.target.user_id, **changed}
            for row in rows
            if (changed := change(dict(row))) is not None
        ]
        if moved:
            await connection.execute(statement, moved)
