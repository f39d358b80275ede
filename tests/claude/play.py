"""What the scripted Claude plays here: it reads what stands in the turns, and judges as told."""

import asyncio
import time
from typing import TYPE_CHECKING, Any

from tests.scripted_claude import Item, Request, ScriptedClaude, fact
from tests.world import Caller

if TYPE_CHECKING:
    from collections.abc import Sequence

GRAZ = fact("Lives in Graz.", quote="I live in Graz")
LINZ = fact("Lives in Linz.", quote="I live in Linz")
REDIS = fact("Uses Redis.", quote="we use Redis", kind="preference", subject="cache")
AURORA = fact("Works at Aurora.", quote="I work at Aurora", subject="company")


class Script(ScriptedClaude):
    """Finds the facts it was taught wherever their quotes stand; judges the pairs it was told."""

    def __init__(self) -> None:
        super().__init__(extract=self._read, judge=self._judge)
        self.taught: Sequence[dict[str, Any]] = [GRAZ, LINZ, REDIS, AURORA]
        self.told: dict[tuple[str, str], str] = {
            ("Lives in Graz.", "Lives in Linz."): "CONTRADICTS"
        }
        self.otherwise = "INDEPENDENT"

    def _read(self, request: Request) -> list[Item]:
        return [
            {**item, "turn": n}
            for n, text in request.turns
            for item in self.taught
            if item["quote"] in text
        ]

    def _judge(self, request: Request) -> list[Item]:
        return [
            {
                "pair": n,
                "verdict": self.told.get((old, new), self.otherwise),
                "reason": "as scripted",
            }
            for n, old, new in request.pairs
        ]


async def tell(caller: Caller, *texts: str, session: str = "s") -> dict[str, Any]:
    """Post a conversation and run what is due once; give the session's state."""
    return await caller.say(*texts, session=session)


async def settled(caller: Caller, session: str = "s", within: float = 10) -> dict[str, Any]:
    """Run the queue until the session is done or failed; give its state."""
    deadline = time.monotonic() + within
    while True:
        await caller.world.drain()
        state: dict[str, Any] = (await caller.get(f"/sessions/{session}")).json()
        if state["status"] in {"done", "failed"}:
            return state
        assert time.monotonic() < deadline, state
        await asyncio.sleep(0.05)


async def why(caller: Caller, text: str, status: str = "all") -> dict[str, Any]:
    """Explain the fact with this text."""
    [found] = [one for one in await caller.facts(status) if one["text"] == text]
    explained: dict[str, Any] = (await caller.get(f"/facts/{found['id']}/why")).json()
    return explained
