"""From settings to a running core: which database, which extractor, which embedder, which key."""

import os
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from app.claude import Claude
from app.db import Database
from app.embedded import EmbeddedPostgres
from app.embeddings import Embedder, EmbedderError, embedder_from
from app.errors import UsermemError
from app.llm import Extractor, Judge
from app.memory.core import Core
from app.memory.policy import Policy
from app.rules import RulesExtractor, RulesJudge
from app.settings import Settings
from app.telemetry import logger

log = logger(__name__)

_SIGNING_KEY_FILE: Final = "signing-key"


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


def _generated_key(path: Path) -> bytes:
    """Read the key file, or create it whole: a crash never leaves half a key."""
    if not path.exists():
        draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(48))
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, path)  # fails if another process was first: then its key serves
        except FileExistsError:
            pass
        finally:
            draft.unlink()
    return path.read_bytes()


@asynccontextmanager
async def open_core(settings: Settings, url: str) -> AsyncIterator[Core]:
    """Open everything that the verbs work with, for the block's time."""
    db = Database(
        url,
        pool_size=settings.pool_size,
        pool_timeout=settings.pool_timeout.total_seconds(),
        prepared_statements=settings.prepared_statements,
    )
    embedder = _embedder(settings)
    claude = _claude(settings)
    try:
        await db.open()
        try:
            await embedder.warm()
        except EmbedderError as error:
            log.warning("embedder_unavailable", code=error.code)
        core = Core(
            db=db,
            extractor=RulesExtractor(),
            judge=RulesJudge(),
            embedder=embedder,
            signing_key=signing_key(settings),
            recall_deadline=settings.recall_deadline.total_seconds(),
        )
        yield read_by(claude, core) if claude else core
    finally:
        await embedder.aclose()
        if claude:
            await claude.aclose()
        await db.close()


def _embedder(settings: Settings) -> Embedder:
    key = settings.embeddings_api_key
    return embedder_from(
        settings.embedder,
        url=settings.embeddings_url,
        model=settings.embeddings_model,
        key=key.get_secret_value() if key else None,
        floor=settings.embeddings_floor,
    )


def read_by(claude: Claude, core: Core) -> Core:
    """Give the same core, but that Claude reads the conversations and judges the facts."""

    def readers(policy: Policy) -> tuple[Extractor, Judge]:
        named = policy.model, policy.prompt_version
        return claude.extractor(*named), claude.judge(*named)

    return replace(
        core,
        extractor=claude.extractor(),
        judge=claude.judge(),
        readers=readers,
        model_state=lambda: claude.state,
    )


def _claude(settings: Settings) -> Claude | None:
    """Build the model's side, unless the rules are asked for or there is no key."""
    key = settings.anthropic_api_key
    if settings.extractor == "rules" or (settings.extractor == "auto" and key is None):
        return None
    if key is None:
        raise Misconfigured("USERMEM_EXTRACTOR=claude needs USERMEM_ANTHROPIC_API_KEY.")
    return Claude(
        key.get_secret_value(),
        settings.anthropic_base_url,
        model=settings.model,
        timeout=settings.model_timeout.total_seconds(),
    )
