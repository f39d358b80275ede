"""The keyless extractor: plain statements of the user, found by the pattern table."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from app.llm import Candidate, Extraction, Statement, Turn
from app.rules import slots
from app.rules.judge import understand
from app.rules.orders import chosen, order
from app.rules.readings import Reading, read
from app.rules.sentences import Clause, clauses, ends_play, starts_play
from app.rules.speech import in_third_person
from app.rules.subjects import fold

MAX_TEXT = 199

_UNCERTAIN = re.compile(
    r"\b(?:maybe|perhaps|probably|possibly|might|may|could|i think|i guess|i suppose|not sure|"
    r"thinking (?:of|about)|considering|wondering|supposedly|i wish|used to|i'd (?:love|like) to|"
    r"would|wouldn't|almost|nearly|as if|like i'm|feel like|if i|sort of|kind of|apparently|"
    r"someday maybe|debating|tempted|in theory)\b",
    re.IGNORECASE,
)
_STILL_SURE = re.compile(r"\b(?:used to (?:it|the)|i(?:'d| would) (?:rather|always|prefer)|would prefer|never|always|kind of (?:music|food))\b", re.I)
_MOMENT = re.compile(
    r"\b(?:today|tonight|tomorrow|yesterday|right now|at the moment|this (?:morning|afternoon|"
    r"evening|weekend|time|minute)|for now|in a (?:hurry|rush|meeting|bit)|just (?:this )?once)\b",
    re.IGNORECASE,
)
_DECLARES = re.compile(
    r"(?:i|i'm|i've|we|we're|my|our|the|[A-Z][\w'-]*)\b.{2,160}", re.IGNORECASE
)


class RulesExtractor:
    """The keyless `Extractor`: first impressions of plain English, and little of other languages."""

    name = "rules/1"

    async def extract(
        self, turns: Sequence[Turn], known: Sequence[Statement], *, instructions: str | None = None
    ) -> Extraction:
        """Propose facts from `turns`; `instructions` are for models and are not read here."""
        del instructions
        found: list[Candidate] = []
        playing = False
        for turn in turns:
            playing = (playing and not ends_play(turn.text)) or starts_play(turn.text)
            if not playing:
                found = _corrected(found, list(_of_turn(turn)))
        return Extraction([_linked(candidate, known) for candidate in _unique(found)])


def _of_turn(turn: Turn) -> Iterator[Candidate]:
    pieces = clauses(turn.text)
    for at, piece in enumerate(pieces):
        following = pieces[at + 1] if at + 1 < len(pieces) else None
        for reading in _of_clause(piece, following):
            quote = turn.text[piece.start : piece.start + min(reading.end, len(piece.text))]
            yield Candidate(
                reading.text[:MAX_TEXT], reading.kind, reading.subject, turn.n, quote,
                closes=reading.closes,
            )  # fmt: skip


def _of_clause(piece: Clause, following: Clause | None) -> list[Reading]:
    text = piece.text.rstrip(" ,;:.!")
    if found := order(text):
        return [_with_reason(found, piece, following)]
    if _UNCERTAIN.search(text) and not _STILL_SURE.search(text):
        return []
    if _MOMENT.search(text):
        return []
    readings = [chosen(reading) for reading in read(text, said=True, actor=piece.actor)]
    return readings or (_asked_for(text) if piece.asked else [])
    

def _with_reason(rule: Reading, piece: Clause, following: Clause | None) -> Reading:
    """A rule with its reason, where the same sentence gives one that is no fact of its own."""
    if following is None or following.whole != piece.whole or rule.closes:
        return rule
    reason = following.text.rstrip(" .!")
    ours = re.match(r"(?:we|we're|i|i'm|it's|our|my)\b", reason, re.IGNORECASE)
    if not ours or order(reason) and "by contract" not in reason or read(reason, said=True):
        return rule
    text = f"{rule.text.rstrip('.')}; {reason}."
    return replace(rule, text=text) if len(text) <= MAX_TEXT else rule


def _asked_for(text: str) -> list[Reading]:
    """Anything plain that the user asked to have remembered."""
    if not _DECLARES.fullmatch(text) or slots.is_passing(text) or len(text.split()) < 3:
        return []
    said = in_third_person(text)
    known = understand(said)
    subject = known.subject if known else " ".join(fold(said).split()[:3])
    return [Reading(subject, "", "preference", said, len(text))]


def _corrected(earlier: list[Candidate], new: list[Candidate]) -> list[Candidate]:
    return earlier + new


def _unique(found: list[Candidate]) -> list[Candidate]:
    """Each thing once per session, as it was said last."""
    last = {(c.subject, fold(c.text)): c for c in found}
    return [c for c in found if last[c.subject, fold(c.text)] is c]


def _linked(candidate: Candidate, known: Sequence[Statement]) -> Candidate:
    """An ended thing takes the subject of the known fact that it ends."""
    if not candidate.closes:
        return candidate
    says = understand(candidate.text)
    for statement in known:
        was = understand(statement.text)
        if says and was and was.likes and says.value and was.value == says.value:
            return replace(candidate, subject=statement.subject)
    return candidate
