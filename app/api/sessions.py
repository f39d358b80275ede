"""Conversations in: append turns, end, look, retry, delete."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal
from urllib.parse import quote
from uuid import uuid4

from fastapi import APIRouter, Depends, Query, Response
from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError
from sqlalchemy.ext.asyncio import AsyncSession

from app.deps import CoreDep, CredentialDep, KeyedRoute, Needs, Tx
from app.memory import sessions
from app.memory.ingest import IncomingTurn, Receipt, Role, Settle, append_turns
from app.models import Session
from app.once import Once, OnceDep
from app.text import without_surrogates
from app.wire import Id, Limit, Model, SessionId, Time, UserId

MAX_MESSAGES = 200
MAX_MESSAGE_BYTES = 64 * 1024

router = APIRouter(prefix="/v1/users/{user:id}", route_class=KeyedRoute, tags=["sessions"])
_ingest = Depends(Needs("ingest"))
_privacy = Depends(Needs("privacy"))


class Message(BaseModel):
    """One turn, as backends send it: content plain, or as Anthropic's or OpenAI's blocks."""

    model_config = ConfigDict(extra="ignore")

    role: Role
    content: str | list[dict[str, Any]] | None = None
    id: Id | None = None
    created_at: Time | None = None

    @model_validator(mode="before")
    @classmethod
    def _readable(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        content = value.get("content")
        if content is None and value.get("role") == "user":
            raise PydanticCustomError("content_missing", "a user's turn needs content")
        text = _text_of(content)
        if text is not None and len(text.encode("utf-8", "surrogatepass")) > MAX_MESSAGE_BYTES:
            raise PydanticCustomError("message_too_long", "a message has at most 64 KiB of text")
        return {**value, "content": None if text is None else without_surrogates(text)}

    def turn(self) -> IncomingTurn:
        """Give the turn without what only the wire needs."""
        text = self.content if isinstance(self.content, str) else None
        return IncomingTurn(self.role, text, self.id, self.created_at)


def _text_of(content: object) -> str | None:
    """Join the text parts; images, tool results and the rest are not the user's words."""
    if content is None or isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise PydanticCustomError("content_type", "content is a string or a list of blocks")
    parts = []
    for block in content:
        if not isinstance(block, dict):
            raise PydanticCustomError("content_type", "a content block is an object")
        if block.get("type") in {"text", "input_text"}:
            if not isinstance(block.get("text"), str):
                raise PydanticCustomError("content_type", "a text block holds a string")
            parts.append(block["text"])
    return "\n".join(parts)


class _Turns(Model):
    messages: Annotated[list[Message], Field(min_length=1, max_length=MAX_MESSAGES)]
    memory: Literal["on", "off"] | None = None

    def turns(self) -> Sequence[IncomingTurn]:
        return [message.turn() for message in self.messages]


class MessagesIn(_Turns):
    """Turns for a session that goes on, unless `end`."""

    messages: Annotated[list[Message], Field(max_length=MAX_MESSAGES)]
    end: bool = Field(default=False, strict=True)


class TranscriptIn(_Turns):
    """A whole conversation."""

    session: Id | None = None


class ReceiptOut(Model):
    """What was done with the turns."""

    session: str
    status: Literal["open", "queued", "extracting", "done", "failed", "skipped"]
    accepted: int
    ignored: int
    duplicates: int
    extract_after: datetime | None


class FactCounts(Model):
    """What became of the session's candidates."""

    added: int
    confirmed: int
    superseded: int
    quarantined: int
    rejected: dict[str, int]


class SessionOut(Model):
    """A session's state."""

    session: str
    status: Literal["open", "queued", "extracting", "done", "failed"]
    reason: str | None
    attempts: int
    user_turns: int
    facts: FactCounts
    model_calls: int
    input_tokens: int
    output_tokens: int
    started_at: datetime
    last_activity_at: datetime
    extract_after: datetime | None
    extracted_at: datetime | None

    @classmethod
    def of(cls, row: Session) -> "SessionOut":
        """Show a stored session."""
        return cls(
            session=row.external_id,
            status=row.status,
            reason=row.reason,
            attempts=row.attempt,
            user_turns=row.user_turns,
            facts=FactCounts.model_validate(row),
            model_calls=row.model_calls,
            input_tokens=row.input_tokens,
            output_tokens=row.output_tokens,
            started_at=row.created_at,
            last_activity_at=row.last_activity_at,
            extract_after=row.extract_after if row.status in {"open", "queued"} else None,
            extracted_at=row.extracted_at,
        )


class SessionPage(Model):
    """One page of sessions, newest first."""

    items: list[SessionOut]
    next_cursor: str | None


class SessionReceiptOut(Model):
    """What deleting a session did."""

    session: str
    facts_erased: int
    facts_kept: int
    facts_restored: int


_INCOGNITO = {"description": "The session is incognito for good"}


@router.post(
    "/sessions/{session:id}/messages",
    status_code=202,
    dependencies=[_ingest],
    responses={409: _INCOGNITO},
)
async def post_messages(
    user: UserId,
    session: SessionId,
    body: MessagesIn,
    core: CoreDep,
    key: CredentialDep,
    once: OnceDep,
) -> ReceiptOut:
    """Append turns to a session. Only the user's turns are kept."""
    receipt = await append_turns(
        core,
        key.tenant_id,
        user,
        session,
        body.turns(),
        end=body.end,
        memory=body.memory,
        settle=_keeping(once, user),
    )
    return ReceiptOut.model_validate(receipt)


def _keeping(once: Once, user: str, location: str | None = None) -> Settle:
    async def keep(tx: AsyncSession, receipt: Receipt) -> None:
        if receipt.is_incognito:
            return  # sent again, it is done again, to the same effect
        answer = ReceiptOut.model_validate(receipt)
        stored = receipt.status != "skipped"
        await once.keep(tx, user, 202, answer, location=location if stored else None)

    return keep


@router.post(
    "/transcripts",
    status_code=202,
    dependencies=[_ingest],
    responses={
        202: {"headers": {"Location": {"schema": {"type": "string"}}}},
        409: _INCOGNITO,
    },
)
async def post_transcript(
    user: UserId,
    body: TranscriptIn,
    core: CoreDep,
    key: CredentialDep,
    once: OnceDep,
    response: Response,
) -> ReceiptOut:
    """Take in a whole conversation, which has ended."""
    session = body.session or uuid4().hex
    location = f"/v1/users/{quote(user, safe='')}/sessions/{quote(session, safe='')}"
    receipt = await append_turns(
        core,
        key.tenant_id,
        user,
        session,
        body.turns(),
        end=True,
        memory=body.memory,
        settle=_keeping(once, user, location),
    )
    if receipt.status != "skipped":  # a session that was not stored is nowhere
        response.headers["Location"] = location
    return ReceiptOut.model_validate(receipt)


@router.post("/sessions/{session:id}/end", status_code=202, dependencies=[_ingest])
async def end(user: UserId, session: SessionId, key: CredentialDep, tx: Tx) -> ReceiptOut:
    """End a session now."""
    return ReceiptOut.model_validate(await sessions.end_session(tx, key.tenant_id, user, session))


@router.get("/sessions/{session}", dependencies=[_ingest])
async def get_session(
    user: UserId,
    session: SessionId,
    core: CoreDep,
    key: CredentialDep,
    wait: Annotated[float, Query(ge=0, le=30, allow_inf_nan=False)] = 0,
) -> SessionOut:
    """Look at a session, waiting up to `wait` seconds until it is done or failed."""
    row = await sessions.wait_for_session(core, key.tenant_id, user, session, wait)
    return SessionOut.of(row)


@router.get("/sessions", dependencies=[_ingest])
async def list_sessions(
    user: UserId,
    core: CoreDep,
    key: CredentialDep,
    tx: Tx,
    limit: Limit = 50,
    cursor: str | None = None,
) -> SessionPage:
    """List a user's sessions."""
    page = await sessions.list_sessions(tx, core, key.tenant_id, user, limit=limit, after=cursor)
    return SessionPage(
        items=[SessionOut.of(row) for row in page.items], next_cursor=page.next_cursor
    )


@router.post(
    "/sessions/{session:id}/retry",
    status_code=202,
    dependencies=[_ingest],
    responses={409: {"description": "The session has not failed"}},
)
async def retry(user: UserId, session: SessionId, key: CredentialDep, tx: Tx) -> ReceiptOut:
    """Try a failed session again."""
    return ReceiptOut.model_validate(await sessions.retry_session(tx, key.tenant_id, user, session))


@router.delete("/sessions/{session}", dependencies=[_privacy])
async def delete_session(
    user: UserId, session: SessionId, key: CredentialDep, tx: Tx
) -> SessionReceiptOut:
    """Delete a session's turns and what was learned from it alone."""
    return SessionReceiptOut.model_validate(
        await sessions.delete_session(tx, key.tenant_id, user, session, by=key.actor)
    )
