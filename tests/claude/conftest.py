"""The whole service read by a scripted Claude: API, queue and jobs here, its HTTP on loopback."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from app.claude import Claude
from app.memory.core import Patience
from app.wiring import read_by
from tests.claude.play import Script
from tests.scripted_claude import connected
from tests.world import Caller, World

SHORT = Patience(
    judge=timedelta(seconds=0.4),
    retry=timedelta(seconds=0.03),
    probe=timedelta(seconds=0.4),
    budget=timedelta(seconds=0.1),
    longest=timedelta(seconds=30),
)


@pytest.fixture
def script() -> Iterator[Script]:
    with Script() as script:
        yield script


@pytest.fixture
async def claude(script: Script) -> AsyncIterator[Claude]:
    limits = {
        "timeout": 1.0,
        "retries": 0,
        "patience": 0.2,
        "probe_every": 0.4,
        "breaker_after": 3,
        "breaker_rest": 0.3,
    }
    async with connected(script, **limits) as claude:
        yield claude


@pytest.fixture
async def service(world: World, claude: Claude) -> AsyncIterator[World]:
    """The service over the scripted Claude, its waits short, its queue its own."""
    world.execute("delete from procrastinate_jobs where status = 'todo'")
    async with world.over(replace(read_by(claude, world.core), patience=SHORT)) as service:
        yield service
    world.execute("delete from procrastinate_jobs where status = 'todo'")


@pytest.fixture
async def alice(service: World) -> Caller:
    return await service.tenant()


@pytest.fixture
async def other(service: World) -> Caller:
    return await service.tenant()
