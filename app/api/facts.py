"""Facts one by one: list, write, read, explain, delete."""

import re
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Header, Response
from pydantic import Field
from sqlalchemy.ext.asyncio import AsyncSession

from app.db import now
from app.deps import CoreDep, CredentialDep, KeyedRoute, Needs, Tx
from app.errors import Stale, UsermemError
from app.memory import edit, facts
from app.models import Fact
from app.once import OnceDep
from app.wire import FactId, Kind, Limit, Line, Metadata, Model, Time, UserId

router = APIRouter(prefix="/v1/users/{user:id}/facts", route_class=KeyedRoute, tags=["facts"])
_facts = Depends(Needs("facts"))

Status = Literal["live", "superseded", "quarantined", "expired", "forgotten"]


_REVISION = re.compile(r'"(\d{1,9})"')


class PreconditionRequired(UsermemError):  # noqa: N818 - named as the answer is
    """The request must name the revision that it changes."""

    status, title, code = 428, "Precondition required", "precondition_required"


class FactOut(Model):
    """A fact, with all that is known of it but its evidence."""

    id: UUID
    text: str
    kind: Kind
    subject: str
    status: Status
    source: Literal["transcript", "api", "page", "mcp", "import"]
    said_at: datetime
    valid_from: datetime | None
    valid_to: datetime | None
    created_at: datetime
    last_confirmed_at: datetime
    confirmations: int
    last_recalled_at: datetime | None
    expires_at: datetime | None
    pinned: bool
    superseded_at: datetime | None
    superseded_by: UUID | None
    quarantine_reason: str | None
    metadata: dict[str, Any]
    revision: int

    @classmethod
    def of(cls, fact: Fact, at: datetime) -> "FactOut":
        """Show a stored fact as it stands at this time."""
        shown = {name: getattr(fact, name) for name in cls.model_fields if hasattr(Fact, name)}
        return cls(**{**shown, "metadata": fact.extra, "status": facts.status_of(fact, at)})


class FactPage(Model):
    """One page of facts, newest first."""

    items: list[FactOut]
    next_cursor: str | None


class FactIn(Model):
    """A fact that a person or program states directly."""

    text: Annotated[Line, Field(min_length=1)]
    kind: Kind
    valid_from: Time | None = None
    expires_at: Time | None = None
    pinned: bool = Field(default=False, strict=True)
    metadata: Metadata | None = None


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


class WrittenOut(Model):
    """What became of a new fact."""

    fact: FactOut
    verdict: Literal["added", "duplicate", "quarantined"]
    superseded: list[UUID]

    @classmethod
    def of(cls, written: facts.Written, at: datetime) -> "WrittenOut":
        """Show what was written, as of the commit."""
        return cls(
            fact=FactOut.of(written.fact, at),
            verdict=written.verdict,
            superseded=list(written.superseded),
        )


class EvidenceOut(Model):
    """Where the user said it."""

    session: str | None
    message_id: str | None
    quote: str
    said_at: datetime


class VerdictOut(Model):
    """What a judge decided of two facts."""

    old: UUID
    new: UUID | None
    verdict: Literal["CONTRADICTS", "DUPLICATE", "INDEPENDENT"]
    reason: str
    judge: str
    at: datetime
    overturned_at: datetime | None


class EventOut(Model):
    """What happened to a fact."""

    at: datetime
    what: str
    by: str


class WhyOut(Model):
    """Why a fact is believed."""

    fact: FactOut
    evidence: list[EvidenceOut]
    extractor: str | None
    verdicts: list[VerdictOut]
    events: list[EventOut]


_STATUS_CODES = {"added": 201, "duplicate": 200, "quarantined": 202}
_TAGGED: dict[str, Any] = {"headers": {"ETag": {"schema": {"type": "string"}}}}


@router.get("", dependencies=[_facts])
async def list_facts(
    user: UserId,
    core: CoreDep,
    key: CredentialDep,
    tx: Tx,
    status: Status | Literal["all"] = "live",
    kind: Kind | None = None,
    limit: Limit = 50,
    cursor: str | None = None,
) -> FactPage:
    """List a user's facts."""
    page = await facts.list_facts(
        tx,
        core,
        key.tenant_id,
        user,
        status=status,
        kind=kind,
        limit=limit,
        after=cursor,
    )
    return FactPage(
        items=[FactOut.of(fact, now(tx)) for fact in page.items], next_cursor=page.next_cursor
    )


@router.post(
    "",
    status_code=201,
    dependencies=[_facts],
    responses={
        200: {"model": WrittenOut, "description": "The same fact is there; it is confirmed"},
        202: {"model": WrittenOut, "description": "The fact waits in quarantine"},
        409: {"description": "The user's memory is paused"},
    },
)
async def add_fact(
    user: UserId,
    body: FactIn,
    core: CoreDep,
    key: CredentialDep,
    once: OnceDep,
    response: Response,
) -> WrittenOut:
    """Write a fact, through the same guard and judge as a conversation's."""
    new = facts.NewFact(
        body.text,
        body.kind,
        valid_from=body.valid_from,
        expires_at=body.expires_at,
        pinned=body.pinned,
        metadata=body.metadata,
    )

    async def settle(tx: AsyncSession, written: facts.Written) -> None:
        status = _STATUS_CODES[written.verdict]
        answer = WrittenOut.of(written, now(tx))
        await once.keep(tx, user, status, answer, fact_id=written.fact.id)

    written, at = await facts.add_fact(
        core, key.tenant_id, user, new, source="api", by=f"key:{key.key_id}", settle=settle
    )
    response.status_code = _STATUS_CODES[written.verdict]
    return WrittenOut.of(written, at)


@router.get("/{fact}", dependencies=[_facts], responses={200: _TAGGED})
async def get_fact(
    user: UserId, fact: FactId, key: CredentialDep, tx: Tx, response: Response
) -> FactOut:
    """Read one fact."""
    _, row = await facts.get_fact(tx, key.tenant_id, user, fact)
    response.headers["ETag"] = f'"{row.revision}"'
    return FactOut.of(row, now(tx))


@router.get("/{fact}/why", dependencies=[_facts])
async def why(user: UserId, fact: FactId, key: CredentialDep, tx: Tx) -> WhyOut:
    """Tell why a fact is believed."""
    found = await facts.explain(tx, key.tenant_id, user, fact)
    return WhyOut(
        fact=FactOut.of(found.fact, now(tx)),
        evidence=[
            EvidenceOut(
                session=session,
                message_id=row.message_id,
                quote=row.quote,
                said_at=row.said_at,
            )
            for row, session in found.evidence
        ],
        extractor=found.fact.extractor,
        verdicts=[
            VerdictOut(
                old=row.old_id,
                new=row.new_id,
                verdict=row.verdict,
                reason=row.reason,
                judge=row.judge,
                at=row.at,
                overturned_at=row.overturned_at,
            )
            for row in found.verdicts
        ],
        events=[EventOut.model_validate(row) for row in found.events],
    )


@router.delete("/{fact}", status_code=204, dependencies=[_facts])
async def delete_fact(
    user: UserId, fact: FactId, core: CoreDep, key: CredentialDep, tx: Tx
) -> None:
    """Erase a fact with its evidence and what it had superseded; it is not learned again."""
    await edit.delete_fact(tx, core, key.tenant_id, user, fact, by=key.actor)


def revision_of(if_match: str | None) -> int:
    """Read the revision out of `If-Match`. Raises `PreconditionRequired` or `Stale`."""
    if if_match is None:
        raise PreconditionRequired("Send the fact's revision as If-Match, as its ETag gives it.")
    match = _REVISION.fullmatch(if_match.strip())
    if match is None:
        raise Stale("If-Match names no revision of this fact.")
    return int(match[1])


@router.patch(
    "/{fact}",
    dependencies=[_facts],
    responses={
        200: _TAGGED,
        409: {"description": "The fact is not live, or the user's memory is paused"},
        412: {"description": "The fact has another revision"},
        428: {"description": "If-Match is missing"},
    },
)
async def change_fact(
    user: UserId,
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
        user,
        fact,
        edit.Change(text, named),
        revision=revision_of(if_match),
        by=f"key:{key.key_id}",
    )
    response.headers["ETag"] = f'"{row.revision}"'
    return FactOut.of(row, at)


@router.get("/{fact}/history", dependencies=[_facts])
async def history(user: UserId, fact: FactId, key: CredentialDep, tx: Tx) -> FactChain:
    """List what a fact replaced and was replaced by, oldest first."""
    chain = await edit.chain_of(tx, key.tenant_id, user, fact)
    return FactChain(items=[FactOut.of(row, now(tx)) for row in chain])


@router.post(
    "/{fact}/restore",
    dependencies=[_facts],
    responses={409: {"description": "The fact is live, or the user's memory is paused"}},
)
async def restore(user: UserId, fact: FactId, key: CredentialDep, tx: Tx) -> FactOut:
    """Undo a supersession or a forgetting."""
    row = await edit.restore_fact(tx, key.tenant_id, user, fact, by=f"key:{key.key_id}")
    return FactOut.of(row, now(tx))
