"""Forgetting, for the tenant: what tonight would take and why, and what was taken."""

from datetime import datetime
from uuid import UUID

from fastapi import APIRouter, Depends

from app.api.facts import FactOut
from app.db import now
from app.deps import CoreDep, CredentialDep, KeyedRoute, Needs, Tx
from app.memory import forgetting
from app.memory.forgetting_rules import REASONS, Rule
from app.memory.policy import Forgetting
from app.wire import Limit, Model

router = APIRouter(prefix="/v1/forgetting", route_class=KeyedRoute, tags=["forgetting"])
_admin = Depends(Needs("admin"))


class DueOut(Model):
    """A fact that is due, whom it is about, by which rule; `score` is its worth under the cap."""

    fact: FactOut
    user: str
    rule: Rule
    reason: str
    score: float | None


class PreviewPage(Model):
    """One page of what is due, newest facts first; in a dry run it is only logged."""

    mode: Forgetting
    items: list[DueOut]
    next_cursor: str | None


class LoggedOut(Model):
    """A fact that was let go, or by a dry run would have been; `fact` may be gone by now."""

    id: UUID
    at: datetime
    fact: UUID
    user: str | None
    rule: Rule
    reason: str
    dry_run: bool


class LogPage(Model):
    """One page of the forgetting log, newest first."""

    items: list[LoggedOut]
    next_cursor: str | None


@router.get("/preview", dependencies=[_admin])
async def get_preview(
    core: CoreDep, key: CredentialDep, tx: Tx, limit: Limit = 50, cursor: str | None = None
) -> PreviewPage:
    """Show which facts a run of this moment would let go, and why."""
    page = await forgetting.preview(tx, core, key.tenant_id, limit=limit, after=cursor)
    items = [
        DueOut(
            fact=FactOut.of(one.fact, now(tx)),
            user=one.user,
            rule=one.due.rule,
            reason=REASONS[one.due.rule],
            score=one.due.score,
        )
        for one in page.items
    ]
    return PreviewPage(mode=page.mode, items=items, next_cursor=page.next_cursor)


@router.get("/log", dependencies=[_admin])
async def get_log(
    core: CoreDep, key: CredentialDep, tx: Tx, limit: Limit = 50, cursor: str | None = None
) -> LogPage:
    """List what was let go, and what dry runs would have."""
    logged, following = await forgetting.list_log(
        tx, core, key.tenant_id, limit=limit, after=cursor
    )
    items = [
        LoggedOut(
            id=one.entry.id,
            at=one.entry.created_at,
            fact=one.entry.fact_id,
            user=one.user,
            rule=one.rule,
            reason=REASONS[one.rule],
            dry_run=one.entry.dry_run,
        )
        for one in logged
    ]
    return LogPage(items=items, next_cursor=following)
