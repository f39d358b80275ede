"""What an export holds: each table's part, one entry of `TABLES`.

A test fails when a table that can hold personal data has no entry here, nor a reason there.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, get_args
from uuid import UUID

from sqlalchemy import ColumnElement, Select, and_, bindparam, case, func, select

from app.db import Base
from app.memory.covered import covered, covered_quote
from app.memory.view import Status, with_status
from app.models import (
    ApiKey,
    AuditEntry,
    Evidence,
    Fact,
    FactEvent,
    FactVerdict,
    ForgettingEntry,
    FrozenBlock,
    IdempotencyKey,
    MemoryFile,
    Message,
    RecallEntry,
    Session,
    User,
    UserDirectory,
)

_TENANT: ColumnElement[UUID] = bindparam("tenant_id")
_USER: ColumnElement[UUID] = bindparam("user_id")
_NAME: ColumnElement[str] = bindparam("user")
_AT: Any = func.now()


@dataclass(frozen=True, slots=True)
class Table:
    """One table's part of an export: its name there, of a line and of them all, and its rows."""

    record: str
    group: str
    model: type[Base]
    rows: Select[*tuple[Any, ...]]
    told: Callable[[Mapping[Any, Any]], dict[str, Any]] = dict
    """Gives a row as it is told."""


def _covered(row: Mapping[Any, Any]) -> dict[str, Any]:
    told = dict(row)
    version = told.pop("guard_version", 0)
    for name in ("text", "subject", "metadata"):
        if name in told:
            told[name] = covered(told[name], version)
    for name in ("quote", "reason"):
        if told.get(name) is not None:
            told[name] = covered_quote(told[name])
    return told


def _of_user(model: Any, *fields: Any) -> Select[Any]:
    return select(*fields).where(model.tenant_id == _TENANT, model.user_id == _USER)


def _session_of(model: Any, session_id: Any) -> tuple[type[Session], ColumnElement[bool]]:
    return Session, and_(
        Session.tenant_id == model.tenant_id,
        Session.user_id == model.user_id,
        Session.id == session_id,
    )


_STATUS: Final = case(*((with_status(status, _AT), status) for status in get_args(Status))).label(
    "status"
)

TABLES: Final = (
    Table(
        "session",
        "sessions",
        Session,
        _of_user(
            Session,
            Session.external_id.label("session"),
            Session.status,
            Session.reason,
            Session.ended,
            Session.attempt.label("attempts"),
            Session.user_turns,
            Session.added,
            Session.confirmed,
            Session.superseded,
            Session.quarantined,
            Session.rejected,
            Session.model_calls,
            Session.input_tokens,
            Session.output_tokens,
            Session.created_at.label("started_at"),
            Session.opened_at,
            Session.last_activity_at,
            Session.extract_after,
            Session.extracted_at,
        ).order_by(Session.created_at, Session.id),
    ),
    Table(
        "turn",
        "turns",
        Message,
        _of_user(
            Message,
            Session.external_id.label("session"),
            Message.position,
            Message.external_id.label("message_id"),
            Message.text,
            Message.said_at,
            Message.created_at,
            Message.extracted_at,
        )
        .join(*_session_of(Message, Message.session_id))
        .order_by(Session.created_at, Message.session_id, Message.position),
    ),
    Table(
        "fact",
        "facts",
        Fact,
        _of_user(
            Fact,
            Fact.id,
            Fact.text,
            Fact.kind,
            Fact.subject,
            _STATUS,
            Fact.source,
            Session.external_id.label("session"),
            Fact.source_message_id.label("message_id"),
            Fact.source_quote.label("quote"),
            Fact.extractor,
            Fact.said_at,
            Fact.valid_from,
            Fact.valid_to,
            Fact.created_at,
            Fact.last_confirmed_at,
            Fact.confirmations,
            Fact.last_recalled_at,
            Fact.expires_at,
            Fact.pinned,
            Fact.superseded_at,
            Fact.superseded_by,
            Fact.quarantined_at,
            Fact.quarantine_reason,
            Fact.forgotten_at,
            Fact.extra.label("metadata"),
            Fact.revision,
            Fact.guard_version,
        )
        .outerjoin(*_session_of(Fact, Fact.source_session_id))
        .order_by(Fact.created_at, Fact.id),
        _covered,
    ),
    Table(
        "evidence",
        "evidence",
        Evidence,
        _of_user(
            Evidence,
            Evidence.fact_id.label("fact"),
            Session.external_id.label("session"),
            Evidence.message_id,
            Evidence.quote,
            Evidence.said_at,
            Evidence.created_at,
            Evidence.merged_from,
        )
        .outerjoin(*_session_of(Evidence, Evidence.session_id))
        .order_by(Evidence.created_at, Evidence.said_at, Evidence.quote, Evidence.id),
        _covered,
    ),
    Table(
        "verdict",
        "verdicts",
        FactVerdict,
        _of_user(
            FactVerdict,
            FactVerdict.old_id.label("old"),
            FactVerdict.new_id.label("new"),
            FactVerdict.verdict,
            FactVerdict.reason,
            FactVerdict.judge,
            FactVerdict.at,
            FactVerdict.overturned_at,
        ).order_by(FactVerdict.at, FactVerdict.id),
        _covered,
    ),
    Table(
        "event",
        "events",
        FactEvent,
        _of_user(
            FactEvent,
            FactEvent.fact_id.label("fact"),
            FactEvent.at,
            FactEvent.n,
            FactEvent.what,
            FactEvent.by,
            FactEvent.status,
            FactEvent.valid_to,
            FactEvent.expires_at,
        ).order_by(FactEvent.at, FactEvent.n, FactEvent.id),
    ),
    Table(
        "file",
        "files",
        MemoryFile,
        _of_user(
            MemoryFile,
            MemoryFile.path,
            MemoryFile.content,
            MemoryFile.revision,
            MemoryFile.created_at,
            MemoryFile.updated_at,
        ).order_by(MemoryFile.path),
    ),
    Table(
        "forgetting",
        "forgettings",
        ForgettingEntry,
        _of_user(
            ForgettingEntry,
            ForgettingEntry.fact_id.label("fact"),
            ForgettingEntry.rule,
            ForgettingEntry.dry_run,
            ForgettingEntry.day,
            ForgettingEntry.created_at.label("at"),
        ).order_by(ForgettingEntry.created_at, ForgettingEntry.id),
    ),
    Table(
        "block",
        "blocks",
        FrozenBlock,
        _of_user(
            FrozenBlock, FrozenBlock.session, FrozenBlock.created_at, FrozenBlock.answer
        ).order_by(FrozenBlock.created_at, FrozenBlock.session),
    ),
    Table(
        "recall",
        "recalls",
        RecallEntry,
        _of_user(
            RecallEntry,
            RecallEntry.id,
            RecallEntry.at,
            RecallEntry.facts,
            RecallEntry.frozen,
            RecallEntry.degraded,
            RecallEntry.tokens,
            RecallEntry.relevant,
            RecallEntry.irrelevant,
            RecallEntry.judged_at,
        ).order_by(RecallEntry.at, RecallEntry.id),
    ),
    Table(
        "answer",
        "answers",
        IdempotencyKey,
        _of_user(
            IdempotencyKey, IdempotencyKey.created_at, IdempotencyKey.status, IdempotencyKey.answer
        ).order_by(IdempotencyKey.created_at, IdempotencyKey.digest),
    ),
    Table(
        "key",
        "keys",
        ApiKey,
        select(
            ApiKey.id,
            ApiKey.last_four,
            ApiKey.scopes,
            ApiKey.created_at,
            ApiKey.expires_at,
            ApiKey.revoked_at,
            ApiKey.last_used_at,
        )
        .where(ApiKey.tenant_id == _TENANT, ApiKey.bound_to == _NAME)
        .order_by(ApiKey.created_at, ApiKey.id),
    ),
    Table(
        "audit",
        "audit",
        AuditEntry,
        select(
            AuditEntry.id,
            AuditEntry.created_at.label("at"),
            AuditEntry.actor.label("by"),
            AuditEntry.action,
            AuditEntry.details,
        )
        .where(AuditEntry.tenant_id == _TENANT, AuditEntry.about == _USER)
        .order_by(AuditEntry.created_at, AuditEntry.id),
    ),
)

IN_HEADER: Final = (UserDirectory, User)
"""Tables whose row of the person is the file's first line."""
