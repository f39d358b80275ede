"""Recall: one call gives the block for the next prompt."""

import hashlib
import re
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from app.deps import CoreDep, CredentialDep, KeyedRoute, Needs
from app.memory.recall import DEFAULT_BUDGET, Question, Recall, recall
from app.wire import Id, Kind, Line, Model, UserId

MAX_GET_QUERY = 2 * 1024
MAX_POST_QUERY = 32 * 1024

router = APIRouter(prefix="/v1/users/{user:id}", route_class=KeyedRoute, tags=["memory"])
_recall = Depends(Needs("recall"))
_QUALITY = re.compile(r"\bq\s*=\s*([01](?:\.[0-9]{0,3})?)")


def _at_most(limit: int) -> AfterValidator:
    def check(query: str) -> str:
        if len(query.encode()) > limit:
            raise PydanticCustomError(
                "query_too_long", "a query has at most {limit} bytes here", {"limit": limit}
            )
        return query

    return AfterValidator(check)


Budget = Annotated[int, Field(ge=100, le=4000)]


class RecallIn(Model):
    """What a caller asks for."""

    query: Annotated[Line, _at_most(MAX_POST_QUERY)] = ""
    session: Id | None = None
    token_budget: Annotated[int, Field(ge=100, le=4000, strict=True)] = DEFAULT_BUDGET
    refresh: bool = Field(default=False, strict=True)


class CacheControl(Model):
    """Anthropic's mark for a cached prefix."""

    type: Literal["ephemeral"] = "ephemeral"


class SystemBlock(Model):
    """A block for Anthropic's `system`, after the caller's own instructions."""

    type: Literal["text"] = "text"
    text: str
    cache_control: CacheControl | None = None


class RecalledFactOut(Model):
    """A fact in the block."""

    id: UUID
    tier: Literal["organization", "always_on", "similarity"]
    kind: Kind
    text: str
    score: float | None


class LeftOut(Model):
    """How many facts of each tier matched but did not fit."""

    organization: int
    always_on: int
    similarity: int


class RecallOut(Model):
    """The block, in every form a caller may need."""

    block: str
    stable: str
    volatile: str
    system: list[SystemBlock]
    facts: list[RecalledFactOut]
    recall_id: UUID
    tokens: int
    left_out: LeftOut
    frozen: bool
    degraded: Literal["embedder", "deadline", "text_search"] | None
    pending_sessions: int
    memory: Literal["on", "paused", "restricted"]


def _shown(answer: Recall) -> dict[str, Any]:
    system: list[dict[str, Any]] = []
    if answer.block:
        system = [
            {"type": "text", "text": answer.stable, "cache_control": {"type": "ephemeral"}},
            {"type": "text", "text": answer.volatile},
        ]
    return {
        "block": answer.block,
        "stable": answer.stable,
        "volatile": answer.volatile,
        "system": system,
        "facts": [
            {
                "id": str(fact.id),
                "tier": fact.tier,
                "kind": fact.kind,
                "text": fact.text,
                "score": fact.score,
            }
            for fact in answer.facts
        ],
        "recall_id": str(answer.recall_id),
        "tokens": answer.tokens,
        "left_out": answer.left_out,
        "frozen": answer.frozen,
        "degraded": answer.degraded,
        "pending_sessions": answer.pending_sessions,
        "memory": answer.memory,
    }


def etag_of(block: str) -> str:
    """Give the weak tag of a block's bytes."""
    return f'W/"{hashlib.sha256(block.encode()).hexdigest()[:32]}"'


def _matches(header: str | None, etag: str) -> bool:
    if header is None:
        return False
    opaque = etag.removeprefix("W/")
    return any(
        tag.strip() == "*" or tag.strip().removeprefix("W/") == opaque for tag in header.split(",")
    )


def _prefers_text(accept: str) -> bool:
    """Tell whether plain text is asked for by name, and no less than JSON is."""
    wishes: dict[str, float] = {}
    for part in accept.lower().split(","):
        media_type, _, parameters = part.partition(";")
        quality = _QUALITY.search(parameters)
        wishes.setdefault(media_type.strip(), float(quality[1]) if quality else 1.0)
    text = wishes.get("text/plain", 0.0)
    return text > 0 and text >= wishes.get("application/json", 0.0)


def _respond(request: Request, answer: Recall, if_none_match: str | None = None) -> Response:
    etag = etag_of(answer.block)
    headers = {"ETag": etag, "Vary": "Accept", "Cache-Control": "private, no-store"}
    if _matches(if_none_match, etag):
        return Response(status_code=304, headers=headers)
    if _prefers_text(request.headers.get("accept", "")):
        return PlainTextResponse(answer.block, headers=headers)
    # Already of the right shape: validating it again would cost as much as the database.
    return JSONResponse(_shown(answer), headers=headers)


_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {
        "model": RecallOut,
        "content": {"text/plain": {"schema": {"type": "string"}}},
        "headers": {"ETag": {"schema": {"type": "string"}}},
    },
}
_NOT_MODIFIED: dict[int | str, dict[str, Any]] = {304: {"description": "The same block as before"}}


@router.get("/memory", dependencies=[_recall], responses={**_ANSWERS, **_NOT_MODIFIED})
async def get_memory(
    request: Request,
    user: UserId,
    core: CoreDep,
    key: CredentialDep,
    query: Annotated[Line, _at_most(MAX_GET_QUERY), Query()] = "",
    session: Annotated[Id | None, Query()] = None,
    token_budget: Annotated[Budget, Query()] = DEFAULT_BUDGET,
    refresh: Annotated[bool, Query()] = False,  # noqa: FBT002 - a query parameter
    if_none_match: Annotated[str | None, Header()] = None,
) -> Response:
    """Give the block for the next prompt."""
    question = Question(query, session, token_budget, refresh)
    answer = await recall(core, key.tenant_id, user, question)
    return _respond(request, answer, if_none_match)


@router.post("/memory", dependencies=[_recall], responses=_ANSWERS)
async def post_memory(
    request: Request, user: UserId, body: RecallIn, core: CoreDep, key: CredentialDep
) -> Response:
    """Give the block, for a query that is too long or too private for a URL."""
    question = Question(body.query, body.session, body.token_budget, body.refresh)
    return _respond(request, await recall(core, key.tenant_id, user, question))
