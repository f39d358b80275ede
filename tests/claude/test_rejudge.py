"""A fact written by hand never waits for a slow judge, and is judged again when there is one."""

import asyncio
import json
import time
from typing import Any

import pytest

from tests.claude.play import Script, why
from tests.scripted_claude import Default, Fault, Raw, fact, refusal
from tests.world import Caller

CAT = "Has a cat called Miso."
DOG = "Has a dog called Miso."
FELINE = "The cat is called Miso."


async def write(caller: Caller, text: str, **fields: Any) -> dict[str, Any]:
    answer = await caller.post("/facts", {"text": text, "kind": "profile", **fields})
    assert answer.status_code in {200, 201}, answer.text
    written: dict[str, Any] = answer.json()
    return written


async def judged(caller: Caller, within: float = 5) -> None:
    """Run the queue until no fact waits for its judge."""
    deadline = time.monotonic() + within
    while waiting(caller):
        assert time.monotonic() < deadline
        await caller.world.drain()
        await asyncio.sleep(0.03)


def waiting(caller: Caller) -> int:
    [(number,)] = caller.world.rows(
        "select count(*) from procrastinate_jobs where task_name = 'rejudge'"
        " and args->>'tenant_id' = %s",
        caller.tenant_id.hex,
    )
    return int(number)


def put_off(caller: Caller, hours: int) -> None:
    caller.world.execute(
        "update procrastinate_jobs set scheduled_at = now() + make_interval(hours => %s)"
        " where task_name = 'rejudge' and args->>'tenant_id' = %s",
        hours,
        caller.tenant_id.hex,
    )


@pytest.fixture
def pets(script: Script) -> Script:
    script.told = {
        (CAT, DOG): "CONTRADICTS",
        (CAT, FELINE): "DUPLICATE",
        ("Has a budgie called Kiwi.", "Has a parrot called Kiwi."): "CONTRADICTS",
    }
    return script


async def test_a_quick_judge_decides_at_once_and_nothing_is_queued(alice: Caller, pets: Script):
    await write(alice, CAT)

    written = await write(alice, DOG)

    assert len(written["superseded"]) == 1
    assert waiting(alice) == 0


@pytest.mark.parametrize(
    "fault", [Default(delay=0.8), Fault(status=529), Fault(status=401), Raw("no")], ids=str
)
async def test_without_a_timely_judge_the_rules_decide_and_the_judge_later(
    alice: Caller, pets: Script, fault: Any
):
    await write(alice, CAT)
    pets.script(fault)
    if isinstance(fault, Raw):
        pets.script(fault)
    started = time.monotonic()
    written = await write(alice, DOG)
    assert time.monotonic() - started < 2
    assert (written["verdict"], written["superseded"]) == ("added", [])
    assert await alice.texts() == [CAT, DOG]

    await judged(alice)

    assert await alice.texts() == [DOG]
    explained = await why(alice, CAT)
    assert explained["fact"]["superseded_by"] == written["fact"]["id"]
    last = explained["verdicts"][-1]
    assert (last["verdict"], last["judge"]) == ("CONTRADICTS", "claude/claude-haiku-5-5/1")
    assert explained["events"][-1]["by"] == "worker:claude/claude-haiku-5-5/1"


async def test_it_waits_as_long_as_the_model_is_down(alice: Caller, pets: Script):
    await write(alice, CAT)
    pets.always(Fault(status=500))
    await write(alice, DOG)
    for _ in range(5):
        await alice.world.drain()
        await asyncio.sleep(0.05)
    assert (await alice.texts(), waiting(alice)) == ([CAT, DOG], 1)

    pets.always(None)
    await judged(alice)

    assert await alice.texts() == [DOG]


async def test_a_duplicate_goes_into_the_older_fact_with_its_evidence_and_pin(
    alice: Caller, pets: Script
):
    await write(alice, CAT)
    pets.script(Fault(status=529))
    written = await write(alice, FELINE, pinned=True)
    assert written["verdict"] == "added"
    pets.taught = [fact(FELINE, quote="the cat is called Miso", subject="pets")]
    put_off(alice, 1)
    await alice.say("By the way, the cat is called Miso.")
    put_off(alice, 0)

    await judged(alice)

    [found] = await alice.facts()
    assert (found["text"], found["pinned"], found["confirmations"]) == (CAT, True, 2)
    assert [e["quote"] for e in (await why(alice, CAT))["evidence"]] == ["the cat is called Miso"]
    gone = (await why(alice, FELINE))["fact"]
    assert (gone["id"], gone["superseded_by"]) == (written["fact"]["id"], found["id"])


async def test_it_happens_once_however_often_the_job_runs(alice: Caller, pets: Script):
    await write(alice, CAT)
    pets.script(Fault(status=529))
    await write(alice, DOG)
    again = alice.world.rows(
        "select task_name, args from procrastinate_jobs where args->>'tenant_id' = %s",
        alice.tenant_id.hex,
    )
    await judged(alice)
    before = await why(alice, CAT), await why(alice, DOG), len(pets.requests)

    for task, args in again:
        alice.world.execute(
            "insert into procrastinate_jobs (queue_name, task_name, args)"
            " values ('default', %s, %s::jsonb)",
            task,
            json.dumps(args),
        )
    await judged(alice)

    assert (await why(alice, CAT), await why(alice, DOG), len(pets.requests)) == before


async def test_a_pair_that_a_person_overturned_is_never_judged_again(alice: Caller, pets: Script):
    old = await write(alice, CAT)
    pets.script(Fault(status=529))
    await write(alice, DOG)
    await judged(alice)
    assert (await alice.post(f"/facts/{old['fact']['id']}/restore")).status_code == 200
    asked = len(pets.requests)
    alice.world.execute(
        "insert into procrastinate_jobs (queue_name, task_name, args) select 'default', 'rejudge',"
        " jsonb_build_object('tenant_id', replace(tenant_id::text, '-', ''), 'user_id',"
        " replace(user_id::text, '-', ''), 'fact_id', replace(id::text, '-', ''))"
        " from memory_fact where tenant_id = %s",
        alice.tenant_id,
    )

    await judged(alice)

    assert await alice.texts() == [CAT, DOG]
    assert len(pets.requests) == asked


async def test_the_newer_statement_wins_though_it_is_the_older_fact(alice: Caller, pets: Script):
    await write(alice, CAT)
    pets.script(Fault(status=529))
    await write(alice, DOG)
    put_off(alice, 1)
    pets.taught = [fact(CAT, quote="still have a cat", subject="pets")]
    await alice.say("No wait, I still have a cat called Miso.")
    put_off(alice, 0)

    await judged(alice)

    assert await alice.texts() == [CAT]


async def test_an_unrelated_contradiction_is_overruled(alice: Caller, pets: Script):
    await write(alice, "Lives in Graz.")
    await write(alice, "Has a cat called Miso in Graz.")
    pets.script(Fault(status=529))
    await write(alice, "Works at Aurora in Graz.")
    pets.otherwise = "CONTRADICTS"

    await judged(alice)

    assert len(await alice.facts()) == 3


async def test_a_refusal_leaves_the_rules_word_standing(alice: Caller, pets: Script):
    await write(alice, CAT)
    pets.script(Fault(status=529), refusal())
    await write(alice, DOG)

    await judged(alice)

    assert await alice.texts() == [CAT, DOG]


async def test_the_cost_of_judging_by_hand_is_booked_and_a_spent_budget_waits(
    alice: Caller, pets: Script
):
    await write(alice, CAT)
    await write(alice, "Has a budgie called Kiwi.")
    [(spent,)] = alice.world.rows(
        "select sum(count)::int from tenant_usage where tenant_id = %s and name like '%%_tokens'",
        alice.tenant_id,
    )
    assert spent == 15
    await alice.call("PATCH", "/v1/tenant/policy", json={"monthly_token_budget": 1})
    await write(alice, "Has a parrot called Kiwi.")
    await alice.world.drain()
    assert (len(pets.requests), waiting(alice)) == (1, 1)

    await alice.call("PATCH", "/v1/tenant/policy", json={"monthly_token_budget": None})
    await judged(alice)

    assert await alice.texts() == [CAT, "Has a parrot called Kiwi."]


async def test_jobs_hold_random_ids_alone(alice: Caller, pets: Script):
    await write(alice, CAT)
    pets.script(Fault(status=529))
    await write(alice, DOG)

    [(arguments,)] = alice.world.rows(
        "select args from procrastinate_jobs where task_name = 'rejudge'"
        " and args->>'tenant_id' = %s",
        alice.tenant_id.hex,
    )
    assert set(arguments) == {"tenant_id", "user_id", "fact_id"}
    await judged(alice)


async def test_a_correction_by_hand_is_judged_again_too(alice: Caller, pets: Script):
    await write(alice, CAT)
    wrong = await write(alice, "Has a parrot called Kiwi.")
    pets.script(Fault(status=529))
    answer = await alice.call(
        "PATCH",
        f"{alice.base}/facts/{wrong['fact']['id']}",
        json={"text": DOG},
        headers={"If-Match": '"1"'},
    )
    assert answer.status_code == 200
    assert await alice.texts() == [CAT, DOG]

    await judged(alice)

    assert await alice.texts() == [DOG]
