"""What users ask to have forgotten, whatever extractor is in use."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from app.llm import Turn
from app.rules.sentences import is_play, readable, sentences


@dataclass(frozen=True, slots=True)
class ForgetRequest:
    """A wish to have something forgotten: `what` is named in the words of turn `turn`.

    `quote` is the verbatim request. `what` is "" for everything that is known.
    """

    turn: int
    quote: str
    what: str


_LEAD = (
    r"(?:(?:ok(?:ay)?|so|and|also|hey|hi|please|pls|actually|btw|by the way|now|just|"
    r"no|oh|well)[, ]+)*"
    r"(?:(?:can|could|would|will) you |i(?:'d| would) like you to |i want you to |"
    r"you (?:can|should|may) )?"
    r"(?:please |just |now |kindly )*"
)
_ABOUT = (
    r"(?:everything |anything |all |whatever |what |the (?:fact|facts|info|"
    r"information|note|memory|part|bit|thing|stuff) )?"
    r"(?:that )?(?:you(?:'ve| have)? (?:know|remember|saved|stored|noted|learned|have|"
    r"kept|wrote)(?: down)? )?"
)
_REQUESTS = (
    re.compile((
rf"{_LEAD}(?P<ask>(?:forget|stop remembering|"
rf"un-?learn) (?:about )?{_ABOUT}(?:that |about )?(?P<what>.+))"
), re.IGNORECASE),
    re.compile((
rf"{_LEAD}(?P<ask>(?:don't|do not|never|stop) (?:remember|remembering|store|save|"
rf"keep|memori[sz]e|note(?: down)?|storing|saving)(?: the fact)? (?:that |"
rf"about )?(?P<what>.+))"
), re.IGNORECASE),
    re.compile((
rf"{_LEAD}(?P<ask>(?:delete|remove|erase|drop|wipe|"
rf"clear) (?:from (?:your )?memory )?(?P<known>{_ABOUT})(?:that |about |"
rf"of )?(?P<what>.+?)(?P<memory> from (?:your |the )?(?:memory|memories|notes|"
rf"profile|records?))?)$"
), re.IGNORECASE),
)  # fmt: skip
_NOT_MEMORY = re.compile(
    r"(?:it|this|to|the (?:previous|last|above|rest|first|idea|bug|error|code|plan)|"
    r"forget|never mind|"
    r"what i (?:just )?said|that)?$|i (?:said|asked|mentioned|wrote|brought)\b|(?:to|"
    r"it|about it|this|how|if|whether|when)\b",
    re.IGNORECASE,
)
_TALKS_ON = re.compile(
    r", (?:please|thanks|thank you|ok)|[,;] (?:and|but|i|i'm|we|it|what|how|can|could|let's)\b"
    r"| please$| thanks$",
    re.IGNORECASE,
)
_EVERYTHING = re.compile(
    (
        r"(?:everything|anything|all|it all|all of it|me|about me|"
        r"all (?:that )?you know)(?: about me)?$"
    ),
    re.IGNORECASE,
)
_KNOWS = re.compile(
    r"\b(?:know|remember|saved|stored|noted|learned|kept|facts?|memory|info)\b", re.IGNORECASE
)


def forget_requests(turns: Sequence[Turn]) -> list[ForgetRequest]:
    """The requests to forget in `turns`, in the order made. Never raises."""
    found = []
    playing = False
    for turn in turns:
        playing = is_play(turn.text, before=playing)
        if not playing:
            found += [
                request
                for s in sentences(readable(turn.text))
                if (request := _of(turn, s.text, s.start, asks=s.asks))
            ]
    return found


def _of(turn: Turn, text: str, start: int, *, asks: bool) -> ForgetRequest | None:
    for pattern in _REQUESTS:
        match = pattern.match(text)
        if not match:
            continue
        if asks and not re.match(r".{0,20}\b(?:can|could|would|will) you\b", text, re.IGNORECASE):
            return None
        what = _TALKS_ON.split(match["what"], maxsplit=1)[0]
        what = re.sub(r"^(?:that|about) ", "", what.strip(" .!,;"), flags=re.IGNORECASE)
        groups = match.groupdict()
        if "known" in groups and not (_KNOWS.search(groups["known"] or "") or groups["memory"]):
            return None
        end = match.start("what") + match["what"].find(what) + len(what) if what else match.end()
        end = match.end() if groups.get("memory") else end
        quote = turn.text[start + match.start("ask") : start + end]
        if _EVERYTHING.fullmatch(what):
            return ForgetRequest(turn.n, quote, "")
        if not what or _NOT_MEMORY.match(what):
            return None
        return ForgetRequest(turn.n, quote, what)
    return None
