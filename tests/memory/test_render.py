"""The block's bytes: facts can't break out of it, and the same facts give the same ones."""

import random
import re
from collections.abc import Sequence
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from app.llm import Kind
from app.memory import guard
from app.memory.render import (
    CLOSE,
    OPEN,
    Tier,
    estimate_tokens,
    line,
    render_stable,
    render_volatile,
)
from app.memory.selection import CAPS, Row, Selection, Similar, choose_stable, select

_HOSTILE = st.sampled_from(
    [
        "</user_memory>", "<user_memory>", "\n- ", "\r\n", "\u2028", "\u2029", "\x85", "\x00",
        "\x1b[2J", "&lt;", "&", "About the user:", "Relevant now:", "```", "\u202e", "  ", "\t",
    ]
)  # fmt: skip
_TEXTS = st.lists(st.one_of(_HOSTILE, st.text(max_size=20)), max_size=6).map("".join)
_KINDS: st.SearchStrategy[Kind] = st.sampled_from(["preference", "constraint", "profile", "goal"])
_BORN = datetime(2026, 1, 1, tzinfo=UTC)


@given(st.lists(_TEXTS, max_size=8), st.lists(_TEXTS, max_size=8))
def test_every_fact_is_one_line_and_none_closes_the_tag(about: list[str], relevant: list[str]):
    block = render_stable([], list(map(line, about))) + render_volatile(list(map(line, relevant)))
    assert block.count(OPEN) == block.count(CLOSE) == 1
    assert (block.startswith(OPEN + "\n"), block.endswith(CLOSE)) == (True, True)
    lines = block.splitlines()
    assert sum(each.startswith("- ") for each in lines) == len(about) + len(relevant)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029]", block)
    assert len(lines) == block.count("\n") + 1


@given(_TEXTS, _TEXTS)
def test_sizes_add_up(one: str, other: str):
    assert abs(estimate_tokens(one + other) - estimate_tokens(one) - estimate_tokens(other)) <= 1


def _selected(rows: list[Row], budget: int) -> Selection:
    stable = [row for row in rows if row.tier != "similarity"]
    similar = [row for row in rows if row.tier == "similarity"]
    scores = {row.id: row.created_at % 7 / 7 for row in similar}
    belonging = {tier: _count(stable, tier) for tier in CAPS}
    found = Similar(similar, scores, len(similar))
    return select(choose_stable(stable, belonging), found, budget)


def _count(rows: Sequence[Row], tier: Tier) -> int:
    return sum(row.tier == tier for row in rows)


@st.composite
def _rows(draw: st.DrawFn) -> list[Row]:
    rows = []
    for n in range(draw(st.integers(0, 30))):
        tier = draw(st.sampled_from(list(CAPS)))
        rows.append(
            Row(
                tier, str(draw(st.uuids())), draw(_TEXTS) or "x", draw(_KINDS),
                draw(st.booleans()), n, guard.VERSION, tier == "always_on",
            )
        )  # fmt: skip
    return rows


@given(_rows(), st.integers(100, 4000))
def test_a_selection_fits_caps_and_budget_and_shows_each_fact_once(rows: list[Row], budget: int):
    chosen = _selected(rows, budget)
    block, facts = chosen.block, [*chosen.stable.rows, *chosen.similar]
    assert estimate_tokens(block) <= budget
    for tier, cap in CAPS.items():
        shown = _count(facts, tier)
        assert shown <= cap
        assert shown + chosen.left_out[tier] == _count(rows, tier)
    assert sum(each.startswith("- ") for each in block.splitlines()) == len(facts)


@given(_rows(), st.integers(100, 4000))
def test_the_stable_part_depends_on_its_own_tiers_alone(rows: list[Row], budget: int):
    own = [row for row in rows if row.tier != "similarity"]
    alone, together = _selected(own, budget), _selected(rows, budget)
    if alone.stable.rows and together.stable.rows:
        assert alone.stable.text == together.stable.text


@given(_rows(), st.integers(100, 4000), st.randoms())
def test_what_is_sacrificed_does_not_depend_on_how_rows_arrive(
    rows: list[Row], budget: int, dice: random.Random
):
    capped = [row for tier in CAPS for row in [r for r in rows if r.tier == tier][: CAPS[tier]]]
    scattered = capped.copy()
    dice.shuffle(scattered)
    scattered.sort(key=lambda row: (list(CAPS).index(row.tier), capped.index(row)))
    assert _selected(capped, budget) == _selected(scattered, budget)
