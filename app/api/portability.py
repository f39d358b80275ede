"""A person's memory as a file: out of here, into here, from one id to another."""

from collections.abc import Iterator
from typing import IO, Any, Final

from fastapi import APIRouter, Depends, Request
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from app.deps import CoreDep, CredentialDep, KeyedRoute, Needs
from app.memory.export import export_user
from app.wire import UserId, prefers

router = APIRouter(prefix="/v1/users/{user:id}", route_class=KeyedRoute, tags=["portability"])
_privacy = Depends(Needs("privacy"))

NDJSON: Final = "application/x-ndjson"
JSON: Final = "application/json"

_PIECE: Final = 64 * 1024
_FILE: Final = {"schema": {"type": "string", "format": "binary"}}


class _Download(StreamingResponse):
    """A file that is closed when it is sent, or when nobody wants it any more."""

    def __init__(self, file: IO[bytes], media_type: str, name: str) -> None:
        size = file.seek(0, 2)
        file.seek(0)
        headers = {
            "Content-Length": str(size),
            "Content-Disposition": f'attachment; filename="{name}"',
            "Cache-Control": "private, no-store",
            "Vary": "Accept",
        }
        super().__init__(_pieces(file), headers=headers, media_type=media_type)
        self._file = file

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._file.close()


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    while piece := file.read(_PIECE):
        yield piece


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
    file = await export_user(core, key.tenant_id, user, as_document=as_document)
    if as_document:
        return _Download(file, JSON, "memory.json")
    return _Download(file, NDJSON, "memory.ndjson")
