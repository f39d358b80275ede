"""MCP over streamable HTTP: a stateless door, with the same keys as everywhere.

The SDK costs 40 MB and a second to load, so the first request that comes with a key loads it, on a
thread. What is wrong with a request as such is answered before, as the API answers it.
"""

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from fastapi.exceptions import RequestValidationError
from pydantic_core import PydanticCustomError
from starlette.requests import Request
from starlette.routing import Match, Route
from starlette.types import Message, Receive, Scope, Send

from app.deps import Needs, authenticate, authorize, get_core
from app.memory.erasures import require_all
from app.memory.tenants import Credential
from app.wire import JsonRequest, decode_id, read_query

if TYPE_CHECKING:
    from app.doors.mcp_server import McpServer

USER_HEADER = "Usermem-User"
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_needs = Needs("facts")


def route(public_url: str | None) -> Route:
    """Give the route to `/mcp`; `public_url` names the service besides loopback."""
    return _Named("/mcp", Mcp(public_url), methods=["POST"])


class _Named(Route):
    """A route that tells the log its name, as FastAPI's own do."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        match, found = super().matches(scope)
        return match, {**found, "route": self}


class Mcp:
    """The ASGI application behind `/mcp`: POST only, one exchange a request, nothing kept between.

    `public_url` names the service besides loopback; a page of any other origin is refused.
    """

    def __init__(self, public_url: str | None) -> None:
        own = urlsplit(public_url or "")
        self._hosts = [pattern for host in _LOOPBACK for pattern in (host, f"{host}:*")]
        self._origins = [f"http://{host}" for host in self._hosts]
        if own.netloc:
            self._hosts.append(own.netloc)
            self._origins.append(f"{own.scheme}://{own.netloc}")
        self._server: McpServer | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request: key, user and body as everywhere, then the SDK's exchange."""
        request = JsonRequest(scope, receive)
        read_query(scope["query_string"], ())
        core = get_core(request)
        await require_all(core)
        credential = await authenticate(request, core, _needs, request.headers.get(USER_HEADER))
        request.state.credential = credential
        request.state.user = user_of(request, credential)
        await request.check(takes_body=True, needs_body=True)
        if self._server is None:
            self._server = await asyncio.to_thread(_load, self._hosts, self._origins)
        await self._server.serve(request, _replay(await request.body(), receive), send)


def _load(hosts: list[str], origins: list[str]) -> "McpServer":
    from app.doors.mcp_server import McpServer  # noqa: PLC0415 - loads the SDK

    return McpServer(hosts, origins)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Give a body that was read already once more, then what else arrives."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return waiting.pop() if waiting else await receive()

    return replayed


def user_of(request: Request, credential: Credential) -> str | None:
    """Give whose memory it is: the header's user, else the one the key is bound to, else None."""
    named = request.headers.getlist(USER_HEADER)
    if not named and credential.bound_to is not None:
        named = [quote(credential.bound_to, safe="")]
    if len(named) > 1:
        raise _bad_header("is given twice")
    try:
        user = decode_id(named[0]) if named else None
    except PydanticCustomError as error:
        raise _bad_header(error.message()) from None
    authorize(credential, _needs, named[0] if named else None)
    return user


def _bad_header(problem: str) -> RequestValidationError:
    return RequestValidationError(
        [{"type": "bad_header", "loc": ("header", "usermem_user"), "msg": problem}]
    )
