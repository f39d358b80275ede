"""The erasure ledger as a file: what a crash, a full disk or a bad sector does to its lines."""

import json
import os
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from app.errors import Unavailable
from app.memory import erasures
from app.memory.ledger import Entry, Ledger, LedgerCorrupt, read


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "apart" / "erasures.ndjson"


def test_processes_that_append_at_once_lose_no_line(ledger):
    children = []
    book = Ledger(ledger)
    at = Entry.of(_line().encode()).erased_at
    for _ in range(8):
        child = os.fork()
        if child == 0:
            for _ in range(50):
                book._append(
                    (Entry(uuid4(), uuid4(), os.urandom(32), at, "").line() + "\n").encode()
                )
            os._exit(0)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 8

    assert len({entry.erasure_id for entry in read(ledger)}) == 400


async def test_a_line_that_a_crash_cut_off_spoils_no_other(ledger):
    book = Ledger(ledger)
    ledger.write_text(_line() + "\n" + _line()[:40])
    entry = Entry.of(_line().encode())

    await book.append([entry])

    assert [line.erasure_id for line in read(ledger)][-1] == entry.erasure_id
    assert len(read(ledger)) == 2
    assert ledger.read_bytes().count(b"\n") == 2
    book.path = Path("/dev/full")
    with pytest.raises(Unavailable):
        await book.append([entry])


async def test_a_last_line_that_only_lacks_its_end_counts(ledger):
    book = Ledger(ledger)
    ledger.write_text(_line())
    assert len(read(ledger)) == 1

    await book.append([Entry.of(_line().encode())])

    assert len(read(ledger)) == 2


@pytest.mark.parametrize("bad", ["", "{}", "\0\0", '{"voids": "x"}'])
async def test_a_line_that_says_nothing_fails_the_check_by_its_number(world, ledger, caplog, bad):
    book = Ledger(ledger)
    ledger.write_text(f"{_line()}\n{bad}\n{_line()}\n")

    with pytest.raises(LedgerCorrupt, match="Line 2 "):
        read(ledger)
    assert await erasures.check(replace(world.core, ledger=book)) == "failed"
    told = [record.msg for record in caplog.records if "ledger_corrupt" in record.getMessage()]
    assert [line["line"] for line in told] == [2]


def _line() -> str:
    return json.dumps(
        {
            "erasure_id": str(uuid4()),
            "tenant_id": str(uuid4()),
            "subject_hash": "00" * 32,
            "erased_at": "2026-01-01T00:00:00+00:00",
            "key_check": "00" * 8,
        }
    )
