"""Which pairs a judge is shown: so few that one call answers them, the likeliest to matter first.

A session can hold sixty candidates that all speak of tools; every pair of them would be thousands.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from uuid import UUID

from app.llm import Pair
from app.memory.reconcile import Known, Proposal, as_said
from app.rules import same_subject
from app.text import words

MOST_PAIRS: Final = 200
"""In one question: 80,000 characters at most, and about 6,000 tokens of verdicts."""


def pairs_of(
    proposals: Sequence[Proposal], neighbours: Iterable[tuple[int, Known]]
) -> list[tuple[UUID, UUID, Pair]]:
    """Pair every proposal with its neighbours, and with earlier proposals that may be about it.

    Those are of the same subject or share a word. Each proposal's closest pair comes before any
    second one, so that what goes beyond `MOST_PAIRS` is the least related. `neighbours` are given
    with the number of their proposal.
    """
    stored: dict[UUID, list[Known | Proposal]] = {}
    for n, fact in neighbours:
        stored.setdefault(proposals[n].id, []).append(fact)
    asked = as_said(p for p in proposals if not p.quarantine)
    known = {fact.id: fact for facts in stored.values() for fact in facts}
    bags = {said.id: set(words(said.text)) for said in (*asked, *known.values())}
    ranked: list[tuple[int, Known | Proposal, Proposal]] = []
    for i, new in enumerate(asked):
        earlier = [
            old
            for old in asked[:i]
            if old.subject == new.subject or not bags[old.id].isdisjoint(bags[new.id])
        ]
        olds = [
            old for old in (*stored.get(new.id, ()), *earlier) if old.fingerprint != new.fingerprint
        ]
        olds.sort(key=lambda old: _distance(old, new, bags))
        ranked += [(rank, old, new) for rank, old in enumerate(olds)]
    ranked.sort(key=lambda item: item[0])
    return [
        (old.id, new.id, Pair(old.statement(), new.statement()))
        for _, old, new in ranked[:MOST_PAIRS]
    ]


def _distance(
    old: Known | Proposal, new: Proposal, bags: Mapping[UUID, set[str]]
) -> tuple[bool, float]:
    mine, theirs = bags[old.id], bags[new.id]
    shared = len(mine & theirs) / (len(mine | theirs) or 1)
    return not same_subject(old.subject, new.subject), -shared
