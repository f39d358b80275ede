"""An export is complete, one snapshot, of one person, and safe in a spreadsheet."""

import asyncio
import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from app.memory.export import export_user, neutral, verbatim
from app.memory.exported import TABLES
from tests.planting import Planted, plant
from tests.portability.files import MEMORY, export, fill, of
from tests.world import Caller, World

FORMULAS = "=+-@\t\r\n"


async def test_an_export_holds_what_the_tables_hold(alice: Caller):
    await fill(alice)
    records = await export(alice)

    tables = {
        "session": "memory_session", "turn": "message", "fact": "memory_fact",
        "evidence": "evidence", "verdict": "verdict", "event": "fact_event",
        "file": "memory_file",
    }  # fmt: skip
    for record, table in tables.items():
        [(count,)] = alice.world.rows(
            f"select count(*) from {table} where tenant_id = %s", alice.tenant_id
        )
        assert len(of(records, record)) == count > 0, record
    stored = alice.world.rows(
        "select id::text, text, superseded_by::text, metadata from memory_fact"
        " where tenant_id = %s",
        alice.tenant_id,
    )
    told = [
        (f["id"], verbatim(f["text"]), f["superseded_by"], verbatim(f["metadata"]))
        for f in of(records, "fact")
    ]
    assert sorted(told, key=str) == sorted(stored, key=str)
    statuses = {fact["status"] for fact in of(records, "fact")}
    assert statuses == {"live", "superseded", "quarantined", "forgotten", "expired"}
    assert records[0]["settings"] == {
        "memory": "on", "locale": "pt-PT", "timezone": "Europe/Lisbon"
    }  # fmt: skip
    said = {verbatim(turn["text"]): turn["extracted_at"] for turn in of(records, "turn")}
    assert said["I prefer zqx seats."] is None
    assert said["I live in Lisbon."] is not None


async def test_every_row_and_column_of_the_person_is_told(alice: Caller):
    """Each word that a table holds of the person is in the export, whatever column it is in."""
    await fill(alice)
    await alice.block("seats", session="frozen-zqx")
    await alice.post(
        "/facts", {"text": "Owns a zqxbike.", "kind": "profile"}, headers={"Idempotency-Key": "k"}
    )
    told = json.dumps(verbatim(await export(alice)), ensure_ascii=False)

    for table, column in [
        ("memory_fact", "source_quote"),
        ("evidence", "quote"),
        ("verdict", "reason"),
        ("fact_event", "by"),
        ("frozen_block", "session"),
        ("memory_session", "external_id"),
        ("recall_log", "id"),
    ]:
        values = alice.world.rows(
            f'select "{column}"::text from {table} where tenant_id = %s', alice.tenant_id
        )
        assert all(value is None or value in told for (value,) in values), (table, column)
    assert "zqxbike" in json.dumps(of(await export(alice), "answer"))


async def test_nothing_of_anybody_else_is_told(alice: Caller, other: Caller):
    await fill(alice, "mine")
    await fill(alice.of("bob"), "foreign")
    await fill(other, "foreign")

    answer = await alice.get("/export")

    assert "mine" in answer.text
    assert "foreign" not in answer.text


async def test_the_document_says_the_same_as_the_lines(alice: Caller):
    await fill(alice)

    answer = await alice.get("/export", headers={"Accept": "application/json"})

    assert answer.headers["content-type"] == "application/json"
    document = answer.json()
    [header, *records] = await export(alice)
    assert records.pop()["action"] == "user_exported"  # the document before
    for table in TABLES:
        told = [{k: v for k, v in one.items() if k != "type"} for one in of(records, table.record)]
        assert document.pop(table.group) == told
    assert {"type": "export", **document} == header


async def test_an_unseen_user_has_an_almost_empty_export_and_is_not_created(alice: Caller):
    [header] = await export(alice)

    assert (header["user"], header["created_at"]) == ("alice", None)
    assert alice.world.rows(
        "select count(*) from user_directory where tenant_id = %s", alice.tenant_id
    ) == [(0,)]
    document = (await alice.get("/export", headers={"Accept": "application/json"})).json()
    assert document["facts"] == []


async def test_an_export_is_nobodys_to_keep(alice: Caller):
    answer = await alice.get("/export")

    assert "no-store" in answer.headers["cache-control"]
    assert int(answer.headers["content-length"]) == len(answer.content)
    assert alice.user not in answer.headers["content-disposition"]
    assert answer.headers["vary"] == "Accept"


async def test_paused_memory_is_exported_too(alice: Caller):
    await fill(alice)
    before = of(await export(alice), *MEMORY)
    await alice.call("PATCH", alice.base + "/settings", json={"memory": "restricted"})

    assert of(await export(alice), *MEMORY) == before


async def test_an_export_during_an_erasure_is_all_or_nothing(alice: Caller):
    """An erasure takes away everything at once, in between the reads of exports under way."""
    await fill(alice)
    whole = len(of(await export(alice), *MEMORY))

    async def erase() -> None:
        await asyncio.sleep(0.01)
        assert (await alice.delete("")).status_code == 200

    exports = await asyncio.gather(*(export(alice) for _ in range(12)), erase())

    for records in exports[:-1]:
        assert records is not None
        assert len(of(records, *MEMORY)) == whole or len(records) == 1
    assert len(await export(alice)) == 1


async def test_a_snapshot_can_not_write(world: World, alice: Caller):
    with pytest.raises(DBAPIError, match="read-only"):
        async with world.core.db.tenant(alice.tenant_id, snapshot=True) as tx:
            await tx.execute(text("delete from memory_fact"))
    async with world.core.db.tenant(alice.tenant_id) as tx:
        await tx.execute(text("delete from memory_fact"))


# Cells.


async def test_no_cell_of_a_spreadsheet_is_a_formula(alice: Caller):
    await fill(alice)
    table = io.StringIO()
    writer = csv.writer(table)
    for record in await export(alice):
        writer.writerow([*_cells(record)])

    for row in csv.reader(io.StringIO(table.getvalue())):
        for cell in row:
            assert not cell.startswith(tuple(FORMULAS)) or _is_number(cell), cell


def _cells(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [*value, *(cell for item in value.values() for cell in _cells(item))]
    if isinstance(value, list):
        return [cell for item in value for cell in _cells(item)]
    return [value]


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


_TEXTS = st.text(alphabet=st.sampled_from("='+-@\t\r\na＝ "), max_size=8)


@given(st.recursive(_TEXTS | st.integers() | st.none() | st.booleans(), lambda inner: st.lists(
    inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3), max_leaves=8))  # fmt: skip
def test_apostrophes_come_off_without_loss(value: Any):
    neutralised = neutral(value)

    assert verbatim(neutralised) == value
    for cell in _cells(neutralised):
        assert not (isinstance(cell, str) and cell.startswith(tuple(FORMULAS)))


# Size.


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read as Linux tells")
async def test_an_export_of_many_facts_takes_constant_memory(world: World, alice: Caller):
    plant(
        alice, *(Planted(f"Prefers seat number {n} on long flights.", age=n) for n in range(20_000))
    )
    (await export_user(world.core.db, alice.tenant_id, "nobody", by="cli")).close()
    peaks: list[int] = []

    async def watch() -> None:
        while True:
            peaks.append(_resident())
            await asyncio.sleep(0.005)

    before = _resident()
    watching = asyncio.create_task(watch())
    with await export_user(world.core.db, alice.tenant_id, alice.user, by="cli") as file:
        count = sum(1 for _ in file)
    watching.cancel()

    assert count == 20_001
    assert max(peaks) - before < 50 * 1024 * 1024


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.record)
def test_every_column_that_can_hold_words_is_exported(table: Any):
    """What is left out is derived from what is told, or names the row for the database alone."""
    derived = {
        "tenant_id", "user_id", "id", "session_id", "fingerprint", "words", "embedding",
        "embedding_model", "slot", "guard_version", "digest", "body_digest", "fact_id",
        "source_session_id", "failures", "epoch", "organization_epoch", "bound_to", "about",
    }  # fmt: skip
    read = {
        column.name
        for told in table.rows.selected_columns
        for column in (getattr(told, "element", told), *getattr(told, "base_columns", ()))
        if getattr(column, "name", None)
    }
    columns = {column.name for column in table.model.__table__.columns}

    assert columns - read - derived == set()
