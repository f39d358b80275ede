"""The schema changes while requests run, and whoever else wants to change it waits in line."""

import asyncio
import os
import subprocess
import time

import psycopg
import pytest

from app import db
from tests.databases import fresh, migrated
from tests.fleet import USERMEM, Fleet
from tests.load import Load


@pytest.mark.timeout(300)
def test_three_replicas_that_migrate_at_once_do_it_once(urls, tmp_path):
    with fresh(urls) as its:
        with psycopg.connect(its.superuser, autocommit=True) as connection:
            connection.execute("create extension vector")
        environment = Fleet(its, tmp_path).environment
        replicas = [
            subprocess.Popen([USERMEM, "migrate"], env=environment, stderr=subprocess.PIPE)
            for _ in range(3)
        ]

        said = [replica.communicate(timeout=280)[1] for replica in replicas]

        assert [
            (replica.returncode, text) for replica, text in zip(replicas, said, strict=True)
        ] == [(0, b"")] * 3
        with psycopg.connect(its.superuser) as connection:
            assert connection.execute("select count(*) from alembic_version").fetchone() == (1,)


async def test_a_migration_lets_a_long_transaction_finish_and_comes_again(urls):
    with migrated(urls) as its:
        with psycopg.connect(its.superuser) as busy:
            busy.execute("lock table memory_fact, memory_user, erasure in row exclusive mode")
            migrating = asyncio.create_task(asyncio.to_thread(again, its.superuser))
            await asyncio.sleep(3.5)
            assert not migrating.done()
        await asyncio.wait_for(migrating, 60)


def again(url: str) -> None:
    """Take the newest migration back and do it again."""
    db.migrate(url, "-1")
    db.migrate(url)


def read_long(url: str, seconds: float) -> None:
    """Hold the tables as a slow report does."""
    with psycopg.connect(url) as connection:
        connection.execute("select count(*) from memory_fact, memory_user")
        time.sleep(seconds)


async def under_load(
    urls, tmp_path, *, rounds: int, callers: int, per_second: float, reader: float
) -> Load:
    """Migrate down and up while a real service is used, and a long transaction reads beside."""
    with fresh(urls) as its, Fleet.on(its, tmp_path) as fleet:
        db.migrate(its.superuser)
        load = Load([fleet.api("--worker")], fleet.tenant())
        running = asyncio.create_task(load.run(callers=callers, per_second=per_second))
        await asyncio.sleep(1)
        reading = asyncio.create_task(asyncio.to_thread(read_long, its.superuser, reader))
        for _ in range(rounds):
            await asyncio.to_thread(again, its.superuser)
        await reading
        load.stop()
        await running
    return load


@pytest.mark.timeout(600)
async def test_up_and_down_again_while_requests_run(urls, tmp_path):
    load = await under_load(urls, tmp_path, rounds=2, callers=4, per_second=8, reader=3)

    assert load.failures == []
    assert load.answers > 10


@pytest.mark.soak
@pytest.mark.timeout(900)
async def test_up_and_down_again_at_fifty_requests_a_second(urls, tmp_path):
    load = await under_load(urls, tmp_path, rounds=10, callers=16, per_second=50, reader=60)

    assert load.failures == []
    assert load.answers > int(os.environ.get("SOAK_ANSWERS", "1000"))
