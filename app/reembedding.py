"""The command that makes all vectors anew after a change of the embedding model."""

import asyncio
from typing import Annotated

import typer

from app.address import Misconfigured, database
from app.console import DataDir, prepare, settings_of, show
from app.settings import Settings


def reembed(
    to: Annotated[str, typer.Option(help="The configured model, said once more.")],
    data_dir: DataDir = None,
) -> None:
    """Make every vector anew with the configured embedder, user by user. Can be repeated."""
    settings = settings_of(data_dir)
    with database(settings) as address:
        prepare(settings, address)
        show({"embedded": asyncio.run(_reembed(settings, address.service_url, to))})


async def _reembed(settings: Settings, url: str, to: str) -> int:
    from rich.console import Console  # noqa: PLC0415 - half of the service, for one command
    from rich.progress import Progress, SpinnerColumn, TimeElapsedColumn  # noqa: PLC0415

    from app.memory.reembed import count_old, reembed  # noqa: PLC0415 - as above
    from app.wiring import open_core  # noqa: PLC0415 - as above

    columns = SpinnerColumn(), *Progress.get_default_columns(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True)) as progress:
        async with open_core(settings, url) as core:
            name = core.embedder.name
            if to not in {name, name.partition(":")[2].rpartition("-")[0], name.rpartition("-")[0]}:
                raise Misconfigured(f"The configured model is {name}, not {to}: nothing was done.")
            total = await count_old(core)
            bar = progress.add_task("Embedding", total=total)
            await reembed(core, lambda done: progress.advance(bar, done))
    return total
