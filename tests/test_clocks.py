"""Nodes whose clocks are ten minutes off: what is decided is decided by the database's clock."""

import asyncio
import multiprocessing
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from procrastinate.periodic import PeriodicDeferrer

from app.errors import Conflict, Gone
from app.memory import forgetting, idempotency, page_links
from app.messages_api import _retry_after
from app.worker import Pace, build_queue
from tests.fakes import FAST, silence, until
from tests.memory.test_forgetting import policy
from tests.skewed import ahead, work
from tests.world import Caller, World

TEN_MINUTES = 600
either_way = pytest.mark.parametrize("off", [TEN_MINUTES, -TEN_MINUTES])

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["tests.skewed"])


@contextmanager
def a_worker(world: World, off: float, pace: Pace) -> Iterator[None]:
    """Run a worker in a process of its own, with a clock of its own; SIGKILL is its way out.

    Each of its model's two calls takes longer than a worker lives that shows no life.
    """
    arguments = (world.urls.service, off, pace.dead_after * 1.2, pace)
    process = _processes.Process(target=work, args=arguments, daemon=True)
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


def session(caller: Caller) -> list[tuple[str, int]]:
    query = "select status, attempt from memory_session where tenant_id = %s"
    return caller.world.rows(query, caller.tenant_id)


def database_time(caller: Caller, add: str = "0") -> datetime:
    ((at,),) = caller.world.rows("select now() + %s::interval", add)
    return at


async def tell(caller: Caller) -> None:
    silence(caller.world)
    body = {"messages": [{"role": "user", "content": "I live in Lisbon. I have two cats."}]}
    assert (await caller.post("/transcripts", body)).status_code == 202


async def leases_hold(alice: Caller, holder: float, other: float, pace: Pace) -> float:
    """Let the other watch the holder live, then die; give the seconds until it takes over."""
    before = database_time(alice)
    await tell(alice)
    with a_worker(alice.world, holder, pace):
        await until(lambda: session(alice) == [("extracting", 1)])
        with a_worker(alice.world, other, pace):
            await until(lambda: session(alice)[0][0] == "done", within=pace.dead_after * 9)
            assert session(alice) == [("done", 1)]
    after = database_time(alice)
    facts = await alice.facts()
    assert sorted(fact["text"] for fact in facts) == ["Has two cats.", "Lives in Lisbon."]
    for name in ("created_at", "said_at", "last_confirmed_at"):
        assert all(before <= datetime.fromisoformat(fact[name]) <= after for fact in facts), name

    await tell(alice.of("bob"))
    with ExitStack() as others:
        with a_worker(alice.world, holder, pace):
            await until(lambda: ("extracting", 1) in session(alice))
            others.enter_context(a_worker(alice.world, other, pace))
        died = time.monotonic()
        await until(lambda: ("extracting", 2) in session(alice), within=90)
        took = time.monotonic() - died
        await until(lambda: ("done", 2) in session(alice), within=pace.dead_after * 9)
    assert len(await alice.of("bob").facts()) == 2
    return took


@pytest.mark.parametrize(
    ("holder", "other"),
    [(0, TEN_MINUTES), (0, -TEN_MINUTES), (-TEN_MINUTES, TEN_MINUTES), (TEN_MINUTES, 0)],
)
async def test_a_live_workers_job_stays_its_own_and_a_dead_ones_is_taken_over(alice, holder, other):
    await leases_hold(alice, holder, other, FAST)


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("holder", "other"), [(-TEN_MINUTES, TEN_MINUTES), (TEN_MINUTES, -TEN_MINUTES)]
)
async def test_at_the_services_own_pace_a_dead_workers_job_waits_for_ninety_seconds_at_most(
    alice, holder, other
):
    assert await leases_hold(alice, holder, other, Pace()) < 90


@either_way
async def test_a_job_that_failed_comes_back_after_its_wait(alice: Caller, off):
    await tell(alice)
    queue = build_queue(alice.world.core)
    async with queue.open_async(alice.world.core.db.pool):
        manager = queue.job_manager
        job = await manager.fetch_job(None, await manager.register_worker())
        assert job is not None
        with ahead(off):
            await manager.retry_job(job, retry_at=datetime.now(UTC) + timedelta(seconds=8))
    ((wait,),) = alice.world.rows(
        "select extract(epoch from scheduled_at - now()) from procrastinate_jobs"
    )
    assert 6 < wait <= 8


async def make_key(alice: Caller, expires_in: str) -> Caller:
    body = {"scopes": ["recall"], "expires_in": expires_in}
    answer = await alice.call("POST", "/v1/tenant/keys", json=body)
    return Caller(alice.world, alice.tenant_id, answer.json()["key"])


@either_way
async def test_a_key_ends_when_the_database_says(alice: Caller, off):
    with ahead(off):
        lasting, short = await make_key(alice, "300s"), await make_key(alice, "1s")
        assert [(await key.get("/memory")).status_code for key in (lasting, short)] == [200, 200]
        await asyncio.sleep(1.2)
        assert [(await key.get("/memory")).status_code for key in (lasting, short)] == [200, 401]
        await alice.world.state["keys"]._used.write(alice.world.core.db)
    ((used,),) = alice.world.rows(
        "select max(last_used_at) from api_key where tenant_id = %s", alice.tenant_id
    )
    assert timedelta(0) <= database_time(alice) - used < timedelta(seconds=30)


@either_way
async def test_what_arrives_is_dated_by_the_database(alice: Caller, off):
    before, near = database_time(alice), database_time(alice, "4 min")
    times = [None, near.isoformat(), _sent(alice, "6 min")]
    said = [{"role": "user", "content": "I live in Lisbon.", "created_at": at} for at in times]
    with ahead(off):
        posted = await alice.post("/sessions/s/messages", {"messages": said})
        assert posted.status_code == 202
        written = await alice.post("/facts", {"text": "Likes tea.", "kind": "preference"})
    after = database_time(alice)

    query = "select said_at, created_at from message where tenant_id = %s order by position"
    (first, came), (trusted, _), (clamped, _) = alice.world.rows(query, alice.tenant_id)
    assert (first, trusted, clamped) == (came, near, came)
    assert before <= came <= after
    waits = datetime.fromisoformat(posted.json()["extract_after"]) - came
    assert waits == timedelta(minutes=30)
    fact = written.json()["fact"]
    for name in ("created_at", "said_at", "last_confirmed_at"):
        assert before <= datetime.fromisoformat(fact[name]) <= after


@either_way
async def test_a_fact_expires_when_the_database_says(alice: Caller, off):
    for text, at in (("Likes tea.", "5 min"), ("Likes coffee.", "-1 s")):
        body = {"text": text, "kind": "preference", "expires_at": _sent(alice, at)}
        assert (await alice.post("/facts", body)).status_code == 201
    with ahead(off):
        assert await alice.texts() == ["Likes tea."]
        assert await alice.texts("expired") == ["Likes coffee."]
        block = await alice.block("tea or coffee?")
        found = (await alice.post("/search", {"query": "tea or coffee?"})).json()["items"]
    assert "tea" in block
    assert "coffee" not in block
    assert [item["fact"]["text"] for item in found] == ["Likes tea."]


def _sent(alice: Caller, add: str) -> str:
    return database_time(alice, add).isoformat()


@either_way
async def test_links_kept_answers_and_frozen_blocks_last_as_long_as_the_database_says(
    alice: Caller, off
):
    fact, again = {"text": "Likes tea.", "kind": "preference"}, {"Idempotency-Key": "k"}
    core = alice.world.core
    with ahead(-off):
        first = await alice.post("/facts", fact, headers=again)
        frozen = await alice.block("tea", session="s")
        link = (await alice.post("/page-links", {"expires_in": 60})).json()["url"]
        stale = (await alice.post("/page-links", {"expires_in": 60})).json()["url"]
    alice.world.execute("update page_link set expires_at = now() where digest = %s",
                        page_links._parse(stale.split("token=")[1])[1])  # fmt: skip
    with ahead(off):
        replayed = await alice.post("/facts", fact, headers=again)
        assert replayed.headers["idempotent-replay"] == "true"
        assert replayed.json() == first.json()
        assert await alice.block("else", session="s") == frozen
        cookie, _ = await page_links.consume_link(core, link.split("token=")[1])
        with pytest.raises(Gone):
            await page_links.consume_link(core, stale.split("token=")[1])
    with ahead(-off):
        assert (await page_links.find_page_session(core, cookie)).user == "alice"
    for table in ("idempotency_key", "frozen_block"):
        alice.world.execute(
            f"update {table} set created_at = created_at - interval '25 hours'"
            " where tenant_id = %s", alice.tenant_id,
        )  # fmt: skip
    with ahead(off):
        anew = await alice.post("/facts", fact, headers=again)
        assert "idempotent-replay" not in anew.headers
        answer = await alice.get("/memory", params={"query": "tea", "session": "s"})
        assert answer.json()["frozen"] is False


@either_way
async def test_a_twin_at_work_is_not_overtaken(alice: Caller, off):
    core = alice.world.core
    of = (alice.tenant_id, "alice", "facts", "k", None)
    with ahead(-off):
        held = await idempotency.claim(core, *of)
    assert isinstance(held, idempotency.Claim)
    with ahead(off), pytest.raises(Conflict):
        await idempotency.claim(core, *of)
    await idempotency.release(core, held)


async def test_a_nights_second_run_on_another_node_does_nothing(alice: Caller):
    await policy(alice, forgetting="enforce")
    expired = {"kind": "goal", "expires_at": "2026-01-01T00:00:00Z"}
    core, tenant = alice.world.core, alice.tenant_id
    await alice.post("/facts", {"text": "Is learning FastAPI.", **expired})
    with ahead(-TEN_MINUTES):
        report = await forgetting.forget_tonight(core, tenant)
    assert report is not None
    assert report.facts == {"expired": 1}

    await alice.post("/facts", {"text": "Is learning Rust.", **expired})
    for off in (0, TEN_MINUTES, 86_400):
        with ahead(off):
            assert await forgetting.forget_tonight(core, tenant) is None
    ((day,),) = alice.world.rows("select day from forgetting_night where tenant_id = %s", tenant)
    assert day == database_time(alice).astimezone(UTC).date()


async def test_a_round_is_done_once_whoevers_clock_is_the_first_to_reach_it(alice: Caller):
    """Nodes of any clocks propose the same rounds, one after the other, each when it sees fit."""
    silence(alice.world)
    alice.world.execute("delete from procrastinate_periodic_defers")
    queue, proposed = build_queue(alice.world.core), []
    seven_past = datetime(2026, 11, 30, 5, 7, tzinfo=UTC).timestamp()
    async with queue.open_async(alice.world.core.db.pool):
        for late in (1, 60, 500):
            node = PeriodicDeferrer(queue.periodic_registry)
            await node.defer_jobs(node.get_previous_tasks(at=seven_past + late))
            proposed += alice.world.rows("delete from procrastinate_jobs returning task_name")
    assert proposed == [("forget",)]


@either_way
async def test_a_recall_is_logged_when_it_was_and_on_that_day(alice: Caller, off):
    await alice.post("/facts", {"text": "Likes tea.", "kind": "preference"})
    before = database_time(alice)
    with ahead(off * 144):  # a day
        await alice.block("tea")
        await alice.world.core.recalls.write(alice.world.core.db)
    query = "select at from recall_log where tenant_id = %s"
    ((at,),) = alice.world.rows(query, alice.tenant_id)
    counted = "select day from tenant_usage where tenant_id = %s and name = 'recalls'"
    ((day,),) = alice.world.rows(counted, alice.tenant_id)
    assert before - timedelta(seconds=1) < at <= database_time(alice)
    assert day == at.astimezone(UTC).date()


def test_a_time_in_retry_after_is_read_by_the_clock_of_who_sent_it():
    sent = datetime(2028, 2, 29, 23, 59, tzinfo=UTC)
    headers = {"date": format_datetime(sent, usegmt=True)}
    headers["retry-after"] = format_datetime(sent + timedelta(seconds=90), usegmt=True)

    assert _retry_after(headers) == 90
    assert _retry_after({**headers, "date": "soon"}) == 86_400
