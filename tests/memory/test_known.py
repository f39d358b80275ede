"""Which facts the extractor is shown: those near to what is said, and the newest few."""

from datetime import UTC, datetime

import pytest

from app.llm import Turn
from app.memory import known
from tests.fakes import FakeEmbedder, FakeExtractor, reading
from tests.memory.test_extract import tell
from tests.planting import Planted, embedded, plant
from tests.world import Caller

SEAT = "Prefers window seats on flights."
CROWD = 120


@pytest.fixture
def extractor():
    return FakeExtractor()


async def _crowd(alice: Caller, *, with_vectors: bool = True) -> None:
    """Give the user an old fact about seats and more than can be shown about something else."""
    facts = [Planted(SEAT, age=0)]
    facts += [Planted(f"Uses database table number {n}.", age=n) for n in range(1, CROWD)]
    plant(alice, *(await embedded(alice, *facts) if with_vectors else facts))


async def _shown(alice: Caller, core, extractor: FakeExtractor, *said: str) -> list[str]:
    await tell(alice, core, *said)
    return [statement.text for statement in extractor.known[-1]]


async def test_an_old_fact_near_to_one_turn_of_many_is_shown(alice: Caller, extractor):
    await _crowd(alice)
    turns = [f"What is in the database table, part {n}?" for n in range(30)]
    turns.insert(17, "Could you get me a seat at the window of the plane?")

    shown = await _shown(alice, reading(alice.world.core, extractor), extractor, *turns)

    assert SEAT in shown
    assert len(shown) == known.SHOWN
    newest = [f"Uses database table number {n}." for n in range(CROWD - 1, 0, -1)]
    assert shown[: known.NEWEST] == newest[: known.NEWEST]


async def test_the_end_of_a_long_turn_is_compared_too(alice: Caller, extractor):
    await _crowd(alice)
    turn = "The database table has many columns. " * 60 + "I want a window seat on my flight."
    shown = await _shown(alice, reading(alice.world.core, extractor), extractor, turn)
    assert SEAT in shown


@pytest.mark.parametrize("reason", ["no vectors", "no embedder"])
async def test_where_nearness_is_unknown_the_newest_are_shown(alice: Caller, extractor, reason):
    await _crowd(alice, with_vectors=reason == "no embedder")
    embedder = FakeEmbedder()
    embedder.is_down = reason == "no embedder"
    core = reading(alice.world.core, extractor, embedder=embedder)

    shown = await _shown(alice, core, extractor, "I want a window seat on my flight.")

    assert shown == [f"Uses database table number {CROWD - n}." for n in range(1, known.SHOWN + 1)]


async def test_few_facts_are_all_shown_without_the_embedder(alice: Caller, extractor):
    plant(alice, *(Planted(f"Uses tool {n}.", age=n) for n in range(known.SHOWN)))
    embedder = FakeEmbedder()
    embedder.is_down = True
    core = reading(alice.world.core, extractor, embedder=embedder)
    assert len(await _shown(alice, core, extractor, "Hello.")) == known.SHOWN


async def test_history_and_what_was_forgotten_is_not_shown(alice: Caller, extractor):
    await _crowd(alice)
    alice.world.execute(
        "update memory_fact set forgotten_at = now() where tenant_id = %s and text = %s",
        alice.tenant_id,
        SEAT,
    )
    said = "I want a window seat on my flight."
    assert SEAT not in await _shown(alice, reading(alice.world.core, extractor), extractor, said)


@pytest.mark.parametrize("turns", [["Word. " * 16_000], ["Some word. "] * 500, ["x" * 100_000], []])
def test_a_session_of_any_form_is_compared_in_bounded_pieces(turns):
    at = datetime(2026, 1, 1, tzinfo=UTC)
    said = [Turn(n, text, at) for n, text in enumerate(turns, 1)]
    pieces = known._pieces(said)
    assert len(pieces) <= known.PIECES + 1
    assert "".join(pieces).replace(" ", "") == "".join(turns).replace(" ", "")
