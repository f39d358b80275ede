"""Services over a database of a test's own, as they start, and the commands beside them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from app import db
from app.cli import app as cli
from app.deps import KeyCache
from app.memory.core import Core
from app.memory.ledger import Ledger
from app.settings import Settings
from tests.world import Urls, World


def settings_for(urls: Urls, ledger: Path | None) -> Settings:
    return Settings(
        database_url=urls.service,
        migrate_database_url=urls.superuser,
        signing_key="k" * 40,
        extractor="rules",
        erasure_ledger=ledger,
    )


@asynccontextmanager
async def started(urls: Urls, ledger: Path | None) -> AsyncIterator[World]:
    """A whole service, as it starts."""
    async with World.open(settings_for(urls, ledger), urls) as opened:
        yield opened


@asynccontextmanager
async def a_service(world: World, urls: Urls, ledger: Path) -> AsyncIterator[World]:
    """The same over the embedder that is loaded already, which saves seconds."""
    base = db.Database(urls.service)
    await base.open()
    try:
        seams = (world.core.extractor, world.core.judge, world.core.embedder)
        core = Core(base, *seams, world.core.signing_key, ledger=Ledger(ledger))
        state = {**world.state, "core": core, "keys": KeyCache()}
        async with World._over(world.app, urls, state, world.settings) as opened:
            yield opened
    finally:
        await base.close()


async def command(urls: Urls, ledger: Path, *arguments: str, **others: str) -> Any:
    environment = {
        "USERMEM_DATABASE_URL": urls.service,
        "USERMEM_MIGRATE_DATABASE_URL": urls.superuser,
        "USERMEM_SIGNING_KEY": "k" * 40,
        "USERMEM_EXTRACTOR": "rules",
        "USERMEM_ERASURE_LEDGER": str(ledger),
        **{f"USERMEM_{name}": value for name, value in others.items()},
    }
    # In a thread: a command runs a loop of its own.
    return await asyncio.to_thread(CliRunner().invoke, cli, [*arguments], env=environment)


async def readiness(world: World) -> tuple[int, str]:
    answer = await world.http.get("/readyz")
    return answer.status_code, answer.json()["checks"]["ledger"]
