"""How often a key may ask, and what a flood of wrong keys costs others."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import cast

import pytest

from app.deps import KeyCache, Needs
from app.errors import TooManyRequests
from app.memory.tenants import SCOPES, _checksum, create_key
from app.rates import Budget, Rates
from tests.api.test_errors import check_problem
from tests.conftest import ROOT_KEY
from tests.world import Caller, World


def _clock() -> SimpleNamespace:
    return SimpleNamespace(now=1000.0)


def allowed(rates: Rates, budget, who: str) -> int:
    for n in range(10_000):
        try:
            rates.spend(budget, who)
        except TooManyRequests:
            return n
    return 10_000


def test_a_minute_has_its_number_and_the_next_one_again():
    clock = _clock()
    rates = Rates({"recall": 600}, timer=lambda: clock.now)
    assert allowed(rates, "recall", "a") == 600
    clock.now += 59
    assert allowed(rates, "recall", "a") == 0
    clock.now += 1.1
    assert allowed(rates, "recall", "a") == 600


def test_keys_and_budgets_are_counted_apart():
    rates = Rates({"recall": 3, "other": 2, "privacy": 2})
    assert allowed(rates, "recall", "a") == 3
    assert allowed(rates, "recall", "b") == 3
    assert allowed(rates, "other", "a") == 2
    assert allowed(rates, "privacy", "a") == 2


def test_each_replica_has_its_share_and_never_none():
    assert allowed(Rates({"other": 300}, replicas=4), "other", "a") == 75
    assert allowed(Rates({"other": 2}, replicas=10), "other", "a") == 1


def test_zero_turns_a_limit_off():
    assert allowed(Rates({"other": 0}), "other", "a") == 10_000


def test_it_is_said_when_to_come_back():
    clock = _clock()
    rates = Rates({"other": 1}, timer=lambda: clock.now)
    rates.spend("other", "a")
    clock.now += 20.5
    with pytest.raises(TooManyRequests) as caught:
        rates.spend("other", "a")
    assert caught.value.retry_after == 40


@asynccontextmanager
async def limited(
    world: World, one_user: int = 0, **limits: int
) -> AsyncIterator[tuple[World, KeyCache]]:
    keys = KeyCache(Rates(cast("dict[Budget, int]", limits), one_user=one_user))
    state = {**world.state, "keys": keys}
    async with World._over(world.app, world.urls, state, world.settings) as opened:
        yield opened, keys
    await keys.aclose(world.core)


async def test_a_burst_of_one_user_takes_nothing_from_the_others(alice: Caller):
    async with limited(alice.world, recall=20, other=20, privacy=20, one_user=5) as (world, _):
        greedy = at(world, alice)
        burst = [await greedy.get("/memory") for _ in range(50)]
        # The same user, spelled otherwise.
        again = await greedy.call("GET", "/v1/users/%61lice/memory")
        others = [(await greedy.of(f"u{n}").get("/memory")).status_code for n in range(15)]
        whole = await greedy.of("one more").get("/memory")
        erased = await greedy.delete("")
    assert [answer.status_code for answer in burst] == [200] * 5 + [429] * 45
    check_problem(burst[-1], 429, "too_many_requests")
    assert 1 <= int(burst[-1].headers["retry-after"]) <= 60
    assert again.status_code == 429
    assert others == [200] * 15
    assert whole.status_code == 429, "the key's own limit holds for many users too"
    assert erased.status_code == 200


async def test_mcp_counts_by_user_too(alice: Caller):
    async with limited(alice.world, other=20, one_user=2) as (world, _):
        caller = at(world, alice)
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        common = {"Accept": "application/json, text/event-stream", "Host": "localhost"}

        async def status(user: str) -> int:
            headers = {**common, "Usermem-User": user}
            return (await caller.call("POST", "/mcp", json=body, headers=headers)).status_code

        assert [await status("a") for _ in range(3)] == [200, 200, 429]
        assert await status("b") == 200


def at(world: World, caller: Caller) -> Caller:
    return Caller(world, caller.tenant_id, caller.key)


async def test_what_is_too_much_is_429_with_a_time_to_come_back(alice: Caller, other: Caller):
    async with limited(alice.world, recall=3, other=2, privacy=1) as (world, _):
        caller = at(world, alice)
        recalls = [await caller.get("/memory") for _ in range(4)]
        others = [await caller.get("/facts") for _ in range(3)]
        privacy = [await caller.get("/settings") for _ in range(2)]
        assert (await at(world, other).get("/memory")).status_code == 200
    for answers in (recalls, others, privacy):
        *good, last = answers
        assert {answer.status_code for answer in good} == {200}
        check_problem(last, 429, "too_many_requests")
        assert 1 <= int(last.headers["retry-after"]) <= 60


async def test_whoever_used_up_the_rest_may_still_erase_and_export(alice: Caller):
    async with limited(alice.world, other=1, privacy=2) as (world, _):
        caller = at(world, alice)
        assert [(await caller.get("/facts")).status_code for _ in range(2)] == [200, 429]
        assert (await caller.get("/export")).status_code == 200
        assert (await caller.delete("")).status_code == 200


async def test_search_counts_as_recall_and_mcp_as_the_rest(alice: Caller):
    async with limited(alice.world, recall=1, other=1) as (world, _):
        caller = at(world, alice)
        search = [await caller.post("/search", {"query": "tea"}) for _ in range(2)]
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        headers = {"Accept": "application/json, text/event-stream", "Host": "localhost"}
        mcp = [await caller.call("POST", "/mcp", json=body, headers=headers) for _ in range(2)]
    assert [answer.status_code for answer in search] == [200, 429]
    assert [answer.status_code for answer in mcp] == [200, 429]
    check_problem(mcp[1], 429, "too_many_requests")


async def test_a_refused_request_counts_too(alice: Caller):
    async with alice.world.core.db.tenant(alice.tenant_id) as tx:
        key = await create_key(tx, alice.tenant_id, ("ingest",))
    async with limited(alice.world, other=2) as (world, _):
        caller = Caller(world, alice.tenant_id, key.key)
        assert [(await caller.get("/facts")).status_code for _ in range(3)] == [403, 403, 429]


def wrong_key(caller: Caller) -> str:
    """One of the right form, so that only the database can tell."""
    body = caller.key[:-39] + "0" * 33
    return body + _checksum(body)


async def test_wrong_keys_are_no_longer_looked_up_once_there_were_many(
    alice: Caller, other: Caller
):
    async with limited(alice.world, wrong_key=3) as (world, keys):
        good, guesser = at(world, alice), Caller(world, alice.tenant_id, wrong_key(alice))
        assert (await good.get("/memory")).status_code == 200
        statuses = [(await guesser.get("/memory")).status_code for _ in range(5)]
        malformed = await Caller(world, alice.tenant_id, "um_x").get("/memory")
        nameless = await world.http.get("/v1/users/a/memory")

        keys._known.clear()  # a minute later
        assert (await good.get("/memory")).status_code == 200
        stranger = await at(world, other).get("/memory")
    assert statuses == [401, 401, 401, 429, 429]
    check_problem(malformed, 429, "too_many_requests")
    assert nameless.status_code == 401
    assert stranger.status_code == 429


async def test_guesses_of_the_root_key_are_counted_and_the_right_one_passes(alice: Caller):
    async with limited(alice.world, wrong_key=2) as (world, _):
        wrong = {"Authorization": "Bearer " + "x" * 40}
        path = "/v1/tenants/3f0c8e56-58a4-4a53-8a5c-0d6d7c0f8a11"
        statuses = [(await world.http.delete(path, headers=wrong)).status_code for _ in range(4)]
        right = await world.http.delete(path, headers={"Authorization": f"Bearer {ROOT_KEY}"})
    assert statuses == [401, 401, 429, 429]
    assert right.status_code == 404


def test_every_scope_has_a_budget():
    assert {scope: Needs(scope).budget for scope in SCOPES} == {
        "recall": "recall",
        "privacy": "privacy",
        "ingest": "other",
        "facts": "other",
        "admin": "other",
    }
