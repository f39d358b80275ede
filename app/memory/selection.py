"""What goes into a block, and what is sacrificed first when the budget is too small. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pydantic_core import to_json

from app.llm import Kind
from app.memory import guard
from app.memory.render import FRAME_WEIGHT, HEADINGS, Tier, in_tokens, line, render, weigh

CAPS: Final[dict[Tier, int]] = {"organization": 10, "always_on": 12, "similarity": 8}


_HEADING_WEIGHTS: Final = {tier: weigh(f"{heading}\n") for tier, heading in HEADINGS.items()}


@dataclass(slots=True)
class Row:
    """A fact that may go into the block, and what of it needs saying once only."""

    tier: Tier
    id: str
    text: str
    kind: Kind
    pinned: bool
    created_at: int
    guard_version: int
    is_standing: bool
    """It belongs to the always-on tier, whichever it is shown in."""
    line: str = field(init=False)
    """Its line in the block."""
    weight: int = field(init=False)
    json: str = field(init=False)
    """It in the answer: an object that lacks its score and its end."""

    def __post_init__(self) -> None:
        """Put it into words."""
        self.line = line(self.text)
        self.weight = weigh(self.line)
        told = {"id": self.id, "tier": self.tier, "kind": self.kind, "text": self.text}
        self.json = f'{to_json(told).decode()[:-1]},"score":'


@dataclass(frozen=True, slots=True)
class Candidates:
    """What may go into a block, best first in each tier.

    `belonging` counts the facts of each tier, `scores` are those of the similarity tier by id.
    """

    rows: list[Row]
    belonging: dict[Tier, int]
    scores: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Selection:
    """The facts of the block in its order, the block in its two parts, and what it left out.

    `rechecked` are facts of an older guard that the present one let pass.
    """

    rows: Sequence[Row] = ()
    scores: Mapping[str, float] = field(default_factory=dict)
    stable: str = ""
    volatile: str = ""
    left_out: dict[Tier, int] = field(default_factory=lambda: dict.fromkeys(CAPS, 0))
    rechecked: Sequence[str] = ()


def select(candidates: Candidates, budget: int) -> Selection:
    """Choose what fits the tiers' caps and the budget of tokens.

    The order is also that of print, but for the similarity tier, which is printed by age.

    What an older guard let pass is checked again, and never chosen if the present one would not.

    A fact left out counts for the tier it belongs to, once, and not at all when the block shows it.
    """
    chosen: dict[Tier, list[Row]] = {tier: [] for tier in CAPS}
    left_out = dict(candidates.belonging)
    rechecked: list[str] = []
    unfit: dict[str, Tier] = {}
    for row in candidates.rows:
        if row.guard_version < guard.VERSION:
            if guard.check(row.text, row.kind).action != "keep":
                unfit[row.id] = _own_tier(row)
                continue
            rechecked.append(row.id)
        if len(chosen[row.tier]) < CAPS[row.tier] and not _is_shown(row, chosen):
            chosen[row.tier].append(row)
    _fit(chosen, candidates.scores, budget)
    chosen["similarity"].sort(key=lambda row: (row.created_at, row.id))
    stable, volatile = render({tier: [row.line for row in chosen[tier]] for tier in chosen})
    kept = [row for rows in chosen.values() for row in rows]
    for tier in (*unfit.values(), *map(_own_tier, kept)):
        left_out[tier] -= 1
    return Selection(kept, candidates.scores, stable, volatile, left_out, rechecked)


def _is_shown(row: Row, chosen: dict[Tier, list[Row]]) -> bool:
    """Tell whether a fact moved up into the always-on tier, in the place of an unfit one."""
    return (
        row.is_standing
        and row.tier == "similarity"
        and any(row.id == other.id for other in chosen["always_on"])
    )


def _own_tier(row: Row) -> Tier:
    return "always_on" if row.is_standing else row.tier


def _class(row: Row) -> int:
    return 0 if row.pinned else 1 if row.kind == "constraint" else 2


def _fit(chosen: dict[Tier, list[Row]], scores: Mapping[str, float], budget: int) -> None:
    """Sacrifice facts until the block fits."""
    weight = FRAME_WEIGHT + sum(
        _HEADING_WEIGHTS[tier] + sum([row.weight for row in rows])
        for tier, rows in chosen.items()
        if rows
    )
    while in_tokens(weight) > budget and (victim := _weakest(chosen, scores)):
        rest = chosen[victim.tier]
        rest.remove(victim)
        weight -= victim.weight + (0 if rest else _HEADING_WEIGHTS[victim.tier])


def _weakest(chosen: dict[Tier, list[Row]], scores: Mapping[str, float]) -> Row | None:
    """Find whom to sacrifice next.

    Similarity goes first, weakest first; then profile, organization, the newest constraint, pinned.
    """
    if chosen["similarity"]:
        return min(chosen["similarity"], key=lambda row: (scores[row.id], *_age(row)))
    always_on = chosen["always_on"]
    for rows in (
        [row for row in always_on if _class(row) == 2],
        chosen["organization"],
        [row for row in always_on if _class(row) == 1],
        always_on,
    ):
        if rows:
            return min(rows, key=_age)
    return None


def _age(row: Row) -> tuple[int, int]:
    """Of two facts the younger goes first."""
    return (-row.created_at, -int(row.id.replace("-", ""), 16))
