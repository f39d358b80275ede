"""A tenant's own API keys: made, listed, rotated, revoked.

`admin` implies no other scope, yet whoever holds it may make keys of any: it manages the tenant.
"""

from datetime import datetime, timedelta
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Path, Response
from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from app.deps import CoreDep, CredentialDep, KeyCacheDep, KeyedRoute, Needs, Tx
from app.durations import Duration
from app.memory import tenants
from app.models import ApiKey
from app.wire import Id, Limit, Model

router = APIRouter(prefix="/v1/tenant/keys", route_class=KeyedRoute, tags=["keys"])
_admin = Depends(Needs("admin"))

KeyId = Annotated[str, Path(alias="key")]
Scope = Literal["ingest", "recall", "facts", "privacy", "admin"]


def _not_for_ever(span: timedelta) -> timedelta:
    if not timedelta(0) < span <= timedelta(days=3650):
        raise PydanticCustomError("span", "a key lives between a second and ten years")
    return span


def _at_most_a_month(span: timedelta) -> timedelta:
    if span > timedelta(days=30):
        raise PydanticCustomError("span", "keys overlap for at most 30 days")
    return span


class KeyIn(Model):
    """A key to be: what it may do, for whom, and for how long; without an end if not said."""

    scopes: Annotated[list[Scope], Field(min_length=1, max_length=len(tenants.SCOPES))]
    user: Id | None = None
    expires_in: Annotated[Duration, AfterValidator(_not_for_ever)] | None = None


class RotationIn(Model):
    """How long the old key goes on working beside the new one."""

    overlap: Annotated[Duration, AfterValidator(_at_most_a_month)] = timedelta(hours=24)


class KeyOut(Model):
    """A key as it can be shown: how its text begins and ends, and never the rest.

    `last4` is null for keys of before it was kept; `last_used_at` may be a minute late.
    """

    id: str
    prefix: str
    last4: str | None
    scopes: list[Scope]
    user: str | None
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None

    @classmethod
    def of(cls, row: ApiKey) -> "KeyOut":
        """Show a key."""
        return cls(
            id=row.id,
            prefix=f"um_{row.id}",
            last4=row.last_four,
            scopes=row.scopes,
            user=row.bound_to,
            created_at=row.created_at,
            expires_at=row.expires_at,
            last_used_at=row.last_used_at,
        )


class KeyPage(Model):
    """One page of keys, newest first."""

    items: list[KeyOut]
    next_cursor: str | None


class NewKeyOut(KeyOut):
    """A key at the only moment when its text is known."""

    key: str

    @classmethod
    def made(cls, new: tenants.NewKey) -> "NewKeyOut":
        """Show a new key, this once."""
        return cls(
            id=new.id,
            key=new.key,
            prefix=f"um_{new.id}",
            last4=new.key[-4:],
            scopes=list(new.scopes),
            user=new.bound_to,
            created_at=new.created_at,
            expires_at=new.expires_at,
            last_used_at=None,
        )


@router.get("", dependencies=[_admin])
async def get_keys(
    core: CoreDep, key: CredentialDep, tx: Tx, limit: Limit = 50, cursor: str | None = None
) -> KeyPage:
    """List the keys that were not revoked."""
    page = await tenants.list_keys(tx, core, key.tenant_id, limit=limit, after=cursor)
    return KeyPage(items=[KeyOut.of(row) for row in page.items], next_cursor=page.next_cursor)


@router.post("", status_code=201, dependencies=[_admin])
async def post_key(body: KeyIn, key: CredentialDep, tx: Tx) -> NewKeyOut:
    """Make a key. Its text is shown this once."""
    new = await tenants.create_key(
        tx,
        key.tenant_id,
        list(dict.fromkeys(body.scopes)),
        bound_to=body.user,
        expires_in=body.expires_in,
        by=key.actor,
    )
    return NewKeyOut.made(new)


@router.post("/{key}/rotate", status_code=201, dependencies=[_admin])
async def rotate_key(
    key_id: KeyId,
    key: CredentialDep,
    keys: KeyCacheDep,
    core: CoreDep,
    body: RotationIn | None = None,
) -> NewKeyOut:
    """Make a key that may do the same; the old one ends after the overlap."""
    overlap = (body or RotationIn()).overlap
    async with core.db.tenant(key.tenant_id) as tx:
        new = await tenants.rotate_key(tx, key.tenant_id, key_id, overlap, by=key.actor)
    keys.drop(key_id)
    return NewKeyOut.made(new)


@router.delete("/{key}", status_code=204, dependencies=[_admin])
async def revoke_key(
    key_id: KeyId, key: CredentialDep, keys: KeyCacheDep, core: CoreDep
) -> Response:
    """Revoke a key: at once in this process, within a minute in every other."""
    await tenants.revoke_key(core.db, key_id, of=key.tenant_id, by=key.actor)
    keys.drop(key_id)
    return Response(status_code=204)
