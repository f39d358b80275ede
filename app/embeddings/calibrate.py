"""Measures the two floors of an embedder on labelled examples, for a model nobody has measured.

An often quoted cosine of 0.75 is another model's: angles mean nothing outside their own space.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np

from app.embeddings.seam import Embedder, Floors

TOP = 8
"""Facts that similarity may bring into a block."""


@dataclass(frozen=True, slots=True)
class Query:
    """A message, and the keys of the facts that help to answer it."""

    text: str
    relevant: frozenset[str]


@dataclass(frozen=True, slots=True)
class Examples:
    """Facts of one invented user, messages, and pairs of statements that a judge should see."""

    facts: Mapping[str, str]
    queries: Sequence[Query]
    pairs: Sequence[tuple[str, str]]


def load_examples() -> Examples:
    """Read the examples that come with the package."""
    folder = files("app.embeddings") / "pairs"
    queries = _lines((folder / "queries.jsonl").read_text("utf-8"))
    pairs = _lines((folder / "pairs.jsonl").read_text("utf-8"))
    return Examples(
        facts=json.loads((folder / "facts.json").read_text("utf-8")),
        queries=[Query(item["query"], frozenset(item["relevant"])) for item in queries],
        pairs=[(item["a"], item["b"]) for item in pairs if item["label"] in {"dup", "update"}],
    )


async def calibrate(embedder: Embedder, examples: Examples) -> Floors:
    """Find the floors that cost almost nothing and cut the rest.

    Recall: of the relevant facts that rank among the nearest `TOP`, 95 % stay above the floor; a
    relevant fact that ranks lower would not have been shown anyway. Neighbours: 90 % of duplicates
    and updates stay above it; the others share no words and need their subject to meet.
    Raises `EmbedderError`.
    """
    facts = np.stack(await embedder.embed(list(examples.facts.values())))
    queries = await embedder.embed([query.text for query in examples.queries], "query")
    keys = list(examples.facts)
    shown: list[float] = []
    for query, vector in zip(examples.queries, queries, strict=True):
        cosines = facts @ vector
        nearest = np.argsort(-cosines, kind="stable")[:TOP]
        shown += [float(cosines[n]) for n in nearest if keys[n] in query.relevant]
    old = np.stack(await embedder.embed([pair[0] for pair in examples.pairs]))
    new = np.stack(await embedder.embed([pair[1] for pair in examples.pairs]))
    related = np.einsum("ij,ij->i", old, new)
    return Floors(
        recall=round(float(np.percentile(shown, 5)), 2),
        neighbour=round(float(np.percentile(related, 10)), 2),
    )


def _lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]
