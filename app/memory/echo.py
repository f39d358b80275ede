"""Cutting out what Usermem itself served, so that recalled memory is not learned again.

A block can come back whole, as HTML entities, or with its tags lost on the way; what is cut is the
tagged span, then every line that is one of the block's own headings, with the list below it.
"""

import re

from app.memory.render import CLOSE, HEADINGS, OPEN, PREAMBLE
from app.text import fold

_TAGGED = re.compile(
    "|".join(
        f"{left}user_memory{right}.*?(?:{left}/user_memory{right}|\\Z)"
        for left, right in (("<", ">"), ("&lt;", "&gt;"), ("&amp;lt;", "&amp;gt;"))
    ),
    re.DOTALL | re.IGNORECASE,
)
_OURS = frozenset(fold(line) for line in (*PREAMBLE, *HEADINGS.values(), OPEN, CLOSE))
_ITEM = re.compile(r"\s*[-*•]\s")
_MARKUP = " \t>*_#`"


def cut_echo(text: str) -> str:
    """Give the turn without served memory; unchanged when there is none."""
    text = _TAGGED.sub("\n", text)
    kept: list[str] = []
    below_heading = False
    cut = False
    for line in text.split("\n"):
        if fold(line.strip(_MARKUP)) in _OURS:
            below_heading = cut = True
        elif not (below_heading and _ITEM.match(line)):
            below_heading = below_heading and not line.strip()
            kept.append(line)
    return "\n".join(kept).strip() if cut else text.strip()
