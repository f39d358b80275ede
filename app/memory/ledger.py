"""The erasure ledger: a file apart from the database, which a backup of the database can't undo.

One JSON object a line, of random ids, a time and keyed hashes. Lines are only ever appended, each
safely on disk before the erasure that it tells of is committed; one that then was not is voided by
another line. Any number of processes of one
machine may append to one file.
"""

import asyncio
import fcntl
import json
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from app.errors import Unavailable
from app.telemetry import logger

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Entry:
    """One erasure: of a user or, where the hash is of the tenant alone, of a whole tenant.

    With `merged_into`, the hash of another user, the first one's memory was moved there.
    """

    erasure_id: UUID
    tenant_id: UUID
    subject_hash: bytes
    erased_at: datetime
    key_check: str
    """Tells which signing key the hash was made with: under another one it stands for nobody."""
    merged_into: bytes | None = None

    def line(self) -> str:
        """Write the entry as a line of the ledger."""
        told = {
            "erasure_id": str(self.erasure_id),
            "tenant_id": str(self.tenant_id),
            "subject_hash": self.subject_hash.hex(),
            "erased_at": self.erased_at.isoformat(),
            "key_check": self.key_check,
        }
        if self.merged_into is not None:
            told["merged_into"] = self.merged_into.hex()
        return json.dumps(told)

    @classmethod
    def of(cls, line: bytes) -> "Entry":
        """Read a line back. Raises `ValueError` for what is none."""
        try:
            told: dict[str, Any] = json.loads(line)
            into = told.get("merged_into")
            return cls(
                UUID(told["erasure_id"]),
                UUID(told["tenant_id"]),
                bytes.fromhex(told["subject_hash"]),
                datetime.fromisoformat(told["erased_at"]),
                str(told["key_check"]),
                None if into is None else bytes.fromhex(into),
            )
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError("not a line of the ledger") from error


class LedgerCorrupt(Unavailable):
    """A line of the ledger says nothing: which erasure it was can't be known."""

    code = "ledger_corrupt"

    def __init__(self, line: int) -> None:
        super().__init__(f"Line {line} of the erasure ledger can't be read: mend it from a copy.")
        self.line = line


def read(path: Path) -> list[Entry]:
    """Give the entries that are not void. Raises `OSError` and `LedgerCorrupt`.

    A last line without its end was cut off by a crash, so its erasure was never committed.
    """
    if path.exists() and not path.is_file():
        raise OSError("the ledger is no file")  # a device or a pipe might be read for ever
    entries: dict[UUID, Entry] = {}
    *lines, rest = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, 1):
        try:
            _take(entries, line)
        except ValueError:
            raise LedgerCorrupt(number) from None
    if _is_whole(rest):
        _take(entries, rest)
    elif rest:
        log.warning("ledger_line_torn", line=len(lines) + 1)
    return list(entries.values())


def _take(entries: dict[UUID, Entry], line: bytes) -> None:
    if line.startswith(_VOIDS):
        entries.pop(UUID(line.removeprefix(_VOIDS).removesuffix(b'"}').decode()), None)
    else:
        entry = Entry.of(line)
        entries[entry.erasure_id] = entry


def _is_whole(line: bytes) -> bool:
    try:
        _take({}, line)
    except ValueError:
        return False
    return True


_VOIDS: Final = b'{"voids": "'


class Ledger:
    """The file at `path`, made if missing. Raises `OSError` where it can't be written.

    `is_whole` while the database is known to have seen every erasure of it, `agreed` is how the two
    were when that was found.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_whole = False
        self.agreed: object = None
        self.looked_at = float("-inf")
        self.looking = asyncio.Lock()
        self._writer = ThreadPoolExecutor(1, "ledger")  # one: lines come in the order asked for
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(self._open())
        folder = os.open(path.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)

    async def append(self, entries: Iterable[Entry]) -> None:
        """Append and return when it is on disk. Raises `Unavailable` when that fails."""
        lines = "".join(entry.line() + "\n" for entry in entries).encode()
        try:
            await asyncio.get_running_loop().run_in_executor(self._writer, self._append, lines)
        except OSError as error:
            log.error("ledger_not_written", error=type(error).__name__)  # noqa: TRY400 - its text names a path alone
            raise Unavailable(
                "The erasure ledger can't be written; nothing was erased.", code="ledger_failed"
            ) from None

    def void(self, erasure_id: UUID) -> None:
        """Take back an entry whose erasure may not have been committed. Never fails.

        Blocks, for who calls may be cancelled. Then the database is looked at again, and an entry
        that was committed after all comes back.
        """
        line = _VOIDS + f'{erasure_id}"}}\n'.encode()
        try:
            self._writer.submit(self._append, line).result()
        except OSError as error:
            log.error("ledger_not_voided", error=type(error).__name__)  # noqa: TRY400 - as above
        self.is_whole, self.looked_at = False, float("-inf")

    async def state(self) -> object:
        """Give what differs after any change of the file; None where it can't be had."""
        try:
            found = await asyncio.to_thread(self.path.stat)
        except OSError:
            return None
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns

    async def read(self) -> list[Entry]:
        """Give all entries, oldest first. Raises `OSError`."""
        return await asyncio.to_thread(read, self.path)

    def _open(self) -> int:
        return os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)

    def _append(self, lines: bytes) -> None:
        file = self._open()
        try:
            fcntl.flock(file, fcntl.LOCK_EX)  # released with the file
            size = _mend(file)
            try:
                if os.write(file, lines) != len(lines):
                    raise OSError("the disk is full")
                os.fsync(file)
            except OSError:
                with suppress(OSError):
                    os.ftruncate(file, size)
                raise
        finally:
            os.close(file)


def _mend(file: int) -> int:
    """End or cut off the last line if its process died in the middle of it; give the size."""
    size = os.fstat(file).st_size
    if not size or os.pread(file, 1, size - 1) == b"\n":
        return size
    rest = os.pread(file, size, 0).rpartition(b"\n")[2]
    if _is_whole(rest):
        return size + os.write(file, b"\n")
    os.ftruncate(file, size - len(rest))
    return size - len(rest)
