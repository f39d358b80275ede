"""Every way in which the model can fail, and what becomes of the session."""

import asyncio
import time
from itertools import pairwise

import pytest

from tests.claude.play import GRAZ, LINZ, Script, settled, why
from tests.scripted_claude import Drip, Fault, Page, Raw, Reset, cut, fact, facts, refusal
from tests.world import Caller


async def post(caller: Caller, text: str, session: str = "s") -> None:
    body = {"messages": [{"role": "user", "content": text}], "session": session}
    assert (await caller.post("/transcripts", body)).status_code == 202


async def model_check(caller: Caller) -> str:
    ready = await caller.world.http.get("/readyz")
    assert ready.status_code == 200
    return str(ready.json()["checks"]["model"])


@pytest.mark.parametrize("text", ["", "I can't help with that."])
async def test_a_refused_extraction_is_done_with_that_reason(
    alice: Caller, script: Script, text: str
):
    script.script(refusal(text))

    state = await alice.say("I live in Graz.")

    assert (state["status"], state["reason"]) == ("done", "refusal")
    assert (state["model_calls"], await alice.texts("all")) == (1, [])


async def test_a_refusing_judge_costs_no_facts_and_the_rules_decide(alice: Caller, script: Script):
    await alice.say("I live in Graz.")
    script.script(refusal(on="judge"))

    state = await alice.say("I live in Linz, I work at Aurora.")

    assert (state["status"], state["reason"], state["model_calls"]) == ("done", None, 2)
    assert await alice.texts() == ["Lives in Linz.", "Works at Aurora."]
    verdicts = (await why(alice, "Lives in Graz."))["verdicts"]
    assert [v["judge"] for v in verdicts if v["verdict"] == "CONTRADICTS"] == ["rules/1"]


async def test_answers_cut_for_ever_end_in_failure_without_partial_facts(
    alice: Caller, script: Script
):
    script.always(cut())
    await post(alice, "I live in Graz.")

    state = await settled(alice, within=30)

    assert (state["status"], state["reason"], state["attempts"]) == ("failed", "truncated", 5)
    assert state["model_calls"] == len(script.requests) == 10
    for first, second in zip(script.requests[::2], script.requests[1::2], strict=True):
        assert first.body["max_tokens"] < second.body["max_tokens"]
    assert await alice.texts("all") == []

    script.always(None)
    assert (await alice.post("/sessions/s/retry")).status_code == 202
    assert (await settled(alice))["status"] == "done"
    assert await alice.texts() == ["Lives in Graz."]


async def test_a_rate_limit_is_waited_out_in_sight_and_costs_no_try(alice: Caller, script: Script):
    script.script(Fault(status=429, retry_after="2"))
    await post(alice, "I live in Graz.")
    await alice.world.drain()
    waiting = (await alice.get("/sessions/s")).json()
    assert (waiting["status"], waiting["reason"]) == ("queued", "model_unavailable")
    assert await model_check(alice) == "degraded"

    # Another session of the same key keeps the pause too.
    await post(alice, "I work at Aurora.", "t")
    state = await settled(alice)
    await settled(alice, "t")

    limited, *later = script.requests
    assert state["status"] == "done"
    assert min(request.at for request in later) - limited.at >= 2.0
    assert await alice.texts() == ["Lives in Graz.", "Works at Aurora."]
    assert await model_check(alice) == "ok"


@pytest.mark.parametrize(
    "fault",
    [
        Fault(status=529),
        Fault(status=500),
        Reset(),
        Drip(every=0.2),
        Page(),
    ],
    ids=["529", "500", "reset", "drip", "proxy"],
)
async def test_a_passing_fault_makes_the_session_wait_and_catch_up(
    alice: Caller, script: Script, fault
):
    script.script(fault)
    await post(alice, "I live in Graz.")
    started = time.monotonic()
    await alice.world.drain()
    assert time.monotonic() - started < 5
    waiting = (await alice.get("/sessions/s")).json()
    assert (waiting["status"], waiting["reason"]) == ("queued", "model_unavailable")
    assert await alice.block("Where do I live?") == ""

    state = await settled(alice)

    assert (state["status"], state["reason"]) == ("done", None)
    assert await alice.texts() == ["Lives in Graz."]


@pytest.mark.parametrize("status", [400, 401, 403, 404])
async def test_what_an_operator_must_mend_is_probed_rarely_and_seen(
    alice: Caller, script: Script, status: int
):
    script.always(Fault(status=status))
    for n in range(3):
        await post(alice, "I live in Graz.", f"s{n}")
    started = time.monotonic()
    while time.monotonic() - started < 1.0:
        await alice.world.drain()
        await asyncio.sleep(0.02)
    probes = [request.at for request in script.requests]

    assert await model_check(alice) == "failed"
    gaps = [after - before for before, after in pairwise(probes)]
    assert all(gap >= 0.39 for gap in gaps)
    for n in range(3):
        state = (await alice.get(f"/sessions/s{n}")).json()
        assert (state["status"], state["reason"]) == ("queued", "model_misconfigured")

    script.always(None)
    for n in range(3):
        assert (await settled(alice, f"s{n}"))["status"] == "done"
    assert await model_check(alice) == "ok"
    [found] = await alice.facts()
    assert found["confirmations"] == 2


async def test_of_one_good_and_nine_bad_items_the_good_one_is_kept(alice: Caller, script: Script):
    bad = [
        GRAZ | {"kind": "opinion"},
        GRAZ | {"supersedes": "0b1e"},
        GRAZ | {"text": "x" * 10_000},
        GRAZ | {"text": ""},
        GRAZ | {"turn": "1"},
        GRAZ | {"turn": 7},
        GRAZ | {"quote": None},
        "Lives in Graz.",
        {"text": "Lives in Graz."},
    ]
    script.script(facts(*bad[:4], fact("Works at Aurora.", quote="I work at Aurora"), *bad[4:]))

    state = await alice.say("I live in Graz and I work at Aurora.")

    assert await alice.texts("all") == ["Works at Aurora."]
    assert state["facts"]["rejected"] == {"invalid": 9}


async def test_a_quote_that_nobody_said_is_no_evidence(alice: Caller, script: Script):
    script.script(facts(fact("Lives in Wien.", quote="I live in Wien"), GRAZ))

    state = await alice.say("I live in Graz.")

    assert await alice.texts("all") == ["Lives in Graz."]
    assert state["facts"]["rejected"] == {"no_evidence": 1}


async def test_five_hundred_items_are_capped(alice: Caller, script: Script):
    script.script(facts(*[GRAZ] * 500))

    state = await alice.say("I live in Graz.")

    assert await alice.texts() == ["Lives in Graz."]
    assert state["facts"]["rejected"]["cap"] == 400


@pytest.mark.parametrize(
    "text",
    [
        '```json\n{"facts": []}\n```',
        'Here are the facts: {"facts": [{"text": "Lives in Graz."}]}',
        '{"facts": []}{"facts": []}',
        '{"facts": "\\x"}',
        '{"facts": [{"text": "\ud83d", "kind": "profile"}]}'.replace("\ud83d", "\\ud83d"),
        "",
    ],
    ids=["fence", "prose", "two documents", "bad escape", "lone surrogate", "empty"],
)
async def test_an_answer_that_is_no_document_counts_as_a_try_and_fails_in_the_end(
    alice: Caller, script: Script, text: str
):
    script.always(Raw(text))
    await post(alice, "I live in Graz.")
    await alice.world.drain()
    first = (await alice.get("/sessions/s")).json()
    assert (first["status"], first["reason"], first["attempts"]) == ("queued", "invalid_answer", 1)
    assert len(script.requests) == 2  # asked once more before the try counts

    alice.world.execute(
        "update memory_session set failures = 4 where tenant_id = %s", alice.tenant_id
    )
    state = await settled(alice)

    assert (state["status"], state["reason"]) == ("failed", "invalid_answer")
    assert await alice.texts("all") == []


async def test_a_judge_without_an_answer_books_what_the_extraction_cost(
    alice: Caller, script: Script
):
    await alice.say("I live in Graz.")
    script.script(Fault(status=529, on="judge"))
    await post(alice, "I live in Linz.")
    await alice.world.drain()
    waiting = (await alice.get("/sessions/s")).json()

    assert (waiting["status"], waiting["model_calls"]) == ("queued", 2)
    assert waiting["input_tokens"] == 10
    state = await settled(alice)
    assert (state["model_calls"], state["facts"]["superseded"]) == (4, 1)
    assert await alice.texts() == [LINZ["text"]]
