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
    groups = _by_script(others)
    if words:
        groups.append(rf"{_BOUNDARY}(?:{'|'.join(_by_script(words))})")
    return re.compile("|".join(groups))


def _by_script(alternatives: list[str]) -> list[str]:
    """Put those that begin in another script behind one test, which Latin text fails at once."""
    foreign = [one for one in alternatives if _begins_foreign(one)]
    rest = [one for one in alternatives if not _begins_foreign(one)]
    return [*rest, rf"(?=[^\x00-\x7f])(?:{'|'.join(foreign)})"] if foreign else rest


def _begins_foreign(pattern: str) -> bool:
    if not pattern.startswith("(?:"):
        return not pattern[:1].isascii()
    depth = 1
    for end, char in enumerate(pattern[3:], start=3):
        depth += (char == "(") - (char == ")")
        if depth == 0:
            optional = pattern[end + 1 : end + 2] in {"?", "*"}
            return not optional and all(map(_begins_foreign, _split(pattern[3:end])))
    return False


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
