"""Search with its filters, feedback on recalls, and the sample for labelling by hand."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from app.memory import recall_log
from tests.api.test_errors import check_problem
from tests.planting import EPOCH, Planted, embedded, plant
from tests.world import Caller


async def find(caller: Caller, query: str = "tea", **filters: Any) -> list[dict[str, Any]]:
    answer = await caller.post("/search", {"query": query, **filters})
    assert answer.status_code == 200, answer.text
    return answer.json()["items"]


async def texts(caller: Caller, query: str = "tea", **filters: Any) -> list[str]:
    return [item["fact"]["text"] for item in await find(caller, query, **filters)]


async def test_a_hit_shows_the_fact_and_the_parts_of_its_score(alice: Caller):
    plant(alice, *await embedded(alice, Planted("Prefers window seats."), Planted("Owns a dog.")))
    plant(alice, Planted("A window was broken.", age=2))
    items = await find(alice, "Which seat do I like, the window?")
    assert set(items[0]["fact"]) >= {"id", "text", "status", "metadata", "revision"}
    both, words_only = items
    assert both["fact"]["text"] == "Prefers window seats."
    assert both["vector_score"] > 0.15
    assert both["text_score"] > 0
    assert (words_only["vector_score"], words_only["text_score"] > 0) == (None, True)
    assert both["score"] > words_only["score"] > 0
    fact = (await alice.get(f"/facts/{both['fact']['id']}")).json()
    assert fact == both["fact"]


@pytest.fixture
def shelf(alice: Caller) -> Caller:
    shelf: list[tuple[str, dict[str, Any]]] = [
        ("nine", {"level": 9, "team": "data"}),
        ("ten", {"level": 10, "team": "data"}),
        ("text", {"level": "9", "team": "web"}),
        ("true", {"level": True}),
        ("null", {"level": None}),
        ("list", {"level": [9], "a.b": {"c": 1}}),
        ("none", {}),
    ]
    plant(
        alice,
        *(
            Planted(f"Tea {name}.", age=n, metadata=metadata)
            for n, (name, metadata) in enumerate(shelf)
        ),
    )
    return alice


@pytest.mark.parametrize(
    ("metadata", "found"),
    [
        ({"level": 9}, "nine"),
        ({"level": 9.0}, "nine"),
        ({"level": "9"}, "text"),
        ({"level": True}, "true"),
        ({"level": None}, "null"),
        ({"level": [9]}, "list"),
        ({"level": {"eq": 9}}, "nine"),
        ({"a.b": {"eq": {"c": 1}}}, "list"),
        ({"level": {"ne": 9}}, "ten text true null list none"),
        ({"level": {"lt": 10}}, "nine"),
        ({"level": {"lte": 10}}, "nine ten"),
        ({"level": {"gt": 9}}, "ten"),
        ({"level": {"gte": 9, "lt": 10}}, "nine"),
        ({"level": {"gt": "8"}}, "text"),
        ({"level": {"in": [10, "9", None]}}, "ten text null"),
        ({"level": {"in": []}}, ""),
        ({"level": {"exists": True}}, "nine ten text true null list"),
        ({"team": {"exists": False}}, "true null list none"),
        ({"team": "data", "level": {"lt": 10}}, "nine"),
        ({"x' or true --": 1}, ""),
    ],
)
async def test_metadata_is_compared_by_json_type(shelf: Caller, metadata: Any, found: str):
    hits = {
        text.removeprefix("Tea ").removesuffix(".")
        for text in await texts(shelf, metadata=metadata)
    }
    assert hits == set(found.split())


@pytest.mark.parametrize(
    "metadata",
    [
        {"a": {}}, {"a": {"like": "x"}}, {"a": {"eq": 1, "drop": 2}}, {"a": {"lt": None}},
        {"a": {"lt": True}}, {"a": {"gt": [1]}}, {"a": {"in": 3}}, {"a": {"exists": "yes"}},
        [1], "x",
    ],
)  # fmt: skip
async def test_a_filter_without_meaning_is_refused(shelf: Caller, metadata: Any):
    answer = await shelf.post("/search", {"query": "tea", "metadata": metadata})
    check_problem(answer, 422)


async def test_kinds_and_limit_narrow_the_search(alice: Caller):
    plant(alice, Planted("Tea goal.", "goal"), Planted("Tea rule.", "constraint", 1))
    assert await texts(alice, kinds=["goal"]) == ["Tea goal."]
    assert await texts(alice, kinds=[]) == []
    assert len(await texts(alice, limit=1)) == 1
    for wrong in (
        {"limit": 0},
        {"limit": 201},
        {"kinds": ["mood"]},
        {"sort": "x"},
        {"as_of": "now"},
    ):
        check_problem(await alice.post("/search", {"query": "tea", **wrong}), 422)
    check_problem(await alice.post("/search", {}), 422)


async def test_superseded_facts_are_found_on_request_and_by_their_time(alice: Caller):
    turn = EPOCH + timedelta(days=30)
    plant(
        alice,
        Planted("Drinks black tea.", superseded_at=datetime.now(UTC), valid_to=turn),
        Planted("Drinks green tea.", age=60 * 24 * 30, valid_from=turn),
        Planted("Hidden tea.", quarantined_at=datetime.now(UTC)),
    )
    assert await texts(alice) == ["Drinks green tea."]
    found = await find(alice, include_superseded=True)
    assert {item["fact"]["status"] for item in found} == {"live", "superseded"}
    before = (turn - timedelta(days=1)).isoformat()
    assert await texts(alice, as_of=before) == ["Drinks black tea."]
    assert await texts(alice, as_of=turn.isoformat()) == ["Drinks green tea."]


async def test_nothing_is_found_of_others_of_the_unseen_or_while_memory_is_off(alice: Caller):
    plant(alice, Planted("Likes tea."))
    assert await texts(alice.of("nobody")) == []
    assert await texts(alice, "") == []
    await alice.call("PUT", f"{alice.base}/settings", json={"memory": "paused"})
    assert await texts(alice) == []


async def recall_of(caller: Caller, **params: Any) -> dict[str, Any]:
    return (await caller.get("/memory", params={"query": "tea", **params})).json()


async def judged(caller: Caller, recall_id: str, **verdicts: Any):
    return await caller.call("POST", f"/v1/recalls/{recall_id}/feedback", json=verdicts)


async def test_feedback_is_kept_at_once_and_counts_into_precision(alice: Caller):
    plant(alice, Planted("Likes tea."), Planted("Hates tea.", age=1), Planted("Tea time.", age=2))
    answer = await recall_of(alice)
    one, two, three = (fact["id"] for fact in answer["facts"])

    assert (await judged(alice, answer["recall_id"], relevant=[one, two])).status_code == 204
    corrected = await judged(alice, answer["recall_id"], relevant=[], irrelevant=[two, three])
    assert corrected.status_code == 204

    row = alice.world.rows(
        "select facts, relevant, irrelevant from recall_log where tenant_id = %s", alice.tenant_id
    )
    assert [[str(id_) for id_ in ids] for ids in row[0]] == [
        [one, two, three],
        [one],
        sorted([two, three]),
    ]
    async with alice.world.core.db.tenant(alice.tenant_id) as tx:
        now = datetime.now(UTC)
        hour = timedelta(hours=1)
        precision = await recall_log.precision(tx, alice.tenant_id, now - hour, now + hour)
        assert precision == pytest.approx(1 / 3)
        assert await recall_log.precision(tx, alice.tenant_id, now + hour, now + 2 * hour) is None


async def test_feedback_names_a_recall_of_this_tenant_and_facts_of_this_recall(
    alice: Caller, other: Caller
):
    plant(alice, Planted("Likes tea."))
    answer = await recall_of(alice)
    fact = answer["facts"][0]["id"]
    check_problem(await judged(alice, answer["recall_id"], relevant=[str(uuid4())]), 422)
    check_problem(await judged(alice, answer["recall_id"], relevant=[fact], irrelevant=[fact]), 422)
    check_problem(await judged(other, answer["recall_id"], relevant=[fact]), 404)
    check_problem(await judged(alice, str(uuid4()), relevant=[fact]), 404)
    check_problem(await judged(alice, "no-uuid", relevant=[fact]), 422)


async def test_the_sample_gives_recent_recalls_by_ids_alone(alice: Caller):
    plant(alice, Planted("Likes tea."))
    first = await recall_of(alice, session="s")
    second = await recall_of(alice, session="s")
    sample = await alice.call("GET", "/v1/recalls/sample", params={"n": 2})
    assert sample.status_code == 200, sample.text
    assert "tea" not in sample.text
    newest, before = sample.json()["items"]
    assert (newest["recall_id"], newest["frozen"]) == (second["recall_id"], True)
    assert (before["recall_id"], before["user"]) == (first["recall_id"], "alice")
    assert before["facts"] == [fact["id"] for fact in first["facts"]]
    check_problem(await alice.call("GET", "/v1/recalls/sample", params={"n": 0}), 422)


async def test_a_recalled_fact_is_marked_once_a_day_also_by_frozen_and_304_answers(alice: Caller):
    plant(alice, Planted("Likes tea."), Planted("We ship.", "constraint"))
    plant(alice, Planted("Org rule.", "constraint"), owner=alice.tenant_id)
    core = alice.world.core
    marks = "select last_recalled_at from memory_fact where tenant_id = %s order by text"

    first = await alice.get("/memory", params={"query": "tea", "session": "s"})
    await core.recalls.write(core.db)
    marked = alice.world.rows(marks, alice.tenant_id)
    assert all(at for (at,) in marked)
    assert len(marked) == 3

    await recall_of(alice)
    await core.recalls.write(core.db)
    assert alice.world.rows(marks, alice.tenant_id) == marked

    with psycopg.connect(alice.world.urls.superuser) as connection:
        connection.execute(
            "update memory_fact set last_recalled_at = null where tenant_id = %s",
            (alice.tenant_id,),
        )
    core.recalls._recalled_today.clear()  # the next day
    again = await alice.get(
        "/memory",
        params={"query": "tea", "session": "s"},
        headers={"If-None-Match": first.headers["etag"]},
    )
    assert again.status_code == 304
    await core.recalls.write(core.db)
    assert all(at for (at,) in alice.world.rows(marks, alice.tenant_id))


async def test_old_lines_and_blocks_go_and_a_user_takes_theirs_along(alice: Caller):
    plant(alice, Planted("Likes tea."))
    await recall_of(alice, session="s")
    core = alice.world.core
    await core.recalls.write(core.db)
    count = (
        "select (select count(*) from recall_log where tenant_id = %s),"
        " (select count(*) from frozen_block where tenant_id = %s)"
    )
    of = (alice.tenant_id, alice.tenant_id)
    async with core.db.tenant(alice.tenant_id) as tx:
        assert await recall_log.expire(tx, alice.tenant_id, timedelta(days=30)) == 0
    assert alice.world.rows(count, *of) == [(1, 1)]
    with psycopg.connect(alice.world.urls.superuser) as connection:
        for table, column in (("recall_log", "at"), ("frozen_block", "created_at")):
            connection.execute(
                f"update {table} set {column} = {column} - interval '31 days' where tenant_id = %s",
                (alice.tenant_id,),
            )
    async with core.db.tenant(alice.tenant_id) as tx:
        assert await recall_log.expire(tx, alice.tenant_id, timedelta(days=30)) == 1
    assert alice.world.rows(count, *of) == [(0, 0)]

    await recall_of(alice)
    await core.recalls.write(core.db)
    with psycopg.connect(alice.world.urls.superuser) as connection:
        connection.execute("delete from memory_user where tenant_id = %s", (alice.tenant_id,))
    await recall_of(alice)
    await core.recalls.write(core.db)
    assert alice.world.rows(count, *of) == [(0, 0)]


async def test_lines_of_a_user_erased_meanwhile_are_dropped_and_others_kept(alice: Caller):
    plant(alice, Planted("Likes tea."))
    plant(alice.of("bob"), Planted("Likes tea."))
    await recall_of(alice)
    await recall_of(alice.of("bob"))
    with psycopg.connect(alice.world.urls.superuser) as connection:
        connection.execute(
            "delete from memory_user u using user_directory d where u.tenant_id = %s"
            " and d.tenant_id = u.tenant_id and d.user_id = u.user_id and d.external_id = 'alice'",
            (alice.tenant_id,),
        )
    core = alice.world.core
    await core.recalls.write(core.db)
    lines = "select count(*) from recall_log where tenant_id = %s"
    assert alice.world.rows(lines, alice.tenant_id) == [(1,)]


async def test_a_row_of_an_older_guard_is_looked_at_again(alice: Caller):
    kept = (await alice.post("/facts", {"text": "Uses Redis.", "kind": "preference"})).json()
    alice.world.execute(
        "update memory_fact set guard_version = 0, text = %s where id = %s",
        "Uses Redis with password hunter2-ZQX!",
        kept["fact"]["id"],
    )

    found = (await alice.post("/search", {"query": "Redis"})).json()["items"]

    assert found == []
