"""How many recalls a second, beside what nothing can beat: see each function for what that is."""

import asyncio
import itertools
import statistics
import time
from typing import Any

from benchmarks import data, floor, prompts
from benchmarks.bench import TURN, Bench, machine, show, span
from benchmarks.service import Server


async def held(bench: Bench, server: Server) -> dict[str, Any]:
    """Recall people whom the process holds, with known questions, beside plain vector search.

    That searches the facts of the whole town: nothing holds some of its people.
    """
    paths = bench.paths(bench.people)
    url = bench.postgres.url("superuser")
    people = floor.people(url, bench.tenant_id)
    p95: list[float] = []

    async def recall() -> float:
        measured = await bench.ask(server, paths)
        p95.append(measured.p95)
        return measured.rps

    async def plain() -> float:
        return await asyncio.to_thread(
            floor.searches_per_second, url, bench.tenant_id, people, bench.vectors, TURN
        )

    bench.ask_each_once(server, paths)
    turns = await bench.take_turns(plain=plain, recall=recall)
    return {
        "recall_rps": round(turns.median("recall")),
        "floor_rps": round(turns.median("plain")),
        "recall_rps_over_floor": round(turns.ratio("recall", "plain"), 2),
        "recall_rps_over_floor_range": span(turns.ratios("recall", "plain")),
        "recall_p95_ms": round(statistics.median(p95), 1),
        "people_asked": bench.people,
        **machine(turns.loops),
    }


async def cold(bench: Bench, server: Server) -> dict[str, Any]:
    """Recall with questions that nobody asked before, beside the embedder alone."""
    # Of one sentence each, or the service would embed three texts where the embedder has one.
    paths = [path.removesuffix("%3F") for path in bench.paths(bench.people)]
    number = itertools.count()

    async def recall() -> float:
        return (await bench.ask(server, paths, salt=f"case{next(number)}x")).rps

    async def embed() -> float:
        return await _embeddings_per_second(bench, next(number))

    turns = await bench.take_turns(embed=embed, recall=recall)
    return {
        "cold_recall_rps": round(turns.median("recall")),
        "embedder_alone_rps": round(turns.median("embed")),
        "cold_over_embedder": round(turns.ratio("recall", "embed"), 2),
        **machine(turns.loops),
    }


async def unheld(bench: Bench, server: Server, people: int) -> dict[str, Any]:
    """Recall so many people that the process holds only some of them."""
    paths = bench.paths(people)
    bench.ask_each_once(server, paths[:200])
    turns = await bench.take_turns(recall=lambda: _rps(bench, server, paths))
    return {"unheld_recall_rps": round(turns.median("recall")), **machine(turns.loops)}


async def frozen(bench: Bench, server: Server, plain: Server) -> dict[str, Any]:
    """Recall of frozen sessions, beside an empty route that reads one row by its key."""
    paths, rows = bench.paths(bench.people, 500, tail="session=s&"), bench.rows()
    bench.ask_each_once(server, paths)
    await bench.ask(plain, rows)
    turns = await bench.take_turns(
        row=lambda: _rps(bench, plain, rows), frozen=lambda: _rps(bench, server, paths)
    )
    return {
        "frozen_rps": round(turns.median("frozen")),
        "row_rps": round(turns.median("row")),
        "frozen_rps_over_row": round(turns.ratio("frozen", "row"), 2),
        **machine(turns.loops),
    }


def conversation(bench: Bench, server: Server) -> None:
    """Show what a conversation with one of the blocks costs."""
    with bench.client(server) as http:
        block = http.get(bench.path(1)).raise_for_status().json()["block"]
    show("conversation", **prompts.conversation(block))


async def _rps(bench: Bench, server: Server, paths: list[str]) -> float:
    return (await bench.ask(server, paths)).rps


async def _embeddings_per_second(bench: Bench, turn: int) -> float:
    """Embed new questions, one a call, four at a time, and do nothing else."""
    questions = data.questions()
    done, until = 0, time.perf_counter() + TURN

    async def client(number: int) -> None:
        nonlocal done
        while time.perf_counter() < until:
            asked = f"{questions[done % len(questions)][:-1]} case{turn}y{number}-{done}"
            await bench.embedder.embed([asked], "query")
            done += 1

    await asyncio.gather(*(client(number) for number in range(4)))
    return done / TURN
