"""Who floods the queue waits for it alone; what people are owed goes first."""

import time

import pytest
from procrastinate.jobs import Status

from app.worker import build_queue
from tests.fakes import FakeExtractor, reading, silence, until, working
from tests.world import Caller, World


@pytest.fixture(autouse=True)
def _alone(world: World):
    silence(world)
    yield
    silence(world)


async def post(caller: Caller, user: str, session: str) -> None:
    body = {"session": session, "messages": [{"role": "user", "content": "plan: Pro"}]}
    answer = await caller.of(user).post("/transcripts", body)
    assert answer.status_code == 202


async def flood(caller: Caller, sessions: int) -> None:
    """Put so many jobs of a tenant into the queue, as that many posts would."""
    await post(caller, "flood", "first")
    caller.world.execute(
        """
        insert into procrastinate_jobs (queue_name, task_name, lock, queueing_lock, args)
        select queue_name, task_name, md5('user' || n), 'extract:' || md5('session' || n),
               args || jsonb_build_object('user_id', md5('user' || n),
                                          'session_id', md5('session' || n))
        from procrastinate_jobs, generate_series(1, %s) n where task_name = 'extract'
        """,
        sessions - 1,
    )


async def order(world: World, most: int) -> list[str]:
    """Give the tenants in whose turn the next jobs are, each done at once."""
    queue = build_queue(world.core)
    turns = []
    async with queue.open_async(world.core.db.pool):
        worker = await queue.job_manager.register_worker()
        for _ in range(most):
            job = await queue.job_manager.fetch_job(None, worker)
            if job is None:
                break
            turns.append(str(job.task_kwargs.get("tenant_id", job.task_name)))
            await queue.job_manager.finish_job(job, Status.SUCCEEDED, delete_job=True)
    return turns


async def test_tenants_take_turns_however_much_one_of_them_posts(alice: Caller, other: Caller):
    await flood(alice, 50)
    for n in range(3):
        await post(other, f"u{n}", f"s{n}")

    turns = await order(alice.world, 8)

    assert turns[:6].count(other.tenant_id.hex) == 3
    assert turns[6:] == [alice.tenant_id.hex] * 2


async def test_within_a_tenant_the_oldest_comes_first(alice: Caller):
    for n in range(3):
        await post(alice, f"u{n}", f"s{n}")
    ids = [row[0] for row in alice.world.rows("select id from procrastinate_jobs order by id")]
    queue = build_queue(alice.world.core)
    async with queue.open_async(alice.world.core.db.pool):
        worker = await queue.job_manager.register_worker()
        fetched = [await queue.job_manager.fetch_job(None, worker) for _ in range(4)]
    assert [job.id if job else None for job in fetched] == [*ids, None]


async def test_what_people_are_owed_goes_before_everything(alice: Caller):
    await flood(alice, 5)
    queue = build_queue(alice.world.core)
    async with queue.open_async(alice.world.core.db.pool):
        for task in ("audit", "forget", "retain"):
            await queue.tasks[task].defer_async(timestamp=0)
    assert (await order(alice.world, 8))[:2] == ["forget", "retain"]


async def test_what_looks_after_the_store_has_a_turn_beside_a_flood(alice: Caller):
    await flood(alice, 5)
    queue = build_queue(alice.world.core)
    async with queue.open_async(alice.world.core.db.pool):
        await queue.tasks["audit"].defer_async(timestamp=0)
    assert "audit" in (await order(alice.world, 8))[:2]


async def took(core, caller: Caller, user: str) -> float:
    started = time.monotonic()
    await post(caller, user, user)
    done = "select status from memory_session where tenant_id = %s and external_id = %s"
    await until(lambda: caller.world.rows(done, caller.tenant_id, user) == [("done",)], within=60)
    return time.monotonic() - started


@pytest.mark.soak
async def test_beside_ten_thousand_of_another_tenant_one_takes_twice_as_long_at_most(
    alice: Caller, other: Caller
):
    core = reading(alice.world.core, FakeExtractor())
    async with working(core):
        alone = [await took(core, other, f"alone {n}") for n in range(5)]
        await flood(alice, 10_000)
        beside = [await took(core, other, f"beside {n}") for n in range(5)]
        waiting = alice.world.rows("select count(*) from procrastinate_jobs where status = 'todo'")
    silence(alice.world)
    assert waiting > [(1000,)]
    # Half a second: how often the test looks, and a machine that does other things too.
    assert sorted(beside)[2] < 2 * sorted(alone)[2] + 0.5, (alone, beside)
