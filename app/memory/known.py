"""Which of a user's live facts the extractor is shown, so that what is repeated is confirmed."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from pgvector import HalfVector
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from app.db import Scope
from app.embeddings import EmbedderError, Vector
from app.embeddings.sentences import split
from app.llm import Turn
from app.memory.core import Core
from app.memory.learn import live, load_facts
from app.memory.reconcile import Known
from app.memory.space import embedder_of
from app.models import LIVE, Fact

SHOWN: Final = 50
"""Facts that the extractor is shown; a user with no more is shown all of them."""

NEWEST: Final = 10
"""Of these, facts shown because they are new: what a session goes on about was often said lately,
and may have no vector yet."""

PIECES: Final = 200
"""Texts of a session that are compared, about: a second or two of the local model's work."""

# Every piece has its own order of facts and the best of each come first: of a long talk about one
# thing and a word about another, both find theirs.
_NEAREST = text(
    f"""
    with piece as materialized (
      select n, cast(p as halfvec) as vector
      from unnest(cast(:vectors as text[])) with ordinality as u (p, n)
    ), ranked as (
      select f.id, f.embedding <=> vector as distance,
        row_number() over (partition by n order by f.embedding <=> vector, f.id) as place
      from memory_fact f cross join piece
      where f.tenant_id = :tenant_id and f.user_id = :user_id
        and {LIVE}
        and f.embedding_model = :model
    )
    select id from ranked
    group by id
    order by min(place), min(distance), id
    limit :most
    """  # noqa: S608 - the text put in is a constant
)


async def known_facts(core: Core, scope: Scope, turns: Sequence[Turn]) -> list[Known]:
    """Give the live facts nearest to the session and the newest few, newest first.

    Where nearness can't be told, for want of the embedder or of a fact's vector, the newest take
    the place. Holds no connection while it embeds.
    """
    async with core.db.tenant(scope.tenant_id) as tx:
        newest = await load_facts(tx, scope, live(), newest=SHOWN + 1)
        embedder = await embedder_of(tx, core, scope)
    if len(newest) <= SHOWN:
        return newest
    try:
        vectors = await embedder.embed(_pieces(turns))
    except EmbedderError:
        return newest[:SHOWN]
    async with core.db.tenant(scope.tenant_id) as tx:
        near = await _nearest(tx, scope, vectors, embedder.name)
        first = [fact.id for fact in newest]
        chosen = list(dict.fromkeys([*first[:NEWEST], *near, *first]))[:SHOWN]
        return await load_facts(tx, scope, live(), Fact.id.in_(chosen))


def _pieces(turns: Sequence[Turn]) -> list[str]:
    """Cut the session into its sentences; of very many, some go together."""
    said = [sentence for turn in turns for sentence in split(turn.text)]
    least = sum(len(sentence) + 1 for sentence in said) / PIECES
    pieces = [""]
    for sentence in said:
        if len(pieces[-1]) > least:
            pieces.append("")
        pieces[-1] = f"{pieces[-1]} {sentence}".lstrip()
    return pieces


async def _nearest(
    tx: AsyncSession, scope: Scope, vectors: Sequence[Vector], model: str
) -> list[UUID]:
    rows = await tx.scalars(
        _NEAREST,
        {
            "vectors": [HalfVector(vector).to_text() for vector in vectors],
            "tenant_id": scope.tenant_id,
            "user_id": scope.user_id,
            "model": model,
            "most": SHOWN,
        },
    )
    return list(rows)
