"""A night of forgetting in a process of its own, in small and slow steps, to be killed between."""

import asyncio
from typing import Any
from uuid import UUID

from app.db import Database
from app.memory import forgetting
from app.memory.core import Core
from app.memory.write import record_events
from app.rules import RulesExtractor, RulesJudge
from tests.fakes import FakeEmbedder

STEP = 0.04
"""Seconds that each transaction takes at the least, with its facts marked and not yet committed."""


async def _slowly(*arguments: Any) -> None:
    await asyncio.sleep(STEP)
    await record_events(*arguments)


async def _forget(url: str, tenant_id: UUID) -> None:
    db = Database(url)
    await db.open()
    core = Core(db, RulesExtractor(), RulesJudge(), FakeEmbedder(), b"k" * 40)
    await forgetting.forget_tonight(core, tenant_id)
    await db.close()


def forget(url: str, tenant_id: UUID) -> None:
    """Forget until the night is done, or killed."""
    vars(forgetting).update(USERS_AT_ONCE=2, FACTS_AT_ONCE=4, record_events=_slowly)
    asyncio.run(_forget(url, tenant_id))
