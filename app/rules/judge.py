"""The keyless judge: two statements are compared by what the pattern table reads in them.

Strict: whatever the table can't place on both sides is INDEPENDENT.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from app.llm import Judgement, Kind, Pair, Statement, Verdict
from app.rules.choices import chosen
from app.rules.languages import read_foreign
from app.rules.orders import order, rule_of
from app.rules.readings import Reading, read
from app.rules.subjects import (
    GIVEN_UP,
    TOOL_SUBJECT,
    canonical,
    fold,
    is_single_valued,
    same_subject,
    value,
    words,
)

_LEAD = re.compile(r"(?:the user |user |now |currently |also |and )+", re.IGNORECASE)
_COPULA = re.compile(
    r"(?P<subject>(?:[\w'&-]+ ){0,4}[\w'&-]+) "
    r"(?P<verb>is now on|is in|is on|is at|is due on|is|are|runs in|runs on|runs|lives in|"
    r"starts on|starts at|expires in|expires on|ends in|is kept in|was moved to|were moved to|"
    r"is written in|was rewritten in) (?:now )?(?P<value>.{1,80})",
    re.IGNORECASE,
)
ANY = "moved"
"""The manner of a text that tells the new place and not what was there."""
_VERBS = {
    "was moved to": ANY,
    "were moved to": ANY,
    "is now on": "is on",
    "was rewritten in": "written",
    "is written in": "written",
}
_NAMED = re.compile(r"[A-ZÀ-Þ]\w|\d")


def understand(text: str) -> Reading | None:
    """What a stored text says, as one reading; None where the rules can't tell."""
    plain = text.strip().rstrip(".! ")[:400]
    now = re.match(r"(?:the user |user )?now\b", plain, re.IGNORECASE)
    plain = _LEAD.sub("", plain, count=1) if _LEAD.match(plain) else plain
    if found := order(plain):
        return found
    readings = read(plain)
    if readings:
        first = chosen(readings[0], plain)
        return replace(first, changed=True) if now else first
    foreign = next((reading for _, reading in read_foreign(plain)), None)
    return foreign or rule_of(plain) or _copula(plain)


def _copula(text: str) -> Reading | None:
    """Read "The plan is Pro": a definite thing is one such, if that is a name or a number."""
    found = _COPULA.fullmatch(text)
    if not found or re.match(r"(?:it|this|that|there|what|he|she|they|who)\b", text, re.IGNORECASE):
        return None
    subject = canonical(
        re.sub(
            r"^(?:the |my |our |their )?(?:new |current )?",
            "",
            found["subject"],
            flags=re.IGNORECASE,
        )
    )
    if not _NAMED.search(found["value"]) and not is_single_valued(subject):
        return None
    verb = found["verb"].lower()
    return Reading(
        subject,
        value(found["value"]),
        "preference",
        text,
        len(text),
        changed="moved" in verb or " now " in f" {text} ",
        manner=_VERBS.get(verb, verb),
    )


def subject_of(text: str, kind: Kind) -> str:
    """What a fact is about, for facts that came without a subject; never empty."""
    found = understand(text)
    if found:
        return found.subject
    copula = _COPULA.fullmatch(text.strip().rstrip(".! ")[:400])
    if copula:
        return canonical(
            re.sub(
                r"^(?:the |my |our |their )?(?:new |current )?",
                "",
                copula["subject"],
                flags=re.IGNORECASE,
            )
        )
    return " ".join(words(text)[:3]) or kind


_SAME_TEXT = Verdict("DUPLICATE", "same words")
_SAME_VALUE = Verdict("DUPLICATE", "same subject, same value")
_OPPOSITE = Verdict("CONTRADICTS", "opposite statement on the same thing")
_ENDED = Verdict("CONTRADICTS", "the newer statement ends the older")
_REPLACED = Verdict("CONTRADICTS", "the newer statement names the older value as replaced")
_OTHER_VALUE = Verdict("CONTRADICTS", "same single-valued subject, other value")
_APART = Verdict("INDEPENDENT", "not about the same thing")
_UNSURE = Verdict("INDEPENDENT", "not surely in conflict")


class RulesJudge:
    """The keyless `Judge`: compares pairs by subject and value, without any model."""

    name = "rules/1"

    async def judge(self, pairs: Sequence[Pair]) -> Judgement:
        """Give one verdict per pair; never fails."""
        return Judgement([self.relation(pair.old, pair.new) for pair in pairs])

    def relation(self, old: Statement, new: Statement) -> Verdict:
        """How `new` stands to `old`; INDEPENDENT unless the rules are sure."""
        if fold(old.text) == fold(new.text):
            return _SAME_TEXT
        was, says = understand(old.text), understand(new.text)
        if was and says:
            return _compare(was, says)
        if was is None and says is None:
            return _by_subject_alone(old, new)
        return _APART


def _compare(was: Reading, says: Reading) -> Verdict:
    related = same_subject(was.subject, says.subject)
    weighs = says.manner != "over" or was.manner == "over"
    if says.ended and weighs and _covers(says.ended, was.value) and related and was.likes:
        return _REPLACED
    if not related:
        return _APART
    if says.closes or was.closes:
        return _ending(was, says)
    if was.value != says.value:
        return _other_value(was, says)
    if _numbers(was.text) != _numbers(says.text):
        return _UNSURE
    return _SAME_VALUE if was.likes == says.likes else _OPPOSITE


def _ending(was: Reading, says: Reading) -> Verdict:
    same = was.value == says.value or was.value.startswith(f"{says.value} ")
    if says.subject == GIVEN_UP and says.value:
        same = set(says.value.split()) <= set(was.value.split())
    if says.closes and not was.closes and was.likes != says.likes and (same or not says.value):
        return _ENDED
    return _SAME_VALUE if same and was.closes and says.closes else _UNSURE


def _numbers(text: str) -> list[str]:
    return re.findall(r"\d+", text)


def _covers(ended: str, held: str) -> bool:
    """Whether the value said to be gone is the one held ("gamma" for "project gamma")."""
    return bool(ended) and (ended == held or ended in held.split())


def _other_value(was: Reading, says: Reading) -> Verdict:
    if TOOL_SUBJECT in (was.subject, says.subject) or was.subject != says.subject:
        return _UNSURE
    if not (was.likes and says.likes) or not (was.value and says.value):
        return _UNSURE
    held, told = set(was.value.split()), set(says.value.split())
    if held <= told or told <= held:
        return _UNSURE
    one_value = is_single_valued(says.subject) or says.subject.startswith("favourite ")
    one_relation = bool(was.manner) and says.manner in (was.manner, ANY)
    if (one_value or one_relation) and (not says.weak or says.changed):
        return _OTHER_VALUE
    return _UNSURE


def _by_subject_alone(old: Statement, new: Statement) -> Verdict:
    """Texts beyond the table, say in another language: the given subject and the names decide."""
    if not is_single_valued(new.subject) or canonical(old.subject) != canonical(new.subject):
        return _APART
    was, says = _names(old.text), _names(new.text)
    return _OTHER_VALUE if was and says and not was & says else _UNSURE


def _names(text: str) -> set[str]:
    """The words that look like names or numbers, the first word aside."""
    return {fold(word) for word in text.split()[1:] if _NAMED.match(word)}
