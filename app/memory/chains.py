"""Chains of facts, as a file tells them: which fact superseded which. Pure."""

from collections import Counter
from collections.abc import Mapping
from uuid import UUID


def successors(
    links: Mapping[UUID, UUID], facts: Mapping[UUID, UUID | None]
) -> tuple[dict[UUID, UUID], Counter[str]]:
    """Give what superseded each fact, past those that were refused, and which links are unsound.

    `facts` says which fact of the file is which here, None for a refused one. A link into the
    unknown ends its chain; the links of a ring are dropped.
    """
    broken: Counter[str] = Counter()
    links = dict(links)
    for one in _rings(links):
        del links[one]
        broken["cycle"] += 1
    for old, successor in list(links.items()):
        if successor not in facts:
            del links[old]
            broken["unknown_id"] += 1
    kept: dict[UUID, UUID | None] = dict(facts)
    found: dict[UUID, UUID] = {}
    for old in links:
        place = _first_kept(links[old], links, kept)
        if place is not None:
            found[old] = place
    return found, broken


def _rings(links: Mapping[UUID, UUID]) -> set[UUID]:
    """Give everything that supersedes itself in the end."""
    walk: dict[UUID, int] = {}
    rings: set[UUID] = set()
    for number, start in enumerate(links):
        one: UUID | None = start
        while one is not None and one not in walk:
            walk[one] = number
            one = links.get(one)
        while one is not None and walk[one] == number and one not in rings:
            rings.add(one)
            one = links[one]
    return rings


def _first_kept(
    start: UUID, links: Mapping[UUID, UUID], kept: dict[UUID, UUID | None]
) -> UUID | None:
    """Give the first fact of a chain that is here; what is found is noted for the next to ask."""
    passed = []
    one: UUID | None = start
    while one is not None and kept.get(one) is None:
        passed.append(one)
        one = links.get(one)
    place = kept[one] if one is not None else None
    for refused in passed:
        kept[refused] = place
    return place
