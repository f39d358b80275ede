import asyncio
import time
from typing import Any

import numpy as np
import pytest

from app.embeddings import LONGEST, EmbedderError, OpenAICompatible, Purpose, Voyage
from app.embeddings.remote import BATCH, CALLS, Breaker
from tests.scripted_embedder import (
    Reply,
    ScriptedEmbedder,
    answer,
    chain,
    code_of,
    using,
    vector_of,
)

SECRET = "key-that-must-not-be-seen"
SAID = "words that must not be seen"


def remote(service: ScriptedEmbedder, **changed: Any) -> OpenAICompatible:
    return OpenAICompatible(**({"url": service.url, "model": "small", "key": SECRET} | changed))


def test_openai_request_and_answer() -> None:
    with ScriptedEmbedder() as service:
        embedder = remote(service)
        vectors = using(embedder, lambda e: e.embed(["Lives in Lisbon", "Likes tea"], "query"))

        (asked,) = service.asked
    assert asked.path == "/v1/embeddings"
    assert asked.headers["authorization"] == f"Bearer {SECRET}"
    assert asked.body == {"model": "small", "input": ["Lives in Lisbon", "Likes tea"]}
    expected = np.array(vector_of("Likes tea", 64))
    assert np.allclose(vectors[1], expected / np.linalg.norm(expected))
    assert (embedder.name, embedder.dimensions) == ("openai:small-64", 64)


def test_service_without_key_is_sent_none() -> None:
    with ScriptedEmbedder() as service:
        using(remote(service, key=None), lambda e: e.warm())

        assert "authorization" not in service.asked[0].headers


@pytest.mark.parametrize(("purpose", "kind"), [("fact", "document"), ("query", "query")])
def test_voyage_is_told_what_a_text_is_for(purpose: Purpose, kind: str) -> None:
    with ScriptedEmbedder() as service:
        voyage = Voyage(url=service.url, model="voyage-3.5", dimensions=64)
        using(voyage, lambda e: e.embed(["Likes tea"], purpose))

        assert service.asked[0].body == {
            "model": "voyage-3.5",
            "input": ["Likes tea"],
            "input_type": kind,
            "output_dimension": 64,
        }
    assert voyage.name == "voyage:voyage-3.5-64"


def test_declared_width_is_sent_and_names_the_space_before_the_first_call() -> None:
    with ScriptedEmbedder() as service:
        embedder = remote(service, dimensions=64)
        name = embedder.name
        using(embedder, lambda e: e.warm())

        assert name == "openai:small-64"
        assert service.asked[0].body["dimensions"] == 64


def test_name_of_an_unknown_width_is_an_error_not_a_guess() -> None:
    with ScriptedEmbedder() as service:
        embedder = remote(service)

        with pytest.raises(EmbedderError):
            _ = embedder.name
        using(embedder, lambda e: e.aclose())


def test_answers_are_put_in_the_order_of_their_indexes() -> None:
    swapped = answer([vector_of("a", 64), vector_of("b", 64)])
    swapped["data"].reverse()
    with ScriptedEmbedder(always=Reply(body=swapped)) as service:
        first, second = using(remote(service), lambda e: e.embed(["a", "b"]))

    assert first @ np.array(vector_of("a", 64)) > second @ np.array(vector_of("a", 64))


def test_many_texts_go_in_bounded_requests_and_keep_their_order() -> None:
    texts = [f"text {n}" for n in range(2 * BATCH + 3)]
    with ScriptedEmbedder() as service:
        vectors = using(remote(service), lambda e: e.embed([*texts, "x" * 9_999]))

        assert [len(asked.texts) for asked in service.asked] == [BATCH, BATCH, 4]
        assert len(service.asked[-1].texts[-1]) == LONGEST
    for text, vector in zip(texts, vectors, strict=False):
        expected = np.array(vector_of(text, 64))
        assert np.allclose(vector, expected / np.linalg.norm(expected))


def test_lone_surrogates_and_blank_texts_reach_the_service_as_valid_text() -> None:
    with ScriptedEmbedder() as service:
        using(remote(service), lambda e: e.embed(["a\ud800b", "", "nul\0"]))

        assert service.asked[0].texts == ["a\ufffdb", ".", "nul"]


GOOD = vector_of("good", 64)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(answer([[0.1, 0.2, 0.3]]), id="three numbers"),
        pytest.param(answer([[0.0] * 64]), id="all zero"),
        pytest.param(answer([[1e-200] * 64]), id="next to zero"),
        pytest.param(answer([[float("nan"), *GOOD[1:]]]), id="NaN"),
        pytest.param(answer([[float("inf"), *GOOD[1:]]]), id="infinity"),
        pytest.param(answer([[2**63, *GOOD[1:]]]), id="64-bit integer"),
        pytest.param(answer([[10**400, *GOOD[1:]]]), id="integer beyond a float"),
        pytest.param(answer([[1e300, *GOOD[1:]]]), id="float beyond 32 bits"),
        pytest.param(answer([["0.5", *GOOD[1:]]]), id="a string among numbers"),
        pytest.param(answer([[True, *GOOD[1:]]]), id="a bool among numbers"),
        pytest.param(answer([[None, *GOOD[1:]]]), id="a null among numbers"),
        pytest.param(answer([[[1.0], *GOOD[1:]]]), id="a list among numbers"),
        pytest.param(answer(["AACAPwAAAEA="]), id="a string"),
        pytest.param(answer([None]), id="a null"),
        pytest.param(answer([GOOD[:63]]), id="another width"),
        pytest.param(answer([[0.5] * 1_025]), id="too wide"),
        pytest.param(answer([]), id="too few"),
        pytest.param(answer([GOOD, GOOD]), id="too many"),
        pytest.param({"data": [{"index": 1, "embedding": GOOD}]}, id="index out of range"),
        pytest.param({"data": [{"index": False, "embedding": GOOD}]}, id="index a bool"),
        pytest.param({"data": [{"embedding": GOOD}]}, id="no index"),
        pytest.param({"data": [GOOD]}, id="bare lists"),
        pytest.param({"data": {"0": GOOD}}, id="an object for a list"),
        pytest.param([GOOD], id="a list for an object"),
        pytest.param({"error": SAID}, id="an error as 200"),
        pytest.param(b"", id="empty"),
        pytest.param(b"{", id="cut off"),
        pytest.param(b"\xff\xfe", id="not text"),
        pytest.param(b"[" * 100_000, id="nested without end"),
        pytest.param(b" " * (8 * 1024 * 1024 + 1), id="too large"),
    ],
)
def test_bad_answer_is_refused_and_the_next_good_one_taken(body: Any) -> None:
    async def act(embedder: OpenAICompatible) -> tuple[str | None, str | None]:
        return await code_of(embedder.embed([SAID])), await code_of(embedder.embed([SAID]))

    with ScriptedEmbedder() as service:
        service.script.append(Reply(body=body))
        first, second = using(remote(service, dimensions=64), act)

        assert (first, second) == ("bad_answer", None)
        assert len(service.asked) == 2, "a bad answer is not asked for again"


def test_two_widths_in_one_answer_are_refused() -> None:
    body = answer([vector_of("a", 64), vector_of("b", 32)])
    with ScriptedEmbedder(always=Reply(body=body)) as service:
        assert using(remote(service), lambda e: code_of(e.embed(["a", "b"]))) == "bad_answer"


def test_duplicate_index_is_refused() -> None:
    body = {"data": [{"index": 0, "embedding": GOOD}, {"index": 0, "embedding": GOOD}]}
    with ScriptedEmbedder(always=Reply(body=body)) as service:
        assert using(remote(service), lambda e: code_of(e.embed(["a", "b"]))) == "bad_answer"


def test_absurd_first_answer_does_not_teach_the_width() -> None:
    async def act(embedder: OpenAICompatible) -> list[str | None]:
        return [await code_of(embedder.embed(["a"])) for _ in range(2)]

    with ScriptedEmbedder() as service:
        service.script.append(Reply(body=answer([[0.1, 0.2, 0.3]])))

        assert using(remote(service), act) == ["bad_answer", None]


def test_width_that_changes_later_is_an_error_and_keeps_the_name() -> None:
    async def act(embedder: OpenAICompatible) -> tuple[str | None, str]:
        await embedder.warm()
        service.dimensions = 128
        return await code_of(embedder.embed(["a"])), embedder.name

    with ScriptedEmbedder() as service:
        assert using(remote(service), act) == ("bad_answer", "openai:small-64")


@pytest.mark.parametrize(
    "fault", [Reply(429), Reply(500), Reply(503), Reply(529), Reply(hang_up=True)]
)
def test_passing_fault_is_retried_once(fault: Reply) -> None:
    with ScriptedEmbedder() as service:
        service.script.append(fault)
        code = using(remote(service), lambda e: code_of(e.embed(["a"])))

        assert code is None
        assert len(service.asked) == 2


@pytest.mark.parametrize(
    ("status", "code", "calls"),
    [
        (500, "unavailable", 2),
        (429, "unavailable", 2),
        (400, "rejected", 1),
        (401, "misconfigured", 1),
        (404, "misconfigured", 1),
        (302, "misconfigured", 1),
        (204, "misconfigured", 1),
    ],
)
def test_lasting_fault_has_a_stable_code(status: int, code: str, calls: int) -> None:
    with ScriptedEmbedder(always=Reply(status, body=b"")) as service:
        assert using(remote(service), lambda e: code_of(e.embed(["a"]))) == code
        assert len(service.asked) == calls


def test_slow_service_costs_no_more_than_the_budget() -> None:
    async def act(embedder: OpenAICompatible) -> tuple[str | None, float]:
        start = time.perf_counter()
        return await code_of(embedder.embed(["a"], "query")), time.perf_counter() - start

    with ScriptedEmbedder(always=Reply(delay=3)) as service:
        code, took = using(remote(service, budgets={"query": 0.2, "fact": 5.0}), act)

    assert code == "unavailable"
    assert took < 2


def test_dead_service_is_not_asked_again_until_a_probe_finds_it_alive() -> None:
    async def act(embedder: OpenAICompatible) -> list[tuple[str | None, int]]:
        seen = []

        async def step() -> None:
            seen.append((await code_of(embedder.embed(["a"])), len(service.asked)))

        for _ in range(3):
            await step()
        await asyncio.sleep(0.55)
        await asyncio.gather(step(), step())
        service.always = Reply()
        await asyncio.sleep(0.55)
        await step()
        await step()
        return seen

    with ScriptedEmbedder(always=Reply(401)) as service:
        seen = using(remote(service, breaker=Breaker(limit=2, pause=0.5)), act)

    assert seen[:3] == [("misconfigured", 1), ("misconfigured", 2), ("unavailable", 2)]
    assert sorted(code or "" for code, _ in seen[3:5]) == ["misconfigured", "unavailable"]
    assert seen[5:] == [(None, 4), (None, 5)]


def test_probe_that_was_cancelled_is_followed_by_another() -> None:
    async def act(embedder: OpenAICompatible) -> str | None:
        assert await code_of(embedder.embed(["a"])) == "unavailable"
        service.always = Reply(delay=0.5)
        await asyncio.sleep(0.15)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(embedder.embed(["a"]), 0.05)
        service.always = Reply()
        await asyncio.sleep(0.15)
        return await code_of(embedder.embed(["a"]))

    with ScriptedEmbedder(always=Reply(503)) as service:
        assert using(remote(service, breaker=Breaker(limit=1, pause=0.1)), act) is None


def test_state_tells_what_passes_from_what_an_operator_must_mend() -> None:
    async def act(embedder: OpenAICompatible) -> list[str]:
        states: list[str] = [embedder.state]
        for status in (503, 200, 401, 400, 503, 200):
            service.always = Reply(status)
            await code_of(embedder.embed(["a"]))
            states.append(embedder.state)
        return states

    with ScriptedEmbedder() as service:
        seen = using(remote(service), act)

    assert seen == ["ok", "degraded", "ok", "failed", "ok", "degraded", "ok"]


def test_refused_text_does_not_open_the_breaker() -> None:
    async def act(embedder: OpenAICompatible) -> list[str | None]:
        return [await code_of(embedder.embed(["a"])) for _ in range(6)]

    with ScriptedEmbedder(always=Reply(400)) as service:
        assert using(remote(service), act) == ["rejected"] * 6


def test_flood_of_requests_is_turned_away() -> None:
    async def act(embedder: OpenAICompatible) -> list[str | None]:
        return await asyncio.gather(*(code_of(embedder.embed(["a"])) for _ in range(200)))

    with ScriptedEmbedder(always=Reply(delay=0.1)) as service:
        codes = using(remote(service), act)

        assert codes.count("busy") == 200 - CALLS
        assert len(service.asked) == CALLS


def test_nobody_listening_is_unavailable_and_says_neither_text_nor_key() -> None:
    with ScriptedEmbedder() as service:
        url = service.url
    embedder = OpenAICompatible(url=url, model="small", key=SECRET)

    with pytest.raises(EmbedderError) as caught:
        using(embedder, lambda e: e.embed([SAID]))

    assert caught.value.code == str(caught.value) == "unavailable"
    assert set(chain(caught.value)) == {EmbedderError}


def test_key_that_no_header_can_hold_is_unavailable_and_not_shown() -> None:
    with ScriptedEmbedder() as service, pytest.raises(EmbedderError) as caught:
        using(remote(service, key=f"{SECRET}\r\nx: y"), lambda e: e.embed(["a"]))

    assert caught.value.code == "unavailable"
    assert set(chain(caught.value)) == {EmbedderError}


def test_nothing_said_and_no_key_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(0)
    with ScriptedEmbedder() as service:
        service.script.extend([Reply(500), Reply(body=b"{")])
        using(remote(service), lambda e: code_of(e.embed([SAID])))

    assert SAID not in caplog.text
    assert SECRET not in caplog.text
