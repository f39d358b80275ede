"""A migrated database per test process, real in everything, and an API over it.

Tests commit for real. Each takes a tenant of its own, so none sees another's rows.
"""

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from app import db
from app.embedded import EmbeddedPostgres
from app.settings import Settings
from tests.world import Urls, World

ROOT_KEY = "r" * 40


@pytest.fixture(scope="session", autouse=True)
def anyio_backend() -> str:
    """For every test: one that is no coroutine may be the first to need `world`, which is."""
    return "asyncio"


@pytest.fixture(scope="session")
def urls() -> Iterator[Urls]:
    """A database of this process, at USERMEM_TEST_DATABASE_URL (a superuser's) or embedded."""
    name = f"usermem_test_{uuid4().hex[:12]}"
    server = os.environ.get("USERMEM_TEST_DATABASE_URL")
    if server:
        with psycopg.connect(server, autocommit=True) as admin:
            admin.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        url = psycopg.conninfo.make_conninfo(server, dbname=name)
        as_url = _as_url(url)
        db.migrate(as_url)
        yield Urls(service=as_url, owner=as_url, superuser=as_url)
        with psycopg.connect(server, autocommit=True) as admin:
            admin.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))
        return
    data_dir = Path(tempfile.mkdtemp(prefix="usermem-test-"))
    try:
        with EmbeddedPostgres(data_dir, durable=False) as postgres:
            db.migrate(postgres.url("owner"))
            yield Urls(
                service=postgres.url("service"),
                owner=postgres.url("owner"),
                superuser=postgres.url("superuser"),
            )
    finally:
        shutil.rmtree(data_dir, ignore_errors=True)


def _as_url(conninfo: str) -> str:
    parts = psycopg.conninfo.conninfo_to_dict(conninfo)
    user, password = parts.get("user", "postgres"), parts.get("password", "")
    return (
        f"postgresql://{user}:{password}@/{parts['dbname']}"
        f"?host={parts.get('host', '127.0.0.1')}&port={parts.get('port', 5432)}"
    )


@pytest.fixture(scope="session")
async def world(urls: Urls, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    """The API over the keyless implementations, in this process, without a worker of its own."""
    settings = Settings(
        database_url=urls.service,
        signing_key="k" * 40,
        extractor="rules",
        log_level="info",
        erasure_ledger=tmp_path_factory.mktemp("ledger") / "erasures.ndjson",
        root_key=ROOT_KEY,
        # Tests ask faster than people; those of the limits set their own.
        rate_limit_recall=0,
        rate_limit=0,
        rate_limit_wrong_keys=0,
    )
    async with World.open(settings, urls) as opened:
        yield opened


@pytest.fixture
def alone(world: World) -> None:
    """No tenants but the test's own, for what walks over all: earlier tests have left hundreds."""
    world.execute("truncate tenant cascade")


@pytest.fixture
async def alice(world: World):
    """A fresh tenant's client with every scope, for a user named alice."""
    return await world.tenant()


@pytest.fixture
async def other(world: World):
    """Another fresh tenant."""
    return await world.tenant()


@pytest.fixture
def full_disk(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the ledger be read, for the service looks at it now and then, but not be written."""
    full = partial(os.open, "/dev/full", os.O_RDWR | os.O_APPEND)
    monkeypatch.setattr(world.core.ledger, "_open", full)


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """Where an erasure ledger of the test's own may lie, apart from everything else."""
    return tmp_path / "apart" / "erasures.ndjson"
