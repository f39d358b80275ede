"""A tenant's numbers by day: counted as things happen, whole, and nobody else's."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.world import Caller

STATS = "/v1/tenant/stats"
DAY = {
    "sessions": 0,
    "facts_added": 0,
    "facts_confirmed": 0,
    "facts_superseded": 0,
    "facts_quarantined": 0,
    "rejected": {},
    "recalls": 0,
    "degraded": 0,
    "model_calls": 0,
    "input_tokens": 0,
    "output_tokens": 0,
}


def today() -> str:
    return datetime.now(UTC).date().isoformat()


async def stats(alice: Caller, **params: str) -> dict[str, Any]:
    answer = await alice.call("GET", STATS, params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_new_tenant_has_thirty_empty_days_and_no_rates(alice: Caller):
    told = await stats(alice)

    days = told.pop("days")
    first = datetime.now(UTC).date() - timedelta(days=29)
    assert days == [{"day": str(first + timedelta(days=n)), **DAY} for n in range(30)]
    assert told == {
        "facts_per_session": None,
        "contradiction_rate": None,
        "recall_precision": None,
        "users": 0,
        "facts_live": 0,
    }


async def test_what_happened_is_counted_on_its_day(alice: Caller):
    await alice.say("My name is Dana. I live in Lisbon.")
    await alice.say("I live in Lisbon.")
    await alice.say("I live in Porto now. My password is hunter2hunter2.")
    await alice.of("bob").post("/facts", {"text": "Uses Redis.", "kind": "preference"})
    await alice.call("POST", "/v1/organization/facts", json={"text": "We like tea.",
                                                             "kind": "preference"})  # fmt: skip
    recalled = [await alice.get("/memory", params={"session": "s"}) for _ in range(3)]
    fact = recalled[0].json()["facts"][0]["id"]
    await alice.world.core.recalls.write(alice.world.core.db)
    feedback = {"relevant": [fact], "irrelevant": []}
    path = f"/v1/recalls/{recalled[0].json()['recall_id']}/feedback"
    assert (await alice.call("POST", path, json=feedback)).status_code == 204

    told = await stats(alice, **{"from": today(), "to": today()})

    [day] = told["days"]
    assert day == {
        **DAY,
        "day": today(),
        "sessions": 3,
        "facts_added": 5,
        "facts_confirmed": 1,
        "facts_superseded": 1,
        "recalls": 3,
        "rejected": day["rejected"],
    }
    assert told["facts_per_session"] == 1
    assert told["contradiction_rate"] == 20
    assert told["recall_precision"] == 1
    assert (told["users"], told["facts_live"]) == (2, 4)


async def test_a_correction_by_hand_is_a_supersession(alice: Caller):
    fact = (await alice.post("/facts", {"text": "Uses Redis.", "kind": "preference"})).json()
    path = f"{alice.base}/facts/{fact['fact']['id']}"
    await alice.call("PATCH", path, json={"text": "Uses Kafka."}, headers={"If-Match": "*"})

    [day] = (await stats(alice, **{"from": today()}))["days"]

    assert (day["facts_added"], day["facts_superseded"]) == (2, 1)


async def test_a_recall_of_yesterday_stays_there(alice: Caller):
    await alice.post("/facts", {"text": "Uses Redis.", "kind": "preference"})
    await alice.block("redis")
    yesterday = datetime.now(UTC) - timedelta(days=1)
    waiting = alice.world.core.recalls._waiting
    line = waiting.pop()
    waiting.append(replace(line, at=line.at - 24 * 3600))

    days = (await stats(alice, **{"from": yesterday.isoformat().replace("+00:00", "Z")}))["days"]

    assert [day["recalls"] for day in days] == [1, 0]


async def test_other_tenants_and_other_days_are_not_counted(alice: Caller, other: Caller):
    await alice.say("I live in Lisbon.")

    assert (await stats(other))["days"][-1] == {"day": today(), **DAY}
    told = await stats(alice, **{"from": "2026-01-01", "to": "2026-01-03"})
    assert [day["day"] for day in told["days"]] == ["2026-01-01", "2026-01-02", "2026-01-03"]
    assert told["facts_per_session"] is None


@pytest.mark.parametrize(
    "params",
    [
        {"from": "yesterday"},
        {"from": "2026-02-30"},
        {"from": "2026-01-01T00:00:00"},
        {"from": "1735689600"},
        {"from": "1999-12-31"},
        {"to": "9999-12-31"},
        {"from": "2026-01-02", "to": "2026-01-01"},
        {"from": "2025-01-01", "to": "2026-01-02"},
        {"since": "2026-01-01"},
    ],
)
async def test_what_is_no_range_of_days_is_refused(alice: Caller, params):
    assert (await alice.call("GET", STATS, params=params)).status_code == 422


async def test_the_longest_range_is_a_leap_year(alice: Caller):
    assert len((await stats(alice, **{"from": "2024-01-01", "to": "2024-12-31"}))["days"]) == 366
