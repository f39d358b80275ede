"""Texts that a spreadsheet would take for formulas, made harmless in an export and back again."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

_FORMULA: Final = re.compile("'*[=+\\-@\t\r\n\uff0b\uff0d\uff1d\uff20]")


def neutral(value: Any) -> Any:
    """Put an apostrophe before every text that a spreadsheet would take for a formula, keys too.

    A text that stands so already gets one more, so `verbatim` gives back exactly what there was.
    """
    return _through(value, lambda text: "'" + text if _FORMULA.match(text) else text)


def verbatim(value: Any) -> Any:
    """Undo `neutral`."""
    return _through(
        value,
        lambda text: text[1:] if text.startswith("'") and _FORMULA.match(text) else text,
    )


def _through(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {change(key): _through(item, change) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [_through(item, change) for item in value]
    return value
