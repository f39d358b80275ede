"""MCP over real HTTP, by the official client: tools, keys, users, and what is refused."""

import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult

from app.memory.tenants import NewKey, create_key, revoke_key
from app.wire import MAX_BODY
from tests.world import Caller

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


def headers_of(caller: Caller, *, user: bool = True) -> dict[str, str]:
    named = {"Usermem-User": quote(caller.user, safe="")} if user else {}
    return {"Authorization": f"Bearer {caller.key}", **named}


@asynccontextmanager
async def connected(
    served: str, headers: dict[str, str], mode: str = "auto"
) -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30) as http,
        Client(
            streamable_http_client(f"{served}/mcp", http_client=http),
            mode=mode,
        ) as client,
    ):
        yield client


@pytest.fixture
async def client(served: str, alice: Caller) -> AsyncIterator[Client]:
    async with connected(served, headers_of(alice)) as opened:
        yield opened


async def key_for(caller: Caller, *scopes: str, bound_to: str | None = None) -> NewKey:
    async with caller.world.core.db.tenant(caller.tenant_id) as tx:
        return await create_key(tx, caller.tenant_id, scopes or ("facts",), bound_to=bound_to)


def text_of(result: CallToolResult) -> str:
    (content,) = result.content
    assert content.type == "text"
    return content.text


async def do(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert isinstance(result, CallToolResult)
    assert not result.is_error, text_of(result)
    return result.structured_content


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert isinstance(result, CallToolResult)
    assert result.is_error
    return text_of(result)


async def post(
    served: str, headers: dict[str, str], body: Any = PING, **kwargs: Any
) -> httpx2.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    given = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    async with httpx2.AsyncClient(timeout=30) as http:
        return await http.request(
            kwargs.get("method", "POST"),
            served + kwargs.get("path", "/mcp"),
            content=content,
            headers={**given, **headers},
        )


@pytest.mark.parametrize("mode", ["auto", "legacy", "2026-07-28"])
async def test_a_client_of_any_age_lists_and_calls_the_tools(served: str, alice: Caller, mode: str):
    async with connected(served, headers_of(alice), mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        remembered = await do(client, "remember", text="Prefers window seats.")
        found = await do(client, "recall", query="Which seat on the plane?")

    assert set(tools) == {"remember", "recall", "list_facts", "forget"}
    assert remembered["verdict"] == "added"
    assert "- Prefers window seats." in found["block"]


async def test_tools_say_what_they_take_give_and_do(client: Client):
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}

    hints = {
        name: (tool.annotations.read_only_hint, tool.annotations.destructive_hint)
        for name, tool in tools.items()
        if tool.annotations
    }
    assert hints == {
        "remember": (False, False),
        "recall": (True, False),
        "list_facts": (True, False),
        "forget": (False, True),
    }
    assert tools["remember"].input_schema["required"] == ["text"]
    assert tools["forget"].input_schema["required"] == ["fact_id"]
    for tool in tools.values():
        assert tool.title
        assert len(tool.description or "") > 80
        assert tool.input_schema["additionalProperties"] is False
        assert tool.output_schema


async def test_what_a_model_remembers_is_a_fact_of_source_mcp_and_never_always_on(
    client: Client, alice: Caller
):
    await do(client, "remember", text="Never suggest Azure.", kind="constraint")

    (fact,) = await alice.facts()
    assert (fact["source"], fact["kind"], fact["pinned"]) == ("mcp", "constraint", False)
    assert await alice.block("") == ""
    assert "Azure" in await alice.block("Shall we use Azure?")
    why = (await alice.get(f"/facts/{fact['id']}/why")).json()
    assert why["events"][0]["by"].startswith("key:")


async def test_a_models_words_never_replace_what_the_user_said(client: Client, alice: Caller):
    await alice.say("I live in Lisbon.")

    told = await do(client, "remember", text="Lives in Porto.", kind="profile")

    assert told["verdict"] == "quarantined"
    assert told["superseded"] == []
    assert await alice.texts() == ["Lives in Lisbon."]


async def test_a_repeated_fact_is_one_fact(client: Client, alice: Caller):
    first = await do(client, "remember", text="Uses Postgres.")
    again = await do(client, "remember", text="uses  postgres")

    assert again["verdict"] == "duplicate"
    assert again["fact"]["id"] == first["fact"]["id"]
    assert await alice.texts() == ["Uses Postgres."]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"text": "The password is hunter2-Q9z!"}, "secret"),
        ({"text": "Has been diagnosed with diabetes."}, "sensitive"),
        ({"text": "word " * 60}, "too_long"),
        ({"text": "Uses Go.", "kind": "opinion"}, "kind: Input should be"),
        ({"text": "Uses Go.", "pinned": True}, "pinned: Extra inputs"),
        ({"text": 7}, "text: a string is needed"),
        ({}, "text: Field required"),
    ],
)
async def test_the_guard_and_the_schema_hold_and_nothing_said_is_echoed(
    client: Client, alice: Caller, arguments: dict[str, Any], reason: str
):
    told = await refused(client, "remember", **arguments)

    assert reason in told
    assert not any(word in told for word in ("hunter2", "diabetes", "word word", "opinion"))
    assert await alice.facts("all") == []


async def test_a_forgotten_fact_is_served_no_more_and_can_be_restored(
    client: Client, alice: Caller
):
    await alice.say("Never suggest AWS, we are on-prem by contract.")
    (listed,) = (await do(client, "list_facts"))["items"]

    told = await do(client, "forget", fact_id=listed["id"])

    assert told["fact"]["status"] == "superseded"
    assert (await do(client, "list_facts"))["items"] == []
    assert await alice.block("Shall we use AWS?") == ""
    assert "fact_not_live" in await refused(client, "forget", fact_id=listed["id"])
    restored = await alice.post(f"/facts/{listed['id']}/restore")
    assert restored.status_code == 200
    assert await alice.texts() == [listed["text"]]


async def test_forgetting_drops_the_frozen_block(client: Client, alice: Caller):
    fact = (await alice.post("/facts", {"text": "Speaks Czech.", "kind": "profile"})).json()["fact"]
    assert "Czech" in await alice.block("hello", session="s")

    await do(client, "forget", fact_id=fact["id"])

    assert await alice.block("hello", session="s") == ""


async def test_lists_are_paged_and_filtered(client: Client):
    for text in ("Uses Go.", "Uses Zig.", "Uses Nim."):
        await do(client, "remember", text=text)
    await do(client, "remember", text="Is learning Rust.", kind="goal")

    page = await do(client, "list_facts", kind="preference", limit=2)
    rest = await do(client, "list_facts", kind="preference", limit=2, cursor=page["next_cursor"])

    texts = [fact["text"] for fact in page["items"] + rest["items"]]
    assert texts == ["Uses Nim.", "Uses Zig.", "Uses Go."]
    assert rest["next_cursor"] is None
    assert "cursor" in await refused(client, "list_facts", cursor="broken")


async def test_paused_memory_is_neither_written_nor_recalled(client: Client, alice: Caller):
    fact = (await do(client, "remember", text="Uses Go."))["fact"]
    await alice.call("PATCH", f"{alice.base}/settings", json={"memory": "paused"})

    assert "memory_paused" in await refused(client, "remember", text="Uses Zig.")
    assert "memory_paused" in await refused(client, "forget", fact_id=fact["id"])
    recalled = await do(client, "recall", query="Go")
    assert (recalled["block"], recalled["memory"]) == ("", "paused")
    assert len((await do(client, "list_facts"))["items"]) == 1


# Keys and users.


async def test_a_key_of_another_tenant_sees_nothing(served: str, alice: Caller, other: Caller):
    fact = (await alice.post("/facts", {"text": "Uses Go.", "kind": "preference"})).json()["fact"]

    async with connected(served, headers_of(other)) as stranger:
        assert (await do(stranger, "list_facts", status="all"))["items"] == []
        assert (await do(stranger, "recall", query="Go"))["block"] == ""
        theirs = await refused(stranger, "forget", fact_id=fact["id"])
        nobodys = await refused(stranger, "forget", fact_id="3f0c8e56-58a4-4a53-8a5c-0d6d7c0f8a11")

    assert theirs == nobodys
    assert await alice.texts() == ["Uses Go."]


async def test_a_bound_key_needs_no_header_and_sees_its_own_user_alone(served: str, alice: Caller):
    bound = await key_for(alice, bound_to="žofie/1")
    key = {"Authorization": f"Bearer {bound.key}"}

    async with connected(served, key) as client:
        await do(client, "remember", text="Uses Go.")
    same = await post(served, {**key, "Usermem-User": quote("žofie/1", safe="")})
    foreign = await post(served, {**key, "Usermem-User": "alice"})

    assert await alice.of("žofie/1").texts() == ["Uses Go."]
    assert same.status_code == 200
    assert (foreign.status_code, foreign.json()["code"]) == (404, "not_found")


async def test_without_a_user_tools_are_listed_and_say_what_is_missing(served: str, alice: Caller):
    async with connected(served, headers_of(alice, user=False)) as client:
        assert len((await client.list_tools()).tools) == 4
        told = await refused(client, "recall", query="x")

    assert "Usermem-User" in told


@pytest.mark.parametrize("named", ["%00", "%FF", "", "..", "x" * 257])
async def test_a_header_that_names_no_user_is_refused(served: str, alice: Caller, named: str):
    answer = await post(served, {**headers_of(alice), "Usermem-User": named})

    assert answer.status_code in {400, 422}
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("header", [None, "Bearer um_wrong", "Basic eDp5"])
async def test_without_a_good_key_it_is_401(served: str, header: str | None):
    answer = await post(served, {"Authorization": header} if header else {})

    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json()["code"] == "unauthorized"


async def test_a_revoked_key_is_401(served: str, alice: Caller):
    key = await key_for(alice)
    await revoke_key(alice.world.core.db, key.id)

    answer = await post(served, {"Authorization": f"Bearer {key.key}"})

    assert answer.status_code == 401


async def test_a_key_without_the_scope_is_403(served: str, alice: Caller):
    key = await key_for(alice, "recall", "ingest")

    answer = await post(served, {"Authorization": f"Bearer {key.key}", "Usermem-User": "alice"})

    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


# The edge is that of every other request.


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b" " * (MAX_BODY + 1), {}, 413),
        (b"{", {}, 400),
        (b'"\xff"', {}, 400),
        (b"{}", {"Content-Type": "text/plain"}, 415),
        (b"[" * 40 + b"]" * 40, {}, 422),
    ],
)
async def test_bodies_are_held_to_the_same_rules(
    served: str, alice: Caller, body: bytes, headers: dict[str, str], status: int
):
    answer = await post(served, {**headers_of(alice), **headers}, body)

    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["x-request-id"] == answer.json()["request_id"]


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
async def test_only_posts_are_served(served: str, alice: Caller, method: str):
    answer = await post(served, headers_of(alice), method=method)

    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Host": "evil.example"}, "wrong_host"),
        ({"Host": "127.0.0.1.evil.example"}, "wrong_host"),
        ({"Origin": "https://evil.example"}, "foreign_origin"),
        ({"Origin": "null"}, "foreign_origin"),
    ],
)
async def test_a_browser_that_was_tricked_is_refused(
    served: str, alice: Caller, headers: dict[str, str], code: str
):
    answer = await post(served, {**headers_of(alice), **headers})

    assert (answer.status_code, answer.json()["code"]) in {
        (421, "wrong_host"),
        (403, "foreign_origin"),
    }
    assert answer.json()["code"] == code


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "memory.example.com"},
        {"Host": "localhost:8000", "Origin": "http://localhost:8000"},
        {"Host": "memory.example.com", "Origin": "https://memory.example.com"},
    ],
)
async def test_its_own_names_are_served(served: str, alice: Caller, headers: dict[str, str]):
    answer = await post(served, {**headers_of(alice), **headers})

    assert answer.status_code == 200, answer.text


async def test_requests_are_logged_without_user_or_words(
    served: str, alice: Caller, caplog: pytest.LogCaptureFixture
):
    with caplog.at_level(logging.INFO):
        async with connected(served, headers_of(alice.of("zofie-the-user"))) as client:
            await do(client, "remember", text="Collects porcelain owls.")
            await refused(client, "remember", text="The password is hunter2-Q9z!")
            await refused(client, "remember", porcelain="owls")

    ours = [str(r.msg) for r in caplog.records if r.name.startswith(("app", "mcp.server"))]
    assert any("/mcp" in line for line in ours), ours
    assert not any(w in line for line in ours for w in ("zofie", "porcelain", "hunter2"))
