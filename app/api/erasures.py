"""The erasures of a tenant, to be kept outside the database's backups."""

from datetime import datetime
from uuid import UUID

from fastapi import APIRouter, Depends

from app.deps import CoreDep, CredentialDep, KeyedRoute, Needs, Tx
from app.memory.erasures import list_erasures
from app.models import Erasure
from app.wire import Limit, Model, Time

router = APIRouter(prefix="/v1/erasures", route_class=KeyedRoute, tags=["privacy"])
_privacy = Depends(Needs("privacy"))


class ErasureOut(Model):
    """An erasure; the hash is keyed and names nobody."""

    erasure_id: UUID
    subject_hash: str
    erased_at: datetime

    @classmethod
    def of(cls, row: Erasure) -> "ErasureOut":
        """Show an erasure that the database has seen."""
        return cls(erasure_id=row.id, subject_hash=row.subject_hash.hex(), erased_at=row.erased_at)


class ErasurePage(Model):
    """One page of erasures, newest first."""

    items: list[ErasureOut]
    next_cursor: str | None


@router.get("", dependencies=[_privacy])
async def get_erasures(
    core: CoreDep,
    key: CredentialDep,
    tx: Tx,
    since: Time | None = None,
    limit: Limit = 50,
    cursor: str | None = None,
) -> ErasurePage:
    """List the tenant's erasures, from a time on if asked."""
    rows, following = await list_erasures(
        tx, core, key.tenant_id, since=since, limit=limit, after=cursor
    )
    return ErasurePage(items=[ErasureOut.of(row) for row in rows], next_cursor=following)
