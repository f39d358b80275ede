"""What users ask to have forgotten, whatever extractor is in use."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from app.llm import Turn
from app.rules.sentences import ends_play, readable, sentences, starts_play


@dataclass(frozen=True, slots=True)
class ForgetRequest:
    """A wish to have something forgotten: `what` is named in the words of turn `turn`.

    `quote` is the verbatim request. `what` is "" for everything that is known.
    """

    turn: int
    quote: str
    what: str


_LEAD = (
    r"(?:(?:ok(?:ay)?|so|and|also|hey|hi|please|pls|actually|btw|by the way|now|just|no|oh|well)[, ]+)*"
    r"(?:(?:can|could|would|will) you |i(?:'d| would) like you to |i want you to |you (?:can|should|may) )?"
    r"(?:please |just |now |kindly )*"
)
_ABOUT = (
    r"(?:everything |anything |all |whatever |what |the (?:fact|facts|info|information|note|memory|part|bit|thing|stuff) )?"
    r"(?:that )?(?:you(?:'ve| have)? (?:know|remember|saved|stored|noted|learned|have|kept|wrote)(?: down)? )?"
)
_REQUESTS = (
    re.compile(rf"{_LEAD}(?P<ask>(?:forget|stop remembering|un-?learn) (?:about )?{_ABOUT}(?:that |about )?(?P<what>.+))", re.I),
    re.compile(rf"{_LEAD}(?P<ask>(?:don't|do not|never|stop) (?:remember|remembering|store|save|keep|memori[sz]e|note(?: down)?|storing|saving)(?: the fact)? (?:that |about )?(?P<what>.+))", re.I),
    re.compile(rf"{_LEAD}(?P<ask>(?:delete|remove|erase|drop|wipe|clear) (?:from (?:your )?memory )?(?P<known>{_ABOUT})(?:that |about |of )?(?P<what>.+?)(?P<memory> from (?:your |the )?(?:memory|memories|notes|profile|records?))?)$", re.I),
)  # fmt: skip
_NOT_MEMORY = re.compile(
    r"(?:it|this|to|the (?:previous|last|above|rest|first|idea|bug|error|code|plan)|forget|never mind|"
    r"what i (?:just )?said|that)?$|i (?:said|asked|mentioned|wrote|brought)\b|(?:to|it|about it|this|how|if|whether|when)\b",
    re.IGNORECASE,
)
_EVERYTHING = re.compile(
    r"(?:everything|anything|all|it all|all of it|me|about me|all (?:that )?you know)(?: about me)?$",
    re.IGNORECASE,
)
_KNOWS = re.compile(r"\b(?:know|remember|saved|stored|noted|learned|kept|facts?|memory|info)\b", re.I)


def forget_requests(turns: Sequence[Turn]) -> list[ForgetRequest]:
    """The requests to forget in `turns`, in the order made. Never raises."""
    found = []
    playing = False
    for turn in turns:
        playing = (playing and not ends_play(turn.text)) or starts_play(turn.text)
        if not playing:
            found += [request for s in sentences(readable(turn.text)) if (request := _of(turn, s.text, s.start, asks=s.asks))]
    return found


def _of(turn: Turn, text: str, start: int, *, asks: bool) -> ForgetRequest | None:
    for pattern in _REQUESTS:
        match = pattern.match(text)
        if not match:
            continue
        if asks and not re.match(r".{0,20}\b(?:can|could|would|will) you\b", text, re.IGNORECASE):
            return None
        what = re.split(r", (?:please|thanks|thank you|ok)|[,;] (?:and|but|i|i'm|we|it|what|how|can|could|let's)\b| please$| thanks$", match["what"], 1, re.I)[0]
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
