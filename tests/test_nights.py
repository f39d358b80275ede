"""Nights when clocks go forward or back, and 29 February: a day is a UTC day, an hour an hour."""

import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from app.memory import erasures, forgetting, retention
from tests.memory.test_forgetting import policy
from tests.serving import a_service, readiness
from tests.set_clock import clock_set
from tests.skewed import ahead
from tests.world import Caller, World

BACK, FORWARD = "2026-10-25", "2027-03-28"
"""The days on which Berlin's clocks do so, both at 01:00 UTC."""

Set = Callable[[datetime], None]


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@asynccontextmanager
async def living_in(
    zone: str, world: World, ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Caller, Set]]:
    """Give a tenant of a service whose process and database both live in that zone."""
    with monkeypatch.context() as here, clock_set(world.urls, zone) as (urls, set_to):
        here.setenv("TZ", zone)
        time.tzset()
        set_to(at("2026-10-01T00:00"))
        try:
            async with a_service(world, urls, ledger) as its:
                yield await its.tenant(), set_to
        finally:
            here.undo()
            time.tzset()


@pytest.fixture
async def berlin(world, ledger, monkeypatch) -> AsyncIterator[tuple[Caller, Set]]:
    async with living_in("Europe/Berlin", world, ledger, monkeypatch) as living:
        yield living


async def add(caller: Caller, text: str, **more: Any) -> dict[str, Any]:
    body = {"text": text, "kind": "preference", **more}
    answer = await caller.post("/facts", body)
    assert answer.status_code == 201, answer.text
    return answer.json()["fact"]


@pytest.mark.parametrize(
    ("zone", "day"),
    [
        ("Europe/Berlin", BACK),
        ("Europe/Berlin", FORWARD),
        ("America/New_York", "2026-11-01"),
        ("America/New_York", "2027-03-14"),
        ("Europe/Berlin", "2028-02-29"),
        ("Pacific/Auckland", "2028-02-29"),
    ],
)
async def test_a_night_is_one_a_day_in_utc_on_however_many_nodes(
    world, ledger, monkeypatch, zone, day
):
    async with living_in(zone, world, ledger, monkeypatch) as (caller, set_to):
        core, tenant = caller.world.core, caller.tenant_id
        start = at(day) - timedelta(hours=12)
        await policy(caller, forgetting="enforce")
        await add(caller, "Uses tool 0.", expires_at=start.isoformat())
        nights, forgotten = Counter[date](), Counter[date]()
        for n in range(16):
            now = start + timedelta(hours=3 * n + 2, minutes=7)
            set_to(now)
            await add(caller, f"Uses tool {n + 1}.", expires_at=now.isoformat())
            for off in (600, -600):
                with ahead(off):
                    report = await forgetting.forget_tonight(core, tenant)
                if report is not None:
                    nights[now.date()] += 1
                    forgotten[now.date()] += report.facts["expired"]
            query = "select day from forgetting_night where tenant_id = %s"
            assert caller.world.rows(query, tenant) == [(now.date(),)]

    this = date.fromisoformat(day)
    days = [this - timedelta(days=1), this, this + timedelta(days=1)]
    assert nights == dict.fromkeys(days, 1)
    assert forgotten == dict(zip(days, [2, 4, 8], strict=True))


@pytest.mark.parametrize("midnight", [BACK, FORWARD, "2028-02-29", "2028-03-01"])
async def test_what_is_counted_by_day_is_counted_by_utc_day(berlin, midnight):
    caller, set_to = berlin
    await policy(caller, max_facts_per_day=1)
    later = at(midnight) + timedelta(minutes=30)  # of one day, where the people are
    earlier = later - timedelta(hours=1)
    for now, *texts in (
        (earlier, "I prefer window seats.", "I use Redis."),
        (later, "I have two cats."),
    ):
        set_to(now)
        for text in texts:
            await caller.say(text)
        await caller.block("seats")
        await caller.world.core.recalls.write(caller.world.core.db)

    params = {"from": f"{earlier.date()}", "to": f"{later.date()}"}
    told = (await caller.call("GET", "/v1/tenant/stats", params=params)).json()

    counted = [(day["day"], day["sessions"], day["facts_added"], day["recalls"], day["rejected"])
               for day in told["days"]]  # fmt: skip
    assert counted == [
        (params["from"], 2, 1, 1, {"cap": 1}),
        (params["to"], 1, 1, 1, {}),
    ]
    assert (await caller.call("GET", "/v1/tenant/stats")).json()["days"][-1]["day"] == params["to"]


@pytest.mark.parametrize("day", [BACK, FORWARD, "2028-02-29"])
async def test_a_span_of_days_is_so_many_times_twenty_four_hours(berlin, day):
    caller, set_to = berlin
    start = at(day) - timedelta(hours=12)
    set_to(start)
    await policy(caller, forgetting="enforce", goal_expiry="1d", recall_log_retention="1d")
    await add(caller, "Is learning FastAPI.", kind="goal")
    await add(caller, "Likes tea.")
    body = {"text": "Likes coffee.", "kind": "preference"}
    await caller.post("/facts", body, headers={"Idempotency-Key": "k"})
    frozen = await caller.block("tea", session="s")
    await caller.world.core.recalls.write(caller.world.core.db)

    async def holds() -> list[bool]:
        core = caller.world.core
        await retention.retain(core)
        previewed = (await caller.call("GET", "/v1/forgetting/preview")).json()["items"]
        again = await caller.post("/facts", body, headers={"Idempotency-Key": "k"})
        answer = await caller.get("/memory", params={"query": "else", "session": "s"})
        logged = "select at from recall_log where tenant_id = %s and at <= %s"
        return [
            previewed == [],
            "idempotent-replay" in again.headers,
            answer.json()["frozen"],
            caller.world.rows(logged, caller.tenant_id, start) != [],
        ]

    assert frozen
    set_to(start + timedelta(hours=24, seconds=-1))
    assert await holds() == [True] * 4
    set_to(start + timedelta(hours=24, seconds=1))
    assert await holds() == [False] * 4


async def test_in_the_hour_that_comes_twice_a_fact_expires_at_its_instant(berlin):
    caller, set_to = berlin
    set_to(at("2026-10-25T00:40"))  # 02:40 for the first time
    await add(caller, "Likes tea.", expires_at="2026-10-25T02:50:00+02:00")
    await add(caller, "Likes milk.", expires_at="2026-10-25T02:10:00+01:00")
    await add(caller, "Likes juice.")

    for moment, *left in (
        ("00:40", "juice", "milk", "tea"),
        ("00:55", "juice", "milk"),
        ("01:15", "juice"),
    ):
        set_to(at(f"2026-10-25T{moment}"))
        block = await caller.block("tea milk juice")
        assert sorted(drink for drink in ("tea", "milk", "juice") if drink in block) == left
        assert await caller.texts() == [f"Likes {drink}." for drink in left]


async def test_in_the_hour_that_comes_twice_an_erasure_is_seen_as_the_later_one(berlin):
    caller, set_to = berlin
    for moment in ("2026-10-25T00:50", "2026-10-25T01:10"):  # 02:50, then 02:10
        set_to(at(moment))
        await add(caller, "Likes tea.")
        assert (await caller.delete("")).status_code == 200
    core = caller.world.core
    core.ledger.is_whole, core.ledger.looked_at = False, float("-inf")

    assert await readiness(caller.world) == (200, "ok")
    entries = await core.ledger.read()
    assert erasures.missing(entries, await erasures.seen(core)) == []
    await add(caller, "Likes milk.")
    assert await erasures.replay(core, entries) == 0
    assert await caller.texts() == ["Likes milk."]


async def test_in_the_hour_that_comes_twice_history_keeps_its_order(berlin):
    caller, set_to = berlin
    for moment, city in (("00:15", "Lisbon"), ("00:45", "Porto"), ("01:15", "Linz")):
        set_to(at(f"2026-10-25T{moment}"))
        await caller.say(f"I live in {city} now.")

    async def lived(**params: str) -> list[str]:
        items = (await caller.get("/facts", params=params)).json()["items"]
        return [item["text"] for item in items]

    for clock in ("as_of", "known_at"):
        told = [
            await lived(**{clock: f"2026-10-25T02:30:00{zone}"}) for zone in ("+02:00", "+01:00")
        ]
        assert told == [["Lives in Lisbon."], ["Lives in Linz."]]
        assert await lived(**{clock: "2026-10-25T02:50:00+02:00"}) == ["Lives in Porto."]
    newest = (await caller.facts("live"))[0]
    history = (await caller.get(f"/facts/{newest['id']}/history")).json()["items"]
    assert [fact["text"] for fact in history] == [
        f"Lives in {city}." for city in ("Lisbon", "Porto", "Linz")
    ]


async def test_a_year_from_the_29th_of_february_can_be_named(berlin):
    caller, set_to = berlin
    set_to(at("2028-02-29T12:00"))
    fact = await add(caller, "Likes tea.", valid_from="2024-02-29T00:00:00Z",
                     expires_at="2032-02-29T00:00:00Z")  # fmt: skip
    assert (fact["valid_from"], fact["expires_at"]) == (
        "2024-02-29T00:00:00Z", "2032-02-29T00:00:00Z",
    )  # fmt: skip
    wrong = {"text": "Likes milk.", "kind": "preference", "valid_from": "2027-02-29T00:00:00Z"}
    assert (await caller.post("/facts", wrong)).status_code == 422
    days = (await caller.call("GET", "/v1/tenant/stats")).json()["days"]
    assert (days[-1]["day"], days[-30]["day"]) == ("2028-02-29", "2028-01-31")
