"""A request sent twice under one key is answered alike and done once."""

import asyncio
from typing import Any

import pytest

from tests.world import Caller

TURN = {"messages": [{"role": "user", "content": "I live in Lisbon."}]}
FACT = {"text": "Prefers window seats.", "kind": "preference"}


async def _post(alice: Caller, path: str, body: Any, key: str = "k-1"):
    return await alice.post(path, body, headers={"Idempotency-Key": key})


@pytest.mark.parametrize(
    ("path", "body"),
    [("/transcripts", TURN), ("/sessions/s/messages", TURN), ("/facts", FACT)],
)
async def test_a_replay_has_the_same_status_and_body_and_says_so(alice: Caller, path, body):
    first = await _post(alice, path, body)
    again = await _post(alice, path, body)

    assert (again.status_code, again.json()) == (first.status_code, first.json())
    assert again.headers["idempotent-replay"] == "true"
    assert "idempotent-replay" not in first.headers


async def test_a_replayed_transcript_is_one_session_with_one_extraction(alice: Caller):
    for _ in range(5):
        await _post(alice, "/transcripts", TURN)
    await alice.world.drain()

    sessions = (await alice.get("/sessions")).json()["items"]

    assert [(s["user_turns"], s["attempts"]) for s in sessions] == [(1, 1)]
    assert await alice.texts() == ["Lives in Lisbon."]


async def test_the_order_of_keys_makes_no_other_body(alice: Caller):
    await _post(alice, "/facts", FACT)

    again = await _post(alice, "/facts", dict(reversed(FACT.items())))

    assert again.headers["idempotent-replay"] == "true"


async def test_another_body_is_refused_and_changes_nothing(alice: Caller):
    await _post(alice, "/facts", FACT)

    other = await _post(alice, "/facts", {**FACT, "text": "Prefers aisle seats."})

    assert (other.status_code, other.json()["code"]) == (422, "idempotency_mismatch")
    assert await alice.texts() == ["Prefers window seats."]


async def test_keys_of_users_routes_and_tenants_are_apart(alice: Caller, other: Caller):
    answers = [
        await _post(alice, "/facts", FACT),
        await _post(alice.of("bob"), "/facts", FACT),
        await _post(other, "/facts", FACT),
        await _post(alice, "/transcripts", TURN),
    ]

    assert [answer.status_code for answer in answers] == [201, 201, 201, 202]
    assert all("idempotent-replay" not in answer.headers for answer in answers)


async def test_fifty_at_once_have_one_effect(alice: Caller):
    answers = await asyncio.gather(*(_post(alice, "/facts", FACT) for _ in range(50)))

    codes = [answer.status_code for answer in answers]
    assert set(codes) <= {201, 409, 503}
    assert sum("idempotent-replay" not in a.headers for a in answers if a.status_code == 201) == 1
    waiting = [a for a in answers if a.status_code == 409]
    assert all(a.headers["retry-after"] for a in waiting)
    assert len(await alice.facts()) == 1


async def test_a_refused_request_can_be_mended_under_its_key(alice: Caller):
    refused = await _post(alice, "/facts", {**FACT, "text": "Which seat is best?"})
    mended = await _post(alice, "/facts", FACT)

    assert (refused.status_code, mended.status_code) == (422, 201)


async def test_after_its_fact_is_deleted_a_key_answers_gone(alice: Caller):
    fact = (await _post(alice, "/facts", FACT)).json()["fact"]
    await alice.delete(f"/facts/{fact['id']}")

    again = await _post(alice, "/facts", FACT)

    assert again.status_code == 410
    assert await alice.facts() == []
    [(answers,)] = alice.world.rows(
        "select count(answer) from idempotency_key where tenant_id = %s", alice.tenant_id
    )
    assert answers == 0


async def test_a_claim_whose_process_died_is_taken_over(alice: Caller):
    await _post(alice, "/facts", FACT)
    alice.world.execute(
        "update idempotency_key set status = null, answer = null,"
        " created_at = now() - interval '2 minutes' where tenant_id = %s",
        alice.tenant_id,
    )

    again = await _post(alice, "/facts", FACT)

    assert (again.status_code, again.json()["verdict"]) == (200, "duplicate")


async def test_a_key_is_free_again_after_a_day(alice: Caller):
    await _post(alice, "/facts", FACT)
    alice.world.execute(
        "update idempotency_key set created_at = now() - interval '25 hours' where tenant_id = %s",
        alice.tenant_id,
    )

    again = await _post(alice, "/facts", {**FACT, "text": "Uses Redis."})

    assert again.status_code == 201


@pytest.mark.parametrize("key", ["", " ", "a b", "é", "x" * 256])
async def test_a_malformed_key_is_refused(alice: Caller, key):
    answer = await alice.post("/facts", FACT, headers={"Idempotency-Key": key.encode()})

    assert answer.status_code == 422


async def test_a_replay_has_the_same_bytes_and_location(alice: Caller):
    first = await _post(alice, "/transcripts", TURN)
    again = await _post(alice, "/transcripts", TURN)

    assert again.content == first.content
    assert again.headers["location"] == first.headers["location"]
