"""A flood of facts, to push the good ones out: caps hold, and what a person pinned stays."""

from collections.abc import Sequence

import pytest

from app.llm import Candidate, Turn
from app.memory import forgetting
from tests.fakes import FakeEmbedder, FakeExtractor, FakeJudge, candidate, reading
from tests.memory.test_forgetting import policy
from tests.world import Caller

PINNED = ["Never suggest AWS.", "Answer in Romanian.", "Deploys on Thursdays."]
AT_ONCE = 100
"""Facts that one session can bring."""


def _flood(turns: Sequence[Turn]) -> list[Candidate]:
    name = turns[0].text
    return [candidate(f"{name} {n}", quote=name, subject=f"{name} {n}") for n in range(AT_ONCE)]


async def _hold(alice: Caller, sessions: int, cap: int) -> None:
    core = reading(alice.world.core, FakeExtractor(_flood), FakeJudge(), FakeEmbedder())
    async with alice.world.over(core) as world:
        alice = Caller(world, alice.tenant_id, alice.key)
        await policy(alice, forgetting="enforce", max_facts_per_user=cap)
        for text in PINNED:
            body = {"text": text, "kind": "constraint", "pinned": True}
            assert (await alice.post("/facts", body)).status_code == 201

        await alice.say("Flood of the first hour")
        assert await _live(alice) == 50 + len(PINNED)

        await policy(alice, max_facts_per_day=10_000)
        for n in range(1, sessions):
            turn = {"role": "user", "content": f"Flood of hour {n}"}
            await alice.post("/transcripts", {"messages": [turn], "session": f"s{n}"})
            await world.drain(core)
        assert await _live(alice) == cap + len(PINNED)
        day = (await alice.call("GET", "/v1/tenant/stats")).json()["days"][-1]
        assert day["sessions"] == sessions
        assert day["facts_added"] + day["rejected"]["cap"] == sessions * AT_ONCE + len(PINNED)

        await policy(alice, max_facts_per_user=40)
        report = await forgetting.forget_now(core, alice.tenant_id, by="cli")
        assert report.facts == {"max_facts_per_user": cap - 40}
        assert await _live(alice) == 40 + len(PINNED)
        assert set(PINNED) <= set(await alice.texts())
        block = await alice.block("flood")
        assert all(text in block for text in PINNED)


async def _live(alice: Caller) -> int:
    return int((await alice.call("GET", "/v1/tenant/stats")).json()["facts_live"])


async def test_three_hundred_facts_in_one_day_stop_at_the_caps(alice: Caller):
    await _hold(alice, 3, 120)


@pytest.mark.soak
@pytest.mark.timeout(1800)
async def test_five_thousand_facts_in_one_day_stop_at_the_caps(alice: Caller):
    await _hold(alice, 50, 500)
