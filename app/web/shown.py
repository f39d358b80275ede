"""Facts as their user sees them: in their own words, but that a secret is covered.

Guards of old let things in that today's would not. Recall never shows those; here the person is
told that one is there, so that they can delete it, without the page holding it.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from app.memory import guard
from app.memory.facts import Why
from app.memory.view import Status, status_of
from app.models import Fact


@dataclass(frozen=True, slots=True)
class Masked:
    """A text without its secrets, and whether it had any."""

    text: str
    has_secret: bool

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class ShownFact:
    """What the page tells of a fact."""

    id: UUID
    text: Masked
    quote: Masked | None
    kind: str
    status: Status
    source: str
    said_at: datetime
    used_at: datetime | None
    confirmations: int
    pinned: bool
    revision: int


@dataclass(frozen=True, slots=True)
class ShownEvidence:
    """Where the person said it."""

    quote: Masked
    said_at: datetime
    session: str | None


async def show(facts: Iterable[Fact], at: datetime) -> list[ShownFact]:
    """Show facts as they stand at this time. Looking for secrets takes a while: on a thread."""
    return await asyncio.to_thread(lambda: [_shown(fact, at) for fact in facts])


async def show_evidence(why: Why) -> Sequence[ShownEvidence]:
    """Show what a fact rests on."""
    return await asyncio.to_thread(
        lambda: [
            ShownEvidence(_masked(row.quote), row.said_at, session) for row, session in why.evidence
        ]
    )


async def mask(text: str) -> Masked:
    """Cover the secrets of any other text."""
    return await asyncio.to_thread(_masked, text)


def _shown(fact: Fact, at: datetime) -> ShownFact:
    return ShownFact(
        id=fact.id,
        text=_masked(fact.text),
        quote=_masked(fact.source_quote) if fact.source_quote else None,
        kind=fact.kind,
        status=status_of(fact, at),
        source=fact.source,
        said_at=fact.said_at,
        used_at=fact.last_recalled_at,
        confirmations=fact.confirmations,
        pinned=fact.pinned,
        revision=fact.revision,
    )


def _masked(text: str) -> Masked:
    scrubbed = guard.scrub(text)
    return Masked(scrubbed.text, bool(scrubbed.found) or guard.MARK in text)
