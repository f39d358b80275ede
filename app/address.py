"""From settings to a place: where the database is, and with which key its hashes are made."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from app.embedded import EmbeddedPostgres
from app.errors import UsermemError
from app.settings import Settings

_SIGNING_KEY_FILE: Final = "signing-key"
_LEDGER_FILE: Final = "erasures.ndjson"


class Misconfigured(UsermemError):  # noqa: N818 - said to an operator, who reads it as a state
    """The settings can't work together; the text says what to set."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where the database is: for the service's role, and for the owner."""

    service_url: str
    owner_url: str
    is_embedded: bool


@contextmanager
def database(settings: Settings) -> Iterator[Address]:
    """Give the configured database, or start (or join) the embedded one for the block's time."""
    if settings.database_url is not None:
        owner = settings.migrate_database_url or settings.database_url
        yield Address(settings.database_url, owner, is_embedded=False)
        return
    with EmbeddedPostgres(settings.data_dir.expanduser()) as postgres:
        yield Address(postgres.url("service"), postgres.url("owner"), is_embedded=True)


def signing_key(settings: Settings) -> bytes:
    """Give the configured key, or the one generated beside an embedded database.

    Raises `Misconfigured` beside a database URL without a key: two processes must share one.
    """
    if settings.signing_key is not None:
        return settings.signing_key.get_secret_value().encode()
    if settings.database_url is not None:
        raise Misconfigured(
            "Set USERMEM_SIGNING_KEY (32 or more random characters, the same for every process): "
            "it is generated only for the embedded database."
        )
    return _generated_key(settings.data_dir.expanduser() / _SIGNING_KEY_FILE)


def ledger_path(settings: Settings) -> Path | None:
    """Give where the erasure ledger is; None beside a database URL without one.

    By default it lies beside the data directory, not in it: a copy of that, put back, would bring
    the erased back unnoticed. One that lies within from before is moved. It stays within where
    nothing can be kept beside: the directory is a volume by itself, or its parent is not ours.
    """
    if settings.erasure_ledger is not None:
        return settings.erasure_ledger.expanduser()
    if settings.database_url is not None:
        return None
    data_dir = settings.data_dir.expanduser().resolve()
    within = data_dir / _LEDGER_FILE
    beside = data_dir.with_name(f"{data_dir.name}.{_LEDGER_FILE}")
    if beside.exists():
        return beside
    if data_dir.is_mount() or not os.access(data_dir.parent, os.W_OK):
        return within
    with suppress(FileNotFoundError):  # there is none, or another process was first
        within.rename(beside)
    return beside


def _generated_key(path: Path) -> bytes:
    """Read the key file, or create it whole: a crash never leaves half a key."""
    if not path.exists():
        draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(48))
            file.flush()
            os.fsync(file.fileno())
        try:
            with suppress(FileExistsError):  # another process was first: then its key serves
                os.link(draft, path)
        finally:
            draft.unlink()
    return path.read_bytes()
