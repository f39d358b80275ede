"""What a process does when the Messages API fails: what it leaves alone, and for how long."""

import asyncio
import json
import logging
import time
import traceback
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from app.claude import Claude
from app.llm import (
    Extraction,
    ModelAnsweredBadly,
    ModelError,
    ModelMisconfigured,
    ModelUnavailable,
    Turn,
    Usage,
)
from tests.scripted_claude import (
    Default,
    Drip,
    Fault,
    Page,
    Reset,
    ScriptedClaude,
    connected,
    fact,
    facts,
    refusal,
)

CANARY = "zqx-canary-771"
SAID = Turn(1, f"I live in {CANARY}.", datetime(2026, 9, 3, tzinfo=UTC))


@pytest.fixture
def server():
    with ScriptedClaude() as server:
        yield server


def play(server: ScriptedClaude, act: Callable[[Claude], Awaitable[None]], **limits: Any) -> None:
    async def run() -> None:
        async with connected(server, **limits) as claude:
            await act(claude)

    asyncio.run(run())


async def ask(claude: Claude, text: str = SAID.text, model: str | None = None) -> Extraction:
    return await claude.extractor(model).extract([Turn(1, text, SAID.said_at)], [])


async def fails(claude: Claude, text: str = SAID.text, model: str | None = None) -> ModelError:
    with pytest.raises(ModelError) as failure:
        await ask(claude, text, model)
    return failure.value


# Pauses


@pytest.mark.parametrize("status", [429, 529, 503])
def test_after_a_long_retry_after_the_whole_process_is_silent(server, status):
    server.script(Fault(status=status, retry_after="7"))

    async def act(claude):
        first = await fails(claude)
        assert isinstance(first, ModelUnavailable)
        assert first.retry_after is not None
        assert first.retry_after >= 6.9
        others = await asyncio.gather(
            fails(claude, "another user"), fails(claude, "a third", "claude-sonnet-5-5")
        )
        for other in others:
            assert isinstance(other, ModelUnavailable)
            assert other.usage == Usage()
            assert other.retry_after is not None
            assert other.retry_after > 6
        assert claude.state == "degraded"

    play(server, act, retries=2)

    assert len(server.requests) == 1


def test_a_short_retry_after_is_waited_out_by_all(server):
    server.script(Fault(status=429, retry_after="0.4"))

    async def act(claude):
        waiting = asyncio.create_task(ask(claude))
        await asyncio.sleep(0.1)
        await asyncio.gather(waiting, ask(claude, "b"), ask(claude, "c"))
        assert claude.state == "ok"

    play(server, act, retries=2)

    first, *later = (request.at for request in server.requests)
    assert len(later) == 3
    assert min(later) >= first + 0.4


def test_the_sdk_retries_no_earlier_than_another_calls_pause(server):
    server.script(
        Fault(status=500, headers={"retry-after-ms": "50"}),
        Fault(status=429, retry_after="0.5"),
    )

    async def act(claude):
        await asyncio.gather(ask(claude), ask(claude, "b"))

    play(server, act, retries=3)

    times = [request.at for request in server.requests]
    assert len(times) == 4
    assert times[2] >= times[1] + 0.5


@pytest.mark.parametrize(
    ("header", "least", "most"),
    [
        ({"retry-after-ms": "9000"}, 8.9, 10),
        ({"retry-after": "9", "retry-after-ms": "1"}, 8.9, 10),
        (
            {"retry-after": format_datetime(datetime.now(UTC) + timedelta(hours=1), True)},
            3000,
            4000,
        ),
        ({"retry-after": "1e99"}, 86_000, 96_000),
        ({"retry-after": "inf"}, 86_000, 96_000),
    ],
)
def test_every_form_of_retry_after_is_honoured_up_to_a_day(server, header, least, most):
    server.script(Fault(status=429, headers=header))

    async def act(claude):
        error = await fails(claude)
        assert error.retry_after is not None
        assert least < error.retry_after < most

    play(server, act)


@pytest.mark.parametrize("value", ["", "soon", "-5", "0", "nan", "Wed, 99 Foo 2026"])
def test_a_retry_after_that_says_nothing_pauses_nothing(server, value):
    server.script(Fault(status=429, retry_after=value))

    async def act(claude):
        assert (await fails(claude)).retry_after is None
        await ask(claude)

    play(server, act)


# What passes


@pytest.mark.parametrize("step", [Fault(status=500), Fault(status=529), Reset()], ids=repr)
def test_a_passing_fault_is_retried_and_counted(server, step):
    server.script(step)

    async def act(claude):
        assert (await ask(claude)).usage == Usage(2, 10, 5)

    play(server, act, retries=1)


@pytest.mark.parametrize(
    "step",
    [Fault(status=500), Fault(status=408), Fault(status=529), Reset(), Page(), Page(body=b"[]")],
    ids=repr,
)
def test_a_lasting_fault_is_unavailable(server, step):
    server.always(step)

    async def act(claude):
        error = await fails(claude)
        assert isinstance(error, ModelUnavailable)
        assert error.usage == Usage(calls=1)
        assert claude.state == "degraded"
        server.always(None)
        await ask(claude)
        assert claude.state == "ok"

    play(server, act)


def test_nobody_listening_is_unavailable():
    with ScriptedClaude() as gone:
        pass  # its address stays, it doesn't

    async def act(claude):
        assert isinstance(await fails(claude), ModelUnavailable)

    play(gone, act)


@pytest.mark.parametrize("step", [Drip(), Default(delay=30)], ids=["drip", "silence"])
def test_no_question_takes_longer_than_its_time(server, step):
    server.always(step)

    async def act(claude):
        begun = time.monotonic()
        assert isinstance(await fails(claude), ModelUnavailable)
        assert time.monotonic() - begun < 1.5

    play(server, act, timeout=0.5, retries=2)


def test_a_caller_may_give_up_and_the_next_call_is_well(server):
    server.script(Drip())

    async def act(claude):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await ask(claude)
        assert claude.state == "ok"
        await ask(claude)

    play(server, act)


# The breaker


def test_the_breaker_opens_after_failures_in_a_row_and_tries_one_call_after_its_rest(server):
    server.always(Fault(status=500, headers={"retry-after-ms": "1"}))

    async def act(claude):
        for _ in range(3):
            await fails(claude)
        refused = await fails(claude)
        assert isinstance(refused, ModelUnavailable)
        assert refused.usage == Usage()
        assert refused.retry_after is not None
        assert 0 < refused.retry_after <= 0.3
        assert len(server.requests) == 6

        await asyncio.sleep(0.35)
        await asyncio.gather(*(fails(claude, str(n)) for n in range(5)))
        assert len(server.requests) == 7

        server.always(None)
        await asyncio.sleep(0.35)
        await ask(claude)
        await asyncio.gather(*(ask(claude, str(n)) for n in range(5)))
        assert claude.state == "ok"

    play(server, act, breaker_after=3, breaker_rest=0.3, retries=1)


def test_a_success_between_failures_keeps_the_breaker_closed(server):
    server.script(*[Fault(status=500), Fault(status=500), Default()] * 3)

    async def act(claude):
        for _ in range(3):
            await fails(claude)
            await fails(claude)
            await ask(claude)

    play(server, act, breaker_after=3)

    assert len(server.requests) == 9


# What only an operator can mend


@pytest.mark.parametrize("status", [400, 401, 404])
def test_a_misconfiguration_lets_one_probe_through_per_interval(server, status):
    server.always(Fault(status=status))

    async def act(claude):
        first = await fails(claude)
        assert isinstance(first, ModelMisconfigured)
        assert claude.state == "failed"
        for wait in (0.0, 0.5, 0.5):
            await asyncio.sleep(wait)
            errors = await asyncio.gather(*(fails(claude, str(n)) for n in range(5)))
            assert all(isinstance(error, ModelMisconfigured) for error in errors)
            assert all(error.retry_after and error.retry_after <= 0.4 for error in errors)

        server.always(None)
        await asyncio.sleep(0.5)
        await ask(claude)
        await ask(claude, "b")
        assert claude.state == "ok"

    play(server, act, retries=2, probe_every=0.4)

    assert len(server.requests) == 5


@pytest.mark.parametrize("status", [307, 400, 401, 402, 403, 404, 422])
def test_no_header_talks_a_misconfigured_client_into_another_request(server, status):
    server.always(Fault(status=status, headers={"x-should-retry": "true", "location": "/else"}))

    async def act(claude):
        assert isinstance(await fails(claude), ModelMisconfigured)
        assert isinstance(await fails(claude, "b"), ModelMisconfigured)

    play(server, act, retries=2)

    assert [request.path for request in server.requests] == ["/v1/messages"]


@pytest.mark.parametrize("code", ["enforced_spend_limit_reached", "contract_spend_limit_reached"])
def test_a_spend_limit_is_no_rate_limit(server, code):
    server.always(Fault(status=429, error_code=code, retry_after="0.1"))

    async def act(claude):
        error = await fails(claude)
        assert isinstance(error, ModelMisconfigured)
        assert error.retry_after == 60
        assert isinstance(await fails(claude, "b", "claude-sonnet-5-5"), ModelMisconfigured)

    play(server, act, retries=2)

    assert len(server.requests) == 1


@pytest.mark.parametrize(("status", "others_wait"), [(401, True), (404, False)])
def test_a_tenants_unknown_model_stops_no_other_model_but_a_bad_key_stops_all(
    server, status, others_wait
):
    server.script(Fault(status=status))

    async def act(claude):
        await fails(claude, model="claude-nonesuch")
        if others_wait:
            assert isinstance(await fails(claude), ModelMisconfigured)
        else:
            await ask(claude)
            assert claude.state == "ok"

    play(server, act)


def test_a_question_that_alone_is_declined_fails_alone(server):
    server.script(Fault(status=400), Default(), Fault(status=400))

    async def act(claude):
        assert isinstance(await fails(claude, "odd words"), ModelMisconfigured)
        await asyncio.sleep(0.15)
        await ask(claude)
        assert isinstance(await fails(claude, "odd words"), ModelAnsweredBadly)
        await ask(claude, "others go on")

    play(server, act, probe_every=0.1)


@pytest.mark.parametrize(
    "step",
    [
        Fault(status=400, message=f"bad: {CANARY}"),
        Fault(status=429, message=f"bad: {CANARY}"),
        Fault(status=500, message=f"bad: {CANARY}"),
        Reset(),
        Drip(),
        Page(body=CANARY.encode()),
        refusal(CANARY),
    ],
    ids=lambda step: type(step).__name__,
)
def test_no_error_holds_what_the_user_said(server, step):
    server.script(step)

    async def act(claude):
        error = await fails(claude)
        assert CANARY not in "".join(traceback.format_exception(error))
        assert error.__cause__ is error.__context__ is None
        assert CANARY not in repr(vars(error))

    play(server, act, timeout=0.5)


def test_no_log_holds_what_the_user_said_even_at_debug(server, caplog):
    caplog.set_level(logging.DEBUG)
    for name in ("anthropic", "httpx2", "httpcore2"):  # what ANTHROPIC_LOG=debug does, and more
        caplog.set_level(logging.DEBUG, logger=name)
    server.script(
        Fault(status=500, message=CANARY, headers={"retry-after-ms": "1"}),
        Page(body=CANARY.encode(), content_type="application/json"),
        facts(fact(f"Lives in {CANARY}.", quote=CANARY)),
    )

    async def act(claude):
        await fails(claude)
        assert (await ask(claude)).candidates

    play(server, act, retries=1)

    said = [json.dumps([record.getMessage(), record.exc_text or ""]) for record in caplog.records]
    assert any("httpcore2" in record.name for record in caplog.records)
    assert not [line for line in said if CANARY in line or "known_facts" in line]
