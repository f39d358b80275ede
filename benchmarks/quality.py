"""How well an extractor and a judge read labelled conversations, without a database.

    python -m benchmarks.quality [--extractor rules|claude] [--file conversations.jsonl]

A conversation is one JSON object a line:

- `id`; `sessions`: `[{"messages": [{"role", "content"}], "days_ago": n}]`, in any order.
- `want`: `[{"any": [str], "kind"?: str}]`. A candidate meets a want if its text holds one of `any`
  (any case) and its kind is `kind`, or one of several as in `"profile|preference"`.
- `allowed`: substrings of candidates that are right but not asked for.
- `unwanted`: regular expressions (any case) that no candidate's text may match.
- `end_state`: `{"live": [str], "superseded": [str]}`: regular expressions of which each must match
  a fact that is live, or superseded, at the end. A superseded fact that matches none is wrong.

Precision: candidates that are wanted or allowed, and not unwanted, among all candidates.
Recall: wants met by some candidate. The last line printed is the summary.
"""

import argparse
import asyncio
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from app.llm import Candidate, Extractor, Judge, Pair, Statement, Turn
from app.rules import RulesExtractor, RulesJudge, same_subject
from app.rules.subjects import words

CONVERSATIONS = Path(__file__).parent.parent / "tests" / "data" / "conversations.jsonl"
_NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
_COMMON = frozenset(["the", "and", "with", "for", "their", "user", "never", "always", "from"])

Conversation = dict[str, Any]


@dataclass(slots=True)
class Memory:
    """What the small pipeline knows of one user."""

    live: list[Statement] = field(default_factory=list)
    superseded: list[Statement] = field(default_factory=list)
    proposed: list[Candidate] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Score:
    """The outcome of one conversation; `missed`, `wrong` and `states` say what to look at."""

    id: str
    right: int
    proposed: int
    met: int
    wanted: int
    missed: list[str]
    wrong: list[str]
    wrong_supersessions: list[str]
    states: list[str]


def load(path: Path = CONVERSATIONS) -> list[Conversation]:
    """The labelled conversations of a file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


async def remember(conversation: Conversation, extractor: Extractor, judge: Judge) -> Memory:
    """Run the sessions in time order: extract, judge against what is live, keep or supersede."""
    memory = Memory()
    for session in sorted(conversation["sessions"], key=lambda s: -s["days_ago"]):
        said_at = _NOW - timedelta(days=session["days_ago"])
        said = [m["content"] for m in session["messages"] if m["role"] == "user"]
        turns = [Turn(n, text, said_at + timedelta(minutes=n)) for n, text in enumerate(said, 1)]
        extraction = await extractor.extract(turns, memory.live)
        for candidate in extraction.candidates:
            if candidate.quote not in turns[candidate.turn - 1].text:
                continue
            memory.proposed.append(candidate)
            await _take(memory, candidate, turns[candidate.turn - 1].said_at, judge)
    return memory


async def _take(memory: Memory, candidate: Candidate, said_at: datetime, judge: Judge) -> None:
    new = Statement(candidate.text, candidate.kind, candidate.subject, said_at)
    near = [old for old in memory.live if _near(old, new)]
    judgement = await judge.judge([Pair(old, new) for old in near])
    verdicts = list(zip(near, judgement.verdicts, strict=True))
    for old, verdict in verdicts:
        if verdict.relation == "CONTRADICTS":
            memory.live.remove(old)
            memory.superseded.append(old)
    if not candidate.closes and all(v.relation != "DUPLICATE" for _, v in verdicts):
        memory.live.append(new)


def _near(old: Statement, new: Statement) -> bool:
    shared = set(words(old.text)) & set(words(new.text)) - _COMMON
    return same_subject(old.subject, new.subject) or bool(shared)


def score(conversation: Conversation, memory: Memory) -> Score:
    """Compare what was proposed and what is left with the labels."""
    wants = conversation["want"]
    allowed = [text.lower() for text in conversation.get("allowed", [])]
    unwanted = [re.compile(text, re.IGNORECASE) for text in conversation["unwanted"]]
    wrong = [
        f"{c.kind}: {c.text}"
        for c in memory.proposed
        if any(pattern.search(c.text) for pattern in unwanted)
        or not (any(_meets(c, w) for w in wants) or any(a in c.text.lower() for a in allowed))
    ]
    missed = [w["any"][0] for w in wants if not any(_meets(c, w) for c in memory.proposed)]
    ends = conversation["end_state"]
    gone = [s.text for s in memory.superseded]
    return Score(
        id=conversation["id"],
        right=len(memory.proposed) - len(wrong),
        proposed=len(memory.proposed),
        met=len(wants) - len(missed),
        wanted=len(wants),
        missed=missed,
        wrong=wrong,
        wrong_supersessions=[t for t in gone if not _any_matches(ends["superseded"], [t])],
        states=[f"not live: {p}" for p in ends["live"] if not _any_matches([p], _texts(memory))]
        + [f"not superseded: {p}" for p in ends["superseded"] if not _any_matches([p], gone)],
    )


def _texts(memory: Memory) -> list[str]:
    return [statement.text for statement in memory.live]


def _meets(candidate: Candidate, want: dict[str, Any]) -> bool:
    fits = candidate.kind in want.get("kind", candidate.kind).split("|")
    return fits and any(text.lower() in candidate.text.lower() for text in want["any"])


def _any_matches(patterns: Iterable[str], texts: Iterable[str]) -> bool:
    listed = list(texts)
    return any(re.search(p, text, re.IGNORECASE) for p in patterns for text in listed)


def summary(scores: Sequence[Score]) -> dict[str, float | int]:
    """Precision and recall over all candidates and wants, and the wrong supersessions."""
    proposed, wanted = sum(s.proposed for s in scores), sum(s.wanted for s in scores)
    return {
        "precision": round(sum(s.right for s in scores) / proposed, 3) if proposed else 1.0,
        "recall": round(sum(s.met for s in scores) / wanted, 3) if wanted else 1.0,
        "wrong_supersessions": sum(len(s.wrong_supersessions) for s in scores),
        "wrong_end_states": sum(len(s.states) for s in scores),
        "conversations": len(scores),
    }


async def measure(
    conversations: Sequence[Conversation], extractor: Extractor, judge: Judge
) -> list[Score]:
    """Score each conversation on its own; they are different people."""
    return [score(c, await remember(c, extractor, judge)) for c in conversations]


def _implementations(name: str) -> tuple[Extractor, Judge]:
    if name == "rules":
        return RulesExtractor(), RulesJudge()
    # Only this branch needs the SDK and a key.
    import anthropic  # noqa: PLC0415 - as above

    import app.llm as models  # noqa: PLC0415 - as above

    client, model = anthropic.AsyncAnthropic(), "claude-haiku-5-5"
    extractor: Extractor = vars(models)["ClaudeExtractor"](client, model=model)
    judge: Judge = vars(models)["ClaudeJudge"](client, model=model)
    return extractor, judge


def main() -> None:
    """Print one JSON line per conversation and the summary last."""
    parser = argparse.ArgumentParser(prog="benchmarks.quality")
    parser.add_argument("--extractor", choices=("rules", "claude"), default="rules")
    parser.add_argument("--file", type=Path, default=CONVERSATIONS)
    chosen = parser.parse_args()
    scores = asyncio.run(measure(load(chosen.file), *_implementations(chosen.extractor)))
    for one in scores:
        fields = {name: getattr(one, name) for name in Score.__slots__}
        print(json.dumps(fields, ensure_ascii=False))
    print(json.dumps(summary(scores)))


if __name__ == "__main__":
    main()
