"""What is corrected within one conversation: the last word holds, the rest is history."""

import pytest

from tests.world import Caller


@pytest.mark.parametrize(
    ("said", "live", "superseded"),
    [
        (["I live in Paris.", "Actually, I live in London."], "London", "Paris"),
        (["I work at Acme.", "I work at Globex."], "Globex", "Acme"),
        (["My name is Jane.", "My name is Janet."], "Janet", "Jane"),
        (["We use Postgres.", "We migrated from Postgres to MySQL."], "MySQL", "Uses Postgres"),
        (["Answer in French.", "Please always answer in German."], "German", "French"),
    ],
)
async def test_the_last_word_of_a_conversation_holds(alice: Caller, said, live, superseded):
    state = await alice.say(*said)

    assert (state["status"], state["reason"]) == ("done", None)
    [held] = await alice.facts()
    assert live in held["text"]
    for old in await alice.facts("superseded"):
        assert superseded in old["text"]
        assert old["superseded_by"] == held["id"]


async def test_moving_about_within_one_conversation_leaves_one_home(alice: Caller):
    state = await alice.say("I live in Rome.", "I moved to Oslo.", "I moved to Rome.")

    assert state["status"] == "done"
    [home] = await alice.facts()
    assert "Rome" in home["text"]


async def test_the_other_facts_of_a_corrected_conversation_are_kept(alice: Caller):
    await alice.say("I live in Lisbon. I use Vim and I'm a nurse.", "I moved to Porto last week.")

    texts = " ".join(await alice.texts())
    assert "Vim" in texts
    assert "nurse" in texts
    assert "Porto" in texts
    assert "Lisbon" not in texts


async def test_colour_is_color(alice: Caller):
    await alice.say("My favourite colour is green.")
    await alice.say("My favorite color is now blue.")

    [held] = await alice.facts()
    assert "blue" in held["text"]


async def test_nothing_is_made_of_words_beside_a_secret(alice: Caller):
    await alice.say("Remember that my PIN is 4821.")

    assert await alice.facts("all") == []


async def test_a_secret_in_metadata_is_refused(alice: Caller):
    fact = {"text": "Likes gin.", "kind": "preference"}
    secret = {"login": {"password": "hunter2-ZQX!"}}
    refused = await alice.post("/facts", {**fact, "metadata": secret})
    kept = await alice.post("/facts", {**fact, "metadata": {"team": "data", "level": 9}})

    assert (refused.status_code, refused.json()["code"]) == (422, "secret")
    assert kept.status_code == 201
