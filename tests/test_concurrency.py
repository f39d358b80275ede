"""Many writers at one user's memory: nothing doubled, nothing lost, nobody in another's way."""

import asyncio
import random
from datetime import timedelta

import pytest

from tests.fakes import FakeExtractor, reading, silence, until, working
from tests.world import Caller

CITIES = ["Linz", "Graz", "Porto", "Lisbon", "Berlin", "Vienna", "Paris", "Rome"]


@pytest.fixture(autouse=True)
def _alone(world):
    silence(world)


def settled(caller: Caller, count: int):
    query = "select count(*) from memory_session where tenant_id = %s and status = 'done'"
    return lambda: caller.world.rows(query, caller.tenant_id) == [(count,)]


async def post(caller: Caller, text: str) -> None:
    answer = await caller.post("/transcripts", {"messages": [{"role": "user", "content": text}]})
    assert answer.status_code == 202, answer.text


async def state_fact(caller: Caller, text: str) -> None:
    answer = await caller.post("/facts", {"text": text, "kind": "profile"})
    assert answer.status_code in {200, 201}, answer.text


async def test_fifty_conversations_with_one_sentence_are_one_fact_with_fifty_pieces_of_evidence(
    world, alice
):
    turnstile = asyncio.Semaphore(8)

    async def one() -> None:
        async with turnstile:
            await post(alice, "I live in Lisbon.")

    async with working(world.core):
        await asyncio.gather(*(one() for _ in range(50)))
        await until(settled(alice, 50), within=90)

    (fact,) = await alice.facts("all")
    assert fact["confirmations"] == 49
    why = (await alice.get(f"/facts/{fact['id']}/why")).json()
    assert len(why["evidence"]) == 50


async def one_round(caller: Caller, number: int) -> None:
    """Let 2 to 8 writers contradict each other and look at what is left."""
    dice = random.Random(number)  # noqa: S311 - a round that can be repeated
    user = caller.of(f"user {number}")
    cities = dice.sample(CITIES, dice.randint(2, 8))
    by_hand = [dice.random() < 0.5 for _ in cities]
    writers = [
        state_fact(user, f"Lives in {city}.") if hand else post(user, f"I live in {city}.")
        for city, hand in zip(cities, by_hand, strict=True)
    ]
    await asyncio.gather(*writers)
    waiting = (
        "select count(*) from memory_session s join user_directory d using (tenant_id, user_id)"
        " where tenant_id = %s and d.external_id = %s and s.status <> 'done'"
    )
    await until(
        lambda: caller.world.rows(waiting, caller.tenant_id, user.user) == [(0,)], within=60
    )
    facts = await user.facts("all")
    assert len([fact for fact in facts if fact["status"] == "live"]) == 1
    assert len(facts) == len(cities)
    successors = [fact["superseded_by"] for fact in facts if fact["superseded_by"]]
    assert len(set(successors)) == len(successors) == len(cities) - 1, "the chain is linear"


async def test_contradicting_writers_always_leave_one_live_fact_in_one_chain(world, alice):
    async with working(world.core):
        for number in range(5):
            await one_round(alice, number)


@pytest.mark.soak
@pytest.mark.timeout(1800)
async def test_two_hundred_rounds_of_contradicting_writers(world, alice):
    async with working(world.core):
        for number in range(200):
            await one_round(alice, number)


async def test_fact_deleted_while_it_is_being_said_again_does_not_come_back(world, alice):
    await alice.say("I live in Lisbon.")
    (fact,) = await alice.facts()
    extractor = FakeExtractor()
    real = world.core.extractor
    extractor.hold()

    class _Held:
        name = real.name

        async def extract(self, turns, known, *, instructions=None):
            await extractor.extract(turns, known)
            return await real.extract(turns, known, instructions=instructions)

    async with working(reading(world.core, _Held())):
        await post(alice, "I live in Lisbon.")
        await extractor.started.wait()
        assert (await alice.delete(f"/facts/{fact['id']}")).status_code == 204
        extractor.go_on.set()
        await until(settled(alice, 2))

    assert await alice.texts("all") == []


async def test_deleting_and_appending_and_extracting_at_once_never_deadlock(world, alice):
    async def busy(session: str) -> None:
        for n in range(5):
            turns = [{"role": "user", "content": f"I live in {CITIES[n]}."}]
            body = {"messages": turns, "end": n % 2 == 0}
            sent = await alice.post(f"/sessions/{session}/messages", body)
            assert sent.status_code == 202, sent.text
            if n % 3 == 2:
                gone = await alice.delete(f"/sessions/{session}")
                assert gone.status_code in {200, 404}, gone.text
            for fact in (await alice.facts())[:1]:
                deleted = await alice.delete(f"/facts/{fact['id']}")
                assert deleted.status_code in {204, 404}, deleted.text

    counted = "select deadlocks from pg_stat_database where datname = current_database()"
    before = world.rows(counted)
    async with working(world.core):
        await asyncio.gather(*(busy(session) for session in ("a", "b", "c", "d")))
    assert world.rows(counted) == before


async def test_no_transaction_is_idle_while_the_extractor_thinks(world, alice):
    extractor = FakeExtractor()
    extractor.hold()
    idle: list[timedelta] = []
    query = (
        "select coalesce(max(clock_timestamp() - state_change), interval '0')"
        " from pg_stat_activity"
        " where state like 'idle in transaction%%' and datname = current_database()"
    )
    async with working(reading(world.core, extractor)):
        for user in ("a", "b", "c"):
            await post(alice.of(user), "plan: Pro")
        await until(lambda: extractor.under_way == 3)
        for _ in range(20):
            idle.append(world.rows(query)[0][0])
            await asyncio.sleep(0.1)
        extractor.go_on.set()
        await until(settled(alice, 3))

    assert max(idle) < timedelta(seconds=1)
