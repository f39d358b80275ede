"""Conversations come in: only the user's turns are kept, scrubbed, until they are extracted.

A session waits for silence, its cap or an explicit end; then a job is deferred in the same
transaction as its cause, so that what was acknowledged is never lost.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID, uuid4

from sqlalchemy import ColumnElement, and_, delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from app.db import Scope, now
from app.errors import Conflict, Invalid
from app.memory.core import Core, incognito_digest
from app.memory.echo import cut_echo
from app.memory.guard import scrub
from app.memory.idempotency import forget_answers
from app.memory.jobs import defer_extract, defer_look
from app.memory.policy import SESSION_MAX_CHARACTERS, SESSION_MAX_TURNS, policy_of
from app.memory.users import ensure_user
from app.models import FrozenBlock, IncognitoSession, Message, SeenMessage, Session

Role = Literal["user", "assistant", "system", "developer", "tool", "function"]

SCRUBBED_AT_ONCE = 4_000
"""Characters that are scrubbed on the event loop; a millisecond for each 500."""

MAX_AHEAD = timedelta(minutes=5)
MAX_FUTURE = timedelta(days=1)
EARLIEST_YEAR = 2000


@dataclass(frozen=True, slots=True)
class IncomingTurn:
    """One turn as the backend sent it: the text parts joined, None when there were none."""

    role: Role
    text: str | None
    id: str | None = None
    said_at: datetime | None = None
    secrets: int = 0
    """How many secrets were cut out of it."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What was done with the turns. `accepted` counts user turns now stored."""

    session: str
    status: str
    accepted: int = 0
    ignored: int = 0
    duplicates: int = 0
    extract_after: datetime | None = None
    is_incognito: bool = False
    """The session leaves no trace: its name must not stay anywhere, such as in a kept answer."""


def clamp_time(at: datetime | None, arrival: datetime) -> datetime:
    """Give when something was said: never later than it arrived by more than clocks may differ.

    Raises `Invalid` for before 2000 or more than a day ahead.
    """
    if at is None:
        return arrival
    if at.year < EARLIEST_YEAR or at > arrival + MAX_FUTURE:
        raise Invalid("A time lies before 2000 or more than a day ahead.", code="bad_time")
    return arrival if at > arrival + MAX_AHEAD else at


Settle = Callable[[AsyncSession, Receipt], Awaitable[None]]
"""What else belongs into the commit that stores turns."""


async def append_turns(
    core: Core,
    tenant_id: UUID,
    user: str,
    session: str,
    turns: Sequence[IncomingTurn],
    *,
    end: bool = False,
    memory: Literal["on", "off"] | None = None,
    settle: Settle | None = None,
) -> Receipt:
    """Append turns to a session, creating user and session if need be, and end it if asked.

    Opens its own transaction, after the turns are scrubbed; the job that will extract is deferred
    in it. `memory="off"` makes the session incognito for good; a later `"on"` raises `Conflict`.
    `Invalid` for a turn of another age, whoever's it is.
    """
    characters = sum(len(turn.text or "") for turn in turns)
    if characters > SCRUBBED_AT_ONCE:
        # Seconds for the longest of hostile turns: neither the event loop nor a connection waits.
        turns = await asyncio.to_thread(_scrubbed, turns)
    else:
        turns = _scrubbed(turns)
    async with core.db.tenant(tenant_id) as tx:
        receipt = await _append(tx, core, tenant_id, user, session, turns, end=end, memory=memory)
        if settle is not None:
            await settle(tx, receipt)
    return receipt


def _scrubbed(turns: Sequence[IncomingTurn]) -> list[IncomingTurn]:
    """Cut secrets, hidden text and served memory out of the user's turns."""
    ready: list[IncomingTurn] = []
    for turn in turns:
        if turn.role != "user":
            ready.append(turn)
            continue
        scrubbed = scrub(turn.text or "")
        ready.append(
            replace(turn, text=cut_echo(scrubbed.text), secrets=sum(scrubbed.found.values()))
        )
    return ready


async def _append(
    tx: AsyncSession,
    core: Core,
    tenant_id: UUID,
    user: str,
    session: str,
    turns: Sequence[IncomingTurn],
    *,
    end: bool,
    memory: Literal["on", "off"] | None,
) -> Receipt:
    turns = [replace(turn, said_at=clamp_time(turn.said_at, now(tx))) for turn in turns]
    scope, person = await ensure_user(tx, tenant_id, user)
    if person.memory != "on" and memory != "off":
        return Receipt(session, "skipped")
    # The row first: whoever makes the session incognito at this moment waits for the same row.
    row = await _ensure_session(tx, scope, session)
    if await _is_incognito(tx, core, scope, session, memory):
        await leave_no_trace(tx, scope, row)
        return Receipt(session, "skipped", is_incognito=True)
    fresh, duplicates = await _drop_known(tx, core, scope, row, turns)
    accepted = await _store(tx, scope, row, fresh)
    await _schedule(tx, core, scope, row, accepted=accepted, end=end)
    return Receipt(
        session,
        row.status,
        accepted=accepted,
        ignored=len(turns) - duplicates - accepted,
        duplicates=duplicates,
        extract_after=row.extract_after,
    )


async def _is_incognito(
    tx: AsyncSession, core: Core, scope: Scope, session: str, memory: str | None
) -> bool:
    """Tell whether the session leaves no trace; make it so, with its earlier turns, if asked."""
    key = {
        "tenant_id": scope.tenant_id,
        "user_id": scope.user_id,
        "digest": incognito_digest(core, scope.tenant_id, session),
    }
    if memory == "off":
        await tx.execute(insert(IncognitoSession).values(**key).on_conflict_do_nothing())
        return True
    known = await tx.get(IncognitoSession, tuple(key.values())) is not None
    if known and memory == "on":
        raise Conflict("The session is incognito for good.", code="session_incognito")
    return known


async def leave_no_trace(tx: AsyncSession, scope: Scope, row: Session) -> None:
    """Delete an incognito session's row, turns, frozen block and kept answers."""
    await forget_answers(tx, scope.tenant_id, user_id=scope.user_id, session=row.external_id)
    await tx.execute(
        delete(FrozenBlock).where(
            FrozenBlock.tenant_id == scope.tenant_id,
            FrozenBlock.user_id == scope.user_id,
            FrozenBlock.session == row.external_id,
        )
    )
    await tx.delete(row)


def named(scope: Scope, session: str) -> ColumnElement[bool]:
    """Select a session by the caller's own id."""
    return and_(
        Session.tenant_id == scope.tenant_id,
        Session.user_id == scope.user_id,
        Session.external_id == session,
    )


async def _ensure_session(tx: AsyncSession, scope: Scope, session: str) -> Session:
    """Give the session with its row locked, creating it if need be."""
    while True:
        row = await tx.scalar(select(Session).where(named(scope, session)).with_for_update())
        if row is not None:
            return row
        # Somebody else may have created it a moment ago, or be deleting it: look again.
        await tx.execute(
            insert(Session)
            .values(
                tenant_id=scope.tenant_id, user_id=scope.user_id, id=uuid4(), external_id=session
            )
            .on_conflict_do_nothing()
        )


def message_digest(core: Core, session_id: UUID, message_id: str) -> bytes:
    """Give the keyed hash under which a message's id is remembered."""
    return core.keyed_hash("message", session_id, message_id)


async def _drop_known(
    tx: AsyncSession, core: Core, scope: Scope, row: Session, turns: Iterable[IncomingTurn]
) -> tuple[list[IncomingTurn], int]:
    """Give the user's turns whose ids are new, and the number of the others.

    Ids are remembered by keyed hash, also after the turn's text is gone.
    """
    of_user = [turn for turn in turns if turn.role == "user"]
    digests = {
        turn.id: message_digest(core, row.id, turn.id) for turn in of_user if turn.id is not None
    }
    if not digests:
        return of_user, 0
    new = set(
        await tx.scalars(
            insert(SeenMessage)
            .values(
                [
                    {
                        "tenant_id": scope.tenant_id,
                        "user_id": scope.user_id,
                        "session_id": row.id,
                        "digest": digest,
                    }
                    for digest in digests.values()
                ]
            )
            .on_conflict_do_nothing()
            .returning(SeenMessage.digest)
        )
    )
    fresh: list[IncomingTurn] = []
    for turn in of_user:
        if turn.id is None:
            fresh.append(turn)
        elif digests[turn.id] in new:
            new.discard(digests[turn.id])  # the same id twice in one call counts once
            fresh.append(turn)
    return fresh, len(of_user) - len(fresh)


async def _store(
    tx: AsyncSession, scope: Scope, row: Session, turns: Iterable[IncomingTurn]
) -> int:
    """Store scrubbed turns behind those that wait; give how many had any text."""
    values: list[dict[str, object]] = []
    secrets = 0
    for turn in turns:
        secrets += turn.secrets
        if turn.text:
            values.append({"external_id": turn.id, "text": turn.text, "said_at": turn.said_at})
    if not values:
        return 0
    last = await tx.scalar(
        select(func.coalesce(func.max(Message.position), 0)).where(waiting(scope, row.id))
    )
    base = max(last or 0, row.user_turns)
    await tx.execute(
        insert(Message).values(
            [
                {
                    "tenant_id": scope.tenant_id,
                    "user_id": scope.user_id,
                    "session_id": row.id,
                    "position": base + n,
                    **value,
                }
                for n, value in enumerate(values, 1)
            ]
        )
    )
    row.user_turns += len(values)
    if secrets:
        row.rejected = {**row.rejected, "secret": row.rejected.get("secret", 0) + secrets}
    return len(values)


def waiting(scope: Scope, session_id: UUID) -> ColumnElement[bool]:
    """Select a session's turns that are not extracted yet."""
    return and_(
        Message.tenant_id == scope.tenant_id,
        Message.user_id == scope.user_id,
        Message.session_id == session_id,
        Message.extracted_at.is_(None),
    )


async def _schedule(
    tx: AsyncSession, core: Core, scope: Scope, row: Session, *, accepted: int, end: bool
) -> None:
    """Move the session's deadline, or queue it when it has ended or is full.

    A session that is queued or being extracted keeps its own deadline: turns that come now can't
    put off those before them.
    """
    at = now(tx)
    if accepted and row.status in {"done", "failed"}:
        open_again(row, at)
    if accepted or row.status == "open":
        row.last_activity_at = at
    turns, characters = (
        await tx.execute(
            select(func.count(), func.coalesce(func.sum(func.char_length(Message.text)), 0)).where(
                waiting(scope, row.id)
            )
        )
    ).one()
    full = turns >= SESSION_MAX_TURNS or characters >= SESSION_MAX_CHARACTERS
    if end or full:
        await queue_session(tx, scope, row, turns=turns)
    elif row.status == "open":
        await look_after_silence(tx, core, scope, row)


def open_again(row: Session, at: datetime) -> None:
    """Begin a new stretch of the session, with a cap and tries of its own."""
    row.status, row.reason, row.ended = "open", None, False
    row.opened_at, row.failures = at, 0


async def look_after_silence(tx: AsyncSession, core: Core, scope: Scope, row: Session) -> None:
    """Have an open session looked at after its silence, or at its cap if that is sooner."""
    policy = await policy_of(tx, core, scope.tenant_id)
    row.extract_after = min(
        row.last_activity_at + policy.session_silence, row.opened_at + policy.session_cap
    )
    await defer_look(tx, scope, row.id, row.extract_after)


async def resume(tx: AsyncSession, core: Core, scope: Scope, session_id: UUID) -> None:
    """Go on with a session that came here with turns that nobody has read."""
    turns = await tx.scalar(select(func.count()).where(waiting(scope, session_id)))
    row = await tx.get(Session, (scope.tenant_id, scope.user_id, session_id))
    if not turns or row is None or row.status == "failed":
        return
    ended, row.status = row.ended or row.status in {"queued", "extracting"}, "open"
    if ended:
        await queue_session(tx, scope, row, turns=turns)
    else:
        await look_after_silence(tx, core, scope, row)


async def queue_session(tx: AsyncSession, scope: Scope, row: Session, *, turns: int) -> None:
    """End the session: extract what waits, or be done when nothing does."""
    row.ended = True
    if row.status not in {"open", "queued"}:
        return  # settled; or whoever extracts looks for newer turns in its own commit
    if turns == 0:
        row.status, row.extract_after = "done", None
        row.extracted_at = row.extracted_at or now(tx)
        return
    if row.status == "queued" and row.reason and (row.extract_after or now(tx)) > now(tx):
        return  # it waits for the model or the budget: asking again is no reason not to
    row.status, row.extract_after = "queued", now(tx)
    await defer_extract(tx, scope, row.id)
