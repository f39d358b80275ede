"""The page's words, a file a language in `locales/`, and which language a visitor reads."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

_FOLDER: Final = Path(__file__).with_name("locales")


class Texts:
    """One language: `texts("key", name=value)` gives the words, `date` and `time` tell a time."""

    def __init__(self, language: str) -> None:
        self.language = language
        self.table: dict[str, Any] = json.loads(
            (_FOLDER / f"{language}.json").read_text(encoding="utf-8")
        )

    def __call__(self, key: str, **values: object) -> str:
        """Give a text with the values put in. A key that is not there is a fault of ours."""
        text: str = self.table[key]
        return text.format_map(values) if values else text

    def __contains__(self, key: str) -> bool:
        return key in self.table

    def date(self, at: datetime, zone: ZoneInfo) -> str:
        """Tell a day as people of the language write it."""
        local = at.astimezone(zone)
        month = self.table["months"][local.month - 1]
        return self("date", day=local.day, month=month, year=local.year)

    def time(self, at: datetime, zone: ZoneInfo) -> str:
        """Tell a time of the day."""
        return f"{at.astimezone(zone):%H:%M}"


TEXTS: Final = {language: Texts(language) for language in ("en", "ro")}
"""English comes first: it serves where no other does."""


def choose(*wishes: str | None) -> Texts:
    """Give the first language that we have; each wish is a tag, or an Accept-Language header."""
    for wish in wishes:
        for tag in _by_preference(wish or ""):
            found = TEXTS.get(tag.partition("-")[0])
            if found is not None:
                return found
    return TEXTS["en"]


def _by_preference(header: str) -> list[str]:
    """Read the tags of an Accept-Language header, the most wanted first; refused ones are none."""
    wanted: list[tuple[float, str]] = []
    for part in header.lower().split(",")[:20]:
        tag, _, quality = part.partition(";q=")
        try:
            weight = float(quality or 1)
        except ValueError:
            continue
        if weight > 0:
            wanted.append((-weight, tag.strip()))
    return [tag for _, tag in sorted(wanted, key=lambda item: item[0])]
