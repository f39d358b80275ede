"""A worker in a process of its own, slow enough to be killed between claim and commit."""

import asyncio
from collections.abc import Sequence

from app.db import Database
from app.llm import Extraction, Judgement, Pair, Statement, Turn
from app.memory.core import Core
from app.rules import RulesExtractor, RulesJudge
from app.worker import Worker
from tests.fakes import FAST, FakeEmbedder

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


async def _work(url: str) -> None:
    db = Database(url)
    await db.open()
    core = Core(db, _SlowExtractor(), _SlowJudge(), FakeEmbedder(), b"k" * 40)
    await Worker(core, concurrency=2, pace=FAST).run()


def work(url: str) -> None:
    """Work until killed."""
    asyncio.run(_work(url))
