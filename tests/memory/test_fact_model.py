"""Random lives of a user's facts, against an oracle that keeps every past in full.

The oracle knows no database, no chains of links kept up to date and no events: after each step it
copies all that it believes, and a question about the past is answered from the copy of that time.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, TypeVar
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from app.db import Scope
from app.llm import Candidate, Kind, Pair, Relation, Turn
from app.memory.extract import extract_session
from app.memory.forgetting import forget_now
from app.memory.policy import Policy
from tests.fakes import FakeExtractor, FakeJudge, candidate, decide, reading
from tests.world import World

T = TypeVar("T")

SUBJECTS = {"plan": ("Free", "Pro", "Team"), "desk": ("Oak", "Ash", "Elm")}
TEXTS = st.sampled_from([(s, f"{s.title()} is {v}.") for s, values in SUBJECTS.items()
                         for v in values])  # fmt: skip
KINDS: dict[str, Kind] = {"plan": "profile", "desk": "goal"}
GOAL_EXPIRY = timedelta(days=90)
START = datetime(2025, 1, 1, tzinfo=UTC)
DAYS = st.integers(0, 600)
# Also past today, for what ends or expires some day.
INSTANTS = st.integers(-10, 1500).map(lambda day: START + timedelta(days=day, hours=12))


@dataclass
class Belief:
    """What the oracle holds of one fact."""

    id: str
    subject: str
    text: str
    begins: datetime
    has_since: bool
    confirmed: datetime
    ends: datetime | None = None
    successor: str | None = None
    superseded: bool = False
    expires: datetime | None = None
    forgotten: bool = False
    settled: datetime | None = None
    """When a person last set or restored something of it."""

    def status(self, at: datetime) -> str:
        if self.forgotten:
            return "forgotten"
        if self.superseded:
            return "superseded"
        return "expired" if self.expires and self.expires <= at else "live"

    def holds(self, at: datetime) -> bool:
        ends = [end for end in (self.ends, self.expires) if end]
        return self.begins <= at and all(at < end for end in ends)

    def is_stale(self, now: datetime) -> bool:
        """Tell whether the next night forgets it."""
        if self.superseded or self.forgotten:
            return False
        if self.expires and self.expires <= now:
            return True
        seen = max(at for at in (self.confirmed, self.settled) if at)
        return KINDS[self.subject] == "goal" and seen <= now - GOAL_EXPIRY


@dataclass
class Oracle:
    facts: dict[str, Belief] = field(default_factory=dict)
    deleted_words: set[str] = field(default_factory=set)
    past: list[tuple[datetime, dict[str, Belief]]] = field(default_factory=list)
    undone: set[str] = field(default_factory=set)
    """Subjects whose one line of facts a person or a night broke."""

    def remember(self) -> None:
        self.past.append((datetime.now(UTC), deepcopy(self.facts)))

    def forget(self, fact_id: str) -> None:
        """What is erased is erased from the past too."""
        del self.facts[fact_id]
        for _, then in self.past:
            then.pop(fact_id, None)

    def live(self, subject: str) -> list[Belief]:
        return [f for f in self.served() if f.subject == subject]

    def served(self) -> list[Belief]:
        return [f for f in self.facts.values() if not f.superseded and not f.forgotten]

    def same(self, text: str) -> Belief | None:
        return next((f for f in self.served() if f.text == text), None)

    def state(self, new: Belief, said_at: datetime, now: datetime) -> str:
        """Take a statement in; give the id of the fact that holds it."""
        same = self.same(new.text)
        if same:
            return self._confirm(same, new, said_at, now)
        rivals = self.live(new.subject)
        later = [
            rival
            for rival in rivals
            if rival.confirmed > said_at
            or (rival.has_since and new.has_since and rival.begins > new.begins)
        ]
        if later:
            return self._place(new, min(later, key=lambda f: f.begins), said_at, now)
        for rival in rivals:
            self.supersede(rival, new.id, new.begins)
        self.facts[new.id] = new
        return new.id

    def _confirm(self, fact: Belief, new: Belief, said_at: datetime, now: datetime) -> str:
        fact.confirmed = max(fact.confirmed, said_at)
        if fact.expires and fact.expires <= now:
            fact.expires = new.expires
        return fact.id

    def supersede(self, old: Belief, successor: str, at: datetime) -> None:
        for one in self.led_to(old, within_subject=True):
            if one.ends and one.ends > at:
                one.ends = max(at, one.begins)
        old.superseded, old.successor, old.ends = True, successor, max(at, old.begins)

    def led_to(self, fact: Belief, *, within_subject: bool = False) -> list[Belief]:
        """All that gave way to the fact, directly or not, past other subjects or not."""
        found: list[Belief] = []
        while True:
            ids = {fact.id, *(f.id for f in found)}
            more = [f for f in self.facts.values() if f.successor in ids and f.id not in ids
                    and (f.subject == fact.subject or not within_subject)]  # fmt: skip
            if not more:
                return found
            found += more

    def _place(self, new: Belief, winner: Belief, said_at: datetime, now: datetime) -> str:
        told = self.led_to(winner, within_subject=True)
        story = sorted([*told, winner], key=lambda f: f.begins)
        before = [f for f in story if f.begins <= new.begins]
        # What was refuted held at no time, so that it is nobody's neighbour.
        held = [f for f in story if f.ends is None or f.ends > f.begins]
        after = next((f for f in held if f.begins > new.begins), winner)
        for neighbour in (*[f for f in held if f.begins <= new.begins][-1:], after):
            if neighbour.text == new.text:
                return self._confirm(neighbour, new, said_at, now)
        for fact in before:
            if fact.successor == after.id:
                fact.successor = new.id
            if fact.ends and fact.ends > new.begins:
                fact.ends = new.begins
        new.superseded, new.successor, new.ends = True, after.id, max(after.begins, new.begins)
        self.facts[new.id] = new
        return new.id

    def believed(self, known_at: datetime | None) -> dict[str, Belief]:
        if known_at is None:
            return self.facts
        return next((then for at, then in reversed(self.past) if at <= known_at), {})

    def listed(
        self, now: datetime, status: str | None, as_of: datetime | None, known_at: datetime | None
    ) -> set[str]:
        wanted = status or ("live" if as_of is None else None)
        at = known_at or now
        return {
            fact.id
            for fact in self.believed(known_at).values()
            if wanted in {"all", fact.status(at)} or (wanted is None and not fact.forgotten)
            if as_of is None or fact.holds(as_of)
        }


def read(turns: Sequence[Turn]) -> list[Candidate]:
    """Read "[since TIME] Plan is Pro." out of each turn."""
    found = []
    for turn in turns:
        since, _, text = turn.text.rpartition("] ")
        said = datetime.fromisoformat(since[1:]) if since else None
        subject = text.split()[0].lower()
        kind = KINDS[subject]
        found.append(candidate(text, turn=turn.n, subject=subject, kind=kind, valid_from=said))
    return found


def one_value(pair: Pair) -> Relation:
    return "CONTRADICTS" if pair.old.subject == pair.new.subject else "INDEPENDENT"


def _shown(at: datetime | None) -> str:
    """Write a time as answers do."""
    return "" if at is None else at.isoformat().replace("+00:00", "Z")


class Life(RuleBasedStateMachine):
    """One user's life; the machine runs in a thread beside the event loop of the service."""

    world: World
    loop: asyncio.AbstractEventLoop
    facts = Bundle("facts")

    def __init__(self) -> None:
        super().__init__()
        self.alice = self.do(self.world.tenant())
        policy = Policy(forgetting="enforce", goal_expiry=GOAL_EXPIRY)
        self.do(decide(self.world.core, self.alice.tenant_id, policy))
        self.oracle = Oracle()
        self.oracle.remember()
        self.said = 0

    def do(self, work: Awaitable[T]) -> T:
        async def whole() -> T:
            return await work

        return asyncio.run_coroutine_threadsafe(whole(), self.loop).result(30)

    def ask(self, method: str, path: str, **kwargs: Any) -> Any:
        return self.do(self.alice.call(method, self.alice.base + path, **kwargs))

    def unique(self, day: int) -> datetime:
        """Give an instant of that day at which nothing else is said."""
        self.said += 1
        return START + timedelta(days=day, minutes=self.said)

    @rule(target=facts, said=TEXTS, day=DAYS, earlier=st.none() | st.integers(1, 300))
    def hear(self, said: tuple[str, str], day: int, earlier: int | None) -> Any:
        """A conversation of any day arrives; it may tell since when its statement holds."""
        subject, text = said
        at = self.unique(day)
        since = None if earlier is None else self.unique(day - earlier)
        words = text if since is None else f"[{since.isoformat()}] {text}"
        session = uuid4().hex
        message = {"role": "user", "content": words, "created_at": at.isoformat()}
        body = {"session": session, "messages": [message]}
        assert self.ask("POST", "/transcripts", json=body).status_code == 202
        [(user_id, session_id)] = self.world.rows(
            "select user_id, id from memory_session where external_id = %s", session
        )
        scope = Scope(self.alice.tenant_id, user_id)
        self.do(extract_session(self.world.core, scope, session_id))
        return self._took_in(subject, text, at, since, is_heard=True)

    @rule(
        target=facts,
        said=TEXTS,
        day=st.none() | DAYS,
        lasts=st.none() | st.integers(-200, 600),
    )
    def write(self, said: tuple[str, str], day: int | None, lasts: int | None) -> Any:
        """A program writes a fact."""
        subject, text = said
        since = None if day is None else self.unique(day)
        expires = None if lasts is None else self.unique(600 + lasts)
        body = {"text": text, "kind": KINDS[subject], "valid_from": since and since.isoformat(),
                "expires_at": expires and expires.isoformat()}  # fmt: skip
        answer = self.ask("POST", "/facts", json=body)
        assert answer.status_code in {200, 201}, answer.text
        shown = answer.json()["fact"]
        key = "said_at" if answer.status_code == 201 else "last_confirmed_at"
        said_at = datetime.fromisoformat(shown[key])
        return self._took_in(subject, text, said_at, since, expires=expires)

    def _took_in(
        self,
        subject: str,
        text: str,
        said_at: datetime,
        since: datetime | None,
        *,
        is_heard: bool = False,
        expires: datetime | None = None,
    ) -> Any:
        known = {fact["id"] for fact in self.do(self.alice.facts("all"))}
        fresh = known - set(self.oracle.facts)
        if is_heard and text in self.oracle.deleted_words and not self.oracle.same(text):
            assert not fresh
            return multiple()
        new = Belief(next(iter(fresh), "none"), subject, text, since or said_at,
                     has_since=since is not None, confirmed=said_at, expires=expires)  # fmt: skip
        held_by = self.oracle.state(new, said_at, datetime.now(UTC))
        assert fresh == ({held_by} if held_by == new.id else set())
        self.oracle.remember()
        return held_by if fresh else multiple()

    @rule(target=facts, fact_id=facts, said=TEXTS)
    def correct(self, fact_id: str, said: tuple[str, str]) -> Any:
        """A person puts another text in a fact's place."""
        old = self.oracle.facts.get(fact_id)
        if old is None:
            return multiple()
        answer = self._patch(fact_id, {"text": said[1]})
        if old.status(datetime.now(UTC)) != "live":
            assert answer.status_code == 409
            return multiple()
        assert answer.status_code == 200, answer.text
        shown = answer.json()
        if said[1] == old.text:
            assert shown["id"] == fact_id
            return multiple()
        is_new = shown["id"] not in self.oracle.facts
        said_at = datetime.fromisoformat(shown["said_at" if is_new else "last_confirmed_at"])
        new = Belief(shown["id"], said[0], said[1], said_at, has_since=False,
                     confirmed=said_at, expires=old.expires)  # fmt: skip
        if said[0] != old.subject:
            self.oracle.undone |= {said[0], old.subject}
        old.superseded, old.ends = True, max(said_at, old.begins)
        old.successor = self.oracle.state(new, said_at, datetime.now(UTC))
        assert old.successor == shown["id"]
        self.oracle.remember()
        return shown["id"] if is_new else multiple()

    def _patch(self, fact_id: str, body: dict[str, Any]) -> Any:
        return self.ask("PATCH", f"/facts/{fact_id}", json=body, headers={"If-Match": "*"})

    @rule(fact_id=facts, day=st.none() | st.integers(0, 1200))
    def limit(self, fact_id: str, day: int | None) -> None:
        """A person sets when a fact expires, or that it doesn't."""
        fact = self.oracle.facts.get(fact_id)
        if fact is None:
            return
        expires = None if day is None else self.unique(day)
        answer = self._patch(fact_id, {"expires_at": expires and expires.isoformat()})
        if fact.status(datetime.now(UTC)) != "live":
            assert answer.status_code == 409
            return
        assert answer.status_code == 200, answer.text
        fact.expires, fact.settled = expires, datetime.now(UTC)
        self.oracle.remember()

    @rule(fact_id=facts)
    def undo(self, fact_id: str) -> None:
        fact = self.oracle.facts.get(fact_id)
        if fact is None:
            return
        answer = self.ask("POST", f"/facts/{fact_id}/restore")
        if not (fact.superseded or fact.forgotten) or self.oracle.same(fact.text):
            assert answer.status_code == 409, answer.text
            return
        assert answer.status_code == 200, answer.text
        fact.superseded, fact.successor, fact.ends = False, None, None
        fact.forgotten, fact.settled = False, datetime.now(UTC)
        if fact.expires and fact.expires <= datetime.now(UTC):
            fact.expires = None
        self.oracle.undone.add(fact.subject)
        self.oracle.remember()

    @rule()
    def sleep(self) -> None:
        """A night passes: what expired is forgotten, and goals that nobody speaks of any more."""
        now = datetime.now(UTC)
        stale = [fact for fact in self.oracle.facts.values() if fact.is_stale(now)]
        report = self.do(forget_now(self.world.core, self.alice.tenant_id, by="night"))
        assert report.facts.total() == len(stale)
        for fact in stale:
            fact.forgotten = True
            self.oracle.undone.add(fact.subject)
        self.oracle.remember()

    @rule(fact_id=consumes(facts))
    def delete(self, fact_id: str) -> None:
        fact = self.oracle.facts.get(fact_id)
        answer = self.ask("DELETE", f"/facts/{fact_id}")
        assert answer.status_code == (404 if fact is None else 204)
        if fact is None:
            return
        for gone in (*self.oracle.led_to(fact), fact):
            self.oracle.deleted_words.add(gone.text)
            self.oracle.forget(gone.id)
        self.oracle.remember()

    @rule(
        data=st.data(),
        as_of=st.none() | INSTANTS,
        status=st.sampled_from([None, None, "all", "live", "superseded", "expired", "forgotten"]),
    )
    def look_back(self, data: st.DataObject, as_of: datetime | None, status: str | None) -> None:
        """Any question about any past, or future."""
        instants = [at for at, _ in self.oracle.past]
        known_at = data.draw(st.none() | st.sampled_from(instants) | INSTANTS, label="known_at")
        self.check(status, as_of, known_at)

    @invariant()
    def the_present_is_what_the_oracle_holds(self) -> None:
        now = datetime.now(UTC)
        listed = {
            fact["id"]: (fact["status"], fact["superseded_by"], fact["valid_to"] or "")
            for fact in self.do(self.alice.facts("all"))
        }
        assert listed == {
            fact.id: (fact.status(now), fact.successor, _shown(fact.ends))
            for fact in self.oracle.facts.values()
        }

    @invariant()
    def one_value_holds_at_a_time(self) -> None:
        """Unless a person undid something, no two values of a subject are true at once."""
        for subject in set(SUBJECTS) - self.oracle.undone:
            held = [f for f in self.oracle.facts.values() if f.subject == subject]
            spans = sorted(
                (
                    (fact.begins, fact.ends)
                    for fact in held
                    if fact.ends is None or fact.ends > fact.begins
                ),
                key=lambda span: span[0],
            )
            for (_, ends), (begins, _) in pairwise(spans):
                assert ends is not None, (subject, spans)
                assert ends <= begins, (subject, spans)

    def check(self, status: str | None, as_of: datetime | None, known_at: datetime | None) -> None:
        params = {"status": status, "as_of": as_of and as_of.isoformat(),
                  "known_at": known_at and known_at.isoformat(), "limit": 200}  # fmt: skip
        asked = {name: value for name, value in params.items() if value is not None}
        answer = self.ask("GET", "/facts", params=asked)
        assert answer.status_code == 200, answer.text
        listed = {fact["id"] for fact in answer.json()["items"]}
        wanted = self.oracle.listed(datetime.now(UTC), status, as_of, known_at)
        assert listed == wanted, (asked, self.oracle.facts)


async def _live(world: World, **more: Any) -> None:
    core = reading(world.core, FakeExtractor(read), FakeJudge(one_value))
    async with world.over(core) as scripted:
        await asyncio.to_thread(
            run_state_machine_as_test,
            type("Scripted", (Life,), {"world": scripted, "loop": asyncio.get_running_loop()}),
            settings=settings(
                deadline=None, suppress_health_check=list(HealthCheck), print_blob=True, **more
            ),
        )
    world.execute("delete from procrastinate_jobs")


async def test_the_store_and_a_naive_memory_tell_the_same_of_every_past(world: World):
    # A failing life is told as it was: to shorten it takes longer than a test may.
    await _live(world, max_examples=6, stateful_step_count=12, phases=[Phase.generate])


@pytest.mark.soak
@pytest.mark.timeout(3600)
async def test_many_long_lives_agree_with_a_naive_memory(world: World):
    await _live(world, max_examples=100, stateful_step_count=40)
