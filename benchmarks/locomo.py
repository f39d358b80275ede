"""Evidence retrieval on LoCoMo's ready-made facts: vector alone, words alone, the service.

The data set is not part of this project (CC BY-NC 4.0): its folder is given by hand. Each speaker
is a user with their own facts and their name, and asks what names them; recall@k is the share of
a question's evidence turns that are sources of the first k facts.
"""

import json
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import Any, Final
from uuid import UUID, uuid4

import psycopg
from pgvector import HalfVector

from app.db import Database
from app.embeddings import Embedder
from app.lines import statement
from app.memory import guard, ranking
from app.memory.core import Core
from app.memory.search import Query, search
from app.rules import RulesExtractor, RulesJudge
from app.text import words
from app.trip import trip
from benchmarks.data import embed_all

KS: Final = (5, 10, 20)
_TURN: Final = re.compile(r"D:?(\d+):(\d+)")

_INSERT: Final = """
insert into memory_fact
  (tenant_id, user_id, id, text, slot, kind, subject, fingerprint, words, embedding,
   embedding_model, source, guard_version, said_at, last_confirmed_at, created_at)
values (%s, %s, %s, %s, %s, 'preference', 'thing', sha256(int4send(%s)), %s::tsvector,
        %s::halfvec, %s, 'import', %s, now(), now(), now() - make_interval(mins => 100000 - %s))
"""
_SCORES: Final = statement(f"""
select id, {ranking.scores(1)} from memory_fact
where tenant_id = %(tenant)s and user_id = %(user_id)s and embedding is not null
""")


@dataclass(slots=True)
class Speaker:
    """A user: facts with their source turns, questions with their evidence turns."""

    user_id: UUID = field(default_factory=uuid4)
    facts: dict[UUID, tuple[str, frozenset[str]]] = field(default_factory=dict)
    questions: list[tuple[str, frozenset[str]]] = field(default_factory=list)


def load(folder: Path) -> dict[tuple[str, str], Speaker]:
    """Read `facts.jsonl` and the evidence of `locomo_*.json`."""
    speakers: dict[tuple[str, str], Speaker] = defaultdict(Speaker)
    for line in (folder / "facts.jsonl").read_text().splitlines():
        fact = json.loads(line)
        speaker = speakers[fact["conv"], fact["speaker"]]
        speaker.facts[uuid4()] = fact["text"], frozenset(fact["turn_ids"])
    for file in sorted(folder.glob("locomo*.json")):
        for sample in json.loads(file.read_text()):
            known = _turns(sample["conversation"])
            for asked in sample["qa"]:
                evidence = _ids(asked.get("evidence")) & known
                for (conversation, name), speaker in speakers.items():
                    if conversation == sample["sample_id"] and name in asked["question"]:
                        if evidence:
                            speaker.questions.append((asked["question"], evidence))
                        break
    return dict(speakers)


def _turns(conversation: dict[str, Any]) -> frozenset[str]:
    return frozenset(
        turn["dia_id"]
        for session in conversation.values()
        if isinstance(session, list)
        for turn in session
    )


def _ids(evidence: Sequence[str] | None) -> frozenset[str]:
    """Normalise: some are joined ("D8:6; D9:17") or malformed ("D:11:26", "D30:05")."""
    found = _TURN.findall(" ".join(evidence or ()))
    return frozenset(f"D{int(session)}:{int(turn)}" for session, turn in found)


async def measure(
    folder: Path, url: str, superuser_url: str, tenant_id: UUID, embedder: Embedder
) -> dict[str, Any]:
    """Give recall@k of each ranking, and the number of questions."""
    speakers = load(folder)
    await _store(speakers, superuser_url, tenant_id, embedder)
    db = Database(url)
    await db.open()
    core = Core(db, RulesExtractor(), RulesJudge(), embedder, b"benchmark" * 4)
    found: dict[str, list[list[float]]] = defaultdict(list)
    try:
        for who, speaker in speakers.items():
            for question, evidence in speaker.questions:
                ranked = await _rankings(core, tenant_id, _external(*who), speaker, question)
                for ranker, facts in ranked.items():
                    found[ranker].append([_share(speaker, facts[:k], evidence) for k in KS])
    finally:
        await db.close()
    means = {
        ranker: {
            f"recall@{k}": round(mean(row[place] for row in rows), 4) for place, k in enumerate(KS)
        }
        for ranker, rows in found.items()
    }
    return {"questions": len(found["service"]), **means}


def _share(speaker: Speaker, facts: Sequence[UUID], evidence: frozenset[str]) -> float:
    sources = frozenset[str]().union(*(speaker.facts[fact][1] for fact in facts))
    return len(evidence & sources) / len(evidence)


def _external(conversation: str, name: str) -> str:
    return f"{conversation} {name}"


async def _store(
    speakers: dict[tuple[str, str], Speaker], url: str, tenant_id: UUID, embedder: Embedder
) -> None:
    with psycopg.connect(url) as admin, admin.cursor() as cursor:
        for (conversation, name), speaker in speakers.items():
            of = (tenant_id, speaker.user_id)
            cursor.execute("insert into memory_user (tenant_id, user_id) values (%s, %s)", of)
            cursor.execute(
                "insert into user_directory values (%s, %s, %s)",
                (tenant_id, _external(conversation, name), speaker.user_id),
            )
            texts = [text[:200] for text, _ in speaker.facts.values()]
            vectors = await embed_all(embedder, texts)
            rows = [
                (*of, id_, text, None, n, _lexemes(text), HalfVector(vector).to_text(),
                 embedder.name, guard.VERSION, n)
                for n, (id_, text, vector) in enumerate(
                    zip(speaker.facts, texts, vectors, strict=True)
                )
            ]  # fmt: skip
            cursor.executemany(_INSERT, rows)
            told = f"Name is {name}."
            name_row = (uuid4(), told, "name", -1, "", None, None, guard.VERSION, 0)
            cursor.execute(_INSERT, (*of, *name_row))
        cursor.execute("analyze memory_fact")


def _lexemes(text: str) -> str:
    return " ".join(f"'{word}'" for word in sorted(set(words(text))))


async def _rankings(
    core: Core, tenant_id: UUID, user: str, speaker: Speaker, question: str
) -> dict[str, list[UUID]]:
    vectors = await core.embedder.embed([question], "query")
    values = {
        **ranking.values(core.embedder, vectors, question),
        "tenant": tenant_id,
        "user_id": speaker.user_id,
    }
    (rows,) = await trip(core.db, tenant_id, (_SCORES, values))
    found = await search(core, tenant_id, user, Query(question, max(KS) + 1))
    return {
        "vector": [row[0] for row in sorted(rows, key=lambda row: -row[1])],
        "text": [row[0] for row in sorted(rows, key=lambda row: -row[2]) if row[2] > 0],
        "service": [item.fact.id for item in found.items if item.fact.id in speaker.facts],
    }
