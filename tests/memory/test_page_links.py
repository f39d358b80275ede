"""A link opens the user's own page once, for minutes; then the browser has a session of its own."""

import asyncio
import base64
import re
from datetime import datetime, timedelta

import psycopg
import pytest

from app.errors import Gone, Unauthorized
from app.memory import page_links, retention
from tests.fakes import until
from tests.world import Caller

WAITING = (
    "select count(*) from pg_stat_activity"
    " where datname = current_database() and wait_event_type = 'Lock'"
)


async def link(caller: Caller, **body: int) -> str:
    answer = await caller.post("/page-links", body or None)
    assert answer.status_code == 201, answer.text
    return answer.json()["url"].split("token=")[1]


async def test_a_link_names_the_page_and_lasts_a_quarter_of_an_hour(alice):
    ((now,),) = alice.world.rows("select now()")
    answer = await alice.post("/page-links")

    told = answer.json()
    assert re.fullmatch(r"http://127\.0\.0\.1:8000/me\?token=[\w-]{75}", told["url"])
    lasts = datetime.fromisoformat(told["expires_at"]) - now
    assert timedelta(seconds=895) < lasts < timedelta(seconds=910)


@pytest.mark.parametrize("seconds", [0, 901, -1, "900", 1.5, True, None])
async def test_a_link_lasts_no_longer(alice, seconds):
    answer = await alice.post("/page-links", {"expires_in": seconds})
    assert answer.status_code == 422


async def test_a_link_opens_the_page_of_its_user_once(alice, other):
    token = await link(alice.of("josé/1"))

    cookie, visit = await page_links.consume_link(alice.world.core, token)

    assert visit.user == "josé/1"
    assert visit.scope.tenant_id == alice.tenant_id
    found = await page_links.find_page_session(alice.world.core, cookie)
    assert (found.user, found.scope) == (visit.user, visit.scope)
    with pytest.raises(Gone):
        await page_links.consume_link(alice.world.core, token)
    assert (await page_links.find_page_session(alice.world.core, cookie)).user == "josé/1"
    with pytest.raises(Unauthorized):
        await page_links.find_page_session(alice.world.core, token)


async def test_only_digests_are_stored(alice):
    token = await link(alice)
    cookie, _ = await page_links.consume_link(alice.world.core, token)
    second = await link(alice)

    for table, secret in (("page_session", cookie), ("page_link", second)):
        ((digest,),) = alice.world.rows(
            f"select digest from {table} where tenant_id = %s", alice.tenant_id
        )
        assert len(digest) == 32
        assert digest not in base64.urlsafe_b64decode(secret + "=")


@pytest.mark.parametrize("token", ["", "x", "é", "A" * 75, "A" * 76, "=" * 75, "\x00"])
async def test_what_is_no_token_opens_nothing(world, token):
    with pytest.raises(Gone):
        await page_links.consume_link(world.core, token)
    with pytest.raises(Unauthorized):
        await page_links.find_page_session(world.core, token)


@pytest.mark.usefixtures("alone")
async def test_links_and_sessions_end_with_their_time_and_are_swept(alice):
    token = await link(alice, expires_in=1)
    cookie, _ = await page_links.consume_link(alice.world.core, await link(alice))
    for table in ("page_link", "page_session"):
        alice.world.execute(f"update {table} set expires_at = now() - interval '1 second'")

    with pytest.raises(Gone):
        await page_links.consume_link(alice.world.core, token)
    with pytest.raises(Unauthorized):
        await page_links.find_page_session(alice.world.core, cookie)

    await retention.retain(alice.world.core)
    for table in ("page_link", "page_session"):
        assert alice.world.rows(f"select 1 from {table}") == []


@pytest.mark.parametrize("memory", ["paused", "restricted"])
async def test_links_end_when_memory_is_switched_off_but_an_open_page_stays(alice, memory):
    token = await link(alice)
    cookie, _ = await page_links.consume_link(alice.world.core, await link(alice))

    await alice.call("PATCH", f"{alice.base}/settings", json={"memory": memory})

    with pytest.raises(Gone):
        await page_links.consume_link(alice.world.core, token)
    # The page is where the user switches it on again.
    assert (await page_links.find_page_session(alice.world.core, cookie)).user == "alice"


async def test_links_and_sessions_end_with_an_erasure(alice):
    token = await link(alice)
    cookie, _ = await page_links.consume_link(alice.world.core, await link(alice))

    await alice.delete("")

    with pytest.raises(Gone):
        await page_links.consume_link(alice.world.core, token)
    with pytest.raises(Unauthorized):
        await page_links.find_page_session(alice.world.core, cookie)


async def test_opening_a_page_waits_for_an_erasure_without_a_deadlock(alice):
    token = await link(alice)
    person = (alice.tenant_id,)
    async with await psycopg.AsyncConnection.connect(alice.world.urls.superuser) as erasing:
        await erasing.execute("select 1 from memory_user where tenant_id = %s for update", person)
        opening = asyncio.create_task(page_links.consume_link(alice.world.core, token))
        await until(lambda: alice.world.rows(WAITING) != [(0,)])
        await erasing.execute("set local lock_timeout = '3s'")
        await erasing.execute("delete from page_link where tenant_id = %s", person)

    with pytest.raises(Gone):
        await opening
