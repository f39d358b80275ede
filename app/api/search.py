"""Search over a user's facts, and what people thought of a recall."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Response
from pydantic import Field, model_validator

from app.api.facts import FactOut
from app.api.memory import MAX_POST_QUERY, at_most
from app.deps import CoreDep, CredentialDep, KeyedRoute, Needs, Tx
from app.memory import recall_log, search
from app.wire import Kind, Limit, Line, Metadata, Model, RecallId, Time, UserId, Uuid

router = APIRouter(route_class=KeyedRoute, tags=["memory"])
_recall = Depends(Needs("recall"))
_admin = Depends(Needs("admin"))


class SearchIn(Model):
    """What to search for."""

    query: Annotated[Line, at_most(MAX_POST_QUERY)]
    limit: Limit = 10
    kinds: list[Kind] | None = None
    as_of: Time | None = Field(default=None, description="What was true then; superseded included.")
    include_superseded: bool = Field(default=False, strict=True)
    metadata: Metadata | None = Field(
        default=None,
        description="A value that must be equal, or an object of operators: "
        "eq, ne, lt, lte, gt, gte, in, exists. Values compare by JSON type: 9 < 10, '9' is not 9.",
        examples=[{"team": "data", "level": {"lt": 10}}],
    )


class FoundOut(Model):
    """A fact that was found, with the parts of its score."""

    fact: FactOut
    score: float
    vector_score: float | None
    text_score: float | None


class SearchOut(Model):
    """Best first."""

    items: list[FoundOut]


class FeedbackIn(Model):
    """Which facts of a recall helped, and which did not."""

    relevant: list[Uuid] = Field(default_factory=list, max_length=200)
    irrelevant: list[Uuid] = Field(default_factory=list, max_length=200)

    @model_validator(mode="after")
    def _disjoint(self) -> "FeedbackIn":
        if set(self.relevant) & set(self.irrelevant):
            raise ValueError("a fact is relevant or irrelevant, not both")
        return self


class RecalledOut(Model):
    """A recall by the ids of its facts, for labelling by hand."""

    recall_id: UUID
    user: str
    at: datetime
    facts: list[UUID]
    frozen: bool
    degraded: str | None
    tokens: int
    relevant: list[UUID]
    irrelevant: list[UUID]


class SampleOut(Model):
    """Newest first."""

    items: list[RecalledOut]


@router.post("/v1/users/{user:id}/search", dependencies=[_recall])
async def search_facts(
    user: UserId, body: SearchIn, core: CoreDep, key: CredentialDep
) -> SearchOut:
    """Find facts by meaning and by words."""
    query = search.Query(
        body.query, body.limit, body.kinds, body.as_of, body.include_superseded, body.metadata
    )
    found = await search.search(core, key.tenant_id, user, query)
    return SearchOut(
        items=[
            FoundOut(
                fact=FactOut.of(item.fact, found.at),
                score=item.score,
                vector_score=item.vector_score,
                text_score=item.text_score,
            )
            for item in found.items
        ]
    )


@router.post(
    "/v1/recalls/{recall_id}/feedback",
    status_code=204,
    response_class=Response,
    dependencies=[_recall],
)
async def judge_recall(
    recall_id: RecallId, body: FeedbackIn, core: CoreDep, key: CredentialDep
) -> None:
    """Say which facts of a recall were relevant."""
    await recall_log.judge(
        core.db,
        core.recalls,
        key.tenant_id,
        recall_id,
        relevant=body.relevant,
        irrelevant=body.irrelevant,
    )


@router.get("/v1/recalls/sample", dependencies=[_admin])
async def sample_recalls(
    core: CoreDep, key: CredentialDep, tx: Tx, n: Annotated[int, Query(ge=1, le=200)] = 50
) -> SampleOut:
    """Give recent recalls with the ids of their facts."""
    await core.recalls.write(core.db)
    return SampleOut(
        items=[
            RecalledOut(
                recall_id=item.entry.id,
                user=item.user,
                at=item.entry.at,
                facts=item.entry.facts,
                frozen=item.entry.frozen,
                degraded=item.entry.degraded,
                tokens=item.entry.tokens,
                relevant=item.entry.relevant,
                irrelevant=item.entry.irrelevant,
            )
            for item in await recall_log.sample(tx, key.tenant_id, n)
        ]
    )
