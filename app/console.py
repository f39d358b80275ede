"""What all commands share: settings, the database they act on, how they print."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from app import db, telemetry
from app.address import Address, Misconfigured, signing_key
from app.db import Database
from app.settings import Settings

DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir", help="Where the embedded Postgres lives.", envvar="USERMEM_DATA_DIR"
    ),
]
Tenant = Annotated[str, typer.Argument(help="Id or name.")]


def settings_of(data_dir: Path | None = None) -> Settings:
    """Read the settings; an option of the command line goes before the environment."""
    settings = Settings()
    telemetry.configure(settings.log_level)
    if data_dir is not None:
        settings.data_dir = data_dir
    return settings


def prepare(settings: Settings, address: Address) -> None:
    """Migrate an embedded database; refuse another one with an old schema."""
    signing_key(settings)
    if address.is_embedded:
        db.migrate(address.owner_url)
    elif not asyncio.run(_serves(address.service_url)):
        raise Misconfigured("The database's schema is not up to date. Run: usermem migrate")


async def _serves(url: str) -> bool:
    async with opened(url) as base:
        return await db.schema_serves(base)


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Database]:
    """Open a few connections for the block's time."""
    base = Database(url, pool_size=2, pool_timeout=10)
    await base.open()
    try:
        yield base
    finally:
        await base.close()


def show(value: dict[str, Any]) -> None:
    """Print one JSON object on one line."""
    typer.echo(json.dumps(value, ensure_ascii=False))
