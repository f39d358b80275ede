"""A person's memory comes in from a file: every text through the guard, times kept, chains whole.

First all records are held against the guard, without a lock or a connection; then one transaction
under the user's lock writes what passed. So a file that breaks off, or is not believed, loses
nothing. Ids follow from the file's own, so a second import finds what the first has written.
"""

import asyncio
import pickle
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import IO, Any, Final, Self
from uuid import UUID

import psycopg
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as CheckoutTimeout
from sqlalchemy.ext.asyncio import AsyncSession

from app import metrics
from app.db import now
from app.embeddings import EmbedderError
from app.errors import Conflict, Invalid
from app.memory import audit_log, guard
from app.memory.core import Core
from app.memory.echo import cut_echo
from app.memory.facts import check_metadata, require_on
from app.memory.ingest import EARLIEST_YEAR
from app.memory.jobs import defer_embed
from app.memory.learn import embed_missing
from app.memory.placing import Placing, Record
from app.memory.policy import Policy, policy_of
from app.memory.users import ensure_user, find_user, lock_user, read_settings
from app.memory.write import EMBED_AGAIN_AFTER
from app.models import (
    Evidence,
    Fact,
    FactEvent,
    FactVerdict,
    MemoryFile,
    Message,
    Session,
    User,
)

TOGETHER: Final = 200
"""Records that are written at once."""

EMBED_AT_ONCE: Final = 5.0
"""Seconds spent on vectors before the answer; a job makes the rest."""

_DATABASE: Final = (psycopg.Error, DBAPIError, CheckoutTimeout)
"""How a database fails that is away or busy; errors of the pool are errors of psycopg."""

_ORDER: Final = (Session, Message, Fact, Evidence, FactVerdict, FactEvent, MemoryFile)
_PAST: Final = (
    "said_at",
    "created_at",
    "updated_at",
    "last_confirmed_at",
    "last_recalled_at",
    "superseded_at",
    "quarantined_at",
    "forgotten_at",
    "opened_at",
    "last_activity_at",
    "extracted_at",
    "at",
    "overturned_at",
)
"""Columns of what has happened: never later than now, whatever a file says."""


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import did: facts added, records refused by reason, and which fact is which."""

    imported: int
    rejected: dict[str, int]
    ids: dict[UUID, UUID]


Settle = Callable[[AsyncSession, Imported], Awaitable[None]]
"""What else belongs into the commit of an import."""


async def import_user(
    core: Core,
    tenant_id: UUID,
    user: str,
    records: Iterator[Record | str],
    *,
    by: str,
    settle: Settle,
) -> Imported:
    """Write a file's records into a user's memory, creating the user if need be.

    `records` is read once, in a thread; `by` names the actor. Opens its own transactions. Raises
    `Conflict` while the user's memory is not on; vectors are made anew after the commit.
    """
    async with core.db.tenant(tenant_id) as tx:
        policy = await policy_of(tx, core, tenant_id)
        require_on(User(memory=(await read_settings(tx, tenant_id, user)).memory))
        before, at = await find_user(tx, tenant_id, user), now(tx)
    with Sifted() as sifted:
        await asyncio.to_thread(sifted.sift, records, policy, at)
        async with core.db.tenant(tenant_id) as tx:
            scope, person = await ensure_user(tx, tenant_id, user)
            is_new = person.created_at == now(tx)
            locked = await lock_user(tx, scope)
            if locked is None or before not in {None, scope}:
                raise Conflict("The user was erased meanwhile.", code="user_erased")
            require_on(locked)
            placing = Placing(tx, core, scope, sifted.refused, by)
            for table in _ORDER:
                for batch in sifted.batches(table):
                    await placing.place(table, batch)
            await placing.finish(sifted.links)
            if is_new:
                sifted.settle(locked)
            if placing.added:
                await defer_embed(tx, scope, now(tx) + EMBED_AGAIN_AFTER)
            rejected = dict(sorted((sifted.rejected + placing.rejected).items()))
            imported = Imported(len(placing.added), rejected, placing.known())
            details = {"imported": imported.imported, "rejected": rejected}
            await audit_log.record(
                tx, tenant_id, by, "user_imported", about=scope.user_id, details=details
            )
            await settle(tx, imported)
    # What was committed is answered, whatever comes of the vectors: a job makes the rest.
    with suppress(EmbedderError, TimeoutError, *_DATABASE):
        async with asyncio.timeout(EMBED_AT_ONCE):
            await embed_missing(core, scope)
    return imported


@dataclass
class Sifted:
    """The records that passed, by table, in temporary files without a name."""

    rejected: Counter[str] = field(default_factory=Counter)
    links: dict[UUID, UUID] = field(default_factory=dict)
    """Which fact of the file superseded which."""
    refused: set[UUID] = field(default_factory=set)
    """Facts of the file that did not pass."""
    header: dict[str, Any] = field(default_factory=dict)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._files: dict[type, IO[bytes]] = {
                table: stack.enter_context(tempfile.TemporaryFile()) for table in _ORDER
            }
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def sift(self, records: Iterator[Record | str], policy: Policy, at: datetime) -> None:
        """Hold every record against the guard; keep it, or count why not."""
        for record in records:
            if isinstance(record, str):
                self.rejected[record] += 1
                continue
            columns = record.columns
            told = [name for name in _PAST if columns.get(name) is not None]
            if any(columns[name].year < EARLIEST_YEAR for name in told):
                self.rejected["bad_time"] += 1
                if record.table is Fact:
                    self.refused.add(columns["id"])
                continue
            columns |= {name: min(columns[name], at) for name in told}
            if record.table is User:
                self.header = columns
                continue
            if record.table is Fact:
                self._link(columns)
            if reason := _refused(record, policy, at):
                self.rejected[reason] += 1
                if record.table is Fact:
                    self.refused.add(columns["id"])
            else:
                pickle.dump(record, self._files[record.table])

    def _link(self, columns: dict[str, Any]) -> None:
        successor = columns.pop("superseded_by")
        if successor is None:
            return
        if columns["superseded_at"] is None:
            self.rejected["bad_link"] += 1
        else:
            self.links[columns["id"]] = successor

    def batches(self, table: type) -> Iterator[list[Record]]:
        """Give a table's records, some at a time."""
        file = self._files[table]
        file.seek(0)
        batch: list[Record] = []
        with suppress(EOFError):
            while True:
                batch.append(pickle.load(file))  # noqa: S301 - written by `sift` a moment ago
                if len(batch) == TOGETHER:
                    yield batch
                    batch = []
        if batch:
            yield batch

    def settle(self, person: User) -> None:
        """Give a person who is new here the settings of the file, and its first day."""
        for name, value in self.header.items():
            if value is not None:
                setattr(person, name, value)


def _refused(record: Record, policy: Policy, at: datetime) -> str | None:
    """Say why a record is not kept; None if it is. A doubtful fact is marked for quarantine."""
    columns = record.columns
    if record.table is Fact:
        return _refused_fact(columns, policy, at)
    if record.table is Message:
        scrubbed = guard.scrub(columns["text"])
        if scrubbed.found:
            return "secret"
        columns["text"] = cut_echo(scrubbed.text)
        return None if columns["text"] else "echo"
    said = (columns.get(name) for name in ("quote", "reason", "path", "content"))
    return "secret" if any(text and guard.scrub(text).found for text in said) else None


def _refused_fact(columns: dict[str, Any], policy: Policy, at: datetime) -> str | None:
    decision = guard.check(columns["text"], columns["kind"], blocked=policy.blocked)
    metrics.guarded(decision.action, decision.reason)
    if decision.action == "reject":
        return decision.reason
    quote = columns["source_quote"]
    if guard.scrub(f"{columns['subject']}\n{quote or ''}").found:
        return "secret"
    try:
        check_metadata(columns["extra"])
    except Invalid as error:
        return error.code
    if decision.action == "quarantine":
        columns["quarantined_at"] = columns["quarantined_at"] or at
        columns["quarantine_reason"] = decision.reason
    elif columns["quarantined_at"] is None:
        columns["quarantine_reason"] = None
    if columns["source"] != "mcp":  # a model's own words stay such, wherever they go
        columns["source"] = "import"
    return None
