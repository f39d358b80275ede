"""A tenant's own rules, read, changed and obeyed."""

import asyncio
from typing import Any

import pytest

from tests.world import Caller

POLICY = "/v1/tenant/policy"


async def test_a_new_tenant_has_the_defaults(alice: Caller):
    policy = (await alice.call("GET", POLICY)).json()

    assert policy["session_silence"] == "30m"
    assert policy["session_cap"] == "8h"
    assert (policy["max_facts_per_user"], policy["max_facts_per_day"]) == (500, 50)
    assert policy["monthly_token_budget"] is None
    durations = {
        "superseded_retention": None,
        "goal_expiry": "90d",
        "unrecalled_expiry": "60d",
        "forgotten_retention": "30d",
        "audit_retention": "365d",
        "recall_log_retention": "30d",
    }
    assert {name: policy[name] for name in durations} == durations
    assert policy["forgetting"] == "dry_run"


async def test_what_is_shown_can_be_put_back(alice: Caller):
    shown = (await alice.call("GET", POLICY)).json()

    again = await alice.call("PUT", POLICY, json=shown)

    assert (again.status_code, again.json()) == (200, shown)
    chosen = (await alice.call("PATCH", POLICY, json={"forgetting": "enforce"})).json()
    left_to_age = (await alice.call("PATCH", POLICY, json={"forgetting": None})).json()
    assert (chosen["forgetting"], left_to_age["forgetting"]) == ("enforce", "dry_run")


async def test_patch_changes_what_is_named_and_put_replaces_all(alice: Caller):
    await alice.call("PATCH", POLICY, json={"session_silence": "90s", "model": "other"})
    patched = (await alice.call("PATCH", POLICY, json={"max_facts_per_day": 7})).json()
    replaced = (await alice.call("PUT", POLICY, json={"max_facts_per_day": 9})).json()

    assert (patched["session_silence"], patched["model"]) == ("90s", "other")
    assert (replaced["session_silence"], replaced["model"]) == ("30m", None)
    assert (await alice.call("GET", POLICY)).json() == replaced


@pytest.mark.parametrize(
    ("written", "shown"),
    [(3600.0, "1h"), ("7200", "2h"), ("999999h", "999999h"), ("99999d", "99999d")],
)
async def test_a_span_is_read_as_the_document_says(alice: Caller, written, shown):
    answer = await alice.call("PATCH", "/v1/tenant/policy", json={"goal_expiry": written})
    assert (answer.status_code, answer.json()["goal_expiry"]) == (200, shown)


@pytest.mark.parametrize(
    "body",
    [
        {"session_silence": "soon"},
        {"blocked_categories": ["weather"]},
        {"prompt_version": "999"},
        {"max_facts_per_day": -1},
        {"forgetting": "perhaps"},
        {"max_facts_per_day": "5"},
        {"max_facts_per_user": True},
        {"monthly_token_budget": "5"},
        {"goal_expiry": "100000d"},
        {"goal_expiry": -1},
        {"goal_expiry": 1.5},
        {"goal_expiry": " 30d"},
        {"goal_expiry": "\u0663d"},
        {"audit_retention": None},
        {"unknown": 1},
    ],
)
async def test_a_wrong_value_is_refused(alice: Caller, body):
    assert (await alice.call("PATCH", POLICY, json=body)).status_code == 422


async def test_the_silence_sets_when_a_session_is_extracted(alice: Caller):
    await alice.call("PATCH", POLICY, json={"session_silence": "1h"})

    await alice.post("/sessions/s/messages", {"messages": [{"role": "user", "content": "Hi"}]})

    [(wait,)] = alice.world.rows(
        "select extract(epoch from extract_after - last_activity_at)::int"
        " from memory_session where tenant_id = %s",
        alice.tenant_id,
    )
    assert wait == 3600


async def test_facts_beyond_the_cap_of_a_day_are_counted_not_kept(alice: Caller):
    await alice.call("PATCH", POLICY, json={"max_facts_per_day": 1})

    state = await alice.say("My name is Dana. I live in Lisbon. I prefer window seats.")

    assert state["facts"]["added"] == 1
    assert state["facts"]["rejected"]["cap"] == 2
    written = await alice.post("/facts", {"text": "Uses Redis.", "kind": "preference"})
    assert written.status_code == 201


async def test_a_tenant_may_allow_a_sensitive_category(alice: Caller):
    fact = {"text": "Has type 2 diabetes.", "kind": "profile"}
    refused = await alice.post("/facts", fact)

    policy = (await alice.call("GET", POLICY)).json()
    allowed = [name for name in policy["blocked_categories"] if name != "health"]
    await alice.call("PATCH", POLICY, json={"blocked_categories": allowed})
    kept = await alice.post("/facts", fact)

    assert (refused.status_code, refused.json()["code"]) == (422, "sensitive")
    assert kept.status_code == 201


async def test_another_tenant_keeps_its_own_policy(alice: Caller, other: Caller):
    await alice.call("PATCH", POLICY, json={"max_facts_per_day": 7})

    assert (await other.call("GET", POLICY)).json()["max_facts_per_day"] == 50


async def test_two_changes_at_once_are_both_kept(alice: Caller):
    changes: list[dict[str, Any]] = [
        {"max_facts_per_day": 7},
        {"max_facts_per_user": 77},
        {"model": "other"},
    ]

    await asyncio.gather(*(alice.call("PATCH", POLICY, json=change) for change in changes))

    policy = (await alice.call("GET", POLICY)).json()
    assert [policy[name] for change in changes for name in change] == [7, 77, "other"]
