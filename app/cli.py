"""The command line: serve, work, migrate, look after tenants and keys, and the demonstration.

What only some commands need is imported by them: half of it takes seconds to load.
"""

import asyncio
import os
import signal
import socket
import sys
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, NoReturn
from uuid import UUID

import psycopg
import typer
from psycopg_pool import PoolTimeout
from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from app import db, erasing, reembedding
from app.address import Address, Misconfigured, database
from app.console import DataDir, Tenant
from app.console import opened as _open
from app.console import prepare as _prepare
from app.console import settings_of as _settings
from app.console import show as _print
from app.durations import parse_duration
from app.embedded import EmbeddedError
from app.errors import UsermemError
from app.memory import tenants
from app.settings import Settings

if TYPE_CHECKING:
    from app.backfill import Report

app = typer.Typer(
    help="Usermem: the memory that an AI product has of its users.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
_tenants = typer.Typer(help="Create, export and erase tenants.", no_args_is_help=True)
_keys = typer.Typer(help="Create and revoke API keys.", no_args_is_help=True)
app.add_typer(_tenants, name="tenants")
app.add_typer(_keys, name="keys")
_sessions = typer.Typer(help="Look after sessions.", no_args_is_help=True)
app.add_typer(_sessions, name="sessions")
_audits = typer.Typer(help="Look for what should not be there.", no_args_is_help=True)
app.add_typer(_audits, name="audit")
_tenants.command("erase")(erasing.erase_tenant)
app.command("forget")(erasing.forget)
app.add_typer(erasing.erasures, name="erasures")
app.command("reembed")(reembedding.reembed)


def main() -> None:
    """Run a command; a fault that the operator can mend is one line, not a traceback."""
    try:
        app()
    except (UsermemError, EmbeddedError) as error:
        _fail(str(error))
    except (psycopg.OperationalError, PoolTimeout):
        _fail("The database does not answer. Is it up, and is its URL right?")
    except ValidationError as error:
        names = sorted({str(item["loc"][0]) for item in error.errors() if item["loc"]})
        problems = "; ".join(str(item["msg"]) for item in error.errors())
        _fail(f"Settings are wrong ({', '.join(names)}): {problems}")


def _fail(message: str) -> NoReturn:
    typer.echo(f"usermem: {message}", err=True)
    sys.exit(1)


@app.command()
def serve(
    host: str = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535)] = 8000,
    data_dir: DataDir = None,
    worker: Annotated[bool, typer.Option(help="Run a worker inside.")] = True,
) -> None:
    """Serve the API, with a worker inside. Without USERMEM_DATABASE_URL on an embedded Postgres."""
    from app.main import create_app  # noqa: PLC0415 - see the module's docstring, here and below
    from app.server import Server, configuration  # noqa: PLC0415

    settings = _settings(data_dir)
    settings.public_url = settings.public_url or f"http://{host}:{port}"
    _end_when_told()  # uvicorn raises the signal again once it has shut down
    with _listen(host, port) as door, database(settings) as address:
        _prepare(settings, address)
        served = create_app(settings, address.service_url, with_worker=worker)
        config = configuration(served, host, port, timeout_graceful_shutdown=20)
        where = f", data in {settings.data_dir.expanduser()}" if address.is_embedded else ""
        typer.echo(f"Usermem serves on http://{host}:{port}{where}", err=True)
        server = Server(config)
        server.run(sockets=[door])
    if not server.started:
        sys.exit(1)


def _end_when_told() -> None:
    """End by the signals that ask for it with what is open closed, also as a container's first."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))


def _listen(host: str, port: int) -> socket.socket:
    """Take the port before anything is started, so that a taken one is a plain sentence."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise Misconfigured(f"Can't listen on {host}:{port}: {error.strerror}.") from None


@app.command()
def worker(
    concurrency: Annotated[int | None, typer.Option(min=1)] = None, data_dir: DataDir = None
) -> None:
    """Work on sessions alone, beside an API that runs elsewhere."""
    settings = _settings(data_dir)
    _end_when_told()
    with database(settings) as address:
        _prepare(settings, address)
        asyncio.run(
            _work(settings, address.service_url, concurrency or settings.worker_concurrency)
        )


async def _work(settings: Settings, url: str, concurrency: int) -> None:
    from app import metrics, tracing  # noqa: PLC0415
    from app.wiring import open_core  # noqa: PLC0415
    from app.worker import Worker  # noqa: PLC0415

    if settings.worker_metrics:
        host, _, port = settings.worker_metrics.partition(":")
        metrics.serve(host, int(port))
    async with open_core(settings, url) as core:
        tracing.configure()
        running = Worker(core, concurrency=concurrency)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, running.stop)
        await running.run()
        tracing.shutdown()


@app.command()
def migrate(data_dir: DataDir = None) -> None:
    """Bring the database's schema up to date."""
    with database(_settings(data_dir)) as address:
        db.migrate(address.owner_url)
        typer.echo("The schema is up to date.")


@_tenants.command("create")
def create_tenant(name: str, data_dir: DataDir = None) -> None:
    """Create a tenant and print it with a key that holds every scope. The key is shown once."""
    settings = _settings(data_dir)
    with database(settings) as address:
        _prepare(settings, address)
        tenant_id, kept, key = asyncio.run(_create_tenant(address.owner_url, name))
    _print(
        {
            "tenant": {"id": str(tenant_id), "name": kept},
            "key": {"id": key.id, "key": key.key, "scopes": list(key.scopes)},
        }
    )


async def _create_tenant(url: str, name: str) -> tuple[UUID, str, tenants.NewKey]:
    async with _open(url) as base:
        return await tenants.create_tenant(base, name)


@_tenants.command("export")
def export_tenant(
    tenant: Tenant,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A file instead of the standard output.")
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Print everything kept about a tenant's users and its organization, as NDJSON."""
    settings = _settings(data_dir)
    with database(settings) as address, ExitStack() as stack:
        _prepare(settings, address)
        out: IO[bytes] = sys.stdout.buffer
        if output is not None:
            out = stack.enter_context(open(output, "wb", opener=_for_me_alone))
        count = asyncio.run(_export_tenant(settings, address, tenant, out))
    typer.echo(f"Exported {count} users.", err=True)


async def _export_tenant(settings: Settings, address: Address, tenant: str, out: IO[bytes]) -> int:
    from app.memory.erasures import require_all  # noqa: PLC0415
    from app.memory.export import export_tenant as export  # noqa: PLC0415
    from app.wiring import open_core  # noqa: PLC0415

    async with _open(address.owner_url) as base:
        tenant_id = await tenants.resolve_tenant(base, tenant)
    async with open_core(settings, address.service_url, warm=False) as core:
        await require_all(core)
        return await export(core.db, tenant_id, out, by="cli")


def _for_me_alone(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


@_keys.command("create")
def create_key(
    tenant: Tenant,
    scopes: Annotated[str, typer.Option(help="Comma-separated: " + ", ".join(tenants.SCOPES))],
    user: Annotated[str | None, typer.Option(help="Bind the key to this user id.")] = None,
    expires_in: Annotated[str | None, typer.Option(help="Like 90d; never if absent.")] = None,
    data_dir: DataDir = None,
) -> None:
    """Create a key and print it. It is shown once."""
    try:
        span = parse_duration(expires_in) if expires_in else None
        bound_to = _user_id(user) if user is not None else None
    except (ValueError, PydanticCustomError) as error:
        raise typer.BadParameter(str(error)) from None
    if span == timedelta(0):
        raise typer.BadParameter("a key lives for a second at least")
    wanted = tuple(dict.fromkeys(scope.strip() for scope in scopes.split(",")))
    settings = _settings(data_dir)
    with database(settings) as address:
        key = asyncio.run(_create_key(address.owner_url, tenant, wanted, bound_to, span))
    _print(
        {
            "id": key.id,
            "key": key.key,
            "scopes": list(key.scopes),
            "user": key.bound_to,
            "expires_at": key.expires_at.isoformat() if key.expires_at else None,
        }
    )


def _user_id(user: str) -> str:
    from app.wire import check_id  # noqa: PLC0415

    return check_id(user)


async def _create_key(
    url: str, tenant: str, scopes: tuple[str, ...], bound_to: str | None, span: timedelta | None
) -> tenants.NewKey:
    async with _open(url) as base:
        tenant_id = await tenants.resolve_tenant(base, tenant)
        async with base.tenant(tenant_id) as tx:
            return await tenants.create_key(
                tx, tenant_id, scopes, bound_to=bound_to, expires_in=span
            )


@_keys.command("revoke")
def revoke_key(key_id: str, data_dir: DataDir = None) -> None:
    """Revoke a key; every process refuses it within a minute."""
    with database(_settings(data_dir)) as address:
        asyncio.run(_revoke_key(address.owner_url, key_id))
    _print({"id": key_id, "revoked": True})


async def _revoke_key(url: str, key_id: str) -> None:
    async with _open(url) as base:
        await tenants.revoke_key(base, key_id)


@app.command("import")
def import_conversations(
    tenant: Tenant,
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, readable=True)],
    worker: Annotated[bool, typer.Option(help="Extract in this process too.")] = True,
    data_dir: DataDir = None,
) -> None:
    """Import past conversations: NDJSON of {"user", "session", "messages"}. Can be repeated."""
    settings = _settings(data_dir)
    with database(settings) as address:
        _prepare(settings, address)
        report = asyncio.run(_import(settings, address, tenant, file, with_worker=worker))
    _print(
        {
            "sessions": report.sessions,
            "accepted": report.accepted,
            "duplicates": report.duplicates,
            "refused": [{"line": line, "why": why} for line, why in report.refused],
        }
    )


async def _import(
    settings: Settings, address: Address, tenant: str, file: Path, *, with_worker: bool
) -> "Report":
    from app.backfill import import_file  # noqa: PLC0415

    async with _open(address.owner_url) as base:
        tenant_id = await tenants.resolve_tenant(base, tenant)
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import Progress  # noqa: PLC0415

    from app.wiring import open_core  # noqa: PLC0415

    with Progress(console=Console(stderr=True), transient=True) as progress:
        async with open_core(settings, address.service_url) as core:
            return await import_file(
                core, tenant_id, file, with_worker=with_worker, progress=progress
            )


@_sessions.command("retry")
def retry_sessions(
    tenant: Annotated[str | None, typer.Argument(help="Id or name; all if absent.")] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Those that failed.")] = False,
    data_dir: DataDir = None,
) -> None:
    """Give failed sessions all their tries again."""
    if not failed:
        raise typer.BadParameter("say which: --failed")
    settings = _settings(data_dir)
    with database(settings) as address:
        _prepare(settings, address)
        retried = asyncio.run(_retry(address.owner_url, tenant))
    _print({"retried": retried})


async def _retry(url: str, tenant: str | None) -> int:
    from app.memory.sessions import retry_failed  # noqa: PLC0415

    async with _open(url) as base:
        if tenant is not None:
            return await retry_failed(base, await tenants.resolve_tenant(base, tenant))
        every = await tenants.list_tenants(base)
        return sum([await retry_failed(base, tenant_id) for tenant_id in every])


@_audits.command("poisoning")
def audit_poisoning(tenant: Tenant, data_dir: DataDir = None) -> None:
    """Print a tenant's live facts that look planted, one JSON object a line, worst first."""
    settings = _settings(data_dir)
    with database(settings) as address:
        _prepare(settings, address)
        for line in asyncio.run(_audit(settings, address, tenant)):
            _print(line)


async def _audit(settings: Settings, address: Address, tenant: str) -> list[dict[str, Any]]:
    from app.memory.audit import audit_poisoning as audit  # noqa: PLC0415
    from app.memory.covered import covered  # noqa: PLC0415
    from app.wiring import open_core  # noqa: PLC0415

    async with _open(address.owner_url) as base:
        tenant_id = await tenants.resolve_tenant(base, tenant)
    async with open_core(settings, address.service_url) as core:
        suspects, _ = await audit(core, tenant_id)
    return [
        {
            "fact": str(suspect.fact.id),
            "text": covered(suspect.fact.text, suspect.fact.guard_version),
            "user": suspect.user,
            "phrase": suspect.phrase,
            "score": round(suspect.score, 4),
        }
        for suspect in suspects
    ]


@app.command()
def calibrate() -> None:
    """Print the configured embedder's two floors, as measured on the examples that come along."""
    asyncio.run(_calibrate(_settings()))


async def _calibrate(settings: Settings) -> None:
    from app.embeddings import calibrate as measure  # noqa: PLC0415
    from app.embeddings import load_examples  # noqa: PLC0415
    from app.wiring import build_embedder  # noqa: PLC0415

    embedder = build_embedder(settings)
    try:
        floors = await measure(embedder, load_examples())
        _print({"embedder": embedder.name, "recall": floors.recall, "neighbour": floors.neighbour})
    finally:
        await embedder.aclose()


@app.command()
def demo() -> None:
    """Show the main job: two conversations, the facts, a supersession and the block."""
    from app.demo import run  # noqa: PLC0415

    run()
