"""Tenants, for whoever runs the service and holds its root key."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Path
from pydantic import Field

from app.api.users import ErasedOut
from app.deps import CoreDep, RootRoute, root_documented
from app.memory.erase import erase_tenant
from app.memory.tenants import create_tenant
from app.wire import ONE_LINE, Model, Uuid

router = APIRouter(
    prefix="/v1/tenants",
    route_class=RootRoute,
    tags=["tenants"],
    dependencies=[Depends(root_documented)],
)


class TenantIn(Model):
    """A tenant to be."""

    name: Annotated[str, Field(min_length=1, max_length=200), ONE_LINE]


class TenantOut(Model):
    """A tenant."""

    id: UUID
    name: str


class NewKeyOut(Model):
    """A key at the only moment when its text is known."""

    id: str
    key: str
    scopes: list[str]


class CreatedOut(Model):
    """A tenant and its first key, which holds every scope and is shown this once."""

    tenant: TenantOut
    key: NewKeyOut


@router.post("", status_code=201, responses={409: {"description": "The name is taken"}})
async def post_tenant(body: TenantIn, core: CoreDep) -> CreatedOut:
    """Create a tenant."""
    tenant_id, name, key = await create_tenant(core.db, body.name, by="root")
    return CreatedOut(tenant=TenantOut(id=tenant_id, name=name), key=NewKeyOut.model_validate(key))


@router.delete("/{tenant}")
async def delete_tenant(tenant: Annotated[Uuid, Path()], core: CoreDep) -> ErasedOut:
    """Erase a tenant with its users, keys, policy and audit log, for good."""
    return ErasedOut.model_validate(await erase_tenant(core, tenant))
