"""The keyless judge: what supersedes, what repeats, what stays side by side, and about what."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from app.llm import Candidate, Pair, Statement, Turn
from app.rules import (
    RulesExtractor,
    RulesJudge,
    is_single_valued,
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


CONTRADICTING = [
    ("Uses Postgres.", "Switched from Postgres to PlanetScale."),
    ("Uses Foo.", "Switched from Foo to Bar."),
    ("Uses Postgres", "We migrated from Postgres to PlanetScale."),
    ("Uses Postgres.", "Now uses MySQL."),
    ("The plan is Pro", "The plan is Enterprise"),
    ("Prefers window seats", "Prefers aisle seats now"),
    ("Works at Aurora.", "Works at Borealis."),
    ("Lives in Graz.", "Moved from Graz to Linz."),
    ("The user lives in Lisbon", "User lives in Porto"),
    ("Likes jazz.", "Dislikes jazz."),
    ("Answer in Romanian.", "Answer in English from now on."),
    ("Never use emojis.", "Use emojis again"),
    ("Uses Redis.", "No longer uses Redis."),
    ("Is on project Gamma.", "Is now on project Delta instead of Gamma."),
    ("The team deploys only on Thursdays.", "We deploy on Fridays now."),
    ("Favourite language is Python.", "Favorite language is Rust."),
    ("Wants short answers", "Wants detailed, step by step answers"),
    ("Prefers tea over coffee.", "Prefers coffee over tea."),
    ("Staging runs in eu-west-1", "Staging was moved to eu-central-1"),
    ("Vivo en Granada.", "Lives in Porto."),
]
DUPLICATE = [
    ("Uses Postgres.", "uses  postgres"),
    ("Uses Postgres.", "our db is PostgreSQL"),
    ("Prefers window seats.", "I like window seats"),
    ("Lives in Lisbon, Portugal.", "Is based in Lisbon"),
    ("Works as a nurse.", "Is a nurse."),
    ("Answer in German.", "Antworte immer auf Deutsch."),
    ("Never use emojis in replies", "Does not want emojis"),
]
INDEPENDENT = [
    ("Uses Postgres.", "Uses Redis."),
    ("Uses VS Code.", "Uses vim."),
    ("Speaks German.", "Speaks Dutch."),
    ("Likes jazz", "Likes rock"),
    ("Works at Aurora.", "Is a nurse."),
    ("Works at Aurora.", "Lives in Porto."),
    ("Lives in Graz", "Is from Graz"),
    ("Has two cats.", "Dog is called Biscuit."),
    ("Never suggest AWS.", "Never suggest Azure."),
    ("Is learning Rust.", "Is learning Go."),
    ("Manager is Dana Okafor.", "Dana Okafor likes written updates."),
    ("The office is big", "The office is in Berlin"),
    ("Likes tea.", "Prefers coffee over tea."),
    ("Database is Postgres 15.", "Database is Postgres 16."),
    ("Login service is written in Go", "Billing service is written in Java"),
    ("", "Lives in Porto."),
]


@pytest.mark.parametrize(("old", "new"), CONTRADICTING)
def test_another_value_or_the_opposite_contradicts(old, new):
    assert relation(old, new) == "CONTRADICTS"
    assert same_subject(subject_of(old, "preference"), subject_of(new, "preference"))


@pytest.mark.parametrize(("old", "new"), DUPLICATE)
def test_the_same_in_other_words_is_a_duplicate(old, new):
    assert relation(old, new) == "DUPLICATE"


@pytest.mark.parametrize(("old", "new"), INDEPENDENT)
def test_what_may_hold_side_by_side_is_independent(old, new):
    assert relation(old, new) == "INDEPENDENT"


def test_texts_beyond_the_table_are_compared_by_their_given_subject_and_names():
    def city(text, said_at):
        return Statement(text, "profile", "home city", said_at)

    arad, deva = city("Locuiește în Arad.", THEN), city("Locuiește la Deva.", LATER)

    assert RulesJudge().relation(arad, deva).relation == "CONTRADICTS"
    assert RulesJudge().relation(arad, city("Stă tot în Arad.", LATER)).relation != "CONTRADICTS"


def test_the_judge_gives_one_verdict_per_pair_without_the_users_words():
    pairs = [
        Pair(statement(old), statement(new, LATER))
        for old, new in CONTRADICTING + DUPLICATE + INDEPENDENT
    ]

    verdicts = asyncio.run(RulesJudge().judge(pairs)).verdicts

    assert len(verdicts) == len(pairs)
    assert all(len(v.reason) < 80 and "Porto" not in v.reason for v in verdicts)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("employer", "job"),
        ("Employer", "current company"),
        ("home city", "location"),
        ("database", "db"),
        ("primary_database", "database"),
        ("seat preference", "preferred airline seat"),
        ("dog", "dog name"),
        ("tools", "database"),
        ("role", "job title"),
    ],
)
def test_subjects_are_the_same_under_any_of_their_names(one, other):
    assert same_subject(one, other)
    assert same_subject(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("employer", "role"),
        ("employer", "home city"),
        ("staging region", "production region"),
        ("languages spoken", "answer language"),
        ("editor", "database"),
        ("", "employer"),
        ("", ""),
    ],
)
def test_unrelated_subjects_are_told_apart(one, other):
    assert not same_subject(one, other)


def test_only_one_employer_city_name_role_and_database_hold_at_a_time():
    single = ["employer", "job", "home city", "city", "name", "role", "database", "db"]

    assert all(is_single_valued(subject) for subject in single)
    assert not any(is_single_valued(s) for s in ["tools", "languages spoken", "pets", "likes"])


@pytest.mark.parametrize(
    ("text", "subject"),
    [
        ("Uses Postgres", "database"),
        ("The plan is Pro", "plan"),
        ("Prefers aisle seats now", "seat preference"),
        ("Works at Fernhill.", "employer"),
        ("Answer in Romanian.", "answer language"),
        ("我喜欢茶", "我喜欢茶"),
        ("…", "profile"),
        ("", "profile"),
    ],
)
def test_every_text_has_a_subject(text, subject):
    assert subject_of(text, "profile") == subject
