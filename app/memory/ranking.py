"""How well a user's facts answer a message, and which come first: SQL for recall and for search.

Every search is exact, over the (tenant, user) b-tree: a person has hundreds of facts, and an
approximate index filtered to one person gives back too few.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from pgvector import HalfVector

from app.embeddings import Embedder, Vector
from app.text import words
from app.trip import Statement, statement

MAX_WORDS: Final = 200
"""Different words of a message that are searched for: of more, the first and the last ones."""

LIVE: Final = """
superseded_at is null and quarantined_at is null and forgotten_at is null
and (expires_at is null or expires_at > now())
"""

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


def any_of(message: str) -> str:
    """Give a `tsquery` that any word of the message satisfies; empty when it has none."""
    found = list(dict.fromkeys(words(message)))
    if len(found) > MAX_WORDS:
        found = found[: MAX_WORDS // 2] + found[-MAX_WORDS // 2 :]
    return " | ".join("'" + word.replace("'", "''") + "'" for word in found)


@cache
def recall_statement(vectors: int, *, searching: bool) -> Statement:
    """Give the statement for one recall: the rows of all tiers, best first in each.

    Rows: tier, id, text, kind, pinned, created_at, guard_version, is_standing, score, eligible.
    Facts checked by an older guard may turn out unfit, so there are spare rows for them.
    `eligible` counts the tier's own facts, shown or not; those that overflowed the always-on tier
    are its own even where the message matched them.
    """
    # The texts put in are constants of this module; what a caller sends is bound.
    search = f"""
    ), candidate as (
      select * from live
      where id not in (select id from standing where place <= %(max_always_on)s)
    ), {FUSED}
    """  # noqa: S608 - see above
    similarity = """
    union all
    (select 'similarity', id, text, kind, pinned, created_at, guard_version, is_standing, score,
            count(*) filter (where not is_standing) over ()
     from fused order by score desc, created_at, id
     limit %(max_similarity)s + (select spare from counted))
    """
    return statement(f"""
    with live as materialized (
      select id, text, kind, pinned, created_at, last_confirmed_at, confirmations, guard_version,
             source <> 'mcp' and (pinned or kind in ('constraint', 'profile')) as is_standing
             {"," + scores(vectors) if searching else ""}
      from memory_fact
      where tenant_id = %(tenant)s and user_id = %(user_id)s and {LIVE}
    ), counted as (
      select least(count(*) filter (where guard_version < %(guard)s), 20) as spare,
             count(*) filter (where is_standing) as standing
      from live
    ), standing as materialized (
      select *, row_number() over (
                  order by case when pinned then 0 when kind = 'constraint' then 1 else 2 end,
                           created_at, id) as place
      from live where is_standing
      order by place limit %(max_always_on)s + (select spare from counted)
    {search if searching else ")"}
    (select 'organization' as tier, id, text, kind, pinned, created_at, guard_version,
            false as is_standing, null::float8 as score, count(*) over () as eligible
     from memory_fact
     where tenant_id = %(tenant)s and user_id = %(tenant)s and {LIVE}
     order by created_at, id limit 2 * %(max_organization)s)
    union all
    (select 'always_on', id, text, kind, pinned, created_at, guard_version, is_standing, null,
            (select standing from counted) from standing)
    {similarity if searching else ""}
    """)  # noqa: S608 - as above
