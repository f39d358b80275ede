"""A small fleet under load while its parts die: nothing acknowledged is lost, nothing doubled."""

import asyncio
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from app import db
from app.embedded import EmbeddedPostgres
from tests.fleet import Fleet, kill
from tests.load import Load
from tests.world import Urls

SECONDS = int(os.environ.get("SOAK_SECONDS", "120"))
RECOVERY = 10
"""Seconds after the database is back, until which an answer may be 503."""

pytestmark = [pytest.mark.soak, pytest.mark.timeout(SECONDS + 900)]


@pytest.fixture
def postgres() -> Iterator[EmbeddedPostgres]:
    """A durable Postgres of its own, to be restarted."""
    folder = Path(tempfile.mkdtemp(prefix="usermem-soak-"))
    with EmbeddedPostgres(folder) as started:
        yield started
    shutil.rmtree(folder, ignore_errors=True)


def restart(postgres: EmbeddedPostgres) -> None:
    """Crash the database and let it recover."""
    done = postgres._run("pg_ctl", "restart", "--mode=immediate", data=postgres._cluster, output=-3)
    assert done.returncode == 0


async def test_a_fleet_whose_parts_die_loses_and_doubles_nothing(postgres, tmp_path):
    urls = Urls(postgres.url("service"), postgres.url("owner"), postgres.url("superuser"))
    db.migrate(urls.owner)
    with Fleet.on(urls, tmp_path) as fleet:
        load = Load([fleet.api(), fleet.api()], fleet.tenant())
        workers = [fleet.worker(), fleet.worker()]
        running = asyncio.create_task(load.run(callers=8, per_second=20))
        started, away = time.monotonic(), (0.0, 0.0)
        for turn in range(1, SECONDS // 10 + 1):
            await asyncio.sleep(max(0.0, started + 10 * turn - time.monotonic()))
            kill(workers[turn % 2])
            workers[turn % 2] = fleet.worker()
            if turn == max(1, SECONDS // 20):
                began = time.monotonic()
                await asyncio.to_thread(restart, postgres)
                away = began, time.monotonic() + RECOVERY
        load.stop()
        await running
        await asyncio.to_thread(settle, urls)

    print(f"{load.answers} answers, {len(load.acknowledged)} conversations, {load.failures=}")  # noqa: T201
    assert [what for when, what in load.failures if not away[0] <= when <= away[1]] == []
    assert {what for _, what in load.failures} <= {"503 retry 1"}
    assert sessions(urls) >= {(*named, "done", 3) for named in load.acknowledged}
    assert doubled(urls) == []


def settle(urls: Urls) -> None:
    """Wait until every conversation is read."""
    deadline = time.monotonic() + 600
    query = "select count(*) from memory_session where status <> 'done'"
    with psycopg.connect(urls.superuser, autocommit=True) as connection:
        while connection.execute(query).fetchone() != (0,):
            assert time.monotonic() < deadline
            time.sleep(0.5)


def sessions(urls: Urls) -> set[tuple[str, str, str, int]]:
    """Give (user, session, status, turns) of all conversations."""
    query = """
        select d.external_id, s.external_id, s.status, s.user_turns
        from memory_session s join user_directory d using (tenant_id, user_id)"""
    with psycopg.connect(urls.superuser) as connection:
        return set(connection.execute(query).fetchall())


def doubled(urls: Urls) -> list[tuple[object, ...]]:
    """Give what a conversation that was read twice would leave: a fact, or evidence, too many."""
    query = """
        select user_id, text, count(*) from memory_fact where superseded_at is null
        group by user_id, text having count(*) > 1
        union all
        select user_id, quote, count(*) from evidence
        group by user_id, fact_id, session_id, message_id, quote having count(*) > 1"""
    with psycopg.connect(urls.superuser) as connection:
        return connection.execute(query).fetchall()
