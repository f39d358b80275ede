"""What can be reached from outside, and where the service goes itself: as documented, no more."""

import asyncio
import re
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from fastapi.routing import iter_route_contexts

from app.deps import Needs
from tests.api.routes import ROUTES
from tests.world import Caller, World

SCOPES = Path(__file__).parents[1] / "docs" / "scopes.md"
_UNDOCUMENTED_ABOVE = {"POST /mcp": "facts", "GET /openapi.json": None, "GET /docs": None}


def documented() -> dict[str, tuple[str | None, str]]:
    """The table of the page: scope and limit by route; no scope where it is no key that opens."""
    rows = re.findall(r"^\| `(\w+ \S+)` \| (.+?) \| (\w+) \|$", SCOPES.read_text(), re.MULTILINE)
    assert len({name for name, _, _ in rows}) == len(rows)
    return {
        name: (scope.strip("`") if scope.startswith("`") else None, limit)
        for name, scope, limit in rows
    }


def test_the_table_of_scopes_is_the_one_that_is_tested():
    wanted = {route.name: route.scope for route in ROUTES} | _UNDOCUMENTED_ABOVE
    keyed = {n: scope for n, (scope, _) in documented().items() if n not in pages()}
    assert keyed == wanted


def test_the_table_of_limits_is_what_is_counted():
    for name, (scope, limit) in documented().items():
        assert limit == (Needs(scope).budget if scope else "none"), name


async def test_no_route_is_served_that_is_not_in_the_table(world: World):
    served = {
        f"{method} {re.sub(r':id}', '}', str(getattr(route, 'path_format', route.path)))}"
        for route in iter_route_contexts(world.app.routes)
        for method in route.methods or ()
        if method != "HEAD"
    }
    assert served - set(documented()) == set()
    assert set(documented()) - served == set()


def pages() -> list[str]:
    return [name for name in documented() if re.search(r" /me(/|$)", name)]


@pytest.mark.parametrize("name", pages())
async def test_no_page_of_a_person_opens_without_link_or_session(world: World, name: str):
    method, path = name.split()
    answer = await world.http.request(method, re.sub(r"\{\w+\}", str(uuid4()), path))
    refused = {"POST /me": 410, "GET /me/static/{name}": 404}
    assert answer.status_code == refused.get(name, 404 if "{rest}" in name else 401)


@pytest.mark.parametrize(
    "path",
    [
        "/", "/redoc", "/debug", "/admin", "/health", "/status", "/v0/users/a/memory", "/v1",
        "/v2/users/a/memory", "/static/x", "/.env", "/.git/config", "/docs/oauth2-redirect",
        "/openapi.yaml", "/server-status", "/metrics/", "/v1/users", "/v1/tenant",
    ],
)  # fmt: skip
async def test_a_forgotten_surface_is_404(world: World, path: str):
    assert (await world.http.get(path)).status_code == 404


class Calls:
    """Every connection that the process opens while `on`, as the interpreter reports it."""

    def __init__(self) -> None:
        self.on = False
        self.seen: list[Any] = []
        sys.addaudithook(self._hook)  # it can't be taken away again, only fall silent

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.on and event in {"socket.connect", "socket.getaddrinfo", "socket.gethostbyname"}:
            self.seen.append(arguments[1:] if event == "socket.connect" else arguments[:2])


async def test_no_url_that_comes_in_is_ever_called(alice: Caller):
    reached = []

    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached.append(writer.get_extra_info("peername"))
        writer.close()

    bait = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{bait.sockets[0].getsockname()[1]}/x"
    calls = Calls()
    calls.on = True
    try:
        await alice.say(f"I prefer {url} and {url}?callback={url}", f"Remember that {url} is home.")
        headers = {
            "Origin": url, "Referer": url, "Link": f"<{url}>", "Callback-URL": url,
            "X-Forwarded-Host": url, "Forwarded": f"host={url}",
        }  # fmt: skip
        image = {"type": "image", "source": {"type": "url", "url": url}}
        said = {"role": "user", "content": [image, {"type": "text", "text": url}]}
        await alice.post("/transcripts", {"messages": [said]}, headers=headers)
        fact = {"text": f"Reads {url}.", "kind": "preference", "metadata": {"webhook": url}}
        await alice.post("/facts", fact, headers=headers)
        await alice.post("/search", {"query": url}, headers=headers)
        await alice.post("/import", {"format": "usermem-export-1", "facts": [fact]})
        view = {"command": "create", "path": "/memories/a", "file_text": url}
        await alice.post("/memory-tool", view)
        await alice.get("/memory", params={"query": url, "session": url}, headers=headers)
        await alice.post("/page-links", headers=headers)
        await alice.delete("", headers=headers)
        await alice.world.drain()
    finally:
        calls.on = False
        bait.close()
        await bait.wait_closed()
    # The database is reached by its own library, which the interpreter does not see.
    assert (reached, calls.seen) == ([], [])
