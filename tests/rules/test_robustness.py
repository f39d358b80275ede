"""Nothing that anybody may say trips the rules or keeps them busy."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.llm import Candidate, Statement, Turn
from app.rules import (
    RulesExtractor,
    RulesJudge,
    forget_requests,
    same_subject,
    subject_of,
)

THEN = datetime(2026, 1, 5, tzinfo=UTC)
LATER = THEN + timedelta(days=30)


def extract(*said: str, known: tuple[Statement, ...] = ()) -> list[Candidate]:
    turns = [Turn(n, text, THEN) for n, text in enumerate(said, 1)]
    return list(asyncio.run(RulesExtractor().extract(turns, known)).candidates)


def texts(*said: str) -> list[str]:
    return [candidate.text for candidate in extract(*said)]


def statement(text: str, said_at: datetime = THEN) -> Statement:
    return Statement(text, "preference", subject_of(text, "preference"), said_at)


def relation(old: str, new: str) -> str:
    return RulesJudge().relation(statement(old), statement(new, LATER)).relation


PIECES = st.sampled_from(
    [
        "I",
        "we",
        "my",
        "name",
        "is",
        "live",
        "in",
        "Lisbon",
        "never",
        "always",
        "use",
        "from",
        "to",
        "and",
        ",",
        ".",
        "?",
        "!",
        "no longer",
        '"',
        "'",
        "`",
        "```",
        ">",
        "\n",
        "    ",
        "(",
        ")",
        ":",
        ";",
        "—",
        "…",
        "😂",
        "remember that",
        "forget",
        "actually",
        "if",
        "not",
        "but",
        "answer",
        "work at",
        "moved",
        "Porto",
        "a",
        "the",
        "ich heiße",
        "șі",
        "من",
        "我",
        "\u202e",
        "\x00",
        "don't",
        "any more",
        "instead of",
        "project",
        "X",
        "<a>",
        "</a>",
        "{",
        "}",
        "\t",
    ]
)
SPEECH = st.one_of(
    st.text(max_size=300),
    st.lists(PIECES, max_size=60).map(" ".join),
    st.lists(PIECES, max_size=60).map("".join),
)


@given(SPEECH)
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_is_said_candidates_keep_their_promises(said):
    for candidate in extract(said):
        assert candidate.quote
        assert candidate.quote in said
        assert candidate.subject
        assert 0 < len(candidate.text) < 200
        assert candidate.text.endswith(".")
        assert "\n" not in candidate.text
    for request in forget_requests([Turn(1, said, THEN)]):
        assert request.quote in said


@given(SPEECH, SPEECH)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_is_compared_there_is_a_verdict_and_a_subject(one, other):
    assert relation(one, other) in ("CONTRADICTS", "DUPLICATE", "INDEPENDENT")
    assert subject_of(one, "goal")
    assert relation(one, one) == "DUPLICATE"
    assert same_subject(one, other) == same_subject(other, one)


def read_everything(said):
    assert len(extract(said)) <= 400
    forget_requests([Turn(1, said, THEN)])
    subject_of(said, "goal")
    relation(said, said + "x")


# fmt: off
ENDLESS = [
    "a", " ", "\n", ".", "-", '"', "'", "`", "```", "<", "<a>", "(", ">", "“", "«", "😂", "\u0301",
    "no, ", "actually ", "I am now ", "also ", "translate ", "; ", "- ", "x;\n", '{ "a": ', ") {",
    "1234-12-12T", "ich heiße ", "Error",
]
WORDY = [
    "I live in Lisbon and ", "I use ", "we use Postgres, ", "from A to B ", "remember that ",
    "forget that ", "never ", "no longer ", "I no longer ", "I stopped using ", "and my ",
    "I have just recently ",
]
# fmt: on


@pytest.mark.timeout(60)
@pytest.mark.parametrize("unit", ENDLESS + WORDY)
def test_64_kib_of_anything_repeated_are_read_to_the_end(unit):
    read_everything((unit * (65_536 // len(unit) + 1))[:65_536])


@pytest.mark.timeout(60)
@pytest.mark.parametrize("unit", WORDY)
def test_the_longest_sentences_that_are_read_keep_nobody_busy(unit):
    sentence = (unit * 400)[:380]

    read_everything(f"{sentence}. " * 60)
