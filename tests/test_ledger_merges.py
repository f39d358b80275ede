"""A restored database from before a merge: whose memory the replay may take away, and whose not."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import uuid4

import pytest

from app import db
from app.memory import erasures
from app.memory.ledger import Entry, read
from tests.databases import dump, fresh, migrated, restore
from tests.serving import a_service, readiness
from tests.world import Caller

TEA = {"text": "Drinks tea.", "kind": "preference"}


@pytest.fixture
def before_the_merge(world, urls, ledger, tmp_path):
    """Give the account and an id that is merged into it; then, replayed, the database of before."""

    @asynccontextmanager
    async def restored(*afterwards: str) -> AsyncIterator[Caller]:
        backup = tmp_path / "backup"
        with fresh(urls) as before, fresh(urls) as after:
            db.migrate(before.superuser)
            async with a_service(world, before, ledger) as service:
                account = (await service.tenant()).of("account")
                assert (await account.of("anonymous").post("/facts", TEA)).status_code == 201
                dump(before, backup)
                await _merge(account.of("anonymous"), "account")
                for user in afterwards:
                    await account.of(user).delete("")
            restore(backup, after)
            async with a_service(world, after, ledger) as service:
                assert await readiness(service) == (503, "failed")
                await erasures.replay(service.core, read(ledger))
                assert service.core.ledger
                service.core.ledger.looked_at = float("-inf")
                assert await readiness(service) == (200, "ok")
                yield Caller(service, account.tenant_id, account.key, "account")

    return restored


async def _merge(caller: Caller, into: str) -> None:
    merged = await caller.post("/merge", {"into": into})
    assert merged.status_code == 200, merged.text


async def test_who_was_merged_away_is_not_erased_by_the_replay(before_the_merge, ledger):
    async with before_the_merge() as account:
        anonymous = account.of("anonymous")
        assert await anonymous.texts() == [TEA["text"]], "it isn't with the account: it was lost"
        assert await account.texts() == []
        await _merge(anonymous, "account")
        assert await account.texts() == [TEA["text"]]

    first, second = read(ledger)
    assert first.merged_into == second.merged_into
    assert first.merged_into is not None


async def test_what_was_moved_to_somebody_erased_since_is_erased(before_the_merge):
    async with before_the_merge("account") as account:
        assert await account.of("anonymous").texts("all") == []
        assert await account.texts("all") == []


async def test_an_erasure_of_the_old_id_itself_is_replayed(before_the_merge):
    async with before_the_merge("anonymous") as account:
        assert await account.of("anonymous").texts("all") == [], "an erasure goes before a merge"


async def test_what_was_moved_on_and_on_ends_with_the_last(world, alice, ledger):
    def entry(n: int, into: int | None) -> Entry:
        at = world.rows("select timestamptz '2026-01-01' + %s * interval '1 day'", n)[0][0]
        told = b"%d" % into if into is not None else None
        return Entry(uuid4(), alice.tenant_id, b"%d" % n, at, "", told)

    first, second, end = entry(1, 2), entry(2, 3), entry(3, None)
    assert erasures._is_gone(first, [first, second, end])
    assert not erasures._is_gone(first, [first, second])
    assert not erasures._is_gone(second, [first, second, entry(1, None)])


async def test_a_lost_ledger_learns_from_the_database_what_was_a_merge(world, urls, ledger):
    with migrated(urls) as its:
        async with a_service(world, its, ledger) as service:
            alice = await service.tenant()
            await alice.post("/facts", TEA)
            await _merge(alice, "account")
        before = read(ledger)
        ledger.unlink()
        async with a_service(world, its, ledger) as service:
            assert await readiness(service) == (200, "ok")
        assert read(ledger) == before
        assert "merged_into" in json.loads(ledger.read_text())


async def test_what_is_imported_after_an_erasure_is_not_erased_by_its_replay(world, urls, ledger):
    with migrated(urls) as its:
        async with a_service(world, its, ledger) as service:
            alice = await service.tenant()
            await alice.post("/facts", TEA)
            file = (await alice.get("/export")).content
            await alice.delete("")
            ndjson = {"Content-Type": "application/x-ndjson"}
            taken = await alice.post("/import", content=file, headers=ndjson)
            assert taken.json()["imported"] == 1, taken.text
            service.execute("delete from erasure")
            assert await erasures.replay(service.core, read(ledger)) == 1
            assert await alice.texts() == [TEA["text"]], "brought back by the person, not by us"


async def test_who_was_here_before_their_arrival_was_kept_is_erased_again(world, urls, ledger):
    with migrated(urls) as its:
        async with a_service(world, its, ledger) as service:
            alice = await service.tenant()
            await alice.delete("")
            await alice.post("/facts", TEA)
            service.execute("delete from erasure")
            service.execute("update user_directory set here_since = null")
            service.execute("update memory_user set created_at = now() - interval '1 day'")
            assert await erasures.replay(service.core, read(ledger)) == 1
            assert await alice.texts("all") == []
