"""The one door to the Messages API: a question goes in, an answer or one `ModelError` comes out.

What all callers in a process must share lives here: the pause that a 429 asked for, the breaker,
and the long wait after an answer that only an operator can mend. Importing this module imports the
SDK, which takes seconds: only a process that has a key should.
"""

import asyncio
import json
import logging
import math
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, Final, Literal, TypeVar

import anthropic
import httpx2

from app import metrics
from app.llm import ModelAnsweredBadly, ModelError, ModelMisconfigured, ModelUnavailable, Usage

K = TypeVar("K")
V = TypeVar("V")

State = Literal["ok", "degraded", "failed"]
TOO_LONG: Final = "request_too_long"
"""`Answer.stop` of a question that the API wouldn't read for its size (413)."""

_DAY: Final = 86_400.0
_REMEMBERED: Final = 1_000
_TRANSIENT: Final = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS)
_KEY_REFUSED: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.PAYMENT_REQUIRED)

# At DEBUG the SDK logs whole requests, and with them what users said. A level set on the very
# logger beats both ANTHROPIC_LOG and a root logger at DEBUG.
logging.getLogger("anthropic._base_client").setLevel(logging.WARNING)


@dataclass(frozen=True, slots=True)
class Limits:
    """How long to try and how long to leave the API alone; all times in seconds."""

    timeout: float = 120.0
    """For one question, with everything in it: retries, waits, a body that drips."""
    retries: int = 2
    """The SDK's own, after transient failures."""
    patience: float = 5.0
    """A pause up to this is waited out; a longer one is the caller's to wait."""
    probe_every: float = 60.0
    """After an answer that only an operator can mend."""
    breaker_after: int = 5
    """Unavailable answers in a row that open the breaker."""
    breaker_rest: float = 30.0


@dataclass(frozen=True, slots=True)
class Answer:
    """The text of one answer, unread, and why the model stopped."""

    text: str
    stop: str | None
    usage: Usage


@dataclass(slots=True)
class _Barrier:
    """Open until shut. Shut, it lets one caller through per `interval` to see whether all is well.

    The one let through pushes `until` on, so a probe that is cancelled costs an interval, no more.
    """

    interval: float
    until: float | None = None

    def wait(self, now: float) -> float:
        return 0.0 if self.until is None else max(0.0, self.until - now)

    def shut(self, now: float) -> None:
        self.until = now + self.interval


class _Pause:
    """The time in which the API wants no call from this process."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._until = 0.0

    def extend(self, seconds: float) -> None:
        self._until = max(self._until, time.monotonic() + seconds)

    def rest(self) -> float:
        return max(0.0, self._until - time.monotonic())

    def check(self) -> None:
        """Raise `ModelUnavailable` when the rest is longer than anybody should sit and wait."""
        if (rest := self.rest()) > self._patience:
            raise ModelUnavailable(retry_after=_jittered(rest))

    async def wait(self) -> None:
        """Come back after the pause, or raise as `check` does."""
        while (rest := self.rest()) > 0:
            self.check()
            await asyncio.sleep(_jittered(rest))


class _Attempts(anthropic.Middleware):
    """Stands before every HTTP attempt of one question, the SDK's own retries included."""

    def __init__(self, pause: _Pause) -> None:
        self._pause = pause
        self.count = 0

    async def handle_async(
        self, request: anthropic.APIRequest, call_next: anthropic.AsyncCallNext
    ) -> anthropic.AsyncAPIResponse[Any]:
        await self._pause.wait()
        self.count += 1
        response = await call_next(request)
        if _is_transient(response.status_code):
            if _is_spend_cap(response.http_response):
                raise _Declined(HTTPStatus.PAYMENT_REQUIRED)
            if seconds := _retry_after(response.headers):
                self._pause.extend(seconds)
                self._pause.check()  # else the SDK would sleep it out, and hold the caller's job
        elif response.status_code >= HTTPStatus.MULTIPLE_CHOICES:
            # Raised here, a header of the answer can't talk the SDK into a retry.
            raise _Declined(response.status_code)
        return response


class _Declined(Exception):  # noqa: N818 - a signal between two methods, never seen outside
    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class MessagesApi:
    """A client with one key, for every model, user and tenant of this process.

    Stateless towards the API: plain calls, nothing stored there, no ids of users. Errors carry
    neither question nor answer. Belongs to one event loop.
    """

    def __init__(self, api_key: str, base_url: str | None, limits: Limits) -> None:
        self._limits = limits
        self._client = anthropic.AsyncAnthropic(
            api_key=api_key,
            base_url=base_url,
            max_retries=limits.retries,
            # A redirect would carry what users said to a host that nobody configured.
            http_client=anthropic.DefaultAsyncHttpxClient(follow_redirects=False),
            # The SDK's spans can be told by an environment variable to hold whole conversations.
            open_telemetry=False,
        )
        self._timeout = httpx2.Timeout(limits.timeout, connect=min(5.0, limits.timeout))
        self._pause = _Pause(limits.patience)
        self._breaker = _Barrier(limits.breaker_rest)
        self._failures = 0
        self._key = _Barrier(limits.probe_every)
        self._models: dict[str, _Barrier] = {}
        self._answered: dict[str, float] = {}
        self._suspects: dict[int, float] = {}

    async def aclose(self) -> None:
        """Close the connections. The client can't be used afterwards."""
        await self._client.close()

    def state(self, model: str) -> State:
        """What was last heard: `failed` needs an operator, `degraded` passes by itself."""
        if self._key.until is not None or model in self._models:
            return "failed"
        return "degraded" if self._failures or self._pause.rest() else "ok"

    async def ask(
        self, *, model: str, system: str, user: str, schema: dict[str, object], max_tokens: int
    ) -> Answer:
        """Put one question, retrying what may pass within the time limit.

        Raises `ModelUnavailable` or `ModelMisconfigured`; at once, without a call, while the API
        is to be left alone. `ModelAnsweredBadly` means that this very question is turned down.
        """
        is_probe = self._admit(model)
        attempts = _Attempts(self._pause)
        client = self._client.with_options(
            middleware=[attempts], max_retries=0 if is_probe else self._limits.retries
        )
        error: ModelError
        try:
            async with asyncio.timeout(self._limits.timeout):
                raw = await client.messages.with_raw_response.create(
                    model=model,
                    max_tokens=max_tokens,
                    system=system,
                    messages=[{"role": "user", "content": user}],
                    output_config={"format": {"type": "json_schema", "schema": schema}},
                    timeout=self._timeout,
                )
            answer = _read(raw.http_response.content, attempts.count)
        except _Declined as exc:
            if exc.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE:
                return Answer("", TOO_LONG, Usage(attempts.count))
            error = self._declined(exc.status, model, hash((model, user)))
        except (ModelUnavailable, TimeoutError, anthropic.APIError):
            error = self._unavailable(counts=attempts.count > 0)
        else:
            self._well(model)
            metrics.model_call("ok", answer.usage.input_tokens, answer.usage.output_tokens)
            return answer
        metrics.model_call(error.code)
        # Raised out here, it doesn't hold the SDK's error, whose request holds the user's words.
        error.usage = Usage(attempts.count)
        raise error

    def _admit(self, model: str) -> bool:
        """Whether the call is a probe. Raises when there must be none now."""
        now = time.monotonic()
        misconfigured = [self._key, *filter(None, [self._models.get(model)])]
        if (wait := max(barrier.wait(now) for barrier in misconfigured)) > 0:
            raise ModelMisconfigured(retry_after=wait)
        if (wait := self._breaker.wait(now)) > 0:
            raise ModelUnavailable(retry_after=wait)
        self._pause.check()
        shut = [barrier for barrier in (*misconfigured, self._breaker) if barrier.until is not None]
        for barrier in shut:
            barrier.shut(now)
        return bool(shut)

    def _well(self, model: str) -> None:
        self._failures = 0
        self._breaker.until = self._key.until = None
        self._models.pop(model, None)
        _remember(self._answered, model, time.monotonic())

    def _unavailable(self, *, counts: bool) -> ModelUnavailable:
        now = time.monotonic()
        if counts:
            self._failures += 1
            if self._failures >= self._limits.breaker_after:
                self._breaker.shut(now)
        wait = max(self._pause.rest(), self._breaker.wait(now))
        return ModelUnavailable(retry_after=_jittered(wait) if wait else None)

    def _declined(self, status: int, model: str, question: int) -> ModelError:
        """Find out whom a 4xx is about: the key, the model, or (a 400) just this question.

        A 400 given twice to the same question, with others answered in between, is the question's
        fault; otherwise one user's odd words would keep the model from everybody for ever.
        """
        now = time.monotonic()
        if status in _KEY_REFUSED:
            self._key.shut(now)
            return ModelMisconfigured(retry_after=self._limits.probe_every)
        if status == HTTPStatus.BAD_REQUEST:
            declined = self._suspects.get(question, math.inf)
            if declined < self._answered.get(model, -math.inf):
                return ModelAnsweredBadly()
            _remember(self._suspects, question, now)
        barrier = _Barrier(self._limits.probe_every)
        barrier.shut(now)
        _remember(self._models, model, barrier)
        return ModelMisconfigured(retry_after=self._limits.probe_every)


def _remember(mapping: dict[K, V], key: K, value: V) -> None:
    """Set an entry and drop the oldest beyond what a process should hold."""
    mapping.pop(key, None)
    mapping[key] = value
    if len(mapping) > _REMEMBERED:
        del mapping[next(iter(mapping))]


def _read(body: bytes, calls: int) -> Answer:
    """Take the answer apart. Raises `ModelUnavailable` when a stranger answered, say a proxy."""
    try:
        message = json.loads(body)
        blocks = message["content"]
        text = "".join(block["text"] for block in blocks if block["type"] == "text")
    except (ValueError, RecursionError, KeyError, TypeError):
        raise ModelUnavailable from None
    counts = message.get("usage")
    counts = counts if isinstance(counts, dict) else {}
    read = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    spent = Usage(calls, sum(_count(counts, key) for key in read), _count(counts, "output_tokens"))
    return Answer(text, message.get("stop_reason"), spent)


def _count(counts: Mapping[str, object], key: str) -> int:
    value = counts.get(key)
    return value if isinstance(value, int) and value > 0 else 0


def _is_transient(status: int) -> bool:
    return status in _TRANSIENT or status >= HTTPStatus.INTERNAL_SERVER_ERROR


def _is_spend_cap(response: httpx2.Response) -> bool:
    """Whether a 429 is about money, which no waiting brings."""
    try:
        return str(response.json()["error"]["details"]["error_code"]).endswith(
            "spend_limit_reached"
        )
    except (ValueError, RecursionError, KeyError, TypeError):
        return False


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds, from any form of the header; at most a day, lest a typing error silence us."""
    at = _timestamp(headers.get("date"))
    in_ms, whole = (
        _seconds(headers.get(name), at or time.time()) for name in ("retry-after-ms", "retry-after")
    )
    seconds = max(in_ms / 1_000, whole)
    return min(seconds, _DAY) if seconds > 0 else None


def _seconds(value: str | None, at: float) -> float:
    """Read a number, or a time as the seconds until then; `at` is the answer's own time."""
    if value is None:
        return 0.0
    try:
        seconds = float(value)
    except ValueError:
        seconds = (_timestamp(value) or at) - at
    return 0.0 if math.isnan(seconds) else seconds


def _timestamp(value: str | None) -> float | None:
    try:
        return parsedate_to_datetime(value).timestamp() if value else None
    except (ValueError, OverflowError):
        return None


def _jittered(seconds: float) -> float:
    """A little longer, never shorter, so that not all come back in the same instant."""
    return seconds * random.uniform(1.0, 1.1)  # noqa: S311 - spreads load, guards nothing
