"""API keys: what they look like, what is kept of them, when they cease, what each may do."""

import asyncio
import random
import re
import statistics
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise, product
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import httpx2
import pytest

from app import db
from app.deps import REVOKED_WITHIN, KeyCache
from app.errors import Invalid, NotFound, Unauthorized
from app.memory.tenants import (
    SCOPES,
    NewKey,
    _checksum,
    create_key,
    find_credential,
    parse_key,
    revoke_key,
    tenant_of,
)
from app.rates import Rates
from tests.api.routes import KEYED, OF_USERS, TENANT_WIDE, Route
from tests.databases import fresh
from tests.fleet import Fleet
from tests.world import Caller, Urls, World


async def _key(caller: Caller, *scopes: str, **limits) -> NewKey:
    async with caller.world.core.db.tenant(caller.tenant_id) as tx:
        return await create_key(tx, caller.tenant_id, scopes or SCOPES, **limits)


def _with(caller: Caller, key: NewKey, user: str | None = None) -> Caller:
    return Caller(caller.world, caller.tenant_id, key.key, user or caller.user)


async def test_a_key_names_its_tenant_and_carries_a_checksum(alice: Caller):
    assert re.fullmatch(r"um_[0-9A-Za-z]{33}_[0-9A-Za-z]{39}", alice.key)
    tenant_id, key_id, _ = parse_key(alice.key)
    assert tenant_id == alice.tenant_id == tenant_of(key_id)


async def test_a_mistyped_key_is_known_without_a_look_up(alice: Caller):
    for place in (3, 20, 38, 50, len(alice.key) - 1):
        wrong = "x" if alice.key[place] != "x" else "y"
        with pytest.raises(Unauthorized):
            parse_key(alice.key[:place] + wrong + alice.key[place + 1 :])


@pytest.mark.parametrize("key_id", ["", "!", "0", "z" * 33, "é" * 33])
def test_what_is_no_key_id_names_no_tenant(key_id: str):
    with pytest.raises(NotFound):
        tenant_of(key_id)


async def test_only_a_hash_of_the_secret_is_kept(alice: Caller):
    secret = alice.key.split("_")[2]
    rows = alice.world.rows(
        "select api_key::text from api_key where tenant_id = %s", alice.tenant_id
    )
    assert len(rows) == 1
    assert secret[:33] not in rows[0][0]
    assert secret[:33].encode().hex() not in rows[0][0]


async def test_a_key_is_not_shown_by_accident(alice: Caller):
    assert "um_" not in repr(await _key(alice))


async def test_two_keys_share_no_secret(alice: Caller):
    keys = [(await _key(alice)).key.split("_")[2] for _ in range(5)]
    assert all(a[:8] != b[:8] for a, b in pairwise(sorted(keys)))


@pytest.mark.parametrize("scopes", [(), ("everything",), ("recall", "root")])
async def test_a_key_has_known_scopes(alice: Caller, scopes: tuple[str, ...]):
    async with alice.world.core.db.tenant(alice.tenant_id) as tx:
        with pytest.raises(Invalid):
            await create_key(tx, alice.tenant_id, scopes)


# When a key ceases to open anything.


def _clock() -> SimpleNamespace:
    return SimpleNamespace(now=0.0)


async def test_a_revoked_key_is_refused_within_a_minute(alice: Caller):
    clock = _clock()
    cache = KeyCache(timer=lambda: clock.now)
    core = alice.world.core
    key = await _key(alice, "recall")
    await cache.credential(core, f"Bearer {key.key}")

    await revoke_key(core.db, key.id)

    await cache.credential(core, f"Bearer {key.key}")
    clock.now += REVOKED_WITHIN + 0.1
    with pytest.raises(Unauthorized):
        await cache.credential(core, f"Bearer {key.key}")
    assert REVOKED_WITHIN < 60


async def test_a_process_that_has_not_seen_a_revoked_key_refuses_it_at_once(alice: Caller):
    key = await _key(alice, "recall")
    await revoke_key(alice.world.core.db, key.id)
    answer = await _with(alice, key).get("/memory")
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized")
    assert (await alice.get("/memory")).status_code == 200


async def test_an_expired_key_is_refused_though_it_is_cached(alice: Caller):
    cache = KeyCache(timer=lambda: 0.0)
    key = await _key(alice, "recall", expires_in=timedelta(hours=1))
    known = await cache.credential(alice.world.core, f"Bearer {key.key}")
    assert not known.expired(datetime.now(UTC))
    assert known.expired(datetime.now(UTC) + timedelta(hours=1))

    gone = await _key(alice, "recall", expires_in=timedelta(seconds=-1))
    assert (await _with(alice, gone).get("/memory")).status_code == 401


async def test_revoking_an_unknown_key_finds_nothing(alice: Caller):
    tenant_id, key_id, _ = parse_key(alice.key)
    with pytest.raises(NotFound):
        await revoke_key(alice.world.core.db, key_id[:-1] + ("0" if key_id[-1] != "0" else "1"))
    assert tenant_id == alice.tenant_id
    assert (await alice.get("/memory")).status_code == 200


# What an Authorization header may look like.


def _odd(key: str) -> dict[str, list[tuple[bytes, bytes]]]:
    raw = key.encode()
    name = b"Authorization"
    return {
        "none": [],
        "empty": [(name, b"")],
        "no scheme": [(name, raw)],
        "lower-case scheme": [(name, b"bearer " + raw)],
        "another scheme": [(name, b"Basic " + raw)],
        "two spaces": [(name, b"Bearer  " + raw)],
        "trailing text": [(name, b"Bearer " + raw + b" x")],
        "two keys in one": [(name, b"Bearer " + raw + b", Bearer " + raw)],
        "two headers": [(name, b"Bearer " + raw)] * 2,
        "not ASCII": [(name, b"Bearer um_\xc3\xa9\xff")],
        "long": [(name, b"Bearer um_" + b"x" * 10_000)],
        "a full-width key": [(name, "Bearer ｕｍ_１".encode())],
        "no secret": [(name, b"Bearer " + raw[:37])],
        "another secret": [(name, b"Bearer " + raw[:-1] + (b"0" if raw[-1:] != b"0" else b"1"))],
        "another header": [(b"X-Api-Key", raw)],
        "a cookie": [(b"Cookie", b"key=" + raw)],
    }


@pytest.mark.parametrize("case", _odd("um_"))
async def test_an_odd_header_is_no_key(alice: Caller, case: str):
    answer = await alice.world.http.request(
        "POST", f"{alice.base}/memory", headers=_odd(alice.key)[case], content=b"{not read"
    )
    assert (answer.status_code, answer.json()["code"]) == (401, "unauthorized"), case
    assert answer.headers["www-authenticate"] == "Bearer"


async def test_a_key_in_the_query_string_is_refused_and_not_repeated(
    alice: Caller, caplog: pytest.LogCaptureFixture
):
    world = alice.world
    for name in ("key", "api_key", "access_token", "token", alice.key):
        bare = await world.http.get(f"{alice.base}/memory", params={name: alice.key})
        beside = await alice.get("/memory", params={name: alice.key})
        assert (bare.status_code, beside.status_code) == (401, 422)
        assert alice.key not in bare.text + beside.text
    assert alice.key not in caplog.text


async def test_the_body_of_a_stranger_is_never_read(world: World):
    async def body():
        raise AssertionError("the body was read")
        yield b""

    answer = await world.http.post("/v1/users/a/memory", content=body())
    assert answer.status_code == 401


# What each key may do.


def _passes_the_door(status: int, code: str | None) -> bool:
    return status != 401 and not (status == 403 and code == "forbidden")


@pytest.mark.parametrize("route", KEYED, ids=lambda route: route.name)
async def test_a_route_opens_to_its_own_scope_alone(route: Route, alice: Caller):
    ids = {"user": "scoped", "session": "s", "fact": str(uuid4())}
    for scope in SCOPES:
        caller = _with(alice, await _key(alice, scope))
        answer = await caller.call(
            route.method, route.fill(**ids), json=route.body, headers=route.headers
        )
        code = answer.json().get("code") if answer.status_code >= 400 else None
        assert _passes_the_door(answer.status_code, code) == (scope == route.scope), (scope, code)
        assert (answer.status_code == 403) == (scope != route.scope)


@pytest.mark.parametrize("route", TENANT_WIDE, ids=lambda route: route.name)
async def test_a_bound_key_is_forbidden_what_is_the_whole_tenants(route: Route, alice: Caller):
    bound = _with(alice, await _key(alice, bound_to="alice"))
    answer = await bound.call(route.method, route.path, json=route.body)
    assert (answer.status_code, answer.json()["code"]) == (403, "bound_key")


@pytest.mark.parametrize("route", OF_USERS, ids=lambda route: route.name)
async def test_a_bound_key_sees_its_own_user_alone(route: Route, alice: Caller):
    await alice.of("bob").post("/facts", {"text": "Uses Go.", "kind": "preference"})
    bound = _with(alice, await _key(alice, bound_to="alíce/1"))
    ids = {"session": "s", "fact": str(uuid4())}

    def call(user: str):
        path = route.fill(user=user, **ids)
        return bound.call(route.method, path, json=route.body, headers=route.headers)

    # One's own last: erasing the user ends the key.
    known, unknown, bad, own = [
        await call(user) for user in ("bob", "nobody", "\x00", "ali\u0301ce/1")
    ]

    assert own.status_code == route.foreign
    assert (known.status_code, unknown.status_code, bad.status_code) == (404, 404, 422)
    assert {**known.json(), "request_id": ""} == {**unknown.json(), "request_id": ""}


async def test_a_bound_key_without_the_scope_is_forbidden_everywhere(alice: Caller):
    bound = _with(alice, await _key(alice, "recall", bound_to="alice"))
    assert (await bound.get("/facts")).status_code == 403
    assert (await bound.of("bob").get("/facts")).status_code == 403


# What guessing tells and costs: statistical, for `make soak`.


def _guess(key: str, place: int) -> str:
    """A well-formed key whose id or secret differs in one letter."""
    body = key[:-6]
    wrong = "x" if body[place] != "x" else "y"
    body = body[:place] + wrong + body[place + 1 :]
    return body + _checksum(body)


@pytest.mark.soak
@pytest.mark.timeout(900)
async def test_an_unknown_id_and_a_wrong_secret_take_the_same_time(alice: Caller):
    core = alice.world.core
    guesses = {
        "unknown id": _guess(alice.key, 35),
        "first letter": _guess(alice.key, 37),
        "last letter": _guess(alice.key, len(alice.key) - 7),
    }
    took: dict[str, list[float]] = {name: [] for name in guesses}
    for _ in range(20_000):
        # In turn, so that the machine's moods hit all alike, and each comes after each.
        for name, key in random.sample(list(guesses.items()), len(guesses)):
            parsed = parse_key(key)
            started = time.perf_counter()
            assert await find_credential(core.db, *parsed) is None
            took[name].append(time.perf_counter() - started)
    medians = {name: statistics.median(times) for name, times in took.items()}
    assert max(medians.values()) - min(medians.values()) < 0.02 * min(medians.values()), medians


@pytest.mark.soak
@pytest.mark.timeout(300)
async def test_a_flood_of_wrong_keys_slows_no_good_caller(alice: Caller):
    keys = KeyCache(Rates({"wrong_key": 600}))
    state = {**alice.world.state, "keys": keys}
    world = alice.world
    async with World._over(world.app, world.urls, state, world.settings) as limited:
        good = Caller(limited, alice.tenant_id, alice.key)

        async def p95() -> float:
            times = []
            for _ in range(100):
                started = time.perf_counter()
                assert (await good.get("/memory")).status_code == 200
                times.append(time.perf_counter() - started)
                await asyncio.sleep(0.05)
            return sorted(times)[94]

        async def flood() -> Counter[int]:
            statuses: Counter[int] = Counter()
            guesser = Caller(limited, alice.tenant_id, _guess(alice.key, 37))
            for _ in range(5_000):
                statuses[(await guesser.get("/memory")).status_code] += 1
                await asyncio.sleep(0.002)
            return statuses

        await p95()
        alone = await p95()
        flooding = asyncio.create_task(flood())
        await asyncio.sleep(2)
        beside = await p95()
        statuses = await flooding
    await keys.aclose(world.core)
    assert statuses[401] <= 1_200  # two minutes' worth
    assert statuses[429] == 5_000 - statuses[401]
    assert beside < 2 * alone + 0.01


@pytest.mark.soak
@pytest.mark.timeout(400)
def test_a_key_revoked_through_one_process_is_refused_by_the_other_and_a_rotated_one_never(
    urls: Urls, tmp_path: Path
):
    with fresh(urls) as its, Fleet.on(its, tmp_path) as fleet:
        db.migrate(its.superuser)
        root = fleet.tenant()
        one, two = fleet.api(), fleet.api()

        def call(url: str, method: str, path: str, key: str, body: object = None):
            headers = {"Authorization": f"Bearer {key}"}
            return httpx2.request(method, url + path, headers=headers, json=body, timeout=20)

        def recall(url: str, key: str) -> int:
            return call(url, "GET", "/v1/users/a/memory", key).status_code

        made = [
            call(one, "POST", "/v1/tenant/keys", root, {"scopes": ["recall"]}).json()
            for _ in range(2)
        ]
        leaked, old = made[0]["key"], made[1]["key"]
        for url, key in product((one, two), (leaked, old)):
            assert recall(url, key) == 200
        rotate = f"/v1/tenant/keys/{made[1]['id']}/rotate"
        new = call(one, "POST", rotate, root, {"overlap": "1h"}).json()["key"]

        assert call(one, "DELETE", f"/v1/tenant/keys/{made[0]['id']}", root).status_code == 204
        revoked = time.monotonic()

        assert recall(one, leaked) == 401
        while (status := recall(two, leaked)) == 200:
            assert time.monotonic() - revoked < 60
            assert [recall(url, key) for url in (one, two) for key in (new, old)] == [200] * 4
            time.sleep(0.2)
        assert status == 401
        assert time.monotonic() - revoked <= 60
        assert [recall(url, key) for url in (one, two) for key in (new, old)] == [200] * 4
