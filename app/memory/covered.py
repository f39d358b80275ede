"""Words of a stored fact as they may leave: what an older guard let in, without its secrets.

Today's guard keeps secrets out of facts; a row of old may still hold one. Whatever shows a fact to
a caller or a person, or gives it to a model, takes its words from here. Recall and search leave
such a fact out instead: there it is nothing but a danger, here somebody must be able to delete it.
"""

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from app.memory import guard

_Words = TypeVar("_Words", str, dict[str, Any])


def covered(words: _Words, guard_version: int) -> _Words:
    """Give a fact's text, subject or metadata; a row that the present guard has seen as it is."""
    return words if guard_version >= guard.VERSION else cast("_Words", _cover(words))


def covered_quote(quote: str) -> str:
    """Give what was said or reasoned about a fact: no guard's version stands for that."""
    return guard.scrub(quote).text


def _cover(value: object, name: str = "") -> object:
    """Cover a JSON value; what is a secret by its name alone goes as a whole."""
    if isinstance(value, Mapping):
        return {guard.scrub(key).text: _cover(item, key) for key, item in value.items()}
    if isinstance(value, list):
        return [_cover(item, name) for item in value]
    if not isinstance(value, str):
        return value
    scrubbed = guard.scrub(value)
    if name and not scrubbed.found and guard.scrub(f"my {name} is {value}").found:
        return guard.MARK
    return scrubbed.text
