"""How well a user's facts answer a message, and which come first: once in memory, once in SQL.

Recall ranks what this process holds of a person; search filters, also what is no longer live, and
leaves that to Postgres. Both follow one rule, and both are exact: a person has hundreds of facts,
and an approximate index filtered to one person gives back too few.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pgvector import HalfVector

from app.embeddings import Embedder, Vector
from app.memory import guard
from app.memory.mirror import LIVE, Mirror
from app.memory.selection import CAPS, Row
from app.text import words

MAX_WORDS: Final = 200
"""Different words of a message that are searched for: of more, the first and the last ones."""

MOST_SPARE: Final = 20

NAME: Final = f"""
(select f.text from memory_fact f
 where f.tenant_id = u.tenant_id and f.user_id = u.user_id and f.slot = 'name' and {LIVE})
"""  # noqa: S608 - the text put in is a constant
"""The text of the fact that tells the user's name, beside a `memory_user u`."""

# Reciprocal ranks with k = 10. Recency and confirmation only break near ties, and as ranks: a
# clock would change the block from one day to the next. Places go by score and then by age, so
# that nothing depends on how the rows lie on disk.
FUSED: Final = """
matched as (
  select *, row_number() over (order by vector_score desc nulls last, created_at, id) as nearness,
         row_number() over (order by text_score desc, vector_score desc nulls last, created_at, id)
           as wording,
         percent_rank() over (order by last_confirmed_at) as recency,
         percent_rank() over (order by confirmations) as confirmation
  from candidate where vector_score >= %(floor)s or text_score > 0
), fused as (
  select *, case when vector_score >= %(floor)s then 1::float8 / (10 + nearness) else 0 end
         + case when text_score > 0 then 1::float8 / (10 + wording) else 0 end
         + 0.004::float8 * recency + 0.002::float8 * confirmation as score
  from matched
)
"""


def scores(vectors: int) -> str:
    """Give the columns `vector_score` and `text_score` for a message of so many vectors.

    A fact without a vector, or with one of another model, has its words alone. No index can serve
    an ordering by this expression, and none may: see above.
    """
    # `<=>` beside a bare parameter under ORDER BY is what calls an HNSW index; `+ 0` never does.
    near = ", ".join(f"((embedding <=> %(vector_{n})s::halfvec) + 0)" for n in range(vectors))
    vector_score = (
        f"case when embedding_model = %(model)s then 1 - least({near}) end"
        if vectors
        else "null::float8"
    )
    return f"{vector_score} as vector_score, ts_rank(words, %(words)s::tsquery) as text_score"


def values(embedder: Embedder, vectors: Sequence[Vector], message: str) -> dict[str, Any]:
    """Give the values that `scores` and `FUSED` name. Without vectors no embedder is asked."""
    return {
        **{f"vector_{n}": HalfVector(vector) for n, vector in enumerate(vectors)},
        "words": any_of(message),
        "model": embedder.name if vectors else "",
        "floor": embedder.recall_floor,
    }


def distinct_words(message: str) -> list[str]:
    """Give the words of a message that are searched for, each once."""
    found = list(dict.fromkeys(words(message)))
    if len(found) > MAX_WORDS:
        found = found[: MAX_WORDS // 2] + found[-MAX_WORDS // 2 :]
    return found


def any_of(message: str) -> str:
    """Give a `tsquery` that any word of the message satisfies; empty when it has none."""
    return " | ".join("'" + word.replace("'", "''") + "'" for word in distinct_words(message))


class Match(NamedTuple):
    """A fact that answers a message, by its place among the user's facts, and how well it does."""

    place: int
    score: float


def matches(
    facts: Mirror, vectors: Sequence[Vector], message: str, floor: float, among: NDArray[np.bool_]
) -> list[Match]:
    """Rank as `FUSED` does those of the facts that are `among` the candidates; best first."""
    near = facts.likeness(list(vectors))
    common = facts.common_words(distinct_words(message))
    with np.errstate(invalid="ignore"):
        is_near = near >= floor
    places = np.flatnonzero((is_near | (common > 0)) & among)
    if not len(places):
        return []
    likeness, common, is_near = -near[places], common[places], is_near[places]
    nearness = _places(np.argsort(likeness, kind="stable"))  # NaN comes last, as null does
    wording = _places(np.lexsort((likeness, -common)))
    score = (
        np.where(is_near, 1 / (10 + nearness), 0)
        + np.where(common > 0, 1 / (10 + wording), 0)
        + 0.004 * _percent_rank(facts.last_confirmed_at[places])
        + 0.002 * _percent_rank(facts.confirmations[places])
    )
    best = np.argsort(-score, kind="stable")
    return list(map(Match, places[best].tolist(), score[best].tolist()))


def _places(order: NDArray[np.intp]) -> NDArray[np.intp]:
    """Turn an order into each one's place in it, from 1."""
    places = np.empty(len(order), np.intp)
    places[order] = np.arange(1, len(order) + 1)
    return places


def _percent_rank(values: NDArray[Any]) -> NDArray[np.float64]:
    """Give the share of the others that are less, as SQL's `percent_rank()` does."""
    less = np.searchsorted(np.sort(values), values, "left")
    return less / max(len(values) - 1, 1)


def recalled(
    facts: Mirror, shared: Mirror, query: tuple[Sequence[Vector], str, float] | None
) -> list[Row]:
    """Give the rows of all tiers, best first in each, as `selection.select` takes them.

    `query` holds vectors, message and the embedder's floor.

    Facts checked by an older guard may turn out unfit, so there are spare rows for them.
    `eligible` counts the tier's own facts, shown or not; those that overflowed the always-on tier
    are its own even where the message matched them.
    """
    standing = facts.standing
    spare = min(sum(version < guard.VERSION for version in facts.guard_versions), MOST_SPARE)
    found = [
        shared.row("organization", place, len(shared), is_standing=False)
        for place in range(min(len(shared), 2 * CAPS["organization"]))
    ]
    found += [
        facts.row("always_on", place, len(standing), is_standing=True)
        for place in standing[: CAPS["always_on"] + spare]
    ]
    if query is None:
        return found
    among = np.ones(len(facts), np.bool_)
    among[list(standing[: CAPS["always_on"]])] = False
    matched = matches(facts, *query, among=among)
    overflowed = set(standing)
    eligible = sum(match.place not in overflowed for match in matched)
    for place, score in matched[: CAPS["similarity"] + spare]:
        row = facts.row("similarity", place, 0, is_standing=place in overflowed)
        found.append(row._replace(score=score, eligible=eligible))
    return found
