"""Embedders behind HTTP: any OpenAI-compatible service, and Voyage.

The service is not trusted: an answer is checked number by number before anything is stored, and a
dead service costs a recall nothing once the breaker is open. Neither text nor key is in an error.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import httpx2
import numpy as np
from pydantic_core import from_json

from app.embeddings.seam import (
    NARROWEST,
    WIDEST,
    EmbedderError,
    Floors,
    Gate,
    Purpose,
    State,
    Vector,
    legible,
    unit,
)

FLOORS = Floors(recall=0.20, neighbour=0.30)
"""A cautious guess, as angles differ between models: a fact too many costs a line. Calibrate."""

BATCH = 32
"""Texts a request; reading the answer holds the event loop for some milliseconds."""

BUDGETS: Mapping[Purpose, float] = {"query": 2.0, "fact": 15.0}
"""Seconds for one request, its retry included. Somebody waits for a query, nobody for a fact."""

PAUSE = 0.1
"""Seconds before the one retry."""

CALLS = 32
"""Requests under way at once."""

LARGEST_ANSWER = 8 * 1024 * 1024

HUGE = 1e6
"""No model gives a number beyond it; broken services do."""


class Breaker:
    """Opens after `limit` failures in a row; then one call in `pause` seconds is let through."""

    def __init__(self, limit: int = 3, pause: float = 5.0) -> None:
        self._limit = limit
        self._pause = pause
        self._failures = 0
        self._next_probe = 0.0

    def enter(self) -> None:
        """Raise `EmbedderError` while open. A call let through claims the next pause as its own.

        So a probe that is cancelled needs no cleaning up.
        """
        if self._failures < self._limit:
            return
        now = time.monotonic()
        if now < self._next_probe:
            raise EmbedderError("unavailable")
        self._next_probe = now + self._pause

    def succeeded(self) -> None:
        """The service answered."""
        self._failures = 0

    def failed(self) -> None:
        """The service was down or answered nonsense."""
        self._failures += 1
        self._next_probe = time.monotonic() + self._pause


class OpenAICompatible:
    """`POST {url}/embeddings` as OpenAI defined it and many servers speak it.

    `dimensions` is sent and then required of every answer. Without it the width is learned from
    the first answer; an answer of another width is an error from then on.
    """

    provider = "openai"

    def __init__(
        self,
        *,
        url: str,
        model: str,
        key: str | None = None,
        dimensions: int | None = None,
        floors: Floors = FLOORS,
        budgets: Mapping[Purpose, float] = BUDGETS,
        breaker: Breaker | None = None,
    ) -> None:
        self.recall_floor, self.neighbour_floor = floors.recall, floors.neighbour
        self._url = f"{url.rstrip('/')}/embeddings"
        self._model = model
        self._declared = dimensions
        self._width = dimensions
        self._budgets = budgets
        self._breaker = breaker or Breaker()
        self._state: State = "ok"
        self._gate = Gate(CALLS)
        self._client = httpx2.AsyncClient(
            headers={b"authorization": f"Bearer {key}".encode()} if key else None,
            timeout=None,  # the budget covers the whole request
            limits=httpx2.Limits(max_connections=CALLS, max_keepalive_connections=4),
        )

    @property
    def dimensions(self) -> int:
        """Declared or learned. Raises `EmbedderError` before either."""
        if self._width is None:
            raise EmbedderError("unavailable")
        return self._width

    @property
    def name(self) -> str:
        """Provider, model and width. Raises `EmbedderError` while the width isn't known."""
        return f"{self.provider}:{self._model}-{self.dimensions}"

    @property
    def state(self) -> State:
        """See `Embedder`; what a service said of a text alone tells nothing."""
        return self._state

    async def embed(self, texts: Sequence[str], purpose: Purpose = "fact") -> list[Vector]:
        """See `Embedder`. The time budget is that of each `BATCH` texts."""
        vectors: list[Vector] = []
        with self._gate.enter():
            for start in range(0, len(texts), BATCH):
                batch = [legible(text) for text in texts[start : start + BATCH]]
                vectors += await self._within_budget(batch, purpose)
        return vectors

    async def warm(self) -> None:
        """Open a connection and learn the width."""
        await self.embed(["."])

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _within_budget(self, texts: list[str], purpose: Purpose) -> list[Vector]:
        """Ask, and once more if the service was away, and tell the breaker how it went."""
        self._breaker.enter()
        try:
            async with asyncio.timeout(self._budgets[purpose]):
                try:
                    vectors = await self._ask(texts, purpose)
                except EmbedderError as error:
                    if error.code != "unavailable":
                        raise
                    await asyncio.sleep(PAUSE)
                    vectors = await self._ask(texts, purpose)
        except TimeoutError:
            self._breaker.failed()
            self._state = "degraded"
            raise EmbedderError("unavailable") from None
        except EmbedderError as error:
            if error.code == "rejected":
                self._breaker.succeeded()
                self._state = "ok"
            else:
                self._breaker.failed()
                self._state = "failed" if error.code == "misconfigured" else "degraded"
            raise
        self._breaker.succeeded()
        self._state = "ok"
        return vectors

    async def _ask(self, texts: list[str], purpose: Purpose) -> list[Vector]:
        """Make one request, and learn the width from its answer if nobody declared it."""
        content = await self._post(self._body(texts, purpose))
        vectors = _read(content, len(texts), self._width)
        self._width = len(vectors[0])
        return vectors

    async def _post(self, body: dict[str, Any]) -> bytes:
        """Give the body of a 200, of bounded size."""
        content = bytearray()
        # httpx's errors hold the request, with text and key: not even a context keeps them.
        with suppress(httpx2.HTTPError):
            async with self._client.stream("POST", self._url, json=body) as response:
                _check_status(response.status_code)
                async for chunk in response.aiter_bytes():
                    content += chunk
                    if len(content) > LARGEST_ANSWER:
                        raise EmbedderError("bad_answer")
            return bytes(content)
        raise EmbedderError("unavailable")

    def _body(self, texts: list[str], purpose: Purpose) -> dict[str, Any]:  # noqa: ARG002 - Voyage needs it
        body: dict[str, Any] = {"model": self._model, "input": texts}
        if self._declared is not None:
            body["dimensions"] = self._declared
        return body


class Voyage(OpenAICompatible):
    """Voyage's dialect: it is told whether a text is stored or asked, and names the width anew."""

    provider = "voyage"

    def _body(self, texts: list[str], purpose: Purpose) -> dict[str, Any]:
        kind = "query" if purpose == "query" else "document"
        body: dict[str, Any] = {"model": self._model, "input": texts, "input_type": kind}
        if self._declared is not None:
            body["output_dimension"] = self._declared
        return body


def _check_status(status: int) -> None:
    """Sort what isn't 200 into the codes of `EmbedderError`."""
    if status == httpx2.codes.OK:
        return
    if status in {408, 425, 429} or status >= 500:
        raise EmbedderError("unavailable")
    if status in {400, 413, 422}:
        raise EmbedderError("rejected")
    raise EmbedderError("misconfigured")


def _read(content: bytes, count: int, width: int | None) -> list[Vector]:
    """Turn an answer into `count` vectors of one width, in the order of their indexes."""
    try:
        answer = from_json(content)  # three times faster than json, on the event loop's thread
    except ValueError:
        raise EmbedderError("bad_answer") from None
    data = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(data, list) or len(data) != count:
        raise EmbedderError("bad_answer")
    vectors: dict[int, Vector] = {}
    for item in data:
        index = item.get("index") if isinstance(item, dict) else None
        if type(index) is not int or not 0 <= index < count or index in vectors:
            raise EmbedderError("bad_answer")
        vectors[index] = _vector(item.get("embedding"), width)
        width = len(vectors[index])
    return [vectors[index] for index in range(count)]


def _vector(numbers: object, width: int | None) -> Vector:
    """Check one embedding, element by element: what is stored is compared for years."""
    if (
        not isinstance(numbers, list)
        or not NARROWEST <= len(numbers) <= WIDEST
        or (width is not None and len(numbers) != width)
        or not set(map(type, numbers)) <= {float, int}  # a bool is an int, but not this type
    ):
        raise EmbedderError("bad_answer")
    try:
        wide = np.array(numbers, dtype=np.float64)
    except OverflowError:
        raise EmbedderError("bad_answer") from None
    if not 1 / HUGE <= np.abs(wide).max() <= HUGE:  # NaN is on neither side
        raise EmbedderError("bad_answer")
    return unit(wide)
