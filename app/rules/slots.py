"""What may stand in a pattern's `{slot}`: each reader takes the rest of a clause and gives values.

No value means that the pattern doesn't apply. Readers lean to refusing: a fact that was missed can
be said again, a wrong one misleads for months.
"""

import re
from collections.abc import Callable

from app.rules.lexicon import DEMONYMS, LANGUAGES, NOT_NAMES
from app.rules.phrases import CAPITAL, head, is_passing, split_list, trim
from app.rules.roles import any_role, is_role, role, titled_role
from app.rules.subjects import fold, is_place, tool

MAX_VALUE = 110

_BAD_THING = re.compile(
    r"(?:this|that|it|its|these|those|them|you|your|him|her|his|how|what|when|where|why|who|to be|"
    r"which|both|neither|everything|nothing|something|anything|me|us|my|our|one|ones|same|here|"
    r"there|if|so|as|not|seeing|hearing|being (?!called)|doing (?:this|that|it)|more|"
    r"another|either|any|all|"
    r"some|such|each|every|other|the (?:other|last|next|same|way|idea|fact|first|second|third|"
    r"one|above|following|latter|former|new|current|original|old|result|output|error|code|"
    r"sound|look|thought|part|bit|answer|joke|suggestion|previous))\b",
    re.IGNORECASE,
)
_DATES = (
    r"(?:mondays?|tuesdays?|wednesdays?|thursdays?|fridays?|saturdays?|sundays?|january|february|"
    r"march|april|may|june|july|august|september|october|november|december|weekdays?|weekends?)\b"
)


def _titled(text: str) -> str:
    small = {"of", "the", "upon", "de", "la", "am", "von", "van", "da", "del"}
    if text != text.lower():
        return text
    return " ".join(w if w in small else w[:1].upper() + w[1:] for w in text.split())


def name(raw: str) -> list[str]:
    """A person's or animal's name."""
    text = head(raw)
    parts = text.split()
    if not 1 <= len(parts) <= 4 or any(not re.fullmatch(r"[^\W\d_][\w.'-]*", p) for p in parts):
        return []
    if any(fold(part) in NOT_NAMES for part in parts):
        return []
    if text == text.lower() and len(parts) > 2:
        return []
    return [_titled(text)]


def person(raw: str) -> list[str]:
    """A name with its capital."""
    return name(raw) if CAPITAL.match(raw) and not raw[0].isdigit() else []


def capital_name(raw: str) -> list[str]:
    """A name that only its capital tells from an adjective ("I'm Dana")."""
    text = head(raw)
    known = fold(text.split()[0]) in DEMONYMS if text else True
    loud = len(text) > 3 and text.isupper()
    rest = raw[len(text) :].strip(" .!")
    followed = rest == "" or re.match(r"(?:,|and\b|from\b|here\b|by the way\b|\()", rest)
    if known or loud or not followed or not CAPITAL.match(text) or text[0].isdigit():
        return []
    if any(not CAPITAL.match(part) for part in text.split()) or is_place(text) or tool(text):
        return []
    return name(text) if not is_role(text) or text.split()[0][-3:] not in ("eer", "ist") else []


_NOT_PLACES = frozenset(
    [
        "fear",
        "hope",
        "peace",
        "harmony",
        "pain",
        "hell",
        "heaven",
        "denial",
        "style",
        "poverty",
        "luxury",
        "sin",
        "comfort",
        "silence",
        "general",
        "a",
        "an",
        "my",
        "our",
        "your",
        "his",
        "her",
        "their",
        "one",
        "two",
        "this",
        "that",
        "these",
        "those",
        "here",
        "there",
        "it",
        "me",
        "you",
        "person",
        "charge",
        "bed",
        "town",
        "debt",
        "love",
        "trouble",
        "fact",
        "order",
        "pairs",
        "bits",
        "words",
        "part",
        "shock",
        "jail",
        "prison",
        "exile",
        "theory",
        "practice",
        "between",
        "student",
    ]
)


def place(raw: str) -> list[str]:
    """A city, region or country; with a country behind it when it was said."""
    text = raw.strip()
    pair = re.match(r"[^,()]{2,40}, (?=[A-ZÀ-Þ])[\w .'-]{2,30}$", text)
    if pair and not re.search(r"\b(?:and|but|so|with|where|for|I)\b", text):
        text = trim(text)
    else:
        text = head(text)
    parts = text.split()
    first = fold(parts[0]) if parts else ""
    countryside = re.match(r"the (?:countryside|mountains|suburbs|[A-Z])", text)
    if not parts or len(parts) > 5 or first in _NOT_PLACES or re.search(r"[\d@/_]", text):
        return []
    if first == "the" and not countryside and not is_place(text):
        return []
    if tool(text) and not is_place(text):
        return []
    return [_titled(text)] if text != text.lower() or len(parts) <= 3 or countryside else []


def capital_place(raw: str) -> list[str]:
    """A place where the verb alone doesn't say so ("I moved to …")."""
    found = place(raw)
    if not found or re.search(
        r"\b(?:inc|gmbh|ltd|llc|corp|labs?|team|ag|project)\b", raw, re.IGNORECASE
    ):
        return []
    capital = CAPITAL.match(raw) or re.match(r"the [A-Z]", raw)
    if re.search(r"^\S+(?: \S+)? as (?:an?|the|their) ", raw):
        return []
    return found if capital or is_place(found[0]) else []


_NOT_ORGS = re.compile(
    r"(?:home|night|nights|the moment|weekends?|myself|it|this|that|them|him|her|you|me|us|a bug|"
    r"scale|fixing|making|getting|the same|all|once|least|first|my|our own|what|free|fun|days|"
    r"present|an? (?:fix|project|solution|while|bit|few|lot|feature|task|ticket|pr|deadline|"
    r"presentation|script|living|desk|cafe|coworking|stand)|something|anything|\d.*|"
    r"the (?:weekend|office|beach|airport|project|feature|house|garden|moment))\b",
    re.IGNORECASE,
)


def org(raw: str) -> list[str]:
    """An employer: a name, or "a furniture company"."""
    text = head(raw)
    if not text or _NOT_ORGS.match(text) or len(text.split()) > 6 or (tool(text) and " " in text):
        return []
    if text == text.lower() and not re.match(r"an? |the ", text) and len(text.split()) > 2:
        return []
    if re.match(r"(?:their|his|her|your)\b", text):
        return []
    return [_titled(text) if not re.match(r"an? |the ", text) else text]


def capital_org(raw: str) -> list[str]:
    """An employer where only the capital tells it from a task or a club."""
    found = org(raw)
    bad = re.match(
        rf"(?:{_DATES}|I|Zoom|Slack|Discord|Teams|"
        r"Twitter|Facebook|LinkedIn|Reddit|Netflix|The)\b",
        raw,
    )
    named = found and CAPITAL.match(found[0]) and CAPITAL.match(raw) and not found[0][0].isdigit()
    return found if named and not bad and not tool(found[0]) and not is_place(found[0]) else []


def maker(raw: str) -> list[str]:
    """An employer that is known as a product too ("a software engineer at Stripe")."""
    found = org(raw)
    return found if found and tool(found[0]) and CAPITAL.match(raw) else []


def language(raw: str) -> list[str]:
    """Natural languages, as many as are listed."""
    text = re.sub(
        r"\b(?:fluent(?:ly)?|native|a bit of|a little|some|basic|good|both|mainly|only|"
        r"bits of|broken|decent|conversational|bad|rusty|also|mostly)\b ?",
        "",
        raw,
        flags=re.IGNORECASE,
    )
    found = [fold(part) for part in re.split(r",| and | & | or |/| plus | but ", text)]
    listed = [part.split()[0].strip(".") for part in found if part]
    good = [part[:1].upper() + part[1:] for part in listed if part in LANGUAGES]
    return good if listed and listed[0] in LANGUAGES else []


def tools(raw: str) -> list[str]:
    """Known products or proper names, as many as are listed."""
    found = []
    for part in split_list(raw):
        text = re.sub(
            r"^(?:both|mostly|mainly|only|either|plain|currently|sometimes|also|some) ",
            "",
            head(part),
        )
        beside = text.removeprefix("with ")  # "Kubernetes, with Terraform for infra"
        text = beside if tool(beside) else text
        if text.startswith("with "):
            break
        text = re.sub(r"^an? (?=\S+ (?:db|database|cluster)$)|^the ", "", text)
        if not text or _BAD_THING.match(text) or len(text.split()) > 4 or is_passing(part):
            break
        bare = re.sub(r"^an? (?=[A-ZÀ-Þ])", "", text)
        if re.match(_DATES, text, re.IGNORECASE):
            break
        if not tool(text) and not (re.search(r"[A-ZÀ-Þ]", text) and not is_place(text)):
            break
        if re.match(r"(?:an? |I$|I )", bare):
            break
        found.append(text)
    return found


def known_tools(raw: str) -> list[str]:
    """Known products only, where the sentence alone could be about anything."""
    return [name for name in tools(raw) if tool(name)]


def city(raw: str) -> list[str]:
    """A well-known place only."""
    return [name for name in place(raw) if is_place(name)]


def practice(raw: str) -> list[str]:
    """Something a team uses that needn't be a product ("trunk-based development")."""
    text = trim(raw)
    if _BAD_THING.match(text) or re.match(
        r"(?:the|an?|to|for|in|up|about|only)\b", text, re.IGNORECASE
    ):
        return []
    return [text] if text and len(text.split()) <= 5 and not is_passing(raw) else []


_DEICTIC = re.compile(
    r"\b(?:this|these|those|it|him|her|them|you|your|yours|their|his|each other|"
    r"that (?:one|way|day|with|to|for|"
    r"idea|song|movie|film|show|book|place|photo|pic|picture|too|about|said))\b|"
    r"(?:\bthat|\bto|\btogether|\bhere|\bthere|\bback)$",
    re.IGNORECASE,
)
_BAD_START = re.compile(
    r"(?:was|is|are|were|to that|to it|from|up|for|with|against|around|along|in|on|at|"
    r"also|and|or|(?:playing|working|doing|being|having|getting|"
    r"going|making|trying|seeing|talking)$)",
    re.IGNORECASE,
)


def thing(raw: str) -> list[str]:
    """What somebody likes, has or does: a short noun phrase or activity."""
    text = trim(raw)
    if not text or _BAD_THING.match(text) or is_passing(raw) or len(text) > MAX_VALUE:
        return []
    if len(text.split()) > 12 or _DEICTIC.search(text) or _BAD_START.match(text):
        return []
    unfinished = re.search(r"\b(?:an?|the|some) \w+,", text)
    if unfinished:
        return [text]
    if text.count(",") == 1 and " and " not in text:
        text = text.split(",")[0]
    parts = split_list(text)
    if len(parts) > 2 and "," in text and all(len(part.split()) <= 4 for part in parts):
        return [trim(part) for part in parts]
    gerunds = all(part.split()[0].endswith("ing") for part in parts)
    named = all(CAPITAL.match(part) for part in parts)
    return parts if len(parts) == 2 and (gerunds or named) else [text]


def liked(raw: str) -> list[str]:
    """What somebody likes as such, not the thing at hand ("the soup")."""
    at_hand = re.match(
        (
            r"the (?!outdoors|sea|ocean|beach|mountains|opera|theat|gym|cold|heat|rain|snow|"
            r"country|[A-Z])"
        ),
        raw,
    )
    return [] if at_hand else thing(raw)


def things(raw: str) -> list[str]:
    """Like `thing`, but every item of a list is one of its own ("peanuts and shellfish")."""
    text = trim(raw)
    if not thing(text):
        return []
    return [
        trim(re.sub(r"^(?:or|to) ", "", p))
        for p in re.split(r",? or | nor ", text)
        for p in split_list(p)
    ]


def rest(raw: str) -> list[str]:
    """Anything, as said."""
    text = trim(raw)
    return [text] if 2 <= len(text) <= MAX_VALUE and not is_passing(raw) else []


def digits(raw: str) -> list[str]:
    """A small number in figures or words."""
    found = re.match(
        r"\d{1,3}\b|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|twelve)\b",
        raw,
        re.IGNORECASE,
    )
    return [found[0]] if found else []


READERS: dict[str, Callable[[str], list[str]]] = {
    "name": name,
    "Name": capital_name,
    "Person": person,
    "place": place,
    "Place": capital_place,
    "org": org,
    "Org": capital_org,
    "Maker": maker,
    "role": role,
    "Role": titled_role,
    "anyrole": any_role,
    "lang": language,
    "tools": tools,
    "practice": practice,
    "thing": thing,
    "liked": liked,
    "things": things,
    "rest": rest,
    "number": digits,
    "old": tools,
    "oldorg": capital_org,
    "oldknown": known_tools,
    "known": known_tools,
    "City": city,
    "oldplace": capital_place,
}
