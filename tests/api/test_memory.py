"""Recall at the edge: forms of the answer, limits of the question, caching headers."""

from typing import Any

import pytest

from tests.api.test_errors import check_problem
from tests.world import Caller


@pytest.fixture
async def carol(alice: Caller) -> Caller:
    fact = {"text": "Never suggest AWS <on-prem> & co.", "kind": "constraint"}
    assert (await alice.post("/facts", fact)).status_code == 201
    return alice


async def test_an_answer_has_every_field(carol: Caller):
    body = (await carol.get("/memory", params={"query": "cloud"})).json()
    assert set(body) == {
        "block", "stable", "volatile", "system", "facts", "recall_id", "tokens", "left_out",
        "frozen", "degraded", "pending_sessions", "memory",
    }  # fmt: skip
    assert body["block"] == body["stable"] + body["volatile"]
    assert body["system"] == [
        {"type": "text", "text": body["stable"], "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": body["volatile"]},
    ]
    assert "- Never suggest AWS &lt;on-prem&gt; &amp; co." in body["block"]


async def test_nothing_known_is_an_empty_block(alice: Caller):
    body = (await alice.get("/memory", params={"query": "anything"})).json()
    assert (body["block"], body["system"], body["facts"]) == ("", [], [])


async def test_get_and_post_answer_alike(carol: Caller):
    got = (await carol.get("/memory", params={"query": "cloud", "token_budget": 300})).json()
    posted = (await carol.post("/memory", {"query": "cloud", "token_budget": 300})).json()
    assert {**got, "recall_id": ""} == {**posted, "recall_id": ""}


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("text/plain", "text/plain"),
        ("TEXT/PLAIN; charset=utf-8", "text/plain"),
        ("text/plain, */*;q=0.1", "text/plain"),
        ("text/plain;q=0.9, application/json;q=0.5", "text/plain"),
        ("application/json", "application/json"),
        ("application/json, text/plain;q=0.5", "application/json"),
        ("*/*", "application/json"),
        ("text/html, */*", "application/json"),
        ("text/plain;q=0", "application/json"),
        ("text/plain;q=zzz;;;", "text/plain"),
        ("", "application/json"),
    ],
)
async def test_the_form_of_the_answer_is_what_was_asked_for(carol: Caller, accept: str, kind: str):
    for answer in (
        await carol.get("/memory", headers={"Accept": accept}),
        await carol.post("/memory", {}, headers={"Accept": accept}),
    ):
        assert answer.headers["content-type"].partition(";")[0] == kind
        assert answer.headers["vary"] == "Accept"
        assert answer.headers["cache-control"] == "private, no-store"
    block = (await carol.get("/memory")).json()["block"]
    if kind == "text/plain":
        assert answer.content == block.encode()


async def test_an_unchanged_block_is_304(carol: Caller):
    first = await carol.get("/memory")
    etag = first.headers["etag"]
    assert etag.startswith('W/"')
    for header in (etag, etag.removeprefix("W/"), f'"x", {etag}', "*"):
        again = await carol.get("/memory", headers={"If-None-Match": header})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)
    text = await carol.get("/memory", headers={"Accept": "text/plain"})
    assert text.headers["etag"] == etag

    await carol.post("/facts", {"text": "Answer in Romanian.", "kind": "constraint"})
    changed = await carol.get("/memory", headers={"If-None-Match": etag})
    assert changed.status_code == 200
    posted = await carol.post("/memory", {}, headers={"If-None-Match": changed.headers["etag"]})
    assert posted.status_code == 200


async def test_a_question_may_be_two_kib_in_a_url_and_thirty_two_in_a_body(carol: Caller):
    for fits in ("x" * 2048, "é" * 1024, "🦊" * 512):
        assert (await carol.get("/memory", params={"query": fits})).status_code == 200
        over = await carol.get("/memory", params={"query": fits + "x"})
        check_problem(over, 422, "query_too_long")
        assert (await carol.post("/memory", {"query": fits * 16})).status_code == 200
        check_problem(await carol.post("/memory", {"query": fits * 16 + "x"}), 422)
    check_problem(await carol.post("/memory", {"query": "x" * (1024 * 1024)}), 413, "too_large")


@pytest.mark.parametrize("budget", [99, 4001, 0, -1, "x", None, 100.5, True, "600"])
async def test_a_budget_is_one_hundred_to_four_thousand(carol: Caller, budget: Any):
    check_problem(await carol.post("/memory", {"token_budget": budget}), 422)
    if budget != "600":
        check_problem(await carol.get("/memory", params={"token_budget": str(budget)}), 422)


async def test_a_question_of_hostile_letters_is_answered(carol: Caller):
    for query in ("a\x00b", "!!! & | <-> :*", "' or 1=1 --", "\u202e", "🦊" * 400, " \n\t "):
        answer = await carol.get("/memory", params={"query": query})
        assert (answer.status_code, answer.json()["degraded"]) == (200, None)
    content = b'{"query": "a\\ud83d b"}'
    answer = await carol.call(
        "POST",
        f"{carol.base}/memory",
        content=content,
        headers={"Content-Type": "application/json"},
    )
    assert answer.status_code == 200
