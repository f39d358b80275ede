"""No key, no id and no race shows a tenant anything of another, nor one user another's."""

import asyncio
import random
import re
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from app.db import SERVICE_ROLE
from app.lines import statement
from app.settings import Settings
from app.wire import decode_id
from tests.api.routes import KEYED, ROUTES, Route
from tests.world import Caller, World

CANARY = "zqx771"


@pytest.fixture(scope="module")
async def owner(world: World) -> Caller:
    """The tenant whose rows nobody else may see or touch; no test here changes them."""
    return await world.tenant()


@pytest.fixture(scope="module")
async def ids(owner: Caller) -> dict[str, str]:
    """What the owner has: a user with a fact and a session, all with a canary in them."""
    session = f"chat {CANARY}"
    await owner.say(f"My favourite word is {CANARY}.", session=session)
    posted = await owner.post("/facts", {"text": f"Uses {CANARY}.", "kind": "preference"})
    return {"user": owner.user, "session": session, "fact": posted.json()["fact"]["id"]}


def _unnamed(answer: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in answer.items() if key != "request_id"}


async def test_the_table_of_routes_is_whole(world: World):
    documented = {
        f"{method.upper()} {path}"
        for path, operations in world.app.openapi()["paths"].items()
        for method in operations
    }
    assert documented == {route.name for route in ROUTES}


@pytest.mark.parametrize("route", KEYED, ids=lambda route: route.name)
async def test_another_tenants_ids_are_unknown(
    route: Route, owner: Caller, other: Caller, ids: dict[str, str]
):
    before = owner.world.rows("select * from memory_fact where tenant_id = %s", owner.tenant_id)

    answer = await other.call(
        route.method, route.fill(**ids), json=route.body, headers=route.headers
    )

    assert answer.status_code == route.foreign, answer.text
    assert CANARY not in answer.text.replace(ids["session"], "")
    if route.foreign == 404:
        unknown = {**ids, "session": "never", "fact": str(uuid4())}
        same = await other.call(
            route.method, route.fill(**unknown), json=route.body, headers=route.headers
        )
        assert _unnamed(same.json()) == _unnamed(answer.json())
    after = owner.world.rows("select * from memory_fact where tenant_id = %s", owner.tenant_id)
    assert after == before


@pytest.mark.parametrize("route", KEYED, ids=lambda route: route.name)
async def test_another_users_ids_are_unknown(route: Route, owner: Caller, ids: dict[str, str]):
    neighbour = {**ids, "user": f"bob {uuid4()}"}
    answer = await owner.call(
        route.method, route.fill(**neighbour), json=route.body, headers=route.headers
    )
    assert answer.status_code == route.foreign, answer.text
    assert CANARY not in answer.text.replace(ids["session"], "")


@pytest.mark.parametrize("route", KEYED, ids=lambda route: route.name)
async def test_without_a_key_nothing_is_told(route: Route, world: World, ids: dict[str, str]):
    answer = await world.http.request(route.method, route.fill(**ids), json=route.body)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json()["code"] == "unauthorized"


async def test_a_cursor_of_another_tenant_user_or_filter_is_refused(alice: Caller, other: Caller):
    for number in range(3):
        await alice.post("/facts", {"text": f"Uses tool {number}.", "kind": "preference"})
    cursor = (await alice.get("/facts", params={"limit": 1})).json()["next_cursor"]

    foreign = [
        await other.get("/facts", params={"cursor": cursor}),
        await alice.of("bob").get("/facts", params={"cursor": cursor}),
        await alice.get("/facts", params={"cursor": cursor, "status": "all"}),
        await alice.get("/facts", params={"cursor": cursor, "kind": "preference"}),
        await alice.get("/sessions", params={"cursor": cursor}),
        await alice.get("/facts", params={"cursor": cursor[:-2]}),
        await alice.get("/facts", params={"cursor": "naïve"}),
    ]

    assert [(a.status_code, a.json()["code"]) for a in foreign] == [(422, "bad_cursor")] * 7
    assert (await alice.get("/facts", params={"cursor": cursor})).status_code == 200


@pytest.mark.parametrize("user", ["john_doe", "john%", "*", "null", "' OR '1'='1"])
async def test_wildcards_in_ids_are_letters(alice: Caller, user: str):
    names = ["john_doe", "john-doe", "johnXdoe", "john%", "john", "john2", "*", "null"]
    names.append("' OR '1'='1")
    for name in names:
        posted = await alice.of(name).post(
            "/facts", {"text": f"Uses canary{names.index(name)}.", "kind": "preference"}
        )
        assert posted.status_code == 201, posted.text

    mine = f"canary{names.index(user)}"
    assert await alice.of(user).texts() == [f"Uses {mine}."]
    block = await alice.of(user).block("which canary0 canary1 canary2 canary3 canary4 canary5")
    assert all(f"canary{n}." not in block or f"canary{n}" == mine for n in range(len(names)))


# What the database itself guarantees, whatever the service asks.


async def test_every_table_of_tenants_is_behind_forced_row_level_security(world: World):
    unguarded = world.rows(
        """
        select c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where n.nspname not in ('pg_catalog', 'information_schema') and c.relkind in ('r', 'p')
          and exists (select from pg_attribute a where a.attrelid = c.oid and not a.attisdropped
                        and a.attname = 'tenant_id' or c.relname = 'tenant')
          and not (c.relrowsecurity and c.relforcerowsecurity and exists (
                select from pg_policy p where p.polrelid = c.oid and p.polcmd = '*'
                  and p.polpermissive and p.polqual is not null and p.polwithcheck is not null))
        """
    )
    lenient = world.rows(
        "select polrelid::regclass, polname from pg_policy where "
        "pg_get_expr(polqual, polrelid) !~ 'app.tenant_id' or "
        "pg_get_expr(polwithcheck, polrelid) !~ 'app.tenant_id'"
    )
    assert (unguarded, lenient) == ([], [])


async def test_only_what_is_nobodys_stands_outside(world: World):
    outside = world.rows(
        "select relname from pg_class c join pg_namespace n on n.oid = c.relnamespace "
        "where n.nspname in ('public', 'app') and relkind in ('r', 'p') and not relrowsecurity"
    )
    names = {name for (name,) in outside if not name.startswith("procrastinate_")}
    assert names == {"alembic_version", "worker_state"}


async def test_the_services_role_owns_nothing_and_bypasses_nothing(world: World):
    [role] = world.rows(
        "select rolsuper, rolbypassrls, rolcreaterole, rolcreatedb, "
        "(select count(*) from pg_class where relowner = r.oid), "
        "(select count(*) from pg_auth_members where member = r.oid) "
        "from pg_roles r where rolname = %s",
        SERVICE_ROLE,
    )
    assert role == (False, False, False, False, 0, 0)


async def test_views_and_functions_open_no_side_door(world: World):
    views = world.rows(
        "select c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace "
        "where n.nspname in ('public', 'app') and c.relkind in ('v', 'm') "
        "and not coalesce(c.reloptions::text ~ 'security_invoker=true', false) "
        "and not exists (select from pg_depend d where d.objid = c.oid and d.deptype = 'e')"
    )
    definers = world.rows(
        "select p.proname from pg_proc p join pg_namespace n on n.oid = p.pronamespace "
        "where n.nspname in ('public', 'app') and p.prosecdef "
        "and not coalesce(p.proconfig::text ~ 'search_path=pg_catalog', false)"
    )
    assert (views, definers) == ([], [])


async def test_without_a_tenant_the_service_sees_no_row(world: World, ids: dict[str, str]):
    tables = [
        name
        for (name,) in world.rows(
            "select relname from pg_class c join pg_namespace n on n.oid = c.relnamespace "
            "where n.nspname = 'public' and relkind = 'r' and relrowsecurity"
        )
    ]
    assert len(tables) >= 14
    with psycopg.connect(world.urls.service) as connection:
        connection.execute(f"set local role {SERVICE_ROLE}")
        seen = {
            name: connection.execute(f"select count(*) from {name}").fetchone() for name in tables
        }
    assert seen == dict.fromkeys(tables, (0,))


async def test_the_service_can_not_write_for_another_tenant(
    world: World, alice: Caller, other: Caller
):
    with psycopg.connect(world.urls.service) as connection:
        connection.execute(f"set local role {SERVICE_ROLE}")
        connection.execute("select app.enter_tenant(%s)", [other.tenant_id])
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(
                "insert into memory_user (tenant_id, user_id) values (%s, %s)",
                [alice.tenant_id, uuid4()],
            )


async def test_a_row_can_not_point_at_another_tenants_row(
    world: World, ids: dict[str, str], other: Caller
):
    await other.post("/facts", {"text": "Uses Postgres.", "kind": "preference"})
    [(user_id,)] = world.rows(
        "select user_id from memory_user where tenant_id = %s", other.tenant_id
    )

    def refusal(fact_id: UUID) -> str:
        with psycopg.connect(world.urls.service) as connection:
            connection.execute(f"set local role {SERVICE_ROLE}")
            connection.execute("select app.enter_tenant(%s)", [other.tenant_id])
            with pytest.raises(psycopg.errors.ForeignKeyViolation) as caught:
                connection.execute(
                    "insert into evidence (tenant_id, user_id, id, fact_id, quote, said_at) "
                    "values (%s, %s, %s, %s, 'x', now())",
                    [other.tenant_id, user_id, uuid4(), fact_id],
                )
        return str(caught.value).replace(str(fact_id), "")

    assert refusal(UUID(ids["fact"])) == refusal(uuid4())


# What happens on a connection that many requests share.


@pytest.fixture(scope="module")
async def narrow(world: World):
    """The same API over pools of two, where every connection changes hands all the time."""
    tight = Settings(
        database_url=world.urls.service,
        signing_key="k" * 40,
        extractor="rules",
        pool_size=2,
        pool_timeout="20s",
        log_level="warning",
    )
    async with World.open(tight, world.urls) as opened:
        yield opened


async def test_what_is_kept_in_memory_of_one_user_is_nobody_elses(alice: Caller, other: Caller):
    """Users of one id in two tenants, two users of one tenant, one question, one session id."""
    people = [alice, other, alice.of("bob")]
    for number, person in enumerate(people):
        text = f"Hides the spare key under pot {CANARY}{number}."
        await person.post("/facts", {"text": text, "kind": "preference"})
    await other.call(
        "POST",
        "/v1/organization/facts",
        json={"text": f"We bake {CANARY}9.", "kind": "constraint"},
    )
    own = [{f"{CANARY}0"}, {f"{CANARY}1", f"{CANARY}9"}, {f"{CANARY}2"}]

    async def seen(person: Caller, **params: str) -> set[str]:
        query = f"Who hides the spare key under pot {CANARY}2?"
        answer = await person.get("/memory", params={"query": query, **params})
        assert answer.headers["cache-control"] == "private, no-store"
        return set(re.findall(rf"{CANARY}\d", answer.text))

    for _ in range(3):  # nothing is known, then all of it
        for person, expected in zip(people, own, strict=True):
            assert await seen(person) == expected
            assert await seen(person, session="one") == expected
    for person in people:
        exported = await person.get("/export")
        assert exported.headers["cache-control"] == "private, no-store"


async def test_a_connection_forgets_its_tenant_under_cancelled_and_failing_requests(
    narrow: World,
):
    callers = [await narrow.tenant() for _ in range(2)]
    for number, caller in enumerate(callers):
        await caller.post("/facts", {"text": f"Uses tool{number}.", "kind": "constraint"})
    picks = random.Random(7)  # noqa: S311 - which request is dropped, not a secret
    answered: list[bool] = []

    async def ask(turn: int) -> None:
        mine = turn % 2
        kind = picks.choice(["facts", "memory", "dropped", "raising"])
        if kind == "dropped":
            task = asyncio.create_task(callers[mine].get("/memory", params={"query": "tool0"}))
            await asyncio.sleep(picks.random() * 0.03)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        elif kind == "raising":
            answer = await callers[mine].get(f"/facts/{uuid4()}")
            assert answer.status_code in {404, 503}  # a crowd before two connections may be 503
        else:
            answer = await callers[mine].get(f"/{kind}")
            assert f"tool{1 - mine}" not in answer.text
            assert answer.status_code == 503 or f"tool{mine}" in answer.text
            answered.append(answer.status_code == 200)

    crowd = asyncio.Semaphore(12)

    async def ask_in_turn(turn: int) -> None:
        async with crowd:
            await ask(turn)

    await asyncio.gather(*(ask_in_turn(turn) for turn in range(300)))
    assert sum(answered) > len(answered) / 2

    question = (
        "select current_user = session_user, nullif(current_setting('app.tenant_id', true), '')"
    )
    for _ in range(4):
        async with narrow.core.db.pool.connection() as connection:
            raw = await (await connection.execute(question)).fetchone()
        assert raw == (True, None)
        line = await narrow.core.db.lines.take()
        [found] = await line.exchange([(statement(question), {})])
        await narrow.core.db.lines.give(line)
        assert (found.get_value(0, 0), found.get_value(0, 1)) == (b"\x01", None)
        async with narrow.core.db._sessions() as session:
            row = (await session.execute(text(question))).one()
        assert tuple(row) == (True, None)


# Look-alike ids and ambiguous joins.

_PARTS = st.lists(
    st.text(
        st.sampled_from("aAée\u0301:|/\x1f_ %0ß\u200bа"),
        max_size=3,  # the last one is Cyrillic
    ),
    min_size=1,
    max_size=4,
)


@given(_PARTS, _PARTS)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_keyed_hashes_differ_whenever_any_part_does(
    world: World, one: list[str], another: list[str]
):
    assert (world.core.keyed_hash(*one) == world.core.keyed_hash(*another)) == (one == another)


async def test_ids_that_look_alike_are_different_users(alice: Caller):
    names = ["ana", "Ana", "аna", "ana\u200b", "ana ", " ana", "ａｎａ", "ana/x", "ana%2Fx", "añа"]
    for number, name in enumerate(names):
        posted = await alice.of(name).post(
            "/facts", {"text": f"Uses thing{number}.", "kind": "preference"}
        )
        assert posted.status_code == 201, posted.text
    for number, name in enumerate(names):
        assert await alice.of(name).texts() == [f"Uses thing{number}."]


async def test_one_id_in_two_unicode_forms_is_one_user(alice: Caller):
    await alice.of("jose\u0301").post("/facts", {"text": "Uses Go.", "kind": "preference"})
    assert await alice.of("jos\u00e9").texts() == ["Uses Go."]
    assert decode_id("jose%CC%81") == "jos\u00e9"
