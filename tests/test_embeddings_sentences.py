import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.embeddings import LONGEST, sentences


def test_chatty_message_gives_the_whole_and_its_sentences() -> None:
    message = "Hi! I had a long day, ran 3.5 km. Where do I live?\nThanks a lot."

    assert sentences(message) == [
        "Hi! I had a long day, ran 3.5 km. Where do I live? Thanks a lot.",
        "I had a long day, ran 3.5 km.",
        "Where do I live?",
        "Thanks a lot.",
    ]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (
            "私は東京に住んでいます。猫はどこですか\uff1f",
            ["私は東京に住んでいます。", "猫はどこですか\uff1f"],
        ),
        ("أعيش في برلين. أين قطتي؟ شكرا لك", ["أعيش في برلين.", "أين قطتي؟", "شكرا لك"]),
        ("मैं दिल्ली में रहता हूँ। मेरी बिल्ली कहाँ है?", ["मैं दिल्ली में रहता हूँ।", "मेरी बिल्ली कहाँ है?"]),
    ],
)
def test_sentences_end_as_each_language_ends_them(text: str, parts: list[str]) -> None:
    assert sentences(text)[1:] == parts


def test_single_sentence_is_not_repeated() -> None:
    assert sentences("  Where do I\n live? ".replace("\n", "")) == ["Where do I live?"]


def test_of_many_sentences_the_questions_and_the_last_are_kept_in_order() -> None:
    message = "What is it? " + " ".join(f"Story number {n}." for n in range(50))

    assert sentences(message, 3)[1:] == ["What is it?", "Story number 48.", "Story number 49."]


def test_question_at_the_end_of_a_long_paste_is_found() -> None:
    assert "Where do I live?" in sentences("Some log line here. " * 5_000 + "Where do I live?")


@pytest.mark.parametrize("text", ["", "  \n", "\u3000"])
def test_blank_message_has_no_sentences(text: str) -> None:
    assert sentences(text) == []


@given(st.text(st.sampled_from("ab .!?\n。\uff1f؟।\ud800"), max_size=5_000), st.integers(0, 10))
def test_sentences_are_few_bounded_and_never_empty(text: str, limit: int) -> None:
    found = sentences(text, limit)

    assert len(found) <= limit + 1
    assert all(part.strip() for part in found)
    assert sum(map(len, found)) <= LONGEST + limit * 300
    assert bool(found) == bool(text.strip())
