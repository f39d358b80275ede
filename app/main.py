"""The application: error answers, routes, and what lives as long as the process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypedDict

from fastapi import FastAPI
from starlette.types import ASGIApp

from app import api, doors, problems, tracing, web
from app.deps import KeyCache, secret_digest
from app.edge import Edge
from app.memory.core import Core
from app.once import Replayed, replay
from app.rates import Rates
from app.settings import Settings
from app.wiring import open_core
from app.worker import Worker


class State(TypedDict):
    """What requests find in `request.state`."""

    core: Core
    keys: KeyCache
    root_key: bytes | None
    metrics_token: bytes | None


def create_app(settings: Settings, database_url: str, *, with_worker: bool = True) -> FastAPI:
    """Build the application over a migrated database, with a worker inside unless told not to."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[State]:
        async with AsyncExitStack() as stack:
            core = await stack.enter_async_context(open_core(settings, database_url))
            if with_worker:
                worker = Worker(core, concurrency=settings.worker_concurrency)
                await stack.enter_async_context(_running(worker))
            keys = KeyCache(rates_of(settings))
            stack.push_async_callback(keys.aclose, core)
            tracing.configure()
            stack.callback(tracing.shutdown)
            yield {
                "core": core,
                "keys": keys,
                "root_key": secret_digest(settings.root_key),
                "metrics_token": secret_digest(settings.metrics_token),
            }

    app = Api(
        title="Usermem",
        summary="The memory that an AI product has of its users",
        version="0.1.0",
        lifespan=lifespan,
        redirect_slashes=False,
        redoc_url=None,
        swagger_ui_oauth2_redirect_url=None,
        # FastAPI's own records hold what was sent; `tracing` and `metrics` tell what may be told.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
    app.include_router(api.router)
    doors.add_to(app, settings.public_url)
    web.add_to(app)
    for error, handler in problems.HANDLERS.items():
        app.add_exception_handler(error, handler)
    app.add_exception_handler(Replayed, replay)  # type: ignore[arg-type] # Starlette's is too wide
    app.add_exception_handler(Exception, problems.on_fault)
    return app


def rates_of(settings: Settings) -> Rates:
    """Give the limits of one process."""
    return Rates(
        {
            "recall": settings.rate_limit_recall,
            "privacy": settings.rate_limit,
            "other": settings.rate_limit,
            "wrong_key": settings.rate_limit_wrong_keys,
        },
        one_user=settings.rate_limit_user,
        replicas=settings.replicas,
    )


class Api(FastAPI):
    """FastAPI behind the edge, and its document tells of the errors as they are."""

    def build_middleware_stack(self) -> ASGIApp:
        """Put the edge before everything, also before what FastAPI itself does for each request."""
        return Edge(super().build_middleware_stack())

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
