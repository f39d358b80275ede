"""Recall over odd facts, beside writers, and with an embedder's process that stands still."""

import asyncio
import os
import signal
import traceback
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import numpy as np
import psycopg
import pytest
from cachetools import TTLCache

from app.db import Database
from app.embeddings import Local
from app.memory.core import Core
from app.memory.mirror import Mirrors
from app.memory.recall import Question, recall
from app.memory.recall_log import RecallLog
from tests.planting import Planted, embedded, plant
from tests.world import Caller

MODEL = "usem3-512"


def open_files() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


def apart(caller: Caller, **changes: object) -> Core:
    """A process of its own over the same database."""
    return replace(
        caller.world.core,
        people=TTLCache(100, 60),
        asked=TTLCache(100, 60),
        mirrors=Mirrors(2**24),
        recalls=RecallLog(),
        **changes,  # type: ignore[arg-type]
    )


ODD = (
    *("NULL", "null", "{}", "{,}", '"', "\\", "\\N", 'a\\"b', "'", "%s %(x)s $1", ","),
    *("  spaces  ", "👩‍👩‍👧🏽 é ﷽", "x" * 200, "長" * 200, "\u202eabc", "NaN", "-"),
)  # fmt: skip


async def test_facts_are_held_as_they_stand_in_their_rows_whatever_they_say(alice: Caller):
    facts = [Planted(text, age=n // 3, pinned=n % 4 == 0) for n, text in enumerate(ODD)]
    with_vectors = await embedded(alice, *facts[::2])
    others = [
        replace(fact, vector=np.ones(512, np.float32), model="another")
        for fact in await embedded(alice, *facts[1::4])
    ]
    user_id = plant(alice, *with_vectors, *others, *facts[3::4])
    alice.world.execute(
        "update memory_fact set last_confirmed_at = 'infinity', created_at = '-infinity'"
        " where user_id = %s and text = 'NaN'",
        user_id,
    )
    core = apart(alice)
    await recall(core, alice.tenant_id, alice.user, Question("tea"))
    held = core.mirrors.known(user_id, MODEL)

    rows = alice.world.rows(
        "select id, text, kind, pinned, guard_version, confirmations,"
        " case when embedding_model = %s then embedding::text end"
        " from memory_fact where user_id = %s order by created_at, id",
        MODEL,
        user_id,
    )
    assert held is not None
    assert len(rows) == len(ODD)
    assert [UUID(bytes=id_) for id_ in held.ids] == [row[0] for row in rows]
    columns = [*zip(*rows, strict=True)]
    assert [*held.texts] == [*columns[1]]
    assert [*held.kinds] == [*columns[2]]
    assert [*held.pinned] == [*columns[3]]
    assert [*held.guard_versions] == [*columns[4]]
    assert [*held.confirmations] == [*columns[5]]
    assert [*held.with_vector] == [n for n, row in enumerate(rows) if row[6] is not None]
    expected = [[float(x) for x in row[6][1:-1].split(",")] for row in rows if row[6]]
    assert np.allclose(held.vectors.astype(np.float64), expected, atol=1e-3)


async def test_what_a_writer_committed_is_in_every_recall_that_begins_later(alice: Caller):
    user_id = plant(alice, Planted("Likes tea 0.", "constraint"))
    core = apart(alice)
    written = 0

    async def write() -> None:
        nonlocal written
        for n in range(1, 16):
            await asyncio.to_thread(
                plant, alice, Planted(f"Likes tea {n}.", age=n, pinned=True), owner=user_id
            )
            written = n

    async def look() -> int:
        least, seen = written, 0
        answer = await recall(core, alice.tenant_id, alice.user, Question("tea"))
        held = core.mirrors.known(user_id, MODEL)
        assert held is not None
        seen = len(held)
        assert f"Likes tea {min(least, 9)}." in answer.block
        assert seen > least
        return seen

    writing = asyncio.create_task(write())
    while not writing.done():
        await asyncio.gather(*(look() for _ in range(4)))
    await writing
    assert await look() == 16


async def test_a_look_up_that_fails_says_nothing_of_the_user(alice: Caller):
    db = Database(alice.world.urls.service)
    await db.open()
    await db.close()
    user = "zqx@example.com"
    with pytest.raises(psycopg.Error) as failed:
        await recall(apart(alice, db=db), alice.tenant_id, user, Question())

    assert user not in "".join(traceback.format_exception(failed.value))


@pytest.fixture
async def own_embedder() -> AsyncIterator[Local]:
    embedder = Local(pause=0)
    await embedder.warm()
    yield embedder
    await embedder.aclose()


async def test_an_embedder_that_stands_still_costs_its_arm_and_keeps_no_text(
    alice: Caller, own_embedder: Local
):
    plant(alice, *await embedded(alice, Planted("Likes tea."), Planted("Be brief.", "constraint")))
    core = apart(alice, embedder=own_embedder, recall_deadline=0.1)

    async def ask(n: int) -> str | None:
        answer = await recall(core, alice.tenant_id, alice.user, Question(f"Which tea, {n}?"))
        assert "Likes tea." in answer.block
        assert "Be brief." in answer.block
        return answer.degraded

    assert await ask(0) is None
    child = own_embedder._child
    assert child is not None
    os.kill(child.pid, signal.SIGSTOP)
    try:
        for start in (0, 20, 40):
            found = await asyncio.gather(*(ask(n) for n in range(start + 1, start + 21)))
            assert set(found) == {"deadline"}
        assert not child._waiting
    finally:
        os.kill(child.pid, signal.SIGCONT)
    assert await ask(99) is None
    assert own_embedder._child is child


async def test_an_embedder_that_is_killed_under_recalls_is_back_by_itself(
    alice: Caller, own_embedder: Local
):
    plant(alice, *await embedded(alice, Planted("Likes tea.")))
    core = apart(alice, embedder=own_embedder)
    before = open_files()

    async def ask(n: int) -> str | None:
        answer = await recall(core, alice.tenant_id, alice.user, Question(f"Which tea, {n}?"))
        assert "Likes tea." in answer.block
        return answer.degraded

    for n in range(10):
        child = own_embedder._child
        assert child is not None
        asking = [asyncio.create_task(ask(100 * n + m)) for m in range(4)]
        await asyncio.sleep(0.005)
        os.kill(child.pid, signal.SIGKILL)
        assert {*await asyncio.gather(*asking)} <= {None, "embedder", "deadline"}
        await asyncio.sleep(0.02)
        own_embedder._child = own_embedder._running()
    await own_embedder.embed(["warm"])
    assert await ask(9_999) is None
    assert open_files() <= before + 2
