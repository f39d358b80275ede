"""Small promises at the edges: what is said of what was not stored, and which times count."""

import pytest

from tests.portability.files import export, of, put
from tests.world import Caller

TEA = {"text": "Drinks tea.", "kind": "preference"}


async def switch(alice: Caller, memory: str) -> None:
    answer = await alice.call("PATCH", alice.base + "/settings", json={"memory": memory})
    assert answer.status_code == 200


@pytest.mark.parametrize("memory", ["paused", "restricted"])
async def test_what_is_refused_while_memory_is_off_says_how_it_is_off(alice, memory):
    await switch(alice, memory)

    refused = await alice.post("/facts", TEA)
    recalled = (await alice.get("/memory")).json()

    assert (refused.status_code, refused.json()["code"]) == (409, "memory_paused")
    assert refused.json()["detail"] == f"The user's memory is {memory}."
    assert recalled["memory"] == memory


async def test_a_conversation_that_was_not_stored_is_nowhere(alice):
    turns = {"messages": [{"role": "user", "content": "I drink tea."}]}
    await switch(alice, "paused")
    for _ in range(2):  # the second is the first one's kept answer
        skipped = await alice.post("/transcripts", turns, headers={"Idempotency-Key": "k"})
        assert (skipped.status_code, skipped.json()["status"]) == (202, "skipped")
        assert "location" not in skipped.headers

    await switch(alice, "on")
    stored = await alice.post("/transcripts", turns)
    assert (await alice.call("GET", stored.headers["location"])).status_code == 200


async def test_an_answer_without_a_body_names_no_type(alice):
    fact = (await alice.post("/facts", TEA)).json()["fact"]
    recall = (await alice.get("/memory")).json()["recall_id"]
    judged: dict[str, list[str]] = {"relevant": [], "irrelevant": []}

    answers = [
        await alice.call("POST", f"/v1/recalls/{recall}/feedback", json=judged),
        await alice.delete(f"/facts/{fact['id']}"),
    ]

    for answer in answers:
        assert answer.status_code == 204, answer.text
        assert answer.content == b""
        assert "content-type" not in answer.headers


@pytest.mark.parametrize(
    "since", ["0001-01-01T00:00:00Z", "1999-12-31T23:59:59Z", "9999-12-31T00:00:00Z"]
)
async def test_erasures_are_asked_for_since_a_time_of_this_age(alice, since):
    answer = await alice.call("GET", "/v1/erasures", params={"since": since})

    assert (answer.status_code, answer.json()["code"]) == (422, "bad_time")


async def test_what_a_file_says_of_before_2000_is_not_taken(alice):
    await alice.post("/facts", TEA)
    records = await export(alice)
    (fact,) = of(records, "fact")
    fact["said_at"] = "0001-01-01T00:00:00Z"

    taken = (await put(alice.of("bob"), *records)).json()

    assert taken["imported"] == 0
    assert taken["rejected"]["bad_time"] == 1
    assert await alice.of("bob").facts("all") == []


async def test_a_name_that_is_too_short_is_told_as_a_text(world):
    headers = {"Authorization": f"Bearer {'r' * 40}"}
    answer = await world.http.post("/v1/tenants", json={"name": ""}, headers=headers)

    assert answer.status_code == 422
    assert "character" in answer.json()["detail"]
    assert "item" not in answer.json()["detail"]
