"""A bounded memory of query vectors, so that a message asked twice is embedded once.

Facts pass through: each is embedded once and kept in the database.
"""

import asyncio
import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from cachetools import TTLCache

from app.embeddings.seam import Embedder, Purpose, State, Vector, legible

Key = bytes

FORGOTTEN_AFTER: Final = 60.0
"""Seconds: what a person asked outlives the person's erasure here by no more than that."""


class Cached:
    """An embedder that remembers the latest `entries` query texts for a minute, by hash alone.

    Texts that are being embedded are waited for, not embedded again. The work belongs to nobody:
    a caller that gives up breaks no other, and what it asked for is kept for the next. Failures
    aren't kept.
    """

    def __init__(
        self,
        embedder: Embedder,
        *,
        entries: int = 1_024,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._embedder = embedder
        self._kept: TTLCache[Key, Vector] = TTLCache(entries, FORGOTTEN_AFTER, timer)
        self._under_way: dict[Key, asyncio.Task[Mapping[Key, Vector]]] = {}

    @property
    def name(self) -> str:
        """The space of the embedder behind it."""
        return self._embedder.name

    @property
    def dimensions(self) -> int:
        """The width of the embedder behind it."""
        return self._embedder.dimensions

    @property
    def recall_floor(self) -> float:
        """The floor of the embedder behind it."""
        return self._embedder.recall_floor

    @property
    def neighbour_floor(self) -> float:
        """The floor of the embedder behind it."""
        return self._embedder.neighbour_floor

    @property
    def state(self) -> State:
        """The state of the embedder behind it."""
        return self._embedder.state

    async def embed(self, texts: Sequence[str], purpose: Purpose = "fact") -> list[Vector]:
        """See `Embedder`; what isn't known or under way is asked for in one call."""
        if purpose == "fact":
            return await self._embedder.embed(texts, purpose)
        wanted = {_key(text): text for text in texts}
        found = {key: kept for key in wanted if (kept := self._kept.get(key)) is not None}
        missing = {
            key: text
            for key, text in wanted.items()
            if key not in found and key not in self._under_way
        }
        if missing:
            task = asyncio.create_task(self._fetch(missing))
            self._under_way.update(dict.fromkeys(missing, task))
            task.add_done_callback(self._settle)
        for task in {self._under_way[key] for key in wanted if key not in found}:
            found.update(await asyncio.shield(task))
        return [found[_key(text)] for text in texts]

    async def warm(self) -> None:
        """Warm the embedder behind it."""
        await self._embedder.warm()

    async def aclose(self) -> None:
        """Stop what is under way and close the embedder behind it."""
        for task in set(self._under_way.values()):
            task.cancel()
        await self._embedder.aclose()

    async def _fetch(self, missing: Mapping[Key, str]) -> Mapping[Key, Vector]:
        vectors = await self._embedder.embed(list(missing.values()), "query")
        fetched = dict(zip(missing, vectors, strict=True))
        self._kept.update(fetched)
        return fetched

    def _settle(self, done: asyncio.Task[Mapping[Key, Vector]]) -> None:
        """Forget a finished task, even one cancelled before it began."""
        self._under_way = {key: task for key, task in self._under_way.items() if task is not done}
        if not done.cancelled():
            done.exception()  # looked at, or asyncio would report one that nobody waited for


def _key(text: str) -> Key:
    return hashlib.blake2b(legible(text).encode(), digest_size=16).digest()
