"""The embedding model changes, to another width, while people are remembered and asked about."""

import zlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from app.db import Scope
from app.embeddings import Vector
from app.embeddings.seam import Purpose, State, unit
from app.memory.mirror import Mirrors
from app.memory.reembed import AT_ONCE, count_old, reembed_user
from app.text import words
from tests.fakes import reading
from tests.planting import Planted, plant
from tests.world import Caller

FACTS = 2 * AT_ONCE + 50


class Killed(BaseException):
    """The process is gone."""


class Hashed:
    """A model whose vectors hold the words of a text, in a space of its own."""

    recall_floor = neighbour_floor = 0.3
    state: State = "ok"

    def __init__(self, name: str, dimensions: int) -> None:
        self.name, self.dimensions = f"{name}-{dimensions}", dimensions
        self.embedded: list[str] = []
        self.dies_at: int | None = None

    async def embed(self, texts: Sequence[str], purpose: Purpose = "fact") -> list[Vector]:
        if self.dies_at is not None and len(self.embedded) >= self.dies_at:
            raise Killed
        if purpose == "fact":
            self.embedded += texts
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> Vector:
        numbers = np.full(self.dimensions, 1e-3)
        for word in words(text):
            numbers[zlib.crc32(f"{self.name} {word}".encode()) % self.dimensions] += 1
        return unit(numbers)

    async def warm(self) -> None: ...

    async def aclose(self) -> None: ...


def models(caller: Caller) -> set[str]:
    query = "select distinct embedding_model from memory_fact where tenant_id = %s"
    return {model for (model,) in caller.world.rows(query, caller.tenant_id)}


async def scope_of(caller: Caller) -> Scope:
    rows = caller.world.rows(
        "select user_id from user_directory where tenant_id = %s and external_id = %s",
        caller.tenant_id,
        caller.user,
    )
    return Scope(caller.tenant_id, rows[0][0])


def relevant(block: str) -> str:
    return block.partition("Relevant now:")[2]


async def test_a_change_of_model_cut_off_twice_embeds_each_fact_once_and_mixes_nothing(alice):
    old, new = Hashed("old", 64), Hashed("new", 128)
    before = replace(reading(alice.world.core, embedder=old), mirrors=Mirrors(2**20))
    after = replace(before, embedder=new, previous=old, mirrors=Mirrors(2**20))
    texts = [f"Likes animal{n} best." for n in range(FACTS)]
    vectors = await old.embed(texts)
    facts = [
        Planted(text, vector=v, model=old.name) for text, v in zip(texts, vectors, strict=True)
    ]
    plant(alice, *facts)
    assert models(alice) == {"old-64"}
    scope = await scope_of(alice)
    counted: list[int] = []

    async with alice.world.over(after) as world:
        here = Caller(world, alice.tenant_id, alice.key)
        for limit in (AT_ONCE, 2 * AT_ONCE):
            new.dies_at = limit
            with pytest.raises(Killed):
                await reembed_user(after, scope, counted.append)
            new.dies_at = None
            assert models(alice) == {"old-64"}
            assert "animal77 " in relevant(await here.block("animal77"))
            found = await here.post("/search", {"query": "animal77", "limit": 1})
            assert found.json()["items"][0]["vector_score"] > 0.3
        written = await here.post("/facts", {"text": "Likes birds best.", "kind": "preference"})
        assert written.status_code == 201
        assert models(alice) == {"old-64"}

        await reembed_user(after, scope, counted.append)

        assert models(alice) == {"new-128"}
        assert "animal77 " in relevant(await here.block("animal77"))
        assert "birds" in relevant(await here.block("birds"))
        found = await here.post("/search", {"query": "animal77", "limit": 1})
        assert found.json()["items"][0]["vector_score"] > 0.3
        await here.post("/facts", {"text": "Likes fish best.", "kind": "preference"})
        assert models(alice) == {"new-128"}

    assert counted == [FACTS + 1]
    assert sorted(new.embedded) == sorted({*new.embedded})
    assert alice.world.rows("select count(*) from new_vector") == [(0,)]


async def test_a_fact_erased_while_its_vector_is_made_stays_erased(alice):
    old = Hashed("old", 64)
    before = reading(alice.world.core, embedder=old)
    async with alice.world.over(before) as world:
        here = Caller(world, alice.tenant_id, alice.key)
        await here.post("/facts", {"text": "Likes green tea best.", "kind": "preference"})
        [fact] = await here.facts()
    scope = await scope_of(alice)

    class Meanwhile(Hashed):
        async def embed(self, texts: Sequence[str], purpose: Purpose = "fact") -> list[Vector]:
            assert (await alice.delete(f"/facts/{fact['id']}")).status_code == 204
            return await super().embed(texts, purpose)

    meanwhile = Meanwhile("new", 128)
    await reembed_user(replace(before, embedder=meanwhile, previous=old), scope, lambda _: None)

    assert await alice.texts("all") == []
    assert meanwhile.embedded == [fact["text"]]


async def test_old_facts_of_another_width_can_be_edited_superseded_and_erased(alice):
    before = reading(alice.world.core, embedder=Hashed("old", 64))
    async with alice.world.over(before) as world:
        here = Caller(world, alice.tenant_id, alice.key)
        for text in ("Lives in Lisbon.", "Prefers window seats."):
            assert (await here.post("/facts", {"text": text, "kind": "profile"})).status_code == 201
    after = replace(before, embedder=Hashed("new", 128), mirrors=Mirrors(0))
    assert await count_old(after) >= 2
    async with alice.world.over(after) as world:
        here = Caller(world, alice.tenant_id, alice.key)
        home, seat = sorted(await here.facts(), key=lambda fact: fact["text"])
        tag = {"If-Match": f'"{seat["revision"]}"'}
        path = f"{here.base}/facts/{seat['id']}"
        changed = await here.call("PATCH", path, json={"text": "Prefers aisles."}, headers=tag)
        assert changed.status_code == 200, changed.text
        await here.say("Actually, I moved to Porto.")
        assert "Porto" in await here.block("Porto")
        assert (await here.delete(f"/facts/{home['id']}")).status_code in {204, 404}
        assert (await here.delete("")).status_code == 200
        assert await here.texts("all") == []
