"""Whether a person's recall slows down while other people's facts multiply.

Few and many facts are measured minutes apart, and a shared machine may run Python at half its
speed for minutes: the plain ratio of two medians then shows the machine. So at each size recalls
take turns with a route that does nothing but read one row by its key, and what is compared is how
many times as long as that route a recall takes. Of the rounds' ratios the lower quartile counts:
another program that wants a processor holds up a recall far more than the reading of a row, while
what makes every recall slower moves every quantile. `growth_raw` is the plain ratio, and all
medians are printed, so that one can see whether the yardstick grew.

The route could hide growth only by growing too. It reads the rows of the same few people at both
sizes, from a table with a row a person, not a fact: its index gets one page deeper at most, and a
page in memory is read in about a microsecond, of hundreds that the route takes.
"""

import statistics
import time
from dataclasses import dataclass
from typing import Any

from benchmarks.bench import Bench, machine, span
from benchmarks.service import Server


@dataclass(frozen=True, slots=True)
class Point:
    """Medians of one client at one size; times in milliseconds."""

    recall_ms: float
    row_ms: float
    ratios: list[float]
    loops: list[float]


async def point(bench: Bench, server: Server, plain: Server) -> Point:
    """Measure recalls of people whom the process holds, beside the route that reads their row."""
    paths, rows = bench.paths(bench.people), bench.rows()

    async def recall() -> float:
        return (await bench.ask(server, paths, clients=1)).p50

    async def row() -> float:
        return (await bench.ask(plain, rows, clients=1)).p50

    bench.ask_each_once(server, paths)
    await row()
    turns = await bench.take_turns(recall=recall, row=row)
    return Point(
        turns.median("recall"), turns.median("row"), turns.ratios("recall", "row"), turns.loops
    )


def growth(small: Point, large: Point) -> dict[str, Any]:
    """Compare two sizes."""
    return {
        "growth": round(_undisturbed(large.ratios) / _undisturbed(small.ratios), 2),
        "growth_raw": round(large.recall_ms / small.recall_ms, 2),
        "p50_ms": round(large.recall_ms, 3),
        "p50_ms_small": round(small.recall_ms, 3),
        "row_p50_ms": round(large.row_ms, 3),
        "row_p50_ms_small": round(small.row_ms, 3),
        "recall_over_row_range": span(large.ratios),
        "recall_over_row_range_small": span(small.ratios),
        **machine(small.loops + large.loops),
    }


def _undisturbed(ratios: list[float]) -> float:
    return statistics.quantiles(ratios, n=4, method="inclusive")[0]


def first_ms(bench: Bench, server: Server, people: range) -> float:
    """Give the median of recalls of people whom the process was never asked about."""
    times = []
    with bench.client(server) as http:
        for path in (bench.path(person) for person in list(people)[:200]):
            started = time.perf_counter()
            http.get(path).raise_for_status()
            times.append(time.perf_counter() - started)
    return round(statistics.median(times) * 1e3, 2)
