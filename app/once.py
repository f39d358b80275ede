"""A route that does its work once per idempotency key, whatever is sent again."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, Header, Request, Response
from sqlalchemy.ext.asyncio import AsyncSession

from app.deps import CoreDep, CredentialDep, OwnerDep
from app.memory.core import Core
from app.memory.idempotency import Claim, Replay, claim, hold, keep, release
from app.memory.tenants import Credential
from app.memory.users import find_user
from app.wire import Model

IdempotencyKey = Annotated[
    str | None,
    Header(pattern=r"^[!-~]{1,255}$", description="1 to 255 visible ASCII characters."),
]


class Replayed(Exception):  # noqa: N818 - not a fault: the answer is known already
    """Ends a request with the answer that was kept for its key."""

    def __init__(self, kept: Replay) -> None:
        super().__init__()
        self.kept = kept


class Once:
    """Keeps a request's answer under its idempotency key, if it came with one."""

    def __init__(self, held: Claim | None) -> None:
        self.held = held
        self.kept = False

    async def keep(
        self,
        tx: AsyncSession,
        user: str,
        status: int,
        answer: Model,
        *,
        fact_id: UUID | None = None,
        location: str | None = None,
    ) -> None:
        """Keep the answer in the transaction of the work."""
        if self.held is None:
            return
        scope = await find_user(tx, self.held.tenant_id, user)
        if scope is None:
            raise RuntimeError("a write creates its user")
        # As text: the database would put the keys of an object into another order.
        body = {"body": answer.model_dump_json(), "location": location}
        await keep(tx, self.held, status, body, user_id=scope.user_id, fact_id=fact_id)
        self.kept = True


async def get_once(
    request: Request,
    core: CoreDep,
    credential: CredentialDep,
    owner: OwnerDep,
    idempotency_key: IdempotencyKey = None,
) -> AsyncIterator[Once]:
    """Claim the request's key, or end the request with the answer kept for it."""
    # Without a key nothing needs to be known of the body.
    body = None if idempotency_key is None else await request.json()
    async with once_for(request, core, credential, owner, idempotency_key, body) as once:
        yield once


@asynccontextmanager
async def once_for(
    request: Request,
    core: Core,
    credential: Credential,
    owner: str,
    idempotency_key: str | None,
    body: Any,
) -> AsyncIterator[Once]:
    """Hold the request's key for the block, or end the request with the answer kept for it.

    `body` is what was asked, or what stands for it.
    """
    if idempotency_key is None:
        yield Once(None)
        return
    route = f"{request.method} {request.scope['route'].path}"
    # The session is part of what is asked, as the body is.
    asked = {"path": request.url.path, "body": body}
    held = await claim(core, credential.tenant_id, owner, route, idempotency_key, asked)
    if isinstance(held, Replay):
        raise Replayed(held)
    once = Once(held)
    holding = asyncio.create_task(hold(core, held), name="claim")
    try:
        yield once
    finally:
        holding.cancel()
        await asyncio.wait({holding})
        if not once.kept:
            await release(core, held)


OnceDep = Annotated[Once, Depends(get_once)]


async def replay(_request: Request, replayed: Replayed) -> Response:
    """Give the kept answer, marked as such."""
    kept = replayed.kept
    headers = {"Idempotent-Replay": "true"}
    if kept.body["location"] is not None:
        headers["Location"] = kept.body["location"]
    return Response(kept.body["body"], kept.status, headers, "application/json")
