"""What an extractor proposes is held against the user's own words: what stands becomes a proposal.

Everything behind the seam is untrusted, so each candidate is checked alone; a bad one is dropped
and counted, and the others stay.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, get_args
from uuid import UUID, uuid4

from app.llm import Candidate, Extractor, Kind, Statement, Turn, Usage
from app.memory import guard
from app.memory.reconcile import Proposal, Source
from app.models import Message
from app.rules import ForgetRequest, canonical, forget_requests, is_single_valued, subject_of
from app.text import find_quote, fingerprint, fold, one_line

MAX_QUOTE: Final = 1_000
MAX_CANDIDATES: Final = 100
"""Of one extraction; what exceeds them is counted as `cap`."""

_KINDS: Final = frozenset(get_args(Kind))
_MAX_SUBJECT: Final = 100
_FARTHEST: Final = timedelta(days=366 * 100)
_BULLETS: Final = ("- ", "* ", "• ")


@dataclass(frozen=True, slots=True)
class Conversation:
    """The turns of a session that wait, and what of the user's memory bears on them."""

    session_id: UUID
    messages: Sequence[Message]
    known: Sequence[Statement]
    """Live facts, shown to the extractor so that repeats become confirmations."""
    served: frozenset[bytes]
    """Fingerprints of all facts that a block may have held, to tell an echo by."""

    def turns(self) -> list[Turn]:
        """Give what an extractor may see."""
        return [Turn(n, m.text, m.said_at) for n, m in enumerate(self.messages, 1)]


@dataclass(slots=True)
class Found:
    """What came of the turns before anything was written."""

    proposals: list[Proposal] = field(default_factory=list)
    forget: list[tuple[ForgetRequest, datetime]] = field(default_factory=list)
    rejected: Counter[str] = field(default_factory=Counter)
    usage: Usage = field(default_factory=Usage)


async def find(extractor: Extractor, conversation: Conversation) -> Found:
    """Extract and check every candidate; holds no connection. A `ModelError` is the caller's."""
    turns = conversation.turns()
    extraction = await extractor.extract(turns, conversation.known)
    asked = forget_requests(turns)
    found = Found(
        forget=[(request, turns[request.turn - 1].said_at) for request in asked],
        rejected=Counter(extraction.rejected),
        usage=extraction.usage,
    )
    for candidate in extraction.candidates[:MAX_CANDIDATES]:
        checked = _check(conversation, candidate, asked, extractor.name)
        if isinstance(checked, Proposal):
            found.proposals.append(checked)
        else:
            found.rejected[checked] += 1
    found.rejected["cap"] += max(0, len(extraction.candidates) - MAX_CANDIDATES)
    return found


def _check(
    conversation: Conversation,
    candidate: Candidate,
    asked: Sequence[ForgetRequest],
    extractor: str,
) -> Proposal | str:
    """Hold a candidate against the turn it names and against the guard: a proposal, or why not."""
    if not _is_sound(candidate, len(conversation.messages)):
        return "invalid"
    message = conversation.messages[candidate.turn - 1]
    span = find_quote(candidate.quote, message.text)
    if span is None:
        return "no_evidence"
    quote = message.text[slice(*span)]
    said = one_line(candidate.text)
    decision = guard.check(said, candidate.kind)
    if reason := _doubtful(candidate, asked, quote) or (
        decision.reason if decision.action == "reject" else None
    ):
        return reason
    if _is_echo(conversation.served, message.text, span, said):
        return "echo"
    subject = canonical(one_line(candidate.subject)) or subject_of(said, candidate.kind)
    return Proposal(
        id=uuid4(),
        text=said,
        kind=candidate.kind,
        subject=subject[:_MAX_SUBJECT],
        slot=subject if is_single_valued(subject) else None,
        fingerprint=fingerprint(said),
        source="transcript",
        # Clocks differ by minutes, but nothing is said after it has arrived.
        said_at=min(message.said_at, message.created_at),
        evidence=Source(
            conversation.session_id,
            message.external_id or f"turn-{message.position}",
            one_line(quote),
            message.said_at,
        ),
        extractor=extractor,
        valid_from=_believable(candidate.valid_from, message.said_at),
        closes=candidate.closes,
        quarantine=decision.reason if decision.action == "quarantine" else None,
    )


def _is_sound(candidate: Candidate, turns: int) -> bool:
    return (
        1 <= candidate.turn <= turns
        and len(candidate.quote) <= MAX_QUOTE
        and candidate.kind in _KINDS
    )


def _believable(valid_from: datetime | None, said_at: datetime) -> datetime | None:
    if valid_from is None or valid_from.tzinfo is None:
        return None
    return valid_from if valid_from <= said_at + _FARTHEST else None


def _doubtful(candidate: Candidate, asked: Sequence[ForgetRequest], quote: str) -> str | None:
    """Say why these words can't carry a fact, whatever it states."""
    if guard.MARK in quote:
        return "secret"
    of_turn = [fold(request.quote) for request in asked if request.turn == candidate.turn]
    return "forget_request" if any(fold(quote) in request for request in of_turn) else None


def _is_echo(served: frozenset[bytes], turn: str, span: tuple[int, int], said: str) -> bool:
    """Tell a served fact line pasted back ("- Lives in Lisbon.") from the user saying it again.

    Only by its bullet: the same words without one are how a user may well say it again.
    """
    line = turn[turn.rfind("\n", 0, span[0]) + 1 :].partition("\n")[0].strip()
    if not line.startswith(_BULLETS):
        return False
    shown = line[2:].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    return not served.isdisjoint({fingerprint(shown), fingerprint(said)})
