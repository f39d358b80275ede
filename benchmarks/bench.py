"""What every part of the benchmark shares: whom it asks, and how measurements take turns."""

import asyncio
import json
import os
import random
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote
from uuid import UUID

import httpx2

from app import db
from app.embedded import EmbeddedPostgres
from app.embeddings import Embedder, Vector
from app.memory.tenants import create_tenant
from benchmarks import data
from benchmarks.load import Measured, ask
from benchmarks.service import Server

TURN: Final = 1
"""Seconds of one measurement: as short as wrk can, so that few turns see a change of speed."""

FEWEST_ROUNDS: Final = 8

Act = Callable[[], Awaitable[float]]


@dataclass(frozen=True, slots=True)
class Turns:
    """What measurements gave that took turns, round by round."""

    figures: dict[str, list[float]]
    loops: list[float]

    def median(self, name: str) -> float:
        """Give the median of a measurement."""
        return statistics.median(self.figures[name])

    def ratios(self, over: str, under: str) -> list[float]:
        """Give what one measurement is over another, each round by itself."""
        pairs = zip(self.figures[over], self.figures[under], strict=True)
        return [one / other for one, other in pairs]

    def ratio(self, over: str, under: str) -> float:
        """Give the median of the rounds' ratios.

        Both sides of a round's ratio saw the machine at one speed, unless it changed right between
        them. The medians of the two may be of different speeds, and their ratio of neither.
        """
        return statistics.median(self.ratios(over, under))


@dataclass
class Bench:
    """One tenant, the embedder of its facts, and how long its service is asked."""

    postgres: EmbeddedPostgres
    tenant_id: UUID
    key: str
    embedder: Embedder
    vectors: list[Vector]
    """Of the questions that plain search is asked."""
    people: int
    """Asked about again and again: no more than one process holds by default."""
    rounds: int
    loops: list[float] = field(default_factory=list)
    """How long Python took for the same loop, before every round of every part."""

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

    def rows(self) -> list[str]:
        """Give the rows of the same people, to be read by their keys."""
        return [f"/row/{self.tenant_id}/user-{number}" for number in range(1, self.people + 1)]

    def client(self, server: Server) -> httpx2.Client:
        """Open a client for single requests."""
        return httpx2.Client(
            base_url=f"http://127.0.0.1:{server.port}",
            headers={"Authorization": f"Bearer {self.key}"},
        )

    def ask_each_once(self, server: Server, paths: list[str]) -> None:
        """Let the service see every question and person that it will be asked about."""
        with self.client(server) as http:
            for path in dict.fromkeys(paths):
                http.get(path).raise_for_status()

    async def ask(self, server: Server, paths: list[str], **how: Any) -> Measured:
        """Ask a server for a turn."""
        return await asyncio.to_thread(ask, server.port, self.key, paths, seconds=TURN, **how)

    async def take_turns(self, **acts: Act) -> Turns:
        """Measure in rounds, every second one in the opposite order.

        So a machine that slows down or speeds up all the while favours nobody.
        """
        figures: dict[str, list[float]] = {name: [] for name in acts}
        loops = []
        for number in range(self.rounds):
            loops.append(loop_ms())
            for name in list(acts)[:: -1 if number % 2 else 1]:
                figures[name].append(await acts[name]())
        self.loops += loops
        return Turns(figures, loops)


async def tenant(postgres: EmbeddedPostgres, name: str) -> tuple[UUID, str]:
    """Make a tenant; give its id and its key."""
    base = db.Database(postgres.url("service"))
    await base.open()
    tenant_id, _, key = await create_tenant(base, name)
    await base.close()
    return tenant_id, key.key


def loop_ms() -> float:
    """Time a loop of Python that is always the same: it shows the machine's speed just now."""
    times = []
    for _ in range(5):
        started, total = time.perf_counter(), 0
        for number in range(50_000):
            total += number
        times.append((time.perf_counter() - started) * 1e3)
    return statistics.median(times)


def machine(loops: list[float]) -> dict[str, Any]:
    """Say how fast and how busy the machine was, the loop's shortest and longest time."""
    return {
        "python_loop_ms": [round(min(loops), 2), round(max(loops), 2)],
        "load_average": round(os.getloadavg()[0], 2),
    }


def span(ratios: list[float]) -> list[float]:
    """Give the least and the greatest ratio of a round."""
    return [round(min(ratios), 2), round(max(ratios), 2)]


def show(part: str, **values: Any) -> dict[str, Any]:
    """Print a line."""
    print(json.dumps({"part": part, **values}), flush=True)
    return values
