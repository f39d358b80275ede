"""Everything that is kept about a person, in one file, as it stood at one moment.

A short transaction copies the snapshot to a temporary file without a name, and nobody's slow line
keeps the transaction open.
"""

import asyncio
import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import IO, Any, Final
from uuid import UUID

from sqlalchemy import RowMapping, select
from sqlalchemy.ext.asyncio import AsyncSession

from app.db import Database, Scope
from app.memory import audit_log
from app.memory.exported import TABLES, Table
from app.memory.users import ORGANIZATION, find_user, read_settings
from app.models import User, UserDirectory

FORMAT: Final = "usermem-export-1"
HEADER: Final = "export"
"""The type of a file's first line."""

_TOGETHER: Final = 100
"""Rows that are fetched and written at once: of the largest, files, some 10 MB."""


async def export_user(
    db: Database, tenant_id: UUID, user: str, *, by: str, as_document: bool = False
) -> IO[bytes]:
    """Give a file with everything kept about the user, open at its beginning; the caller closes it.

    NDJSON, or one JSON document. An unseen user has a header and nothing else, and is not created.
    `by` names the actor in the audit log, where it is kept before anything is given.
    """
    file, scope = await _export(db, tenant_id, user, as_document=as_document)
    try:
        if scope is not None:
            async with db.tenant(tenant_id) as tx:
                await audit_log.record(tx, tenant_id, by, "user_exported", about=scope.user_id)
    except BaseException:
        file.close()
        raise
    return file


async def export_tenant(db: Database, tenant_id: UUID, out: IO[bytes], *, by: str) -> int:
    """Write what a tenant's organization and every user have to `out`; give how many users.

    One after the other, each with a header of its own, and each one snapshot of its own. The audit
    log tells of the whole, not of each user.
    """
    async with db.tenant(tenant_id) as tx:
        await audit_log.record(tx, tenant_id, by, "tenant_exported")
        has_organization = await find_user(tx, tenant_id, ORGANIZATION) is not None
    if has_organization:
        await _export_to(db, tenant_id, ORGANIZATION, out)
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
            await _export_to(db, tenant_id, user, out)
        count, last = count + len(users), users[-1]


async def _export_to(db: Database, tenant_id: UUID, user: str, out: IO[bytes]) -> None:
    file, _ = await _export(db, tenant_id, user)
    with file:
        await asyncio.to_thread(shutil.copyfileobj, file, out)


async def _export(
    db: Database, tenant_id: UUID, user: str, *, as_document: bool = False
) -> tuple[IO[bytes], Scope | None]:
    file = tempfile.TemporaryFile(prefix="usermem-export-")  # noqa: SIM115 - the caller's to close
    try:
        shape = _Document(file) if as_document else _Lines(file)
        async with db.tenant(tenant_id, snapshot=True) as tx:
            scope = await find_user(tx, tenant_id, user)
            await _copy(tx, tenant_id, user, scope, shape)
        await asyncio.to_thread(shape.finish)
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file, scope


async def _copy(
    tx: AsyncSession, tenant_id: UUID, user: str, scope: Scope | None, shape: "_Lines | _Document"
) -> None:
    person = await tx.get(User, (tenant_id, scope.user_id)) if scope else None
    shape.begin(
        {
            "format": FORMAT,
            "user": None if user == ORGANIZATION else user,
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
            self._file.write(_json({"type": table.record, **table.told(row)}) + b"\n")

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
        for row in rows:
            self._file.write(self._between + _json(table.told(row)))
            self._between = b",\n"

    def finish(self) -> None:
        self._file.write(self._ending + b"}\n")
        self._file.flush()


_FORMULA: Final = re.compile("'*[=+\\-@\t\r\n\uff0b\uff0d\uff1d\uff20]")


def neutral(value: Any) -> Any:
    """Put an apostrophe before every text that a spreadsheet would take for a formula, keys too.

    A text that stands so already gets one more, so `verbatim` gives back exactly what there was.
    """
    return _through(value, lambda text: "'" + text if _FORMULA.match(text) else text)


def verbatim(value: Any) -> Any:
    """Undo `neutral`."""
    return _through(
        value,
        lambda text: text[1:] if text.startswith("'") and _FORMULA.match(text) else text,
    )


def _through(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {change(key): _through(item, change) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [_through(item, change) for item in value]
    return value


def _json(record: Mapping[str, Any]) -> bytes:
    text = json.dumps(neutral(record), ensure_ascii=False, separators=(",", ":"), default=_plain)
    return text.encode()


def _plain(value: object) -> Any:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"an export holds no {type(value).__name__}")
