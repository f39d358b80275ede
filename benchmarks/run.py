"""How fast and how good recall is: `make bench`, or `python -m benchmarks.run --help`.

Starts an embedded Postgres and the service, loads invented people, prints one JSON object a line,
the last one a summary. A machine is never quite idle, nor always of one speed: what is compared
takes turns in rounds of a few seconds, and a ratio is the median of the rounds' own ratios. Beside
them stand their range, the load average and, shortest and longest, the time of a loop of Python
that is always the same.
"""

import argparse
import asyncio
import json
import os
import shutil
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import httpx2

from app import db
from app.embedded import EmbeddedPostgres
from app.embeddings import Embedder, Vector, embedder_from
from app.memory import guard
from app.rules import RulesExtractor, RulesJudge
from benchmarks import data, growth, locomo, quality, recalls
from benchmarks.bench import FEWEST_ROUNDS, TURN, Bench, machine, show, tenant
from benchmarks.load import NO_WRK
from benchmarks.service import Server, row_app, running, service, wide_embeddings

PEOPLE: Final = 100
"""Asked about again and again; one process holds the facts of more by default, at either width."""
TOWN: Final = 400
"""All people whose facts the plain search looks through."""
SMALL, LARGE, FULL = 10_000, 100_000, 1_000_000


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help=f"grow to {FULL:,} facts")
    parser.add_argument(
        "--seconds",
        type=float,
        default=12,
        help=f"of each figure, in turns of {TURN}; at least {FEWEST_ROUNDS} (default: 12)",
    )
    parser.add_argument("--locomo", type=Path, help="folder with LoCoMo's facts and questions")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="usermem-bench-"))
    try:
        with EmbeddedPostgres(folder) as postgres:
            db.migrate(postgres.url("owner"))
            summary = asyncio.run(_measured(postgres, options))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps({"part": "summary", **summary}), flush=True)


async def _measured(postgres: EmbeddedPostgres, options: argparse.Namespace) -> dict[str, Any]:
    embedder = embedder_from("local")
    await embedder.warm()
    bench = Bench(
        postgres,
        *await tenant(postgres, "bench"),
        embedder,
        await _asked(embedder),
        people=PEOPLE,
        rounds=max(FEWEST_ROUNDS, round(options.seconds / TURN)),
    )
    summary = show("machine", cores=os.cpu_count(), load_average=os.getloadavg()[0])
    if not shutil.which("wrk"):
        show("note", text=NO_WRK)
    summary |= await _speed(bench, FULL if options.full else LARGE)
    summary |= await _speed_1024(bench)
    summary |= show("guard", **guard_cost())
    if options.locomo:
        found = await locomo.measure(
            options.locomo,
            postgres.url("service"),
            postgres.url("superuser"),
            (await tenant(postgres, "locomo"))[0],
            embedder,
        )
        summary["locomo"] = show("locomo", **found)
    else:
        show("note", text="LoCoMo is skipped: give its folder with --locomo PATH")
    summary["quality"] = show("quality", **await _quality())
    await embedder.aclose()
    return summary | machine(bench.loops)


async def _asked(embedder: Embedder) -> list[Vector]:
    """Embed what plain search is asked, in slices that no embedder refuses."""
    vectors = await embedder.embed(data.questions()[:100], "query")
    return vectors + await embedder.embed(data.questions()[100:200], "query")


async def _speed(bench: Bench, top: int) -> dict[str, Any]:
    texts = data.fact_texts()
    vectors = await data.embed_all(bench.embedder, texts)
    superuser = bench.postgres.url("superuser")
    with (
        data.town(superuser, bench.tenant_id, bench.embedder.name, texts, vectors) as town,
        running(*service(bench.postgres.url("service"))) as server,
        running(*row_app(superuser)) as plain,
    ):
        town.grow(TOWN)
        found = show("recall_512", **await recalls.held(bench, server))
        summary = {f"{name}_512": found[name] for name in found if name.startswith("recall_rps")}
        recalls.conversation(bench, server)
        summary |= show("unheld", **await recalls.unheld(bench, server, TOWN))
        summary |= show("cold", **await recalls.cold(bench, server))
        summary |= show("frozen", **await recalls.frozen(bench, server, plain))
        summary |= await _ingest(bench, server)
        town.grow(top // data.FACTS_PER_USER)
        # So that the questions, which are kept for a minute, are known.
        bench.ask_each_once(server, bench.paths(PEOPLE))
        first = growth.first_ms(bench, server, range(TOWN, town.users))
        grown = await growth.measure(bench, SMALL, vectors)
        summary |= show("growth", facts=top, **grown, first_recall_p50_ms=first)
        summary |= show(
            "memory",
            rss_mb=round(server.rss_mb),
            embedder_rss_mb=round(server.children_rss_mb),
        )
    return summary


async def _speed_1024(bench: Bench) -> dict[str, Any]:
    """Recall with an embedder behind HTTP, of the width of those that products use: the ratio.

    It runs in a process of its own and is idle while recalls are measured: questions are known.
    """
    texts = data.fact_texts()
    tenant_id, key = await tenant(bench.postgres, "bench-1024")
    with running(*wide_embeddings()) as embeddings:
        url, model = f"http://127.0.0.1:{embeddings.port}/v1", "usem3-rotated"
        embedder = embedder_from("openai", url=url, model=model)
        await embedder.warm()
        vectors = await data.embed_all(embedder, texts)
        asked = await _asked(embedder)
        await embedder.aclose()
        command = service(
            bench.postgres.url("service"),
            USERMEM_EMBEDDER="openai",
            USERMEM_EMBEDDINGS_URL=url,
            USERMEM_EMBEDDINGS_MODEL=model,
            # Cosines are the local model's.
            USERMEM_EMBEDDINGS_FLOOR=str(bench.embedder.recall_floor),
        )
        superuser = bench.postgres.url("superuser")
        with (
            data.town(superuser, tenant_id, embedder.name, texts, vectors) as town,
            running(*command) as server,
        ):
            town.grow(TOWN)
            wide = replace(
                bench,
                tenant_id=tenant_id,
                key=key,
                embedder=embedder,
                vectors=asked,
            )
            return show("recall", **await recalls.held(wide, server))


async def _ingest(bench: Bench, server: Server) -> dict[str, Any]:
    """Post ten turns a call, four calls at a time, for as long as other figures are measured."""
    headers = {"Authorization": f"Bearer {bench.key}"}
    turns = [
        {"role": "user", "content": f"{fact} {question}"}
        for fact, question in zip(data.fact_texts()[:10], data.questions(), strict=False)
    ]
    posted, until = 0, time.perf_counter() + bench.rounds * TURN
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{server.port}") as http:

        async def client(number: int) -> None:
            nonlocal posted
            while time.perf_counter() < until:
                path = f"/v1/users/writer-{number}/sessions/s{posted}/messages"
                answer = await http.post(path, json={"messages": turns}, headers=headers)
                answer.raise_for_status()
                posted += len(turns)

        await asyncio.gather(*(client(number) for number in range(4)))
    return show("ingest", ingest_messages_per_s=round(posted / bench.rounds / TURN))


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
