"""Memory while the embedder is down or answers nonsense: nothing is lost, nothing is a 5xx."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import pytest

from app.embeddings import Cached, OpenAICompatible
from app.embeddings.remote import Breaker
from tests.claude.play import Script, settled
from tests.scripted_embedder import Reply, ScriptedEmbedder, answer
from tests.world import Caller, World

DOWN = Reply(503, b"")


@pytest.fixture
def embeddings() -> Iterator[ScriptedEmbedder]:
    with ScriptedEmbedder() as server:
        yield server


@pytest.fixture
async def alice(service: World, embeddings: ScriptedEmbedder) -> AsyncIterator[Caller]:
    """A tenant whose facts are embedded over HTTP by a service nobody has heard from yet."""
    remote = OpenAICompatible(url=embeddings.url, model="scripted", breaker=Breaker(pause=0))
    embedder = Cached(remote)
    async with service.over(replace(service.core, embedder=embedder)) as remote_world:
        yield await remote_world.tenant()
    await embedder.aclose()


def unembedded(caller: Caller) -> int:
    [(number,)] = caller.world.rows(
        "select count(*) from memory_fact where tenant_id = %s and embedding is null",
        caller.tenant_id,
    )
    return int(number)


async def hurry(caller: Caller) -> None:
    """Run the jobs that were put off, now."""
    caller.world.execute(
        "update procrastinate_jobs set scheduled_at = now() where args->>'tenant_id' = %s",
        caller.tenant_id.hex,
    )
    await caller.world.drain()


NONSENSE = {
    "down": DOWN,
    "hung up": Reply(hang_up=True),
    "too narrow": Reply(body=answer([[0.1, 0.2, 0.3]])),
    "NaN": Reply(body=b'{"data": [{"index": 0, "embedding": [' + b"NaN, " * 63 + b"NaN]}]}"),
    "zeros": Reply(body=answer([[0.0] * 64])),
    "huge": Reply(body=answer([[9e18] * 64])),
    "a string": Reply(body=answer(["zero"])),
    "too few": Reply(body=answer([])),
}


@pytest.mark.parametrize("reply", NONSENSE.values(), ids=NONSENSE.keys())
async def test_facts_are_kept_found_by_words_and_embedded_later(
    alice: Caller, embeddings: ScriptedEmbedder, script: Script, reply: Reply
):
    embeddings.always = reply
    state = await alice.say("By the way, we use Redis.")
    assert (state["status"], state["facts"]["added"]) == ("done", 1)
    assert unembedded(alice) == 1

    recalled = (await alice.get("/memory", params={"query": "How do I flush Redis?"})).json()
    assert [one["text"] for one in recalled["facts"]] == ["Uses Redis."]
    assert recalled["degraded"] == "embedder"
    written = await alice.post("/facts", {"text": "Uses Kafka.", "kind": "preference"})
    assert written.status_code == 201

    await hurry(alice)
    assert unembedded(alice) == 2  # still down: still waiting, still there

    embeddings.always = Reply()
    await hurry(alice)

    assert unembedded(alice) == 0
    recalled = (await alice.get("/memory", params={"query": "Uses Kafka then?"})).json()
    assert recalled["degraded"] is None
    assert "Uses Kafka." in [one["text"] for one in recalled["facts"]]


async def test_an_answer_of_another_width_than_before_is_refused_without_loss(
    alice: Caller, embeddings: ScriptedEmbedder
):
    await alice.say("By the way, we use Redis.")
    embeddings.always = Reply(body=answer([[0.5] * 128]))

    state = await alice.say("I live in Graz.", session="s")

    assert state["status"] == "done"
    assert unembedded(alice) == 1
    embeddings.always = Reply()
    await hurry(alice)
    assert unembedded(alice) == 0
    models = alice.world.rows(
        "select distinct embedding_model from memory_fact where tenant_id = %s", alice.tenant_id
    )
    assert models == [("openai:scripted-64",)]


async def test_a_dripping_embedder_holds_up_nobody_who_writes(
    alice: Caller, embeddings: ScriptedEmbedder
):
    embeddings.always = Reply(delay=1.5)

    written = await alice.post("/facts", {"text": "Uses Kafka.", "kind": "preference"})

    assert written.status_code == 201
    assert written.elapsed.total_seconds() < 1.4
    assert unembedded(alice) == 1
    assert (await settled(alice, (await alice.say("I live in Graz."))["session"]))["status"]
