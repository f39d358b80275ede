"""What facts are about: one name per subject, and which of them hold one value at a time.

Subjects arrive from three sides, the pattern table, a model and free text, so they are compared
through aliases rather than as strings.
"""

import re
from collections.abc import Callable

import snowballstemmer

from app.rules.lexicon import PLACES, TOOLS

TOOL_SUBJECT = "tools"
"""The subject of a tool of no known category; it may meet any category."""


def _listed(names: str) -> frozenset[str]:
    return frozenset(name.strip() for name in names.split("|"))


GIVEN_UP = "given up"
"""The subject of "gave up X", where only X tells which of `HABITS` has ended."""
HABITS = _listed(
    "learning|likes|drinks|food|diet|habits|plays|collects|coaches|goals|studies|routine|car|pets|"
    "volunteers|practices|owns|business|current project|tools"
)

_ALIASES = {
    "name": "user name|user's name|full name|first name",
    "preferred name": "nickname|form of address|how to address|called",
    "employer": "job|company|workplace|work|employment|place of work|current employer|job/employer|"
    "works at|works for|organisation|organization|company name",
    "role": "job title|title|occupation|profession|position|job role|current role",
    "home city": "city|location|home|residence|hometown now|lives in|living place|current city|"
    "place of residence|home location|home town|address city|where they live|country|home country",
    "origin": "hometown|birthplace|place of birth|born in|comes from|nationality",
    "database": "db|primary database|main database|database system|data store|database in use|dbms",
    "answer language": "response language|reply language|language of answers|preferred language|"
    "language preference|conversation language|output language",
    "languages spoken": "languages|spoken languages|speaks|language skills",
    "native language": "mother tongue|first language",
    "seat preference": "seat|seating|airplane seat|flight seat|seats",
    "theme": "color theme|colour theme|ui theme|appearance|mode",
    "answer length": "response length|verbosity|answer style length|reply length",
    "time zone": "timezone|tz",
    "operating system": "os|platform os",
    "editor": "ide|code editor|text editor",
    "cloud provider": "cloud|hosting|hosting provider",
    "manager": "boss|supervisor|reports to|line manager",
    "diet": "dietary preference|dietary restriction|dietary restrictions|eating habits|food diet",
    "allergies": "allergy|allergens|food allergy|food allergies",
    "current project": "project|projects|working on|current work",
    "learning": "learning goal|currently learning|studies topic|learning topic",
    "pets": "pet|animals",
    "marital status": "relationship status|relationship|civil status",
    "pronouns": "gender pronouns",
    "likes": "like|interests|interest|dislikes|hobbies|tastes",
    "units": "unit system|measurement units|measurement system",
    "documentation": "docs",
    "deployment days": "deploy day|deployment day|deployment schedule|deploy schedule|deploys",
    TOOL_SUBJECT: "tech stack|stack|tool|software|technology|technologies|tool in use|tools in use|"
    "tooling",
}
_CANONICAL = {
    alias: subject
    for subject, aliases in _ALIASES.items()
    for alias in (subject, *aliases.split("|"))
}

_SINGLE = _listed(
    """
    name|preferred name|employer|role|home city|origin|native language|birthday|age|database|
    answer language|seat preference|theme|answer length|time zone|operating system|editor|
    cloud provider|manager|pronouns|marital status|units|temperature unit|tone|indentation|
    time format|date format|plan|subscription|tier|deployment days|default branch|laptop|phone|
    phone number|car|shell|browser|surname|team|current project|sprint review|stand-up|code freeze|
    budget|currency|quotes|emoji use|code host|ci system|issue tracker|documentation tool|
    package manager|test framework|monitoring|chat tool|data warehouse|message broker|frontend|
    backend|staging|production|staging region|production region|wife's name|husband's name|website
    """
)

_FILLERS = _listed(
    "user user's users preference preferred preferences current currently main primary usual the a "
    "an of for in on to my our their in-use setting settings".replace(" ", "|")
)
_TOOL_CATEGORIES = frozenset(category for _, category in TOOLS.values())

_ARTICLES = re.compile(r"^(?:the|a|an|some|any|my|our|their|his|her|your|plain|currently) +")
_WORD = re.compile(r"[^\W_]+(?:[.+#'/-]*[^\W_]+)*[+#]{0,2}")
stem: Callable[[str], str] = snowballstemmer.stemmer("english").stemWord


def fold(text: str) -> str:
    """Lower case, single spaces, no end punctuation: how texts are compared."""
    return " ".join(text.replace("\u2019", "'").casefold().split()).strip(" .,;:!?\"'`()[]")


def words(text: str) -> list[str]:
    """The folded words of a text."""
    return _WORD.findall(fold(text))


def canonical(subject: str) -> str:
    """The one name for all aliases of a subject; unknown subjects come back folded."""
    folded = fold(subject.replace("_", " ").split(":")[0])
    folded = folded.replace("favorite", "favourite").replace("color", "colour")
    if folded in _CANONICAL:
        return _CANONICAL[folded]
    bare = " ".join(word for word in folded.split() if word not in _FILLERS)
    return _CANONICAL.get(bare, bare or folded)


def is_single_valued(subject: str) -> bool:
    """Whether only one value can hold at a time, so that a new one ends the old."""
    return canonical(subject) in _SINGLE


def same_subject(a: str, b: str) -> bool:
    """Whether two subjects are about the same thing, under any of their names.

    True for aliases, for a subject that only adds words to the other ("dog" and "dog name"), and
    for a tool of unknown category beside one of a known category. Meant as a veto: a contradiction
    between facts of different subjects is a mistake.
    """
    one, other = canonical(a), canonical(b)
    if one == other:
        return bool(one)
    both = {one, other}
    if TOOL_SUBJECT in both and both & _TOOL_CATEGORIES:
        return True
    if GIVEN_UP in both and both & HABITS:
        return True
    if one in _ALIASES and other in _ALIASES:
        return False
    mine, theirs = _content(one), _content(other)
    return bool(mine and theirs) and (mine <= theirs or theirs <= mine)


def _content(subject: str) -> set[str]:
    return {stem(word) for word in words(subject) if word not in _FILLERS}


def tool(name: str) -> tuple[str, str] | None:
    """(One spelling, category) of a known product, whatever its version or alias."""
    folded = re.sub(r"[ -]?v?\d+(?:\.\d+)*$", "", _ARTICLES.sub("", fold(name)))
    folded = re.sub(r" (?:db|database|cluster|server|boxes|servers)$", "", folded)
    return TOOLS.get(folded)


def is_place(name: str) -> bool:
    """Whether the name is a well-known city or country."""
    folded = fold(name)
    return folded in PLACES or folded.split(",")[0] in PLACES


def value(text: str) -> str:
    """A value as values are compared: folded, without article, one spelling per product."""
    known = tool(text)
    if known:
        return known[0]
    plain = _ARTICLES.sub("", fold(text))
    if "," in plain:
        plain = plain.split(",")[0] if plain.count(",") == 1 and " and " not in plain else plain
    return " ".join(stem(word) for word in _WORD.findall(plain)) or plain
