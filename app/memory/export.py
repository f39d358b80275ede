"""Everything that is kept about a person, in one file, as it stood at one moment.

A short transaction copies the snapshot to a temporary file without a name, and nobody's slow line
keeps the transaction open. Each table is one entry of `TABLES`; a test fails when one is missing.
"""

import asyncio
import json
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import IO, Any, Final, get_args
from uuid import UUID

from sqlalchemy import ColumnElement, RowMapping, Select, and_, bindparam, case, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from app.db import Base, Database
from app.memory.formulas import neutral
from app.memory.users import find_user, read_settings
from app.memory.view import Status, with_status
from app.models import (
    ApiKey,
    Evidence,
    Fact,
    FactEvent,
    FactVerdict,
    ForgettingEntry,
    FrozenBlock,
    IdempotencyKey,
    Message,
    RecallEntry,
    Session,
    User,
    UserDirectory,
)

FORMAT: Final = "usermem-export-1"
HEADER: Final = "export"
"""The type of a file's first line."""

_TOGETHER: Final = 500
"""Rows that are fetched and written at once."""

_TENANT: ColumnElement[UUID] = bindparam("tenant_id")
_USER: ColumnElement[UUID] = bindparam("user_id")
_NAME: ColumnElement[str] = bindparam("user")
_AT: Any = func.now()


@dataclass(frozen=True, slots=True)
class Table:
    """One table's part of an export: its name there, of a line and of them all, and its rows."""

    record: str
    group: str
    model: type[Base]
    rows: Select[*tuple[Any, ...]]


def _of_user(model: Any, *fields: Any) -> Select[Any]:
    return select(*fields).where(model.tenant_id == _TENANT, model.user_id == _USER)


def _session_of(model: Any, session_id: Any) -> tuple[type[Session], ColumnElement[bool]]:
    return Session, and_(
        Session.tenant_id == model.tenant_id,
        Session.user_id == model.user_id,
        Session.id == session_id,
    )


_STATUS: Final = case(*((with_status(status, _AT), status) for status in get_args(Status))).label(
    "status"
)

TABLES: Final = (
    Table(
        "session",
        "sessions",
        Session,
        _of_user(
            Session,
            Session.external_id.label("session"),
            Session.status,
            Session.reason,
            Session.ended,
            Session.attempt.label("attempts"),
            Session.user_turns,
            Session.added,
            Session.confirmed,
            Session.superseded,
            Session.quarantined,
            Session.rejected,
            Session.model_calls,
            Session.input_tokens,
            Session.output_tokens,
            Session.created_at.label("started_at"),
            Session.opened_at,
            Session.last_activity_at,
            Session.extract_after,
            Session.extracted_at,
        ).order_by(Session.created_at, Session.id),
    ),
    Table(
        "turn",
        "turns",
        Message,
        _of_user(
            Message,
            Session.external_id.label("session"),
            Message.position,
            Message.external_id.label("message_id"),
            Message.text,
            Message.said_at,
            Message.created_at,
            Message.extracted_at,
        )
        .join(*_session_of(Message, Message.session_id))
        .order_by(Session.created_at, Message.session_id, Message.position),
    ),
    Table(
        "fact",
        "facts",
        Fact,
        _of_user(
            Fact,
            Fact.id,
            Fact.text,
            Fact.kind,
            Fact.subject,
            _STATUS,
            Fact.source,
            Session.external_id.label("session"),
            Fact.source_message_id.label("message_id"),
            Fact.source_quote.label("quote"),
            Fact.extractor,
            Fact.said_at,
            Fact.valid_from,
            Fact.valid_to,
            Fact.created_at,
            Fact.last_confirmed_at,
            Fact.confirmations,
            Fact.last_recalled_at,
            Fact.expires_at,
            Fact.pinned,
            Fact.superseded_at,
            Fact.superseded_by,
            Fact.quarantined_at,
            Fact.quarantine_reason,
            Fact.forgotten_at,
            Fact.extra.label("metadata"),
            Fact.revision,
        )
        .outerjoin(*_session_of(Fact, Fact.source_session_id))
        .order_by(Fact.created_at, Fact.id),
    ),
    Table(
        "evidence",
        "evidence",
        Evidence,
        _of_user(
            Evidence,
            Evidence.fact_id.label("fact"),
            Session.external_id.label("session"),
            Evidence.message_id,
            Evidence.quote,
            Evidence.said_at,
            Evidence.created_at,
        )
        .outerjoin(*_session_of(Evidence, Evidence.session_id))
        .order_by(Evidence.created_at, Evidence.said_at, Evidence.quote, Evidence.id),
    ),
    Table(
        "verdict",
        "verdicts",
        FactVerdict,
        _of_user(
            FactVerdict,
            FactVerdict.old_id.label("old"),
            FactVerdict.new_id.label("new"),
            FactVerdict.verdict,
            FactVerdict.reason,
            FactVerdict.judge,
            FactVerdict.at,
            FactVerdict.overturned_at,
        ).order_by(FactVerdict.at, FactVerdict.id),
    ),
    Table(
        "event",
        "events",
        FactEvent,
        _of_user(
            FactEvent, FactEvent.fact_id.label("fact"), FactEvent.at, FactEvent.what, FactEvent.by
        ).order_by(FactEvent.at, FactEvent.id),
    ),
    Table(
        "forgetting",
        "forgettings",
        ForgettingEntry,
        _of_user(
            ForgettingEntry,
            ForgettingEntry.fact_id.label("fact"),
            ForgettingEntry.rule,
            ForgettingEntry.dry_run,
            ForgettingEntry.day,
            ForgettingEntry.created_at.label("at"),
        ).order_by(ForgettingEntry.created_at, ForgettingEntry.id),
    ),
    Table(
        "block",
        "blocks",
        FrozenBlock,
        _of_user(
            FrozenBlock, FrozenBlock.session, FrozenBlock.created_at, FrozenBlock.answer
        ).order_by(FrozenBlock.created_at, FrozenBlock.session),
    ),
    Table(
        "recall",
        "recalls",
        RecallEntry,
        _of_user(
            RecallEntry,
            RecallEntry.id,
            RecallEntry.at,
            RecallEntry.facts,
            RecallEntry.frozen,
            RecallEntry.degraded,
            RecallEntry.tokens,
            RecallEntry.relevant,
            RecallEntry.irrelevant,
            RecallEntry.judged_at,
        ).order_by(RecallEntry.at, RecallEntry.id),
    ),
    Table(
        "answer",
        "answers",
        IdempotencyKey,
        _of_user(
            IdempotencyKey, IdempotencyKey.created_at, IdempotencyKey.status, IdempotencyKey.answer
        ).order_by(IdempotencyKey.created_at, IdempotencyKey.digest),
    ),
    Table(
        "key",
        "keys",
        ApiKey,
        select(ApiKey.id, ApiKey.scopes, ApiKey.created_at, ApiKey.expires_at, ApiKey.revoked_at)
        .where(ApiKey.tenant_id == _TENANT, ApiKey.bound_to == _NAME)
        .order_by(ApiKey.created_at, ApiKey.id),
    ),
)

IN_HEADER: Final = (UserDirectory, User)
"""Tables whose row of the person is the file's first line."""


async def export_user(
    db: Database, tenant_id: UUID, user: str, *, as_document: bool = False
) -> IO[bytes]:
    """Give a file with everything kept about the user, open at its beginning; the caller closes it.

    NDJSON, or one JSON document. An unseen user has a header and nothing else, and is not created.
    """
    file = tempfile.TemporaryFile(prefix="usermem-export-")  # noqa: SIM115 - the caller's to close
    try:
        shape = _Document(file) if as_document else _Lines(file)
        async with db.tenant(tenant_id, snapshot=True) as tx:
            await _copy(tx, tenant_id, user, shape)
        await asyncio.to_thread(shape.finish)
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file


async def export_tenant(db: Database, tenant_id: UUID, out: IO[bytes]) -> int:
    """Write every user of a tenant to `out`, one after the other; give how many there were.

    Each user's lines begin with a header of their own and are one snapshot of that user.
    """
    count, last = 0, ""
    while True:
        async with db.tenant(tenant_id) as tx:
            found = await tx.scalars(
                select(UserDirectory.external_id)
                .where(UserDirectory.tenant_id == tenant_id, UserDirectory.external_id > last)
                .order_by(UserDirectory.external_id)
                .limit(_TOGETHER)
            )
            users = list(found)
        if not users:
            return count
        for user in users:
            with await export_user(db, tenant_id, user) as file:
                await asyncio.to_thread(shutil.copyfileobj, file, out)
        count, last = count + len(users), users[-1]


async def _copy(tx: AsyncSession, tenant_id: UUID, user: str, shape: "_Lines | _Document") -> None:
    scope = await find_user(tx, tenant_id, user)
    person = await tx.get(User, (tenant_id, scope.user_id)) if scope else None
    shape.begin(
        {
            "format": FORMAT,
            "user": user,
            "created_at": person.created_at if person else None,
            "settings": asdict(await read_settings(tx, tenant_id, user)),
        }
    )
    who = {"tenant_id": tenant_id, "user_id": scope.user_id if scope else None, "user": user}
    for table in TABLES:
        shape.open(table)
        found = await tx.stream(table.rows, who, execution_options={"yield_per": _TOGETHER})
        async for rows in found.mappings().partitions():
            # Off the event loop: a large person's rows take seconds to write.
            await asyncio.to_thread(shape.add, table, rows)


class _Lines:
    """One JSON object a line, each with its type."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def begin(self, header: Mapping[str, Any]) -> None:
        self._file.write(_json({"type": HEADER, **header}) + b"\n")

    def open(self, table: Table) -> None:
        """Nothing marks the beginning of a table."""

    def add(self, table: Table, rows: Iterable[RowMapping]) -> None:
        for row in rows:
            self._file.write(_json({"type": table.record, **row}) + b"\n")

    def finish(self) -> None:
        self._file.flush()


class _Document:
    """One JSON object: the header's fields, then a list for each table."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._between = b""
        self._ending = b""

    def begin(self, header: Mapping[str, Any]) -> None:
        self._file.write(_json(header)[:-1])

    def open(self, table: Table) -> None:
        self._file.write(self._ending + b',\n"%b":[' % table.group.encode())
        self._between, self._ending = b"\n", b"]"

    def add(self, table: Table, rows: Iterable[RowMapping]) -> None:
        del table
        for row in rows:
            self._file.write(self._between + _json(dict(row)))
            self._between = b",\n"

    def finish(self) -> None:
        self._file.write(self._ending + b"}\n")
        self._file.flush()


def _json(record: Mapping[str, Any]) -> bytes:
    text = json.dumps(neutral(record), ensure_ascii=False, separators=(",", ":"), default=_plain)
    return text.encode()


def _plain(value: object) -> Any:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"an export holds no {type(value).__name__}")
