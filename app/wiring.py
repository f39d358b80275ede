"""From settings to a running core: which extractor, which judge, which embedder."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from app.address import Misconfigured, signing_key
from app.claude import Claude
from app.db import Database
from app.embeddings import Embedder, EmbedderError, embedder_from
from app.llm import Extractor, Judge
from app.memory.core import Core
from app.memory.mirror import Mirrors
from app.memory.policy import Policy
from app.rules import RulesExtractor, RulesJudge
from app.settings import Settings
from app.telemetry import logger

log = logger(__name__)


@asynccontextmanager
async def open_core(settings: Settings, url: str) -> AsyncIterator[Core]:
    """Open everything that the verbs work with, for the block's time."""
    db = Database(
        url,
        pool_size=settings.pool_size,
        pool_timeout=settings.pool_timeout.total_seconds(),
        prepared_statements=settings.prepared_statements,
    )
    embedder = build_embedder(settings)
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
            mirrors=Mirrors(settings.recall_cache * 2**20),
        )
        try:
            yield read_by(claude, core) if claude else core
        finally:
            await core.recalls.aclose(db)
    finally:
        await embedder.aclose()
        if claude:
            await claude.aclose()
        await db.close()


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
