"""A person's memory as a file: out of here, into here, from one id to another."""

import hashlib
import tempfile
from typing import IO, Any, Final
from uuid import UUID

from fastapi import APIRouter, Depends, Request
from fastapi.responses import StreamingResponse
from sqlalchemy.ext.asyncio import AsyncSession

from app.api.record_file import read_document, read_lines
from app.deps import CoreDep, CredentialDep, KeyCacheDep, KeyedRoute, Needs, StreamingRoute
from app.download import Download
from app.errors import NotFound
from app.memory.export import export_user
from app.memory.importing import Imported, import_user
from app.memory.merge import merge_users
from app.once import IdempotencyKey, once_for
from app.wire import Id, Model, TooLarge, UserId, WrongMediaType, prefers

router = APIRouter(prefix="/v1/users/{user:id}", route_class=KeyedRoute, tags=["portability"])
uploads = APIRouter(prefix="/v1/users/{user:id}", route_class=StreamingRoute, tags=["portability"])
_privacy = Depends(Needs("privacy"))

NDJSON: Final = "application/x-ndjson"
JSON: Final = "application/json"

MAX_IMPORT: Final = 256 * 1024 * 1024

_FILE: Final = {"schema": {"type": "string", "format": "binary"}}


_HEADERS: Final = {"Cache-Control": "private, no-store", "Vary": "Accept"}

_EXPORTED: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "One line a record, or one document", "content": {NDJSON: _FILE, JSON: {}}}
}


@router.get(
    "/export",
    dependencies=[_privacy],
    response_class=StreamingResponse,
    responses=_EXPORTED,
)
async def export(
    user: UserId, core: CoreDep, key: CredentialDep, request: Request
) -> StreamingResponse:
    """Give everything that is kept about the user, as it stands now."""
    as_document = prefers(JSON, request.headers.get("accept", ""), to=NDJSON)
    file = await export_user(core.db, key.tenant_id, user, by=key.actor, as_document=as_document)
    if as_document:
        return Download(file, JSON, "memory.json", _HEADERS)
    return Download(file, NDJSON, "memory.ndjson", _HEADERS)


class ImportedOut(Model):
    """What an import did. Records of what is there already count in neither number."""

    imported: int
    rejected: dict[str, int]
    ids: dict[UUID, UUID]


@uploads.post(
    "/import",
    dependencies=[_privacy],
    responses={409: {"description": "The user's memory is paused"}},
    openapi_extra={
        "requestBody": {"required": True, "content": {NDJSON: _FILE, JSON: {"schema": {}}}}
    },
)
async def import_file(
    user: UserId,
    core: CoreDep,
    key: CredentialDep,
    request: Request,
    idempotency_key: IdempotencyKey = None,
) -> ImportedOut:
    """Take in an export of any user, tenant or installation, of at most 256 MiB."""
    read = read_document if _media_type(request) == JSON else read_lines
    with tempfile.TemporaryFile() as file:
        digest = await _receive(request, file)
        async with once_for(request, core, key, user, idempotency_key, digest) as once:

            async def settle(tx: AsyncSession, imported: Imported) -> None:
                await once.keep(tx, user, 200, ImportedOut.model_validate(imported))

            imported = await import_user(
                core, key.tenant_id, user, read(file), by=key.actor, settle=settle
            )
    return ImportedOut.model_validate(imported)


class MergeIn(Model):
    """Where the memory goes."""

    into: Id


class MergedOut(Model):
    """What came of the moved memory; the old id is gone."""

    into: str
    facts_moved: int
    facts_confirmed: int
    facts_superseded: int
    facts_quarantined: int
    sessions_moved: int
    files_moved: int
    files_refused: int


@router.post(
    "/merge",
    dependencies=[_privacy],
    responses={409: {"description": "The memory of one of the two is paused"}},
)
async def merge(
    user: UserId, body: MergeIn, core: CoreDep, key: CredentialDep, keys: KeyCacheDep
) -> MergedOut:
    """Move everything of this user to another id of the same person, and erase the old id."""
    if key.bound_to is not None and body.into != key.bound_to:
        raise NotFound("There is no such user.")
    merged = await merge_users(core, key.tenant_id, user, body.into, by=key.actor)
    keys.drop_bound(key.tenant_id, user)
    return MergedOut.model_validate(merged)


def _media_type(request: Request) -> str:
    named = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if named not in {NDJSON, JSON}:
        raise WrongMediaType(f"The body must be {NDJSON} or {JSON}.")
    if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise WrongMediaType("The body must not be compressed.")
    return named


async def _receive(request: Request, file: IO[bytes]) -> str:
    """Take the body into a file, and no more of it than is allowed; give its SHA-256."""
    said = request.headers.get("content-length", "")
    if said.isdecimal() and int(said[:20]) > MAX_IMPORT:
        raise _too_large()
    digest, size = hashlib.sha256(), 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > MAX_IMPORT:
            raise _too_large()
        digest.update(chunk)
        file.write(chunk)
    file.seek(0)
    return digest.hexdigest()


def _too_large() -> TooLarge:
    return TooLarge(f"The body is over its limit of {MAX_IMPORT} bytes.")
