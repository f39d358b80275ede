"""temporary"""

from dataclasses import dataclass
from typing import Literal

from app.llm import Kind
from app.memory.secrets import MARK, scrub

VERSION = 1


@dataclass(frozen=True)
class Decision:
    action: Literal["keep", "reject", "quarantine"]
    reason: str


def check(text: str, kind: Kind) -> Decision:
    if len(text) > 200:
        return Decision("reject", "too_long")
    if not text or text.endswith("?"):
        return Decision("reject", "not_a_fact")
    if MARK in scrub(text).text:
        return Decision("reject", "secret")
    return Decision("keep", "")
