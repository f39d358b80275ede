"""From turns to proposals: what an extractor says is held against what the user said.

No quote, no fact: every candidate must rest on words that code finds in the turn it names, and
pass the guard, whoever proposed it. No connection is held here.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, get_args
from uuid import UUID, uuid4

from app import metrics
from app.db import Scope
from app.llm import Candidate, Kind, Turn, Usage
from app.memory import guard
from app.memory.core import Core
from app.memory.policy import Policy
from app.memory.reconcile import Known, Proposal, Source
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
class Claim:
    """What a worker took on: the turns it read, and the attempt its commit must still find."""

    scope: Scope
    session_id: UUID
    attempt: int
    turns: Sequence[Turn]
    messages: Sequence[Message]
    served: frozenset[bytes]
    """Fingerprints of all facts that a block may have held, to tell an echo by."""
    policy: Policy


@dataclass(slots=True)
class Found:
    """What came of the turns before anything was written."""

    proposals: list[Proposal] = field(default_factory=list)
    forget: list[tuple[ForgetRequest, datetime]] = field(default_factory=list)
    rejected: Counter[str] = field(default_factory=Counter)
    usage: Usage = field(default_factory=Usage)


async def find(core: Core, claim: Claim, known: Sequence[Known]) -> Found:
    """Extract, with the facts that are known beside the turns, and check every candidate.

    Holds no connection.
    """
    extractor, _ = core.readers_of(claim.policy)
    extraction = await extractor.extract(
        claim.turns,
        [fact.statement() for fact in known],
        instructions=claim.policy.extraction_instructions,
    )
    found = Found(rejected=Counter(extraction.rejected), usage=extraction.usage)
    asked = await asyncio.to_thread(forget_requests, claim.turns)
    said_at = {turn.n: turn.said_at for turn in claim.turns}
    found.forget = [(request, said_at[request.turn]) for request in asked]
    candidates = extraction.candidates[:MAX_CANDIDATES]
    # Off the event loop, for a hundred checks take a tenth of a second.
    verdicts = await asyncio.to_thread(
        lambda: [_check(extractor.name, claim, candidate, asked) for candidate in candidates]
    )
    for checked in verdicts:
        if isinstance(checked, Proposal):
            found.proposals.append(checked)
        else:
            found.rejected[checked] += 1
    found.rejected["cap"] += max(0, len(extraction.candidates) - MAX_CANDIDATES)
    return found


def _check(
    extractor: str, claim: Claim, candidate: Candidate, asked: Sequence[ForgetRequest]
) -> Proposal | str:
    """Hold a candidate against the turn it names and against the guard: a proposal, or why not."""
    if not _is_sound(candidate, len(claim.turns)):
        return "invalid"
    message = claim.messages[candidate.turn - 1]
    span = find_quote(candidate.quote, message.text)
    if span is None:
        return "no_evidence"
    quote = message.text[slice(*span)]
    said = one_line(candidate.text)
    decision = guard.check(said, candidate.kind, blocked=claim.policy.blocked)
    metrics.guarded(decision.action, decision.reason)
    if reason := _doubtful(candidate, asked, quote, message.text, span) or (
        decision.reason if decision.action == "reject" else None
    ):
        return reason
    if _is_echo(claim.served, message.text, span, said):
        return "echo"
    subject = canonical(one_line(candidate.subject)) or subject_of(said, candidate.kind)
    subject = subject[:_MAX_SUBJECT]
    return Proposal(
        id=uuid4(),
        text=said,
        kind=candidate.kind,
        subject=subject,
        slot=subject if is_single_valued(subject) else None,
        fingerprint=fingerprint(said),
        source="transcript",
        # Clocks differ by minutes, but nothing is said after it has arrived.
        said_at=min(message.said_at, message.created_at),
        evidence=Source(
            claim.session_id,
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
    return valid_from if abs(valid_from - said_at) <= _FARTHEST else None


def _doubtful(
    candidate: Candidate,
    asked: Sequence[ForgetRequest],
    quote: str,
    turn: str,
    span: tuple[int, int],
) -> str | None:
    """Say why these words can't carry a fact, whatever it states."""
    beside = len(guard.MARK) + 2  # a space and a quotation mark may stand between
    if guard.MARK in turn[max(0, span[0] - beside) : span[1] + beside]:
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
