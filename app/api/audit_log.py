"""The audit log: who did what to whom."""

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Query

from app.deps import CoreDep, CredentialDep, KeyedRoute, Needs, Tx
from app.memory import audit_log
from app.wire import Id, Limit, Model, Time

router = APIRouter(prefix="/v1/audit-log", route_class=KeyedRoute, tags=["audits"])
_admin = Depends(Needs("admin"))


class EntryOut(Model):
    """One act. `user_id` is our own id of the user; `user` the caller's, while the user exists."""

    id: UUID
    at: datetime
    actor: str
    action: audit_log.Action
    user_id: UUID | None
    user: str | None
    details: dict[str, Any]

    @classmethod
    def of(cls, shown: audit_log.Shown) -> "EntryOut":
        """Show an entry."""
        row = shown.entry
        return cls(
            id=row.id,
            at=row.created_at,
            actor=row.actor,
            action=row.action,
            user_id=row.about,
            user=shown.user,
            details=row.details,
        )


class EntryPage(Model):
    """One page of the audit log, newest first."""

    items: list[EntryOut]
    next_cursor: str | None


@router.get("", dependencies=[_admin])
async def get_audit_log(
    core: CoreDep,
    key: CredentialDep,
    tx: Tx,
    user: Annotated[Id | None, Query()] = None,
    action: audit_log.Action | None = None,
    since: Annotated[Time | None, Query(alias="from")] = None,
    until: Annotated[Time | None, Query(alias="to")] = None,
    limit: Limit = 50,
    cursor: str | None = None,
) -> EntryPage:
    """List what was done in the tenant, by user, action or time if asked."""
    wanted = audit_log.Filter(user, action, since, until)
    items, following = await audit_log.list_entries(
        tx, core, key.tenant_id, wanted, limit=limit, after=cursor
    )
    return EntryPage(items=[EntryOut.of(item) for item in items], next_cursor=following)
