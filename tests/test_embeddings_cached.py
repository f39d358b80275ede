import asyncio
from collections.abc import Sequence

import numpy as np

from app.embeddings import Cached, EmbedderError, Purpose, Vector
from app.embeddings.seam import State
from tests.scripted_embedder import code_of, using


class Counting:
    """An embedder whose work a test can hold back and break."""

    name = "counting-8"
    dimensions = 8
    recall_floor = 0.1
    neighbour_floor = 0.2
    state: State = "ok"

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.asked_for: list[Purpose] = []
        self.go = asyncio.Event()
        self.go.set()
        self.broken = False

    async def embed(self, texts: Sequence[str], purpose: Purpose = "fact") -> list[Vector]:
        self.asked_for.append(purpose)
        self.calls.append(list(texts))
        await self.go.wait()
        if self.broken:
            raise EmbedderError("unavailable")
        return [np.full(8, sum(map(ord, text)), dtype=np.float32) for text in texts]

    async def warm(self) -> None: ...

    async def aclose(self) -> None: ...


def test_query_asked_twice_is_embedded_once() -> None:
    inner = Counting()

    async def act(cached: Cached) -> tuple[list[Vector], list[Vector]]:
        return await cached.embed(["a", "b", "a"], "query"), await cached.embed(["b"], "query")

    first, second = using(Cached(inner), act)

    assert inner.calls == [["a", "b"]]
    assert [v[0] for v in first] == [97, 98, 97]
    assert [v[0] for v in second] == [98]


def test_only_what_is_unknown_is_asked_for() -> None:
    inner = Counting()

    async def act(cached: Cached) -> None:
        await cached.embed(["a"], "query")
        await cached.embed(["b", "a", "c"], "query")

    using(Cached(inner), act)

    assert inner.calls == [["a"], ["b", "c"]]


def test_facts_pass_by_the_cache() -> None:
    inner = Counting()

    async def act(cached: Cached) -> None:
        await cached.embed(["a"])
        await cached.embed(["a"])
        await cached.embed(["a"], "query")

    using(Cached(inner), act)

    assert inner.calls == [["a"]] * 3
    assert inner.asked_for == ["fact", "fact", "query"]


def test_least_recently_asked_is_forgotten_first() -> None:
    inner = Counting()

    async def act(cached: Cached) -> None:
        for text in ("a", "b", "a", "c", "a", "b"):
            await cached.embed([text], "query")

    using(Cached(inner, entries=2), act)

    assert inner.calls == [["a"], ["b"], ["c"], ["b"]]


def test_what_was_asked_is_forgotten_within_a_minute() -> None:
    inner, clock = Counting(), [0.0]

    async def act(cached: Cached) -> None:
        for clock[0] in (0.0, 59.0, 60.5):
            await cached.embed(["a"], "query")

    using(Cached(inner, timer=lambda: clock[0]), act)

    assert inner.calls == [["a"], ["a"]]


def test_identical_queries_at_once_share_one_computation() -> None:
    inner = Counting()

    async def act(cached: Cached) -> list[list[Vector]]:
        return await asyncio.gather(*(cached.embed(["a", "b"], "query") for _ in range(50)))

    answers = using(Cached(inner), act)

    assert inner.calls == [["a", "b"]]
    assert {tuple(float(v[0]) for v in vectors) for vectors in answers} == {(97, 98)}


def test_caller_that_gives_up_breaks_no_other_and_the_work_is_kept() -> None:
    inner = Counting()

    async def act(cached: Cached) -> list[Vector]:
        inner.go.clear()
        first = asyncio.create_task(cached.embed(["a"], "query"))
        other = asyncio.create_task(cached.embed(["a"], "query"))
        await asyncio.sleep(0.01)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        inner.go.set()
        await cached.embed(["a"], "query")
        return await other

    (vector,) = using(Cached(inner), act)

    assert vector[0] == 97
    assert inner.calls == [["a"]]


def test_failure_reaches_every_caller_and_is_not_kept() -> None:
    inner = Counting()

    async def act(cached: Cached) -> tuple[list[str | None], str | None]:
        inner.broken = True
        codes = await asyncio.gather(*(code_of(cached.embed(["a"], "query")) for _ in range(3)))
        inner.broken = False
        return codes, await code_of(cached.embed(["a"], "query"))

    assert using(Cached(inner), act) == (["unavailable"] * 3, None)
    assert inner.calls == [["a"], ["a"]]
