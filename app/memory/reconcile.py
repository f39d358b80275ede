"""What becomes of proposals beside the facts that are there: the decision alone, no database.

Supersede, never overwrite; when unsure, both stay. Time decides who wins, not the order of arrival:
an old statement that arrives late goes to its place in history.
"""

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from app.llm import Kind, Statement, Verdict
from app.rules import same_subject
from app.text import words

USER_WRITTEN: Final = frozenset({"transcript", "api", "page", "import"})
"""Sources that speak for the user. `mcp` is a model's own words."""

AGAINST_USER: Final = "contradicts_user"
"""Why a model's own words wait in quarantine: they may not supersede what the user stated."""


@dataclass(slots=True, eq=False)
class Known:
    """A stored fact as reconciliation sees it; `superseded_by` is set for one in history."""

    id: UUID
    text: str
    kind: Kind
    subject: str
    slot: str | None
    fingerprint: bytes
    source: str
    said_at: datetime
    last_confirmed_at: datetime
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    superseded: bool = False
    superseded_by: UUID | None = None
    is_new: bool = False
    """Proposed in this commit, so that what follows in it may be a correction."""

    @property
    def begins_at(self) -> datetime:
        """When it became true, as far as is known."""
        return self.valid_from or self.said_at

    @property
    def held(self) -> bool:
        """Tell whether it was true for any time, as far as is known: it may have been refuted."""
        return self.valid_to is None or self.valid_to > self.begins_at

    @property
    def speaks_for_user(self) -> bool:
        """Tell the user's own statements from a model's."""
        return self.source in USER_WRITTEN

    def statement(self) -> Statement:
        """Give what a judge may see."""
        return Statement(self.text, self.kind, self.subject, self.last_confirmed_at)


@dataclass(frozen=True, slots=True)
class Source:
    """Where the user said it."""

    session_id: UUID
    message_id: str | None
    quote: str
    said_at: datetime


@dataclass(frozen=True, slots=True, eq=False)
class Proposal:
    """A candidate that passed every check; `id` is the fact's, should it become one."""

    id: UUID
    text: str
    kind: Kind
    subject: str
    slot: str | None
    fingerprint: bytes
    source: str
    said_at: datetime
    evidence: Source | None = None
    extractor: str | None = None
    valid_from: datetime | None = None
    expires_at: datetime | None = None
    pinned: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)
    closes: bool = False
    quarantine: str | None = None

    @property
    def begins_at(self) -> datetime:
        """When it became true, as far as is known."""
        return self.valid_from or self.said_at

    @property
    def speaks_for_user(self) -> bool:
        """Tell the user's own statements from a model's."""
        return self.source in USER_WRITTEN

    def statement(self) -> Statement:
        """Give what a judge may see."""
        return Statement(self.text, self.kind, self.subject, self.said_at)


@dataclass(frozen=True, slots=True)
class Ruling:
    """A verdict on two facts, with the judge that gave it; `new` is None for a mere closing."""

    old: UUID
    new: UUID | None
    verdict: Verdict
    judge: str


@dataclass(slots=True)
class Plan:
    """What to write, in order: `ended` before `added`, for a slot holds one live fact."""

    added: list[tuple[Proposal, bool]] = field(default_factory=list)
    """New facts; True where the slot of the subject is theirs alone."""
    history: list[tuple[Proposal, UUID, datetime]] = field(default_factory=list)
    """Late statements: superseded from the start by this fact, true until this time."""
    confirmed: list[tuple[UUID, Proposal]] = field(default_factory=list)
    repeated: list[UUID] = field(default_factory=list)
    """Facts that a model said again in its own words, which confirms nothing."""
    ended: list[tuple[UUID, UUID | None, datetime]] = field(default_factory=list)
    """Facts superseded by another, or by none when only closed; true until this time."""
    relinked: list[tuple[UUID, UUID, datetime]] = field(default_factory=list)
    """Facts of history with the successor they have now; true until this time."""
    quarantined: list[Proposal] = field(default_factory=list)
    held: list[tuple[UUID, Proposal]] = field(default_factory=list)
    """Facts that wait in quarantine already, in the words of what is proposed."""
    rulings: list[Ruling] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    """Reasons of proposals that came to nothing."""


Lookup = Callable[[Known, Proposal], Ruling | None]


def plan(
    proposals: Sequence[Proposal],
    facts: Iterable[Known],
    ruling_on: Lookup,
    *,
    unlearned: Callable[[Proposal], bool] = lambda _: False,
    room: int | None = None,
) -> Plan:
    """Decide for all proposals of one commit, in the order of `as_said`.

    `facts` are the live ones that matter and the history of the subjects proposed. `ruling_on`
    gives the verdict on a fact (stored, or proposed a moment ago) and a proposal, None where the
    pair was never judged. At most `room` proposals become live facts where nothing gave way.
    """
    state = _State(ruling_on, unlearned, room)
    for fact in facts:
        state.facts[fact.id] = fact
    for proposal in as_said(proposals):
        state.settle(proposal)
    return state.plan


def as_said(proposals: Iterable[Proposal]) -> list[Proposal]:
    """Put proposals in the order of what they state: by when it was said, earlier turns first.

    Of one turn ("Free in January, Pro since March") what began earlier comes first: an extractor
    lists what one sentence holds in any order.
    """
    turns: dict[object, int] = {}
    place = {}
    for proposal in proposals:
        said = proposal.evidence
        turn: object = (said.session_id, said.message_id) if said else proposal.id
        number = turns.setdefault(turn, len(turns))
        place[proposal] = (proposal.said_at, number, proposal.begins_at)
    return sorted(place, key=place.__getitem__)


def may_repeat(fact: Known, new: Proposal) -> bool:
    """Tell whether a judge may call two statements the same.

    One that calls everything a duplicate must not swallow what has nothing to do with it: they are
    about the same subject, or share half of their words.
    """
    if same_subject(fact.subject, new.subject):
        return True
    mine, theirs = set(words(fact.text)), set(words(new.text))
    return 2 * len(mine & theirs) >= len(mine | theirs) > 0


def _is_later(fact: Known, new: Proposal) -> bool:
    """Tell whether a statement comes too late to change a fact that it contradicts.

    The fact was said after it. Or both tell since when they hold, the fact's time began later, and
    it was not said a moment ago: then the other would be its correction.
    """
    if fact.last_confirmed_at > new.said_at:
        return True
    return (
        not fact.is_new
        and fact.valid_from is not None
        and new.valid_from is not None
        and fact.valid_from > new.valid_from
    )


class _State:
    """The user's facts while proposals are settled one after the other."""

    def __init__(
        self, ruling_on: Lookup, unlearned: Callable[[Proposal], bool], room: int | None
    ) -> None:
        self.facts: dict[UUID, Known] = {}
        self.plan = Plan()
        self._ruling_on = ruling_on
        self._unlearned = unlearned
        self._room = room

    def settle(self, new: Proposal) -> None:
        live = [fact for fact in self.facts.values() if not fact.superseded]
        if new.quarantine:
            # Words that were let in once need no second release.
            released = self._worded_as(new, live)
            if released:
                self._confirm(released, new)
            else:
                self.plan.quarantined.append(new)
        elif new.closes:
            self._close(new, live)
        elif same := self._repeated(new, live):
            self._confirm(same, new)
        elif self._unlearned(new):
            self.plan.dropped.append("deleted")
        else:
            self._enter(new, live)

    def _close(self, new: Proposal, live: Iterable[Known]) -> None:
        for old in self._contradicted(new, live):
            may_end = new.speaks_for_user or not old.speaks_for_user
            if may_end and old.last_confirmed_at <= new.said_at:
                self._end(old, None, new.begins_at)

    def _enter(self, new: Proposal, live: Iterable[Known]) -> None:
        contradicted = self._contradicted(new, live)
        if not new.speaks_for_user and any(fact.speaks_for_user for fact in contradicted):
            # A model's own words against the user's: a person decides.
            self.plan.quarantined.append(replace(new, quarantine=AGAINST_USER))
            return
        later = [fact for fact in contradicted if _is_later(fact, new)]
        if later:
            self._into_history(new, min(later, key=lambda fact: fact.begins_at))
            return
        if not contradicted and self._is_full():
            self.plan.dropped.append("cap")
            return
        for old in contradicted:
            self._end(old, new.id, new.begins_at)
        self._add(new, live)

    def _is_full(self) -> bool:
        return self._room is not None and len(self.plan.added) >= self._room

    def _worded_as(self, new: Proposal, live: Iterable[Known]) -> Known | None:
        return next((fact for fact in live if fact.fingerprint == new.fingerprint), None)

    def _repeated(self, new: Proposal, live: Sequence[Known]) -> Known | None:
        if same := self._worded_as(new, live):
            return same
        for fact in live:
            ruling = self._ruling_on(fact, new)
            if ruling is None or ruling.verdict.relation != "DUPLICATE":
                continue
            if may_repeat(fact, new):
                self.plan.rulings.append(replace(ruling, old=fact.id, new=None))
                return fact
            self._overrule(fact, new, ruling)
        return None

    def _contradicted(self, new: Proposal, live: Iterable[Known]) -> list[Known]:
        """Give the facts that `new` contradicts: judged so, and about the same subject by code."""
        found: list[Known] = []
        for fact in live:
            ruling = self._ruling_on(fact, new)
            if ruling is None or ruling.verdict.relation != "CONTRADICTS":
                continue
            if same_subject(fact.subject, new.subject):
                found.append(fact)
                self.plan.rulings.append(
                    replace(ruling, old=fact.id, new=None if new.closes else new.id)
                )
            else:
                self._overrule(fact, new, ruling)
        return found

    def _overrule(self, fact: Known, new: Proposal, ruling: Ruling) -> None:
        """Keep the verdict that holds instead of one on statements that have no common subject."""
        reason = f"not about the same thing; the judge said {ruling.verdict.relation}"
        verdict = Verdict("INDEPENDENT", reason)
        self.plan.rulings.append(Ruling(fact.id, new.id, verdict, ruling.judge))

    def _confirm(self, fact: Known, new: Proposal) -> None:
        if new.speaks_for_user:
            fact.last_confirmed_at = max(fact.last_confirmed_at, new.said_at)
            self.plan.confirmed.append((fact.id, new))
        else:
            self.plan.repeated.append(fact.id)

    def _end(self, old: Known, by: UUID | None, at: datetime) -> None:
        self._cut(self._chain(old)[:-1], at)
        old.superseded, old.superseded_by, old.valid_to = True, by, max(at, old.begins_at)
        self.plan.ended.append((old.id, by, old.valid_to))

    def _cut(self, history: Iterable[Known], at: datetime) -> None:
        """Let nothing that gave way reach into the time of what is true from then on."""
        for fact in history:
            until = max(at, fact.begins_at)
            if fact.superseded_by and fact.valid_to and fact.valid_to > until:
                fact.valid_to = until
                self.plan.relinked.append((fact.id, fact.superseded_by, until))

    def _add(self, new: Proposal, live: Iterable[Known]) -> None:
        alone = new.slot is not None and not any(
            fact.slot == new.slot and not fact.superseded for fact in live
        )
        self.plan.added.append((new, alone))
        self._remember(new, slot=new.slot if alone else None)

    def _remember(
        self,
        new: Proposal,
        *,
        slot: str | None,
        successor: UUID | None = None,
        until: datetime | None = None,
    ) -> None:
        self.facts[new.id] = Known(
            id=new.id,
            text=new.text,
            kind=new.kind,
            subject=new.subject,
            slot=slot,
            fingerprint=new.fingerprint,
            source=new.source,
            said_at=new.said_at,
            last_confirmed_at=new.said_at,
            valid_from=new.valid_from,
            valid_to=until,
            superseded=successor is not None,
            superseded_by=successor,
            is_new=True,
        )

    def _into_history(self, new: Proposal, winner: Known) -> None:
        """Insert a late statement where its time puts it in the chain that ends in `winner`."""
        chain = self._chain(winner)
        begins = operator.attrgetter("begins_at")
        before = [fact for fact in chain if fact.begins_at <= new.begins_at]
        held = sorted((fact for fact in chain if fact.held), key=begins)
        successor = next((fact for fact in held if fact.begins_at > new.begins_at), winner)
        forerunner = [fact for fact in held if fact.begins_at <= new.begins_at][-1:]
        for fact in (*forerunner, successor):
            # Elsewhere in the chain the same words are of another time: Free, Pro, Free again.
            if fact.fingerprint == new.fingerprint:
                self._confirm(fact, new)
                return
        until = max(successor.begins_at, new.begins_at)
        self.plan.history.append((new, successor.id, until))
        for fact in before:
            if fact.superseded_by == successor.id:
                fact.superseded_by = new.id
                fact.valid_to = min(fact.valid_to or new.begins_at, new.begins_at)
                self.plan.relinked.append((fact.id, new.id, fact.valid_to))
        self._cut(before, new.begins_at)
        self._remember(new, slot=None, successor=successor.id, until=until)

    def _chain(self, winner: Known) -> list[Known]:
        """Give all of its subject that `winner` superseded, directly or not, and it: oldest first.

        In the order of their links, for two may have begun at one time.
        """
        chain = wave = [winner]
        while wave:
            ids = {fact.id for fact in wave}
            wave = [
                fact
                for fact in self.facts.values()
                if fact.superseded_by in ids
                and fact not in chain
                and same_subject(fact.subject, winner.subject)
            ]
            wave.sort(key=lambda fact: fact.begins_at, reverse=True)
            chain = [*chain, *wave]
        return chain[::-1]
