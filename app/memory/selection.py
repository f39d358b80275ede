"""What goes into a block, and what is sacrificed first when the budget is too small. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pydantic_core import to_json

from app.llm import Kind
from app.memory import guard
from app.memory.render import (
    CLOSE,
    HEADINGS,
    Tier,
    in_tokens,
    line,
    render_stable,
    render_volatile,
    weigh,
)

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


def escaped(text: str) -> str:
    """Give a text as it stands between the quotation marks of a JSON string."""
    return to_json(text).decode()[1:-1]


@dataclass(slots=True)
class Stable:
    """The tiers that no message changes, chosen and put into words: once for many recalls.

    `left_out` counts what of them is not here, `unfit` is what the present guard would not let in,
    `rechecked` what it did.
    """

    rows: Sequence[Row] = ()
    left_out: Mapping[Tier, int] = field(default_factory=lambda: dict.fromkeys(CAPS, 0))
    unfit: Mapping[str, Tier] = field(default_factory=dict)
    rechecked: Sequence[str] = ()
    text: str = field(init=False)
    weight: int = field(init=False)
    escaped: str = field(init=False)
    """The text as it stands in JSON."""
    json: str = field(init=False)
    """The facts in the answer."""
    own: Sequence[str] = field(init=False)
    """Ids of the user's facts, `shared` those of the organization's."""
    shared: Sequence[str] = field(init=False)

    def __post_init__(self) -> None:
        """Put it into words."""
        lines = {tier: [row.line for row in self.rows if row.tier == tier] for tier in CAPS}
        self.text = render_stable(lines["organization"], lines["always_on"])
        self.weight = weigh(self.text + CLOSE)
        self.escaped = escaped(self.text)
        self.json = ",".join([f"{row.json}null}}" for row in self.rows])
        self.own = [row.id for row in self.rows if row.tier != "organization"]
        self.shared = [row.id for row in self.rows if row.tier == "organization"]


@dataclass(frozen=True, slots=True)
class Similar:
    """What a message finds, best first, with scores by id; `belonging` counts the tier's own."""

    rows: Sequence[Row] = ()
    scores: Mapping[str, float] = field(default_factory=dict)
    belonging: int = 0


@dataclass(frozen=True, slots=True)
class Selection:
    """The block in its two parts, the facts in it, and what it left out.

    `rechecked` are facts of an older guard that the present one let pass.
    """

    stable: Stable = field(default_factory=Stable)
    similar: Sequence[Row] = ()
    scores: Mapping[str, float] = field(default_factory=dict)
    volatile: str = ""
    left_out: dict[Tier, int] = field(default_factory=lambda: dict.fromkeys(CAPS, 0))
    rechecked: Sequence[str] = ()

    @property
    def block(self) -> str:
        """The block; empty without a fact."""
        return self.stable.text + self.volatile if self.volatile else ""


def choose_stable(rows: Iterable[Row], belonging: Mapping[Tier, int]) -> Stable:
    """Choose of the organization's and the always-on tier what fits their caps; best come first.

    `belonging` counts the facts of each. What an older guard let pass is checked again, and never
    chosen if the present one would not.
    """
    unfit: dict[str, Tier] = {}
    rechecked: list[str] = []
    fit = _fitting(rows, unfit, rechecked)
    chosen = [
        row
        for tier in ("organization", "always_on")
        for row in [row for row in fit if row.tier == tier][: CAPS[tier]]
    ]
    left_out = {**dict.fromkeys(CAPS, 0), **belonging}
    for tier in (*unfit.values(), *(row.tier for row in chosen)):
        left_out[tier] -= 1
    return Stable(chosen, left_out, unfit, rechecked)


def select(stable: Stable, found: Similar, budget: int) -> Selection:
    """Add what a message finds, and leave out what the budget of tokens has no room for.

    The similarity tier is printed by age. What an older guard let pass is checked again here too.

    A fact left out counts for the tier it belongs to, once, and not at all when the block shows it.
    """
    unfit: dict[str, Tier] = dict(stable.unfit)
    rechecked = list(stable.rechecked)
    fit = _fitting(found.rows, unfit, rechecked)
    # Some moved up into the always-on tier, in the place of an unfit one.
    shown = {row.id for row in stable.rows} if any(row.is_standing for row in fit) else ()
    similar = [row for row in fit if row.id not in shown][: CAPS["similarity"]]
    left_out = dict(stable.left_out)
    left_out["similarity"] += found.belonging
    for tier in (*(unfit[id_] for id_ in unfit.keys() - stable.unfit), *map(_own_tier, similar)):
        left_out[tier] -= 1
    stable, similar = _fit(stable, similar, found.scores, left_out, budget)
    similar.sort(key=lambda row: (row.created_at, row.id))
    is_empty = not (stable.rows or similar)
    volatile = "" if is_empty else render_volatile([row.line for row in similar])
    return Selection(stable, similar, found.scores, volatile, left_out, rechecked)


def _fitting(rows: Iterable[Row], unfit: dict[str, Tier], rechecked: list[str]) -> list[Row]:
    fit = []
    for row in rows:
        if row.guard_version < guard.VERSION:
            if guard.check(row.text, row.kind).action != "keep":
                unfit[row.id] = _own_tier(row)
                continue
            rechecked.append(row.id)
        fit.append(row)
    return fit


def _own_tier(row: Row) -> Tier:
    return "always_on" if row.is_standing else row.tier


def _class(row: Row) -> int:
    return 0 if row.pinned else 1 if row.kind == "constraint" else 2


def _fit(
    stable: Stable,
    similar: list[Row],
    scores: Mapping[str, float],
    left_out: dict[Tier, int],
    budget: int,
) -> tuple[Stable, list[Row]]:
    """Sacrifice facts until the block fits, and count them as left out."""
    weight = stable.weight + (
        _HEADING_WEIGHTS["similarity"] + sum([row.weight for row in similar]) if similar else 0
    )
    if in_tokens(weight) <= budget:
        return stable, similar
    rows, similar = list(stable.rows), list(similar)
    while in_tokens(weight) > budget and (victim := _weakest(rows, similar, scores)):
        rest = similar if victim.tier == "similarity" else rows
        rest.remove(victim)
        left_out[_own_tier(victim)] += 1
        is_last = all(row.tier != victim.tier for row in rest)
        weight -= victim.weight + (_HEADING_WEIGHTS[victim.tier] if is_last else 0)
    return Stable(rows), similar


def _weakest(
    rows: Sequence[Row], similar: Sequence[Row], scores: Mapping[str, float]
) -> Row | None:
    """Find whom to sacrifice next.

    Similarity goes first, weakest first; then profile, organization, the newest constraint, pinned.
    """
    if similar:
        return min(similar, key=lambda row: (scores[row.id], *_age(row)))
    always_on = [row for row in rows if row.tier == "always_on"]
    for weaker in (
        [row for row in always_on if _class(row) == 2],
        [row for row in rows if row.tier == "organization"],
        [row for row in always_on if _class(row) == 1],
        always_on,
    ):
        if weaker:
            return min(weaker, key=_age)
    return None


def _age(row: Row) -> tuple[int, int]:
    """Of two facts the younger goes first."""
    return (-row.created_at, -int(row.id.replace("-", ""), 16))
