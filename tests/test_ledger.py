"""The erasure ledger: what it remembers, and a restored database that must not be served."""

import asyncio
import json
import os
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from app import db
from app.address import Misconfigured
from app.memory import erasures
from app.memory.erase import key_check, user_hash
from app.memory.ledger import Entry, Ledger, read
from tests.api.routes import ROUTES, Route
from tests.databases import dump, fresh, migrated, restore
from tests.fakes import until, working
from tests.serving import a_service, command, readiness, started
from tests.sweep import holdings
from tests.world import Caller, World

MARKER = "zqxledger"
FACT = {"text": f"Uses {MARKER} daily.", "kind": "preference"}
FILE = {"command": "create", "path": f"/memories/{MARKER}.md", "file_text": MARKER}


@pytest.fixture
def shared(world: World) -> World:
    """The world of all tests, under a name apart from the services that each test starts."""
    return world


async def test_a_restored_database_is_served_by_nobody_until_its_erasures_are_replayed(
    shared, urls, ledger, tmp_path
):
    backup = tmp_path / "backup"
    with fresh(urls) as before, fresh(urls) as after:
        db.migrate(before.superuser)
        async with a_service(shared, before, ledger) as world:
            alice = await world.tenant()
            bob = alice.of("bob")
            for caller in (alice, bob):
                assert (await caller.post("/facts", FACT)).status_code == 201
                made = await caller.post("/memory-tool", FILE)
                assert not made.json()["is_error"]
            turns = {"messages": [{"role": "user", "content": f"I live in {MARKER}."}]}
            await alice.post("/transcripts", turns)
            dump(before, backup)
            erased = (await alice.delete("")).json()
            await bob.post("/facts", {"text": "Uses tea.", "kind": "preference"})
        restore(backup, after)

        async with started(after, ledger) as world:
            alice = Caller(world, alice.tenant_id, alice.key)
            assert await readiness(world) == (503, "failed")
            for answer in (await alice.get("/facts"), await alice.get("/memory")):
                assert answer.status_code == 503
                assert answer.headers["content-type"] == "application/problem+json"
                assert answer.json()["code"] == "erasures_missing"
                assert answer.headers["retry-after"]
                assert MARKER not in answer.text
            async with working(world.core):
                await asyncio.sleep(1)
            waits = world.rows("select status from memory_session")
            assert waits == [("queued",)], "no worker may read what was erased"

            replayed = await command(after, ledger, "erasures", "replay")
            assert json.loads(replayed.stdout) == {"replayed": 1}, replayed.output

            async def is_ready() -> bool:
                return await readiness(world) == (200, "ok")

            await until(is_ready)
            assert await alice.facts("all") == []
            assert await alice.of("bob").texts() == [FACT["text"]]
            listed = (await alice.call("GET", "/v1/erasures")).json()["items"]
            assert [item["erasure_id"] for item in listed] == [erased["erasure_id"]]
            assert listed[0]["erased_at"] == erased["erased_at"]
            of_bob = world.rows("select user_id from user_directory where external_id = 'bob'")
            assert world.rows("select user_id from memory_file") == of_bob
            left = {h.user_id for h in holdings(after.superuser) if MARKER in h.text.lower()}
            assert left == {of_bob[0][0]}
            assert await erasures.replay(world.core, read(ledger)) == 0


SERVING = [route for route in ROUTES if route.path.startswith("/v1/")]


@pytest.mark.parametrize("route", [*SERVING, Route("POST", "/mcp")], ids=lambda route: route.name)
async def test_no_route_serves_a_database_that_lacks_an_erasure(world, alice, ledger, route):
    await _lack_an_erasure(world, alice, ledger)
    async with world.over(replace(world.core, ledger=Ledger(ledger))) as behind:
        answer = await Caller(behind, alice.tenant_id, alice.key).call(
            route.method,
            route.fill(user="alice", session="s", fact=str(uuid4())),
            json=route.body,
            headers=route.headers,
        )

    if route.path == "/livez":
        assert answer.status_code == 200, "the process lives"
        return
    assert answer.status_code == 503
    if route.path != "/readyz":
        assert answer.json()["code"] == "erasures_missing"


async def test_no_command_exports_a_database_that_lacks_an_erasure(world, alice, urls, ledger):
    await _lack_an_erasure(world, alice, ledger)

    ran = await command(urls, ledger, "tenants", "export", str(alice.tenant_id))

    assert ran.exit_code == 1
    assert ran.stdout == ""


async def _lack_an_erasure(world: World, alice: Caller, ledger: Path) -> None:
    ((at,),) = world.rows("select now()")
    await Ledger(ledger).append(
        [Entry(uuid4(), alice.tenant_id, os.urandom(32), at, key_check(world.core))]
    )


async def test_no_erasure_is_replayed_under_another_signing_key(shared, urls, ledger):
    with migrated(urls) as its:
        async with a_service(shared, its, ledger) as world:
            alice = await world.tenant()
            await alice.post("/facts", FACT)
            await alice.delete("")
            world.execute("delete from erasure")
        replayed = await command(its, ledger, "erasures", "replay", SIGNING_KEY="x" * 40)

        assert replayed.exit_code == 1
        assert "another signing key" in str(replayed.exception)
        async with a_service(shared, its, ledger) as world:
            assert world.rows("select * from erasure") == []
            assert await readiness(world) == (503, "failed")
        replayed = await command(its, ledger, "erasures", "replay")
        assert json.loads(replayed.stdout) == {"replayed": 1}, replayed.output


async def test_an_erased_tenant_is_erased_again_after_a_restore(shared, urls, ledger, tmp_path):
    backup = tmp_path / "backup"
    with fresh(urls) as before, fresh(urls) as after:
        db.migrate(before.superuser)
        async with a_service(shared, before, ledger) as world:
            alice = await world.tenant("acme")
            await alice.post("/facts", FACT)
            dump(before, backup)
        erased = await command(before, ledger, "tenants", "erase", "acme", "--yes")
        assert json.loads(erased.stdout)["counts"]["memory_fact"] == 1, erased.output
        restore(backup, after)

        kept = tmp_path / "kept.ndjson"
        kept.write_text((await command(after, ledger, "erasures", "export")).stdout)
        replayed = await command(after, ledger, "erasures", "replay", str(kept))

        assert json.loads(replayed.stdout) == {"replayed": 1}
        with psycopg.connect(after.superuser) as connection:
            assert connection.execute("select 1 from tenant").fetchall() == []
        assert [h for h in holdings(after.superuser) if MARKER in h.text.lower()] == []


async def test_a_crash_before_the_commit_leaves_an_erasure_to_be_replayed(shared, urls, ledger):
    with migrated(urls) as its:
        async with a_service(shared, its, ledger) as world:
            alice = await world.tenant()
            await alice.post("/facts", FACT)
            world.execute("revoke insert on erasure from usermem_service")
            failed = await alice.delete("")
            assert failed.status_code == 500
            assert await alice.texts() == [FACT["text"]]
            assert read(ledger) == [], "what fails before the ledger is not in it"
            world.execute("grant insert on erasure to usermem_service")
            # As after a kill between the ledger's fsync and the commit.
            digest = user_hash(world.core, alice.tenant_id, alice.user)
            ((at,),) = world.rows("select now()")
            await Ledger(ledger).append(
                [Entry(uuid4(), alice.tenant_id, digest, at, key_check(world.core))]
            )
        async with a_service(shared, its, ledger) as world:
            assert await readiness(world) == (503, "failed")
            assert await erasures.replay(world.core, read(ledger)) == 1
            assert world.core.ledger
            world.core.ledger.looked_at = float("-inf")
            assert await readiness(world) == (200, "ok")
            assert await Caller(world, alice.tenant_id, alice.key).facts("all") == []


async def test_an_erasure_that_was_tried_again_is_not_missing(shared, urls, ledger):
    with migrated(urls) as its:
        async with a_service(shared, its, ledger) as world:
            alice = await world.tenant()
            assert await readiness(world) == (200, "ok")
            digest = user_hash(world.core, alice.tenant_id, alice.user)
            ((at,),) = world.rows("select now()")
            await Ledger(ledger).append(
                [Entry(uuid4(), alice.tenant_id, digest, at, key_check(world.core))]
            )
            assert (await alice.delete("")).status_code == 200
        async with a_service(shared, its, ledger) as world:
            assert await readiness(world) == (200, "ok")


async def test_who_came_back_after_an_erasure_is_left_alone_by_its_replay(shared, urls, ledger):
    with migrated(urls) as its:
        async with a_service(shared, its, ledger) as world:
            alice = await world.tenant()
            await alice.delete("")
            await alice.post("/facts", FACT)
            world.execute("delete from erasure")
            assert await erasures.replay(world.core, read(ledger)) == 1
            assert await alice.texts() == [FACT["text"]]


async def test_a_lost_ledger_is_written_anew_from_the_database(shared, urls, ledger):
    with migrated(urls) as its:
        async with a_service(shared, its, ledger) as world:
            alice = await world.tenant()
            await alice.delete("")
        before = read(ledger)
        ledger.unlink()
        async with a_service(shared, its, ledger) as world:
            assert await readiness(world) == (200, "ok")
        assert read(ledger) == before
        assert len(before) == 1


async def test_the_ledger_names_nobody(world, alice):
    user = "zqxnamed"
    caller = alice.of(user)
    await caller.post("/facts", FACT)
    receipt = (await caller.delete("")).json()

    text = world.core.ledger.path.read_text()
    line = json.loads(text.splitlines()[-1])

    assert user not in text
    assert line["erasure_id"] == receipt["erasure_id"]
    listed = (await alice.call("GET", "/v1/erasures")).json()["items"][0]
    assert listed == {key: line[key] for key in listed} | {"erased_at": receipt["erased_at"]}
    assert len(bytes.fromhex(line["subject_hash"])) == 32


async def test_erasures_are_listed_by_pages_and_since_a_time(alice, other):
    receipts = [(await alice.of(f"u{n}").delete("")).json() for n in range(5)]
    await other.delete("")

    first = (await alice.call("GET", "/v1/erasures", params={"limit": 3})).json()
    params = {"limit": 3, "cursor": first["next_cursor"]}
    second = (await alice.call("GET", "/v1/erasures", params=params)).json()
    params = {"since": receipts[3]["erased_at"]}
    since = (await alice.call("GET", "/v1/erasures", params=params)).json()

    shown = [item["erasure_id"] for item in first["items"] + second["items"]]
    assert shown == [receipt["erasure_id"] for receipt in reversed(receipts)]
    assert second["next_cursor"] is None
    assert [item["erasure_id"] for item in since["items"]] == shown[:2]


async def test_beside_an_external_database_no_ledger_is_a_warning(urls, capsys):
    async with started(urls, None) as world:
        status, ledger = await readiness(world)
        state = (await world.http.get("/readyz")).json()["status"]

    assert (status, ledger, state) == (200, "degraded", "degraded")
    assert "no_erasure_ledger" in capsys.readouterr().err


async def test_a_ledger_that_can_not_be_written_stops_the_service_from_starting(urls, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(Misconfigured, match="ledger"):
        async with started(urls, tmp_path / "file" / "erasures.ndjson"):
            pass  # never reached


@pytest.mark.usefixtures("full_disk")
async def test_without_its_line_in_the_ledger_nothing_is_erased(alice):
    await alice.post("/facts", FACT)

    answer = await alice.delete("")

    assert (answer.status_code, answer.json()["code"]) == (503, "ledger_failed")
    assert await alice.texts() == [FACT["text"]]
