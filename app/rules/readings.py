"""Reading a piece of text by the table: what it says, about what, and whether that has ended."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from app.llm import Kind
from app.rules import slots
from app.rules.endings import end_of
from app.rules.lexicon import MOODS, PLACES
from app.rules.patterns import ANY_TOOL, ROWS, Row
from app.rules.phrases import head, is_passing
from app.rules.speech import of_them, third_form
from app.rules.subjects import (
    GIVEN_UP,
    TOOL_SUBJECT,
    canonical,
    fold,
    is_place,
    is_single_valued,
    tool,
    value,
)


@dataclass(frozen=True, slots=True)
class Reading:
    """What a text says: `value` of `subject`, folded, and the sentence to keep.

    `likes=False` says the opposite of the value, `closes` that it has ended, `ended` names another
    value that the text says is gone. `weak` readings leave room for other values of the subject,
    `changed` ones speak of a change. `end` is where the value ends in the text that was read and
    `item` the value as it stands in `text`; `manner` is a relation with one thing at a time.
    """

    subject: str
    value: str
    kind: Kind
    text: str
    end: int
    likes: bool = True
    closes: bool = False
    ended: str = ""
    weak: bool = False
    changed: bool = False
    item: str = ""
    manner: str = ""


_ADVERBS = (
    r"(?:(?:also|now|currently|still|just|actually|usually|mostly|generally|really|always|both|"
    r"recently|already|typically|normally|mainly|personally|often|sometimes|finally) )*"
)
_WHO = r"(?:i|we|we both|they|(?:the )?user) "
_WHO_BE = r"(?:i am|we are|(?:the )?user is|they are|is|are|am|we both are) "
_WHO_BE_SURELY = r"(?:i am|we are|(?:the )?user is) "
_MY = r"(?:my|our|the user's|user's|their|his|her|the) "
_LIST_SLOTS = re.compile(r"\{(\w+)\}")
_SIDE_SLOTS = frozenset({"old", "oldplace", "oldorg", "oldknown", "over", "how", "attr", "who"})


_LEADS = (("I [be!] ", _WHO_BE_SURELY), ("I [be] ", _WHO_BE), ("I ", _WHO), ("my ", _MY))


def _expand(pattern: str, *, bare: bool) -> str:
    """The regular expression of a line; `bare` ones may leave out who or whose."""
    lead = ""
    for mark, prefix in _LEADS:
        if pattern.startswith(mark):
            optional = "?" if bare and mark != "I [be!] " else ""
            adverbs = "" if mark == "my " else _ADVERBS
            lead, pattern = f"(?:{prefix}){optional}{adverbs}", pattern[len(mark) :]
            break

    def verb(found: re.Match[str]) -> str:
        word = found[1]
        return r"(?:am|'m|is|are|'re)" if word == "be" else f"(?:{word}|{third_form(word)})"

    names = re.findall(r"\{([A-Za-z]+)\}", pattern)

    def slot(found: re.Match[str]) -> str:
        last = found[1] == names[-1] and "(?P<rest>" not in pattern[found.end() :]
        return f"(?P<{found[1]}>.{{1,200}})" if last else f"(?P<{found[1]}>.{{1,60}}?)"

    body = re.sub(r"\[(\w+)\]", verb, pattern)
    return lead + re.sub(r"\{([A-Za-z]+)\}", slot, body)


def _compiled(*, bare: bool) -> tuple[tuple[re.Pattern[str], Row], ...]:
    return tuple((re.compile(_expand(r.pattern, bare=bare), re.IGNORECASE), r) for r in ROWS)


_SAID, _STORED = _compiled(bare=False), _compiled(bare=True)
_BARE = tuple((pattern, row) for pattern, row in _SAID if row.bare)
_CHANGED = re.compile(
    r"\b(?:now|switched|migrated|moved|relocated|instead|replaced|no longer|from now on|nowadays|"
    r"these days|started|joined|left|new|changed|again|back to|anymore|any more|became|swapped|"
    r"upgraded|since (?:last|yesterday)|finally|recently|just)\b",
    re.IGNORECASE,
)
_SAID_BY_USER = re.compile(
    r"(?:i|i'?m|i've|ive|we|we're|we've|my|our|i'd|people|everyone)\b", re.IGNORECASE
)


_SHORT_FORMS = (
    (re.compile(r"\b(i)'?m\b", re.IGNORECASE), r"\1 am"),
    (re.compile(r"\b(i)'?ve\b|\b(we)'ve\b", re.IGNORECASE), r"\1\2 have"),
    (re.compile(r"\b(we)'re\b", re.IGNORECASE), r"\1 are"),
    (re.compile(r"\b(i|we)'d\b", re.IGNORECASE), r"\1 would"),
)


def _long_forms(text: str) -> str:
    for pattern, words in _SHORT_FORMS:
        text = pattern.sub(words, text)
    return text


_BEING = re.compile(
    r"(?:currently |originally )*(?:based|living|working|learning|studying|training|building|"
    r"allergic|from)\b",
    re.IGNORECASE,
)


def read(text: str, *, said: bool = False, actor: str = "") -> list[Reading]:
    """What `text` says by the first line of the table that fits; nothing if none does.

    With `said` the text is a piece of a turn and must be said by the user of themselves: it names
    "I", "we" or "my", or goes on (`actor`) from one that did.
    """
    ending = end_of(text)
    if ending:
        return list(_closings(*ending))
    named = _SAID_BY_USER.match(text)
    lead = f"{actor} am" if _BEING.match(text) else actor
    plain = _long_forms(f"{lead} {text}" if actor and not named else text)
    speaks = bool(actor or named) or not said
    table = _STORED if not said else _SAID if speaks else _BARE
    for pattern, row in table:
        found = pattern.match(plain)
        if found and (readings := list(_readings(row, found, text))):
            return readings
    return []


def _readings(row: Row, found: re.Match[str], text: str) -> Iterator[Reading]:
    said = {name: part for name, part in found.groupdict().items() if part}
    if is_passing(text) and not row.changes:
        return
    filled: dict[str, list[str]] = {}
    for name, part in said.items():
        reader = slots.READERS.get(name)
        filled[name] = reader(part) if reader else [part]
        if not filled[name]:
            return
    told = "attr" in said and "rest" in said and row.manner in ("is", "at")
    if told and not _attribute_holds(said["attr"], filled["rest"][0]):
        return
    for subject, kind, template in ((row.subject, row.kind, row.text), *row.also):
        yield from _fill(replace(row, subject=subject, kind=kind, text=template), filled, text)


def _fill(row: Row, filled: dict[str, list[str]], text: str) -> Iterator[Reading]:
    names = [
        name
        for name in _LIST_SLOTS.findall(row.text)
        if name[:1].lower() + name[1:] in filled or name in filled
    ]
    main = next((n for n in names if n.lower() not in _SIDE_SLOTS), "")
    main = main if main in filled else main[:1].lower() + main[1:]
    one = {name: values[0] for name, values in filled.items()}
    if "how" in one:
        one["how"] = one["how"].lower()
    end = max(
        (text.rfind(v) + len(v) for v in filled.get(main, []) if v in text), default=len(text)
    )
    for item in filled.get(main, [""]):
        words = one | {main: item} if main else one
        old = words.get("old") or words.get("over") or ""
        subject = _subject(row.subject, words, item)
        yield Reading(
            subject=subject,
            value=value(item),
            kind=_kind(row, words),
            text=_sentence(row.text, words),
            end=end,
            likes=row.likes and not row.closes,
            closes=row.closes,
            ended=value(
                old or words.get("oldplace") or words.get("oldorg") or words.get("oldknown") or ""
            ),
            weak=row.weak and not (row.manner and is_single_valued(subject)),
            changed=row.changes or bool(_CHANGED.search(text)),
            item=item,
            manner=row.manner,
        )


def _subject(pattern: str, words: dict[str, str], item: str) -> str:
    if pattern == ANY_TOOL:
        known = tool(item) or tool(words.get("old", ""))
        return known[1] if known else TOOL_SUBJECT
    if "@how" in pattern:
        return third_form(words["how"].lower())
    if "@attr" in pattern:
        attribute = canonical(re.sub(r"^favou?rite ", "", words["attr"]))
        return pattern.replace("@attr", attribute)
    return pattern


_ABOUT_USER = frozenset(
    [
        "manager",
        "birthday",
        "time zone",
        "role",
        "pronouns",
        "native language",
        "surname",
        "home city",
        "employer",
        "name",
        "degree",
        "major",
        "university",
        "school",
        "origin",
        "preferred name",
        "team",
        "pronouns",
    ]
)


def _kind(row: Row, words: dict[str, str]) -> Kind:
    if row.subject == "@attr" and canonical(words["attr"]) in _ABOUT_USER:
        return "profile"
    return row.kind


_FREQUENCY = frozenset({"always", "never", "usually", "mostly", "only"})


def _sentence(template: str, words: dict[str, str]) -> str:
    def put(found: re.Match[str]) -> str:
        name = found[1]
        if name in words:
            return words[name]
        small = name[:1].lower() + name[1:]
        part = words.get(small, "")
        if small in ("how", "rest"):
            first, _, others = part.partition(" ")
            known = first.lower() in _FREQUENCY | {"grew", "studied"} or first.endswith("s")
            part = " ".join(filter(None, [first if known else third_form(first.lower()), others]))
        return part[:1].upper() + part[1:]

    if words.get("how", "").lower() in _FREQUENCY and "rest" in words:
        verb, _, others = words["rest"].partition(" ")
        words = words | {"rest": f"{third_form(verb.lower())} {others}"}
    text = of_them(_LIST_SLOTS.sub(put, template))
    return text[: slots.MAX_VALUE + 70].rstrip(" .") + "."


_FREE_VALUES = frozenset(
    ["role", "pronouns", "birthday", "instrument", "hobby", "hobbies", "degree", "major"]
)


def _attribute_holds(attribute: str, said: str) -> bool:
    """Whether "my X is Y" tells a lasting value rather than a state or an opinion."""
    if re.match(rf"(?:{MOODS}|to|that|what|how|why|if|because|on fire)\b", said, re.IGNORECASE):
        return False
    if canonical(attribute) in _FREE_VALUES:
        return True
    named = re.search(r"[A-ZÀ-Þ0-9]", said) and not re.search(r"\bI\b", said)
    return bool(named or tool(said) or is_place(said) or fold(said) in PLACES)


_DRINKS = re.compile(
    r"\b(?:coffee|tea|alcohol|beer|wine|soda|caffeine|espresso|milk|cola)\b", re.IGNORECASE
)


def _closings(how: str, base: str) -> Iterator[Reading]:
    if how == "any":
        if thing := slots.thing(head(base)):
            yield _ended_thing(thing[0])
        return
    for reading in (read(f"i {base}") if how != "be" else []) or read(f"i am {base}"):
        plain = reading.text.removeprefix("Is ")
        text = f"No longer {plain[0].lower()}{plain[1:]}"
        yield replace(
            reading,
            text=text,
            closes=True,
            likes=not reading.likes,
            weak=False,
            changed=True,
            end=10_000,
        )


def _ended_thing(thing: str) -> Reading:
    """Read "gave up coffee", where only the thing tells what has ended."""
    known = tool(thing)
    if known:
        subject, text = known[1], f"No longer uses {thing}."
    elif _DRINKS.search(thing):
        subject, text = "drinks", f"No longer drinks {thing}."
    else:
        subject, text = GIVEN_UP, f"Gave up {thing}."
    return Reading(
        subject, value(thing), "preference", text, 10_000, likes=False, closes=True, changed=True
    )
