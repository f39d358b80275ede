"""A user as a whole: settings, the way to their own page, and erasing all that is known."""

from datetime import datetime, timedelta
from functools import cache
from typing import Annotated
from uuid import UUID
from zoneinfo import available_timezones

from fastapi import APIRouter, Depends
from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from app.deps import CoreDep, CredentialDep, KeyCacheDep, KeyedRoute, Needs, Tx
from app.memory.erase import erase_user
from app.memory.page_links import LONGEST, create_link
from app.memory.users import MemoryMode, read_settings, write_settings
from app.wire import ONE_LINE, WHOLE, Line, Model, UserId

router = APIRouter(prefix="/v1/users/{user:id}", route_class=KeyedRoute, tags=["users"])
_privacy = Depends(Needs("privacy"))


@cache
def _zones() -> set[str]:
    return available_timezones()


def _zone(name: str) -> str:
    if name not in _zones():
        raise PydanticCustomError("timezone", "a time zone is an IANA name like Europe/Lisbon")
    return name


Timezone = Annotated[
    Line, AfterValidator(_zone), Field(json_schema_extra={"format": "iana-time-zone"})
]
Locale = Annotated[
    str, Field(pattern=r"^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*$", max_length=35), ONE_LINE
]


class SettingsOut(Model):
    """What holds for the user's memory."""

    memory: MemoryMode
    locale: str | None
    timezone: str | None


class SettingsIn(Model):
    """The settings; with PATCH, those that are not named stay as they are."""

    memory: MemoryMode = "on"
    locale: Locale | None = None
    timezone: Timezone | None = None


class ErasedOut(Model):
    """The receipt of an erasure: rows by table, and until when backups may hold them."""

    erasure_id: UUID
    erased_at: datetime
    counts: dict[str, int]
    backups_until: datetime


class PageLinkIn(Model):
    """For how many seconds the link opens the page."""

    expires_in: Annotated[int, Field(ge=1, le=int(LONGEST.total_seconds()), strict=True), WHOLE] = (
        int(LONGEST.total_seconds())
    )


class PageLinkOut(Model):
    """A link for the user's browser; it works once."""

    url: str
    expires_at: datetime


@router.get("/settings", dependencies=[_privacy])
async def get_settings(user: UserId, key: CredentialDep, tx: Tx) -> SettingsOut:
    """Read a user's settings; an unseen user has the defaults."""
    return SettingsOut.model_validate(await read_settings(tx, key.tenant_id, user))


@router.put("/settings", dependencies=[_privacy])
async def put_settings(user: UserId, body: SettingsIn, key: CredentialDep, tx: Tx) -> SettingsOut:
    """Replace a user's settings."""
    settings = await write_settings(tx, key.tenant_id, user, body.model_dump(), by=key.actor)
    return SettingsOut.model_validate(settings)


@router.patch("/settings", dependencies=[_privacy])
async def patch_settings(user: UserId, body: SettingsIn, key: CredentialDep, tx: Tx) -> SettingsOut:
    """Change some of a user's settings."""
    changes = body.model_dump(exclude_unset=True)
    settings = await write_settings(tx, key.tenant_id, user, changes, by=key.actor)
    return SettingsOut.model_validate(settings)


@router.delete("", dependencies=[_privacy])
async def erase(user: UserId, core: CoreDep, key: CredentialDep, keys: KeyCacheDep) -> ErasedOut:
    """Erase everything about a user, for good. An unknown user is answered alike."""
    done = await erase_user(core, key.tenant_id, user, by=key.actor)
    keys.drop_bound(key.tenant_id, user)
    return ErasedOut.model_validate(done)


@router.post("/page-links", status_code=201, dependencies=[_privacy])
async def link_to_page(
    user: UserId, core: CoreDep, key: CredentialDep, tx: Tx, body: PageLinkIn | None = None
) -> PageLinkOut:
    """Make a link that opens the user's own page once."""
    link = await create_link(
        tx,
        core,
        key.tenant_id,
        user,
        expires_in=timedelta(seconds=(body or PageLinkIn()).expires_in),
        by=key.actor,
    )
    return PageLinkOut.model_validate(link)
