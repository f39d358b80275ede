"""The decision alone: what becomes of proposals beside the facts that are there."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import permutations
from uuid import UUID, uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.llm import Relation, Verdict
from app.memory.reconcile import Known, Plan, Proposal, Ruling, Source, as_said, may_repeat, plan
from app.rules import same_subject
from app.text import fingerprint

DAY = timedelta(days=1)
START = datetime(2026, 1, 1, tzinfo=UTC)
SESSION = uuid4()

Verdicts = Callable[[Known, Proposal], Ruling | None]


def at(day: int) -> datetime:
    return START + day * DAY


def always(relation: Relation) -> Verdicts:
    return lambda old, new: Ruling(old.id, new.id, Verdict(relation, "as told"), "fake/1")


def says(
    text: str,
    day: int = 0,
    *,
    subject: str = "plan",
    slot: str | None = "plan",
    source: str = "transcript",
    turn: str | None = None,
    valid_from: int | None = None,
    closes: bool = False,
    quarantine: str | None = None,
) -> Proposal:
    return Proposal(
        id=uuid4(),
        text=text,
        kind="profile",
        subject=subject,
        slot=slot,
        fingerprint=fingerprint(text),
        source=source,
        said_at=at(day),
        evidence=Source(SESSION, turn, text, at(day)) if turn else None,
        valid_from=None if valid_from is None else at(valid_from),
        closes=closes,
        quarantine=quarantine,
    )


class Memory:
    """A user's facts, on which plans are carried out as `write` does."""

    def __init__(self) -> None:
        self.facts: dict[UUID, Known] = {}
        self.until: dict[UUID, datetime] = {}
        self.last = Plan()

    def learn(self, *proposals: Proposal, verdicts: Verdicts, room: int | None = None) -> Plan:
        copies = [Known(**{f: getattr(k, f) for f in Known.__slots__}) for k in self.facts.values()]
        decided = plan(proposals, copies, verdicts, room=room)
        for old, by, until in [*decided.ended, *decided.relinked]:
            if old in self.facts:
                self._end(self.facts[old], by, until)
        for new, alone in decided.added:
            self._store(new, new.slot if alone else None)
        for new, by, until in decided.history:
            self._end(self._store(new, new.slot), by, until)
        for old, by, until in [*decided.ended, *decided.relinked]:
            self._end(self.facts[old], by, until)
        for fact_id, new in decided.confirmed:
            fact = self.facts[fact_id]
            fact.last_confirmed_at = max(fact.last_confirmed_at, new.said_at)
        self._check()
        return decided

    def _store(self, new: Proposal, slot: str | None) -> Known:
        self.facts[new.id] = fact = Known(
            new.id,
            new.text,
            new.kind,
            new.subject,
            slot,
            new.fingerprint,
            new.source,
            new.said_at,
            new.said_at,
            new.valid_from,
        )
        return fact

    def _end(self, fact: Known, by: UUID | None, until: datetime) -> None:
        fact.superseded, fact.superseded_by = True, by
        self.until[fact.id] = until

    def _check(self) -> None:
        """Hold what the database's indexes would refuse, and what may never be."""
        live = [fact for fact in self.facts.values() if not fact.superseded]
        slots = [fact.slot for fact in live if fact.slot]
        assert len(slots) == len(set(slots))
        assert len({fact.fingerprint for fact in live}) == len(live)
        for fact in self.facts.values():
            if fact.superseded_by:
                assert same_subject(fact.subject, self.facts[fact.superseded_by].subject)
            if fact.id in self.until:
                assert self.until[fact.id] >= fact.begins_at

    def live(self) -> list[str]:
        return sorted(fact.text for fact in self.facts.values() if not fact.superseded)

    def chain(self) -> list[tuple[str, datetime | None]]:
        """Give the facts from the oldest to the live one, with the end of each."""
        (last,) = (fact for fact in self.facts.values() if not fact.superseded)
        chain = [last]
        while before := [f for f in self.facts.values() if f.superseded_by == chain[0].id]:
            (one,) = before
            chain.insert(0, one)
        assert len(chain) == len(self.facts)
        return [(fact.text, self.until.get(fact.id)) for fact in chain]


def test_newer_statement_supersedes_the_older_from_when_it_was_said():
    memory = Memory()

    memory.learn(says("Free", 0), verdicts=always("CONTRADICTS"))
    memory.learn(says("Pro", 9), verdicts=always("CONTRADICTS"))

    assert memory.chain() == [("Free", at(9)), ("Pro", None)]


def test_of_equal_times_the_later_arrival_holds():
    memory = Memory()

    memory.learn(says("Free", 3), verdicts=always("CONTRADICTS"))
    memory.learn(says("Pro", 3), verdicts=always("CONTRADICTS"))

    assert memory.live() == ["Pro"]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_statements_in_any_order_of_arrival_make_the_same_chain(order):
    said = [("Free", 0), ("Pro", 60), ("Team", 150)]
    memory = Memory()

    for n in order:
        memory.learn(says(*said[n]), verdicts=always("CONTRADICTS"))

    assert memory.chain() == [("Free", at(60)), ("Pro", at(150)), ("Team", None)]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_one_sentence_with_three_dates_makes_the_same_chain_however_it_is_listed(order):
    dated = [("Free", 0), ("Pro", 60), ("Team", 150)]
    memory = Memory()

    memory.learn(
        *(says(dated[n][0], 200, turn="m1", valid_from=dated[n][1]) for n in order),
        verdicts=always("CONTRADICTS"),
    )

    assert memory.chain() == [("Free", at(60)), ("Pro", at(150)), ("Team", None)]


def test_a_correction_in_a_later_turn_holds_although_it_began_earlier():
    memory = Memory()

    memory.learn(
        says("Lisbon", 9, turn="m1", valid_from=5),
        says("Porto", 9, turn="m2", valid_from=2),
        verdicts=always("CONTRADICTS"),
    )

    assert memory.live() == ["Porto"]


def test_late_repeat_of_history_confirms_it_and_changes_nothing():
    memory = Memory()
    memory.learn(says("Free", 0), verdicts=always("CONTRADICTS"))
    memory.learn(says("Pro", 60), verdicts=always("CONTRADICTS"))
    before = memory.chain()

    decided = memory.learn(says("free.", 30), verdicts=always("CONTRADICTS"))

    assert memory.chain() == before
    assert len(decided.confirmed) == 1
    assert not decided.added
    assert not decided.history


def test_return_to_an_earlier_value_is_a_new_fact_at_the_end_of_the_chain():
    memory = Memory()
    for text, day in (("Free", 0), ("Pro", 60), ("Free", 90)):
        memory.learn(says(text, day), verdicts=always("CONTRADICTS"))

    assert memory.chain() == [("Free", at(60)), ("Pro", at(90)), ("Free", None)]


def test_late_statement_never_beats_what_was_confirmed_after_it():
    memory = Memory()
    memory.learn(says("Lisbon", 0), verdicts=always("CONTRADICTS"))
    memory.learn(says("Lisbon", 60), verdicts=always("CONTRADICTS"))

    memory.learn(says("Porto", 30), verdicts=always("CONTRADICTS"))

    assert memory.live() == ["Lisbon"]
    assert len(memory.facts) == 2


def test_judge_that_contradicts_everything_retires_nothing_of_another_subject():
    memory = Memory()
    subjects = ["employer", "home city", "seat preference", "pets", "theme", "diet"]
    for n, subject in enumerate(subjects):
        memory.learn(
            says(f"fact {n}", n, subject=subject, slot=None), verdicts=always("CONTRADICTS")
        )

    decided = memory.learn(
        says("Linz", 50, subject="home city", slot="home city"), verdicts=always("CONTRADICTS")
    )

    assert memory.live() == sorted(["Linz", *(f"fact {n}" for n in (0, 2, 3, 4, 5))])
    overruled = [r for r in decided.rulings if r.verdict.relation == "INDEPENDENT"]
    assert len(overruled) == 5
    assert not decided.dropped


def test_judge_that_calls_everything_a_duplicate_swallows_nothing_unrelated():
    memory = Memory()
    told = {"employer": "Works at Acme", "pets": "Has a dog", "diet": "Eats no meat"}
    for n, (subject, text) in enumerate(told.items()):
        memory.learn(says(text, n, subject=subject, slot=None), verdicts=always("DUPLICATE"))

    assert memory.live() == sorted(told.values())


@pytest.mark.parametrize(
    ("old", "new", "believed"),
    [
        (("Prefers window seats", "seat preference"), ("A window seat, please", "seat"), True),
        (("Prefers window seats", "seat preference"), ("Prefers a window seat", "travel"), True),
        (("Prefers window seats", "seat preference"), ("Prefers dark mode", "theme"), False),
        (("Uses Redis", "tools"), ("Lives in Linz", "home city"), False),
        (("Werkt in Berlin", "home city"), ("Lives in Berlin", "city"), True),
        (("好", "likes"), ("!!!", "diet"), False),
    ],
)
def test_duplicates_are_believed_only_of_one_subject_or_mostly_the_same_words(old, new, believed):
    memory = Memory()
    memory.learn(says(old[0], subject=old[1], slot=None), verdicts=always("INDEPENDENT"))
    (fact,) = memory.facts.values()

    assert may_repeat(fact, says(new[0], subject=new[1])) is believed


def test_same_words_are_one_fact_whatever_the_judge_says():
    memory = Memory()

    for day in range(3):
        memory.learn(says("Lives in Linz.", day), verdicts=always("CONTRADICTS"))

    (fact,) = memory.facts.values()
    assert fact.last_confirmed_at == at(2)


def test_independent_facts_of_a_single_valued_subject_both_stay():
    memory = Memory()

    memory.learn(says("Free"), says("Pro", 1), verdicts=always("INDEPENDENT"))

    assert memory.live() == ["Free", "Pro"]


def test_third_value_ends_both_that_stood_side_by_side():
    memory = Memory()
    memory.learn(says("Free"), says("Pro", 1), verdicts=always("INDEPENDENT"))

    memory.learn(says("Team", 2), verdicts=always("CONTRADICTS"))

    assert memory.live() == ["Team"]


def test_closing_statement_ends_what_it_names_and_adds_nothing():
    memory = Memory()
    memory.learn(says("Uses Redis", subject="tools", slot=None), verdicts=always("INDEPENDENT"))

    memory.learn(
        says("No longer uses Redis", 5, subject="tools", slot=None, closes=True),
        verdicts=always("CONTRADICTS"),
    )

    assert memory.live() == []
    assert [fact.superseded_by for fact in memory.facts.values()] == [None]


def test_late_closing_statement_ends_nothing_that_was_said_after_it():
    memory = Memory()
    memory.learn(says("Uses Redis", 9, subject="tools", slot=None), verdicts=always("INDEPENDENT"))

    memory.learn(
        says("No longer uses Redis", 5, subject="tools", slot=None, closes=True),
        verdicts=always("CONTRADICTS"),
    )

    assert memory.live() == ["Uses Redis"]


def test_models_own_words_never_supersede_the_users():
    memory = Memory()
    memory.learn(says("Lives in Linz", 0), verdicts=always("CONTRADICTS"))

    decided = memory.learn(says("Lives in Graz", 9, source="mcp"), verdicts=always("CONTRADICTS"))

    assert memory.live() == ["Lives in Linz"]
    assert [p.quarantine for p in decided.quarantined] == ["contradicts_user"]


def test_models_own_words_confirm_nothing():
    memory = Memory()
    memory.learn(says("Lives in Linz", 0), verdicts=always("CONTRADICTS"))

    decided = memory.learn(says("Lives in Linz", 9, source="mcp"), verdicts=always("CONTRADICTS"))

    assert not decided.confirmed
    assert decided.repeated == list(memory.facts)


def test_user_supersedes_a_models_words():
    memory = Memory()
    memory.learn(says("Lives in Graz", 0, source="mcp"), verdicts=always("CONTRADICTS"))

    memory.learn(says("Lives in Linz", 9), verdicts=always("CONTRADICTS"))

    assert memory.live() == ["Lives in Linz"]


def test_what_a_person_wrote_yields_only_to_a_newer_statement():
    memory = Memory()
    memory.learn(says("Lives in Linz", 5, source="api"), verdicts=always("CONTRADICTS"))

    memory.learn(says("Lives in Graz", 4), verdicts=always("CONTRADICTS"))
    assert memory.live() == ["Lives in Linz"]

    memory.learn(says("Lives in Wels", 6), verdicts=always("CONTRADICTS"))
    assert memory.live() == ["Lives in Wels"]


def test_quarantined_statement_touches_nothing():
    memory = Memory()
    memory.learn(says("Free"), verdicts=always("CONTRADICTS"))

    decided = memory.learn(says("Pro", 1, quarantine="steering"), verdicts=always("CONTRADICTS"))

    assert memory.live() == ["Free"]
    assert len(decided.quarantined) == 1


def test_full_memory_still_lets_the_new_replace_the_old():
    memory = Memory()
    memory.learn(says("Free"), verdicts=always("CONTRADICTS"))

    decided = memory.learn(
        says("Pro", 1),
        says("Has a dog", 1, subject="pets", slot=None),
        verdicts=always("CONTRADICTS"),
        room=0,
    )

    assert memory.live() == ["Pro"]
    assert decided.dropped == ["cap"]


def test_order_is_by_time_then_turn_then_beginning():
    late, early = says("late", 2, turn="m9"), says("early", 1, turn="m1")
    second, first = says("b", 1, turn="m2", valid_from=9), says("a", 1, turn="m2", valid_from=3)

    assert as_said([late, early, second, first]) == [early, first, second, late]


_statements = st.lists(
    st.tuples(
        st.sampled_from(["Free", "Pro", "Team", "Max"]),
        st.integers(0, 6),
        st.sampled_from(["transcript", "api"]),
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=60, deadline=None)
@given(_statements, st.data())
def test_contradicting_statements_always_leave_one_live_fact_in_one_chain(said, data):
    memory = Memory()
    while said:
        batch = data.draw(st.integers(1, len(said)))
        memory.learn(
            *(says(text, day, source=source) for text, day, source in said[:batch]),
            verdicts=always("CONTRADICTS"),
        )
        said = said[batch:]

    chain = memory.chain()
    newest = max(fact.last_confirmed_at for fact in memory.facts.values())
    (live,) = (fact for fact in memory.facts.values() if not fact.superseded)
    assert live.last_confirmed_at == newest
    ends = [until for _, until in chain if until]
    assert ends == sorted(ends)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["employer", "home city", "pets", "diet", "plan", "dog", "dog name"]),
            st.text("abc ", min_size=1, max_size=6),
            st.integers(0, 5),
            st.booleans(),
            st.sampled_from(["transcript", "api", "mcp"]),
        ),
        max_size=10,
    ),
    st.data(),
)
def test_no_judge_can_make_a_plan_that_the_database_refuses(told, data):
    relations: list[Relation] = ["CONTRADICTS", "DUPLICATE", "INDEPENDENT"]

    def anything(old: Known, new: Proposal) -> Ruling | None:
        relation = data.draw(st.sampled_from([None, *relations]))
        if relation is None:
            return None
        return Ruling(old.id, new.id, Verdict(relation, "a whim"), "fake/1")

    memory = Memory()
    for subject, text, day, closes, source in told:
        users_before = {
            fact.id
            for fact in memory.facts.values()
            if not fact.superseded and fact.source != "mcp"
        }
        memory.learn(
            says(text, day, subject=subject, slot=subject, source=source, closes=closes),
            verdicts=anything,
        )
        if source == "mcp":
            assert all(not memory.facts[fact_id].superseded for fact_id in users_before)
