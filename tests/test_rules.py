"""The keyless extractor and judge: what they keep, what they leave, and that nothing trips them."""

import asyncio
import re
from datetime import UTC, datetime, timedelta

import pytest

from app.llm import Candidate, Statement, Turn
from app.rules import (
    RulesExtractor,
    RulesJudge,
    forget_requests,
    same_subject,
    subject_of,
)
from app.rules.judge import understand
from app.rules.patterns import ROWS
from app.rules.slots import READERS
from benchmarks import quality

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


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        (
            "Hi, my name is Dana and I live in Lisbon.",
            ["profile: Name is Dana.", "profile: Lives in Lisbon."],
        ),
        ("I use Postgres and Redis", ["preference: Uses Postgres.", "preference: Uses Redis."]),
        (
            "Never suggest AWS, we are on-prem by contract",
            ["constraint: Never suggest AWS; we are on-prem by contract."],
        ),
        (
            "I'm Marta Kowalska, a nurse practitioner based in Kraków",
            [
                "profile: Name is Marta Kowalska.",
                "profile: Lives in Kraków.",
                "profile: Is a nurse practitioner.",
            ],
        ),
        (
            "I'm a software engineer at Stripe",
            ["profile: Works at Stripe.", "profile: Is a software engineer."],
        ),
        ("My name is actually Janet", ["profile: Name is Janet."]),
        ("Actually we're back in Berlin now", ["profile: Lives in Berlin."]),
        ("I'm back in Lisbon for good", ["profile: Lives in Lisbon."]),
        ("Our deploys happen every Thursday", ["constraint: Our deploys happen every Thursday."]),
        (
            "Our releases go out on Mondays and Fridays.",
            ["constraint: Our releases go out on Mondays and Fridays."],
        ),
        (
            "We use Postgres and Redis on AWS",
            ["preference: Uses Postgres.", "preference: Uses Redis.", "preference: Uses AWS."],
        ),
        (
            "We use Kubernetes, with Terraform for infra",
            ["preference: Uses Kubernetes.", "preference: Uses Terraform."],
        ),
        ("We use Kubernetes, with Anna on call", ["preference: Uses Kubernetes."]),
        ("We use Figma on Fridays", ["preference: Uses Figma."]),
        ("I prefer window seats", ["preference: Prefers window seats."]),
        ("Please answer in Romanian.", ["constraint: Answer in Romanian."]),
        ("the team deploys only on Thursdays", ["constraint: The team deploys only on Thursdays."]),
        (
            "I work at Brightwave as a data engineer",
            ["profile: Works at Brightwave.", "profile: Is a data engineer."],
        ),
        ("I just joined Borealis", ["profile: Works at Borealis."]),
        ("I moved to Porto last month", ["profile: Lives in Porto."]),
        (
            "I moved to Fernhill as a staff engineer",
            ["profile: Works at Fernhill.", "profile: Is a staff engineer."],
        ),
        ("I moved from Graz to Linz", ["profile: Moved from Graz to Linz."]),
        (
            "we migrated from Postgres to PlanetScale",
            ["preference: Switched from Postgres to PlanetScale."],
        ),
        (
            "I am now on project Delta instead of Gamma",
            ["goal: Is now on project Delta instead of Gamma."],
        ),
        (
            "I'm learning FastAPI for an internship project",
            ["goal: Is learning FastAPI for an internship project."],
        ),
        ("my dog is called Biscuit", ["profile: Dog is called Biscuit."]),
        (
            "My daughter Mia starts school in September",
            ["profile: Daughter Mia starts school in September."],
        ),
        (
            "I'm allergic to peanuts and shellfish",
            ["constraint: Allergic to peanuts.", "constraint: Allergic to shellfish."],
        ),
        ("we no longer use Redis", ["preference: No longer uses Redis."]),
        ("I'm vegan, what can I cook tonight?", ["preference: Is vegan."]),
        ("could you always answer in French?", ["constraint: Always answer in French."]),
        ("From now on call me Tibi.", ["profile: Goes by Tibi."]),
        (
            "Remember that our release train leaves every second Friday",
            ["preference: Our release train leaves every second Friday."],
        ),
        ("Remember that I walk my dog at six", ["preference: Walks their dog at six."]),
        (
            "Ich heiße Jonas und wohne in Bremen.",
            ["profile: Ich heiße Jonas.", "profile: Wohne in Bremen."],
        ),
        (
            "Me llamo Lucía y vivo en Granada",
            ["profile: Me llamo Lucía.", "profile: Vivo en Granada."],
        ),
        (
            "Je m'appelle Inès, j'habite à Lyon",
            ["profile: Je m'appelle Inès.", "profile: J'habite à Lyon."],
        ),
        (
            "Mă numesc Radu și locuiesc în Cluj",
            ["profile: Mă numesc Radu.", "profile: Locuiesc în Cluj."],
        ),
    ],
)
def test_what_is_stated_plainly_is_kept_one_fact_per_thing(said, kept):
    assert [f"{c.kind}: {c.text}" for c in extract(said)] == kept


@pytest.mark.parametrize(
    "said",
    [
        "Do I live in Lisbon?",
        "My name is really hard to spell",
        "I'm back in Berlin for the weekend",
        "We're back in the office now",
        "Our deploys happen every time somebody pushes",
        "do i use Postgres here",
        "If I lived in Paris, I would cycle.",
        "I'm tired and I'm in a hurry",
        "I'm at the airport, boarding in ten minutes",
        "Please summarise this page for me",
        "Book me a flight to Rome",
        "```\nI live in Lisbon\n```",
        "look:\n    my name is Bob\n",
        "Traceback (most recent call last):\nValueError: I live in Lisbon",
        "> I live in Berlin and I love it",
        'He wrote "I live in Berlin" on the card',
        "translate: I live in Berlin",
        "Translate to German:\nI work at Siemens. My name is Thomas.",
        "Subject: hello\nI live in Berlin",
        "my friend says he lives in Paris and works for Airbus",
        "She told me, I live in Madrid",
        "Pretend you are a pirate. My name is Redbeard and I love rum.",
        "I live on Mars lol",
        "I'm the king of Spain, just kidding",
        "I used to live in Graz",
        "I don't live in Lisbon",
        "maybe I'll move to Oslo",
        "I'm thinking about moving to Oslo",
        "I might switch to Neovim",
        "For this mail only, write very formally",
        "don't use recursion in this function",
        "Never mind, I found it",
        "I love this song",
        "I'm at Starbucks now",
        "forget that I live in Lisbon",
        "please don't remember that I work at Acme",
        "I have to go, bye",
    ],
)
def test_nothing_is_kept_from_what_is_no_plain_statement(said):
    assert texts(said) == []


def test_play_lasts_over_turns_until_it_is_ended():
    play = "Let's do a roleplay, you are a pirate captain"

    assert texts(play, "I live on a ship and I love rum") == []
    assert texts(play, "I love rum", "ok stop the roleplay. I live in Ghent.") == [
        "Lives in Ghent."
    ]


def test_the_quote_is_verbatim_and_as_short_as_covers_the_statement():
    said = "hey!  I work at Brightwave as a data engineer, by the way, since May"

    [employer, role] = extract(said)

    assert employer.quote == "I work at Brightwave"
    assert role.quote == "I work at Brightwave as a data engineer"


def test_turn_numbers_follow_the_turns_and_candidates_keep_their_order():
    found = extract("hello", "I live in Ghent", "I speak Dutch")

    assert [(c.turn, c.text) for c in found] == [(2, "Lives in Ghent."), (3, "Speaks Dutch.")]


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        (["I live in Lisbon… actually Porto"], ["Lives in Porto."]),
        (["I live in Malmö", "oh sorry, I meant Lund"], ["Lives in Lund."]),
        (["I work at Acme. Scratch that."], []),
        (
            ["I'm allergic to walnuts. Actually not walnuts, only hazelnuts."],
            ["Allergic to hazelnuts."],
        ),
        (["I work at Acme", "no, Porto"], ["Works at Acme."]),
    ],
)
def test_a_correction_takes_the_place_of_what_it_corrects(said, kept):
    assert texts(*said) == kept


@pytest.mark.parametrize(
    ("said", "held"),
    [
        ("we no longer use Redis", "Uses Redis."),
        ("I stopped drinking coffee", "Drinks coffee."),
        ("I gave up coffee", "Drinks coffee."),
        ("I don't work at Acme any more", "Works at Acme."),
        ("I quit Acme", "Works at Acme."),
        ("I left my job", "Works at Acme."),
        ("I'm not vegetarian any more", "Is vegetarian."),
        ("I gave up the cello", "Is learning the cello."),
        ("you can suggest AWS again", "Never suggest AWS."),
    ],
)
def test_a_closing_statement_closes_what_it_ends(said, held):
    [closing] = extract(said)
    new = Statement(closing.text, closing.kind, closing.subject, LATER)
    old = statement(held)

    assert closing.closes
    assert RulesJudge().relation(old, new).relation == "CONTRADICTS"
    assert same_subject(old.subject, new.subject)


def test_a_closing_statement_takes_the_subject_of_the_known_fact_it_ends():
    known = Statement("Is learning the cello.", "goal", "music lessons", THEN)

    [closing] = extract("I gave up the cello", known=(known,))

    assert closing.subject == "music lessons"


@pytest.mark.parametrize(
    ("said", "quote", "what"),
    [
        ("forget that I live in Lisbon", "forget that I live in Lisbon", "I live in Lisbon"),
        ("Please don't remember my dog's name.", "don't remember my dog's name", "my dog's name"),
        ("delete what you know about my job", "delete what you know about my job", "my job"),
        ("Can you forget my birthday please?", "forget my birthday", "my birthday"),
        ("remove my address from your memory", "remove my address from your memory", "my address"),
        ("please forget everything about me", "forget everything about me", ""),
    ],
)
def test_a_request_to_forget_names_what_in_the_users_words(said, quote, what):
    [request] = forget_requests([Turn(1, "hi", THEN), Turn(2, said, THEN)])

    assert (request.turn, request.quote, request.what) == (2, quote, what)


@pytest.mark.parametrize(
    "said",
    [
        "forget it",
        "Forget about the bug",
        "Don't forget that I live in Lisbon",
        "never mind, forget that",
        "delete the second paragraph",
        "I forget names all the time",
        "what do you remember?",
        "> forget that I live in Lisbon",
        "He said: forget that I live in Lisbon",
    ],
)
def test_idle_talk_about_forgetting_is_no_request(said):
    assert forget_requests([Turn(1, said, THEN)]) == []


def test_every_slot_of_the_table_has_a_reader():
    slots = {
        name
        for row in ROWS
        for text in (row.text, *(text for _, _, text in row.also))
        for name in re.findall(r"\{(\w+)\}", text)
    }

    free = {"rest", "how", "attr", "over", "How", "Attr", "Rest"}
    assert slots - free <= set(READERS)


def test_the_judge_reads_in_a_kept_text_the_subject_that_the_extractor_gave_it():
    said = [
        message["content"]
        for conversation in quality.load()
        for session in conversation["sessions"]
        for message in session["messages"]
        if message["role"] == "user"
    ]
    found = [c for text in said for c in extract(text)]

    strange = [
        (c.text, c.subject, again.subject)
        for c in found
        if (again := understand(c.text)) and again.subject != c.subject
    ]
    assert strange == []
    assert len(found) > 60


def test_the_labelled_conversations_are_read_well_enough():
    conversations = quality.load()
    scores = asyncio.run(quality.measure(conversations, RulesExtractor(), RulesJudge()))

    found = quality.summary(scores)

    assert found["conversations"] >= 40
    assert found["precision"] >= 0.9
    assert found["recall"] >= 0.8
    assert found["wrong_supersessions"] == 0
