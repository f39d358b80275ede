"""Tenants over HTTP: made and erased by whoever holds the root key, and by nobody else."""

from uuid import uuid4

import pytest

from tests.conftest import ROOT_KEY
from tests.world import Caller, World

ROOT = {"Authorization": f"Bearer {ROOT_KEY}"}


async def create(world: World, name: str | None = None) -> Caller:
    body = {"name": name or f"acme {uuid4()}"}
    answer = await world.http.post("/v1/tenants", json=body, headers=ROOT)
    assert answer.status_code == 201, answer.text
    made = answer.json()
    assert made["tenant"]["name"] == body["name"]
    return Caller(world, made["tenant"]["id"], made["key"]["key"])


async def test_a_new_tenant_comes_with_a_key_that_works(world):
    caller = await create(world)

    posted = await caller.post("/facts", {"text": "Uses tea.", "kind": "preference"})

    assert posted.status_code == 201
    assert (await caller.call("GET", "/v1/tenant/policy")).status_code == 200


async def test_a_name_is_taken_once(world):
    name = f"acme {uuid4()}"
    await create(world, name)

    again = await world.http.post("/v1/tenants", json={"name": name}, headers=ROOT)

    assert (again.status_code, again.json()["code"]) == (409, "name_taken")


async def test_of_an_erased_tenant_nothing_is_left_and_its_keys_open_nothing(world, other):
    await other.say("I live in Lisbon.")
    caller = await create(world)
    await caller.say("I live in Porto.")
    await caller.of("bob").post("/facts", {"text": "Uses tea.", "kind": "preference"})
    await caller.post("/sessions/open/messages", {"messages": [{"role": "user", "content": "Hm."}]})
    await caller.delete("")

    answer = await world.http.delete(f"/v1/tenants/{caller.tenant_id}", headers=ROOT)

    assert answer.status_code == 200, answer.text
    receipt = answer.json()
    assert set(receipt) == {"erasure_id", "erased_at", "counts", "backups_until"}
    assert receipt["counts"]["memory_fact"] == receipt["counts"]["user_directory"] == 1
    tables = world.rows(
        "select table_name from information_schema.columns where column_name = 'tenant_id'"
        " and table_schema = 'public'"
    )
    left = {
        name: world.rows(f"select count(*) from {name} where tenant_id = %s", caller.tenant_id)
        for (name,) in tables
    }
    # Its erasures stay: random ids and keyed hashes, to be held against the ledger.
    assert {name for name, rows in left.items() if rows != [(0,)]} == {"erasure"}
    assert world.rows("select 1 from tenant where id = %s", caller.tenant_id) == []
    written = await caller.post("/facts", {"text": "Uses tea.", "kind": "preference"})
    assert written.status_code in {401, 503}
    assert await other.texts() == ["Lives in Lisbon."]
    gone = await world.http.delete(f"/v1/tenants/{caller.tenant_id}", headers=ROOT)
    assert gone.status_code == 404


@pytest.mark.parametrize(
    "header",
    [None, "Bearer ", f"Bearer {ROOT_KEY}x", f"bearer {ROOT_KEY}", ROOT_KEY, "Bearer um_x"],
)
async def test_without_the_root_key_nothing_is_made_or_erased(world, alice, header):
    headers = {} if header is None else {"Authorization": header}
    made = await world.http.post("/v1/tenants", json={"name": "sneaky"}, headers=headers)
    erased = await world.http.delete(f"/v1/tenants/{alice.tenant_id}", headers=headers)

    assert [answer.status_code for answer in (made, erased)] == [401, 401]
    assert made.headers["www-authenticate"] == "Bearer"
    assert world.rows("select 1 from tenant where name = 'sneaky'") == []
    assert (await alice.get("/facts")).status_code == 200


async def test_a_tenants_key_is_no_root_key(world, alice):
    answer = await alice.call("DELETE", f"/v1/tenants/{alice.tenant_id}")
    assert answer.status_code == 401


async def test_unless_a_root_key_is_set_no_key_is_one(world):
    settings = world.settings.model_copy(update={"root_key": None})
    async with World.open(settings, world.urls) as closed:
        answer = await closed.http.post("/v1/tenants", json={"name": "acme"}, headers=ROOT)
    assert answer.status_code == 401
