"""The application: middleware, error answers, routes, and what lives as long as the process."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypedDict
from uuid import uuid4

import structlog
from fastapi import FastAPI, Request
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app import api, doors, problems, web
from app.api import memory
from app.deps import KeyCache, root_digest
from app.memory.core import Core
from app.once import Replayed, replay
from app.settings import Settings
from app.telemetry import log_request, logger
from app.wiring import open_core
from app.worker import Worker

log = logger(__name__)


class State(TypedDict):
    """What requests find in `request.state`."""

    core: Core
    keys: KeyCache
    root_key: bytes | None


def create_app(settings: Settings, database_url: str, *, with_worker: bool = True) -> FastAPI:
    """Build the application over a migrated database, with a worker inside unless told not to."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[State]:
        async with AsyncExitStack() as stack:
            core = await stack.enter_async_context(open_core(settings, database_url))
            if with_worker:
                worker = Worker(core, concurrency=settings.worker_concurrency)
                await stack.enter_async_context(_running(worker))
            root = settings.root_key
            yield {
                "core": core,
                "keys": KeyCache(),
                "root_key": root_digest(root.get_secret_value()) if root else None,
            }

    app = Api(
        title="Usermem",
        summary="The memory that an AI product has of its users",
        version="0.1.0",
        lifespan=lifespan,
        redirect_slashes=False,
        redoc_url=None,
        swagger_ui_oauth2_redirect_url=None,
    )
    app.include_router(api.router)
    doors.add_to(app, settings.public_url)
    web.add_to(app)
    for error, handler in problems.HANDLERS.items():
        app.add_exception_handler(error, handler)
    app.add_exception_handler(Replayed, replay)  # type: ignore[arg-type] # Starlette's is too wide
    app.add_middleware(Edge)
    return app


class Api(FastAPI):
    """FastAPI, but its document tells of the errors as they are."""

    def openapi(self) -> dict[str, Any]:
        """Give the OpenAPI document."""
        if self.openapi_schema is None:
            problems.declare(super().openapi())
        return super().openapi()


@asynccontextmanager
async def _running(worker: Worker) -> AsyncIterator[None]:
    task = asyncio.create_task(worker.run(), name="worker")
    try:
        yield
    finally:
        worker.stop()
        await task


class Edge:
    """Around every request: an id, ids in the path kept as sent, one log line, never a bare 500.

    Recall is served from here: router, dependency solver and what they wrap around a handler cost
    more than the whole of a frozen recall.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._recall = memory.Direct()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = uuid4().hex
        is_head = scope["method"] == "HEAD"
        # A user's id may hold `/`: segments stay percent-encoded until the route has matched.
        path = scope["raw_path"].split(b"?", 1)[0].decode("latin-1")
        scope = {**scope, "path": path, "method": "GET" if is_head else scope["method"]}
        scope.setdefault("state", {})["request_id"] = request_id
        started = time.perf_counter()
        status = 0

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *_headers(message, request_id)]
            elif is_head:
                message = {**message, "body": b""}
            await send(message)

        with structlog.contextvars.bound_contextvars(request_id=request_id):
            try:
                if self._recall.takes(scope):
                    await self._recall(scope, receive, answer)
                else:
                    await self._app(scope, receive, answer)
            except ClientDisconnect:
                status = 499  # as nginx says it; nobody is left to be told
            except Exception:
                log.exception("request_failed")
                if status:
                    raise
                await problems.internal(Request(scope))(scope, receive, answer)
            log_request(
                request_id=request_id,
                method="HEAD" if is_head else scope["method"],
                route=getattr(scope.get("route"), "path_format", None),
                status=status,
                ms=round((time.perf_counter() - started) * 1000, 1),
            )


def _headers(message: Message, request_id: str) -> list[tuple[bytes, bytes]]:
    """Give the headers of every answer; what is not said to be public is nobody's to keep."""
    own = [(b"x-request-id", request_id.encode()), (b"x-content-type-options", b"nosniff")]
    if all(name.lower() != b"cache-control" for name, _ in message["headers"]):
        own.append((b"cache-control", b"private, no-store"))
    return own
