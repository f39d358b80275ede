"""The files that a model keeps for a user through Claude's memory tool: six commands over rows.

Answers are in the words of the SDK's own file backend, which models know. Files stay files: they
hold no secret, are exported and erased with the user, and never become facts. A refused command
changes nothing.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import ColumnElement, delete, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from app.db import Scope, now
from app.errors import NotFound
from app.memory.core import Core
from app.memory.file_text import (
    MAX_ENTRIES,
    MAX_FILE,
    ROOT,
    Command,
    Create,
    Delete,
    Insert,
    Refused,
    Rename,
    StrReplace,
    View,
    fits,
    inserted,
    listed,
    numbered,
    replaced,
    resolve,
    storable,
)
from app.memory.guard import scrub
from app.memory.users import ensure_user, find_user, lock_user
from app.models import MemoryFile, User

_SCRUBBED_AT_ONCE: Final = 4_000


class _Long(Exception):  # noqa: N818 - a way out of the transaction, not a fault
    """A text is too long to be looked through while others wait for the row."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text


async def run(core: Core, tenant_id: UUID, user: str, command: Command) -> str:
    """Carry out one command and give its answer. Raises `Refused`.

    What changes a file reads and writes it under the user's row lock, in one transaction: of two
    writers neither loses the other's change. A user comes into being with the first file.
    """
    cleared: str | None = None
    for is_last in (False, False, True):
        try:
            async with core.db.tenant(tenant_id) as tx:
                if isinstance(command, View):
                    return await _view(tx, await _reader(tx, tenant_id, user), command)
                files = _Files(tx, await _writer(tx, tenant_id, user), cleared, is_last=is_last)
                return await _change(files, command)
        except _Long as long:
            # Without a connection; if the file changes meanwhile, its new text is looked through.
            await asyncio.to_thread(_refuse_secret, long.text)
            cleared = long.text
    raise AssertionError("the last try looks through whatever it writes")


@dataclass(frozen=True, slots=True)
class Listed:
    """A file without its content."""

    path: str
    size: int
    updated_at: datetime


async def list_files(tx: AsyncSession, tenant_id: UUID, user: str) -> Sequence[Listed]:
    """List a person's files for the person, by path, also while memory is paused."""
    scope = await find_user(tx, tenant_id, user)
    if scope is None:
        return []
    rows = await tx.execute(
        select(MemoryFile.path, func.octet_length(MemoryFile.content), MemoryFile.updated_at)
        .where(_of(scope), MemoryFile.content.is_not(None))
        .order_by(MemoryFile.path)
    )
    return [Listed(*row) for row in rows]


async def read_file(tx: AsyncSession, tenant_id: UUID, user: str, path: str) -> str:
    """Give a person's file to the person, also while memory is paused. Raises `NotFound`."""
    scope = await find_user(tx, tenant_id, user)
    row = await tx.get(MemoryFile, (tenant_id, scope.user_id, path)) if scope else None
    if row is None or row.content is None:
        raise NotFound("There is no such file.")
    return row.content


async def _reader(tx: AsyncSession, tenant_id: UUID, user: str) -> Scope | None:
    scope = await find_user(tx, tenant_id, user)
    person = await tx.get(User, (tenant_id, scope.user_id)) if scope else None
    if person is not None:
        _require_on(person)
    return scope


async def _writer(tx: AsyncSession, tenant_id: UUID, user: str) -> Scope:
    scope, _ = await ensure_user(tx, tenant_id, user)
    person = await lock_user(tx, scope)
    if person is None:
        raise RuntimeError("the row is locked against erasure")
    _require_on(person)
    return scope


def _require_on(person: User) -> None:
    if person.memory != "on":
        raise Refused(f"The user's memory is {person.memory}: no file is read or written now.")


async def _change(files: "_Files", command: Command) -> str:
    match command:
        case Create():
            return await _create(files, command)
        case StrReplace():
            return await _str_replace(files, command)
        case Insert():
            return await _insert(files, command)
        case Delete():
            return await _delete(files, command)
        case Rename():
            return await _rename(files, command)
        case View():
            raise TypeError("a view changes nothing")


class _Files:
    """The rows of one user, whose own row is locked.

    A long text that is not the `cleared` one is looked through elsewhere, unless this is the last
    try: then others wait.
    """

    def __init__(
        self, tx: AsyncSession, scope: Scope, cleared: str | None, *, is_last: bool
    ) -> None:
        self._tx = tx
        self._scope = scope
        self._cleared = cleared
        self._is_last = is_last

    async def find(self, path: str) -> MemoryFile | None:
        return await self._tx.get(MemoryFile, (self._scope.tenant_id, self._scope.user_id, path))

    async def read(self, path: str, shown: str) -> tuple[MemoryFile, str]:
        """Give a file with its text. Refuses what is not there, or a directory."""
        row = await self.find(path)
        if row is None and path != ROOT:
            raise Refused(f"The path {shown} does not exist. Please provide a valid path.")
        if row is None or row.content is None:
            raise Refused(f"The path {shown} is not a file.")
        return row, row.content

    async def write(self, row: MemoryFile, text: str) -> None:
        row.content = await self._checked(row.path, text)
        row.revision += 1
        row.updated_at = now(self._tx)

    async def add(self, path: str, text: str) -> None:
        """Add a file and the directories above it."""
        content = await self._checked(path, text)
        await self.make_above(path)
        await self._insert([(path, content)])

    async def make_above(self, path: str) -> None:
        """Make the directories above a path. Refuses to go through a file."""
        above = _ancestors(path)
        rows = await self._tx.execute(
            select(MemoryFile.path, MemoryFile.content.is_(None)).where(
                _of(self._scope), MemoryFile.path.in_(above)
            )
        )
        known = {row[0]: row[1] for row in rows}
        for directory, is_directory in known.items():
            if not is_directory:
                raise Refused(f"The path {directory} is a file: nothing can be below it.")
        await self._insert([(directory, None) for directory in above if directory not in known])

    async def _insert(self, entries: Sequence[tuple[str, str | None]]) -> None:
        if not entries:
            return
        if any(scrub(path).found for path, _ in entries):
            raise _secret()
        count = select(func.count()).select_from(MemoryFile).where(_of(self._scope))
        if (await self._tx.scalar(count) or 0) + len(entries) > MAX_ENTRIES:
            raise Refused(
                f"There can be no more than {MAX_ENTRIES:,} files and directories. "
                "Delete some that are not needed any more."
            )
        key = {"tenant_id": self._scope.tenant_id, "user_id": self._scope.user_id}
        values = [{**key, "path": path, "content": content} for path, content in entries]
        await self._tx.execute(insert(MemoryFile).values(values))

    async def _checked(self, path: str, text: str) -> str:
        """Hold a file's whole new text against the cap and the guard."""
        if len(text.encode()) > MAX_FILE:
            raise Refused(
                f"The file {path} would be larger than {MAX_FILE:,} bytes. "
                "Keep less in it, or split it."
            )
        if len(text) <= _SCRUBBED_AT_ONCE:
            _refuse_secret(text)
        elif text != self._cleared:
            if not self._is_last:
                raise _Long(text)
            await asyncio.to_thread(_refuse_secret, text)
        return text

    async def delete(self, path: str) -> None:
        await self._tx.execute(delete(MemoryFile).where(_of(self._scope), _at_or_below(path)))

    async def move(self, old: str, new: str) -> None:
        """Move a path with all below it, whose new paths must fit too."""
        rows = await self._tx.scalars(
            select(MemoryFile.path).where(_of(self._scope), _at_or_below(old))
        )
        moved = [new + path.removeprefix(old) for path in rows]
        if not all(fits(path) for path in moved):
            raise Refused("The new path, or one below it, would be too long or too deep.")
        if scrub(new).found:
            raise _secret()
        await self._tx.execute(
            update(MemoryFile)
            .where(_of(self._scope), _at_or_below(old))
            .values(
                path=func.concat(new, func.substr(MemoryFile.path, len(old) + 1)),
                revision=MemoryFile.revision + 1,
                updated_at=now(self._tx),
            )
            .execution_options(synchronize_session=False)
        )


async def bring(
    tx: AsyncSession, scope: Scope, rows: Sequence[Mapping[str, Any]], *, most: int | None = None
) -> Counter[str]:
    """Store files and directories from elsewhere beside what is there; give why some are not.

    Where something stands already, it stays: on the same path, and a file above it too. `most` is
    how many there may be. Call it under the user's lock, with texts that may be kept.
    """
    found = await tx.execute(
        select(MemoryFile.path, MemoryFile.content.is_(None)).where(_of(scope))
    )
    is_directory: dict[str, bool] = {row[0]: row[1] for row in found}
    refused: Counter[str] = Counter()
    fresh: list[dict[str, Any]] = []
    for row in rows:
        path, kind = row["path"], row["content"] is None
        new = [one for one in [*_ancestors(path), path] if one not in is_directory]
        if not all(is_directory.get(above, True) for above in _ancestors(path)):
            refused["path_taken"] += 1
        elif not new:
            refused["path_taken"] += is_directory[path] != kind
        elif most is not None and len(is_directory) + len(new) > most:
            refused["too_many_files"] += 1
        else:
            is_directory |= {**dict.fromkeys(new, True), path: kind}
            owner = {"tenant_id": scope.tenant_id, "user_id": scope.user_id}
            above = {**row, **owner, "content": None, "revision": 1}
            fresh += [{**above, "path": one} for one in new[:-1]]
            fresh.append({**row, **owner})
    if fresh:
        await (await tx.connection()).execute(insert(MemoryFile), fresh)
    return +refused


def _of(scope: Scope) -> ColumnElement[bool]:
    return (MemoryFile.tenant_id == scope.tenant_id) & (MemoryFile.user_id == scope.user_id)


def _at_or_below(path: str) -> ColumnElement[bool]:
    return or_(MemoryFile.path == path, func.starts_with(MemoryFile.path, f"{path}/"))


def _refuse_secret(text: str) -> None:
    if scrub(text).found:
        raise _secret()


def _secret() -> Refused:
    return Refused(
        "Nothing was written: this holds what looks like a secret, such as a key, a password or a "
        "card number. Leave it out."
    )


def _ancestors(path: str) -> list[str]:
    """Give the directories between the root and a path, outermost first."""
    parts = path.split("/")
    return ["/".join(parts[:n]) for n in range(3, len(parts))]


async def _view(tx: AsyncSession, scope: Scope | None, command: View) -> str:
    path = resolve(command.path)
    entries: Mapping[str, int | None] = {ROOT: None}
    if scope is not None:
        row = await tx.get(MemoryFile, (scope.tenant_id, scope.user_id, path))
        if row is not None and row.content is not None:
            return numbered(command, row.content)
        found = await tx.execute(
            select(MemoryFile.path, func.octet_length(MemoryFile.content)).where(
                _of(scope), _at_or_below(path)
            )
        )
        entries = {ROOT: None, **{row[0]: row[1] for row in found}}
    if path not in entries:
        raise Refused(f"The path {command.path} does not exist. Please provide a valid path.")
    return listed(command.path, path, entries)


async def _create(files: _Files, command: Create) -> str:
    path = resolve(command.path)
    if path == ROOT or await files.find(path) is not None:
        raise Refused(f"File {command.path} already exists")
    await files.add(resolve(command.path, is_file=True), storable(command.file_text))
    return f"File created successfully at: {command.path}"


async def _str_replace(files: _Files, command: StrReplace) -> str:
    row, text = await files.read(resolve(command.path), command.path)
    new, answer = replaced(text, command)
    await files.write(row, new)
    return answer


async def _insert(files: _Files, command: Insert) -> str:
    row, text = await files.read(resolve(command.path), command.path)
    await files.write(row, inserted(text, command))
    return f"The file {command.path} has been edited."


async def _delete(files: _Files, command: Delete) -> str:
    path = resolve(command.path)
    if path == ROOT:
        raise Refused(f"Cannot delete the {ROOT} directory itself")
    if await files.find(path) is None:
        raise Refused(f"The path {command.path} does not exist")
    await files.delete(path)
    return f"Successfully deleted {command.path}"


async def _rename(files: _Files, command: Rename) -> str:
    old, new = resolve(command.old_path), resolve(command.new_path)
    if old == ROOT:
        raise Refused(f"Cannot rename the {ROOT} directory itself")
    if new == ROOT or await files.find(new) is not None:
        raise Refused(f"The destination {command.new_path} already exists")
    row = await files.find(old)
    if row is None:
        raise Refused(f"The path {command.old_path} does not exist")
    if new.startswith(f"{old}/") and row.content is None:
        raise Refused(f"Cannot move {command.old_path} into itself")
    await files.make_above(new)
    await files.move(old, new)
    return f"Successfully renamed {command.old_path} to {command.new_path}"
