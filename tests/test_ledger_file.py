"""The erasure ledger as a file: what a crash, a full disk or a bad sector does to its lines."""

import json
import os
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from app import telemetry, wiring
from app.address import ledger_path
from app.errors import Unavailable
from app.memory import erasures
from app.memory.ledger import Entry, Ledger, LedgerCorrupt, read
from app.settings import Settings


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


def test_what_is_no_file_is_not_read():
    with pytest.raises(OSError, match="no file"):
        read(Path("/dev/null"))


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


def test_a_copy_of_the_data_directory_takes_no_ledger_along(tmp_path):
    settings = Settings(data_dir=tmp_path / "data")
    settings.data_dir.mkdir()

    assert ledger_path(settings) == tmp_path / "data.erasures.ndjson"

    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "linked").symlink_to(tmp_path / "elsewhere")
    settings.data_dir = tmp_path / "linked"
    assert ledger_path(settings) == tmp_path / "elsewhere.erasures.ndjson", "one for all its names"


def test_a_ledger_within_the_data_directory_is_moved_out_of_it_once(tmp_path):
    settings = Settings(data_dir=tmp_path / "data")
    settings.data_dir.mkdir()
    within = settings.data_dir / "erasures.ndjson"
    within.write_text(_line())

    moved = ledger_path(settings)

    assert moved is not None
    assert not within.exists()
    before = moved.read_text()
    assert before
    within.write_text("of a copy that was put back")
    assert ledger_path(settings) == moved
    assert moved.read_text() == before, "what is put back replaces no ledger"


def test_a_data_directory_that_is_a_volume_keeps_its_ledger_and_says_so(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(Path, "is_mount", lambda path: path == tmp_path)
    telemetry.configure("info")
    settings = Settings(data_dir=tmp_path)

    book = wiring._ledger(settings)

    assert book is not None
    assert book.path == tmp_path / "erasures.ndjson", "beside a volume nothing lasts"
    assert "ledger_within_data_dir" in capsys.readouterr().err
