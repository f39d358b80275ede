"""Behind PgBouncer in transaction mode: nothing may rest on a session of the database."""

import asyncio
import shutil
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest

from app.account import system_account
from app.settings import Settings
from app.wiring import open_core
from tests.fakes import FAST, working
from tests.world import Urls, World

PROGRAM = shutil.which("pgbouncer", path="/usr/sbin:/usr/bin:/usr/local/bin")

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="Debian's package pgbouncer is missing")


@contextmanager
def pgbouncer(urls: Urls, folder: Path) -> Iterator[str]:
    """Pool two connections for everybody; give the service's URL through it."""
    service = urlsplit(urls.service)
    server = parse_qs(service.query)["host"][0]
    (folder / "users").write_text('"usermem_service" ""\n"postgres" ""\n')
    (folder / "pgbouncer.ini").write_text(
        f"[databases]\n* = host={server} port=5432\n"
        f"[pgbouncer]\nunix_socket_dir = {folder}\nunix_socket_mode = 0777\nlisten_port = 6432\n"
        f"auth_type = trust\nauth_file = {folder}/users\npool_mode = transaction\n"
        "default_pool_size = 2\nmax_client_conn = 200\n"
        f"logfile = {folder}/log\n"
    )
    uid, gid = system_account()
    for path in (folder, *folder.iterdir()):
        shutil.chown(path, uid, gid)
    process = subprocess.Popen(
        [str(PROGRAM), "-q", f"{folder}/pgbouncer.ini"], user=uid, group=gid, extra_groups=[]
    )
    try:
        url = f"postgresql://{service.username}@{service.path}?host={folder}&port=6432"
        deadline = time.monotonic() + 20
        while True:
            try:
                psycopg.connect(url).close()
                break
            except psycopg.OperationalError:
                assert time.monotonic() < deadline
                time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait(10)


@pytest.fixture
async def pooled(urls, tmp_path_factory) -> AsyncIterator[World]:
    """The API behind the pooler, over the same database as `world`."""
    folder = Path(tempfile.mkdtemp(prefix="usermem-pool-", dir="/tmp"))
    settings = Settings(
        database_url=urls.service,
        signing_key="k" * 40,
        extractor="rules",
        prepared_statements=False,
        erasure_ledger=tmp_path_factory.mktemp("ledger") / "erasures.ndjson",
    )
    try:
        with pgbouncer(urls, folder) as url:
            async with World.open(settings, replace(urls, service=url)) as opened:
                yield opened
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def test_the_whole_job_is_done_through_the_pooler(pooled):
    dana, eve = await pooled.tenant(), await pooled.tenant()

    assert (await dana.say("I live in Lisbon. I prefer window seats."))["status"] == "done"
    assert (await dana.say("Actually, I moved to Porto."))["status"] == "done"
    assert "Lives in Porto." in await dana.block("Which seat?")
    assert await dana.block("Which seat?", session="s") == await dana.block("x", session="s")
    found = await dana.post("/search", {"query": "window seat"})
    assert [item["fact"]["text"] for item in found.json()["items"]] == ["Prefers window seats."]
    assert (await dana.get("/export")).status_code == 200
    assert await eve.texts("all") == []
    assert (await dana.delete("")).json()["counts"]["memory_fact"] == 3
    assert await dana.texts("all") == []


async def test_a_crowd_on_two_connections_sees_each_its_own(pooled):
    callers = [await pooled.tenant() for _ in range(4)]
    cities = ["Lisbon", "Porto", "Linz", "Graz"]
    for caller, city in zip(callers, cities, strict=True):
        await caller.say(f"I live in {city}.")

    crowd = asyncio.Semaphore(8)

    async def look(n: int) -> None:
        caller, city = callers[n % 4], cities[n % 4]
        async with crowd:
            block = await caller.block(f"question {n}")
            assert [other for other in cities if other in block] == [city]
            assert await caller.texts() == [f"Lives in {city}."]

    await asyncio.gather(*(look(n) for n in range(80)))


async def test_nothing_stays_behind_on_a_connection_of_the_pooler(pooled):
    caller = await pooled.tenant()
    await caller.say("I live in Lisbon.")

    with psycopg.connect(pooled.urls.service, autocommit=True, prepare_threshold=None) as through:
        for _ in range(20):
            row = through.execute(
                "select current_setting('app.tenant_id', true), current_setting('role'),"
                " (select count(*) from pg_prepared_statements), (select count(*) from memory_fact)"
            ).fetchone()
            assert row in {("", "none", 0, 0), (None, "none", 0, 0)}


async def test_a_worker_with_a_direct_url_hears_at_once_what_came_through_the_pooler(pooled, urls):
    caller = await pooled.tenant()
    direct = pooled.settings.model_copy(update={"prepared_statements": True})
    patient = replace(FAST, poll=30)
    async with open_core(direct, urls.service) as core, working(core, pace=patient):
        await asyncio.sleep(1)
        sent = await caller.post(
            "/transcripts",
            {"session": "s", "messages": [{"role": "user", "content": "I live in Linz."}]},
        )
        assert sent.status_code == 202
        state = await caller.get("/sessions/s", params={"wait": 10})
    assert state.json()["status"] == "done"
