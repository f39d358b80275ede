"""Past conversations come in by file: in order of time, once, whatever cut the run off."""

import json
from pathlib import Path
from typing import Any

from rich.progress import Progress

from app.backfill import Report, import_file
from tests.world import Caller


def _line(user: str, session: str, said: str, day: int) -> dict[str, Any]:
    at = f"2026-03-{day:02}T10:00:00Z"
    messages = [{"role": "user", "content": said, "created_at": at}]
    return {"user": user, "session": session, "messages": messages}


async def _import(alice: Caller, path: Path, lines: list[Any]) -> Report:
    path.write_text("\n".join(x if isinstance(x, str) else json.dumps(x) for x in lines))
    with Progress(disable=True) as progress:
        return await import_file(
            alice.world.core, alice.tenant_id, path, with_worker=True, progress=progress
        )


async def test_lines_are_extracted_in_the_order_of_time(alice: Caller, tmp_path: Path):
    lines = [
        _line("alice", "s2", "I moved to Porto.", 20),
        _line("alice", "s1", "I live in Lisbon.", 10),
        _line("bob", "s1", "I live in Graz.", 15),
    ]

    report = await _import(alice, tmp_path / "f.ndjson", lines)

    assert (report.sessions, report.accepted, report.refused) == (3, 3, [])
    assert await alice.texts() == ["Lives in Porto."]
    assert await alice.texts("superseded") == ["Lives in Lisbon."]
    assert await alice.of("bob").texts() == ["Lives in Graz."]


async def test_a_second_run_adds_nothing(alice: Caller, tmp_path: Path):
    lines = [
        _line("alice", "s1", "I live in Lisbon.", 10),
        _line("alice", "s2", "I use Redis.", 11),
    ]
    await _import(alice, tmp_path / "f.ndjson", lines)
    before = await alice.facts("all")

    report = await _import(alice, tmp_path / "f.ndjson", lines)

    assert (report.accepted, report.duplicates) == (0, 2)
    assert await alice.facts("all") == before


async def test_bad_lines_are_named_by_number_and_the_rest_comes_in(alice: Caller, tmp_path: Path):
    secret = "ZQX-canary"
    lines = [
        "{not json",
        {"user": "", "messages": [{"role": "user", "content": secret}]},
        _line("alice", "s1", "I live in Lisbon.", 10),
        {"user": "alice", "messages": [{"role": "oracle", "content": secret}]},
    ]

    report = await _import(alice, tmp_path / "f.ndjson", lines)

    assert [number for number, _ in report.refused] == [1, 2, 4]
    assert secret not in str(report.refused)
    assert await alice.texts() == ["Lives in Lisbon."]
