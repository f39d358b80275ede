"""A tenant's own keys over HTTP: shown once, listed by their ends, rotated with an overlap."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.api.test_errors import check_problem
from tests.world import Caller

KEYS = "/v1/tenant/keys"


async def make(caller: Caller, **body) -> dict[str, Any]:
    answer = await caller.call("POST", KEYS, json={"scopes": ["recall"], **body})
    assert answer.status_code == 201, answer.text
    return answer.json()


async def listed(caller: Caller) -> dict[str, dict[str, Any]]:
    answer = await caller.call("GET", KEYS)
    assert answer.status_code == 200, answer.text
    return {item["id"]: item for item in answer.json()["items"]}


def holding(caller: Caller, key: str, user: str = "alice") -> Caller:
    return Caller(caller.world, caller.tenant_id, key, user)


async def status(caller: Caller) -> int:
    return (await caller.get("/memory")).status_code


async def test_a_key_is_shown_once_and_then_by_its_ends(alice: Caller):
    new = await make(alice, user="alice", expires_in="90d")

    answer = await alice.call("GET", KEYS)
    shown = (await listed(alice))[new["id"]]

    assert new.pop("key") not in answer.text
    assert shown == new
    assert (shown["scopes"], shown["user"], shown["last_used_at"]) == (["recall"], "alice", None)
    lives = datetime.fromisoformat(shown["expires_at"]) - datetime.fromisoformat(
        shown["created_at"]
    )
    assert lives == timedelta(days=90)


async def test_the_ends_are_those_of_the_key(alice: Caller):
    new = await make(alice)
    assert new["key"].startswith(new["prefix"] + "_")
    assert new["key"].endswith(new["last4"])
    assert len(new["last4"]) == 4
    assert await status(holding(alice, new["key"])) == 200


async def test_admin_alone_may_not_read_and_yet_make_a_key_that_may(alice: Caller):
    admin = holding(alice, (await make(alice, scopes=["admin"]))["key"])
    assert await status(admin) == 403
    assert await status(holding(alice, (await make(admin, scopes=["recall"]))["key"])) == 200


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"scopes": []},
        {"scopes": ["root"]},
        {"scopes": "recall"},
        {"scopes": ["recall"], "user": ""},
        {"scopes": ["recall"], "expires_in": "soon"},
        {"scopes": ["recall"], "expires_in": 0},
        {"scopes": ["recall"], "expires_in": "9999d"},
        {"scopes": ["recall"], "tenant": "x"},
    ],
)
async def test_what_is_no_key_is_refused(alice: Caller, body: dict[str, Any]):
    check_problem(await alice.call("POST", KEYS, json=body), 422)


async def test_a_revoked_key_ends_at_once_in_the_process_that_revoked_it(alice: Caller):
    new = await make(alice)
    key = holding(alice, new["key"])
    assert await status(key) == 200

    assert (await alice.call("DELETE", f"{KEYS}/{new['id']}")).status_code == 204

    assert await status(key) == 401
    assert new["id"] not in await listed(alice)
    check_problem(await alice.call("DELETE", f"{KEYS}/{new['id']}"), 404)
    check_problem(await alice.call("POST", f"{KEYS}/{new['id']}/rotate"), 404)


async def test_keys_of_another_tenant_are_unknown(alice: Caller, other: Caller):
    new = await make(other)
    for method, path in (("DELETE", ""), ("POST", "/rotate")):
        check_problem(await alice.call(method, f"{KEYS}/{new['id']}{path}"), 404)
    assert new["id"] not in await listed(alice)
    assert await status(holding(other, new["key"])) == 200


@pytest.mark.parametrize("key_id", ["x", "0" * 33, "é", "%00", "um_1"])
async def test_what_is_no_keys_id_is_404(alice: Caller, key_id: str):
    check_problem(await alice.call("DELETE", f"{KEYS}/{key_id}"), 404)


async def test_after_a_rotation_both_keys_work_until_the_overlap_ends(alice: Caller):
    old = await make(alice, user="alice", expires_in="90d")
    await status(holding(alice, old["key"]))  # known to the cache with its old end

    answer = await alice.call("POST", f"{KEYS}/{old['id']}/rotate", json={"overlap": "1h"})

    assert answer.status_code == 201, answer.text
    new = answer.json()
    assert (new["scopes"], new["user"]) == (old["scopes"], "alice")
    for key in (old, new):
        assert await status(holding(alice, key["key"])) == 200
        assert await status(holding(alice, key["key"], "bob")) == 404
    shown = await listed(alice)
    assert until_end(shown[old["id"]], new["created_at"]) == timedelta(hours=1)
    assert until_end(shown[new["id"]], new["created_at"]) == timedelta(days=90)


def until_end(key: dict[str, Any], at: str) -> timedelta:
    return datetime.fromisoformat(key["expires_at"]) - datetime.fromisoformat(at)


async def test_a_rotation_without_overlap_ends_the_old_key_now(alice: Caller):
    old = await make(alice)
    assert await status(holding(alice, old["key"])) == 200
    new = await alice.call("POST", f"{KEYS}/{old['id']}/rotate", json={"overlap": "0s"})
    assert await status(holding(alice, old["key"])) == 401
    assert await status(holding(alice, new.json()["key"])) == 200


async def test_a_rotation_gives_a_day_unless_told_and_never_prolongs(alice: Caller):
    lasting, brief = await make(alice), await make(alice, expires_in="1h")
    for old in (lasting, brief):
        assert (await alice.call("POST", f"{KEYS}/{old['id']}/rotate")).status_code == 201
    shown = await listed(alice)
    now = datetime.fromisoformat(shown[lasting["id"]]["expires_at"]) - timedelta(days=1)
    assert (
        timedelta(0) <= now - datetime.fromisoformat(lasting["created_at"]) < timedelta(minutes=1)
    )
    assert shown[brief["id"]]["expires_at"] == brief["expires_at"]
    too_long = await alice.call("POST", f"{KEYS}/{lasting['id']}/rotate", json={"overlap": "31d"})
    check_problem(too_long, 422)


async def test_keys_are_listed_newest_first_page_by_page(alice: Caller):
    made = [(await make(alice))["id"] for _ in range(4)]
    found, cursor = [], None
    while True:
        params = {"limit": "2", **({"cursor": cursor} if cursor else {})}
        page = (await alice.call("GET", KEYS, params=params)).json()
        found += [item["id"] for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert found[:4] == made[::-1]
    assert len(found) == 5
    check_problem(await alice.call("GET", KEYS, params={"cursor": "x"}), 422, "bad_cursor")


async def test_the_last_use_is_written_aside_and_shown(alice: Caller):
    new = await make(alice)
    keys = alice.world.state["keys"]
    for _ in range(3):
        await status(holding(alice, new["key"]))
    assert new["id"] in keys._used._waiting[alice.tenant_id]

    await keys._used.write(alice.world.core.db)

    used = datetime.fromisoformat((await listed(alice))[new["id"]]["last_used_at"])
    assert abs(used - datetime.fromisoformat(new["created_at"])) < timedelta(minutes=1)
    assert keys._used._waiting == {}


async def test_what_is_done_with_keys_is_in_the_audit_log_without_the_key(alice: Caller):
    new = await make(alice)
    successor = (await alice.call("POST", f"{KEYS}/{new['id']}/rotate")).json()
    await alice.call("DELETE", f"{KEYS}/{new['id']}")

    answer = await alice.call("GET", "/v1/audit-log", params={"limit": "200"})

    acts = [(entry["action"], entry["details"]["key"]) for entry in answer.json()["items"][:3]]
    assert acts == [
        ("key_revoked", new["id"]),
        ("key_rotated", new["id"]),
        ("key_created", new["id"]),
    ]
    assert new["key"] not in answer.text
    assert successor["key"] not in answer.text


async def test_no_log_and_no_error_page_holds_a_key(
    alice: Caller, caplog: pytest.LogCaptureFixture
):
    secret = alice.key.rpartition("_")[2]
    wrong = alice.key[:-1] + ("0" if alice.key[-1] != "0" else "1")
    said = []
    for key in (alice.key, wrong, alice.key + "x"):
        caller = holding(alice, key)
        said += [
            await caller.get("/memory"),
            await caller.get("/memory", params={alice.key: alice.key}),
            await caller.get(f"/facts/{alice.key}"),
            await caller.post("/facts", {alice.key: 1}),
            await caller.call("GET", f"/v1/{alice.key}"),
            await caller.call("POST", f"{KEYS}/{alice.key}/rotate", json={"overlap": alice.key}),
            await caller.call("DELETE", "/metrics"),
        ]
    said.append(await alice.world.http.get("/metrics"))
    assert {answer.status_code for answer in said} >= {200, 401, 404, 405, 422}
    assert all(secret[:20] not in answer.text for answer in said)
    assert secret[:20] not in caplog.text
