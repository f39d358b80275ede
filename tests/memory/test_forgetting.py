"""Forgetting: each rule, what it spares, dry runs, the way back and the way out."""

import asyncio
import json
import os
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

from app import cli
from app.db import Scope
from app.memory import forgetting, retention
from app.memory.policy import TRIAL
from app.worker import build_queue
from tests.planting import EPOCH, Planted, plant
from tests.world import Caller

GOAL = "Is learning FastAPI."
PAST = "2026-01-01T00:00:00Z"


async def policy(alice: Caller, **values: Any) -> dict[str, Any]:
    answer = await alice.call("PATCH", "/v1/tenant/policy", json=values)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def add(alice: Caller, text: str, kind: str = "preference", **more: Any) -> str:
    answer = await alice.post("/facts", {"text": text, "kind": kind, **more})
    assert answer.status_code == 201, answer.text
    return answer.json()["fact"]["id"]


def age(alice: Caller, days: float, *texts: str, **columns: Any) -> None:
    """Make facts older by so many days, and give them other values from behind."""
    span = timedelta(days=days)
    names = "created_at", "said_at", "last_confirmed_at", "superseded_at", "forgotten_at"
    times = [name for name in names if name not in columns]
    changes = [f"{name} = {name} - %s" for name in times] + [f"{name} = %s" for name in columns]
    alice.world.execute(
        f"update memory_fact set {', '.join(changes)} where tenant_id = %s and text = any(%s)",
        *[span] * len(times), *columns.values(), alice.tenant_id, list(texts),
    )  # fmt: skip


async def run(alice: Caller, *, dry_run: bool = False) -> dict[str, int]:
    report = await forgetting.forget_now(
        alice.world.core, alice.tenant_id, dry_run=dry_run, by="cli"
    )
    return {str(rule): count for rule, count in report.facts.items()}


async def preview(alice: Caller) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    params: dict[str, Any] = {"limit": 200}
    while True:
        answer = await alice.call("GET", "/v1/forgetting/preview", params=params)
        assert answer.status_code == 200, answer.text
        items += answer.json()["items"]
        if (following := answer.json()["next_cursor"]) is None:
            return items
        params["cursor"] = following


async def log(alice: Caller) -> list[dict[str, Any]]:
    return (await alice.call("GET", "/v1/forgetting/log")).json()["items"]


@pytest.fixture
async def alice(alice: Caller):
    """A tenant that forgets in earnest."""
    await policy(alice, forgetting="enforce")
    return alice


async def test_an_expired_fact_is_forgotten_and_can_be_restored_without_its_end(alice: Caller):
    fact = await add(alice, GOAL, "goal", expires_at=PAST)

    assert await run(alice) == {"expired": 1}

    [gone] = await alice.facts("forgotten")
    why = (await alice.get(f"/facts/{fact}/why")).json()
    assert (gone["id"], gone["status"], gone["revision"]) == (fact, "forgotten", 2)
    assert [(event["what"], event["by"]) for event in why["events"]][-1] == ("forgotten", "cli")
    restored = await alice.post(f"/facts/{fact}/restore")
    assert (restored.json()["status"], restored.json()["expires_at"]) == ("live", None)
    assert await run(alice) == {}


@pytest.mark.parametrize(
    ("kind", "days", "more", "rule"),
    [
        ("goal", 89, {}, None),
        ("goal", 91, {}, "goal_expiry"),
        ("goal", 91, {"pinned": True}, None),
        ("goal", 91, {"last_confirmed_at": datetime.now(UTC)}, None),
        ("preference", 59, {"source": "transcript"}, None),
        ("preference", 61, {"source": "transcript"}, "unrecalled_expiry"),
        ("preference", 61, {"source": "mcp"}, "unrecalled_expiry"),
        ("preference", 61, {"source": "transcript", "pinned": True}, None),
        ("preference", 61, {"source": "api"}, None),
        ("preference", 61, {"source": "page"}, None),
        ("preference", 61, {"source": "import"}, None),
        ("profile", 900, {"source": "transcript"}, None),
        ("constraint", 900, {"source": "transcript"}, None),
        ("preference", 900, {"source": "transcript", "last_recalled_at": PAST}, None),
    ],
)
async def test_age_takes_goals_nobody_confirms_and_facts_nobody_recalls(
    alice: Caller, kind, days, more, rule
):
    await add(alice, GOAL, kind)
    age(alice, days, GOAL, **more)

    assert await run(alice) == ({} if rule is None else {rule: 1})
    assert await alice.texts("forgotten") == ([] if rule is None else [GOAL])


async def test_an_imported_fact_has_its_days_to_be_recalled_in_its_new_place(alice: Caller):
    await add(alice, "Prefers window seats.")
    age(alice, 400, "Prefers window seats.", source="import")
    assert await run(alice) == {}

    alice.world.execute(
        "update memory_user set created_at = created_at - interval '61 days' where tenant_id = %s",
        alice.tenant_id,
    )
    assert await run(alice) == {"unrecalled_expiry": 1}


async def test_a_recalled_fact_is_not_one_nobody_recalls(alice: Caller):
    await alice.say("I prefer window seats.")
    [fact] = await alice.facts()
    age(alice, 61, fact["text"])
    assert [item["fact"]["id"] for item in await preview(alice)] == [fact["id"]]

    assert fact["text"] in await alice.block("which seats?")
    await alice.world.core.recalls.write(alice.world.core.db)

    assert await preview(alice) == []
    assert await run(alice) == {}


async def test_the_cap_takes_the_least_valuable_learned_facts_and_spares_the_pinned(alice: Caller):
    texts = [f"Uses tool {n}." for n in range(8)]
    for n, text in enumerate(texts):
        await add(alice, text)
        age(alice, 50 - n, text, source="transcript")
    age(alice, 0, texts[0], pinned=True)
    age(alice, 0, texts[1], confirmations=30)
    age(alice, 0, texts[2], last_recalled_at=datetime.now(UTC))
    age(alice, 0, texts[7], source="api")
    await add(alice, "Never suggest AWS.", "constraint")
    age(alice, 300, "Never suggest AWS.", source="transcript")
    await policy(alice, max_facts_per_user=5)

    items = await preview(alice)

    # Eight learned ones for five places: the three that are used least and were said longest ago.
    assert {item["fact"]["text"] for item in items} == set(texts[3:6])
    assert {item["rule"] for item in items} == {"max_facts_per_user"}
    assert all(item["score"] > 0 for item in items)
    assert await run(alice) == {"max_facts_per_user": 3}
    assert set(await alice.texts()) == {*texts[:3], *texts[6:], "Never suggest AWS."}
    assert await run(alice) == {}


async def test_what_a_person_restored_or_changed_is_not_taken_again_the_next_night(alice: Caller):
    goal, tool = await add(alice, GOAL, "goal"), await add(alice, "Uses Redis.")
    age(alice, 100, GOAL)
    age(alice, 100, "Uses Redis.", source="transcript")
    assert await run(alice) == {"goal_expiry": 1, "unrecalled_expiry": 1}

    for fact in (goal, tool):
        assert (await alice.post(f"/facts/{fact}/restore")).status_code == 200
    await policy(alice, max_facts_per_user=1)
    await add(alice, "Uses Postgres.")
    age(alice, 1, "Uses Postgres.", source="transcript", pinned=True)

    assert await run(alice) == {}
    alice.world.execute(
        "update fact_event set at = at - interval '91 days' where tenant_id = %s", alice.tenant_id
    )
    assert await run(alice) == {"goal_expiry": 1, "unrecalled_expiry": 1}


async def test_superseded_facts_stay_unless_the_policy_gives_them_a_time(alice: Caller):
    await alice.say("I live in Lisbon.")
    await alice.say("I live in Porto now.")
    [old] = await alice.facts("superseded")
    age(alice, 400, old["text"])
    assert await run(alice) == {}

    await policy(alice, superseded_retention="365d")

    assert await run(alice) == {"superseded_retention": 1}
    assert await alice.texts("superseded") == []
    restored = (await alice.post(f"/facts/{old['id']}/restore")).json()
    assert (restored["status"], restored["superseded_by"]) == ("live", None)


async def test_a_rule_set_to_null_is_off(alice: Caller):
    await add(alice, GOAL, "goal")
    await add(alice, "Uses Redis.")
    age(alice, 900, GOAL)
    age(alice, 900, "Uses Redis.", source="transcript")
    named = {"goal_expiry": None, "unrecalled_expiry": None, "max_facts_per_user": None}

    shown = await policy(alice, **named)

    assert {name: shown[name] for name in named} == named
    assert await run(alice) == {}


async def test_forgotten_facts_are_gone_after_their_time_with_all_that_hangs_on_them(alice: Caller):
    await alice.say("I live in Lisbon.")
    await alice.say("I live in Porto now.")
    [old], [new] = await alice.facts("superseded"), await alice.facts()
    age(alice, 0, new["text"], expires_at=PAST)
    assert await run(alice) == {"expired": 1}
    age(alice, 29, new["text"])
    assert await run(alice) == {}
    age(alice, 2, new["text"])

    assert await run(alice) == {"forgotten_retention": 1}

    assert (await alice.get(f"/facts/{new['id']}")).status_code == 404
    assert (await alice.post(f"/facts/{new['id']}/restore")).status_code == 404
    for table, column in (
        ("evidence", "fact_id"),
        ("fact_event", "fact_id"),
        ("verdict", "new_id"),
    ):
        rows = f"select 1 from {table} where tenant_id = %s and {column} = %s"
        assert alice.world.rows(rows, alice.tenant_id, new["id"]) == []
    # What it had superseded stays where it was: forgetting brings nothing back.
    [left] = await alice.facts("all")
    assert (left["id"], left["status"], left["superseded_by"]) == (old["id"], "superseded", None)
    assert left["valid_to"] == old["valid_to"]
    # And unlike what a user deletes, it can be learned again.
    await alice.say("I live in Porto now.")
    assert await alice.texts() == [new["text"]]


async def test_the_chain_closes_over_what_is_gone_from_its_middle(alice: Caller):
    for place in ("Lisbon", "Porto", "Faro"):
        await alice.say(f"I live in {place} now.")
    first, second, third = sorted(await alice.facts("all"), key=lambda fact: fact["created_at"])
    await policy(alice, superseded_retention="10d", forgotten_retention="0s")
    age(alice, 20, second["text"])

    assert await run(alice) == {"superseded_retention": 1}
    assert await run(alice) == {"forgotten_retention": 1}

    history = (await alice.get(f"/facts/{first['id']}/history")).json()["items"]
    assert [fact["id"] for fact in history] == [first["id"], third["id"]]
    assert history[0]["superseded_by"] == third["id"]


async def test_restoring_what_is_said_again_meanwhile_is_refused_and_changes_nothing(alice: Caller):
    fact = await add(alice, GOAL, "goal", expires_at=PAST)
    await run(alice)
    await add(alice, GOAL, "goal")

    again = await alice.post(f"/facts/{fact}/restore")

    assert (again.status_code, again.json()["code"]) == (409, "fact_live")
    [forgotten] = await alice.facts("forgotten")
    assert (forgotten["id"], forgotten["superseded_by"]) == (fact, None)


async def test_a_deletion_leaves_a_forgotten_predecessor_forgotten(alice: Caller):
    await policy(alice, superseded_retention="0s")
    await alice.say("I live in Lisbon.")
    await alice.say("I live in Porto now.", session="second")
    assert await run(alice) == {"superseded_retention": 1}

    receipt = await alice.delete("/sessions/second")

    assert receipt.json()["facts_restored"] == 0
    assert [fact["status"] for fact in await alice.facts("all")] == ["forgotten"]


async def test_a_frozen_block_goes_with_what_it_holds(alice: Caller):
    await add(alice, "Lives in Lisbon.", "profile")
    assert "Lisbon" in await alice.block(session="s")
    age(alice, 0, "Lives in Lisbon.", expires_at=PAST)

    await run(alice)

    assert await alice.block(session="s") == ""


async def test_recall_from_memory_sees_what_was_forgotten(alice: Caller):
    await add(alice, "Prefers window seats.")
    age(alice, 61, "Prefers window seats.", source="transcript")
    assert "window" in (await alice.block("window seats", session="t"))
    age(alice, 0, "Prefers window seats.", last_recalled_at=None)

    assert await run(alice) == {"unrecalled_expiry": 1}

    assert await alice.block("window seats") == ""


async def test_a_young_tenant_rehearses_and_one_of_thirty_days_forgets(other: Caller):
    await add(other, GOAL, "goal", expires_at=PAST)

    assert (await other.call("GET", "/v1/tenant/policy")).json()["forgetting"] == "dry_run"
    assert await run(other) == {"expired": 1}
    assert await run(other) == {"expired": 1}
    assert [fact["status"] for fact in await other.facts("all")] == ["expired"]
    [entry] = await log(other)
    assert (entry["rule"], entry["dry_run"], entry["user"]) == ("expired", True, "alice")
    assert await _audited(other) == []

    other.world.execute(
        "update tenant set created_at = now() - %s where id = %s", TRIAL, other.tenant_id
    )
    assert (await other.call("GET", "/v1/tenant/policy")).json()["forgetting"] == "enforce"
    assert await run(other, dry_run=True) == {"expired": 1}
    assert await run(other) == {"expired": 1}
    assert [fact["status"] for fact in await other.facts("all")] == ["forgotten"]
    assert [entry["dry_run"] for entry in await log(other)] == [False, True]


async def _audited(alice: Caller) -> list[dict[str, Any]]:
    params = {"action": "facts_forgotten"}
    return (await alice.call("GET", "/v1/audit-log", params=params)).json()["items"]


async def test_the_logs_tell_what_went_without_a_word_of_it(alice: Caller):
    fact = await add(alice, "Prefers ZQX-771 seats.", expires_at=PAST)

    await run(alice)

    [entry], [audited] = await log(alice), await _audited(alice)
    assert (entry["fact"], entry["rule"], entry["dry_run"]) == (fact, "expired", False)
    assert (audited["user"], audited["actor"]) == ("alice", "cli")
    assert audited["details"] == {"facts": {"expired": 1}}
    assert "ZQX" not in f"{entry}{audited}"


@pytest.mark.usefixtures("alone")
async def test_the_log_is_paged_newest_first_and_goes_in_its_time(alice: Caller):
    for n in range(5):
        await add(alice, f"Uses tool {n}.", expires_at=PAST)
    await run(alice)
    path, seen, cursor = "/v1/forgetting/log", [], None
    while True:
        params = {"limit": 2} | ({"cursor": cursor} if cursor else {})
        page = (await alice.call("GET", path, params=params)).json()
        seen += [entry["fact"] for entry in page["items"]]
        if (cursor := page["next_cursor"]) is None:
            break
    assert len(seen) == len(set(seen)) == 5
    assert (await alice.call("GET", path, params={"cursor": "x"})).status_code == 422

    await policy(alice, audit_retention="10d")
    alice.world.execute(
        "update forgetting_log set created_at = created_at - interval '11 days'"
        " where tenant_id = %s", alice.tenant_id,
    )  # fmt: skip
    await retention.retain(alice.world.core)
    assert await log(alice) == []


async def test_the_preview_is_what_the_run_then_removes(alice: Caller):
    """Every rule, several users and more than one page of it."""
    await policy(alice, max_facts_per_user=5, superseded_retention="10d")
    for user in ("alice", "bob", "carol"):
        one = alice.of(user)
        today = (datetime.now(UTC) - EPOCH) // timedelta(minutes=1)
        plant(
            one,
            *(
                Planted(
                    f"Uses tool {user} {n}.",
                    ("goal", "preference")[n % 2],
                    age=today - n * 4 * 1440,
                    source=("transcript", "api")[n % 3 == 0],
                )
                for n in range(45)
            ),
        )
        age(alice, 0, *(f"Uses tool {user} {n}." for n in (1, 2, 3)), expires_at=PAST)
        age(alice, 0, f"Uses tool {user} 4.", superseded_at=datetime(2026, 1, 1, tzinfo=UTC))
        age(alice, 0, f"Uses tool {user} 5.", forgotten_at=datetime(2026, 1, 1, tzinfo=UTC))
    listed = await preview(alice)
    before = _states(alice)

    counts = await run(alice)

    gone = {fact for fact, state in _states(alice).items() if state != before[fact]}
    gone |= set(before) - set(_states(alice))
    assert {item["fact"]["id"] for item in listed} == gone
    assert len(listed) == len(gone) == sum(counts.values()) > 50
    assert len(counts) == 6
    assert [item["fact"]["created_at"] for item in listed] == sorted(
        (item["fact"]["created_at"] for item in listed), reverse=True
    )
    assert {(entry["fact"], entry["rule"]) for entry in await _whole_log(alice)} == {
        (item["fact"]["id"], item["rule"]) for item in listed
    }
    assert await preview(alice) == []


def _states(alice: Caller) -> dict[str, bool]:
    rows = alice.world.rows(
        "select id::text, forgotten_at is not null from memory_fact where tenant_id = %s",
        alice.tenant_id,
    )
    return dict(rows)


async def _whole_log(alice: Caller) -> list[dict[str, Any]]:
    answer = await alice.call("GET", "/v1/forgetting/log", params={"limit": 200})
    return answer.json()["items"]


@pytest.mark.parametrize("change", ["edit", "confirm", "recall", "pin", "restrict", "delete"])
async def test_what_changes_between_scan_and_lock_stays(alice: Caller, monkeypatch, change):
    """The lock is taken by a person while the run waits for it with its scan in hand."""
    fact = await add(alice, GOAL, "goal")
    kept = await add(alice, "Is writing a book.", "goal")
    age(alice, 100, GOAL, "Is writing a book.", source="transcript")
    let_go = forgetting._let_go

    async def meanwhile(run: Any, scope: Scope, found: Any) -> Any:
        match change:
            case "edit":
                body = {"metadata": {"seen": 1}}
                await _patch(alice, fact, body)
            case "confirm":
                await alice.post("/facts", {"text": GOAL, "kind": "goal"})
            case "recall":
                age(alice, 0, GOAL, last_recalled_at=datetime.now(UTC), kind="preference")
            case "pin":
                await _patch(alice, fact, {"pinned": True})
            case "restrict":
                settings = {"memory": "restricted"}
                await alice.call("PATCH", f"{alice.base}/settings", json=settings)
            case "delete":
                await alice.delete(f"/facts/{fact}")
        return await let_go(run, scope, found)

    monkeypatch.setattr(forgetting, "_let_go", meanwhile)
    counts = await run(alice)

    left = {fact["id"] for fact in await alice.facts()}
    assert (fact in left) == (change != "delete")
    assert (kept in left) == (change == "restrict")
    assert counts == ({} if change == "restrict" else {"goal_expiry": 1})


async def _patch(alice: Caller, fact: str, body: dict[str, Any]) -> None:
    path = f"{alice.base}/facts/{fact}"
    answer = await alice.call("PATCH", path, json=body, headers={"If-Match": "*"})
    assert answer.status_code == 200, answer.text


async def test_a_restricted_user_keeps_everything_until_it_is_lifted(alice: Caller):
    await add(alice, GOAL, "goal", expires_at=PAST)
    old = await add(alice, "Uses Redis.", expires_at=PAST)
    age(alice, 0, "Uses Redis.", forgotten_at=datetime(2026, 1, 1, tzinfo=UTC))
    settings = f"{alice.base}/settings"
    await alice.call("PATCH", settings, json={"memory": "restricted"})

    assert await preview(alice) == []
    assert await run(alice) == {}
    assert await run(alice, dry_run=True) == {}
    assert len(await alice.facts("all")) == 2
    assert old in (await alice.get("/export")).text

    await alice.call("PATCH", settings, json={"memory": "on"})
    assert await run(alice) == {"expired": 1, "forgotten_retention": 1}


async def test_the_organizations_facts_are_not_forgotten(alice: Caller):
    fact = {"text": "We deploy on Fridays.", "kind": "constraint", "expires_at": PAST}
    await alice.call("POST", "/v1/organization/facts", json=fact)
    age(alice, 900, fact["text"])

    assert await run(alice) == {}
    assert await preview(alice) == []


async def test_a_night_is_one_however_many_workers_and_the_next_day_has_its_own(alice: Caller):
    core, tenant = alice.world.core, alice.tenant_id
    await add(alice, GOAL, "goal", expires_at=PAST)

    reports = await asyncio.gather(*(forgetting.forget_tonight(core, tenant) for _ in range(4)))

    assert sum(report.facts.total() for report in reports if report) == 1
    assert len(await log(alice)) == 1
    assert len(await _audited(alice)) == 1
    await add(alice, "Uses Redis.", expires_at=PAST)
    assert await forgetting.forget_tonight(core, tenant) is None
    assert await alice.texts("expired") == ["Uses Redis."]

    alice.world.execute("update forgetting_night set day = day - 1 where tenant_id = %s", tenant)
    report = await forgetting.forget_tonight(core, tenant)
    assert report is not None
    assert report.facts == {"expired": 1}


@pytest.mark.usefixtures("alone")
async def test_every_tenant_has_its_night_and_a_fault_costs_only_its_own(
    alice: Caller, other: Caller, monkeypatch
):
    await policy(other, forgetting="enforce")
    for one in (alice, other):
        await add(one, GOAL, "goal", expires_at=PAST)
    carry_out = forgetting._carry_out

    async def failing(run: Any) -> Any:
        if run.tenant_id == alice.tenant_id:
            raise RuntimeError("a fault")
        return await carry_out(run)

    monkeypatch.setattr(forgetting, "_carry_out", failing)
    await forgetting.forget_every_tenant(alice.world.core)
    assert (await alice.texts("forgotten"), await other.texts("forgotten")) == ([], [GOAL])

    monkeypatch.undo()
    await forgetting.forget_every_tenant(alice.world.core)
    assert await alice.texts("forgotten") == [GOAL]


async def test_another_tenant_sees_nothing_of_it(alice: Caller, other: Caller):
    await add(alice, GOAL, "goal", expires_at=PAST)
    assert await preview(other) == []
    await run(other)
    assert await alice.texts("expired") == [GOAL]
    await run(alice)
    assert await log(other) == []


async def test_the_worker_does_the_night(alice: Caller):
    await add(alice, GOAL, "goal", expires_at=PAST)
    queue = build_queue(alice.world.core)

    await queue.tasks["forget"].func(timestamp=0)

    assert await alice.texts("forgotten") == [GOAL]
    [event] = (await _audited(alice))[:1]
    assert event["actor"] == "worker:forgetting"
    assert (queue.periodic_registry.periodic_tasks["forget", ""]).cron == "7 * * * *"


def test_the_command_forgets_by_policy_or_only_tells(urls, tmp_path, monkeypatch):
    monkeypatch.setenv("USERMEM_DATABASE_URL", urls.service)
    monkeypatch.setenv("USERMEM_MIGRATE_DATABASE_URL", urls.owner)
    monkeypatch.setenv("USERMEM_SIGNING_KEY", "k" * 40)
    monkeypatch.setenv("USERMEM_ERASURE_LEDGER", str(tmp_path / "ledger"))
    runner = CliRunner()
    created = runner.invoke(cli.app, ["tenants", "create", f"forgets {os.getpid()}"])
    tenant = json.loads(created.stdout)["tenant"]["id"]
    with psycopg.connect(urls.superuser) as connection:
        connection.execute("update tenant set created_at = '2020-01-01' where id = %s", (tenant,))

    ran = [
        runner.invoke(cli.app, ["forget", *arguments])
        for arguments in ([tenant], ["--dry-run", tenant], ["--dry-run"])
    ]

    assert [one.exit_code for one in ran] == [0, 0, 0], ran
    told = {"tenant": tenant, "facts": 0, "rules": {}}
    assert json.loads(ran[0].stdout) == {**told, "mode": "enforce"}
    assert json.loads(ran[1].stdout) == {**told, "mode": "dry_run"}
    assert {**told, "mode": "dry_run"} in [json.loads(line) for line in ran[2].stdout.splitlines()]
    assert runner.invoke(cli.app, ["forget", "nobody"]).exit_code == 1
