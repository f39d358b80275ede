"""A database that is restored under running processes: they notice and serve nothing of it."""

import asyncio

import pytest

from app.memory import erasures
from app.memory.ledger import read
from tests.databases import migrated
from tests.fakes import until, working
from tests.serving import a_service, readiness
from tests.world import Caller, World

TEA = {"text": "Drinks tea.", "kind": "preference"}


@pytest.fixture(autouse=True)
def watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look more often than a service does."""
    monkeypatch.setattr(erasures, "WATCHED", 0.2)
    monkeypatch.setattr(erasures, "LOOK_AGAIN", 0.1)


def take_back(world: World) -> None:
    """Bring the database's erasures back to none, as a restore of an old backup does."""
    world.execute("delete from erasure")


async def test_a_restore_under_a_running_service_is_noticed(world, urls, ledger):
    with migrated(urls) as its:
        async with a_service(world, its, ledger) as service:
            alice = await service.tenant()
            await alice.delete("")
            assert await readiness(service) == (200, "ok")
            assert (await alice.get("/facts")).status_code == 200
            take_back(service)
            watching = asyncio.create_task(erasures.watch(service.core))

            async def is_refused() -> bool:
                return (await alice.get("/facts")).status_code == 503

            await until(is_refused)
            assert await readiness(service) == (503, "failed")
            assert await erasures.replay(service.core, read(ledger)) == 1

            async def is_served() -> bool:
                return (await alice.get("/facts")).status_code == 200

            await until(is_served)
            watching.cancel()


async def test_a_restored_database_with_as_many_erasures_is_another_one(world, urls, ledger):
    with migrated(urls) as its:
        async with a_service(world, its, ledger) as service:
            alice = await service.tenant()
            await alice.delete("")
            assert await readiness(service) == (200, "ok")
            service.execute("update erasure set id = gen_random_uuid(), subject_hash = ''")
            await asyncio.sleep(0.3)
            assert await readiness(service) == (503, "failed")


async def test_what_did_not_change_is_not_compared_again(world, urls, ledger, monkeypatch):
    with migrated(urls) as its:
        async with a_service(world, its, ledger) as service:
            assert await readiness(service) == (200, "ok")
            await asyncio.sleep(0.3)
            assert await readiness(service) == (200, "ok")
            monkeypatch.setattr(erasures, "seen", None)
            await asyncio.sleep(0.3)
            assert await readiness(service) == (200, "ok")


async def test_a_running_worker_stops_when_its_database_lacks_erasures(world, urls, ledger):
    with migrated(urls) as its:
        async with a_service(world, its, ledger) as service:
            await (await service.tenant()).delete("")
            assert await readiness(service) == (200, "ok")

            def at_work() -> int:
                return len(service.rows("select from procrastinate_workers"))

            async with working(service.core):
                await until(lambda: at_work() == 1)
                watching = asyncio.create_task(erasures.watch(service.core))
                take_back(service)
                await until(lambda: at_work() == 0)
                assert not _whole(service)
                await erasures.replay(service.core, read(ledger))
                await until(lambda: at_work() == 1)
                watching.cancel()


def _whole(service: World) -> bool:
    assert service.core.ledger is not None
    return service.core.ledger.is_whole


async def test_no_revision_comes_again_after_a_failover_that_lost_writes(alice: Caller):
    """Of two histories that part at one revision, each process may ask the other's database."""
    seen = set()
    await alice.post("/facts", TEA)
    for _ in range(20):
        await alice.call("PATCH", alice.base + "/settings", json={"locale": "ro"})
        ((revision,),) = alice.world.rows(
            "select revision from memory_user where tenant_id = %s", alice.tenant_id
        )
        seen.add(revision)
        # As if the write had been lost.
        alice.world.execute(
            "update memory_user set revision = 7 where tenant_id = %s", alice.tenant_id
        )
    assert len(seen) == 20
