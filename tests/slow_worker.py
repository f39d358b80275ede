"""A worker in a process of its own, slow enough to be killed between claim and commit."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from app import telemetry
from app.db import Database
from app.llm import Extraction, Judgement, Pair, Statement, Turn
from app.memory.core import Core
from app.rules import RulesExtractor, RulesJudge
from app.worker import Pace, Worker
from tests.fakes import FakeEmbedder

THINKS = 0.25
"""Seconds that extractor and judge take each."""


class _SlowExtractor(RulesExtractor):
    async def extract(
        self, turns: Sequence[Turn], known: Sequence[Statement], *, instructions: str | None = None
    ) -> Extraction:
        await asyncio.sleep(THINKS)
        return await super().extract(turns, known, instructions=instructions)


class _SlowJudge(RulesJudge):
    async def judge(self, pairs: Sequence[Pair]) -> Judgement:
        await asyncio.sleep(THINKS)
        return await super().judge(pairs)


async def _work(url: str, pace: Pace) -> None:
    db = Database(url)
    await db.open()
    core = Core(db, _SlowExtractor(), _SlowJudge(), FakeEmbedder(), b"k" * 40)
    await Worker(core, concurrency=2, pace=pace).run()


def work(url: str, log: str, pace: Pace) -> None:
    """Work until killed, and log into that file."""
    sys.stderr = Path(log).open("a", buffering=1)  # noqa: SIM115 - open until the process ends
    telemetry.configure()
    asyncio.run(_work(url, pace))
