"""Around every request: an id, ids in the path kept as sent, one log line, never a bare 500.

Recall is served from here: router, dependency solver and what they wrap around a handler cost more
than the whole of a frozen recall.
"""

import asyncio
import time
from secrets import token_hex
from typing import Any, Final

import structlog
from fastapi import Request
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app import metrics, problems, tracing
from app.api import memory
from app.errors import TooSlow
from app.telemetry import log_request, logger
from app.tracing import Headers

log = logger(__name__)

BODY_WITHIN: Final = 20.0
"""Seconds that a client may let wait for its body, and one more for each `SLOWEST` bytes sent."""

SLOWEST: Final = 16 * 1024

WATCH_AFTER: Final = 0.1
"""Seconds after which it is looked whether the one who asked for a recall is still there."""

_BODY_FOLLOWS: Final = (b"content-length", b"transfer-encoding")

GONE: Final = 499
"""The status in the log where nobody was left to be answered; as nginx says it."""


class Edge:
    """The outermost part of the application."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._recall = memory.Direct()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = token_hex(16)
        method = scope["method"]
        # A user's id may hold `/`: segments stay percent-encoded until the route has matched.
        path = scope["raw_path"].split(b"?", 1)[0].decode("latin-1")
        scope = {**scope, "path": path, "method": "GET" if method == "HEAD" else method}
        scope.setdefault("state", {})["request_id"] = request_id
        started = time.perf_counter()
        answer = _Answer(send, request_id, is_head=method == "HEAD")
        structlog.contextvars.bind_contextvars(request_id=request_id)  # a request is a task
        with tracing.span("request", scope["headers"]) as span:
            await self._serve(scope, _Client(receive, scope["headers"]), answer)
            route = getattr(scope.get("route"), "path_format", None)
            seconds = time.perf_counter() - started
            span.name(f"{method} {route}" if route else "request")
            span.tell("http.response.status_code", answer.status)
            metrics.served(method, route, answer.status, seconds)
            log_request(
                request_id=request_id,
                method=method,
                route=route,
                status=answer.status,
                ms=round(seconds * 1000, 1),
            )

    async def _serve(self, scope: Scope, client: "_Client", answer: "_Answer") -> None:
        try:
            if self._recall.takes(scope):
                with client.watched():
                    await self._recall(scope, client.receive, answer)
            else:
                await self._app(scope, client.receive, answer)
        except ClientDisconnect:
            answer.status = GONE
        except asyncio.CancelledError:
            if not client.has_left or (task := asyncio.current_task()) is None:
                raise
            task.uncancel()
            answer.status = GONE
        except Exception:
            log.exception("request_failed")
            if answer.is_whole:
                return
            if answer.status:
                raise
            await problems.internal(Request(scope))(scope, client.receive, answer)


class _Client:
    """Whoever is at the other end: not waited for when slow, not worked for when gone."""

    def __init__(self, receive: Receive, headers: Headers) -> None:
        self._receive = receive
        self._waited = 0.0
        self._bytes = 0
        self.has_all = not any(name in _BODY_FOLLOWS for name, _ in headers)
        self._owes_empty = self.has_all
        self.has_left = False

    async def receive(self) -> Message:
        """Give the next piece of the body. Raises `TooSlow`."""
        if self._owes_empty:
            # Without asking: whoever watches for the client's leaving may have got that answer.
            self._owes_empty = False
            return {"type": "http.request", "body": b"", "more_body": False}
        if self.has_all:
            return await self._receive()
        started = time.monotonic()
        try:
            async with asyncio.timeout(BODY_WITHIN + self._bytes / SLOWEST - self._waited):
                message = await self._receive()
        except TimeoutError:
            raise TooSlow("The body did not arrive in time.") from None
        self._waited += time.monotonic() - started
        self._bytes += len(message.get("body", b""))
        self.has_all = not message.get("more_body")
        return message

    def watched(self) -> "_Watch":
        """Cancel the block when the client leaves, if it takes longer than most."""
        return _Watch(self)

    async def left(self) -> None:
        """Wait until the client has left, whose body was read."""
        while (await self._receive())["type"] != "http.disconnect":
            pass  # the end of the body, which may still lie there
        self.has_left = True


class _Watch:
    """A block that ends when its client leaves; a quick one pays for a timer alone."""

    def __init__(self, client: _Client) -> None:
        self._client = client
        self._watcher: asyncio.Task[None] | None = None

    def __enter__(self) -> None:
        self._working = asyncio.current_task()
        self._later()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        if self._watcher is not None:
            self._watcher.cancel()

    def _later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(WATCH_AFTER, self._look)

    def _look(self) -> None:
        if self._client.has_all:
            self._watcher = asyncio.create_task(self._wait(), name="watch")
        else:
            self._later()

    async def _wait(self) -> None:
        await self._client.left()
        if self._working is not None:
            self._working.cancel()


class _Answer:
    """Sends an answer with the headers of every answer, and knows how far it got.

    `status` is 0 before it began.
    """

    def __init__(self, send: Send, request_id: str, *, is_head: bool) -> None:
        self._send = send
        self._request_id = request_id
        self._is_head = is_head
        self.status = 0
        self.is_whole = False

    async def __call__(self, message: Message) -> None:
        """Send a part of it."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message["headers"], *self._headers(message)]
        else:
            self.is_whole = not message.get("more_body")
            if self._is_head:
                message = {**message, "body": b""}
        await self._send(message)

    def _headers(self, message: Message) -> list[tuple[bytes, bytes]]:
        own: list[Any] = [
            (b"x-request-id", self._request_id.encode()),
            (b"x-content-type-options", b"nosniff"),
        ]
        if all(name.lower() != b"cache-control" for name, _ in message["headers"]):
            # What is not said to be public is nobody's to keep.
            own.append((b"cache-control", b"private, no-store"))
        return own
