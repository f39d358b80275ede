"""Facts over time: what was true, what was believed, and statements that come late."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import permutations
from typing import Any

import pytest

from app.llm import Candidate, Pair, Relation, Turn
from tests.api.test_errors import check_problem
from tests.fakes import FakeExtractor, FakeJudge, candidate, drain, reading
from tests.world import Caller

_PLANS = (
    ("Plan is Free.", "2026-01-10T09:00:00Z"),
    ("Plan is Pro.", "2026-03-01T09:00:00Z"),
    ("Plan is Team.", "2026-06-01T09:00:00Z"),
)
_THEN = {
    "2026-02-15T00:00:00Z": ["Plan is Free."],
    "2026-04-15T00:00:00Z": ["Plan is Pro."],
    "2026-07-15T00:00:00Z": ["Plan is Team."],
}


def _spoken(text: str) -> str:
    return f"Our {text[0].lower()}{text[1:]}"


def _now() -> str:
    return datetime.now(UTC).isoformat()


def _only(said: Candidate) -> Callable[[Sequence[Turn]], Sequence[Candidate]]:
    return lambda _: [said]


async def _texts(alice: Caller, **params: Any) -> list[str]:
    answer = await alice.get("/facts", params=params)
    assert answer.status_code == 200, answer.text
    return sorted(fact["text"] for fact in answer.json()["items"])


async def _found(alice: Caller, query: str, **more: Any) -> list[str]:
    answer = await alice.post("/search", {"query": query, **more})
    assert answer.status_code == 200, answer.text
    return sorted(item["fact"]["text"] for item in answer.json()["items"])


async def _check_plans(alice: Caller) -> None:
    for then, texts in {**_THEN, _now(): ["Plan is Team."]}.items():
        assert await _texts(alice, as_of=then) == texts
        assert await _found(alice, "which plan", as_of=then) == texts
    assert await alice.texts() == ["Plan is Team."]
    [live] = await alice.facts()
    chain = (await alice.get(f"/facts/{live['id']}/history")).json()["items"]
    assert [fact["text"] for fact in chain] == [text for text, _ in _PLANS]


@pytest.mark.parametrize("order", list(permutations(range(3))))
async def test_three_transcripts_in_any_order_tell_the_same_story(alice: Caller, order):
    for n in order:
        text, said_at = _PLANS[n]
        await alice.say(_spoken(text), created_at=said_at)
    await _check_plans(alice)


@pytest.mark.parametrize("order", list(permutations(range(3))))
async def test_a_model_that_dates_each_statement_tells_the_same_story(alice: Caller, order):
    """All three are said today, so that only the dates told say which came first."""
    for n in order:
        text, since = _PLANS[n]
        said = candidate(text, valid_from=datetime.fromisoformat(since))
        core = reading(alice.world.core, FakeExtractor(_only(said)), FakeJudge("CONTRADICTS"))
        await alice.post("/transcripts", {"messages": [{"role": "user", "content": text}]})
        await drain(alice.world, core)
    await _check_plans(alice)


@pytest.mark.parametrize("order", list(permutations(range(3))))
async def test_facts_written_in_any_order_tell_the_same_story(alice: Caller, order):
    for n in order:
        text, since = _PLANS[n]
        body = {"text": text, "kind": "profile", "valid_from": since}
        assert (await alice.post("/facts", body)).status_code == 201
    await _check_plans(alice)


async def test_a_value_that_came_back_has_a_place_for_each_time(alice: Caller):
    for text, said_at in (*_PLANS, ("Plan is Free.", "2026-05-01T09:00:00Z")):
        await alice.say(_spoken(text), created_at=said_at)

    assert await _texts(alice, as_of="2026-02-01T00:00:00Z") == ["Plan is Free."]
    assert await _texts(alice, as_of="2026-04-01T00:00:00Z") == ["Plan is Pro."]
    assert await _texts(alice, as_of="2026-05-15T00:00:00Z") == ["Plan is Free."]
    assert await alice.texts() == ["Plan is Team."]


async def test_the_two_clocks_are_asked_apart_and_together(alice: Caller):
    await alice.say("Our plan is Free.", created_at="2026-01-10T09:00:00Z")
    before = _now()
    await alice.say("Our plan is Pro.", created_at="2026-03-01T09:00:00Z")
    after = _now()

    april = "2026-04-01T00:00:00Z"
    assert await _texts(alice, as_of=april) == ["Plan is Pro."]
    assert await _texts(alice, as_of=april, known_at=before) == ["Plan is Free."]
    assert await _texts(alice, as_of=april, known_at=after) == ["Plan is Pro."]
    assert await _texts(alice, known_at=before) == ["Plan is Free."]
    assert await _texts(alice, known_at=after) == ["Plan is Pro."]
    assert await _texts(alice, known_at="2026-01-20T00:00:00Z") == []
    assert await _texts(alice, status="superseded", known_at=before) == []
    assert await _texts(alice, status="superseded", known_at=after) == ["Plan is Free."]
    assert len(await _texts(alice, status="all", known_at=after)) == 2


async def test_ends_are_exclusive_and_a_fact_holds_from_when_it_was_said(alice: Caller):
    for text, said_at in _PLANS[:2]:
        await alice.say(_spoken(text), created_at=said_at)

    assert await _texts(alice, as_of="2026-01-10T08:59:59Z") == []
    assert await _texts(alice, as_of="2026-01-10T09:00:00Z") == ["Plan is Free."]
    assert await _texts(alice, as_of="2026-03-01T08:59:59.999999Z") == ["Plan is Free."]
    assert await _texts(alice, as_of="2026-03-01T09:00:00Z") == ["Plan is Pro."]


async def test_what_was_undone_or_deleted_shows_in_the_history(alice: Caller):
    await alice.say("I live in Lisbon.")
    await alice.say("I moved to Porto.")
    [old] = await alice.facts("superseded")
    superseded = _now()
    await alice.post(f"/facts/{old['id']}/restore")
    restored = _now()

    assert await _texts(alice, known_at=superseded) == ["Lives in Porto."]
    assert await _texts(alice, known_at=restored) == ["Lives in Lisbon.", "Lives in Porto."]
    await alice.delete(f"/facts/{old['id']}")
    assert await _texts(alice, known_at=restored) == ["Lives in Porto."]
    assert await _texts(alice, known_at=superseded) == ["Lives in Porto."]


async def test_a_fact_past_its_time_is_expired_and_served_nowhere(alice: Caller):
    ends = datetime.now(UTC) - timedelta(seconds=1)
    body = {"text": "Uses the beta of Redis.", "kind": "preference", "pinned": True}
    said = (datetime.now(UTC) - timedelta(days=2)).isoformat()
    await alice.post("/facts", {**body, "valid_from": said, "expires_at": ends.isoformat()})

    [expired] = await alice.facts("expired")
    assert expired["status"] == "expired"
    assert await alice.facts() == []
    assert await alice.block("redis") == ""
    assert await _found(alice, "redis") == []
    assert await _found(alice, "redis", include_superseded=True) == []
    assert await _texts(alice, as_of=_now()) == await _found(alice, "redis", as_of=_now()) == []
    then = (ends - timedelta(days=1)).isoformat()
    assert await _texts(alice, as_of=then) == ["Uses the beta of Redis."]
    assert await _found(alice, "redis", as_of=then) == ["Uses the beta of Redis."]


async def test_quarantine_is_no_belief_at_any_time(alice: Caller):
    await alice.say("I live in Lisbon.")
    before = _now()
    await alice.call("POST", "/v1/quarantine", json={"user": "alice"})

    assert await _texts(alice, as_of=_now()) == []
    assert await _texts(alice, as_of=_now(), known_at=before) == ["Lives in Lisbon."]
    assert await _texts(alice, as_of=_now(), status="quarantined") == ["Lives in Lisbon."]
    assert await _texts(alice, known_at=_now()) == []


_TAGGED: list[tuple[str, Any]] = [
    ("a", "data"), ("b", 9), ("c", "9"), ("d", True), ("e", "true"), ("f", None), ("g", 2.5),
    ("h", {"x": 1}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "found"),
    [("data", "a"), ("9", "bc"), ('"9"', "c"), ("9.0", "b"), ("true", "de"), ("null", "f"),
     ("2.50", "g"), ("x", ""), ("NaN", ""), ("1e999", ""), ("[" * 3000, ""), ("\x00", ""),
     ('"\\ud800"', ""), ("9" * 5000, ""), ('{"x": 1}', "")],
    ids=lambda value: value[:12],
)  # fmt: skip
async def test_metadata_is_found_by_what_its_value_spells(alice: Caller, value: str, found: str):
    for name, stored in _TAGGED:
        body = {"text": f"Uses tool {name}.", "kind": "preference", "metadata": {"k.e y": stored}}
        assert (await alice.post("/facts", body)).status_code == 201
    answer = await _texts(alice, **{"metadata.k.e y": value})
    assert answer == [f"Uses tool {name}." for name in found]


async def test_metadata_filters_add_up_and_bind_the_cursor(alice: Caller):
    for n in range(6):
        metadata = {"team": "data" if n % 2 else "web", "n": n}
        body = {"text": f"Uses tool {n}.", "kind": "preference", "metadata": metadata}
        await alice.post("/facts", body)

    both = {"metadata.team": "data", "metadata.n": "3"}
    assert await _texts(alice, **both) == ["Uses tool 3."]
    page = await alice.get("/facts", params={"metadata.team": "data", "limit": 2})
    cursor = page.json()["next_cursor"]
    rest = await alice.get("/facts", params={"metadata.team": "data", "cursor": cursor})
    assert [fact["text"] for fact in rest.json()["items"]] == ["Uses tool 1."]
    foreign = await alice.get("/facts", params={"metadata.team": "web", "cursor": cursor})
    check_problem(foreign, 422, "bad_cursor")


@pytest.mark.parametrize("name", ["metadata", "metadata.", "metadata_team", "meta.team"])
async def test_only_a_key_of_the_metadata_can_be_asked_for(alice: Caller, name: str):
    shown = name if name[-1] != "." else "a field"
    detail = check_problem(await alice.get("/facts", params={name: "x"}), 422)["detail"]
    assert detail == f"query.{shown}: there is no such parameter."


async def test_a_metadata_filter_given_twice_is_named(alice: Caller):
    answer = await alice.get("/facts?metadata.team=a&metadata.team=b")
    assert check_problem(answer, 422)["detail"] == "query.metadata.team: is given twice."


async def test_undoing_a_late_verdict_overturns_it_and_nothing_else(alice: Caller):
    await alice.say("Our plan is Pro.", created_at="2026-03-01T09:00:00Z")
    await alice.say("Our plan is Free.", created_at="2026-01-10T09:00:00Z")
    [late] = await alice.facts("superseded")

    assert (await alice.post(f"/facts/{late['id']}/restore")).status_code == 200

    why = (await alice.get(f"/facts/{late['id']}/why")).json()
    assert [bool(verdict["overturned_at"]) for verdict in why["verdicts"]] == [True]
    assert await alice.texts() == ["Plan is Free.", "Plan is Pro."]


async def test_undoing_leaves_the_verdicts_by_which_a_fact_had_won(alice: Caller):
    for text, said_at in _PLANS:
        await alice.say(_spoken(text), created_at=said_at)
    [pro] = [fact for fact in await alice.facts("superseded") if "Pro" in fact["text"]]

    await alice.post(f"/facts/{pro['id']}/restore")

    why = (await alice.get(f"/facts/{pro['id']}/why")).json()
    overturned = {verdict["old"]: bool(verdict["overturned_at"]) for verdict in why["verdicts"]}
    assert overturned.pop(pro["id"]) is True
    assert list(overturned.values()) == [False]


def _same_place(pair: Pair) -> Relation:
    return "DUPLICATE" if pair.old.subject == pair.new.subject else "INDEPENDENT"


async def test_a_fact_taken_out_of_another_has_its_evidence_back(alice: Caller):
    core = reading(alice.world.core, FakeExtractor(), FakeJudge("INDEPENDENT"))
    for text in ("desk: by the window", "desk: at the window side"):
        await alice.post("/transcripts", {"messages": [{"role": "user", "content": text}]})
        await drain(alice.world, core)
    newer, older = await alice.facts()
    await alice.call("POST", "/v1/quarantine", json={"user": "alice"})
    for fact in (older, newer):
        async with alice.world.over(reading(core, judge=FakeJudge(_same_place))) as strict:
            caller = Caller(strict, alice.tenant_id, alice.key)
            revision = (await caller.get(f"/facts/{fact['id']}")).json()["revision"]
            released = await caller.call(
                "POST",
                f"/v1/quarantine/{fact['id']}/release",
                headers={"If-Match": f'"{revision}"'},
            )
            assert released.status_code == 200, released.text
    [kept] = await alice.facts()
    assert kept["confirmations"] == 1

    restored = await alice.post(f"/facts/{newer['id']}/restore")

    assert restored.status_code == 200, restored.text
    for fact in (older, newer):
        why = (await alice.get(f"/facts/{fact['id']}/why")).json()
        assert [row["quote"] for row in why["evidence"]] == [fact["text"]]
        assert why["fact"]["confirmations"] == 0
        assert all(
            verdict["overturned_at"]
            for verdict in why["verdicts"]
            if verdict["verdict"] == "DUPLICATE"
        )


async def test_a_fact_brought_back_from_past_its_time_is_live(alice: Caller):
    await alice.say("I live in Lisbon.")
    await alice.say("I moved to Porto.")
    [old] = await alice.facts("superseded")
    alice.world.execute(
        "update memory_fact set expires_at = now() where tenant_id = %s", alice.tenant_id
    )

    restored = (await alice.post(f"/facts/{old['id']}/restore")).json()

    assert (restored["status"], restored["expires_at"]) == ("live", None)
