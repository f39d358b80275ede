"""The audit log: who did what to whom, without a word of it."""

import json
from typing import Any

import pytest

from app.memory import retention
from app.memory.tenants import create_key, revoke_key
from tests.world import Caller

MARKER = "zqxaudit"


async def entries(caller: Caller, **params: Any) -> list[dict[str, Any]]:
    answer = await caller.call("GET", "/v1/audit-log", params={"limit": 200, **params})
    assert answer.status_code == 200, answer.text
    return answer.json()["items"]


async def actions(caller: Caller, **params: Any) -> list[str]:
    return [entry["action"] for entry in reversed(await entries(caller, **params))]


async def add(caller: Caller, text: str) -> dict[str, Any]:
    answer = await caller.post("/facts", {"text": text, "kind": "preference"})
    return answer.json()["fact"]


async def everything(caller: Caller) -> None:
    """Do every act that is audited."""
    await caller.say(f"My dog is called {MARKER}.", session=f"s-{MARKER}")
    fact = await add(caller, f"Uses {MARKER}.")
    path, etag = f"{caller.base}/facts/{fact['id']}", {"If-Match": f'"{fact["revision"]}"'}
    await caller.call("PATCH", path, json={"text": f"Uses no {MARKER}."}, headers=etag)
    await caller.post(f"/facts/{fact['id']}/restore")
    await caller.delete(f"/facts/{fact['id']}")
    await caller.call("PATCH", f"{caller.base}/settings", json={"locale": "pt-PT"})
    await caller.post("/page-links")
    exported = (await caller.get("/export")).content
    ndjson = {"Content-Type": "application/x-ndjson"}
    await caller.of(f"other-{MARKER}").post("/import", content=exported, headers=ndjson)
    await caller.of(f"other-{MARKER}").post("/merge", {"into": caller.user})
    await caller.delete(f"/sessions/s-{MARKER}")
    held = await add(caller, f"Uses {MARKER} weekly.")
    for _ in range(2):
        await caller.call("POST", "/v1/quarantine", json={"user": caller.user})
        item = (await caller.call("GET", "/v1/quarantine")).json()["items"][0]
        etag = {"If-Match": f'"{item["revision"]}"'}
        path = f"/v1/quarantine/{item['id']}"
        await caller.call("POST", f"{path}/release", headers=etag)
    await caller.call("POST", "/v1/quarantine", json={"user": caller.user})
    await caller.call("POST", f"/v1/quarantine/{held['id']}/reject")
    await caller.call("PATCH", "/v1/tenant/policy", json={"max_facts_per_day": 7})
    async with caller.world.core.db.tenant(caller.tenant_id) as tx:
        key = await create_key(tx, caller.tenant_id, ("recall",))
    await revoke_key(caller.world.core.db, key.id)


async def test_every_act_is_kept_with_its_actor_and_without_a_word(alice):
    caller = alice.of(f"user-{MARKER}")
    await everything(caller)
    await caller.delete("")

    kept = await actions(alice)

    assert [action for action in kept if not action.startswith("quarantine")] == [
        "tenant_created", "key_created", "fact_corrected", "fact_restored", "fact_deleted",
        "settings_changed", "page_link_created", "user_exported", "user_imported", "user_merged",
        "user_erased", "session_deleted", "policy_changed",
        "key_created", "key_revoked", "user_erased",
    ]  # fmt: skip
    assert {action for action in kept if action.startswith("quarantine")} == {
        "quarantine_swept", "quarantine_released", "quarantine_rejected",
    }  # fmt: skip
    stored = str(
        alice.world.rows("select a::text from audit_log a where tenant_id = %s", alice.tenant_id)
    )
    assert MARKER not in stored.lower()
    by = {entry["actor"] for entry in await entries(alice)}
    assert by == {"cli", f"key:{alice.key.split('_')[1]}"}


async def test_an_entry_tells_of_whom_until_the_user_is_erased(alice):
    await alice.call("PUT", f"{alice.base}/settings", json={"memory": "paused"})
    (before,) = await entries(alice, action="settings_changed")
    ((user_id,),) = alice.world.rows(
        "select user_id from memory_user where tenant_id = %s", alice.tenant_id
    )
    assert (before["user"], before["user_id"]) == ("alice", str(user_id))

    await alice.delete("")

    (after,) = await entries(alice, action="settings_changed")
    assert after == {**before, "user": None}
    assert await entries(alice, user="alice") == []


async def test_consent_is_kept_with_time_and_actor(alice):
    for memory in ("paused", "paused", "restricted", "on"):
        await alice.call("PATCH", f"{alice.base}/settings", json={"memory": memory})

    history = list(reversed(await entries(alice, action="settings_changed", user="alice")))

    assert [entry["details"]["memory"] for entry in history] == [
        {"from": "on", "to": "paused"},
        {"from": "paused", "to": "restricted"},
        {"from": "restricted", "to": "on"},
    ]
    assert {entry["actor"] for entry in history} == {f"key:{alice.key.split('_')[1]}"}


async def test_entries_are_found_by_user_action_and_time_and_by_pages(alice):
    for user in ("ann", "ben", "ann", "ben"):
        await alice.of(user).post("/page-links")
    every = await entries(alice)
    of_ann = await entries(alice, user="ann")

    assert [entry["user"] for entry in of_ann] == ["ann", "ann"]
    assert await entries(alice, **{"from": every[1]["at"], "to": every[0]["at"]}) == [every[1]]
    assert await actions(alice, action="tenant_created") == ["tenant_created"]
    paged, cursor = [], None
    while True:
        params = {"limit": 4, **({"cursor": cursor} if cursor else {})}
        page = (await alice.call("GET", "/v1/audit-log", params=params)).json()
        paged += page["items"]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert paged == every
    assert len(every) == 6


@pytest.mark.parametrize("params", [{"action": "dance"}, {"user": ""}, {"from": "yesterday"}])
async def test_a_filter_without_meaning_is_refused(alice, params):
    answer = await alice.call("GET", "/v1/audit-log", params=params)
    assert answer.status_code == 422


async def test_an_act_that_is_undone_leaves_no_entry(alice):
    await alice.delete("/facts/00000000-0000-0000-0000-000000000001")
    refused = await alice.call("PATCH", "/v1/tenant/policy", json={"session_silence": "soon"})

    assert refused.status_code == 422
    assert await actions(alice) == ["tenant_created", "key_created"]


async def test_entries_go_when_the_tenants_own_time_is_over(alice, other):
    policy = {"audit_retention": "30d"}
    assert (await alice.call("PATCH", "/v1/tenant/policy", json=policy)).status_code == 200
    alice.world.execute(
        "update audit_log set created_at = now() - interval '31 days'"
        " where action = 'tenant_created'"
    )

    await retention.retain(alice.world.core)

    assert await actions(alice) == ["key_created", "policy_changed"]
    assert await actions(other) == ["tenant_created", "key_created"]


async def test_what_was_done_to_a_user_can_be_given_to_them(alice):
    await alice.call("PUT", f"{alice.base}/settings", json={"memory": "paused"})
    await alice.of("bob").post("/page-links")

    lines = (await alice.get("/export")).text.splitlines()
    again = (await alice.get("/export")).text.splitlines()

    (told,) = [line for line in map(json.loads, lines) if line["type"] == "audit"]
    assert (told["action"], told["details"]["memory"]["to"]) == ("settings_changed", "paused")
    about = [line["action"] for line in map(json.loads, again) if line["type"] == "audit"]
    assert about == ["settings_changed", "user_exported"]
