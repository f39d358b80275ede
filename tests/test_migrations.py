"""Migrations that touch what is used all the time: beside its users, and again after a cut."""

import asyncio
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID, uuid4

import psycopg
import pytest

import migrations
from app import db
from tests.databases import fresh
from tests.world import Urls, World

_INDEX = (
    "select pg_get_indexdef(indexrelid), indisvalid from pg_index where indexrelid = %s::regclass"
)


@pytest.fixture
def its(urls: Urls) -> Iterator[Urls]:
    """A database of the test's own, still empty."""
    with fresh(urls) as made:
        yield made


def test_every_migration_gives_up_soon_where_it_can_not_have_a_table():
    versions = Path(migrations.__path__[0], "versions")
    for file in versions.glob("*.py"):
        text = file.read_text()
        for step in text.split("def upgrade")[1].split("def downgrade"):
            assert re.findall("lock_timeout = '(.*?)'", step)[:1] == ["300ms"], file.name
        assert set(re.findall("lock_timeout = '(.*?)'", text)) == {"300ms"}, file.name


async def test_an_index_of_the_queue_is_built_beside_those_who_write_to_it(its: Urls):
    db.migrate(its.superuser, "0013")
    job = "insert into procrastinate_jobs (queue_name, task_name, args) values ('q', 't', '{}')"
    with psycopg.connect(its.superuser) as long, psycopg.connect(its.superuser) as short:
        long.execute(job)
        migrating = asyncio.create_task(asyncio.to_thread(db.migrate, its.superuser, "0014"))
        await asyncio.sleep(1)
        for _ in range(10):
            short.execute("set local lock_timeout = '100ms'")
            short.execute(job)
            short.commit()
        assert not migrating.done()
    await asyncio.wait_for(migrating, 30)


def test_an_index_that_was_left_half_built_is_built_anew(its: Urls):
    db.migrate(its.superuser, "0013")
    with psycopg.connect(its.superuser) as connection:
        connection.execute("create index procrastinate_jobs_by_lock on procrastinate_jobs (id)")
        connection.execute(
            "update pg_index set indisvalid = false"
            " where indexrelid = 'procrastinate_jobs_by_lock'::regclass"
        )

    db.migrate(its.superuser, "0014")

    with psycopg.connect(its.superuser) as connection:
        found = connection.execute(_INDEX, ["procrastinate_jobs_by_lock"]).fetchone()
    assert found is not None
    assert "(lock, id)" in found[0]
    assert found[1]


def _fact(connection: psycopg.Connection, user: UUID, *events: str, **also: str) -> None:
    tenant, fact = UUID(int=7), uuid4()
    connection.execute(
        "insert into tenant (id, name) values (%s, 'acme') on conflict do nothing", [tenant]
    )
    connection.execute(
        "insert into memory_user (tenant_id, user_id) values (%s, %s) on conflict do nothing",
        [tenant, user],
    )
    values = {
        "tenant_id": tenant, "user_id": user, "id": fact, "text": "Likes tea.",
        "kind": "preference", "subject": "tea", "fingerprint": fact.bytes, "words": "",
        "source": "api", "guard_version": 1, "said_at": "2026-01-01",
        "last_confirmed_at": "2026-01-01",
        **also,
    }  # fmt: skip
    connection.execute(
        f"insert into memory_fact ({', '.join(values)}) values ({', '.join(['%s'] * len(values))})",
        list(values.values()),
    )
    for n, what in enumerate(events):
        connection.execute(
            "insert into fact_event (tenant_id, user_id, id, fact_id, at, what, by)"
            " values (%s, %s, %s, %s, timestamptz '2026-01-01' + %s * interval '1 day', %s, 'api')",
            [tenant, user, uuid4(), fact, n, what],
        )


@pytest.mark.parametrize("users_at_a_time", [1, 2, 500])
def test_the_past_of_every_user_gets_its_state(
    its: Urls, users_at_a_time: int, monkeypatch: pytest.MonkeyPatch
):
    db.migrate(its.superuser, "0010")
    ended = {"valid_to": "2026-02-02T00:00:00Z"}
    with psycopg.connect(its.superuser) as connection:
        for n in range(5):
            _fact(connection, UUID(int=n + 1), "added", "confirmed", "superseded", **ended)
            _fact(connection, UUID(int=n + 1), "added", "quarantined")
    _take_at_a_time(monkeypatch, users_at_a_time)

    db.migrate(its.superuser, "0011")

    with psycopg.connect(its.superuser) as connection:
        found = connection.execute(
            "select what, status, valid_to::date::text, n, count(*) from fact_event"
            " group by 1, 2, 3, 4 order by 1"
        ).fetchall()
    assert found == [
        ("added", "live", None, 0, 10),
        ("confirmed", "live", None, 0, 5),
        ("quarantined", "quarantined", None, 0, 5),
        ("superseded", "superseded", "2026-02-02", 0, 5),
    ]


def _take_at_a_time(monkeypatch: pytest.MonkeyPatch, users: int) -> None:
    """Have the migration go through so many users at a time, whose module alembic loads itself."""
    real = importlib.import_module("alembic.util.pyfiles").load_module_py

    def load(name: str, path):
        module = real(name, path)
        if hasattr(module, "_USERS"):
            module._USERS = users
        return module

    monkeypatch.setattr("alembic.util.pyfiles.load_module_py", load)


# A release that is rolled out: older processes on the schema of a newer one.


@pytest.fixture
def newer(world: World) -> Iterator[None]:
    """The schema is one migration ahead of this code."""
    stamp = "update alembic_version set version_num = '{}'"
    ((head,),) = world.rows("select version_num from alembic_version")
    world.execute(stamp.format(f"{int(head) + 1:04}"))
    yield
    world.execute(stamp.format(head))


async def test_an_older_process_stays_ready_on_a_newer_schema(world: World, newer: None):
    ready = await world.http.get("/readyz")
    assert (ready.status_code, ready.json()["checks"]["schema"]) == (200, "ok")
    alice = await world.tenant()
    assert (await alice.say("I live in Lisbon."))["status"] == "done"


async def test_an_older_release_can_be_started_and_has_nothing_to_migrate(
    world: World, newer: None
):
    assert await db.schema_serves(world.core.db)
    before = world.rows("select version_num from alembic_version")
    db.migrate(world.urls.owner)
    assert world.rows("select version_num from alembic_version") == before


@pytest.mark.parametrize("revision", ["0001", "unheard-of", ""])
async def test_on_any_other_schema_nobody_is_served(world: World, revision: str):
    ((head,),) = world.rows("select version_num from alembic_version")
    world.execute("update alembic_version set version_num = %s", revision)
    try:
        ready = await world.http.get("/readyz")
    finally:
        world.execute("update alembic_version set version_num = %s", head)
    assert ready.status_code == 503
    assert ready.json()["status"] == "degraded"
    assert (ready.json()["checks"]["database"], ready.json()["checks"]["schema"]) == (
        "ok",
        "failed",
    )
