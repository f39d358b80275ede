"""A person's live facts as this process last read them, ready to be ranked without the database.

Recall takes the facts along only when the user's revision has moved since; whoever locks a user's
row to change something moves it. So a mirror is never served stale, and a person who is asked
about again costs the database one row.
"""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

import numpy as np
from cachetools import TTLCache
from numpy.typing import NDArray

from app import trip
from app.db import Scope
from app.embeddings import Vector
from app.llm import Kind
from app.memory.render import Tier
from app.memory.selection import Row

LIVE: Final = """
superseded_at is null and quarantined_at is null and forgotten_at is null
and (expires_at is null or expires_at > now())
"""

KEPT_FOR: Final = 60
"""Seconds: an operator's change by hand, which moves no revision, is seen after that."""

_CHUNK: Final = 256
"""Rows widened at a time: half a megabyte stays in the processor's cache."""

# In the one trip of a recall, so it must answer "nothing new" without touching a fact. Columns are
# sent as the blobs that they are kept as: one row of twelve is read ten times faster than hundreds.
# Vectors come of one embedder alone: of the previous one as long as the person has any of it.
_NEWER: Final = trip.statement(f"""
select u.revision, s.model, f.* from memory_user u cross join lateral (
  select case when %(previous)s::text is not null
      and exists (select from memory_fact p
                  where p.tenant_id = u.tenant_id and p.user_id = u.user_id
                    and p.embedding_model = %(previous)s)
    then %(previous)s else %(model)s::text end as model
) as s cross join lateral (
  select coalesce(string_agg(uuid_send(id), ''), ''), coalesce(array_agg(text), '{{}}'),
         coalesce(array_agg(kind), '{{}}'), coalesce(array_agg(pinned), '{{}}'),
         coalesce(array_agg(source = 'mcp'), '{{}}'), coalesce(array_agg(guard_version), '{{}}'),
         coalesce(string_agg(timestamptz_send(created_at), ''), ''),
         coalesce(string_agg(timestamptz_send(last_confirmed_at), ''), ''),
         coalesce(string_agg(timestamptz_send(coalesce(expires_at, 'infinity')), ''), ''),
         coalesce(array_agg(confirmations), '{{}}'),
         coalesce(array_agg(coalesce(embedding_model = s.model, false)), '{{}}'),
         string_agg(halfvec_send(embedding), '') filter (where embedding_model = s.model),
         coalesce(string_agg(array_to_string(tsvector_to_array(words), ' '), E'\\n'), '')
  from (select * from memory_fact m
        where m.tenant_id = u.tenant_id and m.user_id = u.user_id and {LIVE}
        order by created_at, id) as live
) as f
where u.tenant_id = %(tenant)s and u.user_id = %(user_id)s and u.revision <> %(known)s::integer
""")  # noqa: S608 - the text put in is a constant


@dataclass(frozen=True, slots=True, repr=False)
class Mirror:
    """Facts by age, column by column; times in microseconds since 2000, as Postgres counts."""

    revision: int
    model: str
    """The embedder whose vectors are here."""
    ids: bytes
    texts: list[str]
    kinds: list[Kind]
    pinned: NDArray[np.bool_]
    standing: NDArray[np.intp]
    """Places of the facts that are always on, in their order of print."""
    guard_versions: NDArray[np.int32]
    created_at: NDArray[np.int64]
    last_confirmed_at: NDArray[np.int64]
    expires_at: NDArray[np.int64]
    confirmations: NDArray[np.int32]
    has_vector: NDArray[np.bool_]
    halves: NDArray[np.int16]
    """The bits of the vectors' half-precision numbers, one row a fact that has one."""
    norms: NDArray[np.float32]
    words: NDArray[np.int64]
    """Hashes of all words of all facts, in order, beside the place of the fact that has it."""
    owners: NDArray[np.int32]

    def __len__(self) -> int:
        """Count the facts."""
        return len(self.texts)

    @property
    def size(self) -> int:
        """Estimate the bytes in memory."""
        per_fact = sum(len(text) + 160 for text in self.texts)
        return 2_000 + per_fact + self.halves.nbytes + self.words.nbytes + self.owners.nbytes

    def row(
        self,
        tier: Tier,
        place: int,
        eligible: int,
        *,
        is_standing: bool = False,
        score: float | None = None,
    ) -> Row:
        """Give a fact as a row of a tier."""
        digits = self.ids[16 * place : 16 * place + 16].hex()
        return Row(
            tier,
            f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}",
            self.texts[place],
            self.kinds[place],
            bool(self.pinned[place]),
            int(self.created_at[place]),
            int(self.guard_versions[place]),
            is_standing,
            score,
            eligible,
        )

    def likeness(self, vectors: list[Vector]) -> NDArray[np.float64]:
        """Give each fact's cosine with the nearest of the vectors; NaN for one without a vector.

        Every fact is compared by itself, so a score doesn't depend on its neighbours.
        """
        found = np.full(len(self), np.nan)
        if not vectors or not len(self.halves):
            return found
        asked = [_as_stored(vector) for vector in vectors]
        near = np.empty(len(self.halves), np.float32)
        for start in range(0, len(self.halves), _CHUNK):
            wide = _widened(self.halves[start : start + _CHUNK])
            scores = [np.vecdot(wide, vector) for vector in asked]
            near[start : start + _CHUNK] = scores[0] if len(scores) == 1 else np.max(scores, axis=0)
        found[self.has_vector] = near / self.norms
        return found

    def common_words(self, words: list[str]) -> NDArray[np.intp]:
        """Count how many of these different words each fact has."""
        wanted = np.array([hash(word) for word in words], np.int64)
        starts = np.searchsorted(self.words, wanted, "left")
        ends = np.searchsorted(self.words, wanted, "right")
        hits = [self.owners[a:b] for a, b in zip(starts, ends, strict=True) if a < b]
        if not hits:
            return np.zeros(len(self), np.intp)
        return np.bincount(np.concatenate(hits), minlength=len(self))


def _as_stored(vector: Vector) -> NDArray[np.float32]:
    """Give a message's vector as Postgres would compare it: rounded as the facts' are, unit again.

    So recall and search agree to the last place.
    """
    rounded = vector.astype(np.float16).astype(np.float32)
    return rounded / np.linalg.norm(rounded)


def _widened(halves: NDArray[np.int16]) -> NDArray[np.float32]:
    """Give half-precision numbers in single precision, exactly, from their bits.

    numpy converts them one by one; shifting all into a wider number's place is five times faster.
    The exponent is then short by 112, which one multiplication mends, for the smallest ones too.
    """
    bits = halves.astype(np.int32)
    np.left_shift(bits, 13, out=bits)
    np.bitwise_and(bits, np.int32(-0x70002000), out=bits)
    wide = bits.view(np.float32)
    return np.multiply(wide, np.float32(2.0**112), out=wide)


def newer_than(
    known: Mirror | None, scope: Scope, model: str, previous: str | None = None
) -> trip.Call:
    """Give what asks the database for a user's facts: no row if they are those of `known`.

    Of vectors those of the previous embedder come along where there are any, else of `model`.
    """
    revision = known.revision if known else -1
    values = {"tenant": scope.tenant_id, "user_id": scope.user_id}
    return _NEWER, {**values, "model": model, "previous": previous, "known": revision}


class Mirrors:
    """The mirrors of one process: the latest that fit into so many bytes, none for long."""

    def __init__(self, most_bytes: int) -> None:
        self._kept: TTLCache[UUID, Mirror] = TTLCache(most_bytes, KEPT_FOR, getsizeof=_size)

    def known(self, user_id: UUID, model: str, previous: str | None = None) -> Mirror | None:
        """Give a user's facts as they were last read here, with vectors of one of the two."""
        kept = self._kept.get(user_id)
        return kept if kept is not None and kept.model in {model, previous} else None

    def learn(self, user_id: UUID, newer: trip.Row) -> Mirror:
        """Keep what the answer to `newer_than` says, and give it."""
        mirror = _mirror(newer)
        if mirror.size <= self._kept.maxsize:
            self._kept[user_id] = mirror
        return mirror

    def drop(self, user_id: UUID) -> None:
        """Forget a user's facts."""
        self._kept.pop(user_id, None)


def _size(mirror: Mirror) -> int:
    return mirror.size


def _mirror(row: trip.Row) -> Mirror:
    (revision, model, ids, texts, kinds, pinned, is_model, guards, created, confirmed, expires,
     confirmations, has_vector, embeddings, words) = row  # fmt: skip
    is_pinned = np.array(pinned, np.bool_)
    order = [
        (0 if pin else 1 if kind == "constraint" else 2)
        if not is_mcp and (pin or kind in {"constraint", "profile"})
        else 3
        for pin, kind, is_mcp in zip(pinned, kinds, is_model, strict=True)
    ]
    places = np.argsort(np.array(order, np.int8), kind="stable")
    halves = _halves(embeddings, sum(has_vector))
    hashes, owners = _index(words, len(texts))
    return Mirror(
        revision=revision,
        model=model,
        ids=ids,
        texts=texts,
        kinds=kinds,
        pinned=is_pinned,
        standing=places[: sum(place < 3 for place in order)],
        guard_versions=np.array(guards, np.int32),
        created_at=_times(created),
        last_confirmed_at=_times(confirmed),
        expires_at=_times(expires),
        confirmations=np.array(confirmations, np.int32),
        has_vector=np.array(has_vector, np.bool_),
        halves=halves,
        norms=np.array([np.linalg.norm(_widened(half)) for half in halves], np.float32),
        words=hashes,
        owners=owners,
    )


def _times(sent: bytes) -> NDArray[np.int64]:
    return np.frombuffer(sent, ">i8").astype(np.int64)


def _halves(sent: bytes | None, count: int) -> NDArray[np.int16]:
    """Read vectors as `halfvec_send` writes them: a length, a zero, the numbers, all big-endian."""
    if not sent:
        return np.empty((0, 0), np.int16)
    return np.frombuffer(sent, ">i2").reshape(count, -1)[:, 2:].astype(np.int16)


def _index(lines: str, count: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    own = [line.split() for line in lines.split("\n")] if count else []
    hashes = np.array([hash(word) for found in own for word in found], np.int64)
    owners = np.repeat(np.arange(count, dtype=np.int32), [len(found) for found in own])
    order = np.argsort(hashes, kind="stable")
    return hashes[order], owners[order]


EMPTY: Final = _mirror((0, "", b"", [], [], [], [], [], b"", b"", b"", [], [], None, ""))
"""Of somebody without facts, or unseen."""
