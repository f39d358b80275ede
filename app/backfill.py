"""Bulk import of past conversations: in time order per user, resumable, as fast as they are read.

Every message gets an id of its own if it has none, so a run that was cut off can be repeated: what
is there already counts as a duplicate. The queue is never filled further than a worker empties it.
"""

import asyncio
import hashlib
import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from uuid import UUID

from pydantic import ConfigDict, ValidationError
from rich.progress import Progress
from sqlalchemy import func, select

from app.api.sessions import Message, TranscriptIn
from app.errors import Invalid, UsermemError
from app.memory.core import Core
from app.memory.ingest import append_turns
from app.models import Session
from app.wire import Id, parse_json
from app.worker import Worker

WAITING_AT_MOST: Final = 50
"""Sessions waiting for extraction before the import pauses."""

_POLL: Final = 0.2
_LONG_AGO: Final = datetime(1, 1, 1, tzinfo=UTC)


class Line(TranscriptIn):
    """One line of the file: whose conversation, under which session id, and its messages."""

    model_config = ConfigDict(extra="forbid")

    user: Id


@dataclass(slots=True)
class Report:
    """What an import did; `refused` gives line numbers and why, without the lines' text."""

    sessions: int = 0
    accepted: int = 0
    duplicates: int = 0
    refused: list[tuple[int, str]] = field(default_factory=list)


async def import_file(
    core: Core, tenant_id: UUID, path: Path, *, with_worker: bool, progress: Progress
) -> Report:
    """Import NDJSON of `{user, session, messages}`; returns when every session is settled."""
    report = Report()
    places = _in_order(path, report)
    bar = progress.add_task("Importing", total=len(places))
    worker = Worker(core, concurrency=4) if with_worker else None
    running = asyncio.create_task(worker.run()) if worker else None
    try:
        with path.open("rb") as file:
            for _, _, number, offset in places:
                file.seek(offset)
                await _room(core, tenant_id, WAITING_AT_MOST)
                await _import_line(core, tenant_id, file.readline(), number, report)
                progress.advance(bar)
        await _room(core, tenant_id, 0)
    finally:
        if worker and running:
            worker.stop()
            with suppress(asyncio.CancelledError):
                await running
    return report


def _in_order(path: Path, report: Report) -> list[tuple[str, datetime, int, int]]:
    """Give (user, first time, line number, offset) of all good lines, each user's by time."""
    places: list[tuple[str, datetime, int, int]] = []
    offset = 0
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            if raw.strip():
                try:
                    line = _parse(raw)
                except (UsermemError, ValidationError) as error:
                    report.refused.append((number, _why(error)))
                else:
                    times = [m.created_at for m in line.messages if m.created_at]
                    places.append((line.user, min(times, default=_LONG_AGO), number, offset))
            offset += len(raw)
    return sorted(places)


def _parse(raw: bytes) -> Line:
    return Line.model_validate(parse_json(raw))


def _why(error: UsermemError | ValidationError) -> str:
    if isinstance(error, UsermemError):
        return error.code
    return ", ".join(sorted({str(item["type"]) for item in error.errors()}))


async def _import_line(
    core: Core, tenant_id: UUID, raw: bytes, number: int, report: Report
) -> None:
    line = _parse(raw)
    session = line.session or f"import-{hashlib.sha256(raw.strip()).hexdigest()[:32]}"
    turns = [message.turn() for message in _named(line)]
    try:
        receipt = await append_turns(
            core, tenant_id, line.user, session, turns, end=True, memory=line.memory
        )
    except Invalid as error:
        report.refused.append((number, error.code))
        return
    report.sessions += 1
    report.accepted += receipt.accepted
    report.duplicates += receipt.duplicates


def _named(line: Line) -> Iterator[Message]:
    """Give the messages, each with an id that is the same in every run."""
    for n, message in enumerate(line.messages):
        if message.id is None:
            text = json.dumps([n, message.role, message.content], ensure_ascii=True)
            digest = hashlib.sha256(text.encode()).hexdigest()[:32]
            yield message.model_copy(update={"id": f"import-{digest}"})
        else:
            yield message


async def _room(core: Core, tenant_id: UUID, most: int) -> None:
    """Wait until at most so many of the tenant's sessions wait for extraction."""
    while True:
        async with core.db.tenant(tenant_id) as tx:
            waiting = await tx.scalar(
                select(func.count())
                .select_from(Session)
                .where(Session.tenant_id == tenant_id, Session.status.in_(["queued", "extracting"]))
            )
        if (waiting or 0) <= most:
            return
        await asyncio.sleep(_POLL)
