"""Everything a route may depend on: the core, who is asking, and the request's transaction."""

import hashlib
import hmac
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Final, cast
from uuid import UUID

from cachetools import TTLCache
from fastapi import Depends, Request, Response
from fastapi import params as parameters
from fastapi.dependencies.utils import get_flat_params
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from pydantic import SecretStr
from pydantic_core import PydanticCustomError
from sqlalchemy.ext.asyncio import AsyncSession

from app.db import owed
from app.errors import Forbidden, NotFound, Unauthorized
from app.memory.core import Core
from app.memory.erasures import require_all
from app.memory.last_used import LastUsed
from app.memory.recent import Recent
from app.memory.tenants import Credential, find_credential, parse_key
from app.memory.users import ORGANIZATION
from app.rates import Budget, Rates
from app.text import clean
from app.wire import JsonRequest, decode_id, read_query

REVOKED_WITHIN: Final = 55
"""Seconds that a process may go on to accept a revoked key."""

_documented = HTTPBearer(auto_error=False, scheme_name="api_key", description="um_<id>_<secret>")
_root = HTTPBearer(auto_error=False, scheme_name="root_key", description="USERMEM_ROOT_KEY")


def get_core(request: Request) -> Core:
    """Give the process's core."""
    return cast("Core", request.state.core)


CoreDep = Annotated[Core, Depends(get_core)]


def get_credential(request: Request) -> Credential:
    """Give whose key it is; the route let no request through without one."""
    return cast("Credential", request.state.credential)


CredentialDep = Annotated[Credential, Depends(get_credential)]


async def get_key_cache(request: Request) -> "KeyCache":
    """Give the process's cache of keys."""
    return cast("KeyCache", request.state.keys)


KeyCacheDep = Annotated["KeyCache", Depends(get_key_cache)]


async def get_owner(request: Request) -> str:
    """Give whose memory the path is about: a user's, or else the organization's."""
    return cast("str", request.state.owner)


OwnerDep = Annotated[str, Depends(get_owner)]


async def get_transaction(core: CoreDep, credential: CredentialDep) -> AsyncIterator[AsyncSession]:
    """Open the request's transaction; it is committed before the answer leaves."""
    async with core.db.tenant(credential.tenant_id) as tx:
        yield tx


Tx = Annotated[AsyncSession, Depends(get_transaction, scope="function")]


_BUDGETS: Final[dict[str, Budget]] = {"recall": "recall", "privacy": "privacy"}


class Needs:
    """What a route needs of a key; shown in the OpenAPI document, checked by `KeyedRoute`."""

    def __init__(self, scope: str) -> None:
        self.scope = scope
        self.budget: Budget = _BUDGETS.get(scope, "other")

    def __call__(self, _bearer: Annotated[object, Depends(_documented)]) -> None:
        """Nothing is left to do: the route checked before it read the body."""


class KeyCache:
    """Credentials by key, for less than a minute, so that most requests skip the look-up.

    Also the limits on what comes with a key: how often, and how often a wrong one.
    """

    def __init__(
        self, rates: Rates | None = None, timer: Callable[[], float] = time.monotonic
    ) -> None:
        self.rates = rates or Rates()
        self._known: TTLCache[bytes, Credential] = TTLCache(10_000, REVOKED_WITHIN, timer)
        self._good = Recent(10_000)
        self._used = LastUsed()

    async def credential(self, core: Core, header: str, address: str = "") -> Credential:
        """Give what the header's key allows. Raises `Unauthorized` or `TooManyRequests`."""
        # By a digest: the cache holds no key, and a known one needn't be taken apart again.
        seen = hashlib.sha256(header.encode()).digest()
        known = self._known.get(seen)
        if known is None:
            known = await self._look_up(core, header, seen, address)
        if known.expired(datetime.now(UTC)):
            raise _not_valid()
        return known

    async def _look_up(self, core: Core, header: str, seen: bytes, address: str) -> Credential:
        if seen not in self._good:  # who came with a good key before may stand beside a guesser
            self.rates.check("wrong_key", address)
        try:
            scheme, _, key = header.partition(" ")
            if scheme != "Bearer":
                raise _no_key()
            found = await find_credential(core.db, *parse_key(key))
            if found is None:
                raise _not_valid()
        except Unauthorized:
            self._good.discard(seen)
            self.rates.spend("wrong_key", address)
            raise
        self._known[seen] = found
        self._good.add(seen)
        self._used.note(core.db, found.tenant_id, found.key_id)
        return found

    def drop(self, key_id: str) -> None:
        """Look a key up anew when it comes next: it was revoked, or ends sooner than it did."""
        self._drop(lambda known: known.key_id == key_id)

    def drop_bound(self, tenant_id: UUID, user: str) -> None:
        """Look the keys bound to a user up anew: they ended with the user's erasure."""
        self._drop(lambda known: (known.tenant_id, known.bound_to) == (tenant_id, user))

    def _drop(self, is_gone: Callable[[Credential], bool]) -> None:
        for seen, known in list(self._known.items()):
            if is_gone(known):
                self._known.pop(seen, None)

    async def aclose(self, core: Core) -> None:
        """Write down which keys were used."""
        await self._used.aclose(core.db)


def _not_valid() -> Unauthorized:
    return Unauthorized("The API key is not valid.")


def secret_digest(secret: SecretStr | None) -> bytes | None:
    """Give the digest by which the header of one of the operator's secrets is known."""
    if secret is None:
        return None
    return hashlib.sha256(f"Bearer {secret.get_secret_value()}".encode()).digest()


def is_secret(request: Request, known: bytes | None) -> bool:
    """Tell whether the request's one Authorization header holds that secret.

    Raises `TooManyRequests` for an address that tried too often.
    """
    sent = request.headers.getlist("authorization")
    digest = hashlib.sha256(sent[0].encode()).digest() if len(sent) == 1 else b""
    if known is not None and hmac.compare_digest(known, digest):
        return True
    cast("KeyCache", request.state.keys).rates.spend("wrong_key", address_of(request))
    return False


def root_documented(_bearer: Annotated[object, Depends(_root)]) -> None:
    """Show in the OpenAPI document that the root key is needed; `RootRoute` checks it."""


def _no_key() -> Unauthorized:
    return Unauthorized("Send the key as 'Authorization: Bearer um_…'.")


_ELSEWHERE = (parameters.Path, parameters.Header, parameters.Cookie)


class ByPrefix:
    """Query parameters whose names go on after a prefix: their texts by the rest of the name."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

    async def __call__(self, request: Request) -> dict[str, str]:
        """Collect them."""
        return {
            clean(name.removeprefix(self.prefix)): clean(value)
            for name, value in request.query_params.items()
            if name.startswith(self.prefix)
        }


class StrictRoute(APIRoute):
    """A route that refuses query parameters it does not declare."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap FastAPI's handler."""
        handle = super().get_route_handler()
        prefixes = [
            wanted.call.prefix
            for wanted in self.dependant.dependencies
            if isinstance(wanted.call, ByPrefix)
        ]
        declared = {
            field.alias
            for field in get_flat_params(self.dependant)
            # The fields of a model of parameters come without their place.
            if not isinstance(field.field_info, _ELSEWHERE)
        }

        async def checked(request: Request) -> Response:
            read_query(request.scope["query_string"], declared, prefixes)
            return await handle(request)

        return checked


class KeyedRoute(StrictRoute):
    """A route that asks for the key first, then for JSON: a stranger's body is never read."""

    reads_itself: ClassVar[bool] = False
    """The route reads its body, which is not checked before."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap the strict handler."""
        handle = super().get_route_handler()
        takes_body, needs_body = _body_of(self)
        needs = needs_of(self)

        async def checked(request: Request) -> Response:
            request.state.credential, user = await admit(request, needs)
            request.state.owner = ORGANIZATION if user is None else user
            with owed() if needs.budget == "privacy" else nullcontext():
                return await answer(request)

        async def answer(request: Request) -> Response:
            if self.reads_itself:
                return await handle(request)
            strict = JsonRequest(request.scope, request.receive)
            await strict.check(takes_body=takes_body, needs_body=needs_body)
            return await handle(strict)

        return checked


def needs_of(route: APIRoute) -> Needs:
    """Give what a route needs of a key. Raises `TypeError` for one that doesn't say."""
    for dependency in route.dependencies:
        if isinstance(dependency.dependency, Needs):
            return dependency.dependency
    raise TypeError(f"{route.path} does not say what it needs of a key")


async def admit(request: Request, needs: Needs) -> tuple[Credential, str | None]:
    """Let in whoever has a good key for it: give the credential, and the user of the path if any.

    Raises `Unavailable` while the database may hold what was erased, `Unauthorized`,
    `TooManyRequests`, `Forbidden`, and `NotFound` for another user than the key is bound to.
    """
    core = get_core(request)
    await require_all(core)
    segment = request.path_params.get("user")
    credential = await authenticate(request, core, needs, segment)
    authorize(credential, needs, segment)
    return credential, None if segment is None else _decoded(segment)


def _body_of(route: APIRoute) -> tuple[bool, bool]:
    """Tell whether a route takes a body, and whether it must have one."""
    field = route.body_field
    return field is not None, field is not None and field.field_info.is_required()


class StreamingRoute(KeyedRoute):
    """A keyed route whose body may be larger than what is held in memory."""

    reads_itself = True


class RootRoute(StrictRoute):
    """A route for whoever runs the service: it opens to the root key alone, if there is one."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap the strict handler."""
        handle = super().get_route_handler()
        takes_body, needs_body = _body_of(self)

        async def checked(request: Request) -> Response:
            await require_all(get_core(request))
            if not is_secret(request, request.state.root_key):
                raise Unauthorized("Send the root key as 'Authorization: Bearer …'.")
            strict = JsonRequest(request.scope, request.receive)
            await strict.check(takes_body=takes_body, needs_body=needs_body)
            return await handle(strict)

        return checked


async def authenticate(
    request: Request, core: Core, needs: Needs, user: str | None = None
) -> Credential:
    """Give the credential of the one Authorization header, and count the request.

    `user` is whom it is about, still percent-encoded. Raises `Unauthorized` or `TooManyRequests`.
    """
    headers = request.headers.getlist("authorization")
    if len(headers) != 1:
        raise _no_key()
    keys = cast("KeyCache", request.state.keys)
    credential = await keys.credential(core, headers[0], address_of(request))
    about = _counted(user or credential.bound_to or "") if keys.rates.has_user_limit else ""
    keys.rates.spend(needs.budget, credential.key_id, about)
    return credential


def _counted(user: str) -> str:
    """Give the one name under which all spellings of a user's id are counted."""
    try:
        return decode_id(user)
    except PydanticCustomError:
        return ""  # the route refuses it


def address_of(request: Request) -> str:
    """Give the address that a request came from, as far as proxies that are trusted say."""
    return request.client.host if request.client else ""


def authorize(credential: Credential, needs: Needs, user: str | None) -> None:
    """Check scope and binding. A bound key sees no other user, and nothing of the whole tenant.

    `user` is the path's segment, still percent-encoded.
    """
    if needs.scope not in credential.scopes:
        raise Forbidden(f"The key lacks the scope '{needs.scope}'.")
    if credential.bound_to is None:
        return
    if user is None:
        raise Forbidden("A key bound to one user can't be used here.", code="bound_key")
    if _decoded(user) != credential.bound_to:
        raise NotFound("There is no such user.")


def _decoded(user: str) -> str:
    try:
        return decode_id(user)
    except PydanticCustomError as error:
        raise RequestValidationError(
            [{"type": error.type, "loc": ("path", "user"), "msg": error.message()}]
        ) from None
