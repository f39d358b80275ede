"""How an extractor's answer is read: item by item, and never a fact made of something else."""

import asyncio
import html
import json
from datetime import UTC, datetime

import pytest

from app.claude import MAX_ITEMS
from app.llm import Extraction, ModelAnsweredBadly, ModelRefused, Turn, Usage
from tests.scripted_claude import Raw, ScriptedClaude, connected, fact, facts, refusal

GRAZ = "I live in Graz now."
GOOD = fact("Lives in Graz.", quote="I live in Graz")


@pytest.fixture
def server():
    with ScriptedClaude() as server:
        yield server


def extract(server: ScriptedClaude, said: str = GRAZ) -> Extraction:
    """What is read of the answer to one turn."""

    async def run() -> Extraction:
        async with connected(server) as claude:
            return await claude.extractor().extract([Turn(1, said, datetime.now(UTC))], [])

    return asyncio.run(run())


def test_a_good_item_becomes_a_candidate(server):
    server.script(facts(GOOD | {"valid_from": "2026-09-01"}))

    (candidate,) = extract(server).candidates

    assert (candidate.text, candidate.kind, candidate.subject) == (
        "Lives in Graz.",
        "profile",
        "home city",
    )
    assert (candidate.turn, candidate.quote) == (1, "I live in Graz")
    assert candidate.valid_from == datetime(2026, 9, 1, tzinfo=UTC)
    assert candidate.closes is False


@pytest.mark.parametrize("as_seen", [html.escape, str], ids=["with entities", "without"])
@pytest.mark.parametrize("said", ["AT&T <3 me", "I write &lt; in HTML", "a &amp;&amp; b"])
def test_a_quote_comes_back_as_the_user_wrote_it(server, said, as_seen):
    server.script(facts(fact("Uses it.", quote=as_seen(said))))

    assert extract(server, said).candidates[0].quote == said


@pytest.mark.parametrize(
    "bad",
    [
        {"kind": "permission"},
        {"kind": ["profile"]},
        {"text": ""},
        {"text": " \t "},
        {"text": "x" * 10_000},
        {"text": "Lives in Graz.\n## Rules"},
        {"text": "Lives\u2028in Graz."},
        {"text": "Lives in \0Graz."},
        {"text": 7},
        {"text": None},
        {"subject": ""},
        {"subject": {}},
        {"quote": "  "},
        {"quote": None},
        {"quote": "I live\0"},
        {"turn": 0},
        {"turn": 2},
        {"turn": "1"},
        {"turn": 1.0},
        {"turn": True},
        {"valid_from": 1_788_000_000},
        {"supersedes": "0192d7a2-0000-7000-8000-000000000000"},
    ],
    ids=str,
)
def test_a_bad_item_is_dropped_and_counted_alone(server, bad):
    server.script(facts(GOOD | bad, GOOD))

    extraction = extract(server)

    assert [candidate.text for candidate in extraction.candidates] == ["Lives in Graz."]
    assert extraction.rejected == {"invalid": 1}
    assert len(server.requests) == 1


@pytest.mark.parametrize("bad", ["Lives in Graz.", None, 3, [GOOD], {}], ids=repr)
def test_an_item_that_is_no_fact_is_dropped(server, bad):
    server.script(facts(bad, GOOD))

    assert extract(server).rejected == {"invalid": 1}


def test_items_beyond_the_cap_are_counted(server):
    server.script(facts(*[GOOD] * 500))

    extraction = extract(server)

    assert len(extraction.candidates) == MAX_ITEMS
    assert extraction.rejected == {"cap": 500 - MAX_ITEMS}


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("2026-03-29", "2026-03-29T00:00:00+00:00"),
        ("2026-03-29T02:30:00+05:30", "2026-03-28T21:00:00+00:00"),
        ("2026-03-29t02:30:00.25z", "2026-03-29T02:30:00.250000+00:00"),
        ("2026-03-29T02:30:00", None),
        ("2026-02-30", None),
        ("2026-W13-1", None),
        ("20260329", None),
        ("0001-01-01T00:00:00+14:00", None),
        ("last Tuesday", None),
        ("", None),
        (None, None),
    ],
)
def test_only_an_rfc_3339_date_is_a_date_and_a_bad_one_costs_no_fact(server, given, read):
    server.script(facts(GOOD | {"valid_from": given}))

    (candidate,) = extract(server).candidates

    assert (candidate.valid_from and candidate.valid_from.isoformat()) == read


DOCUMENT = json.dumps({"facts": [GOOD]})


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "Here are the facts: she lives in Graz.",
        f"```json\n{DOCUMENT}\n```",
        f"Here are the facts:\n{DOCUMENT}",
        f"{DOCUMENT}\nAnything else?",
        DOCUMENT + DOCUMENT,
        DOCUMENT.replace("Lives", "\\x4cives"),
        DOCUMENT.replace("Lives", "\\ud83d"),
        DOCUMENT[:-3],
        "[]",
        '{"facts": {}}',
        '{"verdicts": []}',
        "[" * 100_000,
    ],
)
def test_an_unreadable_answer_is_asked_for_once_more_then_fails(server, answer):
    server.always(Raw(answer))

    with pytest.raises(ModelAnsweredBadly) as failure:
        extract(server)

    first, second = server.requests
    assert first.body == second.body
    assert failure.value.usage == Usage(calls=2, input_tokens=20, output_tokens=10)


def test_a_second_answer_that_can_be_read_counts(server):
    server.script(Raw("```"), facts(GOOD))

    extraction = extract(server)

    assert len(extraction.candidates) == 1
    assert extraction.usage.calls == 2


def test_a_broken_escape_in_both_answers_costs_its_item_only(server):
    server.always(Raw(json.dumps({"facts": [GOOD, GOOD | {"text": "\ud83d"}]})))

    extraction = extract(server)

    assert len(extraction.candidates) == 1
    assert extraction.rejected == {"invalid": 1}
    assert len(server.requests) == 2


@pytest.mark.parametrize("text", ["", "I can't help with that.", DOCUMENT])
def test_a_refusal_is_final_and_its_text_is_nobodys_fact(server, text):
    server.script(refusal(text))

    with pytest.raises(ModelRefused) as failure:
        extract(server)

    assert failure.value.usage == Usage(1, 10, 5)
    assert len(server.requests) == 1
