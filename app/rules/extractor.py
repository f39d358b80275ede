"""The keyless extractor: plain statements of the user, found by the pattern table."""

import asyncio
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from app.llm import Candidate, Extraction, Statement, Turn
from app.rules.choices import chosen
from app.rules.judge import understand
from app.rules.languages import read_foreign
from app.rules.orders import order
from app.rules.patterns import INTRODUCED
from app.rules.phrases import head, is_passing
from app.rules.readings import Reading, read
from app.rules.sentences import Clause, clauses, is_play, readable, sentences
from app.rules.speech import in_third_person
from app.rules.subjects import fold, value

MAX_TEXT = 199
MAX_QUOTE = 300
_CORRECTION_WORDS = 3
"""A value that only corrects ("sorry, I meant Porto") is no longer than this."""
_STATEMENT_WORDS = 3

_UNCERTAIN = re.compile(
    r"\b(?:maybe|perhaps|probably|possibly|might|(?<!in )(?<!since )(?-i:may)|could|i think|"
    r"i guess|i suppose|not sure|"
    r"thinking (?:of|about)|considering|wondering|supposedly|i wish|used to|i'd (?:love|like) to|"
    r"would|wouldn't|almost|nearly|as if|like i'm|feel like|if i|sort of|kind of|apparently|"
    r"debating|tempted|in theory|pretend)\b",
    re.IGNORECASE,
)
_STILL_SURE = re.compile(
    (
        r"\bused to (?:it|the)\b|\bi(?:'d| would) (?:much )?(?:rather|always|prefer)\b|"
        r"\bkind of (?:music|food)\b"
    ),
    re.IGNORECASE,
)
_MOMENT = re.compile(
    r"\b(?:today|tonight|tomorrow|yesterday|right now|at the moment|this (?:morning|afternoon|"
    r"evening|weekend|time|minute)|for now|in a (?:hurry|rush|meeting|bit)|just (?:this )?once)\b",
    re.IGNORECASE,
)
_DECLARES = re.compile(
    r"(?:(?i:i|i'm|i've|we|we're|my|our|the)|[A-Z][\w'-]*)\b(?! (?:following|assistant|system|user|"
    r"instructions?|rule)\b)(?! (?i:can|may|am (?:allowed|cleared|authori[sz]ed)|"
    r"have access)\b).{2,160}"
)
_TAKES_BACK = re.compile(
    (
        r"(?:scratch|ignore|forget|strike|disregard) (?:that|it|what i (?:just )?said)|"
        r"never ?mind(?: that)?"
    ),
    re.IGNORECASE,
)
_MEANT = re.compile(
    r"\b(?:i meant?|correction|scratch that|make that|oops|my (?:mistake|bad)|typo|or rather)\b",
    re.IGNORECASE,
)
_NOT_BUT = re.compile(
    r"(?:i'?m )?not (?P<old>[\w .'-]{2,40}?),? (?:but|only|just|rather) (?P<new>.{2,60})",
    re.IGNORECASE,
)


_COMMANDS = re.compile(
    r"(?:please|be|always|never|don't|do not|use|keep|write|answer|reply|respond|speak|call|stop|"
    r"give|show|no|avoid|from now on|make)\b",
    re.IGNORECASE,
)
_GREETS = re.compile(
    r"\W*(?:(?:hi|hello|hey|good (?:morning|evening|afternoon)|morning|evening|greetings|there|all|"
    r"everyone|team)\b[\s,!.:-]*)*",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class _Found:
    """A reading with the piece of the turn that it rests on."""

    turn: Turn
    piece: Clause
    reading: Reading
    quote: str

    def candidate(self) -> Candidate:
        said = self.reading
        return Candidate(
            said.text[:MAX_TEXT],
            said.kind,
            said.subject,
            self.turn.n,
            self.quote,
            closes=said.closes,
        )


class RulesExtractor:
    """The keyless `Extractor`: plain English, and a little of some other languages."""

    name = "rules/1"

    async def extract(
        self, turns: Sequence[Turn], known: Sequence[Statement], *, instructions: str | None = None
    ) -> Extraction:
        """Propose facts from `turns`; `instructions` are for models and are not read here.

        Off the event loop, for a long conversation takes a second.
        """
        del instructions
        return Extraction(await asyncio.to_thread(_read, turns, known))


def _read(turns: Sequence[Turn], known: Sequence[Statement]) -> list[Candidate]:
    found: list[_Found] = []
    playing = False
    for turn in turns:
        playing = is_play(turn.text, before=playing)
        if not playing:
            _read_turn(turn, found)
    kept = [one.candidate() for one in _once_each(found)]
    return [_linked(candidate, known) for candidate in kept]


def _read_turn(turn: Turn, found: list[_Found]) -> None:
    """Add what a turn says to what was found before it, or correct that."""
    pieces = clauses(turn.text)
    reason = ""
    for at, piece in enumerate(pieces):
        following = pieces[at + 1] if at + 1 < len(pieces) else None
        if reason and reason in piece.text:
            continue
        before = pieces[at - 1].text if at else ""
        readings = [
            replace(reading, subject="name") if reading.subject == INTRODUCED else reading
            for reading in _of_clause(piece, following, before)
            if reading.subject != INTRODUCED or _greets(turn.text[: piece.start])
        ]
        if not readings and found and _corrects(piece, turn, found):
            continue
        for reading in readings:
            reason = reading.text.partition("; ")[2].rstrip(".")
            quote = turn.text[piece.start : piece.start + min(reading.end, len(piece.text))]
            found.append(_Found(turn, piece, reading, quote))
    found.extend(_foreign(turn) if not pieces or not found or found[-1].turn is not turn else ())


def _greets(lead: str) -> bool:
    return bool(lead and _GREETS.fullmatch(lead))


def _of_clause(piece: Clause, following: Clause | None, before: str) -> list[Reading]:
    text = piece.text.rstrip(" ,;:.!")
    if (rule := order(text)) and not _goes_on(piece, text, before):
        return [_with_reason(rule, piece, following)]
    if _UNCERTAIN.search(text) and not _STILL_SURE.search(text):
        return []
    if _MOMENT.search(text):
        return []
    readings = [chosen(reading, text) for reading in read(text, said=True, actor=piece.actor)]
    return readings or (_asked_for(text) if piece.asked else [])


def _goes_on(piece: Clause, text: str, before: str) -> bool:
    """Whether "always …" goes on about somebody ("they are kind and always make us smile")."""
    bare = re.match(r"(?:always|never)\b", text, re.IGNORECASE)
    tied = re.fullmatch(r",? ?(?:and|but|as|since)", piece.joint)
    return bool(bare and tied and not _COMMANDS.match(before))


def _with_reason(rule: Reading, piece: Clause, following: Clause | None) -> Reading:
    """A rule with its reason, where the same sentence gives one that is no fact of its own."""
    if following is None or following.whole != piece.whole or rule.closes:
        return rule
    reason = following.text.rstrip(" .!")
    ours = re.match(r"(?:we|we're|it's|our|they)\b", reason, re.IGNORECASE)
    own_fact = (order(reason) and "by contract" not in reason) or read(reason, said=True)
    text = f"{rule.text.rstrip('.')}; {reason}."
    return replace(rule, text=text) if ours and not own_fact and len(text) <= MAX_TEXT else rule


def _asked_for(text: str) -> list[Reading]:
    """Anything plain that the user asked to have remembered."""
    orders = re.match(
        r"(?:Run|Treat|Store|Export|Skip|Say|Put|Keep|Do|Be|Disregard|Ignore)\b", text
    )
    if (
        not _DECLARES.fullmatch(text)
        or orders
        or is_passing(text)
        or len(text.split()) < _STATEMENT_WORDS
    ):
        return []
    said = in_third_person(text)
    known = understand(said)
    subject = known.subject if known else " ".join(fold(said).split()[:3])
    return [Reading(subject, "", "preference", said, len(text))]


def _corrects(piece: Clause, turn: Turn, found: list[_Found]) -> bool:
    """Mend the last thing found where a piece only corrects it ("sorry, I meant Porto")."""
    text = piece.text.rstrip(" .!")
    if _TAKES_BACK.fullmatch(text):
        found.pop()
        return True
    swap = _NOT_BUT.fullmatch(text)
    if swap:
        old = value(swap["old"])
        target = next((f for f in reversed(found) if f.reading.value == old), None)
        return bool(target) and _mend(found, target, turn, piece, head(swap["new"]))
    clear = piece.corrects and (found[-1].turn is turn or _MEANT.search(turn.text[:200]))
    bare = re.sub(
        r"^(?:in|at|to|a|an|the) |,? (?:not|instead of) .*$|,? (?:instead|now)$", "", text
    )
    new = head(bare)
    if not clear or new != bare or len(new.split()) > _CORRECTION_WORDS or not new[:1].isupper():
        return False
    return _mend(found, found[-1], turn, piece, new)


def _mend(found: list[_Found], target: _Found | None, turn: Turn, piece: Clause, new: str) -> bool:
    if target is None or not target.reading.item or not new:
        return False
    text = target.reading.text.replace(target.reading.item, new)
    again = [r for r in read(text) if r.subject == target.reading.subject]
    if not again:
        return False
    end = piece.start + piece.text.find(new) + len(new)
    start = target.piece.start if target.turn is turn else piece.start
    start = start if end - start <= MAX_QUOTE else piece.start
    found.remove(target)
    found.append(_Found(turn, piece, replace(again[0], text=text), turn.text[start:end]))
    return True


def _foreign(turn: Turn) -> Iterator[_Found]:
    for sentence in sentences(readable(turn.text)):
        if sentence.asks:
            continue
        for start, reading in read_foreign(sentence.text):
            at = sentence.start + start
            piece = Clause(sentence.text, at, sentence.text)
            yield _Found(turn, piece, reading, turn.text[at : at + reading.end])


def _once_each(found: list[_Found]) -> list[_Found]:
    """Each thing once per session, as it was said last."""
    last = {(f.reading.subject, fold(f.reading.text)): f for f in found}
    return [f for f in found if last[f.reading.subject, fold(f.reading.text)] is f]


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
