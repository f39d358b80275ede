"""A browser without a screen over the same API, and a service on loopback for a real one."""

import asyncio
import os
import re
import shutil
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from html import unescape
from typing import Any
from urllib.parse import urlencode

import httpx2
import pytest
import uvicorn
from playwright.async_api import Browser, async_playwright

from app.main import create_app
from app.settings import Settings
from tests.world import Caller, World


async def link(caller: Caller, **body: Any) -> str:
    """A fresh link's address below the service."""
    answer = await caller.post("/page-links", body or None)
    assert answer.status_code == 201, answer.text
    return answer.json()["url"].removeprefix("http://127.0.0.1:8000")


@dataclass
class Visit:
    """What a browser does on the page, as far as HTTP can tell: cookies, forms, its own headers."""

    http: httpx2.AsyncClient
    headers: dict[str, str] = field(
        default_factory=lambda: {"Sec-Fetch-Site": "same-origin", "Origin": "null"}
    )

    async def get(self, path: str, **headers: str) -> httpx2.Response:
        return await self.http.get(path, headers=headers)

    async def send(self, address: str, /, headers: Mapping[str, str] | None = None, **fields: str):
        """Post a form as it is, without following where it leads."""
        return await self.http.post(
            address,
            content=urlencode(fields),
            headers={
                "Content-Type": "application/x-www-form-urlencoded",
                **(self.headers if headers is None else headers),
            },
        )

    async def post(self, address: str, /, **fields: str) -> httpx2.Response:
        """Post a form of this session; its token stands in any page of it."""
        token = re.search(
            r'name="form_token" value="([0-9a-f]+)"', (await self.get("/me/data")).text
        )
        assert token, "the page is closed"
        return await self.send(address, None, form_token=token[1], **fields)

    async def read(self, path: str = "/me", **headers: str) -> str:
        answer = await self.get(path, **headers)
        assert answer.status_code == 200, answer.text
        return unescape(answer.text)


@pytest.fixture
async def browse(world: World) -> AsyncIterator[Callable[[], Visit]]:
    """Make browsers without any cookie."""
    opened = []

    def make() -> Visit:
        http = httpx2.AsyncClient(transport=world.http._transport, base_url="http://test")
        opened.append(http)
        return Visit(http)

    yield make
    for http in opened:
        http.cookies.clear()


@pytest.fixture
async def page(alice: Caller, browse: Callable[[], Visit]) -> Visit:
    """Alice's page, opened by a link."""
    visit = browse()
    token = (await link(alice)).partition("token=")[2]
    opened = await visit.send("/me", token=token)
    assert opened.status_code == 303, opened.text
    return visit


@pytest.fixture(scope="session")
async def served(world: World) -> AsyncIterator[str]:
    """The base URL of the same service over real HTTP, with a worker inside."""
    settings = Settings(
        database_url=world.urls.service,
        signing_key="k" * 40,
        extractor="rules",
        erasure_ledger=world.settings.erasure_ledger,
    )
    app = create_app(settings, world.urls.service, with_worker=False)
    server = uvicorn.Server(
        uvicorn.Config(app, port=0, log_config=None, access_log=False, server_header=False)
    )
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn tells of its start by a flag alone
        await asyncio.sleep(0.02)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    await serving


@pytest.fixture(scope="session")
async def chromium(world: World) -> AsyncIterator[Browser]:
    """Debian's Chromium, without a screen."""
    found = shutil.which("chromium")
    if found is None:
        pytest.skip("chromium is not installed: `make browser` installs it, as root")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=found, args=["--no-sandbox"] if os.geteuid() == 0 else []
        )
        yield browser
        await browser.close()
