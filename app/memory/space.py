"""Whose vectors a user's facts have: the configured embedder's, or still the previous one's.

After a change of model every user has vectors of one of the two, never of both in use: what is
asked, stored and compared for a user goes by the one that `embedder_of` names.
"""

from sqlalchemy import exists, select
from sqlalchemy.ext.asyncio import AsyncSession

from app.db import Scope
from app.embeddings import Embedder, EmbedderError
from app.memory.core import Core
from app.models import Fact


async def embedder_of(tx: AsyncSession, core: Core, scope: Scope) -> Embedder:
    """Give the embedder of a user's facts; under the user's lock it stays so until commit."""
    name = previous_name(core)
    if core.previous is None or name is None:
        return core.embedder
    of_previous = exists().where(
        Fact.tenant_id == scope.tenant_id,
        Fact.user_id == scope.user_id,
        Fact.embedding_model == name,
    )
    return core.previous if await tx.scalar(select(of_previous)) else core.embedder


def previous_name(core: Core) -> str | None:
    """Name the previous embedder's space; None without one, or while its width isn't known."""
    try:
        return core.previous.name if core.previous else None
    except EmbedderError:
        return None


def name_of(core: Core) -> str:
    """Name the configured embedder's space; empty while it isn't known: nothing compares then."""
    try:
        return core.embedder.name
    except EmbedderError:
        return ""


def embedder_named(core: Core, name: str) -> Embedder:
    """Give that of the two embedders whose space it is."""
    if core.previous is not None and name == previous_name(core):
        return core.previous
    return core.embedder
