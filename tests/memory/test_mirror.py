"""What a process holds in memory of a person is never older than what the database says."""

import asyncio
import gc
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from app.memory import mirror
from app.memory.mirror import EMPTY, MOST_FACTS, Mirror, Mirrors
from app.memory.recall import Question, find_person, recall
from app.settings import Settings
from tests.planting import Planted, embedded, plant
from tests.world import Caller

MODEL = "usem3-512"


def held(caller: Caller) -> Mirror | None:
    user_id = caller.world.core.people[caller.tenant_id, caller.user]
    return caller.world.core.mirrors.known(user_id, MODEL)


async def blocks(caller: Caller, mirrors: Mirrors) -> list[str]:
    """What a process that holds these mirrors recalls."""
    core = replace(caller.world.core, mirrors=mirrors)
    questions = ("tea", "", "Where do I work?")
    return [
        (await recall(core, caller.tenant_id, caller.user, Question(query))).block
        for query in questions
    ]


async def test_every_kind_of_change_is_recalled_at_once_by_a_process_that_knew_the_person(
    alice: Caller,
):
    elsewhere = Mirrors(2**20)

    async def agree(expected: str, *, shown: bool) -> None:
        warm, cold = await blocks(alice, elsewhere), await blocks(alice, Mirrors(0))
        assert warm == cold
        assert any(expected in block for block in warm) is shown

    await alice.say("I prefer green tea. I work at Aurora.")
    await agree("Aurora", shown=True)
    await alice.say("I moved on: I work at Borealis now.")
    await agree("Borealis", shown=True)
    await agree("Aurora", shown=False)
    tea = next(fact for fact in await alice.facts() if "tea" in fact["text"])
    path, tag = f"/facts/{tea['id']}", {"If-Match": f'"{tea["revision"]}"'}
    changed = await alice.call(
        "PATCH", alice.base + path, json={"text": "Prefers black tea."}, headers=tag
    )
    await agree("Prefers black tea.", shown=True)
    new = changed.json()
    path, tag = f"/facts/{new['id']}", {"If-Match": f'"{new["revision"]}"'}
    await alice.call("PATCH", alice.base + path, json={"pinned": True}, headers=tag)
    await agree("Prefers black tea.", shown=True)
    await alice.delete(path)
    await agree("Prefers black tea.", shown=False)
    await alice.post("/facts", {"text": "Likes white tea.", "kind": "preference"})
    await agree("Likes white tea.", shown=True)
    old = next(fact for fact in await alice.facts("superseded") if "Aurora" in fact["text"])
    assert (await alice.post(f"/facts/{old['id']}/restore", {})).status_code == 200
    await agree("Aurora", shown=True)
    await alice.call("PATCH", alice.base + "/settings", json={"memory": "paused"})
    await agree("Aurora", shown=False)
    await alice.call("PATCH", alice.base + "/settings", json={"memory": "on"})
    await agree("Aurora", shown=True)


async def test_facts_that_did_not_change_are_not_read_again(alice: Caller):
    plant(alice, *await embedded(alice, Planted("Likes tea.")))
    await alice.block("tea")
    first = held(alice)
    await alice.block("coffee")

    assert first is not None
    assert held(alice) is first


async def test_that_there_is_nothing_is_known_too(alice: Caller):
    plant(alice)
    plant(alice, owner=alice.tenant_id)
    core = replace(alice.world.core, mirrors=Mirrors(2**20))
    ids = await find_person(core, alice.tenant_id, alice.user), alice.tenant_id
    assert ids[0] is not None

    async def nothing() -> list[Mirror | None]:
        await recall(core, alice.tenant_id, alice.user, Question("tea"))
        return [core.mirrors.known(id_, MODEL) for id_ in ids if id_]

    first, again = await nothing(), await nothing()
    assert None not in first
    assert all(one is other for one, other in zip(first, again, strict=True))

    plant(alice, Planted("Likes tea."))
    plant(alice, Planted("We deploy on Fridays.", "constraint"), owner=alice.tenant_id)
    (_, _, block) = await blocks(alice, core.mirrors)
    assert "Fridays" in block
    assert "Likes tea." in (await blocks(alice, core.mirrors))[0]


async def test_a_fact_that_expires_in_memory_is_recalled_no_more(alice: Caller):
    soon = datetime.now(UTC) + timedelta(seconds=1.5)
    plant(alice, Planted("Likes tea."), Planted("Wants tea today.", "goal", expires_at=soon))
    assert "Wants tea today." in await alice.block("tea")
    first = held(alice)
    with psycopg.connect(alice.world.urls.superuser) as connection:
        connection.execute("select pg_sleep_until(%s)", (soon,))

    assert "Wants tea today." not in await alice.block("tea")
    assert held(alice) is not first


async def test_nobody_is_held_for_long_by_a_process_that_is_not_asked_any_more(
    alice: Caller, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(mirror, "KEPT_FOR", 0.4)
    plant(alice, Planted("Likes zqx771."))
    mirrors = Mirrors(2**20)
    await blocks(alice, mirrors)

    def is_held() -> bool:
        return any(
            isinstance(it, Mirror) and "Likes zqx771." in it.texts for it in gc.get_objects()
        )

    assert is_held()
    await asyncio.sleep(1)
    assert not is_held()
    assert await blocks(alice, mirrors) == await blocks(alice, Mirrors(0))  # and is not lost
    assert is_held()
    await asyncio.sleep(1)
    assert not is_held()


async def test_of_more_facts_than_are_read_the_always_on_ones_are_what_they_would_be(alice: Caller):
    plant(
        alice,
        Planted("Rule of old.", "constraint", age=1),
        Planted("Likes tea.", age=2),
        Planted("Answer in Romanian.", "goal", age=3, pinned=True),
    )
    alice.world.execute(
        "insert into memory_fact (tenant_id, user_id, id, fingerprint, text, kind, subject, words,"
        " source, guard_version, said_at, created_at, last_confirmed_at)"
        " select tenant_id, user_id, gen_random_uuid(), sha256(n::text::bytea), 'Rule ' || n,"
        " case when n %% 2 = 0 then 'constraint' else 'profile' end, subject, words, source,"
        " guard_version, said_at, created_at + n * interval '1 minute', last_confirmed_at"
        " from memory_fact, generate_series(2, %s) n where tenant_id = %s and kind = 'constraint'",
        MOST_FACTS + 10,
        alice.tenant_id,
    )
    shown = [line for line in (await alice.block()).splitlines() if line.startswith("- ")]

    assert shown == [
        *("- Answer in Romanian.", "- Rule of old."),
        *(f"- Rule {n}" for n in range(2, 22, 2)),
    ]


async def test_as_many_facts_as_are_read_are_kept_by_default(alice: Caller):
    [fact] = await embedded(alice, Planted("Likes tea."))
    plant(alice, fact)
    await alice.block()
    one, none = held(alice), EMPTY.size
    assert one is not None

    most = Settings.model_fields["recall_cache"].default * 2**20
    assert none + MOST_FACTS * (one.size - none) <= most


async def test_what_does_not_fit_is_recalled_all_the_same(alice: Caller):
    plant(alice, Planted("Likes tea."))

    assert await blocks(alice, Mirrors(10)) == await blocks(alice, Mirrors(2**20))


async def test_the_least_used_people_make_room(alice: Caller):
    plant(alice, Planted("Likes tea."))
    await alice.block("tea")
    one = held(alice)
    assert one is not None
    per_person = one.size
    mirrors = Mirrors(2 * per_person + 100)
    for name in ("one", "two", "three", "four"):
        plant(alice.of(name), Planted("Likes tea."))
        await blocks(alice.of(name), mirrors)
    kept = [
        name
        for name in ("one", "two", "three", "four")
        if mirrors.known(alice.world.core.people[alice.tenant_id, name], MODEL)
    ]

    assert kept == ["three", "four"]
