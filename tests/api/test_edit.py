"""What a person does to facts: correct, pin, undo, look back."""

from typing import Any

from sqlalchemy import event

from tests.world import Caller


async def _add(alice: Caller, text: str, kind: str = "preference", **more):
    answer = await alice.post("/facts", {"text": text, "kind": kind, **more})
    assert answer.status_code == 201, answer.text
    return answer.json()["fact"]


async def _patch(
    alice: Caller, fact: dict[str, Any], body: dict[str, Any], revision: int | None = None
):
    tag = f'"{revision if revision is not None else fact["revision"]}"'
    path = f"{alice.base}/facts/{fact['id']}"
    return await alice.call("PATCH", path, json=body, headers={"If-Match": tag})


async def test_new_text_makes_a_successor_and_keeps_the_old_one(alice: Caller):
    fact = await _add(alice, "Lives in Lisbon.", "profile", pinned=True, metadata={"a": 1})

    answer = await _patch(alice, fact, {"text": "Lives in Porto."})

    assert answer.status_code == 200, answer.text
    successor = answer.json()
    assert successor["id"] != fact["id"]
    assert (successor["pinned"], successor["metadata"]) == (True, {"a": 1})
    assert await alice.texts() == ["Lives in Porto."]
    [old] = await alice.facts("superseded")
    assert old["superseded_by"] == successor["id"]
    why = (await alice.get(f"/facts/{successor['id']}/why")).json()
    assert [v["judge"] for v in why["verdicts"]] == ["person"]


async def test_other_fields_change_in_place(alice: Caller):
    fact = await _add(alice, "Prefers window seats.")

    answer = await _patch(alice, fact, {"pinned": True, "kind": "constraint"})

    changed = answer.json()
    assert (changed["id"], changed["revision"]) == (fact["id"], fact["revision"] + 1)
    assert (changed["pinned"], changed["kind"]) == (True, "constraint")
    assert answer.headers["etag"] == f'"{changed["revision"]}"'


async def test_a_change_needs_the_current_revision(alice: Caller):
    fact = await _add(alice, "Prefers window seats.")
    path = f"{alice.base}/facts/{fact['id']}"

    without = await alice.call("PATCH", path, json={"pinned": True})
    stale = await _patch(alice, fact, {"pinned": True}, revision=fact["revision"] + 7)
    nonsense = await alice.call("PATCH", path, json={"pinned": True}, headers={"If-Match": "x"})

    assert [without.status_code, stale.status_code, nonsense.status_code] == [428, 412, 412]
    assert (await alice.facts())[0]["pinned"] is False


async def test_if_match_may_name_any_revision_or_several(alice: Caller):
    fact = await _add(alice, "Prefers window seats.")
    path = f"{alice.base}/facts/{fact['id']}"
    good = ["*", '"7", "2"', " * ", 'W/"9", "4"', ', "x",\t"5" ,']
    for n, tag in enumerate(good, 2):
        answer = await alice.call("PATCH", path, json={"metadata": {"n": n}},
                                  headers={"If-Match": tag})  # fmt: skip
        assert (answer.status_code, answer.json()["revision"]) == (200, n), tag
    for tag in ('W/"6"', '"9", "8"', '"6', "6", '*, "6"', '"06"', '"9" "6"', ""):
        answer = await alice.call("PATCH", path, json={"pinned": True}, headers={"If-Match": tag})
        assert answer.status_code == 412, tag


async def test_a_long_history_is_read_in_as_many_statements_as_a_short_one(alice: Caller):
    sent: list[str] = []
    engine = alice.world.core.db._engine.sync_engine
    event.listen(engine, "before_cursor_execute", lambda *args: sent.append(args[2]))

    async def statements(fact_id: str, length: int) -> int:
        sent.clear()
        chain = (await alice.get(f"/facts/{fact_id}/history")).json()["items"]
        assert [fact["text"] for fact in chain] == [f"Works at Acme {n}." for n in range(length)]
        return len(sent)

    oldest = newest = await _add(alice, "Works at Acme 0.", "profile")
    costs = []
    for length in range(2, 6):
        answer = await _patch(alice, newest, {"text": f"Works at Acme {length - 1}."})
        newest = answer.json()
        costs += [await statements(one["id"], length) for one in (oldest, newest)]

    assert len(set(costs)) == 1, costs


async def test_a_correction_to_what_is_there_already_takes_pin_and_fields_along(alice: Caller):
    there = await _add(alice, "Uses Kafka daily.")
    wrong = await _add(alice, "Uses Redis daily.", pinned=True)

    answer = await _patch(alice, wrong, {"text": "Uses Kafka daily.", "metadata": {"team": "data"}})

    [live] = await alice.facts()
    assert answer.json() == live
    assert (live["id"], live["pinned"], live["metadata"]) == (there["id"], True, {"team": "data"})


async def test_the_same_text_is_no_correction(alice: Caller):
    fact = await _add(alice, "Prefers window seats.")

    answer = await _patch(alice, fact, {"text": "Prefers  window seats.", "pinned": True})

    assert (answer.json()["id"], answer.json()["pinned"]) == (fact["id"], True)
    assert await alice.facts("superseded") == []


async def test_a_superseded_fact_cannot_be_changed(alice: Caller):
    fact = await _add(alice, "Lives in Lisbon.", "profile")
    await _patch(alice, fact, {"text": "Lives in Porto."})
    [old] = await alice.facts("superseded")

    assert (await _patch(alice, old, {"pinned": True})).status_code == 409


async def test_restore_brings_the_old_one_back_beside_its_successor(alice: Caller):
    await alice.say("I live in Lisbon.")
    await alice.say("I moved to Porto.")
    [old] = await alice.facts("superseded")

    restored = await alice.post(f"/facts/{old['id']}/restore")

    assert restored.status_code == 200, restored.text
    assert restored.json()["status"] == "live"
    assert len(await alice.facts()) == 2
    why = (await alice.get(f"/facts/{old['id']}/why")).json()
    assert all(v["overturned_at"] for v in why["verdicts"] if v["verdict"] == "CONTRADICTS")
    assert (await alice.post(f"/facts/{old['id']}/restore")).status_code == 409


async def test_a_restored_fact_stays_when_its_old_rival_is_said_again(alice: Caller):
    await alice.say("I live in Lisbon.")
    await alice.say("I moved to Porto.")
    [old] = await alice.facts("superseded")
    await alice.post(f"/facts/{old['id']}/restore")

    await alice.say("I live in Porto.")

    assert old["id"] in {fact["id"] for fact in await alice.facts()}


async def test_history_is_the_chain_oldest_first(alice: Caller):
    for city in ("Graz", "Linz", "Wien"):
        await alice.say(f"I live in {city}.")
    [live] = await alice.facts()

    chain = (await alice.get(f"/facts/{live['id']}/history")).json()["items"]

    assert [fact["text"] for fact in chain] == [
        "Lives in Graz.",
        "Lives in Linz.",
        "Lives in Wien.",
    ]
    middle = (await alice.get(f"/facts/{chain[1]['id']}/history")).json()["items"]
    assert [fact["id"] for fact in middle] == [fact["id"] for fact in chain]


async def test_correcting_to_what_another_fact_says_leaves_one(alice: Caller):
    await _add(alice, "Uses Redis.")
    fact = await _add(alice, "Uses Memcached.")

    answer = await _patch(alice, fact, {"text": "Uses Redis."})

    assert answer.status_code == 200, answer.text
    assert await alice.texts() == ["Uses Redis."]
    [old] = await alice.facts("superseded")
    assert old["superseded_by"] == answer.json()["id"]
