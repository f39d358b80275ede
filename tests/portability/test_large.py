"""An import that takes long: its key stays its own."""

import asyncio
from datetime import timedelta
from typing import Any

from app.memory import idempotency, importing, users
from tests.portability.files import export, put


async def test_an_import_that_takes_longer_than_a_claim_lasts_keeps_its_key(alice, monkeypatch):
    await alice.post("/facts", {"text": "Drinks tea.", "kind": "preference"})
    records = await export(alice)
    monkeypatch.setattr(idempotency, "CLAIM_LASTS", timedelta(seconds=0.6))
    entered, go_on = asyncio.Event(), asyncio.Event()
    ensure = users.ensure_user

    async def slowly(*arguments: Any) -> Any:
        entered.set()
        await go_on.wait()
        return await ensure(*arguments)

    monkeypatch.setattr(importing, "ensure_user", slowly)
    bob, key = alice.of("bob"), {"Idempotency-Key": "k"}
    first = asyncio.create_task(put(bob, *records, **key))
    await entered.wait()
    await asyncio.sleep(1.5)

    again = await put(bob, *records, **key)
    go_on.set()

    assert (again.status_code, again.json()["code"]) == (409, "idempotency_in_progress")
    assert (await first).status_code == 200
    replayed = await put(bob, *records, **key)
    assert replayed.json() == (await first).json()
    assert replayed.headers["idempotent-replay"] == "true"
