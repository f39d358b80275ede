"""The caller's own ids: any text that can be kept exactly, on every route, and nothing else."""

import json
from urllib.parse import quote

import pytest

from tests.api.routes import OF_USERS, Route
from tests.api.test_errors import check_problem
from tests.world import Caller

GOOD = [
    "null", "NaN", "a-b", "a_b", "*", "%", "%%2F", "a/b", "//", "a?b#c", " ", "+", "...", "a;b=c",
    "' OR '1'='1", '"', "{user}", "\\", "👩\u200d🔬", "🦊" * 256, "\u200b", "\ufeff", "facts",
]  # fmt: skip
BAD = ["", ".", "..", "x" * 257, "a\x00b", "\n", "\x7f", "\x85", "a\tb", "🦊" * 257]


@pytest.mark.parametrize("user", GOOD, ids=lambda user: repr(user[:12]))
async def test_an_id_works_on_every_route_literally(alice: Caller, user: str):
    caller = alice.of(user)
    session = quote(user, safe="")
    said = [{"role": "user", "content": "I like tea."}]

    posted = await caller.post(f"/sessions/{session}/messages", {"messages": said})
    assert (posted.status_code, posted.json()["session"]) == (202, user), posted.text
    assert (await caller.get(f"/sessions/{session}")).json()["session"] == user
    [listed] = (await caller.get("/sessions")).json()["items"]
    assert listed["session"] == user
    transcript = await caller.post("/transcripts", {"session": user, "messages": said})
    location = transcript.headers["location"]
    assert (await alice.call("GET", location)).json()["session"] == user
    for method, path in [("GET", "/settings"), ("GET", "/facts"), ("GET", "/memory")]:
        assert (await alice.call(method, caller.base + path)).status_code == 200
    recalled = await caller.get("/memory", params={"session": user})
    assert recalled.status_code == 200
    assert (await caller.post("/memory", {"session": user})).json()["frozen"] is True
    assert (await caller.delete(f"/sessions/{session}")).json()["session"] == user
    assert (await caller.get(f"/sessions/{session}")).status_code == 404


@pytest.mark.parametrize("route", OF_USERS, ids=lambda route: route.name)
async def test_what_is_no_id_is_refused_on_every_route(alice: Caller, route: Route):
    fact = "00000000-0000-4000-8000-000000000000"
    for bad in BAD:
        path = route.fill(user=bad, session="s", fact=fact)
        answer = await alice.call(route.method, path, json=route.body, headers=route.headers)
        assert "path.user" in check_problem(answer, 422)["detail"]
        if "{session}" in route.path and bad:
            path = route.fill(user="a", session=bad)
            answer = await alice.call(route.method, path, json=route.body)
            assert "path.session" in check_problem(answer, 422)["detail"]


@pytest.mark.parametrize("raw", ["%FF", "%C0%AF", "%ED%A0%80", "a%80", "%F8%88%80%80%80"])
async def test_a_path_that_is_not_utf8_is_400(alice: Caller, raw: str):
    check_problem(await alice.call("GET", f"/v1/users/{raw}/facts"), 400, "malformed")
    check_problem(await alice.get(f"/sessions/{raw}"), 400, "malformed")
    check_problem(await alice.get(f"/memory?query={raw}"), 400, "malformed")


@pytest.mark.parametrize("bad", [*BAD, "a\ud83d", 7, None, True, ["a"], {"a": 1}], ids=repr)
async def test_what_is_no_id_is_refused_in_a_body(alice: Caller, bad: object):
    message = {"role": "user", "content": "I like tea.", "id": bad}
    bodies: list[tuple[str, dict[str, object]]] = [
        ("/memory", {"session": bad}),
        ("/transcripts", {"session": bad, "messages": [message]}),
        ("/sessions/s/messages", {"messages": [message]}),
    ]
    for path, body in bodies:
        if bad is None:
            continue
        answer = await alice.call(
            "POST",
            alice.base + path,
            content=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        check_problem(answer, 422)


async def test_the_longest_id_is_measured_after_its_normal_form(alice: Caller):
    assert (await alice.of("e\u0301" * 256).get("/facts")).status_code == 200


@pytest.mark.parametrize("bad", ["x", "0", "*", "00000000-0000-4000-8000-00000000000g", "%00"])
async def test_a_malformed_fact_id_is_422_and_not_repeated(alice: Caller, bad: str):
    for method, tail in [("GET", ""), ("GET", "/why"), ("GET", "/history"), ("DELETE", "")]:
        answer = await alice.call(method, f"{alice.base}/facts/{bad}{tail}")
        assert check_problem(answer, 422)["detail"] == "path.fact: a UUID is needed."
