"""The application: middleware, error answers, routes, and what lives as long as the process."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypedDict
from uuid import uuid4

import psycopg
import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from psycopg_pool import PoolClosed, PoolTimeout, TooManyRequests
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as CheckoutTimeout
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app import api
from app.deps import KeyCache, Replayed
from app.errors import Unavailable, UsermemError
from app.memory.core import Core
from app.settings import Settings
from app.telemetry import logger
from app.wire import MAX_BODY
from app.wiring import open_core
from app.worker import Worker

log = logger(__name__)

_TITLES = {
    400: ("Bad request", "malformed"),
    404: ("Not found", "not_found"),
    405: ("Method not allowed", "method_not_allowed"),
    413: ("Content too large", "too_large"),
}


class State(TypedDict):
    """What requests find in `request.state`."""

    core: Core
    keys: KeyCache


def create_app(settings: Settings, database_url: str, *, with_worker: bool = True) -> FastAPI:
    """Build the application over a migrated database, with a worker inside unless told not to."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[State]:
        async with AsyncExitStack() as stack:
            core = await stack.enter_async_context(open_core(settings, database_url))
            if with_worker:
                worker = Worker(core, concurrency=settings.worker_concurrency)
                await stack.enter_async_context(_running(worker))
            yield {"core": core, "keys": KeyCache()}

    app = FastAPI(
        title="Usermem",
        summary="The memory that an AI product has of its users",
        version="0.1.0",
        lifespan=lifespan,
        max_body_size=MAX_BODY,
        redirect_slashes=False,
    )
    app.include_router(api.router)
    for error, handler in _HANDLERS.items():
        app.add_exception_handler(error, handler)
    app.add_middleware(Edge)
    return app


@asynccontextmanager
async def _running(worker: Worker) -> AsyncIterator[None]:
    task = asyncio.create_task(worker.run(), name="worker")
    try:
        yield
    finally:
        worker.stop()
        await task


class Edge:
    """Around every request: an id, ids in the path kept as sent, one log line, never a bare 500."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = uuid4().hex
        scope.setdefault("state", {})["request_id"] = request_id
        # A user's id may hold `/`: segments stay percent-encoded until the route has matched.
        raw: bytes = scope["raw_path"].split(b"?", 1)[0]
        scope["path"] = raw.decode("latin-1")
        started = time.perf_counter()
        status = 0

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [
                    *message["headers"],
                    (b"x-request-id", request_id.encode()),
                    (b"x-content-type-options", b"nosniff"),
                ]
            await send(message)

        with structlog.contextvars.bound_contextvars(request_id=request_id):
            try:
                await self._app(scope, receive, answer)
            except Exception:
                log.exception("request_failed")
                if status:
                    raise
                await _internal(Request(scope))(scope, receive, answer)
            route = scope.get("route")
            log.info(
                "request",
                method=scope["method"],
                route=getattr(route, "path", None),
                status=status,
                ms=round((time.perf_counter() - started) * 1000, 1),
            )


def problem(
    request: Request,
    status: int,
    title: str,
    code: str,
    detail: str,
    headers: dict[str, str] | None = None,
) -> JSONResponse:
    """Give an RFC 9457 answer."""
    return JSONResponse(
        {
            "type": f"urn:usermem:problem:{code}",
            "title": title,
            "status": status,
            "detail": detail,
            "code": code,
            "request_id": request.state.request_id,
        },
        status,
        headers,
        "application/problem+json",
    )


def _internal(request: Request) -> JSONResponse:
    return problem(request, 500, "Internal error", "internal", "Something went wrong here.")


async def _on_error(request: Request, error: UsermemError) -> JSONResponse:
    headers = {}
    if error.retry_after is not None:
        headers["Retry-After"] = str(error.retry_after)
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return problem(request, error.status, error.title, error.code, error.detail, headers)


async def _on_replayed(_request: Request, replayed: Replayed) -> JSONResponse:
    kept = replayed.kept
    return JSONResponse(kept.body, kept.status, {"Idempotent-Replay": "true"})


async def _on_invalid(request: Request, error: RequestValidationError) -> JSONResponse:
    """Name the fields and what is wrong with them, never what was in them."""
    problems = [f"{_name(item['loc'])}: {item['msg']}" for item in error.errors()[:5]]
    codes = {item["type"] for item in error.errors()}
    code = next((code for code in ("query_too_long", "message_too_long") if code in codes), None)
    return problem(
        request, 422, "Unprocessable content", code or "invalid", "; ".join(problems) + "."
    )


def _name(place: tuple[Any, ...]) -> str:
    """Name a field; a caller's own key may be anything, so only plain short ones are repeated."""
    parts = [str(part) if isinstance(part, int) or _is_plain(part) else "a field" for part in place]
    return ".".join(parts)


def _is_plain(part: str) -> bool:
    return len(part) <= 64 and part.isascii() and part.replace("_", "").isalnum()


async def _on_http(request: Request, error: HTTPException) -> JSONResponse:
    title, code = _TITLES.get(error.status_code, ("Error", "error"))
    detail = f"The body is over its limit of {MAX_BODY} bytes." if code == "too_large" else title
    headers = dict(error.headers or {})
    return problem(request, error.status_code, title, code, f"{detail.rstrip('.')}.", headers)


async def _on_database(request: Request, error: Exception) -> JSONResponse:
    """Answer 503 where the database is away or busy; anything else is a fault of ours."""
    if isinstance(error, DBAPIError) and not _is_passing(error.orig):
        raise error
    log.warning("database_unavailable", error=type(error).__name__)
    return await _on_error(request, Unavailable("The service is busy; try again.", retry_after=1))


def _is_passing(error: BaseException | None) -> bool:
    return isinstance(
        error,
        psycopg.OperationalError
        | psycopg.errors.SerializationFailure
        | psycopg.errors.DeadlockDetected
        | psycopg.errors.UniqueViolation,
    )


_HANDLERS: dict[type[Exception], Any] = {
    UsermemError: _on_error,
    Replayed: _on_replayed,
    RequestValidationError: _on_invalid,
    HTTPException: _on_http,
    psycopg.OperationalError: _on_database,
    PoolTimeout: _on_database,
    PoolClosed: _on_database,
    TooManyRequests: _on_database,
    CheckoutTimeout: _on_database,
    DBAPIError: _on_database,
}
