from tests.world import Caller


async def test_a_conversation_becomes_facts_and_a_block(alice: Caller):
    state = await alice.say("Hi, my name is Dana and I live in Lisbon.")
    print(state)
    print(await alice.facts())
    print(await alice.block("where do I live?"))
    assert state["status"] == "done"
    await alice.say("We use Postgres. I prefer window seats.")
    await alice.say("We migrated from Postgres to PlanetScale.")
    for f in await alice.facts("all"): print(f["text"], f["kind"], f["subject"], f["status"])
    print(await alice.block("Which seat do I prefer?"))
    print(await alice.block("What is a mutex?"))
    why = await alice.get(f"/facts/{(await alice.facts('superseded'))[0]['id']}/why")
    print(why.json())
    assert 0
