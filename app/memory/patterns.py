r"""Builds the guard's large alternations so that they stay fast to search.

A table of phrases, each starting with `\b`, would test that boundary once per phrase at every
character. Taken out of the phrases it is tested once, and most phrases then fail on one letter.
"""

import re
from collections.abc import Iterator
from typing import Final

from app.text import without_accents

_BOUNDARY: Final = r"\b"


def one_of(*alternatives: str) -> re.Pattern[str]:
    """Compile a search for any of the alternatives, for folded text without accents.

    Each argument may hold several, separated by `|`. Accents in them don't matter.
    """
    every = [one for part in alternatives for one in _split(without_accents(part))]
    words = [one[len(_BOUNDARY) :] for one in every if one.startswith(_BOUNDARY)]
    others = [one for one in every if not one.startswith(_BOUNDARY)]
    if words:
        others.append(rf"{_BOUNDARY}(?:{'|'.join(words)})")
    return re.compile("|".join(others))


def words_of(text: str) -> frozenset[str]:
    """The words of a table that is laid out as text."""
    return frozenset(text.split())


def _split(pattern: str) -> Iterator[str]:
    """Split at each `|` that is in no group and no character class."""
    depth, in_class, start, at = 0, False, 0, 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            at += 1
        elif in_class:
            in_class = char != "]"
        elif char == "[":
            in_class = True
        elif char in "()":
            depth += 1 if char == "(" else -1
        elif char == "|" and depth == 0:
            yield pattern[start:at]
            start = at + 1
        at += 1
    yield pattern[start:]
