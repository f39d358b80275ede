"""Spans of time as people write them, in settings, commands and policies: `90`, `30m`, `8h`."""

import re
from datetime import timedelta
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

LONGEST = timedelta(days=36_500)
"""A century: what is longer is a slip, and no date can be reckoned with it."""

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_duration(value: Any) -> timedelta:
    """Read seconds, or a number with a unit `s`, `m`, `h` or `d`. Raises `ValueError`."""
    if isinstance(value, timedelta):
        return value
    match = re.fullmatch(r"(\d{1,9})([smhd]?)", str(value).strip())
    if isinstance(value, bool) or match is None:
        raise ValueError("a duration is a number of seconds, or like 30m, 8h, 90d")
    span = timedelta(seconds=int(match[1]) * _UNITS[match[2] or "s"])
    if span > LONGEST:
        raise ValueError("a duration is at most 36500d")
    return span


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
                {"type": "string", "pattern": "^[0-9]{1,9}[smhd]?$"},
                {"type": "integer", "minimum": 0, "maximum": 999_999_999},
            ],
            "examples": ["30m", "8h", "90d"],
        }
    ),
]
