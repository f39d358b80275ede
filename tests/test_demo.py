"""The demonstration as a newcomer runs it: piped, beside keys and a database not meant for it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from app import demo

pytestmark = pytest.mark.timeout(240)  # seconds of work, but a busy machine may make it minutes


class Shown:
    def __init__(self, output: str, errors: str, left_behind: list[str]) -> None:
        self.output, self.errors, self.left_behind = output, errors, left_behind
        self.block = output[output.index("<user_memory>") :]

    @property
    def story(self) -> str:
        """What comes before the block, without the layout."""
        return " ".join(self.output[: -len(self.block)].split())


@pytest.fixture(scope="module")
def shown(tmp_path_factory) -> Shown:
    temporary = tmp_path_factory.mktemp("tmp")
    environment = {
        **os.environ,
        "TMPDIR": str(temporary),
        "USERMEM_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/nothing",
        "USERMEM_EXTRACTOR": "claude",
        "USERMEM_EMBEDDER": "openai",
        "USERMEM_POOL_SIZE": "no number",
        "ANTHROPIC_API_KEY": "sk-ant-not-for-this",
        "HTTP_PROXY": "http://127.0.0.1:1",
    }
    command = [str(Path(sys.executable).with_name("usermem")), "demo"]
    ran = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=200, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return Shown(ran.stdout, ran.stderr, [path.name for path in temporary.iterdir()])


def test_the_output_ends_with_a_block_for_the_new_question(shown):
    assert shown.block.endswith("</user_memory>\n")
    assert "\n- Never suggest AWS" in shown.block
    assert "\nRelevant now:\n- Prefers window seats.\n" in shown.block


def test_each_fact_is_shown_with_the_users_words(shown):
    for quote in ("my name is Dana", "I live in Lisbon", "I prefer window seats"):
        assert f"“{quote}”" in shown.story


def test_the_supersession_names_old_and_new_fact_and_the_reason(shown):
    told = shown.story[shown.story.index("Superseded, not overwritten") :]

    assert "old Uses Postgres." in told
    assert "new Switched from Postgres to PlanetScale." in told
    assert "why CONTRADICTS" in told


def test_a_repeated_preference_is_confirmed_and_not_added(shown):
    assert "1 confirmed, 1 superseded" in shown.story


def test_nothing_the_assistant_guessed_is_learned(shown):
    learned = shown.output[shown.output.index("Learned") :]
    guesses = ("data engineer", "startup", "early flights", "hand luggage", "MySQL", " Go")

    facts = [line for line in learned.splitlines() if line.startswith(("  p", "  c", "  g", "- "))]
    assert facts
    assert not [line for line in facts for guess in guesses if guess in line]


def test_the_guesses_are_in_the_conversations_to_be_dropped():
    said = " ".join(words for one in demo._CONVERSATIONS for _, words in one.turns())

    assert all(guess in said for guess in ("data engineer", "early flights", "MySQL", " Go"))


def test_the_block_takes_fewer_tokens_than_the_history(shown):
    words = shown.story[shown.story.index("Tokens, estimated") :].split()
    history, block = [int(word) for word in words if word.isdigit()][:2]

    assert 0 < block < history


def test_it_keeps_to_80_columns_but_for_the_blocks_own_lines(shown):
    before_block = shown.output[: -len(shown.block)]

    assert max(map(len, before_block.splitlines())) <= 80


def test_no_log_line_disturbs_it_and_nothing_stays_behind(shown):
    assert shown.errors == ""
    assert shown.left_behind == []
