"""What a person does to facts: correct, undo, delete, look back; a user's or the organization's."""

import re
from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Response
from pydantic import Field

from app.api.facts import TAGGED, FactOut, for_users_and_organization
from app.db import now
from app.deps import CoreDep, CredentialDep, KeyedRoute, OwnerDep, Tx
from app.errors import Stale, UsermemError
from app.memory import edit
from app.memory.undo import restore_fact
from app.wire import FactId, Kind, Line, Metadata, Model, Time

router = APIRouter(route_class=KeyedRoute)

_TAG = r'(?:W/)?"[^"\x00-\x20\x7f]*"'
_TAGS = re.compile(rf"[ \t]*(?:{_TAG}[ \t]*)?(?:,[ \t]*(?:{_TAG}[ \t]*)?)*")
_STRONG_REVISION = re.compile(r'(?<!W/)"([1-9][0-9]{0,8})"')


class PreconditionRequired(UsermemError):  # noqa: N818 - named as the answer is
    """The request must name the revision that it changes."""

    status, title, code = 428, "Precondition required", "precondition_required"


OF_A_REVISION: Final[dict[int | str, dict[str, Any]]] = {
    412: {"description": "The fact has another revision"},
    428: {"description": "If-Match is missing"},
}
"""How a route answers that changes a fact of the revision named."""


def revisions_of(if_match: str | None) -> frozenset[int] | None:
    """Read the revisions out of `If-Match`; None stands for any.

    Raises `PreconditionRequired`, or `Stale` for what is no list of tags. A weak tag never matches,
    nor does one that is no revision; another of the same list still may.
    """
    if if_match is None:
        raise PreconditionRequired("Send the fact's revision as If-Match, as its ETag gives it.")
    if if_match.strip() == "*":
        return None
    if not _TAGS.fullmatch(if_match):
        raise Stale("If-Match names no revision of this fact.")
    return frozenset(int(digits) for digits in _STRONG_REVISION.findall(if_match))


class FactPatch(Model):
    """What to change of a fact; what isn't named stays."""

    text: Annotated[Line, Field(min_length=1)] | None = None
    kind: Kind | None = None
    pinned: Annotated[bool | None, Field(strict=True)] = None
    expires_at: Time | None = None
    metadata: Metadata | None = None


class FactChain(Model):
    """A fact's history, oldest first."""

    items: list[FactOut]


@for_users_and_organization(router, "DELETE", "/{fact}", status_code=204, response_class=Response)
async def delete_fact(
    owner: OwnerDep, fact: FactId, core: CoreDep, key: CredentialDep, tx: Tx
) -> None:
    """Erase a fact with its evidence and what it had superseded; it is not learned again."""
    await edit.delete_fact(tx, core, key.tenant_id, owner, fact, by=key.actor)


@for_users_and_organization(
    router,
    "PATCH",
    "/{fact}",
    responses={
        200: TAGGED,
        409: {"description": "The fact is not live, or the user's memory is paused"},
        **OF_A_REVISION,
    },
)
async def change_fact(
    owner: OwnerDep,
    fact: FactId,
    body: FactPatch,
    core: CoreDep,
    key: CredentialDep,
    response: Response,
    if_match: Annotated[str | None, Header()] = None,
) -> FactOut:
    """Correct a fact: a new text makes a successor, the rest changes in place."""
    named = body.model_dump(exclude_unset=True)
    text = named.pop("text", None)
    if "metadata" in named:
        named["extra"] = named.pop("metadata") or {}
    for name in ("kind", "pinned"):
        if named.get(name, ...) is None:
            del named[name]
    row, at = await edit.change_fact(
        core,
        key.tenant_id,
        owner,
        fact,
        edit.Change(text, named),
        revisions=revisions_of(if_match),
        by=key.actor,
    )
    response.headers["ETag"] = f'"{row.revision}"'
    return FactOut.of(row, at)


@for_users_and_organization(router, "GET", "/{fact}/history")
async def history(owner: OwnerDep, fact: FactId, key: CredentialDep, tx: Tx) -> FactChain:
    """List what a fact replaced and was replaced by, oldest first."""
    chain = await edit.chain_of(tx, key.tenant_id, owner, fact)
    return FactChain(items=[FactOut.of(row, now(tx)) for row in chain])


@for_users_and_organization(
    router,
    "POST",
    "/{fact}/restore",
    responses={409: {"description": "The fact is live, or the user's memory is paused"}},
)
async def restore(owner: OwnerDep, fact: FactId, key: CredentialDep, tx: Tx) -> FactOut:
    """Undo a supersession or a forgetting."""
    row = await restore_fact(tx, key.tenant_id, owner, fact, by=key.actor)
    return FactOut.of(row, now(tx))
