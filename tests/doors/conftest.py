"""A server on loopback, as a model's host would find it."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import uvicorn

from app.main import create_app
from app.server import configuration
from app.settings import Settings
from tests.world import World


@pytest.fixture(scope="session")
async def served(world: World) -> AsyncIterator[str]:
    """The base URL of the same service over real HTTP."""
    settings = Settings(
        database_url=world.urls.service,
        signing_key="k" * 40,
        extractor="rules",
        public_url="https://memory.example.com",
    )
    app = create_app(settings, world.urls.service, with_worker=False)
    server = uvicorn.Server(configuration(app, "127.0.0.1", 0))
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn tells of its start by a flag alone
        await asyncio.sleep(0.02)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    await serving
