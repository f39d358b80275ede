"""Debian's Chromium on the page, and a record of everything that it must not have done there."""

import gzip
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, BrowserContext, Page

AXE = gzip.decompress((Path(__file__).parents[1] / "data" / "axe.min.js.gz").read_bytes()).decode()

_WATCH = """
window.__violations = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.__violations.push(event.violatedDirective + " " + event.blockedURI));
"""


@dataclass
class Seen:
    """A page and what happened on it besides."""

    page: Page
    context: BrowserContext
    base: str
    trouble: list[str] = field(default_factory=list)

    async def open(self, address: str) -> None:
        await self.page.goto(self.base + address)

    async def press(self, name: str, *, role: Any = "button") -> None:
        """Press the one button of this name."""
        await self.page.get_by_role(role, name=name, exact=True).click()

    async def notice(self, text: str) -> None:
        """Wait until this is said where it is read aloud."""
        await self.page.locator("#notice", has_text=text).wait_for()

    async def text(self) -> str:
        return await self.page.locator("body").inner_text()

    async def violations(self) -> list[str]:
        told: list[str] = await self.page.evaluate("window.__violations || []")
        return told

    async def faults(self) -> list[str]:
        """What axe finds that is serious."""
        await self.page.evaluate(AXE)
        found = await self.page.evaluate(
            "async () => (await axe.run()).violations.map("
            "(v) => ({id: v.id, impact: v.impact, nodes: v.nodes.map((n) => n.html)}))"
        )
        return [json.dumps(one) for one in found if one["impact"] in {"serious", "critical"}]


@asynccontextmanager
async def looking(chromium: Browser, base: str, **options: Any) -> AsyncIterator[Seen]:
    """A browser of its own, that notes dialogs, errors and requests elsewhere."""
    context = await chromium.new_context(**{"locale": "en-GB", **options})
    await context.add_init_script(_WATCH)
    page = await context.new_page()
    page.set_default_timeout(10_000)
    seen = Seen(page, context, base)

    async def dismiss(dialog: Any) -> None:
        seen.trouble.append(f"dialog {dialog.message}")
        await dialog.dismiss()

    page.on("dialog", dismiss)
    page.on("pageerror", lambda error: seen.trouble.append(f"error {error}"))
    page.on(
        "console",
        lambda told: seen.trouble.append(told.text) if _is_trouble(told.text, told.type) else None,
    )
    page.on(
        "request",
        lambda sent: (
            None
            if sent.url.startswith((base, "data:", "blob:"))
            else seen.trouble.append(f"request {sent.url}")
        ),
    )
    try:
        yield seen
    finally:
        await context.close()


def _is_trouble(text: str, kind: str) -> bool:
    """Tell what a console should not say; an error page that was asked for is none."""
    return kind in {"error", "warning"} and "Failed to load resource" not in text
