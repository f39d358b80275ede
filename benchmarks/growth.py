"""Whether a person's recall slows down while other people's facts multiply.

A recall among few facts and the same recall among many take turns, each asked of a fresh process of
the service with a Postgres of its own, and `growth` is the median of the rounds' ratios. Measured
one after the other, minutes apart, they would show the machine: it may run Python at half its speed
meanwhile. Nor would it help to count both in reads of one row: another program that wants a
processor holds up a recall far more than such a read, by which a growth of 1.0 looked like 0.7 or
1.5. `growth_raw` is the ratio of the two medians.
"""

import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from app import db
from app.embedded import EmbeddedPostgres
from app.embeddings import Vector
from benchmarks import data
from benchmarks.bench import Bench, machine, span, tenant
from benchmarks.service import Server, running, service


async def measure(bench: Bench, facts: int, vectors: list[Vector]) -> dict[str, Any]:
    """Build a small town beside the large one, and ask the first people of both in turn."""
    texts, model = data.fact_texts(), bench.embedder.name
    with (
        tempfile.TemporaryDirectory(prefix="usermem-bench-") as folder,
        EmbeddedPostgres(Path(folder, "small")) as postgres,
    ):
        db.migrate(postgres.url("owner"))
        tenant_id, key = await tenant(postgres, "small")
        few = replace(bench, postgres=postgres, tenant_id=tenant_id, key=key)
        with (
            data.town(postgres.url("superuser"), tenant_id, model, texts, vectors) as town,
            running(*service(postgres.url("service"))) as small,
            running(*service(bench.postgres.url("service"))) as large,
        ):
            town.grow(facts // data.FACTS_PER_USER)
            return await _compare(few, small, bench, large, min(town.users, bench.people))


async def _compare(
    few: Bench, small: Server, many: Bench, large: Server, people: int
) -> dict[str, Any]:
    paths = many.paths(people)

    async def of_few() -> float:
        return (await few.ask(small, paths, clients=1)).p50

    async def of_many() -> float:
        return (await many.ask(large, paths, clients=1)).p50

    few.ask_each_once(small, paths)
    many.ask_each_once(large, paths)
    turns = await many.take_turns(small=of_few, large=of_many)
    return {
        "growth": round(turns.ratio("large", "small"), 2),
        "growth_range": span(turns.ratios("large", "small")),
        "growth_raw": round(turns.median("large") / turns.median("small"), 2),
        "p50_ms": round(turns.median("large"), 3),
        "p50_ms_small": round(turns.median("small"), 3),
        **machine(turns.loops),
    }


def first_ms(bench: Bench, server: Server, people: range) -> float:
    """Give the median of recalls of people whom the process was never asked about."""
    times = []
    with bench.client(server) as http:
        for path in (bench.path(person) for person in list(people)[:200]):
            started = time.perf_counter()
            http.get(path).raise_for_status()
            times.append(time.perf_counter() - started)
    return round(statistics.median(times) * 1e3, 2)
