"""The ledger and a commit that fails: what was not erased isn't held against the database."""

import asyncio
from dataclasses import replace

import pytest

from app.memory import erasures
from app.memory.erase import erase_tenant, erase_user
from app.memory.ledger import Ledger, read
from tests.databases import migrated
from tests.serving import a_service, readiness

FAULTS = {
    "refused": "raise exception 'no'",
    "cancelled": "perform pg_sleep(1); raise exception 'no'",
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_an_erasure_whose_commit_fails_is_void(world, urls, ledger, fault):
    with migrated(urls) as its:
        async with a_service(world, its, ledger) as own:
            alice = await own.tenant()
            await alice.post("/facts", {"text": "Uses tea.", "kind": "preference"})
            own.execute(
                "create function fail() returns trigger language plpgsql as "
                f"$$ begin {FAULTS[fault]}; return null; end $$"
            )
            own.execute(
                "create constraint trigger fail after insert on erasure initially deferred "
                "for each row execute function fail()"
            )
            for act in (
                erase_user(own.core, alice.tenant_id, alice.user, by="cli"),
                erase_tenant(own.core, alice.tenant_id),
            ):
                with pytest.raises(Exception, match=r"no|^$"):
                    await asyncio.wait_for(act, 0.8)
            assert ledger.read_text().count("voids") == 2
            assert read(ledger) == []
            assert await readiness(own) == (200, "ok")
            own.execute("drop trigger fail on erasure")
            assert "Uses tea." in await alice.texts()
            assert (await alice.delete("")).status_code == 200
        assert len(read(ledger)) == 1
        async with a_service(world, its, ledger) as own:
            assert await readiness(own) == (200, "ok")


async def test_an_entry_taken_back_although_it_was_committed_returns(world, urls, ledger):
    with migrated(urls) as its:
        async with a_service(world, its, ledger) as own:
            alice = await own.tenant()
            await alice.delete("")
            (entry,) = read(ledger)
            assert own.core.ledger is not None
            own.core.ledger.void(entry.erasure_id)
            assert read(ledger) == []

            assert await readiness(own) == (200, "ok")

            assert read(ledger) == [entry]


async def test_a_ledger_that_can_not_be_caught_up_fails_its_check_and_no_more(
    world, alice, tmp_path, monkeypatch
):
    await alice.delete("")
    book = Ledger(tmp_path / "erasures.ndjson")
    monkeypatch.setattr(book, "_append", _full)

    assert await erasures.check(replace(world.core, ledger=book)) == "failed"


def _full(_: bytes) -> None:
    raise OSError("the disk is full")
