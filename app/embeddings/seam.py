"""What callers may expect of any embedder: unit vectors of one named space, or an error.

Nothing here knows a model. Callers treat every `EmbedderError` alike: facts are kept without a
vector and embedded later, recall goes on without its vector arm.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Vector: TypeAlias = NDArray[np.float32]
"""One-dimensional, of unit length, read-only."""

Purpose = Literal["fact", "query"]
"""Some models embed what is stored and what is asked differently."""

LONGEST = 1_000
"""Characters of a text that are read: five times a fact, and about 20 ms of the local model."""

NARROWEST, WIDEST = 8, 1_024
"""Widths that can be stored. Fewer numbers than any model gives are a broken answer."""

State = Literal["ok", "degraded", "failed"]

Code = Literal["unavailable", "misconfigured", "rejected", "bad_answer", "busy", "unreadable"]


class EmbedderError(Exception):
    """No vectors were had. `code` says why, for status and metrics; it never holds text.

    `unavailable`: down, slow or overloaded. `misconfigured`: only an operator can mend it.
    `rejected`: the service won't take these texts. `bad_answer`: not the vectors that were asked
    for. `busy`: too much is being embedded here already. `unreadable`: the local model failed.
    """

    def __init__(self, code: Code) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True, slots=True)
class Floors:
    """Cosines below which a fact is no match: they belong to a model, as its angles do."""

    recall: float
    neighbour: float


class Embedder(Protocol):
    """Turns texts into vectors. Safe to share between the tasks of one event loop."""

    @property
    def name(self) -> str:
        """The space, width included, stored with each vector: `usem3-512`.

        Final after the first success, or `warm`; before it a remote embedder whose width nobody
        declared raises `EmbedderError`.
        """
        ...

    @property
    def dimensions(self) -> int:
        """The width of the vectors; known when `name` is."""
        ...

    @property
    def recall_floor(self) -> float:
        """Cosine to a query below which the vector arm of recall ignores a fact."""
        ...

    @property
    def neighbour_floor(self) -> float:
        """Cosine to a candidate below which a stored fact isn't worth a judge's look."""
        ...

    @property
    def state(self) -> State:
        """How it was when last heard of: `failed` needs an operator, `degraded` passes by itself.

        Nothing is asked for it.
        """
        ...

    async def embed(self, texts: Sequence[str], purpose: Purpose = "fact") -> list[Vector]:
        """Give one vector per text, in order; the same text has the same vector in any company.

        Any string is taken: `legible` says what is read of it. Raises `EmbedderError`.
        """
        ...

    async def warm(self) -> None:
        """Load, or greet the service, so that the first recall needn't. Raises `EmbedderError`."""
        ...

    async def aclose(self) -> None:
        """Give back threads and connections."""
        ...


def legible(text: str) -> str:
    """Make any string fit for a model: bounded, valid Unicode, single spaces, never empty."""
    halves = text[:LONGEST].encode("utf-16-le", "surrogatepass")
    words = halves.decode("utf-16-le", "replace").replace("\0", " ").split()
    return " ".join(words) or "."


def unit(numbers: NDArray[np.floating[Any]]) -> Vector:
    """Scale to unit length; the numbers must be finite and not all zero."""
    wide = np.asarray(numbers, dtype=np.float64)
    vector: Vector = (wide / np.sqrt(wide @ wide)).astype(np.float32)
    vector.flags.writeable = False  # the cache hands one array to many
    return vector


class Gate:
    """Bounds what is under way, so that a flood is turned away at once instead of queued."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._taken = 0

    @contextmanager
    def enter(self, places: int = 1) -> Iterator[None]:
        """Hold places for a while. Raises `EmbedderError` when there are too few."""
        wanted = min(places, self._places)
        if self._taken + wanted > self._places:
            raise EmbedderError("busy")
        self._taken += wanted
        try:
            yield
        finally:
            self._taken -= wanted
