import asyncio
import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.embeddings import EmbedderError, Local, load_examples
from app.embeddings import encoder as program
from app.embeddings.child import UNREADABLE
from tests.scripted_embedder import chain, code_of, using

FACTS = list(load_examples().facts.values())
SAID = "words that must not be seen"


@pytest.fixture(scope="module")
def local() -> Iterator[Local]:
    """One process for the tests that leave it as it was."""
    embedder = Local()
    yield embedder
    asyncio.run(embedder.aclose())


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


def test_process_that_hangs_is_given_up_and_replaced() -> None:
    async def act(embedder: Local) -> tuple[list[str | None], str | None, int]:
        await embedder.warm()
        hung = process_of(embedder)
        os.kill(hung, signal.SIGSTOP)
        started = time.monotonic()
        texts = [code_of(embedder.embed([fact], "query")) for fact in FACTS[:5]]
        codes = list(await asyncio.wait_for(asyncio.gather(*texts), 20))
        assert time.monotonic() - started < 15
        return codes, await code_of(embedder.embed(["hi"])), hung

    embedder = Local(pause=0, patience=10)
    codes, after, hung = using(embedder, act)

    assert codes == ["unavailable"] * 5
    assert after is None
    assert not is_running(hung)


def test_process_that_is_asked_all_the_time_is_given_up_all_the_same() -> None:
    silent = [sys.executable, "-c", "import sys; sys.stdin.buffer.read()"]

    async def act(embedder: Local) -> list[str | None]:
        work = []
        for _ in range(20):
            work.append(asyncio.create_task(code_of(embedder.embed(["hi"]))))
            await asyncio.sleep(0.05)
        return [task.result() for task in work if task.done()]

    codes = using(Local(encoder=silent, pause=60, patience=0.5), act)

    assert len(codes) >= 10
    assert set(codes) == {"unavailable"}


def test_state_is_degraded_from_the_death_of_the_process_until_another_answers() -> None:
    async def act(embedder: Local) -> list[str]:
        states: list[str] = [embedder.state]
        await embedder.warm()
        states.append(embedder.state)
        os.kill(process_of(embedder), signal.SIGKILL)
        await asyncio.to_thread(ends_within, 5, process_of(embedder))
        await asyncio.sleep(0.01)  # the event loop must hear of it
        states.append(embedder.state)
        work = asyncio.create_task(embedder.embed(["hi"]))
        await asyncio.sleep(0)
        states.append(embedder.state)
        await work
        return [*states, embedder.state]

    assert using(Local(pause=0), act) == ["ok", "ok", "degraded", "degraded", "ok"]


def test_state_is_degraded_where_no_process_can_be_started() -> None:
    embedder = Local(encoder=["/nowhere/python"])

    assert using(embedder, lambda e: code_of(e.warm())) == "unavailable"
    assert embedder.state == "degraded"


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


@pytest.mark.parametrize("answer", [ValueError, RecursionError, np.full(512, np.nan)])
def test_text_that_fails_in_the_model_is_told_by_a_mark(answer: Any) -> None:
    class Broken:
        def encode(self, text: str) -> Any:
            if isinstance(answer, type):
                raise answer(text)
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
