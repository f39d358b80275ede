"""Conversations over HTTP: append, end, look, list, retry, delete."""

import asyncio
import time
from typing import Any

import pytest

from tests.api.test_errors import check_problem
from tests.world import Caller

_TEA = {"role": "user", "content": "I like tea."}


async def _append(alice: Caller, *messages: dict[str, Any], session: str = "s", **more: Any):
    return await alice.post(f"/sessions/{session}/messages", {"messages": messages, **more})


def _counts(answer: Any) -> tuple[int, int, int]:
    assert answer.status_code == 202, answer.text
    body = answer.json()
    return body["accepted"], body["ignored"], body["duplicates"]


async def test_a_receipt_has_every_field(alice: Caller):
    body = (await _append(alice, _TEA)).json()
    assert set(body) == {"session", "status", "accepted", "ignored", "duplicates", "extract_after"}
    assert (body["session"], body["status"]) == ("s", "open")


async def test_an_open_session_takes_turn_after_turn(alice: Caller):
    for number in range(3):
        assert _counts(await _append(alice, {**_TEA, "id": f"m{number}"})) == (1, 0, 0)
    state = (await alice.get("/sessions/s")).json()
    assert (state["status"], state["user_turns"]) == ("open", 3)


async def test_only_the_users_words_count(alice: Caller):
    answer = await _append(
        alice,
        _TEA,
        {"role": "user", "content": [{"type": "text", "text": "I like jam."}, {"type": "image"}]},
        {"role": "user", "content": [{"type": "input_text", "text": "I like rye."}]},
        {"role": "user", "content": [{"type": "image", "source": {}}]},
        {"role": "user", "content": "  \x00 "},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "x"}]},
        {"role": "tool", "tool_call_id": "x"},
        *({"role": role, "content": "x"} for role in ("system", "developer", "function")),
    )
    assert _counts(answer) == (3, 7, 0)
    texts = alice.world.rows("select text from message where tenant_id = %s", alice.tenant_id)
    assert sorted(texts) == [("I like jam.",), ("I like rye.",), ("I like tea.",)]


async def test_a_known_id_is_a_duplicate_whatever_its_text(alice: Caller):
    await _append(alice, {**_TEA, "id": "m1"})
    again = {"role": "user", "content": "I like coffee.", "id": "m1"}
    assert _counts(await _append(alice, again, {**_TEA, "id": "m2"})) == (1, 0, 1)
    assert _counts(await _append(alice, again, session="another")) == (1, 0, 0)


@pytest.mark.parametrize(
    "message",
    [
        {"role": "User", "content": "x"},
        {"role": "human", "content": "x"},
        {"content": "x"},
        {"role": "user"},
        {"role": "user", "content": None},
        {"role": "user", "content": 7},
        {"role": "user", "content": {"type": "text", "text": "x"}},
        {"role": "user", "content": ["x"]},
        {"role": "user", "content": [{"type": "text"}]},
        {"role": "user", "content": [{"type": "text", "text": 7}]},
        {"role": "user", "content": "x", "id": ""},
        {"role": "user", "content": "x", "id": 7},
        "x",
        None,
    ],
    ids=repr,
)
async def test_what_is_no_message_is_refused_whole(alice: Caller, message: Any):
    check_problem(await _append(alice, _TEA, message), 422)
    check_problem(await alice.get("/sessions/s"), 404)


async def test_two_hundred_messages_of_sixty_four_kib_are_the_most(alice: Caller):
    assert _counts(await _append(alice, *[_TEA] * 200, end=False)) == (200, 0, 0)
    check_problem(await _append(alice, *[_TEA] * 201), 422)
    long = {"role": "user", "content": "é" * (32 * 1024)}
    assert _counts(await _append(alice, long, session="long")) == (1, 0, 0)
    over = {"role": "assistant", "content": [{"type": "text", "text": "x" * (64 * 1024 + 1)}]}
    check_problem(await _append(alice, over), 422, "message_too_long")


@pytest.mark.parametrize(
    "body",
    [{}, {"messages": None}, {"messages": {}}, {"messages": [], "end": "yes"},
     {"messages": [], "end": 1}, {"messages": [], "memory": "maybe"}, {"messages": [], "x": 1}],
    ids=repr,
)  # fmt: skip
async def test_a_body_of_another_shape_is_refused(alice: Caller, body: Any):
    check_problem(await alice.post("/sessions/s/messages", body), 422)


async def test_a_transcript_is_a_whole_conversation(alice: Caller):
    made = await alice.post("/transcripts", {"messages": [_TEA]})
    assert (made.status_code, made.json()["status"]) == (202, "queued")
    assert made.headers["location"] == f"/v1/users/alice/sessions/{made.json()['session']}"
    await _append(alice, _TEA)
    into = await alice.post("/transcripts", {"session": "s", "messages": [_TEA]})
    assert (into.json()["session"], into.json()["status"]) == ("s", "queued")
    assert (await alice.get("/sessions/s")).json()["user_turns"] == 2


# Ending, waiting, trying again.


async def test_ending_is_asked_once_or_twice(alice: Caller):
    check_problem(await alice.post("/sessions/s/end"), 404)
    await _append(alice, _TEA)
    assert [(await alice.post("/sessions/s/end")).status_code for _ in range(2)] == [202, 202]
    await alice.world.drain()
    assert (await alice.post("/sessions/s/end")).json()["status"] == "done"


async def test_a_session_without_turns_of_the_user_is_done_once_ended(alice: Caller):
    answer = await _append(alice, {"role": "assistant", "content": "Hello."}, end=True)
    assert (answer.status_code, answer.json()["status"]) == (202, "done")
    state = (await alice.get("/sessions/s")).json()
    assert (state["user_turns"], state["model_calls"]) == (0, 0)


async def test_a_look_waits_until_the_session_is_done(alice: Caller):
    await _append(alice, _TEA, end=True)
    looking = asyncio.create_task(alice.get("/sessions/s", params={"wait": "20"}))
    await asyncio.sleep(0.2)
    assert not looking.done()
    await alice.world.drain()
    assert (await looking).json()["status"] == "done"


async def test_a_look_waits_no_longer_than_asked(alice: Caller):
    await _append(alice, _TEA)
    started = time.monotonic()
    answer = await alice.get("/sessions/s", params={"wait": "0.4"})
    assert (answer.status_code, answer.json()["status"]) == (200, "open")
    assert 0.4 <= time.monotonic() - started < 5


@pytest.mark.parametrize("wait", ["-1", "30.1", "nan", "inf", "1e400", "x", ""])
async def test_a_wait_is_zero_to_thirty_seconds(alice: Caller, wait: str):
    check_problem(await alice.get("/sessions/s", params={"wait": wait}), 422)


async def test_only_a_failed_session_is_tried_again(alice: Caller):
    check_problem(await alice.post("/sessions/s/retry"), 404)
    await _append(alice, _TEA)
    check_problem(await alice.post("/sessions/s/retry"), 409, "session_not_failed")
    alice.world.execute(
        "update memory_session set status = 'failed', reason = 'x', ended = true "
        "where tenant_id = %s",
        alice.tenant_id,
    )
    assert (await alice.post("/sessions/s/retry")).json()["status"] == "queued"
    await alice.world.drain()
    state = (await alice.get("/sessions/s")).json()
    assert (state["status"], state["reason"]) == ("done", None)


# Memory that is off.


async def test_an_incognito_session_leaves_no_trace_for_good(alice: Caller):
    await _append(alice, _TEA)
    off = await _append(alice, _TEA, memory="off")
    assert (off.status_code, off.json()["status"], off.json()["accepted"]) == (202, "skipped", 0)
    later = await _append(alice, _TEA)
    assert (later.status_code, later.json()["status"]) == (202, "skipped")
    check_problem(await _append(alice, _TEA, memory="on"), 409, "session_incognito")
    for method, tail in [("GET", ""), ("DELETE", ""), ("POST", "/end"), ("POST", "/retry")]:
        check_problem(await alice.call(method, f"{alice.base}/sessions/s{tail}"), 404)
    assert (await alice.get("/sessions")).json()["items"] == []
    counted = alice.world.rows("select 1 from message where tenant_id = %s", alice.tenant_id)
    assert counted == []


@pytest.mark.parametrize("memory", ["paused", "restricted"])
async def test_while_memory_is_not_on_turns_are_skipped(alice: Caller, memory: str):
    await alice.call("PUT", f"{alice.base}/settings", json={"memory": memory})
    answer = await _append(alice, _TEA, end=True)
    assert (answer.status_code, answer.json()["status"], answer.json()["accepted"]) == (
        202,
        "skipped",
        0,
    )
    check_problem(await alice.get("/sessions/s"), 404)


# Lists.


async def test_pages_hold_every_session_once_newest_first(alice: Caller):
    for number in range(7):
        await _append(alice, _TEA, session=f"s{number}")
    seen: list[str] = []
    cursor: str | None = None
    while True:
        params = {"limit": 3, **({"cursor": cursor} if cursor else {})}
        page = (await alice.get("/sessions", params=params)).json()
        assert set(page) == {"items", "next_cursor"}
        seen += [item["session"] for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
        await _append(alice, _TEA, session=f"new {len(seen)}")  # moves no page under the reader
    assert seen == [f"s{number}" for number in reversed(range(7))]


@pytest.mark.parametrize("limit", ["0", "201", "-1", "x", "1.5", "1e2"])
@pytest.mark.parametrize("path", ["/sessions", "/facts"])
async def test_a_limit_is_one_to_two_hundred(alice: Caller, path: str, limit: str):
    check_problem(await alice.get(path, params={"limit": limit}), 422)
    for good in ("1", "200"):
        assert (await alice.get(path, params={"limit": good})).status_code == 200


async def test_reading_an_unseen_user_creates_nothing(alice: Caller):
    for path in ("/sessions", "/facts", "/settings", "/memory", "/memory?session=s"):
        assert (await alice.get(path)).status_code == 200
    for path in ("/sessions/s", "/facts/00000000-0000-4000-8000-000000000000"):
        check_problem(await alice.get(path), 404)
    for table in ("user_directory", "memory_user", "frozen_block"):
        rows = alice.world.rows(f"select 1 from {table} where tenant_id = %s", alice.tenant_id)
        assert rows == []


async def test_an_imported_session_takes_along_what_rests_on_it_too(alice: Caller):
    await alice.say("I live in Lisbon.", session="one")
    await alice.post("/facts", {"text": "Likes tea.", "kind": "preference"})
    exported = (await alice.get("/export")).content
    headers = {"Content-Type": "application/x-ndjson"}
    moved = alice.of("moved")
    answer = await moved.post("/import", content=exported, headers=headers)
    assert answer.status_code == 200, answer.text

    receipt = (await moved.delete("/sessions/one")).json()

    assert receipt["facts_erased"] == 1
    assert await moved.texts() == ["Likes tea."]


async def test_a_deleted_session_takes_along_what_rests_on_it_alone(alice: Caller):
    await alice.say("I work at Initech. I live in Lisbon.", session="one")
    await alice.say("I live in Lisbon. I work at Globex now. I prefer tea.", session="two")

    receipt = (await alice.delete("/sessions/two")).json()

    assert receipt == {
        "session": "two", "facts_erased": 2, "facts_kept": 1, "facts_restored": 1,
    }  # fmt: skip
    assert await alice.texts("all") == ["Lives in Lisbon.", "Works at Initech."]
    told = (await alice.get("/export")).text
    assert [word for word in ("Globex", "tea", '"two"') if word in told] == []


async def test_after_its_session_is_deleted_a_key_answers_gone(alice: Caller):
    async def post(session: str) -> Any:
        body = {"messages": [{"role": "user", "content": "I live in Lisbon."}]}
        headers = {"Idempotency-Key": session}
        return await alice.post(f"/sessions/{session}/messages", body, headers=headers)

    for session in ("told-1", "other"):
        assert (await post(session)).status_code == 202
    await alice.delete("/sessions/told-1")

    assert [(await post(session)).status_code for session in ("told-1", "other")] == [410, 202]
    kept = alice.world.rows(
        "select answer::text from idempotency_key where tenant_id = %s", alice.tenant_id
    )
    assert not [answer for (answer,) in kept if answer and "told-1" in answer]


async def test_of_two_deletes_at_once_one_finds_nothing(alice: Caller):
    await alice.say("I live in Lisbon.", session="s")

    answers = await asyncio.gather(*(alice.delete("/sessions/s") for _ in range(2)))

    assert sorted(answer.status_code for answer in answers) == [200, 404]
    assert await alice.facts("all") == []
