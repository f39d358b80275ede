"""Quarantine, for the tenant: look, release, reject, and take back what came wrong."""

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Header, Response
from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from app.api.edit import OF_A_REVISION, revisions_of
from app.api.facts import FactOut
from app.db import now
from app.deps import CoreDep, CredentialDep, KeyedRoute, Needs, Tx
from app.memory import quarantine
from app.memory.release import release
from app.wire import FactId, Id, Limit, Line, Model, Time

router = APIRouter(prefix="/v1/quarantine", route_class=KeyedRoute, tags=["quarantine"])
_admin = Depends(Needs("admin"))


class HeldOut(FactOut):
    """A fact in quarantine, and whom it is about; null is the organization."""

    user: str | None


class HeldPage(Model):
    """One page of the quarantine, newest first."""

    items: list[HeldOut]
    next_cursor: str | None


class SweepIn(Model):
    """How the facts to take back came in; at least one of these."""

    session: Id | None = None
    source: Literal["transcript", "api", "page", "mcp", "import"] | None = None
    extractor: Annotated[Line, Field(min_length=1, max_length=200)] | None = None
    since: Annotated[Time | None, Field(alias="from")] = None
    until: Annotated[Time | None, Field(alias="to")] = None
    user: Id | None = None

    @model_validator(mode="after")
    def _names_something(self) -> "SweepIn":
        if not any(value is not None for value in self.model_dump().values()):
            raise PydanticCustomError("empty", "name at least one way in which the facts came")
        return self


class SweptOut(Model):
    """What a sweep did."""

    quarantined: int
    restored: int


@router.get("", dependencies=[_admin])
async def list_quarantine(
    core: CoreDep, key: CredentialDep, tx: Tx, limit: Limit = 50, cursor: str | None = None
) -> HeldPage:
    """List the tenant's facts in quarantine."""
    held, following = await quarantine.list_quarantine(
        tx, core, key.tenant_id, limit=limit, after=cursor
    )
    items = [
        HeldOut(**FactOut.of(item.fact, now(tx)).model_dump(), user=item.user) for item in held
    ]
    return HeldPage(items=items, next_cursor=following)


@router.post("", dependencies=[_admin])
async def sweep(body: SweepIn, key: CredentialDep, tx: Tx) -> SweptOut:
    """Put everything that came one way into quarantine; what it had superseded is back."""
    way = quarantine.Way(**body.model_dump())
    swept = await quarantine.sweep(tx, key.tenant_id, way, by=key.actor)
    return SweptOut.model_validate(swept)


@router.post("/{fact}/release", dependencies=[_admin], responses=OF_A_REVISION)
async def release_fact(
    fact: FactId,
    core: CoreDep,
    key: CredentialDep,
    response: Response,
    if_match: Annotated[str | None, Header()] = None,
) -> FactOut:
    """Release a fact of that revision: it is judged as if it had just been said."""
    row, at = await release(
        core, key.tenant_id, fact, revisions=revisions_of(if_match), by=key.actor
    )
    response.headers["ETag"] = f'"{row.revision}"'
    return FactOut.of(row, at)


@router.post("/{fact}/reject", status_code=204, response_class=Response, dependencies=[_admin])
async def reject(fact: FactId, key: CredentialDep, tx: Tx) -> None:
    """Erase a fact in quarantine for good."""
    await quarantine.reject(tx, key.tenant_id, fact, by=key.actor)
