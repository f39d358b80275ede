"""Finds what a chatty message asks: its sentences, to be embedded beside the whole.

One vector for a message full of small talk points nowhere; the best of its sentences does.
"""

import re

from app.embeddings.seam import LONGEST

LONGEST_SENTENCE = 300
LEAST_LETTERS = 3
"""A fragment with fewer says nothing: "Hi!", "1."."""

# Latin stops end a sentence only before a space ("3.5", "usermem.dev"). The others always do:
# ideographic and full-width, Arabic question mark, Urdu full stop, danda and double danda.
_BOUNDARY = re.compile(
    r"(?<=[.!?\u2026])\s+|(?<=[\u3002\uff01\uff1f\u061f\u06d4\u0964\u0965])\s*|[\r\n]+"
)
_QUESTION_MARKS = ("?", "\uff1f", "\u061f")


def sentences(text: str, limit: int = 8) -> list[str]:
    """Give the whole message, cut to what an embedder reads, then at most `limit` sentences of it.

    Of more sentences the questions are kept first, then the last ones, in the message's order. Of
    a very long message only the two ends are searched. No item is empty; blank text has none.
    """
    text = text.strip()
    whole = _tidy(text[:LONGEST])
    ends = text if len(text) <= 2 * LONGEST else f"{text[:LONGEST]}\n{text[-LONGEST:]}"
    found = dict.fromkeys(part[:LONGEST_SENTENCE] for part in split(ends))
    parts = [
        part for part in found if part != whole and sum(map(str.isalnum, part)) >= LEAST_LETTERS
    ]
    urgent = sorted(range(len(parts)), key=lambda n: (not parts[n].endswith(_QUESTION_MARKS), -n))
    kept = [parts[n] for n in sorted(urgent[:limit])]
    return [whole, *kept] if whole else kept


def split(text: str) -> list[str]:
    """Cut a text at the ends of its sentences and lines; what is blank falls out."""
    return [tidy for part in _BOUNDARY.split(text) if (tidy := _tidy(part))]


def _tidy(text: str) -> str:
    return " ".join(text.split())
