"""What a recall gives, and what of it a frozen session keeps."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Final, Literal, NamedTuple
from uuid import UUID, uuid4

from pydantic_core import from_json, to_json

from app.llm import Kind
from app.memory import guard
from app.memory.render import Tier, estimate_tokens
from app.memory.selection import Selection, escaped

Degraded = Literal["embedder", "deadline", "text_search"]


class RecalledFact(NamedTuple):
    """A fact in the block; `score` only in the similarity tier."""

    id: str
    tier: Tier
    kind: Kind
    text: str
    score: float | None


@dataclass(frozen=True, slots=True)
class Lasting:
    """What every recall of a frozen session gets, kept as the text that leaves.

    So a frozen block isn't taken apart only to be put together again.
    """

    json: str
    """An object of `block`, `stable`, `volatile`, `system`, `facts`, `tokens`, `left_out`."""
    etag: str
    tokens: int
    facts: Sequence[str] = ()
    """Ids of the user's facts in the block, `shared` those of the organization's."""
    shared: Sequence[str] = ()
    guard_version: int = guard.VERSION
    """That let all of them pass."""

    @classmethod
    def of(cls, chosen: Selection) -> "Lasting":
        """Put a selection into words. Empty without a fact."""
        block = chosen.block
        stable, volatile = chosen.stable.escaped if block else "", escaped(chosen.volatile)
        system = _SYSTEM % (stable, volatile) if block else ""
        facts = [f"{row.json}{chosen.scores[row.id]}}}" for row in chosen.similar]
        if chosen.stable.json:
            facts.insert(0, chosen.stable.json)
        tokens = estimate_tokens(block)
        return cls(
            f'{{"block":"{stable}{volatile}","stable":"{stable}","volatile":"{volatile}",'
            f'"system":[{system}],"facts":[{",".join(facts)}],"tokens":{tokens},'
            f'"left_out":{to_json(chosen.left_out).decode()}}}',
            f'W/"{hashlib.sha256(block.encode()).hexdigest()[:32]}"',
            tokens,
            [*chosen.stable.own, *(row.id for row in chosen.similar)],
            chosen.stable.shared,
        )


_SYSTEM: Final = (
    '{"type":"text","text":"%s","cache_control":{"type":"ephemeral"}},{"type":"text","text":"%s"}'
)
LASTING: Final = {item.name for item in fields(Lasting)}
_NOTHING: Final = Lasting.of(Selection())


@dataclass(frozen=True, slots=True)
class Recall:
    """The answer: what a frozen session keeps of it, and what is of this moment."""

    lasting: Lasting = _NOTHING
    frozen: bool = False
    degraded: Degraded | None = None
    pending_sessions: int = 0
    memory: str = "on"
    recall_id: UUID = field(default_factory=uuid4)
    rechecked: Sequence[str] = ()
    """Facts of an older guard that the present one let pass."""

    @property
    def json(self) -> str:
        """The whole answer as it leaves."""
        degraded = f'"{self.degraded}"' if self.degraded else "null"
        return (
            f'{{"recall_id":"{self.recall_id}","frozen":{"true" if self.frozen else "false"},'
            f'"degraded":{degraded},"pending_sessions":{self.pending_sessions},'
            f'"memory":"{self.memory}",{self.lasting.json[1:]}'
        )

    @property
    def block(self) -> str:
        """The text for the prompt."""
        block: str = from_json(self.lasting.json)["block"]
        return block

    @property
    def facts(self) -> list[RecalledFact]:
        """The facts in the block."""
        return [RecalledFact(**fact) for fact in from_json(self.lasting.json)["facts"]]
