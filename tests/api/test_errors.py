"""Every error is problem+json, tells no secret, and the document says the same as the service."""

import re
from typing import Any

import pytest

from app.problems import MEDIA_TYPE
from tests.api.routes import KEYED, ROUTES, Route
from tests.world import Caller, World

_IDS = {"user": "alice", "session": "s", "fact": "00000000-0000-4000-8000-000000000000"}


def check_problem(answer: Any, status: int, code: str | None = None) -> dict[str, Any]:
    """Assert that an answer is a whole problem of this status; give its body."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == MEDIA_TYPE
    body = answer.json()
    assert set(body) == {"type", "title", "status", "detail", "code", "request_id"}
    assert body["status"] == status
    assert body["request_id"] == answer.headers["x-request-id"]
    assert body["type"].endswith(body["code"])
    assert code in {None, body["code"]}, body
    return body


@pytest.mark.parametrize(
    "path",
    [
        "/nope",
        "/v1",
        "/v1/users",
        "/v1/user/a",
        "/v1/users/a/",
        "/v1/users/a/facts/",
        "/v1/users/a/sessions/s/",
        "/v1//users/a/facts",
        "//v1/users/a/facts",
        "/v1/users/a/facts/x/y/z",
        "/V1/users/a/facts",
        "/redoc",
        "/metrics/x",
        "/docs/oauth2-redirect",
        "/.env",
        "/%FF",
    ],
)
async def test_an_unknown_path_is_404_with_and_without_a_key(alice: Caller, path: str):
    check_problem(await alice.call("GET", path), 404, "not_found")
    check_problem(await alice.world.http.get(path), 404, "not_found")


@pytest.mark.parametrize("method", ["OPTIONS", "TRACE", "PUT", "DELETE", "QUERY"])
async def test_an_unknown_method_is_405_and_names_all_that_are_known(alice: Caller, method: str):
    path = f"{alice.base}/facts"
    answer = await alice.call(method, path)
    check_problem(answer, 405, "method_not_allowed")
    assert answer.headers["allow"] == "GET, HEAD, POST"


async def test_head_is_get_without_the_body(alice: Caller):
    got, head = await alice.get("/settings"), await alice.call("HEAD", f"{alice.base}/settings")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == got.headers["content-length"]
    assert (await alice.world.http.head(f"{alice.base}/settings")).status_code == 401


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost:3000"])
async def test_no_other_origin_is_let_in(alice: Caller, origin: str):
    preflight = {"Origin": origin, "Access-Control-Request-Method": "POST"}
    answers = [
        await alice.call("OPTIONS", f"{alice.base}/facts", headers=preflight),
        await alice.get("/facts", headers={"Origin": origin}),
    ]
    assert not [name for a in answers for name in a.headers if name.startswith("access-control")]


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
async def test_an_undeclared_query_parameter_is_named_and_its_value_is_not(
    route: Route, alice: Caller
):
    for name, shown in [("usr", "usr"), ("x" * 70, "a field"), ("é\x00", "a field")]:
        answer = await alice.call(
            route.method,
            route.fill(**_IDS),
            params={name: "zqx771"},
            json=route.body,
            headers=route.headers,
        )
        body = check_problem(answer, 422, "invalid")
        assert body["detail"] == f"query.{shown}: there is no such parameter."


@pytest.mark.parametrize("route", [r for r in ROUTES if r.query], ids=lambda route: route.name)
async def test_a_parameter_given_twice_is_refused(route: Route, alice: Caller):
    name = route.query[0]
    answer = await alice.call(route.method, route.fill(**_IDS) + f"?{name}=1&{name}=1")
    assert f"query.{name}" in check_problem(answer, 422)["detail"]


@pytest.mark.parametrize(
    "field", ["tenant_id", "user_id", "status", "superseded_at", "created_at", "source", "id"]
)
@pytest.mark.parametrize("route", [r for r in KEYED if r.method != "GET"], ids=lambda r: r.name)
async def test_a_field_of_the_servers_is_named_and_refused(route: Route, field: str, alice: Caller):
    answer = await alice.call(
        route.method,
        route.fill(**_IDS),
        json={**(route.body or {}), field: "zqx771"},
        headers=route.headers,
    )
    detail = check_problem(answer, 422, "invalid")["detail"]
    assert f"body.{field}:" in detail
    assert "zqx771" not in detail


async def test_personal_answers_are_nobodys_to_keep(alice: Caller):
    for path in ("/facts", "/memory", "/settings", "/sessions", "/sessions/none"):
        answer = await alice.get(path)
        assert answer.headers["cache-control"] == "private, no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"


# The OpenAPI document.


async def test_only_the_documented_surfaces_answer_without_a_key(world: World):
    document = world.app.openapi()
    open_paths = [
        path
        for path, operations in document["paths"].items()
        if not all("security" in operation for operation in operations.values())
    ]
    assert sorted(open_paths) == ["/livez", "/metrics", "/readyz"]
    assert (await world.http.get("/openapi.json")).json() == document
    assert (await world.http.get("/docs")).status_code == 200


async def test_the_document_tells_of_errors_as_they_are(world: World):
    document = world.app.openapi()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            answers = operation["responses"]
            for status, answer in answers.items():
                if status.startswith("4"):
                    schema = answer["content"][MEDIA_TYPE]["schema"]
                    assert schema == {"$ref": "#/components/schemas/Problem"}, (path, method)
            expected = {"400", "422", "431"}
            if "security" in operation:
                expected |= {"401", "403", "404", "413", "415"}
            assert expected <= set(answers), (path, method)
            named = {p["name"] for p in operation.get("parameters", []) if p["in"] == "path"}
            assert named == set(re.findall(r"{(\w+)}", path))
    assert "HTTPValidationError" not in document["components"]["schemas"]
    assert document["components"]["securitySchemes"] == {
        "api_key": {"type": "http", "scheme": "bearer", "description": "um_<id>_<secret>"},
        "root_key": {"type": "http", "scheme": "bearer", "description": "USERMEM_ROOT_KEY"},
    }


@pytest.mark.parametrize(
    ("path", "method", "statuses"),
    [
        ("/v1/users/{user}/facts", "post", {"200", "201", "202", "409", "410"}),
        ("/v1/organization/facts", "post", {"200", "201", "202", "409", "410"}),
        ("/v1/users/{user}/import", "post", {"200", "409", "410"}),
        ("/v1/users/{user}/memory", "get", {"200", "304"}),
        ("/v1/users/{user}/transcripts", "post", {"202", "409", "410"}),
        ("/v1/users/{user}/sessions/{session}/messages", "post", {"202", "409", "410"}),
        ("/v1/users/{user}/sessions/{session}/retry", "post", {"202", "409"}),
        ("/v1/users/{user}/facts/{fact}", "delete", {"204"}),
        ("/v1/users/{user}/facts/{fact}", "patch", {"200", "409", "412", "428"}),
    ],
)
async def test_the_document_knows_every_way_a_call_can_end(
    world: World, path: str, method: str, statuses: set[str]
):
    assert statuses <= set(world.app.openapi()["paths"][path][method]["responses"])


@pytest.mark.parametrize(
    ("path", "field"), [("/v1/users/%7F/facts", "path.user"), ("?status=dead", "query.status")]
)
async def test_what_is_wrong_is_told_once(alice: Caller, path: str, field: str):
    for method in ("GET", "POST") if path[0] == "/" else ("GET",):
        at = path if path[0] == "/" else f"{alice.base}/facts{path}"
        answer = await alice.call(method, at, json=None if method == "GET" else {"text": "x"})
        detail = check_problem(answer, 422)["detail"]
        assert detail.count(field) == 1
        assert ";" not in detail
