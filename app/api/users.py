"""A user's settings."""

from functools import cache
from typing import Annotated, Literal
from zoneinfo import available_timezones

from fastapi import APIRouter, Depends
from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from app.deps import CredentialDep, KeyedRoute, Needs, Tx
from app.memory.users import read_settings, write_settings
from app.wire import Line, Model, UserId

router = APIRouter(prefix="/v1/users/{user:id}", route_class=KeyedRoute, tags=["users"])
_privacy = Depends(Needs("privacy"))


@cache
def _zones() -> set[str]:
    return available_timezones()


def _zone(name: str) -> str:
    if name not in _zones():
        raise PydanticCustomError("timezone", "a time zone is an IANA name like Europe/Lisbon")
    return name


Timezone = Annotated[Line, AfterValidator(_zone)]
Locale = Annotated[Line, Field(pattern=r"^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*$", max_length=35)]


class SettingsOut(Model):
    """What holds for the user's memory."""

    memory: Literal["on", "paused", "restricted"]
    locale: str | None
    timezone: str | None


class SettingsIn(Model):
    """The settings; with PATCH, those that are not named stay as they are."""

    memory: Literal["on", "paused", "restricted"] = "on"
    locale: Locale | None = None
    timezone: Timezone | None = None


@router.get("/settings", dependencies=[_privacy])
async def get_settings(user: UserId, key: CredentialDep, tx: Tx) -> SettingsOut:
    """Read a user's settings; an unseen user has the defaults."""
    return SettingsOut.model_validate(await read_settings(tx, key.tenant_id, user))


@router.put("/settings", dependencies=[_privacy])
async def put_settings(user: UserId, body: SettingsIn, key: CredentialDep, tx: Tx) -> SettingsOut:
    """Replace a user's settings."""
    settings = await write_settings(tx, key.tenant_id, user, body.model_dump())
    return SettingsOut.model_validate(settings)


@router.patch("/settings", dependencies=[_privacy])
async def patch_settings(user: UserId, body: SettingsIn, key: CredentialDep, tx: Tx) -> SettingsOut:
    """Change some of a user's settings."""
    changes = body.model_dump(exclude_unset=True)
    return SettingsOut.model_validate(await write_settings(tx, key.tenant_id, user, changes))
