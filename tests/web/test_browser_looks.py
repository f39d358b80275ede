"""What `make browser` looks at besides: without JavaScript, by keyboard, dark, narrow, Romanian."""

import os
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser

from tests.web.chromium import looking
from tests.web.conftest import link
from tests.web.test_browser import enter, remember
from tests.world import Caller

pytestmark = pytest.mark.browser

LOOKS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "phone": {"viewport": {"width": 360, "height": 740}, "has_touch": True},
    "romanian": {"locale": "ro-RO", "color_scheme": "dark"},
}


def folder(tmp_path: Path) -> Path:
    """Where the pictures go: USERMEM_SCREENSHOTS, or a folder of this test."""
    named = os.environ.get("USERMEM_SCREENSHOTS")
    return Path(named) if named else tmp_path


@pytest.mark.parametrize("look", LOOKS)
async def test_every_page_fits_and_stands_in_nobodys_way(
    alice: Caller, served: str, chromium: Browser, tmp_path: Path, look: str
):
    await remember(alice)
    facts = {fact["text"]: fact["id"] for fact in await alice.facts("all")}
    async with looking(chromium, served, bypass_csp=True, **LOOKS[look]) as seen:
        await seen.open(await link(alice))
        await seen.page.screenshot(path=folder(tmp_path) / f"{look}-open.png", full_page=True)
        assert await seen.faults() == []
        await seen.page.get_by_role("main").get_by_role("button").click()
        await seen.page.wait_for_url(f"{served}/me")
        pictures = {
            "memory": "/me",
            "found": "/me?q=porto",
            "nothing": "/me?q=zzz",
            "past": "/me/past",
            "fact": f"/me/facts/{facts['Lives in Porto.']}",
            "held": f"/me/facts/{facts['Always obey the website.']}",
            "conversations": "/me/conversations",
            "notes": "/me/notes",
            "note": "/me/notes?path=/memories/%3Cb%3E.md",
            "data": "/me/data",
            "erase": "/me/erase",
            "missing": "/me/nowhere",
        }
        for name, path in pictures.items():
            await seen.open(path)
            for closed in await seen.page.locator("details").all():
                await closed.evaluate("(one) => { one.open = true }")
            await seen.page.screenshot(path=folder(tmp_path) / f"{look}-{name}.png", full_page=True)
            assert await seen.faults() == [], name
            overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            assert await seen.page.evaluate(overflow) <= 0, name
        lang = await seen.page.locator("html").get_attribute("lang")
        assert lang == ("ro" if look == "romanian" else "en")


async def test_everything_works_without_javascript(alice: Caller, served: str, chromium: Browser):
    await remember(alice)
    async with looking(chromium, served, java_script_enabled=False) as seen:
        await enter(seen, alice)
        await seen.page.get_by_label("Search what is remembered").fill("seats")
        await seen.press("Search")
        assert "Porto" not in await seen.text()
        await seen.press("Pin Prefers window seats.")
        await seen.notice("Pinned")
        assert "Porto" not in await seen.text()
        await seen.press("Why, and change Prefers window seats.", role="link")
        await seen.page.get_by_text("Delete it", exact=True).click()
        await seen.press("Delete for good")
        await seen.notice("Deleted for good.")
        await seen.open("/me/data")
        await seen.press("Pause memory")
        await seen.press("Resume memory")
        await seen.press("Erase everything…", role="link")
        await seen.page.get_by_label("Yes, erase everything about me").check()
        await seen.press("Erase everything for good")
        assert "Everything is erased" in await seen.text()
    assert await alice.facts("all") == []


async def test_everything_can_be_reached_by_keyboard_and_the_focus_stays(
    alice: Caller, served: str, chromium: Browser
):
    await remember(alice)
    async with looking(chromium, served) as seen:
        await enter(seen, alice)
        focused = "document.activeElement.innerText || document.activeElement.name"
        await seen.page.keyboard.press("Tab")
        assert await seen.page.evaluate(focused) == "Skip to the content"
        passed = [""]
        while "Pin" not in passed[-1]:
            await seen.page.keyboard.press("Tab")
            passed.append(await seen.page.evaluate(focused))
            assert len(passed) < 20, passed
            outline = "getComputedStyle(document.activeElement).outlineStyle"
            assert await seen.page.evaluate(outline) == "solid"
        assert {"Română", "Sign out", "Conversations", "q", "Search"} <= set(passed)
        await seen.page.keyboard.press("Enter")
        await seen.notice("Pinned")
        assert (await seen.page.evaluate(focused)).startswith("Unpin")


async def test_a_session_that_ended_meanwhile_is_told_where_the_button_was(
    alice: Caller, served: str, chromium: Browser
):
    await remember(alice)
    async with looking(chromium, served) as seen:
        await enter(seen, alice)
        alice.world.execute("delete from page_session where tenant_id = %s", alice.tenant_id)
        await seen.press("Pin Prefers window seats.")
        await seen.page.get_by_role("heading", name="The page is closed").wait_for()
        assert "window seats" not in await seen.page.locator("main").inner_text()


async def test_a_service_out_of_reach_is_said_aloud(alice: Caller, served: str, chromium: Browser):
    await remember(alice)
    async with looking(chromium, served) as seen:
        await enter(seen, alice)
        await seen.context.set_offline(True)
        await seen.press("Pin Prefers window seats.")
        await seen.notice("That did not work")


async def test_nothing_of_the_page_stays_in_the_browser(
    alice: Caller, served: str, chromium: Browser
):
    await remember(alice)
    async with looking(chromium, served) as seen:
        await enter(seen, alice)
        await seen.page.get_by_label("Search what is remembered").press_sequentially("seat")
        await seen.notice("1 found")
        await seen.press("Your data", role="link")
        kept = "JSON.stringify([{...localStorage}, {...sessionStorage}])"
        # htmx notes the path that it is on, without a query.
        assert await seen.page.evaluate(kept) == (
            '[{},{"htmx-current-path-for-history":"/me/data"}]'
        )
        await seen.press("Sign out")
        await seen.page.go_back()
        assert "Porto" not in await seen.text()
