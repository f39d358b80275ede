"""Spans of time as people write them, in settings, commands and policies: `90`, `30m`, `8h`."""

import re
from datetime import timedelta
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

# What is longer than some centuries is a slip. The document says the same.
_WRITTEN = "(?:[0-9]{1,9}s?|[0-9]{1,8}m|[0-9]{1,6}h|[0-9]{1,5}d)"
_MOST_SECONDS = 999_999_999
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_duration(value: Any) -> timedelta:
    """Read seconds, or a number with a unit `s`, `m`, `h` or `d`. Raises `ValueError`."""
    if isinstance(value, timedelta):
        return value
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # in JSON 3.0 is a whole number too
    text = "" if isinstance(value, bool) else str(value)
    if not re.fullmatch(_WRITTEN, text):
        raise ValueError("a duration is a number of seconds, or like 30m, 8h, 90d, up to 99999d")
    number, unit = (text[:-1], text[-1]) if text[-1] in _UNITS else (text, "s")
    return timedelta(seconds=int(number) * _UNITS[unit])


def format_duration(value: timedelta) -> str:
    """Give the shortest form that `parse_duration` reads back as the same span."""
    seconds = int(value.total_seconds())
    for unit in ("d", "h", "m"):
        if seconds and seconds % _UNITS[unit] == 0:
            return f"{seconds // _UNITS[unit]}{unit}"
    return f"{seconds}s"


Duration = Annotated[
    timedelta,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, return_type=str),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": f"^{_WRITTEN}$"},
                {"type": "integer", "minimum": 0, "maximum": _MOST_SECONDS},
            ],
            "examples": ["30m", "8h", "90d"],
        }
    ),
]
