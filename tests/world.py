"""What tests act with: an API in this process, its queue, its database as a superuser sees it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote
from uuid import UUID, uuid4

import httpx2
import psycopg
from fastapi import FastAPI

from app import telemetry
from app.main import create_app
from app.memory.core import Core
from app.memory.tenants import create_tenant
from app.settings import Settings
from app.worker import build_queue


@dataclass(frozen=True)
class Urls:
    service: str
    owner: str
    superuser: str


@dataclass
class Caller:
    """One tenant's backend, speaking for one user."""

    world: "World"
    tenant_id: UUID
    key: str
    user: str = "alice"
    headers: dict[str, str] = field(default_factory=dict)

    def of(self, user: str) -> "Caller":
        return Caller(self.world, self.tenant_id, self.key, user)

    @property
    def base(self) -> str:
        return f"/v1/users/{quote(self.user, safe='')}"

    async def call(self, method: str, path: str, **kwargs: Any) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {self.key}", **kwargs.pop("headers", {})}
        return await self.world.http.request(method, path, headers=headers, **kwargs)

    async def get(self, path: str, **kwargs: Any) -> httpx2.Response:
        return await self.call("GET", self.base + path, **kwargs)

    async def post(self, path: str, json: Any = None, **kwargs: Any) -> httpx2.Response:
        return await self.call("POST", self.base + path, json=json, **kwargs)

    async def delete(self, path: str, **kwargs: Any) -> httpx2.Response:
        return await self.call("DELETE", self.base + path, **kwargs)

    async def say(self, *texts: str, session: str | None = None, **kwargs: Any) -> dict[str, Any]:
        """Tell a whole conversation and have it extracted; give the session's state."""
        messages = [{"role": "user", "content": text, **kwargs} for text in texts]
        return await self.converse(messages, session=session)

    async def converse(
        self, messages: list[dict[str, Any]], session: str | None = None
    ) -> dict[str, Any]:
        session = session or uuid4().hex
        body = {"messages": messages, "session": session}
        posted = await self.post("/transcripts", body)
        assert posted.status_code == 202, posted.text
        await self.world.drain()
        state = await self.get(f"/sessions/{quote(session, safe='')}")
        return state.json()

    async def facts(self, status: str = "live") -> list[dict[str, Any]]:
        answer = await self.get("/facts", params={"status": status, "limit": 200})
        assert answer.status_code == 200, answer.text
        return answer.json()["items"]

    async def texts(self, status: str = "live") -> list[str]:
        return sorted(fact["text"] for fact in await self.facts(status))

    async def block(self, query: str = "", **params: Any) -> str:
        answer = await self.get("/memory", params={"query": query, **params})
        assert answer.status_code == 200, answer.text
        return answer.json()["block"]


@dataclass
class World:
    app: FastAPI
    core: Core
    http: httpx2.AsyncClient
    urls: Urls
    state: dict[str, Any]
    settings: Settings

    @classmethod
    @asynccontextmanager
    async def open(cls, settings: Settings, urls: Urls) -> AsyncIterator["World"]:
        telemetry.configure(settings.log_level)
        app = create_app(settings, urls.service, with_worker=False)
        async with (
            app.router.lifespan_context(app) as shared,
            cls._over(app, urls, dict(shared or {}), settings) as world,
        ):
            yield world

    @classmethod
    @asynccontextmanager
    async def _over(
        cls, app: FastAPI, urls: Urls, state: dict[str, Any], settings: Settings
    ) -> AsyncIterator["World"]:
        async def with_state(scope: Any, receive: Any, send: Any) -> None:
            await app({**scope, "state": dict(state)}, receive, send)

        transport = httpx2.ASGITransport(with_state, raise_app_exceptions=False)
        async with httpx2.AsyncClient(transport=transport, base_url="http://test") as http:
            yield cls(app, state["core"], http, urls, state, settings)

    @asynccontextmanager
    async def over(self, core: Core) -> AsyncIterator["World"]:
        """The same API and database over another core."""
        state = {**self.state, "core": core}
        async with self._over(self.app, self.urls, state, self.settings) as world:
            yield world

    async def tenant(self, name: str | None = None) -> Caller:
        tenant_id, _, key = await create_tenant(self.core.db, name or f"tenant {uuid4().hex}")
        return Caller(self, tenant_id, key.key)

    async def drain(self, core: Core | None = None) -> None:
        """Run every job that is due, as a worker would; but no round, which the hour would tell."""
        queue = build_queue(core or self.core)
        queue.periodic_registry.periodic_tasks.clear()
        async with queue.open_async(self.core.db.pool):
            await queue.run_worker_async(
                wait=False,
                concurrency=4,
                listen_notify=False,
                install_signal_handlers=False,
                delete_jobs="always",
            )

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """What the database holds, past row-level security."""
        with psycopg.connect(self.urls.superuser) as connection:
            return connection.execute(query, values).fetchall()

    def execute(self, query: str, *values: Any) -> None:
        """Change the database from outside, as an accident or an operator would."""
        with psycopg.connect(self.urls.superuser) as connection:
            connection.execute(query, values)
