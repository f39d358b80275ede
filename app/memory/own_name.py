"""Leaves the asking user's own name out of what is embedded: it drags the ranking to itself."""

import re
from typing import Final

_WORD = re.compile(r"[^\W\d_][\w'’-]*")
_AROUND_A_NAME: Final = frozenset(
    ("name", "names", "named", "is", "called", "the", "a", "my", "user", "user's", "full", "first")
)


def without_name(query: str, name: str | None) -> str:
    """Give the query without the words of the user's name fact, unless nothing else is in it."""
    if name is None:
        return query
    parts = [word for word in _WORD.findall(name) if word.lower() not in _AROUND_A_NAME]
    if not parts:
        return query
    own = "|".join(map(re.escape, parts))
    rest = " ".join(re.sub(rf"(?<!\w)(?:{own})(?:['’]s)?(?!\w)", " ", query).split())
    return rest if any(map(str.isalnum, rest)) else query
