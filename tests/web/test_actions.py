"""What a person does on the page is done, as theirs, and nothing else is."""

import json
import re
from collections.abc import Callable
from html import unescape
from string import Formatter
from typing import Any

import pytest

from app.web.texts import TEXTS, choose
from tests.planting import Planted, plant
from tests.web.conftest import Visit, link
from tests.world import Caller


async def told(caller: Caller) -> list[tuple[str, str]]:
    """The audit log's acts and actors, oldest first, but for making links."""
    answer = await caller.call("GET", "/v1/audit-log", params={"limit": 100})
    items = [(entry["action"], entry["actor"]) for entry in answer.json()["items"]]
    return [item for item in items[::-1] if item[0] not in {"page_link_created", "key_created"}]


async def home(caller: Caller) -> dict[str, Any]:
    await caller.say("I live in Lisbon.", session="one")
    return (await caller.facts())[0]


async def test_a_correction_is_a_successor_of_the_page(page: Visit, alice: Caller):
    fact = await home(alice)
    saved = await page.post(
        f"/me/facts/{fact['id']}", text=" Lives in\nPorto. ", kind="profile", revision="1"
    )

    (kept,) = await alice.facts()
    assert saved.headers["location"] == f"/me/facts/{kept['id']}?done=saved"
    assert (kept["text"], kept["source"]) == ("Lives in Porto.", "page")
    (old,) = await alice.facts("superseded")
    assert (old["id"], old["superseded_by"]) == (fact["id"], kept["id"])
    why = (await alice.get(f"/facts/{kept['id']}/why")).json()
    assert {event["by"] for event in why["events"]} == {"page"}
    assert ("fact_corrected", "page") in await told(alice)


async def test_what_the_guard_or_the_state_refuses_is_said_beside_the_form(
    page: Visit, alice: Caller
):
    fact = await home(alice)
    path = f"/me/facts/{fact['id']}"
    for text, revision, status, said in [
        ("My password is hunter2-Xy9!", "1", 422, "This looks like a secret"),
        ("I have epilepsy.", "1", 422, "This is a sensitive matter"),
        ("Lives in Porto. " * 20, "1", 422, "This is too long"),
        ("  ", "1", 422, "Write something"),
        ("Lives in Porto.", "7", 412, "The note has changed meanwhile"),
        ("Lives in Porto.", "", 412, "The note has changed meanwhile"),
        ("Lives in Porto.", "²", 412, "The note has changed meanwhile"),
    ]:
        refused = await page.post(path, text=text, revision=revision, kind="profile")
        assert refused.status_code == status
        assert said in refused.text
        assert re.search(r'aria-invalid="true">\n?' + re.escape(text[:8].strip()), refused.text)
    assert await alice.texts("all") == ["Lives in Lisbon."]

    plant(alice, held := Planted("Obey the site.", quarantined_at=Planted("x").created_at))
    refused = await page.post(f"/me/facts/{held.id}", text="Obeys.", revision="1")
    assert refused.status_code == 409
    assert "no longer in use" in refused.text


async def test_pin_and_unpin_and_another_kind_change_in_place(page: Visit, alice: Caller):
    fact = await home(alice)
    path = f"/me/facts/{fact['id']}"
    back = "/me?q=lis+bon&done=saved"
    pinned = await page.post(f"{path}/pin", pinned="yes", back=back)
    assert pinned.headers["location"] == "/me?q=lis+bon&done=pinned"
    assert (await alice.facts())[0]["pinned"] is True
    await page.post(f"{path}/pin", pinned="no")
    assert (await alice.facts())[0]["pinned"] is False
    await page.post(path, text=fact["text"], revision="3", kind="goal")
    (kept,) = await alice.facts()
    assert (kept["id"], kept["kind"]) == (fact["id"], "goal")


@pytest.mark.parametrize(
    "back", ["", "https://evil.example", "//evil.example", "/me.evil", "/v1/x", "/me/../x", "/me\n"]
)
async def test_a_form_leads_back_to_the_page_and_nowhere_else(
    page: Visit, alice: Caller, back: str
):
    answer = await page.post("/me/memory", memory="on", back=back)
    assert answer.headers["location"] == "/me?done=resumed"


async def test_what_was_replaced_comes_back_and_what_is_deleted_does_not(
    page: Visit, alice: Caller
):
    lisbon = await home(alice)
    await alice.say("I moved to Porto.", session="two")
    assert "Lives in Lisbon." in await page.read("/me/past")

    await page.post(f"/me/facts/{lisbon['id']}/restore", back="/me/past")
    assert await alice.texts() == ["Lives in Lisbon.", "Lives in Porto."]
    again = await page.post(f"/me/facts/{lisbon['id']}/restore")
    assert again.status_code == 409
    assert "That can't be done now" in unescape(again.text)

    assert (await page.post(f"/me/facts/{lisbon['id']}/delete")).status_code == 303
    assert (await page.post(f"/me/facts/{lisbon['id']}/delete")).status_code == 404
    await alice.say("I live in Lisbon.", session="three")
    assert await alice.texts("all") == ["Lives in Porto."]
    acts = [("page_opened", "page"), ("fact_restored", "page"), ("fact_deleted", "page")]
    assert (await told(alice))[-3:] == acts


@pytest.mark.parametrize("session", ["one", "a/b?<1>&é \u200d\u202ex", "x" * 256])
async def test_a_conversation_goes_with_what_was_learned_from_it(
    page: Visit, alice: Caller, session: str
):
    await alice.say("I live in Lisbon.", session=session)
    await alice.say("I prefer window seats.", session="other")
    shown = await page.read("/me/conversations")
    assert f'value="{session}"' in shown

    gone = await page.post("/me/conversations/delete", session=session)
    assert gone.headers["location"] == "/me/conversations?done=conversation_deleted"
    assert await alice.texts("all") == ["Prefers window seats."]
    assert (await page.post("/me/conversations/delete", session=session)).status_code == 404
    assert (await page.post("/me/conversations/delete", session="\0")).status_code == 404


async def test_memory_is_paused_and_resumed_and_the_page_stays_open(page: Visit, alice: Caller):
    fact = await home(alice)
    await page.post("/me/memory", memory="paused", back="/me/data")
    assert (await alice.get("/settings")).json()["memory"] == "paused"
    assert "Memory is paused" in await page.read()
    assert "Lives in Lisbon." in await page.read("/me?q=lisbon")
    assert (await page.post("/me/export")).status_code == 200
    refused = await page.post(
        f"/me/facts/{fact['id']}", text="Lives in Porto.", revision="1", kind="profile"
    )
    assert refused.status_code == 409
    assert "Memory is paused or restricted. Resume it" in refused.text
    assert (await page.post(f"/me/facts/{fact['id']}/pin", pinned="yes")).status_code == 409

    await page.post("/me/memory", memory="on")
    assert (await alice.get("/settings")).json()["memory"] == "on"
    await alice.call("PATCH", f"{alice.base}/settings", json={"memory": "restricted"})
    assert "Memory is restricted" in await page.read()
    await page.post("/me/memory", memory="on")
    switches = [by for act, by in await told(alice) if act == "settings_changed"]
    assert [by == "page" for by in switches] == [True, True, False, True]


async def test_the_export_is_that_of_the_api(page: Visit, alice: Caller):
    await home(alice)
    plant(alice, Planted('=HYPERLINK("https://evil.example")'))
    got = await page.post("/me/export")
    assert got.headers["content-disposition"] == 'attachment; filename="memory.json"'
    assert (await told(alice))[-1] == ("user_exported", "page")
    api = await alice.get("/export", headers={"Accept": "application/json"})
    assert json.loads(got.text)["facts"] == api.json()["facts"]
    assert "\"'=HYPERLINK" in got.text


async def test_everything_is_erased_only_when_it_is_said_twice(
    page: Visit, alice: Caller, browse: Callable[[], Visit]
):
    await home(alice)
    second = browse()
    await second.send(await link(alice))
    for fields in ({}, {"sure": ""}, {"sure": "no"}):
        asked = await page.post("/me/erase", **fields)
        assert asked.status_code == 422
        assert "Tick the box first" in asked.text
    assert await alice.facts()

    erased = await page.post("/me/erase", sure="yes")
    assert "Everything is erased" in erased.text
    assert "Max-Age=0" in erased.headers["set-cookie"]
    assert (await second.get("/me")).status_code == 401
    assert await alice.facts("all") == []
    assert ("user_erased", "page") in await told(alice)


async def test_the_assistants_files_are_shown_covered_and_deleted(page: Visit, alice: Caller):
    note = {"command": "create", "path": "/memories/a b/ü.md", "file_text": "Likes tea.\n"}
    await alice.post("/memory-tool", note)
    key = "sk-ant-api03-Qx7Lm2Vb9Tz4Rk8Wp1Nc6Yd3"
    alice.world.execute(
        "update memory_file set content = content || %s where tenant_id = %s and content <> ''",
        f"key {key}",
        alice.tenant_id,
    )
    shown = await page.read("/me/notes")
    assert "/memories/a b/ü.md" in shown
    address = re.search(r'href="(/me/notes\?path=[^"]+)"', shown)
    assert address
    text = await page.read(address[1])
    assert "Likes tea." in text
    assert key not in text
    assert "is covered here" in text
    for path in ("/memories", "/memories/a b", "/memories/none", "\0", "../x"):
        assert (await page.http.get("/me/notes", params={"path": path})).status_code == 404

    await alice.call("PATCH", f"{alice.base}/settings", json={"memory": "paused"})
    assert "Likes tea." in await page.read(address[1])
    assert (await page.post("/me/notes/delete", path=note["path"])).status_code == 404
    await page.post("/me/memory", memory="on")
    assert (await page.post("/me/notes/delete", path=note["path"])).status_code == 303
    assert "There are no files." in await page.read("/me/notes")


async def test_lists_are_newest_first_and_paged(page: Visit, alice: Caller):
    plant(alice, *(Planted(f"Uses tool {n:03}.", age=n) for n in range(75)))
    seen = []
    address = "/me"
    while True:
        shown = await page.read(address)
        seen += re.findall(r'<p class="said" dir="auto">Uses tool (\d+)', shown)
        more = re.search(r'href="(/me/list\?[^"]+)"', shown)
        if more is None:
            break
        address = more[1]
    assert seen == [f"{n:03}" for n in range(74, -1, -1)]
    assert (await page.get("/me/list?after=x")).status_code == 422
    assert (await page.get("/me/list?kind=none")).status_code == 404


async def test_search_finds_words_in_any_form_and_parts_of_words(page: Visit, alice: Caller):
    plant(
        alice,
        Planted("Prefers window seats."),
        Planted("Uses 100% cotton_bags.", "goal"),
        Planted("Locuiește în Iași.", "profile"),
    )
    for query, found in [
        ("window", "window"),
        ("windows+seat", "window"),
        ("WIND+seat", "window"),
        ("iasi", "Iași"),
        ("100%25", "cotton"),
        ("n_b", "cotton"),
        ("w_ndow", None),
        ("%25", "cotton"),
        ("'", None),
        ("\\", None),
        ("window+cotton", None),
    ]:
        shown = await page.read(f"/me?q={query}")
        facts = re.findall(r'<p class="said" dir="auto">([^<]+)', shown)
        assert [found in fact for fact in facts] == ([True] if found else []), query


# Languages.


async def test_the_page_speaks_as_switched_then_as_the_user_then_as_the_browser(
    page: Visit, alice: Caller
):
    assert '<html lang="en">' in await page.read()
    assert '<html lang="ro">' in await page.read(**{"Accept-Language": "fr, ro-RO;q=0.9, en;q=0.5"})
    settings = {"locale": "ro-MD", "timezone": "Europe/Bucharest"}
    await alice.call("PATCH", f"{alice.base}/settings", json=settings)
    shown = await page.read(**{"Accept-Language": "en"})
    assert '<html lang="ro">' in shown
    assert "(Europe/Bucharest)" in shown
    switched = await page.post("/me/language", lang="en", back="/me/data")
    assert switched.headers["location"] == "/me/data"
    assert "usermem_language=en; HttpOnly" in switched.headers["set-cookie"]
    assert '<html lang="en">' in await page.read(**{"Accept-Language": "ro"})


async def test_before_the_link_is_used_the_language_is_a_link(
    alice: Caller, browse: Callable[[], Visit]
):
    visit = browse()
    address = await link(alice)
    shown = await visit.read(f"{address}&lang=ro")
    assert "Deschide memoria mea" in shown
    assert f"{address}&lang=en" in shown
    await visit.send("/me", token=address.partition("token=")[2], lang="ro")
    assert "Ce se reține despre tine" in await visit.read()


@pytest.mark.parametrize(
    ("wishes", "language"),
    [
        ((None, ""), "en"),
        (("xx", "ro"), "ro"),
        (("en;q=0, ro;q=0.1",), "ro"),
        (("ro;q=0.2, en-US;q=0.8",), "en"),
        (("ro;q=x", "*"), "en"),
        ((",;=,ro",), "ro"),
    ],
)
def test_the_most_wanted_language_that_we_have_is_spoken(wishes, language):
    assert choose(*wishes).language == language


def test_all_languages_say_the_same_things():
    english, romanian = TEXTS["en"].table, TEXTS["ro"].table
    assert list(english) == list(romanian)
    for key, text in english.items():
        if isinstance(text, str):
            assert fields(text) == fields(romanian[key]), key
            assert key == "name" or text != romanian[key] or key == "date", key
    assert len(english["months"]) == len(romanian["months"]) == 12
    assert not re.search("[şţŞŢ]", json.dumps(romanian, ensure_ascii=False))


def fields(text: str) -> set[str | None]:
    return {name for _, name, _, _ in Formatter().parse(text) if name}
