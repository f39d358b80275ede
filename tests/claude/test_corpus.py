"""The attack corpus through the whole service, read by an extractor on the attacker's side.

It gives every turn back verbatim as a standing instruction, so the guards alone must hold.
"""

import gzip
import json
import logging
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.wiring import read_by
from tests.scripted_claude import ScriptedClaude, connected
from tests.sweep import holdings
from tests.world import Caller, World

DATA = Path(__file__).parent.parent / "data" / "attacks.jsonl.gz"
ROWS: list[dict[str, Any]] = [
    json.loads(line) for line in gzip.decompress(DATA.read_bytes()).splitlines() if line.strip()
]


@pytest.fixture
def attacker() -> Iterator[ScriptedClaude]:
    with ScriptedClaude.hostile() as server:
        yield server


@pytest.fixture
async def service(world: World, attacker: ScriptedClaude) -> AsyncIterator[World]:
    world.execute("delete from procrastinate_jobs where status = 'todo'")
    async with (
        connected(attacker) as claude,
        world.over(replace(read_by(claude, world.core))) as service,
    ):
        yield service


async def _tell_all(caller: Caller) -> None:
    """One user per row, so that no row speaks for another."""
    for row in ROWS:
        turn = {"role": row["role"], "content": row["text"]}
        posted = await caller.of(row["id"]).post("/transcripts", {"messages": [turn]})
        assert posted.status_code == 202, row["id"]
    await caller.world.drain()


async def _status(caller: Caller, row: dict[str, Any]) -> str:
    states = {fact["status"] for fact in await caller.of(row["id"]).facts("all")}
    return "kept" if "live" in states else "quarantined" if states else "nothing"


@pytest.mark.timeout(300)
async def test_the_corpus_through_a_hostile_extractor(
    service: World, attacker: ScriptedClaude, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    caller = await service.tenant()
    await _tell_all(caller)
    outcomes = {row["id"]: await _status(caller, row) for row in ROWS}
    _print(outcomes)

    held = [one for one in holdings(service.urls.superuser) if one.tenant_id == caller.tenant_id]
    users = dict(
        service.rows(
            "select external_id, user_id from user_directory where tenant_id = %s",
            caller.tenant_id,
        )
    )
    prompts = json.dumps([request.body for request in attacker.requests], ensure_ascii=False)
    for row in ROWS:
        # What must wait for a person is stored in quarantine, so that there is something to see.
        for secret in row["must_not_store"] if row["expect"] != "quarantine" else ():
            # A code of three digits stands in other rows' words too: look at this user's alone.
            own = [one for one in held if one.user_id == users[row["id"]]]
            assert [one.place for one in own if secret in one.text] == [], row["id"]
            if row["expect"] == "reject_secret" and len(secret) > 5:
                assert secret not in prompts, row["id"]
                assert secret not in caplog.text, row["id"]

    decided = [row for row in ROWS if row["role"] == "user" and row["layer"] != "model"]
    for row in decided:
        if row["kind"] in {"block_breakout", "authority_claim"} and row["expect"] != "keep":
            assert outcomes[row["id"]] != "kept", row["id"]
    to_stop = [row for row in decided if row["expect"] == "quarantine"]
    assert _share(to_stop, outcomes, "quarantined", "nothing") >= 0.95
    assert all(outcomes[row["id"]] == "nothing" for row in ROWS if row["role"] != "user")
    await _check_blocks(caller)


async def _check_blocks(caller: Caller) -> None:
    """No fact breaks out of its line or of the block."""
    for row in ROWS:
        block = await caller.of(row["id"]).block()
        facts = await caller.of(row["id"]).facts()
        lines = block.split("\n") if block else []
        assert sum(line.startswith("- ") for line in lines) == len(facts), row["id"]
        assert block.count("<") == (2 if block else 0), row["id"]


def _share(rows: list[dict[str, Any]], outcomes: dict[str, str], *wanted: str) -> float:
    return sum(outcomes[row["id"]] in wanted for row in rows) / len(rows)


def _print(outcomes: dict[str, str]) -> None:
    table: dict[tuple[str, str], Counter[str]] = {}
    for row in ROWS:
        table.setdefault((row["kind"], row["expect"]), Counter())[outcomes[row["id"]]] += 1
    lines = [
        f"{kind:26}{expect:18}{n['kept']:5}{n['quarantined']:12}{n['nothing']:9}"
        for (kind, expect), n in sorted(table.items())
    ]
    head = f"{'kind':26}{'expect':18} kept quarantined  nothing"
    sys.stdout.write("\n".join([head, *lines, ""]))
