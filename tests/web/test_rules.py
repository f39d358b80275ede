"""The page's rules, as far as HTTP shows them: who gets in, what counts, what is never told."""

import re
from collections.abc import Callable
from datetime import timedelta
from html import unescape
from urllib.parse import urlencode

import pytest

from tests.planting import Planted, plant
from tests.web.conftest import Visit, link
from tests.world import Caller

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
KEY = "sk-ant-api03-Qx7Lm2Vb9Tz4Rk8Wp1Nc6Yd3"


async def said(caller: Caller, text: str = "I live in Lisbon.", session: str = "one") -> str:
    """A fact of the conversation; its id."""
    await caller.say(text, session=session)
    return (await caller.facts())[0]["id"]


# The way in.


async def test_looking_at_a_link_uses_nothing_up(alice: Caller, browse: Callable[[], Visit]):
    address = await link(alice)
    preview, visit = browse(), browse()

    for _ in range(3):
        shown = await preview.get(address)
        assert shown.status_code == 200
        assert "Open my memory" in shown.text
        assert "set-cookie" not in shown.headers
    assert (await preview.http.head(address)).status_code == 200

    opened = await visit.send("/me", token=address.partition("token=")[2])
    assert (opened.status_code, opened.headers["location"]) == (303, "/me")
    assert "What is remembered about you" in await visit.read()


async def test_the_link_itself_can_be_posted(alice: Caller, browse: Callable[[], Visit]):
    visit = browse()
    assert (await visit.send(await link(alice), headers={})).status_code == 303
    assert "Nothing is remembered about you yet." in await visit.read()


async def test_a_used_late_or_invented_link_opens_nothing(
    alice: Caller, browse: Callable[[], Visit]
):
    used = (await link(alice)).partition("token=")[2]
    await browse().send("/me", token=used)
    late = (await link(alice)).partition("token=")[2]
    alice.world.execute("update page_link set expires_at = now() - interval '1 second'")

    for token in (used, late, used[:-1] + ("A" if used[-1] != "A" else "B"), "x", "\0", "é"):
        visit = browse()
        refused = await visit.send("/me", token=token)
        assert refused.status_code == 410
        assert "This link no longer works" in refused.text
        assert token == "x" or token not in refused.text
        assert (await visit.get("/me")).status_code == 401
    assert (await browse().send("/me")).status_code == 410


async def test_the_session_is_a_cookie_for_this_page_alone(
    alice: Caller, browse: Callable[[], Visit]
):
    opened = await browse().send("/me", token=(await link(alice)).partition("token=")[2])

    cookie = opened.headers["set-cookie"]
    assert re.fullmatch(
        r"usermem_page=[\w-]{75}; HttpOnly; Max-Age=1800; Path=/me; SameSite=strict", cookie
    )


async def test_behind_tls_the_cookie_is_secure(alice: Caller, browse: Callable[[], Visit]):
    visit = browse()
    visit.http.base_url = "https://test"
    opened = await visit.send("/me", token=(await link(alice)).partition("token=")[2])
    assert "; Secure" in opened.headers["set-cookie"]


async def test_a_session_ends_after_half_an_hour(page: Visit, alice: Caller):
    ((left,),) = alice.world.rows(
        "select expires_at - now() from page_session where tenant_id = %s", alice.tenant_id
    )
    assert timedelta(minutes=29) < left <= timedelta(minutes=30)
    alice.world.execute("update page_session set expires_at = now() - interval '1 second'")

    closed = await page.get("/me")
    assert closed.status_code == 401
    assert "The page is closed" in closed.text
    assert "Max-Age=0" in closed.headers["set-cookie"]


async def test_signing_out_ends_the_session_for_good(page: Visit):
    cookie = page.http.cookies["usermem_page"]
    assert "You are signed out" in (await page.post("/me/sign-out")).text

    assert (await page.get("/me")).status_code == 401
    page.http.cookies.set("usermem_page", cookie, domain="test.local", path="/me")
    assert (await page.get("/me", Cookie=f"usermem_page={cookie}")).status_code == 401


async def test_a_page_shows_one_user_of_one_tenant(
    page: Visit, alice: Caller, other: Caller, browse: Callable[[], Visit]
):
    mine = await said(alice)
    strangers = [
        await said(alice.of("bob"), "My name is Bobby."),
        await said(other, "My name is Olga."),
    ]

    for path in ("/me", "/me/conversations", "/me/past", "/me/data", f"/me/facts/{mine}"):
        shown = (await page.get(path)).text
        assert "Bobby" not in shown
        assert "Olga" not in shown
    for fact in strangers:
        assert (await page.get(f"/me/facts/{fact}")).status_code == 404
        for action in ("", "/pin", "/delete", "/restore"):
            refused = await page.post(f"/me/facts/{fact}{action}", text="x", revision="1")
            assert refused.status_code == 404
    assert len(await alice.of("bob").facts()) == len(await other.facts()) == 1


# Forms of other sites (T88).


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://evil.example"},
        {"Origin": "http://test.evil.example"},
        {"Sec-Fetch-Site": "same-origin", "Origin": "https://evil.example"},
        {"Sec-Fetch-Site": "cross-site", "Origin": "null"},
    ],
)
async def test_another_sites_form_changes_nothing(
    page: Visit, alice: Caller, browse: Callable[[], Visit], headers: dict[str, str]
):
    fact = await said(alice)
    token = re.search(r'form_token" value="(\w+)"', await page.read())
    assert token
    fields = {"form_token": token[1], "sure": "yes", "memory": "paused", "text": "Lives in Rome."}

    for path in ("erase", "export", "memory", "sign-out", f"facts/{fact}", f"facts/{fact}/delete"):
        refused = await page.send(f"/me/{path}", headers, **fields)
        assert refused.status_code == 403
        assert "Nothing was changed" in refused.text
    address = await link(alice)
    assert (await browse().send(address, headers)).status_code == 403
    assert (await browse().send(address)).status_code == 303
    assert await alice.texts() == ["Lives in Lisbon."]


@pytest.mark.parametrize("token", [None, "", "0" * 64, "é"])
async def test_a_form_without_this_sessions_token_changes_nothing(
    page: Visit, alice: Caller, token: str | None, browse: Callable[[], Visit]
):
    fact = await said(alice)
    fields = {} if token is None else {"form_token": token}
    for path in ("erase", "memory", "sign-out", "language", f"facts/{fact}/delete"):
        assert (await page.send(f"/me/{path}", None, sure="yes", **fields)).status_code == 403
    assert await alice.texts() == ["Lives in Lisbon."]


async def test_another_sessions_token_is_none_of_this_one(
    page: Visit, alice: Caller, browse: Callable[[], Visit]
):
    second = browse()
    await second.send(await link(alice))
    theirs = re.search(r'form_token" value="(\w+)"', await second.read())
    assert theirs
    refused = await page.send("/me/memory", form_token=theirs[1], memory="paused")
    assert refused.status_code == 403


async def test_a_hidden_origin_needs_the_browsers_word_behind_tls(
    alice: Caller, browse: Callable[[], Visit]
):
    address, visit = await link(alice), browse()
    visit.http.base_url = "https://test"
    assert (await visit.send(address, {"Origin": "null"})).status_code == 403
    visit.http.base_url = "http://test"
    assert (await visit.send(address, {"Origin": "null"})).status_code == 303


async def test_no_get_changes_anything(page: Visit, alice: Caller):
    fact = await said(alice)
    before = alice.world.rows("select * from memory_fact where tenant_id = %s", alice.tenant_id)

    for action in ("delete", "pin", "restore"):
        assert (await page.get(f"/me/facts/{fact}/{action}?pinned=yes")).status_code == 404
    for path in ("memory?memory=paused", "sign-out", "export", "conversations/delete?session=one"):
        assert (await page.get(f"/me/{path}")).status_code == 404
    assert (await page.get("/me/erase?sure=yes")).status_code == 200

    after = alice.world.rows("select * from memory_fact where tenant_id = %s", alice.tenant_id)
    assert after == before
    assert (await alice.get("/settings")).json()["memory"] == "on"


# Every answer (T89).


async def test_every_answer_forbids_scripts_frames_and_keeping(page: Visit, alice: Caller):
    fact = await said(alice)
    paths = ["/me", "/me?token=x", "/me/past", "/me/data", "/me/erase", f"/me/facts/{fact}"]
    paths += ["/me/facts/none", "/me/nowhere", "/me/conversations", "/me/notes"]
    answers = [await page.get(path) for path in paths]
    answers.append(await page.post("/me/export"))
    answers.append(await page.send("/me", token="x"))
    answers.append(await page.send("/me/erase"))

    for answer in answers:
        assert answer.headers["content-security-policy"] == CSP
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["content-type"] in {"text/html; charset=utf-8", "application/json"}


async def test_no_page_holds_a_script_a_style_or_anothers_address(page: Visit, alice: Caller):
    fact = await said(alice)
    for path in ("/me", "/me?token=x", f"/me/facts/{fact}", "/me/data", "/me/erase", "/me/past"):
        shown = (await page.get(path)).text
        assert re.findall(r"<script(?! src=\"/me/static/)", shown) == []
        assert re.findall(r"<style|\sstyle=|\son\w+=|javascript:|hx-on|hx-vals", shown) == []
        assert re.findall(r"https?://|//\w", shown) == []


async def test_static_files_are_served_by_their_content(page: Visit):
    addresses = re.findall(r'(?:src|href)="(/me/static/[^"]+)"', await page.read())
    assert len(addresses) == 3
    for address in addresses:
        got = await page.get(address)
        assert got.status_code == 200
        assert "immutable" in got.headers["cache-control"]
        assert "set-cookie" not in got.headers
    assert (await page.get("/me/static/htmx.LICENSE")).text.startswith("Zero-Clause BSD")
    assert (await page.get("/me/static/..%2Frender.py")).status_code == 404


async def test_the_address_with_the_token_is_given_to_no_script(
    alice: Caller, browse: Callable[[], Visit]
):
    assert "<script" not in (await browse().get(await link(alice))).text


async def test_htmx_runs_nothing_that_is_written_in_a_page(page: Visit):
    configured = re.search(r'htmx-config" content="([^"]+)"', (await page.get("/me")).text)
    assert configured
    told = unescape(configured[1])
    for setting in ("includeIndicatorStyles", "allowEval", "allowScriptTags"):
        assert f'"{setting}": false' in told
    assert '"historyEnabled": false' in told


HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    "<svg onload=alert(1)>",
    "javascript:alert(1)",
    '=HYPERLINK("https://evil.example")',
    "' onmouseover='alert(1)",
    "\u202egnp.exe \u2067x",
    "{{ 7 * 7 }} {user} %s",
]


@pytest.mark.parametrize("text", HOSTILE)
async def test_a_hostile_fact_or_name_is_text(
    alice: Caller, browse: Callable[[], Visit], text: str
):
    victim = alice.of(f"u {text}")
    fact = Planted(text)
    plant(victim, fact)
    visit = browse()
    await visit.send(await link(victim))

    for path in ("/me", f"/me/facts/{fact.id}", "/me?" + urlencode({"q": text})):
        shown = (await visit.get(path)).text
        assert not re.search(r"<(img|svg|script>)|alert\(1\)>|onmouseover='", shown)
        if "\u202e" not in text:
            assert text in unescape(shown)
        assert "\u202e" not in shown.partition("<footer>")[2]


async def test_the_row_with_a_secret_is_marked_and_covered(page: Visit, alice: Caller):
    fact = Planted(f"The API key is {KEY}.", "constraint")
    past = Planted(f"Old key {KEY}", age=1, superseded_at=fact.created_at)
    plant(alice, fact, past)
    alice.world.execute(
        "insert into evidence (tenant_id, user_id, id, fact_id, quote, said_at)"
        " select tenant_id, user_id, gen_random_uuid(), id, text, now() from memory_fact"
        " where tenant_id = %s",
        alice.tenant_id,
    )

    for path in ("/me", "/me/past", f"/me/facts/{fact.id}", "/me?q=key", "/me/list?status=live"):
        shown = await page.read(path)
        assert "Holds a secret" in shown
        assert KEY not in shown
        assert "[removed]" in shown
    assert (await page.post(f"/me/facts/{fact.id}/delete")).status_code == 303
    assert "Holds a secret" not in await page.read()


# What is never told.


async def test_logs_hold_no_token_no_name_and_no_word(
    alice: Caller, browse: Callable[[], Visit], capfd: pytest.CaptureFixture[str], caplog
):
    victim = alice.of("zqxuser")
    address, visit = await link(victim), browse()
    await visit.get(address)
    await visit.send(address)
    fact = await said(victim, "My favourite word is zqxword.")
    await visit.get("/me?q=zqxword")
    await visit.post(f"/me/facts/{fact}", text="Likes zqxword.", revision="1", kind="goal")
    await visit.post(f"/me/facts/{fact}", text=f"My password is {KEY}", revision="1")
    await visit.post("/me/conversations/delete", session="zqxsession")
    await visit.get("/me/zqxpath")

    logged = caplog.text + "".join(capfd.readouterr())
    assert "/me/facts/{fact}" in logged
    for secret in ("zqx", address.partition("token=")[2], visit.http.cookies["usermem_page"], KEY):
        assert secret not in logged
