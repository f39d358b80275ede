"""The one door into memory: every text that wants to become a fact passes `check`.

Extraction, hand-written facts, corrections, imports and other protocols use it alike, and recall
runs it again over rows of an older `VERSION`. It is pure: what it says depends on the text only.
Whole turns pass `scrub` first, before they are stored and before a model reads them.
"""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, Literal

from app.llm import Kind
from app.memory import authority, injection, sensitive, shape
from app.memory.secrets import MARK, Scrubbed, scrub
from app.text import fold, one_line, without_accents

__all__ = [
    "DEFAULT_BLOCKED",
    "MARK",
    "MAX_FACT",
    "RELEASED",
    "VERSION",
    "Decision",
    "Scrubbed",
    "check",
    "scrub",
]

VERSION: Final = 1
"""Raised whenever an answer of `check` changes; stored with each fact."""

RELEASED: Final = 2**31 - 1
"""Stored instead of the version with a fact that a person released: no later guard overrules it."""

MAX_FACT: Final = 200
"""Characters of a fact, after `one_line`."""

DEFAULT_BLOCKED: Final = sensitive.CATEGORIES
"""What no fact may hold unless the tenant allows it."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What happens to a text. `reason` is a stable word, safe for logs and metrics.

    Rejected texts are dropped for good: secret, sensitive, too_long, not_a_fact, temporary.
    Quarantined ones wait for a human: markup, hidden, encoded, instruction, trigger, tool,
    other_users, destination, planted, authority. A kept text has the reason "".
    """

    action: Literal["keep", "reject", "quarantine"]
    reason: str = ""


def check(text: str, kind: Kind, *, blocked: AbstractSet[str] = DEFAULT_BLOCKED) -> Decision:
    """Decide about one fact. Never raises, whatever the text.

    What could be a secret or sensitive is rejected before anything is quarantined, because a
    quarantine is stored and shown.
    """
    line = one_line(text)
    if len(line) > MAX_FACT:
        return Decision("reject", "too_long")
    if MARK in line or scrub(text).found:
        return Decision("reject", "secret")
    folded = without_accents(fold(line))
    if sensitive.categories(folded, blocked):
        return Decision("reject", "sensitive")
    steering = injection.steers(text, line, folded)
    if steering is not None:
        return Decision("quarantine", steering)
    if authority.claims_authority(folded):
        return Decision("quarantine", "authority")
    return _by_shape(folded, kind)


def _by_shape(folded: str, kind: Kind) -> Decision:
    if shape.lacks_form(folded):
        return Decision("reject", "not_a_fact")
    if injection.commands(folded):
        return Decision("quarantine", "instruction")
    if shape.is_temporary(folded, may_have_deadline=kind == "goal"):
        return Decision("reject", "temporary")
    return Decision("keep")
