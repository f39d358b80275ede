"""Looking after sessions: what became of them, ending, trying again, deleting what was learned."""

import asyncio
import itertools
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sqlalchemy import delete, func, or_, select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from app.db import Database, Scope
from app.errors import Conflict, NotFound
from app.memory import audit_log, cursor
from app.memory.core import Core
from app.memory.edit import erase_facts
from app.memory.idempotency import forget_answers
from app.memory.ingest import Receipt, named, queue_session, waiting
from app.memory.users import drop_frozen, find_user, lock_user
from app.models import Evidence, Fact, Message, SeenMessage, Session

_SETTLED: Final = {"done", "failed"}
_POLLS: Final = (0.1, 0.15, 0.25, 0.5, 1.0)


def _missing() -> NotFound:
    return NotFound("There is no such session.")


async def find_session(
    tx: AsyncSession, tenant_id: UUID, user: str, session: str, *, lock: bool = False
) -> tuple[Scope, Session]:
    """Give a session by the caller's ids. Raises `NotFound`, for incognito ones too."""
    scope = await find_user(tx, tenant_id, user)
    if scope is None:
        raise _missing()
    query = select(Session).where(named(scope, session))
    query = query.execution_options(populate_existing=True)
    row = await tx.scalar(query.with_for_update() if lock else query)
    if row is None:
        raise _missing()
    return scope, row


async def end_session(tx: AsyncSession, tenant_id: UUID, user: str, session: str) -> Receipt:
    """End a session now instead of after its silence; already ended is fine."""
    scope, row = await find_session(tx, tenant_id, user, session, lock=True)
    turns = await tx.scalar(select(func.count()).where(waiting(scope, row.id)))
    await queue_session(tx, scope, row, turns=turns or 0)
    return Receipt(session, row.status, extract_after=row.extract_after)


async def wait_for_session(
    core: Core, tenant_id: UUID, user: str, session: str, seconds: float
) -> Session:
    """Give the session as soon as it is done or failed, else as it is after `seconds`.

    Holds no connection while it waits.
    """
    deadline = asyncio.get_running_loop().time() + seconds
    for poll in itertools.chain(_POLLS, itertools.repeat(_POLLS[-1])):
        async with core.db.tenant(tenant_id) as tx:
            _, row = await find_session(tx, tenant_id, user, session)
        left = deadline - asyncio.get_running_loop().time()
        if row.status in _SETTLED or left <= 0:
            return row
        await asyncio.sleep(min(poll, left))
    raise AssertionError("the polls never end")


async def list_sessions(
    tx: AsyncSession, core: Core, tenant_id: UUID, user: str, *, limit: int, after: str | None
) -> cursor.Page[Session]:
    """List a user's sessions, newest first."""
    binding = cursor.binding_of("sessions", tenant_id, user)
    place = cursor.decode(core, binding, after) if after else None
    scope = await find_user(tx, tenant_id, user)
    if scope is None:
        return cursor.Page([], None)
    query = select(Session).where(
        Session.tenant_id == scope.tenant_id, Session.user_id == scope.user_id
    )
    if place:
        query = query.where(tuple_(Session.created_at, Session.id) < tuple_(*place))
    query = query.order_by(Session.created_at.desc(), Session.id.desc()).limit(limit + 1)
    rows = list(await tx.scalars(query))
    return cursor.page(core, binding, rows, limit)


async def retry_session(tx: AsyncSession, tenant_id: UUID, user: str, session: str) -> Receipt:
    """Give a failed session all its tries again. Raises `Conflict` for any other."""
    scope, row = await find_session(tx, tenant_id, user, session, lock=True)
    if row.status != "failed":
        raise Conflict("Only a failed session can be retried.", code="session_not_failed")
    await _retry(tx, scope, row)
    return Receipt(session, row.status, extract_after=row.extract_after)


async def retry_failed(db: Database, tenant_id: UUID) -> int:
    """Give every failed session of a tenant its tries again; give how many there were."""
    retried = 0
    async with db.tenant(tenant_id) as tx:
        rows = await tx.scalars(
            select(Session)
            .where(Session.tenant_id == tenant_id, Session.status == "failed")
            .with_for_update(skip_locked=True)
        )
        for row in rows:
            await _retry(tx, Scope(tenant_id, row.user_id), row)
            retried += 1
    return retried


async def _retry(tx: AsyncSession, scope: Scope, row: Session) -> None:
    turns = await tx.scalar(select(func.count()).where(waiting(scope, row.id)))
    row.status, row.reason, row.failures = "queued", None, 0
    await queue_session(tx, scope, row, turns=turns or 0)


@dataclass(frozen=True, slots=True)
class SessionReceipt:
    """What deleting a session did to the facts."""

    session: str
    facts_erased: int
    facts_kept: int
    facts_restored: int


async def delete_session(
    tx: AsyncSession, tenant_id: UUID, user: str, session: str, *, by: str
) -> SessionReceipt:
    """Delete a session's turns and the facts that rest on it alone.

    What the erased facts had superseded is live again; a running extraction finds nothing to
    commit; the idempotency keys of its turns answer 410.
    """
    scope, _ = await find_session(tx, tenant_id, user, session)
    person = await lock_user(tx, scope)
    if person is None:
        raise _missing()
    # The user's row first, as everywhere; whoever was quicker may have deleted the session.
    _, row = await find_session(tx, tenant_id, user, session, lock=True)
    of_session = (
        Evidence.tenant_id == scope.tenant_id,
        Evidence.user_id == scope.user_id,
        Evidence.session_id == row.id,
    )
    touched = set(await tx.scalars(select(Evidence.fact_id).where(*of_session)))
    # A fact that went into another one left its evidence there, but still holds the words.
    touched |= set(
        await tx.scalars(
            select(Fact.id).where(
                Fact.tenant_id == scope.tenant_id,
                Fact.user_id == scope.user_id,
                Fact.source_session_id == row.id,
            )
        )
    )
    await tx.execute(delete(Evidence).where(*of_session))
    kept = set(
        await tx.scalars(
            select(Evidence.fact_id).where(
                Evidence.tenant_id == scope.tenant_id,
                Evidence.user_id == scope.user_id,
                Evidence.fact_id.in_(touched),
            )
        )
    )
    # A fact that a person wrote or corrected rests on that, not on the conversation; of an imported
    # one only its own conversation tells.
    kept |= set(
        await tx.scalars(
            select(Fact.id).where(
                Fact.tenant_id == scope.tenant_id,
                Fact.user_id == scope.user_id,
                Fact.id.in_(touched),
                Fact.source != "transcript",
                or_(Fact.source != "import", Fact.source_session_id.is_(None)),
            )
        )
    )
    await _move_provenance(tx, scope, kept)
    restored = await erase_facts(tx, scope, touched - kept, by=by)
    for table in (Message, SeenMessage):
        await tx.execute(
            delete(table).where(
                table.tenant_id == scope.tenant_id,
                table.user_id == scope.user_id,
                table.session_id == row.id,
            )
        )
    await forget_answers(tx, tenant_id, user_id=scope.user_id, session=row.external_id)
    await tx.delete(row)
    await drop_frozen(tx, person)
    done = SessionReceipt(session, len(touched - kept), len(kept), restored)
    await audit_log.record(
        tx,
        tenant_id,
        by,
        "session_deleted",
        about=scope.user_id,
        details={"session": str(row.id), "facts_erased": done.facts_erased},
    )
    return done


async def _move_provenance(tx: AsyncSession, scope: Scope, facts: set[UUID]) -> None:
    """Let facts that stay name the earliest evidence that is left."""
    evidence = await tx.scalars(
        select(Evidence)
        .where(
            Evidence.tenant_id == scope.tenant_id,
            Evidence.user_id == scope.user_id,
            Evidence.fact_id.in_(facts),
        )
        .order_by(Evidence.said_at.desc())
    )
    earliest: dict[UUID, Evidence] = {row.fact_id: row for row in evidence}
    for fact_id, first in earliest.items():
        fact = await tx.get(Fact, (scope.tenant_id, scope.user_id, fact_id))
        if fact is not None:
            fact.source_session_id = first.session_id
            fact.source_message_id = first.message_id
            fact.source_quote = first.quote
            fact.said_at = first.said_at
