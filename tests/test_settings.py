"""No setting is dead: each is flipped, and what it is for must come out otherwise."""

import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from app import cli, main, metrics, telemetry, wiring, worker
from app.address import database
from app.address import signing_key as key_of
from app.embeddings import Embedder
from app.errors import UsermemError
from app.main import rates_of
from app.settings import Settings
from tests.conftest import ROOT_KEY
from tests.scripted_claude import Drip, ScriptedClaude
from tests.scripted_embedder import ScriptedEmbedder
from tests.world import Caller, Urls, World

SECOND = timedelta(seconds=1)


@dataclass
class Bench:
    """What a look at a setting works with."""

    urls: Urls
    tmp_path: Path
    monkeypatch: pytest.MonkeyPatch
    claude: ScriptedClaude

    def settings(self, **values: Any) -> Settings:
        usual = {
            "database_url": self.urls.service,
            "signing_key": "k" * 40,
            "extractor": "rules",
            "log_level": "warning",
        }
        return Settings(**{**usual, **values})

    @asynccontextmanager
    async def world(self, **values: Any) -> AsyncIterator[World]:
        async with World.open(self.settings(**values), self.urls) as world:
            yield world

    async def ask(self, **values: Any) -> tuple[Any, Any]:
        """Let the service read a turn by the scripted Claude; give what came there."""
        usual = {
            "extractor": "claude",
            "anthropic_api_key": "a",
            "anthropic_base_url": self.claude.url,
        }
        async with self.world(**{**usual, **values}) as world:
            await (await world.tenant()).say("I live in Graz.")
        asked, self.claude.requests = self.claude.requests, []
        return (asked[0].headers, asked[0].body) if asked else ({}, {})


def header(headers: Any, name: str) -> str:
    return {key.lower(): value for key, value in headers.items()}[name]


def embedder_of(settings: Settings, prefix: str) -> Embedder | None:
    return wiring._previous_embedder(settings) if prefix else wiring.build_embedder(settings)


def embeds(name: str, one: Any, other: Any) -> Callable[[Bench], Any]:
    """Look at what one of the embedder's settings changes in a request, or in the embedder."""

    async def look(bench: Bench) -> list[Any]:
        prefix = "previous_" if name.startswith("previous_") else ""
        seen: list[Any] = []
        for value in (one, other):
            with ScriptedEmbedder() as first, ScriptedEmbedder() as second:
                urls = {"first": first.url, "second": second.url}
                usual = {
                    f"{prefix}embedder": "openai",
                    f"{prefix}embeddings_url": first.url,
                    f"{prefix}embeddings_model": "m",
                    f"{prefix}embeddings_api_key": "k",
                }
                settings = bench.settings(**{**usual, name: urls.get(value, value)})
                embedder = embedder_of(settings, prefix)
                if embedder is None:
                    seen.append(None)
                    continue
                await embedder.embed(["tea"])
                await embedder.aclose()
                asked = [
                    (place, one.body["model"], header(one.headers, "authorization"))
                    for place, server in enumerate((first, second))
                    for one in server.asked
                ]
                seen.append((asked, embedder.recall_floor))
        return seen

    return look


def allows(budget: Any, user: str = "", **others: int) -> Callable[..., Any]:
    """Count the requests that are let through of ten."""

    def look(settings: Settings) -> int:
        rates = rates_of(settings)
        for n in count():
            try:
                rates.spend(budget, "key", user)
            except UsermemError:
                return n
            if n == 10:
                return n
        raise AssertionError

    return look


def limited(name: str, budget: Any, user: str = "", **usual: int) -> Callable[[Bench], Any]:
    async def look(bench: Bench) -> list[int]:
        values = (3, 6)
        settings = [bench.settings(**{**usual, name: value}) for value in values]
        return [allows(budget, user)(one) for one in settings]

    return look


def opened(name: str, one: Any, other: Any, of: Callable[[World], Any]) -> Callable[[Bench], Any]:
    """Open the service with either value and look at it."""

    async def look(bench: Bench) -> list[Any]:
        seen = []
        for value in (one, other):
            async with bench.world(**{name: value}) as world:
                found = of(world)
                seen.append(await found if hasattr(found, "__await__") else found)
        return seen

    return look


def asked(name: str, one: Any, other: Any, of: Callable[[Any, Any], Any]) -> Callable[[Bench], Any]:
    async def look(bench: Bench) -> list[Any]:
        return [of(*await bench.ask(**{name: value})) for value in (one, other)]

    return look


async def _create_tenant(world: World) -> int:
    answer = await world.http.post(
        "/v1/tenants",
        json={"name": f"t{time.monotonic_ns()}"},
        headers={"Authorization": f"Bearer {ROOT_KEY}"},
    )
    return answer.status_code


async def _address_of_a_link(world: World) -> str:
    answer = await (await world.tenant()).post("/page-links", {})
    return str(answer.json()["url"]).partition("/me")[0]


async def _receipt(world: World) -> Any:
    caller: Caller = await world.tenant()
    receipt = (await caller.delete("")).json()
    return receipt["backups_until"][:4]


async def _anthropic_api_key(bench: Bench) -> list[bool]:
    """By default Claude reads the conversations where there is a key."""
    asked = [await bench.ask(extractor="auto", anthropic_api_key=key) for key in (None, "a")]
    return [bool(body) for _, body in asked]


async def _base_url(bench: Bench) -> list[int]:
    with ScriptedClaude() as other:
        seen = []
        for url in (bench.claude.url, other.url):
            await bench.ask(anthropic_base_url=url)
            seen.append(len(other.requests))
        return seen


async def _model_timeout(bench: Bench) -> list[bool]:
    bench.claude.always(Drip(every=0.2))
    seen = []
    for seconds in (1, 4):
        started = time.monotonic()
        async with bench.world(
            extractor="claude", anthropic_api_key="a", anthropic_base_url=bench.claude.url,
            model_timeout=timedelta(seconds=seconds),
        ) as world:  # fmt: skip
            started = time.monotonic()
            await (await world.tenant()).say("I live in Graz.")
            seen.append(time.monotonic() - started > 3)
    return seen


async def _ledger(bench: Bench) -> list[int]:
    seen = []
    for name in ("one", "other"):
        path = bench.tmp_path / name / "ledger"
        path.parent.mkdir()
        async with bench.world(erasure_ledger=path) as world:
            await (await world.tenant()).delete("")
        seen.append((bench.tmp_path / "one" / "ledger").stat().st_size)
        (bench.tmp_path / "one" / "ledger").write_bytes(b"")
    return seen


async def _data_dir(bench: Bench) -> list[bytes]:
    paths = [bench.tmp_path / "a", bench.tmp_path / "b"]
    for path in paths:
        path.mkdir()
    plain = [Settings(data_dir=path, signing_key=None, database_url=None) for path in paths]
    return [key_of(one) for one in plain]


async def _addresses(bench: Bench, name: str, part: str) -> list[str]:
    seen = []
    for url in ("postgresql://a@h/a", "postgresql://b@h/b"):
        with database(bench.settings(**{name: url})) as address:
            seen.append(getattr(address, part))
    return seen


async def _worker_metrics(bench: Bench) -> list[Any]:
    served: list[Any] = []

    async def run(_: object) -> None:
        return

    bench.monkeypatch.setattr(metrics, "serve", lambda *where: served.append(where))
    bench.monkeypatch.setattr(worker.Worker, "run", run)
    seen = []
    for value in (None, "127.0.0.1:9101"):
        await cli._work(bench.settings(worker_metrics=value), bench.urls.service, 1)
        seen.append(list(served))
    return seen


async def _worker_concurrency(bench: Bench) -> list[Any]:
    made: list[int] = []

    class Idle(worker.Worker):
        def __init__(self, core: Any, *, concurrency: int) -> None:
            made.append(concurrency)
            super().__init__(core, concurrency=concurrency)

        async def run(self) -> None:
            return

    bench.monkeypatch.setattr(main, "Worker", Idle)
    for value in (2, 3):
        settings = bench.settings(worker_concurrency=value)
        app = main.create_app(settings, bench.urls.service)
        async with app.router.lifespan_context(app):
            pass  # the worker is made as it starts
    return made


PROOFS: dict[str, Callable[[Bench], Any]] = {
    "database_url": lambda bench: _addresses(bench, "database_url", "service_url"),
    "migrate_database_url": lambda bench: _addresses(bench, "migrate_database_url", "owner_url"),
    "data_dir": _data_dir,
    "extractor": asked("extractor", "claude", "rules", lambda _, body: bool(body)),
    "anthropic_api_key": _anthropic_api_key,
    "anthropic_base_url": _base_url,
    "model": asked("model", "claude-one", "claude-other", lambda _, body: body["model"]),
    "model_timeout": _model_timeout,
    **{
        name: embeds(name, *values)
        for prefix in ("", "previous_")
        for name, values in {
            f"{prefix}embedder": ("openai", None if prefix else "local"),
            f"{prefix}embeddings_url": ("first", "second"),
            f"{prefix}embeddings_model": ("one", "other"),
            f"{prefix}embeddings_api_key": ("one", "other"),
            f"{prefix}embeddings_floor": (0.1, 0.9),
        }.items()
    },
    "signing_key": opened("signing_key", "a" * 40, "b" * 40, lambda w: w.core.keyed_hash("x")),
    "root_key": opened("root_key", None, ROOT_KEY, _create_tenant),
    "public_url": opened(
        "public_url", "https://a.example", "https://b.example", _address_of_a_link
    ),
    "erasure_ledger": _ledger,
    "backup_retention": opened(
        "backup_retention", timedelta(days=1), timedelta(days=800), _receipt
    ),
    "rate_limit_recall": limited("rate_limit_recall", "recall"),
    "rate_limit": limited("rate_limit", "other"),
    "rate_limit_user": limited("rate_limit_user", "other", "u", rate_limit=60),
    "rate_limit_wrong_keys": limited("rate_limit_wrong_keys", "wrong_key"),
    "replicas": limited("replicas", "other", rate_limit=18),
    "metrics_token": opened(
        "metrics_token", None, "m" * 16, lambda w: w.state["metrics_token"] is None
    ),
    "worker_metrics": _worker_metrics,
    "pool_size": opened("pool_size", 2, 5, lambda w: w.core.db.pool.max_size),
    "pool_timeout": opened("pool_timeout", SECOND, 3 * SECOND, lambda w: w.core.db.pool.timeout),
    "prepared_statements": opened(
        "prepared_statements", True, False, lambda w: w.core.db.pool.kwargs
    ),
    "worker_concurrency": _worker_concurrency,
    "recall_deadline": opened(
        "recall_deadline", SECOND, 3 * SECOND, lambda w: w.core.recall_deadline
    ),
    "recall_cache": opened("recall_cache", 0, 16, lambda w: w.core.mirrors._kept.maxsize),
    "log_level": opened(
        "log_level", "warning", "error", lambda _: logging.getLogger().getEffectiveLevel()
    ),
}


def test_every_setting_is_looked_at():
    assert set(PROOFS) == set(Settings.model_fields)


@pytest.mark.parametrize("name", PROOFS)
async def test_a_setting_that_is_flipped_changes_what_it_is_for(
    name: str, urls: Urls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    try:
        with ScriptedClaude() as claude:
            one, other = await PROOFS[name](Bench(urls, tmp_path, monkeypatch, claude))
    finally:
        telemetry.configure("info")  # as the tests beside this one want it
    assert one != other
