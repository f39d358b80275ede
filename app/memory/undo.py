"""Undoing a supersession or a forgetting, as if it had not been decided.

What stood beside the fact stays; the verdicts that ended it are overturned and not given again.
"""

from uuid import UUID

from sqlalchemy import and_, func, or_, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.db import Scope, now
from app.errors import Conflict
from app.memory import audit_log
from app.memory.edit import lock_owner, predecessors, revive
from app.memory.facts import get_fact
from app.memory.users import drop_frozen
from app.memory.view import status_of
from app.models import Evidence, Fact, FactVerdict


async def restore_fact(
    tx: AsyncSession, tenant_id: UUID, user: str, fact_id: UUID, *, by: str
) -> Fact:
    """Undo a supersession or a forgetting: the fact is live, and so is what had replaced it.

    The verdicts that ended it are marked overturned, and evidence that had gone into another fact
    comes back. One whose time was over is live without an end. Joins the caller's transaction;
    raises `NotFound`, or `Conflict` when it is live or in quarantine.
    """
    scope, _ = await get_fact(tx, tenant_id, user, fact_id)
    person = await lock_owner(tx, scope)
    _, fact = await get_fact(tx, tenant_id, user, fact_id)
    if status_of(fact, now(tx)) not in {"superseded", "forgotten"}:
        raise Conflict("Only a superseded or forgotten fact can be restored.", code="fact_live")
    fact.revision += 1
    if fact.expires_at is not None and fact.expires_at <= now(tx):
        fact.expires_at = None
    await _overturn(tx, scope, fact)
    await _unmerge(tx, scope, fact)
    await revive(tx, scope, fact, by=by)
    if status_of(fact, now(tx)) != "live":
        raise Conflict("The same fact is live already.", code="fact_live")
    await drop_frozen(tx, person)
    await audit_log.record(
        tx, tenant_id, by, "fact_restored", about=scope.user_id, details={"fact": str(fact.id)}
    )
    return fact


async def _overturn(tx: AsyncSession, scope: Scope, fact: Fact) -> None:
    """Mark what put the fact into history: verdicts against it, whichever of the two came first.

    Those by which it superseded others stand.
    """
    superseded = await predecessors(tx, scope, fact.id)
    await tx.execute(
        update(FactVerdict)
        .where(
            FactVerdict.tenant_id == scope.tenant_id,
            FactVerdict.user_id == scope.user_id,
            FactVerdict.overturned_at.is_(None),
            or_(
                and_(FactVerdict.old_id == fact.id, FactVerdict.verdict == "CONTRADICTS"),
                and_(
                    FactVerdict.new_id == fact.id,
                    FactVerdict.verdict == "CONTRADICTS",
                    FactVerdict.old_id.not_in(superseded),
                ),
                # Merged into an older fact that says the same.
                and_(
                    FactVerdict.new_id == fact.id,
                    FactVerdict.verdict == "DUPLICATE",
                    FactVerdict.old_id == fact.superseded_by,
                ),
            ),
        )
        .values(overturned_at=now(tx))
    )


async def _unmerge(tx: AsyncSession, scope: Scope, fact: Fact) -> None:
    """Give the fact back the evidence that went with it into the one that said the same."""
    moved = await tx.execute(
        update(Evidence)
        .where(
            Evidence.tenant_id == scope.tenant_id,
            Evidence.user_id == scope.user_id,
            Evidence.merged_from == fact.id,
        )
        .values(fact_id=fact.id, merged_from=None)
        .returning(Evidence.id)
    )
    if moved.all() and fact.superseded_by is not None:
        await tx.execute(
            update(Fact)
            .where(
                Fact.tenant_id == scope.tenant_id,
                Fact.user_id == scope.user_id,
                Fact.id == fact.superseded_by,
            )
            .values(confirmations=func.greatest(0, Fact.confirmations - fact.confirmations - 1))
        )
