"""From a session to facts: evidence, time, failure, and what a person does meanwhile."""

from datetime import UTC, datetime, timedelta
from itertools import permutations
from uuid import uuid4

import pytest

from app.db import Scope
from app.llm import ModelAnsweredBadly, ModelMisconfigured, ModelRefused, ModelUnavailable
from app.memory import extract
from tests.fakes import FakeExtractor, FakeJudge, candidate, drain, reading, silence, until, working
from tests.memory.test_forgetting import policy
from tests.world import Caller


@pytest.fixture(autouse=True)
def _alone(world):
    silence(world)


@pytest.fixture
def extractor():
    return FakeExtractor()


@pytest.fixture
def judge():
    return FakeJudge("CONTRADICTS")


@pytest.fixture
def core(world, extractor, judge):
    return reading(world.core, extractor, judge)


async def tell(caller: Caller, core, *texts: str, session: str | None = None, day: int = 0):
    said_at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=day)
    turns = [{"role": "user", "content": t, "created_at": said_at.isoformat()} for t in texts]
    body = {"messages": turns, "session": session or uuid4().hex}
    assert (await caller.post("/transcripts", body)).status_code == 202
    await drain(caller.world, core)
    return (await caller.get(f"/sessions/{body['session']}")).json()


async def try_again(caller: Caller, core) -> None:
    """Let the time of every waiting session of the tenant come."""
    caller.world.execute(
        "update memory_session set extract_after = now()"
        " where tenant_id = %s and status = 'queued'",
        caller.tenant_id,
    )
    caller.world.execute(
        "update procrastinate_jobs set scheduled_at = null where args->>'tenant_id' = %s",
        caller.tenant_id.hex,
    )
    await drain(caller.world, core)


async def chain(caller: Caller, text: str) -> list[tuple[str, str | None]]:
    (fact,) = [f for f in await caller.facts("all") if f["text"] == text]
    history = (await caller.get(f"/facts/{fact['id']}/history")).json()["items"]
    return [(f["text"], f["valid_to"] and f["valid_to"][:10]) for f in history]


@pytest.mark.parametrize("order", list(permutations(range(3))))
async def test_conversations_in_any_order_of_arrival_give_the_same_history(core, alice, order):
    said = [("plan: Free", 0), ("plan: Pro", 59), ("plan: Team", 151)]

    for n in order:
        await tell(alice, core, said[n][0], day=said[n][1])

    assert await alice.texts() == ["plan: Team"]
    assert await chain(alice, "plan: Team") == [
        ("plan: Free", "2026-03-01"),
        ("plan: Pro", "2026-06-01"),
        ("plan: Team", None),
    ]


async def test_late_repeat_confirms_history_with_its_evidence(core, alice):
    await tell(alice, core, "plan: Free", day=0)
    await tell(alice, core, "plan: Pro", day=60)

    done = await tell(alice, core, "plan: Free", day=30)

    assert done["facts"]["confirmed"] == 1
    assert await alice.texts("superseded") == ["plan: Free"]
    (old,) = await alice.facts("superseded")
    why = (await alice.get(f"/facts/{old['id']}/why")).json()
    assert len(why["evidence"]) == 2


async def test_rules_keep_the_order_of_time_too(alice):
    later, earlier = "2026-03-10T09:00:00Z", "2026-01-10T09:00:00Z"
    await alice.say("I live in Linz.", created_at=later)
    await alice.say("I live in Graz.", created_at=earlier)

    assert await alice.texts() == ["Lives in Linz."]
    assert await alice.texts("superseded") == ["Lives in Graz."]


async def test_each_bad_candidate_is_dropped_alone_and_counted(core, alice, extractor):
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    extractor.script = lambda _turns: [
        candidate("plan: Pro"),
        candidate("plan: Pro", turn=9, quote="plan"),
        candidate("plan: Pro", turn=0, quote="plan"),
        candidate("plan: Pro", kind="secret", quote="plan"),  # type: ignore[arg-type] # untrusted
        candidate("invented", quote="never said"),
        candidate("x" * 10_000, quote="plan"),
        candidate("", quote="plan"),
        candidate("plan: Pro", quote="p" * 2_000),
        candidate("Is the plan Pro?", quote="plan"),
        candidate("dog: Rex", subject="dog", valid_from=moment.replace(tzinfo=None)),
        candidate("cat: Tom", subject="cat", valid_from=moment.replace(year=9999)),
    ]

    done = await tell(alice, core, "plan: Pro\ndog: Rex\ncat: Tom")

    assert await alice.texts() == ["cat: Tom", "dog: Rex", "plan: Pro"]
    assert done["facts"]["rejected"]["invalid"] == 4
    assert done["facts"]["rejected"]["no_evidence"] == 1
    assert sum(done["facts"]["rejected"].values()) == 8
    assert all(fact["valid_from"] is None for fact in await alice.facts())


async def test_five_hundred_candidates_are_capped(core, alice, extractor):
    extractor.script = lambda _turns: [candidate("plan: Pro", subject=f"s{n}") for n in range(500)]

    done = await tell(alice, core, "plan: Pro")

    assert done["facts"]["rejected"]["cap"] == 400
    assert await alice.texts() == ["plan: Pro"]


async def test_failing_extractor_is_tried_ever_more_slowly_then_given_up(core, alice, extractor):
    extractor.fails_with = [RuntimeError("the words of the user")] * 9
    waits = []
    done = await tell(alice, core, "plan: Pro", session="s")
    for _ in range(8):
        if done["status"] != "queued":
            break
        due = datetime.fromisoformat(done["extract_after"])
        waits.append((due - datetime.now(UTC)).total_seconds())
        await try_again(alice, core)
        done = (await alice.get("/sessions/s")).json()

    assert (done["status"], done["reason"], done["attempts"]) == ("failed", "internal_error", 5)
    assert waits == sorted(waits)
    assert [round(wait / 15) for wait in waits] == [1, 4, 16, 64]
    jobs = "select count(*) from procrastinate_jobs where args->>'tenant_id' = %s"
    assert alice.world.rows(jobs, alice.tenant_id.hex) == [(0,)]


async def test_retry_of_a_failed_session_reads_it_again(core, alice, extractor):
    extractor.fails_with = [ModelAnsweredBadly()] * 5
    await tell(alice, core, "plan: Pro", session="s")
    for _ in range(4):
        await try_again(alice, core)
    assert (await alice.get("/sessions/s")).json()["reason"] == "invalid_answer"

    retried = await alice.post("/sessions/s/retry")
    await drain(alice.world, core)

    assert retried.status_code == 202
    assert await alice.texts() == ["plan: Pro"]
    assert (await alice.get("/sessions/s")).json()["status"] == "done"


async def test_new_turns_give_a_failed_session_its_tries_again(core, alice, extractor):
    extractor.fails_with = [ModelAnsweredBadly()] * 5
    await tell(alice, core, "plan: Pro", session="s")
    for _ in range(4):
        await try_again(alice, core)

    done = await tell(alice, core, "dog: Rex", session="s")

    assert done["status"] == "done"
    assert await alice.texts() == ["dog: Rex", "plan: Pro"]


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (ModelUnavailable(), 15),
        (ModelUnavailable(retry_after=40), 40),
        (ModelUnavailable(retry_after=1e30), 3600),
        (ModelMisconfigured(), 60),
    ],
)
async def test_model_that_is_away_makes_a_session_wait(core, alice, extractor, error, seconds):
    extractor.fails_with = [error]

    waiting = await tell(alice, core, "plan: Pro")

    due = datetime.fromisoformat(waiting["extract_after"])
    assert waiting["status"] == "queued"
    assert waiting["reason"] == error.code
    assert abs((due - datetime.now(UTC)).total_seconds() - seconds) < 5


async def test_waiting_for_the_model_costs_no_tries(core, alice, extractor):
    extractor.fails_with = [ModelUnavailable()] * 6
    await tell(alice, core, "plan: Pro", session="s")
    for _ in range(6):
        await try_again(alice, core)

    assert (await alice.get("/sessions/s")).json()["status"] == "done"
    assert await alice.texts() == ["plan: Pro"]


async def test_refusal_ends_the_session_without_facts(core, alice, extractor):
    extractor.fails_with = [ModelRefused()]

    done = await tell(alice, core, "plan: Pro")

    assert (done["status"], done["reason"]) == ("done", "refusal")
    assert await alice.texts() == []


async def test_poisonous_judge_fails_only_its_own_session(core, alice, judge):
    def choke(_pair):
        raise ValueError("poison")

    await tell(alice, core, "plan: Free")
    judge.script = choke
    poisoned = await tell(alice, core, "plan: Pro", session="s")
    other = await tell(alice, core, "dog: Rex")

    assert (poisoned["status"], poisoned["reason"]) == ("queued", "internal_error")
    assert other["status"] == "done"


async def test_session_that_always_kills_its_worker_ends_failed(core, alice):
    await tell(alice, reading(core, FakeExtractor()), "plan: Pro", session="s")
    alice.world.execute(
        "update memory_session set status = 'extracting', failures = 5 where tenant_id = %s",
        alice.tenant_id,
    )
    scope, session = ids(alice)
    await alice.post("/sessions/s/messages", {"messages": [{"role": "user", "content": "a: 1"}]})

    await extract.extract_session(core, scope, session)

    state = (await alice.get("/sessions/s")).json()
    assert (state["status"], state["reason"]) == ("failed", "crashed")


def ids(caller: Caller):
    query = "select user_id, id from memory_session where tenant_id = %s"
    ((user, session),) = caller.world.rows(query, caller.tenant_id)
    return Scope(caller.tenant_id, user), session


async def during(caller: Caller, core, extractor: FakeExtractor, act) -> None:
    """Do something while the session "s" is being read."""
    extractor.hold()
    async with working(core):
        body = {"session": "s", "messages": [{"role": "user", "content": "plan: Pro"}]}
        await caller.post("/transcripts", body)
        await extractor.started.wait()
        await act()
        extractor.go_on.set()
        await until(lambda: extractor.under_way == 0)


async def test_pause_during_extraction_stores_nothing(core, alice, extractor):
    async def pause():
        answer = await alice.call("PUT", f"{alice.base}/settings", json={"memory": "paused"})
        assert answer.status_code == 200, answer.text

    await during(alice, core, extractor, pause)

    state = (await alice.get("/sessions/s")).json()
    assert (state["status"], state["reason"]) == ("done", "memory_paused")
    counts = "select (select count(*) from memory_fact where tenant_id = %s), count(*) from message"
    assert alice.world.rows(counts + " where tenant_id = %s", *[alice.tenant_id] * 2) == [(0, 0)]


async def test_session_deleted_during_its_extraction_brings_nothing_back(core, alice, extractor):
    async def delete():
        assert (await alice.delete("/sessions/s")).status_code == 200

    await during(alice, core, extractor, delete)

    assert await alice.texts("all") == []
    assert (await alice.get("/sessions/s")).status_code == 404


async def test_edit_by_a_person_during_extraction_stays(core, alice, extractor):
    added = await alice.post("/facts", {"text": "The plan is Free.", "kind": "profile"})
    fact = added.json()["fact"]
    extractor.script = lambda _turns: [candidate("The plan is Pro.", quote="plan: Pro")]

    async def edit():
        answer = await alice.call(
            "PATCH",
            f"{alice.base}/facts/{fact['id']}",
            json={"text": "The plan is Max."},
            headers={"If-Match": f'"{fact["revision"]}"'},
        )
        assert answer.status_code == 200, answer.text

    await during(alice, core, extractor, edit)

    assert await alice.texts() == ["The plan is Max."]
    assert set(await alice.texts("superseded")) == {"The plan is Free.", "The plan is Pro."}


async def test_claim_that_was_taken_over_can_not_commit(core, alice, extractor):
    slow, quick = FakeExtractor(), FakeExtractor()
    slow.hold()
    async with working(reading(core, slow), concurrency=1):
        body = {"session": "s", "messages": [{"role": "user", "content": "plan: Pro"}]}
        await alice.post("/transcripts", body)
        await slow.started.wait()
        scope, session = ids(alice)
        await extract.extract_session(reading(core, quick), scope, session)
        slow.script = lambda _turns: [candidate("too late", quote="plan")]
        slow.go_on.set()
        await until(lambda: slow.under_way == 0)

    assert await alice.texts("all") == ["plan: Pro"]
    assert (await alice.get("/sessions/s")).json()["attempts"] == 2


async def test_lease_that_ran_out_loses_no_turns(core, alice, extractor):
    async def run_out():
        scope, session = ids(alice)
        alice.world.execute(
            "update memory_session set extract_after = now() where tenant_id = %s", alice.tenant_id
        )
        await extract.look_at(core, scope, session)
        extractor.go_on.set()

    await during(alice, core, extractor, run_out)
    await drain(alice.world, core)

    assert await alice.texts() == ["plan: Pro"]


async def test_echo_of_served_memory_grows_nothing(alice):
    await alice.say("Hi, my name is Dana and I live in Lisbon.", "I prefer window seats.")
    before = memory_of(alice)

    for n in range(20):
        block = await alice.block("Which seat do I prefer?", session=f"r{n}")
        facts = [line for line in block.splitlines() if line.startswith("- ")]
        pasted = [
            f"{block}\n\nWhich seat do I prefer?",
            block.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"),
            "\n".join(block.splitlines()[1:-1]),
            facts[n % len(facts)],
            f"You said:\n{facts[n % len(facts)]}\nRight?",
        ]
        await alice.say(pasted[n % len(pasted)])

    assert memory_of(alice) == before


async def test_user_who_says_it_again_confirms(alice):
    await alice.say("I live in Lisbon.")

    block = await alice.block("Where do I live?")
    await alice.say(f"{block}\nYes, I live in Lisbon.")

    (fact,) = await alice.facts()
    assert fact["confirmations"] == 1
    assert memory_of(alice) == [(1, 2, 1)]


def memory_of(caller: Caller):
    query = (
        "select count(*), (select count(*) from evidence where tenant_id = %s), sum(confirmations)"
        " from memory_fact where tenant_id = %s"
    )
    return caller.world.rows(query, caller.tenant_id, caller.tenant_id)


async def test_deleted_words_are_not_learned_again_but_others_are(alice):
    await alice.say("I live in Lisbon.")
    (fact,) = await alice.facts()
    await alice.delete(f"/facts/{fact['id']}")

    again = await alice.say("i live in  LISBON!")
    assert await alice.texts() == []
    assert again["facts"]["rejected"] == {"deleted": 1}

    await alice.say("My home is in Lisbon these days.")
    await alice.say("I moved to Porto.")
    assert [text for text in await alice.texts() if "Porto" in text]


async def test_all_candidates_of_deleted_words_stay_away(core, alice, extractor):
    words = "dog: Rex, cat: Tom"
    extractor.script = lambda _turns: [
        candidate("Has a dog.", subject="dog", quote=words),
        candidate("Has a cat.", subject="cat", quote=words),
    ]
    await tell(alice, core, words)
    for fact in await alice.facts():
        await alice.delete(f"/facts/{fact['id']}")
    extractor.script = lambda _turns: [
        candidate("Owns a dog named Rex.", subject="dog", quote=words),
        candidate("Owns a cat named Tom.", subject="cat", quote=words),
    ]

    await tell(alice, core, words)

    assert await alice.texts() == []


async def test_of_two_facts_with_one_quote_the_kept_one_is_still_confirmed(core, alice, extractor):
    words = "dog: Rex, cat: Tom"
    extractor.script = lambda _turns: [
        candidate("Has a dog.", subject="dog", quote=words),
        candidate("Has a cat.", subject="cat", quote=words),
    ]
    await tell(alice, core, words)
    (dog,) = [fact for fact in await alice.facts() if fact["text"] == "Has a dog."]
    await alice.delete(f"/facts/{dog['id']}")

    await tell(alice, core, words)

    (cat,) = await alice.facts()
    assert (cat["text"], cat["confirmations"]) == ("Has a cat.", 1)


async def test_repeat_on_three_days_keeps_the_fact_and_freshens_it(core, alice):
    for day in range(3):
        await tell(alice, core, "plan: Pro", day=day)

    (fact,) = await alice.facts()
    assert fact["confirmations"] == 2
    assert fact["last_confirmed_at"].startswith("2026-01-03")
    assert memory_of(alice) == [(1, 3, 2)]


async def test_what_a_program_wrote_or_has_expired_takes_no_place_of_the_learned(core, alice):
    await policy(alice, max_facts_per_user=2)
    for text in ("Uses Redis.", "Uses Kafka.", "Uses Postgres."):
        await alice.post("/facts", {"text": text, "kind": "preference"})
    await tell(alice, core, "desk: Oak\nlamp: Brass")
    assert await alice.texts() == [
        "Uses Kafka.", "Uses Postgres.", "Uses Redis.", "desk: Oak", "lamp: Brass",
    ]  # fmt: skip

    assert (await tell(alice, core, "sofa: Green"))["facts"]["rejected"] == {"cap": 1}
    alice.world.execute(
        "update memory_fact set expires_at = now() where tenant_id = %s and text = 'desk: Oak'",
        alice.tenant_id,
    )
    assert (await tell(alice, core, "sofa: Green"))["facts"]["added"] == 1
