"""A person's live facts as this process last read them, ready to be ranked without the database.

Recall takes the facts along only when the user's revision has moved since; whoever locks a user's
row to change something moves it. So what the service changed is never served stale, and a person
who is asked about again costs the database one row.
"""

import asyncio
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Final, TypeVar
from uuid import UUID

import numkong
import numpy as np
from cachetools import TTLCache
from numpy.typing import NDArray

from app import models, trip
from app.db import Scope
from app.llm import Kind
from app.memory import guard
from app.memory.render import Tier
from app.memory.selection import CAPS, Row, Stable, choose_stable

T = TypeVar("T")

LIVE: Final = f"{models.LIVE} and (expires_at is null or expires_at > now())"

KEPT_FOR: Final = 60
"""Seconds: an operator's change by hand, which moves no revision, is seen after that."""

MOST_FACTS: Final = 10_000
"""Of a person with more, which only an import or a program can bring about, the always-on ones and
the newest are ranked: reading all of them would take longer than a recall may."""

MOST_SPARE: Final = 20

MANY: Final = 1_000
"""More facts are read and ranked on a thread: others would wait for a tenth of a second."""

# Part of the one statement of a recall: "nothing new" must be answered without touching a fact.
# `offset 0` keeps the planner from reading them first and asking then. A column comes as one value,
# as the bytes that are kept here where it can, and in no order: two hundred rows take this process
# longer to take apart, and Postgres longer to sort, than to read. Who has no facts has nulls.
# Vectors come of one embedder alone: of the previous one as long as the person has any of it.
NEWER: Final = f"""
select p.is_shared, p.revision, p.model, f.*
from (
  select v.*,
         case when %(previous)s::text is not null
             and exists (select from memory_fact m
                         where m.tenant_id = u.tenant_id and m.user_id = v.user_id
                           and m.embedding_model = %(previous)s)
           then %(previous)s else %(model)s::text end as model,
         exists (select from memory_fact m
                 where m.tenant_id = u.tenant_id and m.user_id = v.user_id
                 offset {MOST_FACTS}) as is_large
  from (values
    (false, u.user_id, u.revision, %(known)s::integer, %(until)s::timestamptz),
    (true, o.user_id, o.revision, %(shared)s::integer, %(shared_until)s::timestamptz)
  ) as v (is_shared, user_id, revision, known, until)
  where is_wanted.it and (v.revision <> v.known or now() >= v.until)
  offset 0
) as p
cross join lateral (
  select string_agg(uuid_send(id), ''), array_agg(text), array_agg(kind), array_agg(pinned),
         array_agg(source = 'mcp'), array_agg(guard_version),
         string_agg(timestamptz_send(created_at), ''),
         string_agg(timestamptz_send(last_confirmed_at), ''), array_agg(confirmations),
         min(coalesce(expires_at, 'infinity'))::text,
         min(text) filter (where slot = 'name'),
         array_agg(embedding is not null and embedding_model = p.model),
         string_agg(halfvec_send(embedding), '') filter (where embedding_model = p.model),
         array_agg(array_to_string(tsvector_to_array(words), ' '))
  from memory_fact f
  where tenant_id = u.tenant_id and user_id = p.user_id and {LIVE}
    and (not p.is_large or id in (
      select id from memory_fact m
      where m.tenant_id = u.tenant_id and m.user_id = p.user_id and {LIVE}
      order by pinned desc, kind = 'constraint' desc, kind = 'profile' desc,
        case when pinned or kind in ('constraint', 'profile') then created_at end,
        created_at desc, id
      limit {MOST_FACTS}))
) as f
"""  # noqa: S608 - the text put in is a constant
"""The facts of a user `u` and of the organization `o`, rows of `memory_user`, if `is_wanted.it` and
they are not as `known` says: a row for each of the two."""


@dataclass(slots=True, repr=False, eq=False)
class Mirror:
    """Facts by age, column by column; times in microseconds since 2000, as Postgres counts."""

    revision: int
    until: str
    """When the first of the facts expires: then all are read anew."""
    model: str
    """The embedder whose vectors are here."""
    name: str | None
    """The text of the fact that tells the user's name."""
    ids: Sequence[bytes]
    texts: Sequence[str]
    kinds: Sequence[Kind]
    pinned: Sequence[bool]
    guard_versions: Sequence[int]
    created_at: Sequence[int]
    last_confirmed_at: Sequence[int]
    confirmations: Sequence[int]
    standing: Sequence[int]
    """Places of the facts that are always on, in their order of print."""
    standing_set: frozenset[int]
    printed: frozenset[int]
    """Of those the ones that fit into their tier."""
    spare: int
    """How many more to look at than fit into a tier: some that an older guard let in are unfit."""
    with_vector: Sequence[int]
    """Places of the facts that have a vector."""
    vectors: NDArray[np.float16]
    """One row for each of those."""
    words: "array[int]"
    """Hashes of all words of all facts, in order, beside the place of the fact that has it."""
    owners: "array[int]"
    _rows: dict[tuple[Tier, int], Row] = field(default_factory=dict)
    _stable: tuple["Mirror", Stable] | None = None

    def __len__(self) -> int:
        """Count the facts."""
        return len(self.texts)

    @property
    def size(self) -> int:
        """Estimate the bytes in memory."""
        per_fact = sum(len(text) + 400 for text in self.texts)
        return 12_000 + per_fact + self.vectors.nbytes + 12 * len(self.words)

    def row(self, tier: Tier, place: int) -> Row:
        """Give a fact as a row of a tier."""
        row = self._rows.get((tier, place))
        if row is None:
            row = self._rows[tier, place] = Row(
                tier,
                str(UUID(bytes=self.ids[place])),
                self.texts[place],
                self.kinds[place],
                self.pinned[place],
                self.created_at[place],
                self.guard_versions[place],
                tier != "organization" and place in self.standing_set,
            )
        return row

    def stable(self, shared: "Mirror") -> Stable:
        """Give the part of the block that holds whatever is asked, with the organization's facts.

        Facts checked by an older guard may turn out unfit, so spare ones are looked at too.
        """
        if self._stable is None or self._stable[0] is not shared:
            organization = range(min(len(shared), 2 * CAPS["organization"]))
            standing = self.standing[: CAPS["always_on"] + self.spare]
            rows = [shared.row("organization", place) for place in organization]
            rows += [self.row("always_on", place) for place in standing]
            counts: dict[Tier, int] = {
                "organization": len(shared),
                "always_on": len(self.standing),
            }
            self._stable = shared, choose_stable(rows, counts)
        return self._stable[1]

    def likeness(self, vectors: NDArray[np.float16]) -> list[float]:
        """Give each fact's cosine with the nearest of the vectors; -2 for one without a vector.

        Every fact is compared by itself, so a score doesn't depend on its neighbours.
        """
        if not len(vectors) or not len(self.vectors):
            return [-2.0] * len(self)
        distances = np.empty((len(vectors), len(self.vectors)))
        numkong.cdist(vectors, self.vectors, "angular", out=distances)
        nearest = distances[0] if len(distances) == 1 else distances.min(axis=0)
        near: list[float] = (1 - nearest).tolist()
        if len(near) == len(self):
            return near
        found = [-2.0] * len(self)
        for place, likeness in zip(self.with_vector, near, strict=True):
            found[place] = likeness
        return found

    def common_words(self, wanted: Iterable[int]) -> dict[int, int]:
        """Count how many of these different words, by their hashes, the facts with any have."""
        counts: dict[int, int] = {}
        for word in wanted:
            start = bisect_left(self.words, word)
            for place in self.owners[start : bisect_right(self.words, word, start)]:
                counts[place] = counts.get(place, 0) + 1
        return counts


def known(own: Mirror | None, shared: Mirror | None) -> dict[str, object]:
    """Tell `NEWER` which of a user's facts and of the organization's are here; None for none."""
    return {
        "known": -1 if own is None else own.revision,
        "until": "infinity" if own is None else own.until,
        "shared": -1 if shared is None else shared.revision,
        "shared_until": "infinity" if shared is None else shared.until,
    }


class Mirrors:
    """The mirrors of one process: the latest that fit into so many bytes, none for long."""

    def __init__(self, most_bytes: int) -> None:
        self._kept: TTLCache[UUID, Mirror] = TTLCache(most_bytes, KEPT_FOR, getsizeof=_size)
        self._timer: asyncio.TimerHandle | None = None

    def known(self, user_id: UUID, model: str, previous: str | None = None) -> Mirror | None:
        """Give a user's facts as they were last read here, with vectors of one of the two."""
        try:
            kept = self._kept[user_id]
        except KeyError:
            return None
        return kept if kept.model in {model, previous} else None

    async def learn(
        self, scope: Scope, newer: Sequence[trip.Row], own: Mirror | None, shared: Mirror | None
    ) -> tuple[Mirror, Mirror]:
        """Keep what `NEWER` gave; give the user's and the organization's."""
        for is_shared, *row in newer:
            if is_shared:
                shared = await self._learn(scope.tenant_id, row)
            else:
                own = await self._learn(scope.user_id, row)
        # One without facts is known too, and is falsy.
        return EMPTY if own is None else own, EMPTY if shared is None else shared

    async def _learn(self, user_id: UUID, row: Sequence[Any]) -> Mirror:
        is_large = row[_TEXTS] is not None and len(row[_TEXTS]) > MANY
        mirror = await asyncio.to_thread(_mirror, row) if is_large else _mirror(row)
        if mirror.size <= self._kept.maxsize:
            self._kept[user_id] = mirror
            if self._timer is None:
                self._expire_later()
        return mirror

    def drop(self, user_id: UUID) -> None:
        """Forget a user's facts."""
        self._kept.pop(user_id, None)

    def clear(self) -> None:
        """Forget everybody's facts."""
        self._kept.clear()

    def _expire_later(self) -> None:
        """Let go of what is past its time, though nobody asks."""
        self._timer = asyncio.get_running_loop().call_later(KEPT_FOR / 10, self._expire)

    def _expire(self) -> None:
        self._kept.expire()
        self._timer = None
        if self._kept:
            self._expire_later()


def _size(mirror: Mirror) -> int:
    return mirror.size


_TEXTS: Final = 3
"""Where the texts are in a row of `NEWER` without its first column."""


def _mirror(row: Sequence[Any]) -> Mirror:
    """Put columns of facts, as `NEWER` gives them, in order of age."""
    (revision, model, ids, texts, kinds, pinned, of_model, guards, created, confirmed,
     confirmations, until, name, has_vector, vectors, words) = row  # fmt: skip
    created, confirmed, ids = _times(created), _times(confirmed), ids or b""
    ids = [ids[start : start + 16] for start in range(0, len(ids), 16)]
    order = sorted(range(len(ids)), key=lambda place: (created[place], ids[place]))

    def by_age(column: Sequence[T]) -> list[T]:
        return [column[place] for place in order]

    kinds, pinned, guards = by_age(kinds), by_age(pinned), by_age(guards)
    ranks = list(map(_rank, kinds, pinned, by_age(of_model)))
    always = [place for place, rank in enumerate(ranks) if rank < _NEVER_ON]
    standing = sorted(always, key=ranks.__getitem__)
    ordinal = list(accumulate(has_vector or ()))
    hashes, owners = _index(by_age(words))
    return Mirror(
        revision=revision,
        until=until or "infinity",
        model=model,
        name=name,
        ids=by_age(ids),
        texts=by_age(texts),
        kinds=kinds,
        pinned=pinned,
        guard_versions=guards,
        created_at=by_age(created),
        last_confirmed_at=by_age(confirmed),
        confirmations=by_age(confirmations),
        standing=standing,
        standing_set=frozenset(standing),
        printed=frozenset(standing[: CAPS["always_on"]]),
        spare=min(sum(version < guard.VERSION for version in guards), MOST_SPARE),
        with_vector=[place for place, has in enumerate(by_age(has_vector)) if has],
        vectors=_vectors(vectors, [ordinal[at] - 1 for at in order if has_vector[at]]),
        words=hashes,
        owners=owners,
    )


_NEVER_ON: Final = 3


def _rank(kind: Kind, pinned: bool, of_model: bool) -> int:  # noqa: FBT001 - columns of a row
    """Give the class of a fact that is always on: pinned, constraint, profile, or none."""
    if of_model or not (pinned or kind in {"constraint", "profile"}):
        return _NEVER_ON
    return 0 if pinned else 1 if kind == "constraint" else 2


def _times(sent: bytes | None) -> list[int]:
    times: list[int] = np.frombuffer(sent or b"", ">i8").tolist()
    return times


def _vectors(sent: bytes | None, order: Sequence[int]) -> NDArray[np.float16]:
    """Read vectors as `halfvec_send` writes them: a length, a zero, the numbers, all big-endian."""
    if sent is None:
        return np.empty((0, 0), np.float16)
    numbers = np.frombuffer(sent, ">i2").reshape(len(order), -1)[order, 2:]
    return numbers.astype(np.int16).view(np.float16)


def _index(words: Sequence[str]) -> tuple["array[int]", "array[int]"]:
    own = [found.split() for found in words]
    hashes = np.array([hash(word) for found in own for word in found], np.int64)
    owners = np.repeat(np.arange(len(own), dtype=np.int32), [len(found) for found in own])
    order = hashes.argsort(kind="stable")
    return array("q", hashes[order].tobytes()), array("i", owners[order].tobytes())


EMPTY: Final = _mirror((0, "", *(None,) * 14))
"""Of somebody without facts, or unseen."""
