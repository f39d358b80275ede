"""How fast and how good recall is: `make bench`, or `python -m benchmarks.run --help`.

Starts an embedded Postgres and the service, loads invented people, prints one JSON object a line,
the last one a summary. Ratios are of medians of rounds that take turns, since a machine is never
quite idle; the load average is printed beside them.
"""

import argparse
import asyncio
import json
import os
import random
import shutil
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote
from uuid import UUID

import httpx2

from app import db
from app.embedded import EmbeddedPostgres
from app.embeddings import Embedder, Vector, embedder_from
from app.memory import guard
from app.memory.tenants import create_tenant
from app.rules import RulesExtractor, RulesJudge
from benchmarks import data, floor, locomo, prompts, quality
from benchmarks.load import NO_WRK, Measured, ask
from benchmarks.service import Server, row_app, running, service

PEOPLE: Final = 40
"""Asked about again and again; one process holds the facts of about so many by default."""
TOWN: Final = 400
"""All people whose facts the plain search looks through."""
SMALL, LARGE, FULL = 10_000, 100_000, 1_000_000
ROUNDS: Final = 3


@dataclass
class Bench:
    """What every part needs."""

    postgres: EmbeddedPostgres
    tenant_id: UUID
    key: str
    embedder: Embedder
    seconds: float
    vectors: list[Vector]

    def path(self, person: int) -> str:
        """Give a recall of one person, with a question that was asked before."""
        return f"/v1/users/user-{person}/memory?query={quote(data.questions()[person % 100])}"

    def paths(self, people: int, count: int = 2_000, tail: str = "") -> list[str]:
        """Give recalls of random people with questions that were asked before."""
        dice = random.Random(1)
        questions = data.questions()
        return [
            f"/v1/users/user-{dice.randint(1, people)}/memory"
            f"?{tail}query={quote(dice.choice(questions))}"
            for _ in range(count)
        ]

    def ask(self, server: Server, paths: list[str], **how: Any) -> Measured:
        """Ask the service."""
        return ask(server.port, self.key, paths, seconds=self.seconds, **how)


def show(part: str, **values: Any) -> dict[str, Any]:
    """Print a line."""
    print(json.dumps({"part": part, **values}), flush=True)
    return values


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help=f"grow to {FULL:,} facts")
    parser.add_argument("--seconds", type=float, default=5, help="of each measurement")
    parser.add_argument("--locomo", type=Path, help="folder with LoCoMo's facts and questions")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="usermem-bench-"))
    try:
        with EmbeddedPostgres(folder) as postgres:
            db.migrate(postgres.url("owner"))
            summary = asyncio.run(_prepared(postgres, options))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps({"part": "summary", **summary}), flush=True)


async def _prepared(postgres: EmbeddedPostgres, options: argparse.Namespace) -> dict[str, Any]:
    base = db.Database(postgres.url("service"))
    await base.open()
    tenant_id, _, key = await create_tenant(base, "bench")
    other_id, _, _ = await create_tenant(base, "locomo")
    await base.close()
    embedder = embedder_from("local")
    await embedder.warm()
    vectors = await embedder.embed(data.questions()[:100], "query")
    vectors += await embedder.embed(data.questions()[100:200], "query")
    bench = Bench(postgres, tenant_id, key.key, embedder, options.seconds, vectors)
    summary = show("machine", cores=os.cpu_count(), load_average=os.getloadavg()[0])
    if not shutil.which("wrk"):
        show("note", text=NO_WRK)
    summary |= await _speed(bench, FULL if options.full else LARGE)
    summary |= show("guard", **guard_cost())
    if options.locomo:
        found = await locomo.measure(
            options.locomo, postgres.url("service"), postgres.url("superuser"), other_id, embedder
        )
        summary["locomo"] = show("locomo", **found)
    else:
        show("note", text="LoCoMo is skipped: give its folder with --locomo PATH")
    summary["quality"] = show("quality", **await _quality())
    await embedder.aclose()
    return summary


async def _speed(bench: Bench, top: int) -> dict[str, Any]:
    texts = data.fact_texts()
    vectors = await data.embed_all(bench.embedder, texts)
    superuser = bench.postgres.url("superuser")
    command, env = service(bench.postgres.url("service"), "k" * 40)
    with (
        data.town(superuser, bench.tenant_id, bench.embedder.name, texts, vectors) as town,
        running(command, env) as server,
    ):
        town.grow(SMALL // data.FACTS_PER_USER)
        before = _median(bench, server)
        town.grow(TOWN)
        summary = await _recalls(bench, server)
        summary |= await _frozen(bench, server)
        summary |= await _ingest(bench, server)
        town.grow(top // data.FACTS_PER_USER)
        after = _median(bench, server)
        growth = {"facts": top, "p50_ms": after, "p50_ms_small": before}
        growth |= {"first_recall_p50_ms": _first(bench, server, range(TOWN, town.users))}
        summary |= show("growth", growth=round(after / before, 2), **growth)
        summary |= show("memory", rss_mb=round(server.rss_mb))
    return summary


def _median(bench: Bench, server: Server) -> float:
    """Give the median of one client's recalls of the first people, everything warm.

    The same people at any size of the town: what grows is the number of others.
    """
    paths = bench.paths(SMALL // data.FACTS_PER_USER)
    bench.ask(server, paths, clients=1)
    return statistics.median(bench.ask(server, paths, clients=1).p50 for _ in range(ROUNDS))


def _ask_each_once(bench: Bench, server: Server, paths: list[str]) -> None:
    """Let the server see every question and person that it will be asked about."""
    headers = {"Authorization": f"Bearer {bench.key}"}
    with httpx2.Client(base_url=f"http://127.0.0.1:{server.port}", headers=headers) as http:
        for path in paths:
            http.get(path).raise_for_status()


def _first(bench: Bench, server: Server, people: range) -> float:
    """Give the median of recalls of people whom the process was never asked about."""
    times = []
    headers = {"Authorization": f"Bearer {bench.key}"}
    with httpx2.Client(base_url=f"http://127.0.0.1:{server.port}", headers=headers) as http:
        for path in (bench.path(person) for person in list(people)[:200]):
            started = time.perf_counter()
            http.get(path).raise_for_status()
            times.append(time.perf_counter() - started)
    return round(statistics.median(times) * 1e3, 2)


async def _recalls(bench: Bench, server: Server) -> dict[str, Any]:
    """Recall with known and with new questions, beside plain search and the embedder alone."""
    paths = bench.paths(PEOPLE)
    _ask_each_once(bench, server, paths)
    warm: list[Measured] = []
    # Of one sentence each, or the service would embed three texts where the embedder has one.
    new = [path.removesuffix("%3F") for path in paths]
    cold: list[float] = []
    alone: list[float] = []
    floors: list[float] = []
    people = floor.people(bench.postgres.url("superuser"), bench.tenant_id)
    for turn in range(ROUNDS):
        floors.append(
            floor.searches_per_second(
                bench.postgres.url("superuser"),
                bench.tenant_id,
                people,
                bench.vectors,
                bench.seconds,
            )
        )
        warm.append(bench.ask(server, paths))
        alone.append(await _embeddings_per_second(bench, turn))
        cold.append(bench.ask(server, new, salt=f"case{turn}x").rps)
    rps, lowest = statistics.median(m.rps for m in warm), statistics.median(floors)
    strangers = bench.paths(TOWN)
    _ask_each_once(bench, server, strangers[:200])
    answer = httpx2.get(
        f"http://127.0.0.1:{server.port}{paths[0]}",
        headers={"Authorization": f"Bearer {bench.key}"},
    )
    show("conversation", **prompts.conversation(answer.json()["block"]))
    return show(
        "recall",
        recall_rps=round(rps),
        floor_rps=round(lowest),
        recall_rps_over_floor=round(rps / lowest, 2),
        unheld_recall_rps=round(bench.ask(server, strangers).rps),
        recall_p95_ms=round(statistics.median(m.p95 for m in warm), 1),
        cold_recall_rps=round(statistics.median(cold)),
        embedder_alone_rps=round(statistics.median(alone)),
        cold_over_embedder=round(statistics.median(cold) / statistics.median(alone), 2),
        load_average=os.getloadavg()[0],
    )


async def _embeddings_per_second(bench: Bench, turn: int) -> float:
    """Embed new questions, one a call, four at a time, and do nothing else."""
    questions = data.questions()
    done, until = 0, time.perf_counter() + bench.seconds

    async def client(number: int) -> None:
        nonlocal done
        while time.perf_counter() < until:
            asked = f"{questions[done % len(questions)][:-1]} case{turn}y{number}-{done}"
            await bench.embedder.embed([asked], "query")
            done += 1

    await asyncio.gather(*(client(number) for number in range(4)))
    return done / bench.seconds


async def _frozen(bench: Bench, server: Server) -> dict[str, Any]:
    """Recall of frozen sessions, beside an empty route that reads one row by its key."""
    paths = bench.paths(PEOPLE, 500, tail="session=s&")
    rows = [f"/row/{bench.tenant_id}/user-{n}" for n in range(1, PEOPLE + 1)]
    command, env = row_app(bench.postgres.url("superuser"))
    frozen: list[float] = []
    row: list[float] = []
    with running(command, env) as plain:
        _ask_each_once(bench, server, paths)
        bench.ask(plain, rows)
        for _ in range(ROUNDS):
            row.append(bench.ask(plain, rows).rps)
            frozen.append(bench.ask(server, paths).rps)
    ratio = statistics.median(frozen) / statistics.median(row)
    return show(
        "frozen",
        frozen_rps=round(statistics.median(frozen)),
        row_rps=round(statistics.median(row)),
        frozen_rps_over_row=round(ratio, 2),
    )


async def _ingest(bench: Bench, server: Server) -> dict[str, Any]:
    """Post ten turns a call, four calls at a time."""
    headers = {"Authorization": f"Bearer {bench.key}"}
    turns = [
        {"role": "user", "content": f"{fact} {question}"}
        for fact, question in zip(data.fact_texts()[:10], data.questions(), strict=False)
    ]
    posted, until = 0, time.perf_counter() + bench.seconds
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{server.port}") as http:

        async def client(number: int) -> None:
            nonlocal posted
            while time.perf_counter() < until:
                path = f"/v1/users/writer-{number}/sessions/s{posted}/messages"
                answer = await http.post(path, json={"messages": turns}, headers=headers)
                answer.raise_for_status()
                posted += len(turns)

        await asyncio.gather(*(client(number) for number in range(4)))
    return show("ingest", ingest_messages_per_s=round(posted / bench.seconds))


def guard_cost() -> dict[str, float]:
    """Time what the door does to a turn of 500 characters, and what it asks of a fact."""
    turn = (" ".join(data.questions()))[:500]
    fact = data.fact_texts()[0]
    timings = {}
    for name, act in (
        ("guard_ms_per_turn", lambda: guard.scrub(turn)),
        ("guard_ms_per_fact", lambda: guard.check(fact, "preference")),
    ):
        act()
        started = time.process_time()
        for _ in range(100):
            act()
        timings[name] = round((time.process_time() - started) * 10, 3)
    return timings


async def _quality() -> dict[str, Any]:
    """Score the keyless reading of the labelled conversations."""
    scores = await quality.measure(quality.load(), RulesExtractor(), RulesJudge())
    return dict(quality.summary(scores))


if __name__ == "__main__":
    main()
