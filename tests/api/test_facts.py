"""Facts at the edge: lists, single reads, deletes, and what is refused."""

from typing import Any
from uuid import uuid4

import pytest

from tests.api.test_errors import check_problem
from tests.world import Caller

_FACT = {"text": "Prefers window seats.", "kind": "preference"}


async def test_a_fact_has_every_field(alice: Caller):
    posted = await alice.post("/facts", _FACT)
    assert posted.status_code == 201
    body = posted.json()
    assert (body["verdict"], body["superseded"]) == ("added", [])
    assert set(body["fact"]) == {
        "id", "text", "kind", "subject", "status", "source", "said_at", "valid_from", "valid_to",
        "created_at", "last_confirmed_at", "confirmations", "last_recalled_at", "expires_at",
        "pinned", "superseded_at", "superseded_by", "quarantine_reason", "metadata", "revision",
    }  # fmt: skip
    one = await alice.get(f"/facts/{body['fact']['id']}")
    assert (one.json(), one.headers["etag"]) == (body["fact"], '"1"')
    why = (await alice.get(f"/facts/{body['fact']['id']}/why")).json()
    assert set(why) == {"fact", "evidence", "extractor", "verdicts", "events"}


async def test_the_same_fact_again_is_a_duplicate(alice: Caller):
    first = await alice.post("/facts", _FACT)
    again = await alice.post("/facts", {**_FACT, "text": "prefers  window seats"})
    assert (again.status_code, again.json()["verdict"]) == (200, "duplicate")
    assert again.json()["fact"]["id"] == first.json()["fact"]["id"]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"text": "x" * 201}, "too_long"),
        ({"text": "The password is hunter2hunter2 and the key sk-ant-api03-" + "a1B2" * 20},
         "secret"),
        ({"text": ""}, None),
        ({"text": " \n\x00 "}, None),
        ({"text": None}, None),
        ({"text": 7}, None),
        ({"kind": "opinion"}, None),
        ({"kind": None}, None),
        ({"pinned": "yes"}, None),
        ({"pinned": 1}, None),
        ({"metadata": []}, None),
        ({"metadata": "x"}, None),
        ({"expires_at": "tomorrow"}, None),
        ({"subject": "seat"}, None),
    ],
    ids=repr,
)  # fmt: skip
async def test_what_is_no_fact_is_refused(alice: Caller, change: dict[str, Any], code: str | None):
    check_problem(await alice.post("/facts", {**_FACT, **change}), 422, code)
    assert await alice.facts("all") == []


async def test_pages_hold_every_fact_once_newest_first(alice: Caller):
    made = []
    for number in range(7):
        posted = await alice.post("/facts", {**_FACT, "text": f"Uses tool number {number}."})
        made.append(posted.json()["fact"]["id"])
    seen: list[str] = []
    cursor: str | None = None
    while True:
        params = {"limit": 2, **({"cursor": cursor} if cursor else {})}
        page = (await alice.get("/facts", params=params)).json()
        assert len(page["items"]) <= 2
        seen += [item["id"] for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == made[::-1]


async def test_facts_of_one_instant_are_paged_without_loss(alice: Caller):
    for number in range(5):
        await alice.post("/facts", {**_FACT, "text": f"Uses tool number {number}."})
    alice.world.execute(
        "update memory_fact set created_at = '2026-01-01Z' where tenant_id = %s", alice.tenant_id
    )
    first = (await alice.get("/facts", params={"limit": 3})).json()
    rest = (await alice.get("/facts", params={"cursor": first["next_cursor"]})).json()
    ids = [item["id"] for item in first["items"] + rest["items"]]
    assert ids == sorted(ids, reverse=True)
    assert len(set(ids)) == 5


@pytest.mark.parametrize(
    "params",
    [{"status": "dead"}, {"status": ""}, {"kind": "opinion"}, {"kind": '{"$ne": ""}'},
     {"cursor": "x"}, {"cursor": "é"}, {"cursor": "A" * 5000}, {"cursor": "\x00"},
     {"order": "id; drop table memory_fact"}],
    ids=repr,
)  # fmt: skip
async def test_a_filter_is_one_of_those_known(alice: Caller, params: dict[str, str]):
    check_problem(await alice.get("/facts", params=params), 422)


async def test_deleting_twice_finds_nothing_the_second_time(alice: Caller, other: Caller):
    await alice.post("/facts", _FACT)
    [listed] = await alice.facts()
    recalled = (await alice.get("/memory", params={"query": "which seat"})).json()["facts"]
    assert [fact["id"] for fact in recalled] == [listed["id"]]

    foreign = await other.delete(f"/facts/{listed['id']}")
    unknown = await alice.delete(f"/facts/{uuid4()}")
    assert await alice.facts() == [listed]
    gone = await alice.delete(f"/facts/{listed['id']}")
    again = await alice.delete(f"/facts/{listed['id']}")

    assert (gone.status_code, gone.content) == (204, b"")
    for answer in (foreign, unknown, again):
        check_problem(answer, 404, "not_found")
    assert await alice.facts("all") == []
    assert (await alice.get("/memory", params={"query": "which seat"})).json()["facts"] == []
