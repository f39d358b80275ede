"""A request names one user and touches one user: the neighbour's rows stay as they were."""

import json
import random
from uuid import uuid4

import pytest

from app.doors import mcp_tools
from app.errors import NotFound
from tests.api.routes import OF_USERS, Route
from tests.portability.files import fill
from tests.web.conftest import browse, link  # noqa: F401 - a fixture
from tests.world import Caller, World

CANARY = "zqxbob"


@pytest.fixture(scope="module")
async def bob(world: World) -> Caller:
    """A user with rows in every table, under the names that the requests about others use too."""
    bob = (await world.tenant()).of("bob")
    await fill(bob, CANARY)
    await _names_in_common(bob)
    again = {"text": "Likes rain.", "kind": "preference"}
    await bob.post("/facts", again, headers={"Idempotency-Key": "again"})
    await bob.post("/page-links", {})
    key = {"scopes": ["recall"], "user": "bob"}
    assert (await bob.call("POST", "/v1/tenant/keys", json=key)).status_code == 201
    return bob


async def _names_in_common(caller: Caller) -> str:
    """Use a session, a message id, an idempotency key and a path; give the id of a fact."""
    body = {"text": "Uses Postgres at work.", "kind": "preference"}
    posted = await caller.post("/facts", body, headers={"Idempotency-Key": "k"})
    turn = {"role": "user", "content": "I prefer tea to coffee.", "id": "m1"}
    await caller.converse([turn], session="s")
    await caller.get("/memory", params={"query": "work", "session": "s"})
    note = {"command": "create", "path": "/memories/b.md", "file_text": "mine"}
    await caller.post("/memory-tool", note)
    return str(posted.json()["fact"]["id"])


def rows_of(caller: Caller) -> dict[str, list[str]]:
    """Everything that the database holds about a user, by table."""
    world, tenant = caller.world, caller.tenant_id
    [(user,)] = world.rows(
        "select user_id from user_directory where tenant_id = %s and external_id = %s",
        tenant, caller.user,
    )  # fmt: skip
    tables = world.rows(
        "select table_name from information_schema.columns"
        " where column_name = 'user_id' and table_schema = 'public'"
    )
    asked = {name: ("user_id = %s", user) for (name,) in tables}
    asked |= {
        "api_key": ("bound_to = %s", caller.user),
        "audit_log": ("about = %s", user),
        "procrastinate_jobs": ("args->>'user_id' = %s", str(user)),
    }
    return {
        table: sorted(
            row for (row,) in world.rows(f"select t::text from {table} t where {of}", value)
        )
        for table, (of, value) in asked.items()
    }


async def settle(caller: Caller) -> None:
    """Let everything happen that a request has set going."""
    await caller.world.drain()
    await caller.world.core.recalls.write(caller.world.core.db)


async def test_the_neighbour_has_rows_wherever_a_user_can(bob: Caller):
    await settle(bob)
    empty = {table for table, rows in rows_of(bob).items() if not rows}
    assert empty <= {
        "new_vector", "incognito_session", "forgetting_log", "page_session", "unlearned",
        "procrastinate_jobs",
    }  # fmt: skip


@pytest.mark.parametrize("route", OF_USERS, ids=lambda route: route.name)
async def test_a_request_about_one_user_leaves_the_neighbour_as_it_was(route: Route, bob: Caller):
    await settle(bob)
    ann = bob.of(f"ann {uuid4()}")
    own = {"user": ann.user, "session": "s", "fact": await _names_in_common(ann)}
    foreign = (await bob.facts())[0]["id"]
    body = route.body
    if route.path.endswith("/import"):
        document = await bob.get("/export", headers={"Accept": "application/json"})
        body = document.json()
        await settle(bob)
    before = rows_of(bob)

    ways = [{**own, "fact": foreign}, own] if "{fact}" in route.path else [own]
    for ids in ways:
        headers = {"Idempotency-Key": "again", **route.headers}
        answer = await ann.call(route.method, route.fill(**ids), json=body, headers=headers)
        assert answer.status_code < 500, answer.text
        if ids == own:
            is_done = answer.status_code < 400
            assert is_done or answer.json()["code"] in {"fact_live", "session_not_failed"}, (
                answer.text
            )
    await settle(ann)

    assert rows_of(bob) == before


@pytest.mark.parametrize("command", ["create", "str_replace", "insert", "delete", "rename"])
async def test_a_command_over_files_leaves_the_neighbours(command: str, bob: Caller):
    ann = bob.of(f"ann {uuid4()}")
    await _names_in_common(ann)
    await settle(ann)
    before = rows_of(bob)
    path = "/memories/b.md"
    commands: dict[str, dict[str, str | int]] = {
        "create": {"path": "/memories/c.md", "file_text": "other"},
        "str_replace": {"path": path, "old_str": "mine", "new_str": "other"},
        "insert": {"path": path, "insert_line": 0, "insert_text": "other"},
        "delete": {"path": path},
        "rename": {"old_path": path, "new_path": "/memories/d.md"},
    }

    answer = await ann.post("/memory-tool", {"command": command, **commands[command]})

    assert not answer.json()["is_error"], answer.text
    assert rows_of(bob) == before


async def test_other_doors_leave_the_neighbour_too(bob: Caller, browse):  # noqa: F811
    ann = bob.of(f"ann {uuid4()}")
    own, foreign = await _names_in_common(ann), (await bob.facts())[0]["id"]
    address, visit = await link(ann), browse()
    await visit.get(address)
    await visit.send(address)
    tool = mcp_tools.Caller(ann.world.core, ann.tenant_id, ann.user, "mcp")
    before = rows_of(bob)

    with pytest.raises(NotFound):
        await mcp_tools.forget(tool, mcp_tools.ForgetIn.model_validate({"fact_id": foreign}))
    for fact in (foreign, own):
        change = {"text": "Uses it no more.", "revision": "1", "kind": "preference"}
        assert (await visit.post(f"/me/facts/{fact}", **change)).status_code < 500
    deleted = await visit.post(f"/me/facts/{foreign}/delete")
    assert deleted.status_code in {303, 404}
    await visit.post("/me/conversations/delete", session="s")
    await settle(ann)

    assert rows_of(bob) == before


async def test_no_question_of_one_user_finds_another(bob: Caller):
    theirs = [fact["text"] for fact in await bob.facts("all")]
    assert sum(CANARY in text for text in theirs) >= 4
    ann = bob.of(f"ann {uuid4()}")
    await ann.post("/facts", {"text": "Uses Postgres.", "kind": "preference"})
    picks = random.Random(7)  # noqa: S311 - questions, no secrets
    said = " ".join(theirs).split()
    questions = theirs + [" ".join(picks.choices(said, k=picks.randint(1, 9))) for _ in range(200)]

    for question in questions:
        for answer in (
            await ann.get("/memory", params={"query": question}),
            await ann.post("/search", {"query": question, "include_superseded": True}),
        ):
            assert answer.status_code == 200
            assert CANARY not in json.dumps(answer.json()), question
