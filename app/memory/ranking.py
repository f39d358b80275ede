"""How well a user's facts answer a message, and which come first: once in memory, once in SQL.

Recall ranks what this process holds of a person; search filters, also what is no longer live, and
leaves that to Postgres. Both follow one rule, and both are exact: a person has hundreds of facts,
and an approximate index filtered to one person gives back too few.
"""

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pgvector import HalfVector

from app.embeddings import Embedder, Vector
from app.memory.mirror import Mirror
from app.memory.selection import CAPS, Similar
from app.text import words

MAX_WORDS: Final = 200
"""Different words of a message that are searched for: of more, the first and the last ones."""

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


class Asked(NamedTuple):
    """A message as the facts in memory are held against it: no text of it is left."""

    vectors: NDArray[np.float16]
    """One row for the message and each of its sentences; none where there is no embedding."""
    words: Sequence[int]
    """Hashes of its different words."""


def asked(vectors: Sequence[Vector], message: str) -> Asked:
    """Give a message as `similar` takes it; vectors rounded as Postgres keeps those of facts."""
    halves = np.array(vectors, np.float16) if vectors else np.empty((0, 0), np.float16)
    return Asked(halves, [hash(word) for word in distinct_words(message)])


def similar(facts: Mirror, message: Asked, floor: float) -> Similar:
    """Give what a message finds beside what is printed anyway; `floor` is the embedder's.

    Facts that overflowed the always-on tier belong to that one, even where the message finds them.
    In plain Python: few facts match, and a call into numpy takes longer than one of them.
    """
    near = facts.likeness(message.vectors)
    common = facts.common_words(message.words)
    matched = [place for place, likeness in enumerate(near) if likeness >= floor]
    places = sorted({*matched, *common} - facts.printed)
    scores = _fused(places, near, set(matched), common)
    wanted = CAPS["similarity"] + facts.spare
    best = _mildly(places, scores, wanted, facts)
    rows = [facts.row("similarity", place) for place in best]
    return Similar(
        rows,
        {row.id: scores[place] for row, place in zip(rows, best, strict=True)},
        len(places) - len(facts.standing_set.intersection(places)),
    )


def _fused(
    places: Sequence[int],
    near: Sequence[float],
    matched: Collection[int],
    common: Mapping[int, int],
) -> dict[int, float]:
    """Give the reciprocal ranks of these places, which go by age, in `FUSED`."""
    scores = dict.fromkeys(places, 0.0)
    by_nearness = sorted(places, key=near.__getitem__, reverse=True)
    for rank, place in enumerate([place for place in by_nearness if place in matched], 11):
        scores[place] = 1 / rank
    worded = [place for place in by_nearness if place in common]
    for rank, place in enumerate(sorted(worded, key=common.__getitem__, reverse=True), 11):
        scores[place] += 1 / rank
    return scores


def _mildly(
    places: Sequence[int], scores: dict[int, float], wanted: int, facts: Mirror
) -> list[int]:
    """Add what recency and confirmation weigh, and give the best, best first.

    Only to those who could still be among them.
    """
    contenders = places
    if len(places) > wanted:
        least = sorted(scores.values(), reverse=True)[wanted - 1] - _MILD
        contenders = [place for place in places if scores[place] > least]
    others = max(len(places) - 1, 1)
    for weight, values in ((0.004, facts.last_confirmed_at), (0.002, facts.confirmations)):
        in_order = sorted([values[place] for place in places])
        for place in contenders:
            # The share of the others that are less, as SQL's `percent_rank()` does.
            scores[place] += weight * (bisect_left(in_order, values[place]) / others)
    return sorted(contenders, key=scores.__getitem__, reverse=True)[:wanted]


_MILD: Final = 0.0061
"""A little more than recency and confirmation can weigh together."""
