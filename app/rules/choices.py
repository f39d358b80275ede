"""Questions with few answers that exclude each other, whatever the words they come in.

"Prefers window seats", "I like to sit by the window" and "always book the aisle" answer the same
question; a line in `CHOICES` teaches the rules a further one.
"""

import re
from dataclasses import dataclass, replace

from app.rules.languages import one_tongue
from app.rules.lexicon import LANGUAGES
from app.rules.readings import Reading


@dataclass(frozen=True, slots=True)
class Choice:
    """A question with few answers that exclude each other. `about` must occur in the text too."""

    subject: str
    about: str
    answers: dict[str, str]


CHOICES = (
    Choice(
        "seat preference",
        r"\bseats?\b|\baisle\b|\bsit\b|\bflights?\b|\bplanes?\b|\bfly",
        {"window": r"\bwindow", "aisle": r"\baisle", "middle": r"\bmiddle"},
    ),
    Choice("theme", r"\b(?:mode|theme)\b", {"dark": r"\bdark\b", "light": r"\blight\b"}),
    Choice(
        "answer length",
        (
            r"\b(?:answers?|repl(?:y|ies)|responses?|explanations?|messages|explain|"
            r"summaries)\b"
        ),
        {
            "short": r"\b(?:shorter|short|concise|briefly|brief|terse|to the point|succinct)\b",
            "long": (
                r"\b(?:long|longer|detailed|thorough|in-depth|verbose|step[- ]by[- ]step|"
                r"elaborate)\b"
            ),
        },
    ),
    Choice(
        "indentation",
        r"\btabs\b|\bindent|\bspaces (?:over|instead|for)|\b(?:two|four|2|4) spaces",
        {"tabs": r"\btabs\b", "spaces": r"\bspaces\b"},
    ),
    Choice(
        "units", r"\b(?:metric|imperial)\b", {"metric": r"\bmetric\b", "imperial": r"\bimperial\b"}
    ),
    Choice(
        "temperature unit",
        r"\b(?:celsius|fahrenheit)\b",
        {"celsius": r"\bcelsius\b", "fahrenheit": r"\bfahrenheit\b"},
    ),
    Choice("time format", r"\b(?:24|12)[- ]?h", {"24": r"\b24", "12": r"\b12"}),
    Choice(
        "tone",
        r"\b(?:tone|answers?|repl(?:y|ies)|write|talk|speak|address|language|style)\b",
        {"informal": r"\b(?:informal(?:ly)?|casual(?:ly)?)\b", "formal": r"\bformal(?:ly)?\b"},
    ),
    Choice(
        "emoji use",
        r"\bemojis?\b",
        {
            "no": (
                r"\b(?:no|not|never|don't|do not|without|stop|avoid|hates?|dislikes?|skip|drop|"
                r"doesn't|does not|can't stand)\b"
            ),
            "yes": r"\bemojis?\b",
        },
    ),
)

_IN_LANGUAGE = re.compile(
    r"\b(?:answer|answers|reply|replies|respond|responses?|write|speak|talk|communicate|explain|"
    r"chat|switch(?: back)?)\b.{0,40}?\b(?:in|"
    r"to) (?P<lang>[^\W\d_]{4,12})\b(?! (?:script|code|class|lesson))",
    re.IGNORECASE,
)
_CHOOSES = re.compile(
    r"(?:(?:i|we|the user|user) )?(?:(?:now|always|really|only|would|"
    r"usually) )*(?:prefers?|likes?|loves?|wants?|dislikes?|hates?|"
    r"uses?|writes?|indents?|always|never|please|answers?|reply|respond|keep|give|"
    r"switch|write|speak|talk|be|"
    r"no|don't|do not|avoid|stop|skip|address|explain|from now on|in future|does not|"
    r"doesn't|use|format|measure|"
    r"make|i want|flies|short|long|concise)\b",
    re.IGNORECASE,
)


def choice(text: str) -> tuple[str, str] | None:
    """(subject, answer) where a text takes one side of a known choice."""
    lead = _CHOOSES.match(text)
    if not lead:
        return None
    tongue = _IN_LANGUAGE.search(text)
    if tongue and tongue["lang"].lower() in LANGUAGES:
        return "answer language", one_tongue(tongue["lang"])
    for question in CHOICES:
        if re.search(question.about, text, re.IGNORECASE):
            places = {
                answer: found.start()
                for answer, pattern in question.answers.items()
                if (found := re.search(pattern, text, re.IGNORECASE))
            }
            if question.subject == "emoji use" and "no" in places:
                return question.subject, "no"
            if places:
                return question.subject, min(places, key=lambda answer: places[answer])
    return None


def chosen(reading: Reading, text: str) -> Reading:
    """The reading of `text` under the choice that it makes, if it makes one."""
    if reading.subject not in ("likes", "tools", "food", "travel"):
        return reading
    found = choice(text)
    if not found:
        return reading
    likes = reading.likes or found[0] == "emoji use"
    return replace(reading, subject=found[0], value=found[1], likes=likes, weak=False)
