"""The life of a session: how it grows and ends, what comes twice and what leaves no trace."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from app.memory.policy import Policy
from tests.fakes import FakeExtractor, decide, drain, reading, silence, until, working
from tests.world import Caller


@pytest.fixture(autouse=True)
def _alone(world):
    silence(world)


@pytest.fixture
def extractor():
    return FakeExtractor()


@pytest.fixture
def core(world, extractor):
    return reading(world.core, extractor)


async def append(caller: Caller, *texts: str, session: str = "s", **body):
    turns = [{"role": "user", "content": text} for text in texts]
    answer = await caller.post(f"/sessions/{session}/messages", {"messages": turns, **body})
    assert answer.status_code == 202, answer.text
    return answer.json()


async def state(caller: Caller, session: str = "s"):
    return (await caller.get(f"/sessions/{session}")).json()


def texts_read(extractor: FakeExtractor) -> list[list[str]]:
    return [[turn.text for turn in call] for call in extractor.calls]


def session_id(caller: Caller) -> UUID:
    rows = caller.world.rows("select id from memory_session where tenant_id = %s", caller.tenant_id)
    return rows[0][0]


async def test_session_is_extracted_by_itself_after_its_silence(core, alice, extractor):
    await decide(core, alice.tenant_id, Policy(session_silence=timedelta(seconds=1)))
    async with working(core):
        sent = await append(alice, "plan: Pro")
        assert sent["status"] == "open"

        await until(lambda: bool(extractor.calls))
        arrived = datetime.now(UTC)

    due = datetime.fromisoformat(sent["extract_after"])
    assert timedelta(0) <= arrived - due < timedelta(seconds=10)
    assert await alice.texts() == ["plan: Pro"]


async def test_activity_puts_the_end_off_until_the_cap(core, alice, extractor):
    policy = Policy(session_silence=timedelta(seconds=1), session_cap=timedelta(seconds=2))
    await decide(core, alice.tenant_id, policy)
    first = await append(alice, "a: 1")
    alice.world.execute(
        "update memory_session set opened_at = opened_at - interval '1.5 s' where tenant_id = %s",
        alice.tenant_id,
    )

    second = await append(alice, "b: 2")

    moments = [datetime.fromisoformat(sent["extract_after"]) for sent in (first, second)]
    assert moments[1] < moments[0], "the cap is nearer than a new silence"
    async with working(core):
        await until(lambda: bool(extractor.calls))
    assert texts_read(extractor) == [["a: 1", "b: 2"]]


async def test_active_session_is_looked_at_again_and_not_extracted(core, alice, extractor):
    await append(alice, "plan: Pro")
    alice.world.execute(
        "update procrastinate_jobs set scheduled_at = now() where queueing_lock = %s",
        f"due:{session_id(alice).hex}",
    )

    await drain(alice.world, core)

    assert not extractor.calls
    waiting = alice.world.rows(
        "select scheduled_at from procrastinate_jobs where queueing_lock = %s and status = 'todo'",
        f"due:{session_id(alice).hex}",
    )
    due = datetime.fromisoformat((await state(alice))["extract_after"])
    assert [row[0] for row in waiting] == [due]


async def test_one_look_waits_per_session_however_many_turns_come(alice):
    for n in range(5):
        await append(alice, f"a: {n}")

    jobs = alice.world.rows(
        "select task_name from procrastinate_jobs where args->>'session_id' = %s",
        session_id(alice).hex,
    )
    assert jobs == [("due",)]


async def test_whole_conversation_leaves_no_scheduled_look_behind(core, alice):
    await alice.post("/transcripts", {"messages": [{"role": "user", "content": "plan: Pro"}]})
    found = session_id(alice).hex
    await drain(alice.world, core)

    query = "select count(*) from procrastinate_jobs where args->>'session_id' = %s"
    assert alice.world.rows(query, found) == [(0,)]


@pytest.mark.parametrize(
    ("calls", "texts"),
    [(3, ["x"] * 170), (2, ["y" * 60_000])],
    ids=["500 turns", "100,000 characters"],
)
async def test_full_session_is_queued_at_once(alice, calls, texts):
    for _ in range(calls - 1):
        sent = await append(alice, *texts)
        assert sent["status"] == "open"

    assert (await append(alice, *texts))["status"] == "queued"


async def test_turns_after_the_end_open_the_session_and_only_they_are_read(core, alice, extractor):
    await append(alice, "a: 1", end=True)
    await drain(alice.world, core)
    assert (await state(alice))["status"] == "done"

    reopened = await append(alice, "b: 2")
    assert reopened["status"] == "open"
    await alice.post("/sessions/s/end")
    await drain(alice.world, core)

    assert texts_read(extractor) == [["a: 1"], ["b: 2"]]
    assert (await state(alice))["user_turns"] == 2


async def test_turns_that_come_during_extraction_wait_for_their_own_silence(core, alice, extractor):
    extractor.hold()
    async with working(core):
        await append(alice, "plan: Pro", end=True)
        await extractor.started.wait()
        during = await append(alice, "b: 2")
        extractor.go_on.set()
        await until(lambda: "plan: Pro" in texts_of(alice))

    after = await state(alice)
    assert during["status"] == "extracting"
    assert after["status"] == "open"
    assert datetime.fromisoformat(after["extract_after"]) > datetime.now(UTC)
    assert texts_read(extractor) == [["plan: Pro"]]


def texts_of(caller: Caller) -> list[str]:
    rows = caller.world.rows("select text from memory_fact where tenant_id = %s", caller.tenant_id)
    return [row[0] for row in rows]


async def test_end_during_extraction_extracts_what_came_meanwhile(core, alice, extractor):
    extractor.hold()
    async with working(core):
        await append(alice, "a: 1", end=True)
        await extractor.started.wait()
        await append(alice, "b: 2")
        ended = await alice.post("/sessions/s/end")
        extractor.go_on.set()
        done = await alice.get("/sessions/s?wait=10")

    assert ended.status_code == 202
    assert done.json()["status"] == "done"
    assert texts_read(extractor) == [["a: 1"], ["b: 2"]]


async def test_turns_that_come_while_a_session_waits_for_its_retry_dont_put_it_off(
    core, alice, extractor
):
    extractor.fails_with = [RuntimeError("no")]
    await append(alice, "a: 1", end=True)
    await drain(alice.world, core)
    before = await state(alice)

    sent = await append(alice, "b: 2")

    assert before["status"] == sent["status"] == "queued"
    assert sent["extract_after"] == before["extract_after"]


async def test_end_reaches_a_session_whose_look_was_set_for_later(core, alice, extractor):
    await append(alice, "a: 1")
    extractor.fails_with = [RuntimeError("no")]
    await alice.post("/sessions/s/end")
    await drain(alice.world, core)

    looks = alice.world.rows(
        "select scheduled_at < now() + interval '1 minute' from procrastinate_jobs"
        " where queueing_lock = %s and status = 'todo'",
        f"due:{session_id(alice).hex}",
    )
    assert looks == [(True,)], "the retry in seconds must not wait for the silence of half an hour"


async def test_known_message_ids_are_duplicates_also_after_extraction(core, alice, extractor):
    turns = [{"role": "user", "content": f"a: {n}", "id": f"m{n}"} for n in range(1, 11)]
    await alice.post("/sessions/s/messages", {"messages": turns, "end": True})
    await drain(alice.world, core)

    overlap = [{"role": "user", "content": "changed", "id": f"m{n}"} for n in range(5, 16)]
    again = await alice.post("/sessions/s/messages", {"messages": overlap, "end": True})
    await drain(alice.world, core)

    assert again.json()["accepted"] == 5
    assert again.json()["duplicates"] == 6
    assert [len(call) for call in extractor.calls] == [10, 5]


async def test_same_id_twice_in_one_call_counts_once(alice):
    turns = [{"role": "user", "content": "a: 1", "id": "m"}] * 2

    answer = await alice.post("/sessions/s/messages", {"messages": turns})

    assert (answer.json()["accepted"], answer.json()["duplicates"]) == (1, 1)


async def test_session_without_user_turns_is_done_once_ended(alice):
    turns = [{"role": "assistant", "content": "Hello"}]

    answer = await alice.post("/sessions/s/messages", {"messages": turns, "end": True})

    assert answer.json()["status"] == "done"
    assert answer.json()["accepted"] == 0


async def test_incognito_session_leaves_no_trace(core, alice, extractor):
    await append(alice, "a: secret plans")

    answer = await append(alice, "b: more", memory="off")
    later = await append(alice, "c: still more", end=True)
    await drain(alice.world, core)

    assert answer["status"] == later["status"] == "skipped"
    assert (await alice.get("/sessions/s")).status_code == 404
    assert not extractor.calls
    for table in ("message", "memory_session", "seen_message", "evidence", "memory_fact"):
        query = f"select count(*) from {table} where tenant_id = %s"
        assert alice.world.rows(query, alice.tenant_id) == [(0,)]


async def test_session_that_turns_incognito_during_its_extraction_stores_nothing(
    core, alice, extractor
):
    extractor.hold()
    async with working(core):
        await append(alice, "a: 1", end=True)
        await extractor.started.wait()
        await append(alice, "b: 2", memory="off")
        extractor.go_on.set()
        await until(lambda: extractor.under_way == 0)

    assert await alice.texts("all") == []


async def test_future_turn_counts_as_said_when_it_arrived(core, alice):
    ahead = datetime.now(UTC) + timedelta(minutes=4)
    turn = {"role": "user", "content": "plan: Pro", "created_at": ahead.isoformat()}
    await alice.post("/sessions/s/messages", {"messages": [turn], "end": True})
    await drain(alice.world, core)

    (fact,) = await alice.facts()
    assert datetime.fromisoformat(fact["said_at"]) < datetime.now(UTC)
