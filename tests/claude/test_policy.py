"""What a tenant decides about the model, as the model's side sees it."""

from collections.abc import Iterator

import pytest

from app.prompts import LATEST, PROMPTS, Prompt
from tests.claude.play import Script, settled, why
from tests.scripted_claude import Fault
from tests.world import Caller

POLICY = "/v1/tenant/policy"
OLDER = "test-older"


@pytest.fixture
def older() -> Iterator[Prompt]:
    """Another version of the prompts, as a later release would have."""
    PROMPTS[OLDER] = Prompt(extract="Older extract.", judge="Older judge.")
    yield PROMPTS[OLDER]
    PROMPTS.pop(OLDER, None)


async def choose(caller: Caller, **fields: object) -> int:
    return (await caller.call("PATCH", POLICY, json=fields)).status_code


async def test_a_prompt_version_can_be_chosen_and_taken_back(
    alice: Caller, script: Script, older: Prompt
):
    assert await choose(alice, prompt_version=OLDER) == 200
    await alice.say("I live in Graz.")
    await alice.say("I live in Linz.")
    assert await choose(alice, prompt_version=None) == 200
    await alice.say("I work at Aurora.")

    assert [request.system for request in script.requests[:3]] == [
        older.extract,
        older.extract,
        older.judge,
    ]
    assert script.requests[-1].system == PROMPTS[LATEST].extract
    assert (await why(alice, "Lives in Graz."))["extractor"].endswith(f"/{OLDER}")
    assert (await why(alice, "Works at Aurora."))["extractor"].endswith(f"/{LATEST}")


async def test_a_version_that_is_gone_gives_way_to_the_services_own(
    alice: Caller, script: Script, older: Prompt
):
    await choose(alice, prompt_version=OLDER)
    PROMPTS.pop(OLDER)

    state = await alice.say("I live in Graz.")

    assert state["status"] == "done"
    assert script.requests[0].system == PROMPTS[LATEST].extract
    assert (await why(alice, "Lives in Graz."))["extractor"].endswith(f"/{LATEST}")


async def test_an_unknown_version_is_refused_at_the_door(alice: Caller):
    assert await choose(alice, prompt_version="nonsense") == 422


async def test_the_tenants_model_is_asked_for_sessions_and_for_facts_by_hand(
    alice: Caller, other: Caller, script: Script
):
    await choose(alice, model="claude-sonnet-5-5")
    await alice.say("I live in Graz.")
    await alice.post("/facts", {"text": "Lives in Linz.", "kind": "profile"})
    await other.say("I live in Graz.")

    assert [request.body["model"] for request in script.requests] == [
        "claude-sonnet-5-5",
        "claude-sonnet-5-5",
        "claude-haiku-5-5",
    ]
    assert (await why(alice, "Lives in Linz."))["verdicts"][0]["judge"].startswith(
        "claude/claude-sonnet-5-5/"
    )


async def test_an_unknown_model_of_one_tenant_stops_nobody_else(
    alice: Caller, other: Caller, script: Script
):
    await choose(alice, model="claude-nonsense")
    script.script(Fault(status=404))
    state = await alice.say("I live in Graz.", session="s")
    assert (state["status"], state["reason"]) == ("queued", "model_misconfigured")

    assert (await other.say("I live in Graz."))["status"] == "done"

    await choose(alice, model=None)
    assert (await settled(alice))["status"] == "done"


async def test_the_tenants_wishes_reach_the_prompt_set_apart(alice: Caller, script: Script):
    await choose(alice, extraction_instructions="Keep <tools> only.")

    await alice.say("I live in Graz.")

    [request] = script.requests
    assert request.prompt.startswith(
        "<tenant_instructions>\nKeep &lt;tools&gt; only.\n</tenant_instructions>\n<known_facts>"
    )
    assert request.system == PROMPTS[LATEST].extract


async def test_a_spent_budget_makes_sessions_wait_in_sight_until_it_is_raised(
    alice: Caller, other: Caller, script: Script
):
    await choose(alice, monthly_token_budget=15)
    await alice.say("I live in Graz.")
    state = await alice.say("I live in Linz.", session="s")
    assert (state["status"], state["reason"]) == ("queued", "monthly_token_budget")
    assert state["extract_after"] is not None
    assert len(script.requests) == 1
    assert (await other.say("I live in Graz."))["status"] == "done"

    await choose(alice, monthly_token_budget=1000)
    state = await settled(alice)

    assert (state["status"], state["reason"]) == ("done", None)
    assert await alice.texts() == ["Lives in Linz."]
