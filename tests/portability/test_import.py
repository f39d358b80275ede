"""An import keeps times and chains, lets nothing past the guard, adds nothing twice."""

import copy
import io
import json
import random
import zlib
from dataclasses import replace
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg_pool import PoolTimeout
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as CheckoutTimeout

from app.api.record_file import read_lines
from app.errors import Conflict
from app.memory.chains import successors
from app.memory.importing import import_user
from tests.portability.files import (
    JSON,
    MEMORY,
    NDJSON,
    POISON,
    export,
    fill,
    lines,
    memory_of,
    of,
    put,
)
from tests.world import Caller

HEADER = {"type": "export", "format": "usermem-export-1", "user": "x", "settings": {}}
AT = "2026-03-01T10:00:00Z"


def a_fact(text: str = "Prefers window seats.", **more: Any) -> dict[str, Any]:
    return {
        "type": "fact", "id": str(uuid4()), "text": text, "kind": "preference",
        "subject": "seat preference", "source": "api", "said_at": AT, "created_at": AT,
        "last_confirmed_at": AT, **more,
    }  # fmt: skip


async def moved(records: list[Any], into: Caller, **headers: str) -> dict[str, Any]:
    answer = await put(into, *records, **headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


# There and back again.


async def test_export_import_export_is_equal_but_for_ids(alice: Caller, other: Caller):
    await fill(alice)
    first = await export(alice)

    report = await moved(first, other.of("bob"))

    again = await export(other.of("bob"))
    assert memory_of(again) == memory_of(first)
    assert again[0]["settings"] == first[0]["settings"]
    assert again[0]["created_at"] == first[0]["created_at"]
    assert {fact["source"] for fact in of(again, "fact")} == {"import"}
    assert report["rejected"] == {}
    assert report["imported"] == len(of(first, "fact")) == len(report["ids"])
    ids = {fact["id"] for fact in of(first, "fact")}
    assert set(report["ids"]) == ids
    assert set(report["ids"].values()) == {fact["id"] for fact in of(again, "fact")}
    assert ids.isdisjoint(report["ids"].values())


async def test_a_document_imports_like_the_lines(alice: Caller, other: Caller):
    await fill(alice)
    first = await export(alice)
    document = await alice.get("/export", headers={"Accept": "application/json"})
    shuffled = dict(sorted(document.json().items(), reverse=True))

    answer = await other.post("/import", content=json.dumps(shuffled, indent=2), headers=JSON)

    assert answer.json()["rejected"] == {}, answer.text
    assert memory_of(await export(other)) == memory_of(first)


@pytest.mark.parametrize("target", ["other tenant", "same tenant", "same user"])
async def test_a_second_import_adds_nothing(alice: Caller, other: Caller, target: str):
    await fill(alice)
    first = await export(alice)
    into = {"other tenant": other, "same tenant": alice.of("bob"), "same user": alice}[target]
    if into is not alice:
        await moved(first, into)
    before = await export(into)

    report = await moved(first, into)

    assert (report["imported"], report["rejected"]) == (0, {})
    assert len(report["ids"]) == len(of(first, "fact"))
    assert of(await export(into), *MEMORY) == of(before, *MEMORY)


async def test_an_export_of_an_import_finds_its_way_back(alice: Caller, other: Caller):
    await fill(alice)
    before = await export(alice)
    await moved(before, other)

    report = await moved(await export(other), alice)

    assert (report["imported"], report["rejected"]) == (0, {})
    assert of(await export(alice), *MEMORY) == of(before, *MEMORY)


async def test_chains_verdicts_and_evidence_stay_whole(alice: Caller, other: Caller):
    await alice.say("I work at Initech.", session="one")
    await alice.say("I work at Globex now.", session="two")
    [old] = await alice.facts("superseded")
    first = await export(alice)

    new_id = (await moved(first, other))["ids"][old["id"]]

    why = (await other.get(f"/facts/{new_id}/why")).json()
    assert [one["session"] for one in why["evidence"]] == ["one"]
    assert [one["verdict"] for one in why["verdicts"]] == ["CONTRADICTS"]
    assert [one["what"] for one in why["events"]] == ["added", "superseded"]
    chain = (await other.get(f"/facts/{new_id}/history")).json()["items"]
    assert [fact["text"] for fact in chain] == ["Works at Initech.", "Works at Globex."]
    restored = await other.post(f"/facts/{new_id}/restore")
    assert restored.status_code == 200


async def test_imported_facts_are_recalled_with_vectors_of_this_service(
    alice: Caller, other: Caller
):
    await alice.post("/facts", {"text": "Prefers window seats.", "kind": "preference"})
    records = await export(alice)
    of(records, "fact")[0] |= {"embedding": [9.0] * 4, "embedding_model": "theirs"}

    await moved(records, other)

    assert "window" in await other.block("Which seat on a plane?")
    [(model,)] = other.world.rows(
        "select embedding_model from memory_fact where tenant_id = %s", other.tenant_id
    )
    assert model == other.world.core.embedder.name


@pytest.mark.parametrize(
    "error",
    [
        PoolTimeout("busy"),
        CheckoutTimeout("busy"),
        psycopg.OperationalError("the connection is lost"),
        DBAPIError("select", None, psycopg.OperationalError("the connection is lost")),
    ],
)
async def test_an_import_is_answered_though_the_database_goes_away_after_it(
    alice: Caller, error: Exception
):
    class Unlucky:
        def __getattr__(self, name: str) -> Any:
            return getattr(alice.world.core.embedder, name)

        async def embed(self, *_: Any) -> Any:
            raise error

    fact = a_fact()
    async with alice.world.over(replace(alice.world.core, embedder=Unlucky())) as world:
        answer = await put(Caller(world, alice.tenant_id, alice.key, alice.user), HEADER, fact)

    assert (answer.status_code, answer.json()["imported"]) == (200, 1)
    [kept] = await alice.facts()
    assert answer.json()["ids"] == {fact["id"]: kept["id"]}


async def test_turns_that_wait_are_read_and_those_read_are_not(alice: Caller, other: Caller):
    await fill(alice)
    await moved(await export(alice), other)
    before = set(await other.texts())

    turn = {"role": "user", "content": "I prefer zqx seats.", "id": "m1"}
    again = await other.post("/sessions/open-zqx/messages", {"messages": [turn], "end": True})
    await other.world.drain()

    assert again.json()["duplicates"] == 1
    assert set(await other.texts()) - before == {"Prefers zqx seats."}


async def test_what_is_there_stays_beside_what_comes(alice: Caller, other: Caller):
    await alice.say("I live in Lisbon.", session="s")
    await other.say("I live in Porto.", session="s")
    await other.post("/facts", {"text": "Prefers window seats.", "kind": "preference"})
    before = {fact["id"]: fact for fact in await other.facts()}

    report = await moved([*await export(alice), a_fact()], other)

    after = {fact["id"]: fact for fact in await other.facts()}
    assert report["imported"] == 1
    assert await other.texts() == ["Lives in Lisbon.", "Lives in Porto.", "Prefers window seats."]
    assert {i: fact for i, fact in after.items() if i in before} == before


async def test_caps_do_not_bind_an_import(alice: Caller):
    await alice.call(
        "PATCH", "/v1/tenant/policy", json={"max_facts_per_day": 1, "max_facts_per_user": 1}
    )
    report = await moved([HEADER, *(a_fact(f"Uses tool {n}.") for n in range(9))], alice)

    assert report["imported"] == 9


# Who is asked first.


async def test_paused_memory_takes_nothing_in(alice: Caller):
    await alice.call("PUT", alice.base + "/settings", json={"memory": "paused"})

    answer = await put(alice, HEADER, a_fact())

    assert (answer.status_code, answer.json()["code"]) == (409, "memory_paused")
    assert await alice.facts("all") == []


async def test_a_paused_person_arrives_paused(alice: Caller, other: Caller):
    await fill(alice)
    await alice.call("PATCH", alice.base + "/settings", json={"memory": "paused"})

    await moved(await export(alice), other)

    assert (await other.get("/settings")).json()["memory"] == "paused"


async def test_settings_of_somebody_known_stay(alice: Caller):
    await alice.call("PUT", alice.base + "/settings", json={"locale": "en-GB"})

    await moved([{**HEADER, "settings": {"memory": "paused", "locale": "pt-PT"}}], alice)

    settings = (await alice.get("/settings")).json()
    assert (settings["memory"], settings["locale"]) == ("on", "en-GB")


async def test_what_the_user_deleted_does_not_come_back(alice: Caller):
    await alice.say("I prefer window seats.", session="s")
    first = await export(alice)
    [fact] = await alice.facts()
    await alice.delete(f"/facts/{fact['id']}")

    report = await moved(first, alice)

    assert (report["imported"], report["rejected"]) == (0, {"deleted": 1})
    assert await alice.facts("all") == []


async def test_an_incognito_session_is_not_brought_in(alice: Caller, other: Caller):
    await fill(alice)
    off = {"messages": [], "memory": "off"}
    await other.post("/sessions/open-zqx/messages", off)

    report = await moved(await export(alice), other)

    assert report["rejected"] == {"incognito": 1, "unknown_id": 1}
    assert (await other.get("/sessions/open-zqx")).status_code == 404


async def test_a_key_makes_an_import_once(alice: Caller):
    fact = a_fact()
    first = await put(alice, HEADER, fact, **{"Idempotency-Key": "k"})
    again = await put(alice, HEADER, fact, **{"Idempotency-Key": "k"})
    another = await put(alice, HEADER, a_fact("Uses Redis."), **{"Idempotency-Key": "k"})

    assert first.json()["imported"] == 1
    assert (again.status_code, again.content) == (200, first.content)
    assert again.headers["idempotent-replay"] == "true"
    assert another.status_code == 422


async def test_an_import_does_not_bring_back_who_is_erased_meanwhile(alice: Caller):
    await alice.post("/facts", {"text": "Uses Postgres.", "kind": "preference"})

    def records():
        yield from read_lines(io.BytesIO(lines(HEADER, a_fact())))
        for table in ("memory_user", "user_directory"):
            alice.world.execute(f"delete from {table} where tenant_id = %s", alice.tenant_id)

    async def settle(_tx: Any, _imported: Any) -> None:
        pytest.fail("nothing is imported")

    with pytest.raises(Conflict):
        await import_user(
            alice.world.core, alice.tenant_id, alice.user, records(), by="cli", settle=settle
        )
    assert (await export(alice))[0]["created_at"] is None


# Files of the memory tool, and what was believed when.


def a_file(path: str, content: str | None = "notes", **more: Any) -> dict[str, Any]:
    return {"type": "file", "path": path, "content": content, "created_at": AT,
            "updated_at": AT, **more}  # fmt: skip


async def view(caller: Caller, path: str = "/memories") -> str:
    answer = await caller.post("/memory-tool", {"command": "view", "path": path})
    return answer.json()["content"]


async def test_files_come_in_beside_those_that_are_there(alice: Caller):
    for path in ("/memories/mine.md", "/memories/both.md"):
        made = {"command": "create", "path": path, "file_text": "mine"}
        assert not (await alice.post("/memory-tool", made)).json()["is_error"]

    report = await moved(
        [
            HEADER,
            a_file("/memories/both.md", "theirs"),
            a_file("/memories/deep/er/theirs.md", "theirs"),
            a_file("/memories/deep", None),
            a_file("/memories/mine.md/below.md"),
            a_file("/memories/secret.md", "my password is hunter2-Xy9!kk"),
            a_file("/memories/../up.md"),
            a_file("/memories"),
            a_file("/memories/large.md", "x" * 102_401),
        ],
        alice,
    )

    assert report["rejected"] == {"invalid": 3, "path_taken": 1, "secret": 1}
    assert "mine" in await view(alice, "/memories/both.md")
    assert "theirs" in await view(alice, "/memories/deep/er/theirs.md")
    listing = await view(alice)
    assert [name for name in ("secret", "up.md", "large", "below") if name in listing] == []


async def test_no_more_files_come_in_than_a_user_may_have(alice: Caller):
    files = [a_file(f"/memories/{n:04}.md", "") for n in range(2_003)]

    report = await moved([HEADER, *files], alice)

    assert report["rejected"] == {"too_many_files": 3}
    assert (await moved([HEADER, *files], alice))["rejected"] == {"too_many_files": 3}


async def test_what_was_believed_before_is_known_after_an_import(alice: Caller, other: Caller):
    await alice.say("I work at Initech.", session="one")
    [before] = alice.world.rows(
        "select max(at) from fact_event where tenant_id = %s", alice.tenant_id
    )
    await alice.say("I work at Globex now.", session="two")
    await moved(await export(alice), other)

    then = {"known_at": before[0].isoformat()}
    for caller in (alice, other):
        believed = (await caller.get("/facts", params=then)).json()["items"]
        assert [fact["text"] for fact in believed] == ["Works at Initech."]


async def test_a_fact_without_a_sound_history_is_known_from_its_import_on(alice: Caller):
    told = a_fact()
    lying = a_fact("Uses Redis.")
    event = {"type": "event", "fact": lying["id"], "at": AT, "n": 0, "what": "forgotten",
             "by": "page", "status": "forgotten"}  # fmt: skip

    await moved([HEADER, told, lying, event], alice)

    ((at,),) = alice.world.rows(
        "select max(at) from fact_event where tenant_id = %s", alice.tenant_id
    )
    known = (await alice.get("/facts", params={"known_at": at.isoformat()})).json()["items"]
    assert sorted(fact["text"] for fact in known) == ["Prefers window seats.", "Uses Redis."]
    assert (await alice.get("/facts", params={"known_at": AT})).json()["items"] == []
    new_id = next(fact["id"] for fact in known if "Redis" in fact["text"])
    why = (await alice.get(f"/facts/{new_id}/why")).json()
    assert [one["what"] for one in why["events"]] == ["forgotten", "imported"]


async def test_evidence_still_names_the_fact_that_it_came_with(alice: Caller, other: Caller):
    await alice.say("I live in Lisbon.", session="mine")
    await alice.of("anonymous").say("I live in Lisbon.", session="anonymous")
    await alice.of("anonymous").post("/merge", {"into": "alice"})

    await moved(await export(alice), other)

    [merged] = await other.facts("superseded")
    origins = other.world.rows(
        "select fact_id::text, merged_from::text from evidence"
        " where tenant_id = %s and merged_from is not null",
        other.tenant_id,
    )
    assert origins == [(merged["superseded_by"], merged["id"])]


# The guard.


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"text": "Has the password hunter2-Xy9!kk."}, "secret"),
        ({"text": "Has type 2 diabetes.", "kind": "profile"}, "sensitive"),
        ({"text": "x " * 150}, "too_long"),
        ({"metadata": {"password": "hunter2-Xy9!kk"}}, "secret"),
        ({"quote": "my password is hunter2-Xy9!kk"}, "secret"),
        ({"id": "1"}, "invalid"),
        ({"text": ["a"]}, "invalid"),
        ({"kind": "rumour"}, "invalid"),
        ({"said_at": "yesterday"}, "invalid"),
        ({"said_at": 0}, "invalid"),
        ({"created_at": "0001-01-01T00:00:00+14:00"}, "invalid"),
        ({"confirmations": 10**400}, "invalid"),
        ({"confirmations": "3"}, "invalid"),
        ({"revision": -1}, "invalid"),
        ({"pinned": "yes"}, "invalid"),
        ({"metadata": {"a": "b" * 20_000}}, "invalid"),
        ({"source": "elsewhere"}, "invalid"),
        ({"quarantine_reason": "two words", "quarantined_at": AT}, "invalid"),
        ({"type": "weapon"}, "unknown_type"),
        ({"type": ["fact"]}, "unknown_type"),
    ],
)
async def test_what_may_not_be_kept_is_counted_and_the_rest_kept(
    alice: Caller, change: dict[str, Any], code: str
):
    good = a_fact("Uses Postgres at work.")

    report = await moved([HEADER, {**a_fact(), **change}, good], alice)

    assert (report["imported"], report["rejected"]) == (1, {code: 1})
    assert await alice.texts("all") == ["Uses Postgres at work."]


async def test_an_order_to_the_assistant_waits_in_quarantine(alice: Caller):
    report = await moved([HEADER, a_fact(POISON, kind="constraint", pinned=True)], alice)

    assert report["imported"] == 1
    [held] = await alice.facts("quarantined")
    assert held["text"] == POISON
    assert await alice.block("Orlo Bank") == ""


async def test_secrets_in_quotes_turns_and_reasons_stay_outside(alice: Caller):
    secret = "my password is hunter2-Xy9!kk"
    fact = a_fact()
    session = {"type": "session", "session": "s", "status": "done", "started_at": AT,
               "opened_at": AT, "last_activity_at": AT}  # fmt: skip
    turn = {"type": "turn", "session": "s", "position": 1, "text": secret, "said_at": AT,
            "created_at": AT, "extracted_at": AT}  # fmt: skip
    evidence = {"type": "evidence", "fact": fact["id"], "quote": secret, "said_at": AT,
                "created_at": AT}  # fmt: skip
    verdict = {"type": "verdict", "old": fact["id"], "new": None, "verdict": "DUPLICATE",
               "reason": secret, "judge": "rules/1", "at": AT}  # fmt: skip

    report = await moved([HEADER, session, turn, fact, evidence, verdict], alice)

    assert (report["imported"], report["rejected"]) == (1, {"secret": 3})
    assert "hunter2" not in json.dumps(await export(alice))


async def test_a_models_own_words_stay_a_models(alice: Caller):
    await moved([HEADER, a_fact("Must never fly.", kind="constraint", source="mcp")], alice)

    assert await alice.block() == ""


# Files that mean harm.


async def test_rings_and_unknown_ids_are_cut_and_nothing_is_lost(alice: Caller):
    facts = [a_fact(f"Uses tool {n}.", superseded_at=AT) for n in range(5)]
    a, b, c, d, e = facts
    a["superseded_by"], b["superseded_by"] = b["id"], a["id"]
    c["superseded_by"] = str(uuid4())
    d["superseded_by"] = d["id"]
    e["superseded_by"] = a["id"]
    live = a_fact("Uses Postgres.", superseded_by=a["id"])
    strange = {"type": "evidence", "fact": str(uuid4()), "quote": "hm", "said_at": AT,
               "created_at": AT}  # fmt: skip

    report = await moved([HEADER, *facts, live, strange], alice)

    assert report["imported"] == 6
    assert report["rejected"] == {"bad_link": 1, "cycle": 3, "unknown_id": 2}
    for fact in await alice.facts("all"):
        chain = await alice.get(f"/facts/{fact['id']}/history")
        assert chain.status_code == 200
    linked = [fact["superseded_by"] for fact in await alice.facts("all") if fact["superseded_by"]]
    assert linked == [report["ids"][a["id"]]]


async def test_a_refused_link_of_a_chain_is_skipped(alice: Caller):
    last = a_fact("Works at Globex.", kind="profile", subject="employer")
    refused = a_fact("Has the password hunter2-Xy9!kk.", superseded_at=AT, superseded_by=last["id"])
    first = a_fact("Works at Initech.", superseded_at=AT, superseded_by=refused["id"])

    report = await moved([HEADER, first, refused, last], alice)

    assert report["rejected"] == {"secret": 1}
    [old] = await alice.facts("superseded")
    assert old["superseded_by"] == report["ids"][last["id"]]


async def test_times_of_the_future_are_brought_to_now(alice: Caller):
    future = "2999-01-01T00:00:00Z"
    fact = a_fact(said_at=future, created_at=future, last_confirmed_at=future, expires_at=future)
    edge = a_fact("Uses Redis.", valid_to="9999-12-31T23:59:59Z")

    await moved([HEADER, fact, edge], alice)

    facts = await alice.facts()
    assert len(facts) == 2
    kept = next(one for one in facts if "window" in one["text"])
    assert kept["said_at"] < "2999"
    assert kept["expires_at"] == future
    newer = await alice.post("/facts", {"text": "Prefers aisle seats.", "kind": "preference"})
    assert newer.json()["superseded"] == [kept["id"]]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{\n", "malformed"),
        (b"[]\n", "malformed"),
        (b"\xff\xfe\n", "malformed"),
        (b'{"type": "fact", "a": NaN}\n', "malformed"),
        (b'{"a": ' + b"9" * 5_000 + b"}\n", "malformed"),
        (b'{"a": 1e999}\n', "number_range"),
        (b"[" * 100_000 + b"\n", "too_deep"),
        (b'{"a": "' + b"x" * 3_000_000 + b'"}\n', "line_too_long"),
    ],
    ids=["cut", "list", "bytes", "nan", "digits", "range", "deep", "long"],
)
async def test_a_line_that_is_no_record_is_counted(alice: Caller, line: bytes, code: str):
    report = await moved([HEADER, line, a_fact(), line], alice)

    assert (report["imported"], report["rejected"]) == (1, {code: 2})


async def test_a_nul_and_other_controls_are_dropped(alice: Caller):
    report = await moved([HEADER, a_fact("Uses\x00 Post\x1bgres.\nAt work.")], alice)

    assert report["imported"] == 1
    assert await alice.texts() == ["Uses Postgres. At work."]


@pytest.mark.parametrize(
    ("content", "headers", "status"),
    [
        (b"", NDJSON, 422),
        (b"hello\n", NDJSON, 422),
        (lines(a_fact()), NDJSON, 422),
        (lines({**HEADER, "format": "something-else"}), NDJSON, 422),
        (lines(HEADER, a_fact(), HEADER), NDJSON, 422),
        (b"", JSON, 400),
        (b"[]", JSON, 400),
        (b'{"facts": []}', JSON, 422),
        (b'{"format": "usermem-export-1", "facts": [', JSON, 400),
        (b'{"format": "usermem-export-1", "facts": []} x', JSON, 400),
        (b'{"format": "usermem-export-1", "facts": [' + b"[" * 200_000, JSON, 422),
        (b'{"format": "usermem-export-1", "a": "' + b"x" * 3_000_000, JSON, 422),
        (b'{"format": "usermem-export-1", "facts": [\xff]}', JSON, 400),
        (lines(HEADER), {"Content-Type": "text/csv"}, 415),
        (zlib.compress(b" " * 50_000_000), {**NDJSON, "Content-Encoding": "deflate"}, 415),
        (b"", {**NDJSON, "Content-Length": str(256 * 1024 * 1024 + 1)}, 413),
    ],
)  # fmt: skip
async def test_what_is_no_export_is_a_clear_4xx_and_changes_nothing(
    alice: Caller, content: bytes, headers: dict[str, str], status: int
):
    await alice.post("/facts", {"text": "Uses Postgres.", "kind": "preference"})

    answer = await alice.post("/import", content=content, headers=headers)

    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert await alice.texts("all") == ["Uses Postgres."]


@pytest.mark.parametrize(
    ("name", "told"),
    [("a1", "body.a1"), ("Dana lives in Lisbon", "a field"), ("x" * 65, "a field")],
)
async def test_a_documents_first_unknown_name_ends_the_reading(alice: Caller, name: str, told: str):
    rest = b"," + b" " * 200_000 + b"this is never read"

    answer = await alice.post("/import", content=b'{"%s":1' % name.encode() + rest, headers=JSON)

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")
    assert told in answer.json()["detail"]
    assert ("Dana" in answer.text, "xxx" in answer.text) == (False, False)


@pytest.mark.parametrize("name", [b"1", b"[1]", b"{}", b"null"])
async def test_a_documents_names_are_strings(alice: Caller, name: bytes):
    answer = await alice.post("/import", content=b"{" + name + b":[]}", headers=JSON)

    assert (answer.status_code, answer.json()["code"]) == (400, "malformed")


async def test_a_body_over_its_limit_is_cut_off_unread(alice: Caller, monkeypatch: Any):
    monkeypatch.setattr("app.api.portability.MAX_IMPORT", 100_000)
    sent = 0

    async def endless():
        nonlocal sent
        while sent < 10_000_000:
            sent += 10_000
            yield b" " * 10_000

    answer = await alice.post("/import", content=endless(), headers=NDJSON)

    assert answer.status_code == 413
    assert await alice.facts("all") == []


async def test_a_mangled_export_never_fails_and_never_harms(alice: Caller, other: Caller):
    """Fields are swapped, dropped and replaced at random: counted, or imported, never a fault."""
    await fill(alice)
    records = await export(alice)
    values: tuple[Any, ...] = (
        None,
        True,
        -1,
        2**70,
        "",
        "x" * 300,
        [],
        {},
        "\ud800",
        "=1",
        AT,
        str(uuid4()),
    )
    for seed in range(12):
        chance = random.Random(seed)  # noqa: S311 - the same files in every run
        mangled = copy.deepcopy(records)
        for record in chance.sample(mangled[1:], 12):
            field = chance.choice(sorted(record))
            record[field] = chance.choice(values)
        chance.shuffle(rest := mangled[1:])
        answer = await put(other.of(f"user {seed}"), mangled[0], *rest)
        assert answer.status_code == 200, answer.text
        listed = await other.of(f"user {seed}").facts("all")
        assert len(listed) == answer.json()["imported"]
        assert (await other.of(f"user {seed}").get("/export")).status_code == 200


# Chains alone.

_IDS = [uuid4() for _ in range(7)]


@given(
    st.dictionaries(st.sampled_from(_IDS), st.sampled_from(_IDS)),
    st.dictionaries(st.sampled_from(_IDS), st.sampled_from([None, *map(str, range(9))])),
)
def test_every_chain_ends(links: Any, facts: Any):
    here = {old: None if new is None else uuid4() for old, new in facts.items()}
    found, _ = successors(links, here)

    back = {new: old for old, new in here.items() if new}
    for start in found:
        passed, one = set(), start
        while one in found:
            assert one not in passed
            passed.add(one)
            one = back[found[one]]
