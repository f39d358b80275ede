"""Times are RFC 3339 with an offset, kept as the same instant, and never of another age."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.api.test_errors import check_problem
from tests.world import Caller

BAD = [
    "2026-03-29T02:30:00", "2026-02-30T00:00:00Z", "2026-13-01T00:00:00Z", "2026-01-01",
    "2026-01-01T24:01:00Z", "2026-01-01T00:00:00+25:00", "2026-01-01T00:00:00+01:60",
    "0001-01-01T00:00:00+14:00", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59-12:00",
    "9999-12-31T23:59:59Z", "1970-01-01T00:00:00Z", "1999-12-31T23:59:59Z", "1767225600",
    "10000-01-01T00:00:00Z", "-2026-01-01T00:00:00Z", "2026-W01-1T00:00:00Z", "now", "", " ",
    "٢٠٢٦-01-01T00:00:00Z", "2026-01-01T00:00:00Z\n", "2026-01-01T00:00:00.Z",
    "2026-01-01 00:00:00Z", "2026-01-01T00:00:60Z", "2026-01-01T00:00:00 Z",
    1767225600, 1767225600.5, True, [], {},
]  # fmt: skip


async def _said_at(alice: Caller, sent: str) -> datetime:
    message = {"role": "user", "content": "I live in Lisbon.", "created_at": sent}
    posted = await alice.post("/sessions/s/messages", {"messages": [message]})
    assert posted.status_code == 202, posted.text
    [(at,)] = alice.world.rows("select said_at from message where tenant_id = %s", alice.tenant_id)
    return at


@pytest.mark.parametrize("bad", BAD, ids=repr)
async def test_what_is_no_time_of_this_age_is_refused(alice: Caller, bad: object):
    for role in ("user", "assistant"):
        message = {"role": role, "content": "I live in Lisbon.", "created_at": bad}
        answer = await alice.post("/transcripts", {"messages": [message]})
        detail = check_problem(answer, 422)["detail"]
        assert not isinstance(bad, str) or len(bad) < 5 or bad not in detail
    fact = {"text": "Uses Go.", "kind": "preference", "valid_from": bad}
    check_problem(await alice.post("/facts", fact), 422)
    assert (await alice.get("/sessions")).json()["items"] == []


@pytest.mark.parametrize(
    ("sent", "instant"),
    [
        ("2026-03-29T02:30:00Z", "2026-03-29T02:30:00+00:00"),
        ("2026-03-29t02:30:00z", "2026-03-29T02:30:00+00:00"),
        ("2026-03-29T02:30:00+05:30", "2026-03-28T21:00:00+00:00"),
        ("2026-03-29T02:30:00-12:00", "2026-03-29T14:30:00+00:00"),
        ("2026-03-29T02:30:00.123456789Z", "2026-03-29T02:30:00.123456+00:00"),
        ("2026-03-29T02:30:00-00:00", "2026-03-29T02:30:00+00:00"),
        ("2000-01-01T00:00:00Z", "2000-01-01T00:00:00+00:00"),
    ],
)
async def test_a_time_is_kept_as_the_same_instant(alice: Caller, sent: str, instant: str):
    assert await _said_at(alice, sent) == datetime.fromisoformat(instant)


@pytest.mark.parametrize(("ahead", "becomes"), [(4, "sent"), (6, "arrival"), (23 * 60, "arrival")])
async def test_a_clock_that_runs_ahead_is_trusted_for_five_minutes(
    alice: Caller, ahead: int, becomes: str
):
    before = datetime.now(UTC)
    sent = before + timedelta(minutes=ahead)
    said = await _said_at(alice, sent.isoformat())
    if becomes == "sent":
        assert said == sent
    else:
        assert before - timedelta(seconds=5) <= said <= datetime.now(UTC)


async def test_more_than_a_day_ahead_is_refused(alice: Caller):
    late = (datetime.now(UTC) + timedelta(days=1, minutes=2)).isoformat()
    message = {"role": "user", "content": "I live in Lisbon.", "created_at": late}
    answer = await alice.post("/transcripts", {"messages": [message]})
    check_problem(answer, 422, "bad_time")


@pytest.mark.parametrize(
    ("method", "path", "body", "params"),
    [
        ("GET", "/facts", None, ["as_of", "known_at"]),
        ("POST", "/search", {"query": "tea"}, ["as_of"]),
        ("POST", "/facts", {"text": "Likes tea.", "kind": "preference"}, ["expires_at"]),
        ("GET", "/v1/audit-log", None, ["from", "to"]),
        ("POST", "/v1/quarantine", {"source": "mcp"}, ["from", "to"]),
    ],
)
async def test_no_question_and_no_end_is_of_before_2000(alice: Caller, method, path, body, params):
    url = path if path.startswith("/v1") else alice.base + path

    async def ask(name: str, told: str):
        sent = {"params": {name: told}} if body is None else {"json": {**body, name: told}}
        return await alice.call(method, url, **sent)

    for name in params:
        check_problem(await ask(name, "1999-12-31T23:59:59Z"), 422, "bad_time")
        assert (await ask(name, "2000-01-01T00:00:00Z")).is_success


async def test_times_are_given_back_in_utc(alice: Caller):
    fact = {
        "text": "Uses Go.",
        "kind": "preference",
        "valid_from": "2025-06-01T12:00:00+02:00",
        "expires_at": "2099-01-01T00:00:00-05:00",
    }
    shown = (await alice.post("/facts", fact)).json()["fact"]
    assert shown["valid_from"] == "2025-06-01T10:00:00Z"
    assert shown["expires_at"] == "2099-01-01T05:00:00Z"
    assert shown["created_at"].endswith("Z")
    await alice.post("/transcripts", {"messages": [{"role": "user", "content": "Hello."}]})
    [session] = (await alice.get("/sessions")).json()["items"]
    assert session["started_at"].endswith("Z")
