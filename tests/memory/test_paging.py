"""Pages of a list that changes under the reader: nothing twice, nothing lost."""

import asyncio

import pytest

from tests.planting import Planted, plant
from tests.world import Caller

PAGES = 100
"""With each, five facts are deleted and five added: newer, older and amid those there were."""


@pytest.mark.parametrize("number", [600, pytest.param(5_000, marks=pytest.mark.soak)])
async def test_paging_neither_repeats_nor_loses_a_fact_while_500_come_and_go(
    alice: Caller, number: int
):
    there = [Planted(f"Uses tool {n}.", age=n) for n in range(number)]
    plant(alice, *there)
    # Spread over the list, so that each page has lost some before it is read and after.
    doomed = [str(fact.id) for fact in sorted(there, key=lambda fact: fact.age * 7919 % number)]
    doomed = doomed[:500]

    async def change(n: int) -> None:
        for fact_id in doomed[5 * n : 5 * n + 5]:
            assert (await alice.delete(f"/facts/{fact_id}")).status_code == 204
        added = [Planted(f"Came later {n}.", age=(n * 5 + i) * number // 400) for i in range(5)]
        plant(alice, *added)

    seen: list[str] = []
    cursor: str | None = None
    for n in range(PAGES):
        params = {"limit": number // PAGES, **({"cursor": cursor} if cursor else {})}
        page, _ = await asyncio.gather(alice.get("/facts", params=params), change(n))
        seen += [fact["id"] for fact in page.json()["items"]]
        cursor = page.json()["next_cursor"]
        if cursor is None:
            break
    while cursor is not None:
        page = await alice.get("/facts", params={"limit": 200, "cursor": cursor})
        seen += [fact["id"] for fact in page.json()["items"]]
        cursor = page.json()["next_cursor"]

    assert len(seen) == len(set(seen))
    assert {str(fact.id) for fact in there} - set(doomed) <= set(seen)
    assert len(await alice.facts()) == min(200, number)
