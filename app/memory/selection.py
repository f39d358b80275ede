"""What goes into a block, and what is sacrificed first when the budget is too small. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from app.llm import Kind
from app.memory import guard
from app.memory.render import FRAME_WEIGHT, HEADINGS, Tier, in_tokens, line, render, weigh

CAPS: Final[dict[Tier, int]] = {"organization": 10, "always_on": 12, "similarity": 8}


_HEADING_WEIGHTS: Final = {tier: weigh(f"{heading}\n") for tier, heading in HEADINGS.items()}


class Row(NamedTuple):
    """A fact that may go into the block, and how many of its tier there are."""

    tier: Tier
    id: str
    text: str
    kind: Kind
    pinned: bool
    created_at: int
    guard_version: int
    is_standing: bool
    score: float | None
    eligible: int


@dataclass(frozen=True, slots=True)
class Selection:
    """The facts of the block in its order, the block in its two parts, and what it left out.

    `rechecked` are facts of an older guard that the present one let pass.
    """

    rows: Sequence[Row] = ()
    stable: str = ""
    volatile: str = ""
    left_out: dict[Tier, int] = field(default_factory=lambda: dict.fromkeys(CAPS, 0))
    rechecked: Sequence[str] = ()


def select(rows: Iterable[Row], budget: int) -> Selection:
    """Choose what fits the tiers' caps and the budget of tokens; rows come best first in a tier.

    That is also the order of print, but for the similarity tier, which is printed by age.

    What an older guard let pass is checked again, and never chosen if the present one would not.

    A fact left out counts for the tier it belongs to, once, and not at all when the block shows it.
    """
    chosen: dict[Tier, list[Row]] = {tier: [] for tier in CAPS}
    left_out: dict[Tier, int] = dict.fromkeys(CAPS, 0)
    rechecked: list[str] = []
    unfit: dict[str, Tier] = {}
    for row in rows:
        left_out[row.tier] = row.eligible
        if row.guard_version < guard.VERSION:
            if guard.check(row.text, row.kind).action != "keep":
                unfit[row.id] = _own_tier(row)
                continue
            rechecked.append(row.id)
        if len(chosen[row.tier]) < CAPS[row.tier] and not _is_shown(row, chosen):
            chosen[row.tier].append(row)
    lines = {row.text: line(row.text) for rows in chosen.values() for row in rows}
    _fit(chosen, lines, budget)
    chosen["similarity"].sort(key=lambda row: (row.created_at, row.id))
    stable, volatile = render({tier: [lines[row.text] for row in chosen[tier]] for tier in chosen})
    kept = [row for rows in chosen.values() for row in rows]
    for tier in (*unfit.values(), *map(_own_tier, kept)):
        left_out[tier] -= 1
    return Selection(kept, stable, volatile, left_out, rechecked)


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


def _fit(chosen: dict[Tier, list[Row]], lines: Mapping[str, str], budget: int) -> None:
    """Sacrifice facts until the block fits."""
    weight = FRAME_WEIGHT + sum(
        _HEADING_WEIGHTS[tier] + weigh("".join(lines[row.text] for row in rows))
        for tier, rows in chosen.items()
        if rows
    )
    while in_tokens(weight) > budget and (victim := _weakest(chosen)):
        rest = chosen[victim.tier]
        rest.remove(victim)
        weight -= weigh(lines[victim.text]) + (0 if rest else _HEADING_WEIGHTS[victim.tier])


def _weakest(chosen: dict[Tier, list[Row]]) -> Row | None:
    """Find whom to sacrifice next.

    Similarity goes first, weakest first; then profile, organization, the newest constraint, pinned.
    """
    always_on = chosen["always_on"]
    for rows, worth in (
        (chosen["similarity"], _likeness),
        ([row for row in always_on if _class(row) == 2], _age),
        (chosen["organization"], _age),
        ([row for row in always_on if _class(row) == 1], _age),
        (always_on, _age),
    ):
        if rows:
            return min(rows, key=worth)
    return None


def _likeness(row: Row) -> tuple[float, int, int]:
    return (row.score or 0.0, *_age(row))


def _age(row: Row) -> tuple[int, int]:
    """Of two facts the younger goes first."""
    return (-row.created_at, -int(row.id.replace("-", ""), 16))
