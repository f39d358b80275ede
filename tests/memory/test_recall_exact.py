"""Recall is exact under any plan, and the same facts give the same bytes on any process."""

import asyncio
import os
import random
import re
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from uuid import UUID

import numpy as np
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.db import Scope
from app.embeddings import Vector
from app.embeddings.seam import unit
from app.lines import statement
from app.memory import ranking
from app.memory.mirror import Mirrors
from app.memory.recall import Question, read, reading, recall
from app.memory.search import ranked
from app.memory.selection import CAPS
from app.settings import Settings
from app.trip import trip
from tests.planting import Planted, embedded, plant
from tests.world import Caller, World

Town = tuple[Caller, dict[str, tuple[UUID, list[Planted]]]]
MODEL, WIDTH, FLOOR = "usem3-512", 512, 0.15


def near(dice: np.random.Generator, to: Vector | None = None) -> Vector:
    noise = unit(dice.normal(size=WIDTH))
    return noise if to is None else unit(to + noise * dice.uniform(0.3, 3))


def cosine(one: Vector, other: Vector) -> float:
    """Compare as halves, which is how vectors are stored and asked for."""
    a, b = (vector.astype(np.float16).astype(np.float64) for vector in (one, other))
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


def by_hand(facts: list[Planted], query: Vector) -> list[UUID]:
    """Rank by the documented rule, in the plainest way there is."""
    scored = []
    for fact in facts:
        assert fact.vector is not None
        scored.append((cosine(fact.vector, query), fact))
    matched = sorted(
        ((likeness, fact) for likeness, fact in scored if likeness >= FLOOR),
        key=lambda pair: (-pair[0], pair[1].created_at, pair[1].id),
    )
    by_age = sorted(fact.created_at for _, fact in matched)
    most = max(len(matched) - 1, 1)
    score = {
        fact.id: 1 / (10 + place) + 0.004 * by_age.index(fact.created_at) / most
        for place, (_, fact) in enumerate(matched, 1)
    }
    return sorted(score, key=lambda id_: -score[id_])[: CAPS["similarity"]]


async def recalled(world: World, tenant_id: UUID, user_id: UUID, query: Vector) -> list[UUID]:
    """Rank in memory, over facts read anew."""
    scope = Scope(tenant_id, user_id)
    _, facts, _ = await read(replace(world.core, mirrors=Mirrors(0)), scope, Question())
    found = ranking.similar(facts, ranking.asked([query], ""), FLOOR)
    return [UUID(row.id) for row in found.rows]


async def searched(world: World, tenant_id: UUID, user_id: UUID, query: Vector) -> list[UUID]:
    """Rank in SQL."""
    values = search_values(world, tenant_id, user_id, query)
    (rows,) = await trip(world.core.db, tenant_id, (ranked(1), values))
    return [row[0] for row in rows]


def search_values(
    world: World, tenant_id: UUID, user_id: UUID, query: Vector, message: str = ""
) -> dict[str, Any]:
    return {
        **ranking.values(world.core.embedder, [query], message),
        "tenant": tenant_id,
        "user_id": user_id,
        "wanted": "[]",
        "as_of": None,
        "include_superseded": False,
        "kinds": None,
        "most": CAPS["similarity"],
    }


@pytest.fixture(scope="module")
async def town(world: World) -> AsyncIterator[Town]:
    """Users with many and few facts side by side, and an HNSW index that would love to help."""
    caller = await world.tenant()
    dice = np.random.default_rng(4)
    topics = [near(dice) for _ in range(5)]
    people: dict[str, tuple[UUID, list[Planted]]] = {}
    for name, count in (
        ("few", 20),
        ("usual", 150),
        ("many", 5000),
        *((f"u{n}", 60) for n in range(20)),
    ):
        facts = [
            Planted(f"Fact {n}.", age=n, vector=near(dice, topics[n % 5])) for n in range(count)
        ]
        people[name] = plant(caller.of(name), *facts), facts
    with psycopg.connect(world.urls.superuser, autocommit=True) as connection:
        connection.execute("set maintenance_work_mem = '256MB'")
        connection.execute(
            f"create index hnsw_usem3 on memory_fact using hnsw"
            f" ((embedding::halfvec({WIDTH})) halfvec_cosine_ops)"
            f" where embedding_model = '{MODEL}'"
        )
    yield caller, people
    with psycopg.connect(world.urls.superuser, autocommit=True) as connection:
        connection.execute("drop index hnsw_usem3")


PLANS: dict[str, tuple[str, ...]] = {
    "default": (),
    "forced index": ("enable_seqscan=off", "enable_bitmapscan=off", "enable_sort=off"),
    "no index scan": ("enable_indexscan=off", "enable_indexonlyscan=off"),
}


@pytest.mark.parametrize("plan", [*PLANS, "stale statistics"])
async def test_every_recall_equals_brute_force(town, world: World, plan: str, request):
    caller, people = town
    thorough = request.config.getoption("-m") == "soak"
    with psycopg.connect(world.urls.superuser, autocommit=True) as connection:
        if plan == "stale statistics":
            connection.execute(
                "update pg_class set reltuples = 1, relpages = 1 where relname = 'memory_fact'"
            )
        else:
            connection.execute("analyze memory_fact")
        for setting in PLANS.get(plan, ()):
            name, value = setting.split("=")
            connection.execute(f"alter role usermem_service set {name} = {value}")
    try:
        await world.core.db.lines.renew()  # new connections: new settings, new plans
        dice = np.random.default_rng(7)
        picks = random.Random(7)  # noqa: S311 - a test's dice
        names = ["few", "usual", "many", *(f"u{n}" for n in range(20))]
        for _ in range(500 if thorough else 40):
            user_id, facts = people[picks.choice(names)]
            target = picks.choice(facts).vector
            query = near(dice, target)
            expected = by_hand(facts, query)
            assert await recalled(world, caller.tenant_id, user_id, query) == expected
            assert await searched(world, caller.tenant_id, user_id, query) == expected
    finally:
        with psycopg.connect(world.urls.superuser, autocommit=True) as connection:
            connection.execute("alter role usermem_service reset all")
            connection.execute("analyze memory_fact")
        await world.core.db.lines.renew()


@pytest.mark.parametrize("name", ["few", "many"])
@pytest.mark.parametrize("door", ["recall", "search"])
async def test_the_plan_reads_one_users_rows_by_their_key(town, world: World, name: str, door: str):
    caller, people = town
    user_id, _ = people[name]
    scope = Scope(caller.tenant_id, user_id)
    query, values = reading(world.core, scope, Question(), None, None)
    if door == "search":
        query = ranked(1)
        near_tea = near(np.random.default_rng(1))
        values = search_values(world, caller.tenant_id, user_id, near_tea, "tea")
    explained = statement("explain " + _named(query.query.decode(), list(query.values)))
    (rows,) = await trip(world.core.db, caller.tenant_id, (explained, values))
    plan = "\n".join(row[0] for row in rows)
    assert "Seq Scan" not in plan
    assert "hnsw" not in plan
    conditions = re.findall(r"Index Cond: .*", plan)
    assert conditions
    for condition in conditions:
        assert "(tenant_id = " in condition
        assert "(user_id = " in condition


def _named(query: str, names: list[str]) -> str:
    for place in range(len(names), 0, -1):
        query = query.replace(f"${place}", f"%({names[place - 1]})s")
    return query


_FACTS = st.lists(
    st.tuples(
        st.sampled_from(["tea", "coffee", "water", "never", "always"]),
        st.sampled_from(["preference", "constraint", "profile", "goal"]),
        st.booleans(),
        st.integers(0, 3),
    ),
    min_size=1,
    max_size=25,
    unique_by=lambda fact: fact,
)


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(_FACTS, st.randoms(use_true_random=False))
async def test_the_same_facts_give_the_same_bytes_in_any_order_at_any_time_on_any_process(
    world: World, urls, facts, dice
):
    """Two users of two processes learn the same facts, in another order."""
    caller = await world.tenant()
    planted = [
        Planted(f"Fact on {topic} {kind} {n}.", kind, n, pinned=pinned, confirmations=confirmed)
        for n, (topic, kind, pinned, confirmed) in enumerate(facts)
    ]
    shuffled = planted.copy()
    dice.shuffle(shuffled)
    plant(caller.of("one"), *planted)
    for fact in shuffled:  # one transaction each: other places on disk, other times of writing
        plant(caller.of("two"), fact)
    other = Settings(database_url=urls.service, signing_key="k" * 40, extractor="rules")
    async with World.open(other, urls) as elsewhere:
        blocks = []
        for name, process in (("one", world), ("two", elsewhere)):
            asker = Caller(process, caller.tenant_id, caller.key, name)
            blocks.append([await asker.block(query) for query in ("tea or water", "", "coffee")])
    assert blocks[0] == blocks[1]


_ELSEWHERE = """
import asyncio, sys
from uuid import UUID
from app.memory.recall import Question, recall
from app.settings import Settings
from app.wiring import open_core

async def main(url, tenant, *queries):
    settings = Settings(database_url=url, signing_key="k" * 40, extractor="rules")
    async with open_core(settings, url) as core:
        for query in queries:
            print((await recall(core, UUID(tenant), "alice", Question(query))).lasting.json)

asyncio.run(main(*sys.argv[1:]))
"""


async def test_a_process_that_hashes_otherwise_gives_the_same_answer(alice: Caller, urls):
    kinds = ("preference", "constraint", "goal", "profile")
    facts = [
        Planted(f"Likes {drink} at {hour} 🦊.", kinds[hour % 4], hour % 3)
        for hour in range(20)
        for drink in ("tea", "coffee")
    ]
    plant(alice, *await embedded(alice, *facts))
    queries = ("tea or coffee at 7? And who likes 12?", "", "coffee")

    async def elsewhere(seed: str) -> list[str]:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", _ELSEWHERE, urls.service, str(alice.tenant_id), *queries),
            env={**os.environ, "PYTHONHASHSEED": seed},
            stdout=asyncio.subprocess.PIPE,
        )
        said, _ = await process.communicate()
        return said.decode().splitlines()[-len(queries) :]

    core = alice.world.core
    here = [
        (await recall(core, alice.tenant_id, alice.user, Question(query))).lasting.json
        for query in queries
    ]
    one, other = await asyncio.gather(elsewhere("1"), elsewhere("2"))
    assert one == here == other


async def test_a_fact_outside_its_tiers_leaves_the_stable_part_alone(alice: Caller):
    plant(alice, Planted("Answer briefly.", "constraint"), Planted("Likes tea."))
    before = (await alice.get("/memory", params={"query": "tea"})).json()
    plant(alice, Planted("Likes green tea.", age=5), Planted("Wants a tea garden.", "goal", 6))
    after = (await alice.get("/memory", params={"query": "tea"})).json()
    assert after["stable"] == before["stable"]
    assert after["volatile"] != before["volatile"]
    plant(alice, Planted("Is a botanist.", "profile", 7))
    changed = (await alice.get("/memory", params={"query": "tea"})).json()
    assert changed["stable"] != before["stable"]
    assert changed["volatile"] == after["volatile"]
