"""From settings to a running core: which extractor, which judge, which embedder."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import psycopg
from psycopg_pool import PoolTimeout

from app.address import Misconfigured, ledger_path, signing_key
from app.claude import Claude
from app.db import Database
from app.embeddings import Embedder, EmbedderError, embedder_from
from app.llm import Extractor, Judge
from app.memory import erasures
from app.memory.core import LOCAL_URL, Core
from app.memory.ledger import Ledger
from app.memory.mirror import Mirrors
from app.memory.policy import Policy
from app.rules import RulesExtractor, RulesJudge
from app.settings import Settings
from app.telemetry import logger

log = logger(__name__)


@asynccontextmanager
async def open_core(settings: Settings, url: str, *, warm: bool = True) -> AsyncIterator[Core]:
    """Open everything that the verbs work with, for the block's time.

    Without `warm` the embedder is loaded when it is first asked, which takes seconds.
    """
    db = Database(
        url,
        pool_size=settings.pool_size,
        pool_timeout=settings.pool_timeout.total_seconds(),
        prepared_statements=settings.prepared_statements,
    )
    ledger = _ledger(settings)
    embedder, previous = build_embedder(settings), _previous_embedder(settings)
    claude = _claude(settings)
    try:
        await db.open()
        try:
            for each in (embedder, previous) if warm else ():
                if each is not None:
                    await each.warm()
        except EmbedderError as error:
            log.warning("embedder_unavailable", code=error.code)
        core = Core(
            db=db,
            extractor=RulesExtractor(),
            judge=RulesJudge(),
            embedder=embedder,
            previous=previous,
            signing_key=signing_key(settings),
            recall_deadline=settings.recall_deadline.total_seconds(),
            ledger=ledger,
            backup_retention=settings.backup_retention,
            public_url=(settings.public_url or LOCAL_URL).rstrip("/"),
            mirrors=Mirrors(settings.recall_cache * 2**20),
        )
        await _check_ledger(core)
        watching = asyncio.create_task(erasures.watch(core), name="ledger")
        try:
            yield read_by(claude, core) if claude else core
        finally:
            watching.cancel()
            await asyncio.wait({watching})  # or it would look into connections that are closed
            await core.recalls.aclose(db)
    finally:
        await embedder.aclose()
        if previous:
            await previous.aclose()
        if claude:
            await claude.aclose()
        await db.close()


def _ledger(settings: Settings) -> Ledger | None:
    """Open the configured ledger. Raises `Misconfigured`: without it nobody may be served."""
    path = ledger_path(settings)
    if path is None:
        log.warning("no_erasure_ledger")
        return None
    data_dir = settings.data_dir.expanduser().resolve()
    if settings.database_url is None and path.resolve().is_relative_to(data_dir):
        log.warning("ledger_within_data_dir")  # a copy of the folder takes it along
    try:
        return Ledger(path)
    except OSError as error:
        raise Misconfigured(
            f"The erasure ledger {path} can't be written ({error.strerror}): mend that or set "
            "USERMEM_ERASURE_LEDGER to another file."
        ) from None


async def _check_ledger(core: Core) -> None:
    """Look at once whether erasures are missing; on trouble the first request looks again."""
    try:
        await erasures.check(core)
    except (psycopg.Error, PoolTimeout) as error:
        log.warning("ledger_not_checked", error=type(error).__name__)


def build_embedder(settings: Settings) -> Embedder:
    """Give the configured embedder; nothing is loaded or asked yet."""
    key = settings.embeddings_api_key
    return embedder_from(
        settings.embedder,
        url=settings.embeddings_url,
        model=settings.embeddings_model,
        key=key.get_secret_value() if key else None,
        floor=settings.embeddings_floor,
    )


def _previous_embedder(settings: Settings) -> Embedder | None:
    if settings.previous_embedder is None:
        return None
    key = settings.previous_embeddings_api_key
    return embedder_from(
        settings.previous_embedder,
        url=settings.previous_embeddings_url,
        model=settings.previous_embeddings_model,
        key=key.get_secret_value() if key else None,
        floor=settings.previous_embeddings_floor,
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
