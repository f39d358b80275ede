"""Facts of a user, and by the same calls the organization's: list, write, read, explain."""

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Response
from pydantic import Field
from sqlalchemy.ext.asyncio import AsyncSession

from app.db import now
from app.deps import ByPrefix, CoreDep, CredentialDep, KeyedRoute, Needs, OwnerDep, Tx
from app.memory import facts
from app.memory.covered import covered, covered_quote
from app.memory.view import AnyStatus, Status, View, status_of
from app.models import Fact
from app.once import OnceDep
from app.wire import FactId, Kind, Limit, Line, Metadata, Model, Time, UserId

router = APIRouter(route_class=KeyedRoute)

_Handler = TypeVar("_Handler", bound=Callable[..., Any])


async def _named(_user: UserId) -> None:
    """Document the user of the path; `OwnerDep` gives whose facts they are."""


def for_users_and_organization(
    router: APIRouter, method: str, path: str, **options: Any
) -> Callable[[_Handler], _Handler]:
    """Serve the same call under a user's facts and under the organization's.

    Everybody with the scope `facts` may read the latter; `admin` alone changes them.
    """

    def register(handler: _Handler) -> _Handler:
        for prefix, scope, named in (
            ("/v1/users/{user:id}/facts", "facts", [Depends(_named)]),
            ("/v1/organization/facts", "facts" if method == "GET" else "admin", []),
        ):
            router.add_api_route(
                prefix + path,
                handler,
                methods=[method],
                dependencies=[Depends(Needs(scope)), *named],
                tags=["facts" if named else "organization"],
                **options,
            )
        return handler

    return register


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
        return cls(
            **{
                **shown,
                "text": covered(fact.text, fact.guard_version),
                "subject": covered(fact.subject, fact.guard_version),
                "metadata": covered(fact.extra, fact.guard_version),
                "status": status_of(fact, at),
            }
        )


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


_BY_METADATA = {
    "name": "metadata.KEY",
    "in": "query",
    "schema": {"type": "string"},
    "description": "The value of a top-level key of `metadata`; for several, all must be equal. "
    "What spells a JSON number, `true`, `false` or `null` means that or the string of these "
    "characters: `9` finds 9 and '9'. In double quotes it is the string alone.",
}


class ViewIn:
    """Which facts to list, and of which time. Not a model: its fields come from the query."""

    def __init__(
        self,
        status: Annotated[
            AnyStatus | None,
            Query(description="Default: `live`, unless a time is given."),
        ] = None,
        kind: Kind | None = None,
        as_of: Annotated[Time | None, Query(description="What was true then.")] = None,
        known_at: Annotated[Time | None, Query(description="What the store believed then.")] = None,
    ) -> None:
        self.status, self.kind, self.as_of, self.known_at = status, kind, as_of, known_at


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
TAGGED: dict[str, Any] = {"headers": {"ETag": {"schema": {"type": "string"}}}}


@for_users_and_organization(router, "GET", "", openapi_extra={"parameters": [_BY_METADATA]})
async def list_facts(
    owner: OwnerDep,
    core: CoreDep,
    key: CredentialDep,
    tx: Tx,
    view: Annotated[ViewIn, Depends()],
    metadata: Annotated[dict[str, str], Depends(ByPrefix("metadata."))],
    limit: Limit = 50,
    cursor: str | None = None,
) -> FactPage:
    """List facts, newest first, each as it stands now."""
    wanted = View(view.status, view.kind, view.as_of, view.known_at, metadata)
    page = await facts.list_facts(tx, core, key.tenant_id, owner, wanted, limit=limit, after=cursor)
    return FactPage(
        items=[FactOut.of(fact, now(tx)) for fact in page.items], next_cursor=page.next_cursor
    )


@for_users_and_organization(
    router,
    "POST",
    "",
    status_code=201,
    responses={
        200: {"model": WrittenOut, "description": "The same fact is there; it is confirmed"},
        202: {"model": WrittenOut, "description": "The fact waits in quarantine"},
        409: {"description": "The user's memory is paused"},
    },
)
async def add_fact(
    owner: OwnerDep,
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
        await once.keep(tx, owner, status, answer, fact_id=written.fact.id)

    written, at = await facts.add_fact(
        core, key.tenant_id, owner, new, source="api", by=key.actor, settle=settle
    )
    response.status_code = _STATUS_CODES[written.verdict]
    return WrittenOut.of(written, at)


@for_users_and_organization(router, "GET", "/{fact}", responses={200: TAGGED})
async def get_fact(
    owner: OwnerDep, fact: FactId, key: CredentialDep, tx: Tx, response: Response
) -> FactOut:
    """Read one fact."""
    _, row = await facts.get_fact(tx, key.tenant_id, owner, fact)
    response.headers["ETag"] = f'"{row.revision}"'
    return FactOut.of(row, now(tx))


@for_users_and_organization(router, "GET", "/{fact}/why")
async def why(owner: OwnerDep, fact: FactId, key: CredentialDep, tx: Tx) -> WhyOut:
    """Tell why a fact is believed."""
    found = await facts.explain(tx, key.tenant_id, owner, fact)
    return WhyOut(
        fact=FactOut.of(found.fact, now(tx)),
        evidence=[
            EvidenceOut(
                session=session,
                message_id=row.message_id,
                quote=covered_quote(row.quote),
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
                reason=covered_quote(row.reason),
                judge=row.judge,
                at=row.at,
                overturned_at=row.overturned_at,
            )
            for row in found.verdicts
        ],
        events=[EventOut.model_validate(row) for row in found.events],
    )
