"""The commands that erase, forget, and look after the erasure ledger."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from app.address import Address, Misconfigured, database, ledger_path
from app.console import DataDir, Tenant, opened, prepare, settings_of, show
from app.memory import tenants
from app.memory.ledger import read
from app.settings import Settings

erasures = typer.Typer(help="Look after the erasure ledger.", no_args_is_help=True)


def erase_tenant(
    tenant: Tenant,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
    data_dir: DataDir = None,
) -> None:
    """Erase a tenant with its users, keys, policy and audit log, for good."""
    if not yes:
        typer.confirm(f"Erase everything of {tenant}, for good?", abort=True)
    settings = settings_of(data_dir)
    with database(settings) as address:
        prepare(settings, address)
        show(asyncio.run(_erase(settings, address, tenant)))


async def _erase(settings: Settings, address: Address, tenant: str) -> dict[str, object]:
    from app.memory import erase  # noqa: PLC0415 - half of the service, for one command
    from app.wiring import open_core  # noqa: PLC0415 - as above

    async with opened(address.owner_url) as base:
        tenant_id = await tenants.resolve_tenant(base, tenant)
    async with open_core(settings, address.service_url, warm=False) as core:
        receipt = await erase.erase_tenant(core, tenant_id)
    return {
        "erasure_id": str(receipt.erasure_id),
        "erased_at": receipt.erased_at.isoformat(),
        "counts": receipt.counts,
        "backups_until": receipt.backups_until.isoformat(),
    }


def forget(
    tenant: Annotated[str | None, typer.Argument(help="Id or name; all if absent.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would go.")] = False,
    data_dir: DataDir = None,
) -> None:
    """Let go now what is due by each tenant's policy; print what went, one tenant a line."""
    settings = settings_of(data_dir)
    with database(settings) as address:
        prepare(settings, address)
        for line in asyncio.run(_forget(settings, address, tenant, dry_run=dry_run)):
            show(line)


async def _forget(
    settings: Settings, address: Address, tenant: str | None, *, dry_run: bool
) -> list[dict[str, object]]:
    from app.memory.forgetting import forget_now  # noqa: PLC0415 - as above
    from app.wiring import open_core  # noqa: PLC0415 - as above

    async with opened(address.owner_url) as base:
        if tenant is None:
            wanted = await tenants.list_tenants(base)
        else:
            wanted = [await tenants.resolve_tenant(base, tenant)]
    async with open_core(settings, address.service_url, warm=False) as core:
        lines: list[dict[str, object]] = []
        for tenant_id in wanted:
            report = await forget_now(core, tenant_id, dry_run=dry_run, by="cli")
            lines.append(
                {
                    "tenant": str(tenant_id),
                    "mode": report.mode,
                    "facts": report.facts.total(),
                    "rules": dict(report.facts),
                }
            )
        return lines


@erasures.command("export")
def export_erasures(data_dir: DataDir = None) -> None:
    """Print the ledger, one JSON object a line: to be kept outside the database's backups."""
    for entry in read(_ledger(settings_of(data_dir))):
        typer.echo(entry.line())


@erasures.command("replay")
def replay_erasures(
    file: Annotated[
        Path | None,
        typer.Argument(exists=True, dir_okay=False, readable=True, help="The ledger if absent."),
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Do erasures again that a restored database lacks. Can be repeated."""
    settings = settings_of(data_dir)
    with database(settings) as address:
        prepare(settings, address)
        replayed = asyncio.run(_replay(settings, address, file or _ledger(settings)))
    show({"replayed": replayed})


def _ledger(settings: Settings) -> Path:
    path = ledger_path(settings)
    if path is None or not path.exists():
        raise Misconfigured("There is no erasure ledger: set USERMEM_ERASURE_LEDGER to its file.")
    return path


async def _replay(settings: Settings, address: Address, file: Path) -> int:
    from app.memory.erasures import replay  # noqa: PLC0415 - as above
    from app.wiring import open_core  # noqa: PLC0415 - as above

    async with open_core(settings, address.service_url, warm=False) as core:
        return await replay(core, read(file))
