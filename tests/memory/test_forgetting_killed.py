"""Real processes, really killed in the middle of a night: together they make one clean run."""

import multiprocessing
import time
from typing import Any

import pytest

from app.memory import forgetting
from tests.fakes import until
from tests.memory.test_forgetting import policy
from tests.planting import Planted, plant
from tests.slow_forgetter import STEP, forget
from tests.world import Caller

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["tests.slow_forgetter"])


async def _fill(tenant: Caller) -> None:
    """Give three users facts that are due by age, by expiry and by the cap, and some that stay."""
    await policy(tenant, forgetting="enforce", max_facts_per_user=10)
    for user in ("alice", "bob", "carol"):
        facts = [Planted(f"{user} uses tool {n}.", age=n, source="transcript") for n in range(30)]
        facts += [Planted(f"{user} learns {n}.", "goal", age=n) for n in range(20)]
        facts += [
            Planted(f"{user} must {n}.", "constraint", age=n, source="transcript", confirmations=n)
            for n in range(25)
        ]
        facts += [Planted(f"{user} keeps {n}.", "goal", pinned=True) for n in range(5)]
        plant(tenant.of(user), *facts)


def _left(tenant: Caller) -> Any:
    """Give all that the night leaves, but for ids and times."""
    facts = tenant.world.rows(
        "select f.text, f.forgotten_at is null, f.revision, l.rule, count(*),"
        " (select count(*) from fact_event e where e.tenant_id = f.tenant_id"
        "   and e.user_id = f.user_id and e.fact_id = f.id and e.what = 'forgotten')"
        " from memory_fact f left join forgetting_log l on l.tenant_id = f.tenant_id"
        "   and l.user_id = f.user_id and l.fact_id = f.id"
        " where f.tenant_id = %s group by f.tenant_id, f.user_id, f.id, l.rule order by 1",
        tenant.tenant_id,
    )
    finished = tenant.world.rows(
        "select finished_at is not null from forgetting_night where tenant_id = %s",
        tenant.tenant_id,
    )
    return facts, finished


def _logged(tenant: Caller) -> int:
    query = "select count(*) from forgetting_log where tenant_id = %s"
    return int(tenant.world.rows(query, tenant.tenant_id)[0][0])


async def _killed(tenant: Caller, times: int) -> None:
    for n in range(times):
        before = _logged(tenant)
        urls = tenant.world.urls
        process = _processes.Process(target=forget, args=(urls.service, tenant.tenant_id))
        process.start()
        try:
            await until(lambda: _logged(tenant) > before, within=60)  # noqa: B023 - called at once
            time.sleep(STEP * n / times)  # noqa: ASYNC251 - nothing here may go on meanwhile
        finally:
            process.kill()
            process.join()
        assert _left(tenant)[1] == [(False,)], "it was done before it was killed"


async def _equals_a_clean_run(alice: Caller, other: Caller, times: int) -> None:
    for tenant in (alice, other):
        await _fill(tenant)
    clean = await forgetting.forget_tonight(other.world.core, other.tenant_id)

    await _killed(alice, times)
    rest = await forgetting.forget_tonight(alice.world.core, alice.tenant_id)

    assert clean is not None
    assert rest is not None
    assert 0 < rest.facts.total() < clean.facts.total() == 3 * (30 + 20 + 15)
    assert _left(alice) == _left(other)


@pytest.mark.timeout(180)
async def test_killed_three_times_it_ends_as_one_clean_run(alice: Caller, other: Caller):
    await _equals_a_clean_run(alice, other, 3)


@pytest.mark.soak
@pytest.mark.timeout(600)
async def test_killed_ten_times_it_ends_as_one_clean_run(alice: Caller, other: Caller):
    await _equals_a_clean_run(alice, other, 10)
