"""Pages of a list that changes under the reader: nothing twice, nothing lost."""

import asyncio

import pytest

from tests.planting import Planted, plant
from tests.world import Caller

PAGES = 100


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("number", "each"), [(500, 1), pytest.param(5_000, 5, marks=pytest.mark.soak)]
)
async def test_paging_neither_repeats_nor_loses_a_fact_while_others_come_and_go(
    alice: Caller, number: int, each: int
):
    """With each page some are deleted and some added: newer, older and amid those there were."""
    there = [Planted(f"Uses tool {n}.", age=n) for n in range(number)]
    plant(alice, *there)
    # Spread over the list, so that each page has lost some before it is read and after.
    doomed = [str(fact.id) for fact in sorted(there, key=lambda fact: fact.age * 7919 % number)]
    doomed = doomed[: PAGES * each]

    async def change(n: int) -> None:
        for fact_id in doomed[each * n : each * (n + 1)]:
            assert (await alice.delete(f"/facts/{fact_id}")).status_code == 204
        ages = [(n * each + i) * number // (80 * each) for i in range(each)]
        plant(alice, *[Planted(f"Came later {n}.", age=age) for age in ages])

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
