"""How people say that something has ended, and what the statement was that has ended."""

import re

from app.rules.phrases import trim

_GERUNDS = {
    "using": "use",
    "living": "live",
    "having": "have",
    "driving": "drive",
    "writing": "write",
    "practicing": "practice",
    "liking": "like",
    "loving": "love",
    "running": "run",
    "commuting": "commute",
    "hosting": "host",
    "smoking": "smoke",
    "cycling": "cycle",
}
_AGAIN = re.compile(
    r"\b(?:no longer|any ?(?:more|longer)|stopped|quit|ceased|given up|gave up|got rid)\b",
    re.IGNORECASE,
)
_REPLACED = re.compile(r" (?:for|with|in favou?r of|to) [A-Z]\w+")
_DENIED = (
    (
        re.compile(r"(?:(?:i|we|(?:the )?user) )?(?:have )?no longer (?P<base>.+)", re.IGNORECASE),
        "i",
    ),
    (
        re.compile(
            r"(?:i'?m|i am|we're|we are|is|are|(?:the )?user is) no longer (?P<base>.+)",
            re.IGNORECASE,
        ),
        "be",
    ),
    (
        re.compile(
            r"(?:i'?m|i am|we're|we are) not (?P<base>.+?) any ?(?:more|longer)\b", re.IGNORECASE
        ),
        "be",
    ),
    (
        re.compile(
            (
                r"(?:(?:i|we|(?:the )?user) )?(?:don't|do not|dont|doesn't|"
                r"does not) (?:really )?(?P<base>.+?) any ?(?:more|longer)\b"
            ),
            re.IGNORECASE,
        ),
        "i",
    ),
    (
        re.compile(
            (
                r"(?:(?:i|we|i've|we've|i have|we have|(?:the )?user)(?: just| recently| finally|"
                r" also)* )?(?:have )?(?:stopped|quit|ceased|given up|"
                r"gave up) (?P<base>\w+ing\b.*)"
            ),
            re.IGNORECASE,
        ),
        "ing",
    ),
    (
        re.compile(
            (
                r"(?:(?:i|we|i've|we've|i have|we have|(?:the )?user)(?: just| recently| finally|"
                r" also)* )?(?:given up|gave up|got rid of|dropped|ditched|abandoned|moved off|"
                r"moved away from|migrated off|migrated away from|retired|decommissioned|removed|"
                r"sold|(?:quit|stopped) (?=coffee|smoking|alcohol|sugar|caffeine|meat)|(?:am|"
                r"are) done with) (?:of |the |my |our )?(?P<base>.+)"
            ),
            re.IGNORECASE,
        ),
        "any",
    ),
)


def end_of(text: str) -> tuple[str, str] | None:
    """(how the ended statement begins, the rest) where the text says that something has ended.

    It begins with "i", with "be", or with "any" verb, where the text names only the thing. What is
    said to have ended twice over is no plain statement.
    """
    if re.match(r"(?:i|we)(?:'ve| have)? (?:quit|stopped|left) my job\b", text, re.IGNORECASE):
        return None
    for pattern, shape in _DENIED:
        found = pattern.match(text)
        if not found:
            continue
        base = trim(found["base"])
        replaced = shape == "any" and _REPLACED.search(base)
        if replaced or not base.strip() or _AGAIN.search(base):
            return None
        return ("i", _in_the_present(base)) if shape == "ing" else (shape, base)
    return None


def _in_the_present(base: str) -> str:
    first, _, others = base.partition(" ")
    return f"{_GERUNDS.get(first.lower(), first[:-3])} {others}".strip()
