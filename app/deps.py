"""Everything a route may depend on: the core, who is asking, and the request's transaction."""

import re
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Annotated, Any, Final, cast
from uuid import UUID

from cachetools import TTLCache
from fastapi import Depends, Header, Request, Response
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from sqlalchemy.ext.asyncio import AsyncSession

from app.errors import Forbidden, Invalid, NotFound, Unauthorized
from app.memory.core import Core
from app.memory.idempotency import Claim, Replay, claim, keep, release
from app.memory.tenants import Credential, find_credential, parse_key
from app.memory.users import find_user
from app.wire import JsonRequest, Model, UserId, decode_id

REVOKED_WITHIN: Final = 55
"""Seconds that a process may go on to accept a revoked key."""

_documented = HTTPBearer(auto_error=False, scheme_name="api_key", description="um_<id>_<secret>")


def get_core(request: Request) -> Core:
    """Give the process's core."""
    return cast("Core", request.state.core)


CoreDep = Annotated[Core, Depends(get_core)]


def get_credential(request: Request) -> Credential:
    """Give whose key it is; the route let no request through without one."""
    return cast("Credential", request.state.credential)


CredentialDep = Annotated[Credential, Depends(get_credential)]


async def get_transaction(core: CoreDep, credential: CredentialDep) -> AsyncIterator[AsyncSession]:
    """Open the request's transaction; it is committed before the answer leaves."""
    async with core.db.tenant(credential.tenant_id) as tx:
        yield tx


Tx = Annotated[AsyncSession, Depends(get_transaction, scope="function")]


class Needs:
    """What a route needs of a key; shown in the OpenAPI document, checked by `KeyedRoute`."""

    def __init__(self, scope: str, *, tenant_wide: bool = False) -> None:
        self.scope = scope
        self.tenant_wide = tenant_wide

    def __call__(self, _bearer: Annotated[object, Depends(_documented)]) -> None:
        """Nothing is left to do: the route checked before it read the body."""


class KeyCache:
    """Credentials by key, for less than a minute, so that most requests skip the look-up."""

    def __init__(self) -> None:
        self._known: TTLCache[tuple[str, bytes], Credential] = TTLCache(10_000, REVOKED_WITHIN)

    async def credential(self, core: Core, header: str) -> Credential:
        """Give what the header's key allows. Raises `Unauthorized`."""
        scheme, _, key = header.partition(" ")
        if scheme != "Bearer":
            raise Unauthorized("Send the key as 'Authorization: Bearer um_…'.")
        tenant_id, key_id, digest = parse_key(key)
        known = self._known.get((key_id, digest))
        if known is None:
            known = await find_credential(core.db, tenant_id, key_id, digest)
            if known is None:
                raise Unauthorized("The API key is not valid.")
            self._known[key_id, digest] = known
        return known


class KeyedRoute(APIRoute):
    """A route that asks for the key first, then for JSON: a stranger's body is never parsed."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap FastAPI's handler."""
        handle = super().get_route_handler()
        needs = next(
            (d.dependency for d in self.dependencies if isinstance(d.dependency, Needs)), None
        )
        if needs is None:
            raise TypeError(f"{self.path} does not say what it needs of a key")

        async def checked(request: Request) -> Response:
            credential = await authenticate(request)
            authorize(credential, needs, request.path_params.get("user"))
            request.state.credential = credential
            strict = JsonRequest(request.scope, request.receive)
            await strict.require_json()
            return await handle(strict)

        return checked


async def authenticate(request: Request) -> Credential:
    """Give the credential of the one Authorization header. Raises `Unauthorized`."""
    headers = request.headers.getlist("authorization")
    if len(headers) != 1:
        raise Unauthorized("Send the key as 'Authorization: Bearer um_…'.")
    keys = cast("KeyCache", request.state.keys)
    return await keys.credential(get_core(request), headers[0])


def authorize(credential: Credential, needs: Needs, user: str | None) -> None:
    """Check scope and binding. A bound key sees no other user, and nothing of the whole tenant."""
    if needs.scope not in credential.scopes:
        raise Forbidden(f"The key lacks the scope '{needs.scope}'.")
    if credential.bound_to is None:
        return
    if user is None:
        raise Forbidden("A key bound to one user can't be used here.", code="bound_key")
    if decode_id(user) != credential.bound_to:
        raise NotFound("There is no such user.")


_IDEMPOTENCY_KEY: Final = re.compile(r"[\x21-\x7e]{1,255}")


class Replayed(Exception):  # noqa: N818 - not a fault: the answer is known already
    """Ends a request with the answer that was kept for its key."""

    def __init__(self, kept: Replay) -> None:
        super().__init__()
        self.kept = kept


class Once:
    """Keeps a request's answer under its idempotency key, if it came with one."""

    def __init__(self, held: Claim | None) -> None:
        self.held = held
        self.kept = False

    async def keep(
        self,
        tx: AsyncSession,
        user: str,
        status: int,
        answer: Model,
        *,
        fact_id: UUID | None = None,
    ) -> None:
        """Keep the answer in the transaction of the work."""
        if self.held is None:
            return
        scope = await find_user(tx, self.held.tenant_id, user)
        if scope is None:
            raise RuntimeError("a write creates its user")
        body = answer.model_dump(mode="json")
        await keep(tx, self.held, status, body, user_id=scope.user_id, fact_id=fact_id)
        self.kept = True


async def get_once(
    request: Request,
    core: CoreDep,
    credential: CredentialDep,
    user: UserId,
    idempotency_key: Annotated[str | None, Header()] = None,
) -> AsyncIterator[Once]:
    """Claim the request's key, or end the request with the answer kept for it."""
    if idempotency_key is None:
        yield Once(None)
        return
    if not _IDEMPOTENCY_KEY.fullmatch(idempotency_key):
        raise Invalid("An Idempotency-Key has 1 to 255 visible ASCII characters.")
    route = f"{request.method} {request.scope['route'].path}"
    # The session is part of what is asked, as the body is.
    asked = {"path": request.url.path, "body": await request.json()}
    held = await claim(core, credential.tenant_id, user, route, idempotency_key, asked)
    if isinstance(held, Replay):
        raise Replayed(held)
    once = Once(held)
    try:
        yield once
    finally:
        if not once.kept:
            await release(core, held)


OnceDep = Annotated[Once, Depends(get_once)]
