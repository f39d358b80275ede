"""Every table on one page.

Tables about users carry `(tenant_id, user_id, …)` in every primary, unique and foreign key: the
user is the unit of locking, erasing, exporting and, later, of sharding. What is unique in a tenant
stands in tables of its own, without foreign keys to the former. Row-level security is enabled and
forced on every table here; the policies stand in the migrations.
"""

from datetime import date, datetime
from typing import Any, Final
from uuid import UUID

from pgvector.sqlalchemy import HALFVEC
from sqlalchemy import (
    ARRAY,
    BigInteger,
    CheckConstraint,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import TSVECTOR
from sqlalchemy.orm import Mapped, mapped_column

from app.db import Base

_NOW = text("now()")
_OF_USER = ["memory_user.tenant_id", "memory_user.user_id"]


class OfUser:
    """Part of every table about users: the key begins with whose the row is."""

    tenant_id: Mapped[UUID] = mapped_column(primary_key=True, sort_order=-2)
    user_id: Mapped[UUID] = mapped_column(primary_key=True, sort_order=-1)


class Tenant(Base):
    """A customer of the service."""

    __tablename__ = "tenant"

    id: Mapped[UUID] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    created_at: Mapped[datetime] = mapped_column(server_default=_NOW)


class ApiKey(Base):
    """A credential. Only a digest of its secret is stored."""

    __tablename__ = "api_key"

    tenant_id: Mapped[UUID] = mapped_column(
        ForeignKey("tenant.id", ondelete="CASCADE"), primary_key=True
    )
    id: Mapped[str] = mapped_column(primary_key=True)
    digest: Mapped[bytes]
    scopes: Mapped[list[str]]
    bound_to: Mapped[str | None]
    created_at: Mapped[datetime] = mapped_column(server_default=_NOW)
    expires_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]
    last_four: Mapped[str | None]
    last_used_at: Mapped[datetime | None]


class WorkerState(Base):
    """How a worker's process found the model when last heard of; of no tenant."""

    __tablename__ = "worker_state"

    id: Mapped[UUID] = mapped_column(primary_key=True)
    seen_at: Mapped[datetime] = mapped_column(server_default=_NOW)
    model: Mapped[str]


class TenantPolicy(Base):
    """What a tenant decided, where it differs from the defaults or did once."""

    __tablename__ = "tenant_policy"

    tenant_id: Mapped[UUID] = mapped_column(
        ForeignKey("tenant.id", ondelete="CASCADE"), primary_key=True
    )
    policy: Mapped[dict[str, Any]]


class Usage(Base):
    """A count of one day: sessions, facts by what became of them, tokens."""

    __tablename__ = "tenant_usage"

    tenant_id: Mapped[UUID] = mapped_column(
        ForeignKey("tenant.id", ondelete="CASCADE"), primary_key=True
    )
    day: Mapped[date] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    count: Mapped[int] = mapped_column(BigInteger)


class UserDirectory(Base):
    """Which random id stands for the caller's own user id. Erasing the row unnames the rest.

    `here_since` is this database's own time, whatever first day an import brought along; null for
    those who came before it was kept.
    """

    __tablename__ = "user_directory"
    __table_args__ = (Index("ix_user_directory_user", "tenant_id", "user_id"),)

    tenant_id: Mapped[UUID] = mapped_column(primary_key=True)
    external_id: Mapped[str] = mapped_column(primary_key=True)
    user_id: Mapped[UUID]
    here_since: Mapped[datetime | None] = mapped_column(server_default=_NOW)


class User(Base):
    """A person remembered. A lock on this row orders all writes to the person's facts.

    `epoch` moves when frozen blocks must go; `revision` with every exclusive lock: what a process
    holds of the person in memory is then old. Neither fences a running extraction: its session's
    status and `attempt` do.
    """

    __tablename__ = "memory_user"
    __table_args__ = (CheckConstraint("memory in ('on', 'paused', 'restricted')", name="memory"),)

    tenant_id: Mapped[UUID] = mapped_column(
        ForeignKey("tenant.id", ondelete="CASCADE"), primary_key=True
    )
    user_id: Mapped[UUID] = mapped_column(primary_key=True)
    memory: Mapped[str] = mapped_column(server_default="on")
    locale: Mapped[str | None]
    timezone: Mapped[str | None]
    epoch: Mapped[int] = mapped_column(server_default="0")
    revision: Mapped[int] = mapped_column(server_default="0")
    created_at: Mapped[datetime] = mapped_column(server_default=_NOW)


class Session(OfUser, Base):
    """A conversation. `attempt` fences extraction: a commit must still hold the claimed number."""

    __tablename__ = "memory_session"
    __table_args__ = (
        ForeignKeyConstraint(["tenant_id", "user_id"], _OF_USER, ondelete="CASCADE"),
        CheckConstraint(
            "status in ('open', 'queued', 'extracting', 'done', 'failed')", name="status"
        ),
        Index("uq_memory_session_external_id", "tenant_id", "user_id", "external_id", unique=True),
        Index("ix_memory_session_newest", "tenant_id", "user_id", "created_at", "id"),
        Index(
            "ix_memory_session_overdue",
            "extract_after",
            postgresql_where=text("status in ('open', 'queued', 'extracting')"),
        ),
        Index(
            "ix_memory_session_pending",
            "tenant_id",
            "user_id",
            postgresql_where=text("status <> 'done'"),
        ),
    )

    id: Mapped[UUID] = mapped_column(primary_key=True)
    external_id: Mapped[str]
    status: Mapped[str] = mapped_column(server_default="open")
    reason: Mapped[str | None]
    ended: Mapped[bool] = mapped_column(server_default="false")
    attempt: Mapped[int] = mapped_column(server_default="0")
    failures: Mapped[int] = mapped_column(server_default="0")
    user_turns: Mapped[int] = mapped_column(server_default="0")
    added: Mapped[int] = mapped_column(server_default="0")
    confirmed: Mapped[int] = mapped_column(server_default="0")
    superseded: Mapped[int] = mapped_column(server_default="0")
    quarantined: Mapped[int] = mapped_column(server_default="0")
    rejected: Mapped[dict[str, int]] = mapped_column(server_default="{}")
    model_calls: Mapped[int] = mapped_column(server_default="0")
    input_tokens: Mapped[int] = mapped_column(server_default="0")
    output_tokens: Mapped[int] = mapped_column(server_default="0")
    created_at: Mapped[datetime] = mapped_column(server_default=_NOW)
    opened_at: Mapped[datetime] = mapped_column(server_default=_NOW)
    last_activity_at: Mapped[datetime] = mapped_column(server_default=_NOW)
    extract_after: Mapped[datetime | None]
    extracted_at: Mapped[datetime | None]


class Message(OfUser, Base):
    """A turn of the user, scrubbed. Other roles are never stored.

    It waits until `extracted_at`; then it goes, at once or when the tenant's policy says.
    """

    __tablename__ = "message"
    __table_args__ = (
        Index(
            "ix_message_extracted",
            "tenant_id",
            "extracted_at",
            postgresql_where=text("extracted_at is not null"),
        ),
        ForeignKeyConstraint(
            ["tenant_id", "user_id", "session_id"],
            ["memory_session.tenant_id", "memory_session.user_id", "memory_session.id"],
            ondelete="CASCADE",
        ),
    )

    session_id: Mapped[UUID] = mapped_column(primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    external_id: Mapped[str | None]
    text: Mapped[str]
    said_at: Mapped[datetime]
    created_at: Mapped[datetime] = mapped_column(server_default=_NOW)
    extracted_at: Mapped[datetime | None]


class SeenMessage(OfUser, Base):
    """Keyed hash of a message id: a known one is a duplicate, also after its text is gone."""

    __tablename__ = "seen_message"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant_id", "user_id", "session_id"],
            ["memory_session.tenant_id", "memory_session.user_id", "memory_session.id"],
            ondelete="CASCADE",
        ),
    )

    session_id: Mapped[UUID] = mapped_column(primary_key=True)
    digest: Mapped[bytes] = mapped_column(primary_key=True)
    seen_at: Mapped[datetime] = mapped_column(server_default=_NOW)


class IncognitoSession(OfUser, Base):
    """Keyed hash of a session that must leave no trace: nothing is ever stored for it."""

    __tablename__ = "incognito_session"
    __table_args__ = (ForeignKeyConstraint(["tenant_id", "user_id"], _OF_USER, ondelete="CASCADE"),)

    digest: Mapped[bytes] = mapped_column(primary_key=True)
    created_at: Mapped[datetime] = mapped_column(server_default=_NOW)


LIVE: Final = "superseded_at is null and quarantined_at is null and forgotten_at is null"
"""Of a fact, in SQL: whether it holds, unless it has expired."""


class Fact(OfUser, Base):
    """One durable statement of the user. Never updated into another text: superseded instead.

    `slot` is the subject of which only one live fact may exist, or null where several may; it and
    `fingerprint` are unique among live facts, so no race leaves two. `words` are search lexemes.
    """

    __tablename__ = "memory_fact"
    __table_args__ = (
        ForeignKeyConstraint(["tenant_id", "user_id"], _OF_USER, ondelete="CASCADE"),
        CheckConstraint("kind in ('preference', 'constraint', 'profile', 'goal')", name="kind"),
        CheckConstraint("source in ('transcript', 'api', 'page', 'mcp', 'import')", name="source"),
        CheckConstraint("char_length(text) between 1 and 200", name="text"),
        CheckConstraint("(embedding is null) = (embedding_model is null)", name="embedding"),
        Index(
            "uq_memory_fact_live_fingerprint",
            "tenant_id",
            "user_id",
            "fingerprint",
            unique=True,
            postgresql_where=text(LIVE),
        ),
        Index(
            "uq_memory_fact_live_slot",
            "tenant_id",
            "user_id",
            "slot",
            unique=True,
            postgresql_where=text(LIVE),
        ),
        Index("ix_memory_fact_newest", "tenant_id", "user_id", "created_at", "id"),
        Index(
            "ix_memory_fact_quarantine",
            "tenant_id",
            "created_at",
            "id",
            postgresql_where=text("quarantined_at is not null"),
        ),
    )

    id: Mapped[UUID] = mapped_column(primary_key=True)
    text: Mapped[str]
    kind: Mapped[str]
    subject: Mapped[str]
    slot: Mapped[str | None]
    fingerprint: Mapped[bytes]
    words: Mapped[str] = mapped_column(TSVECTOR)
    embedding: Mapped[Any | None] = mapped_column(HALFVEC())
    embedding_model: Mapped[str | None]
    source: Mapped[str]
    source_session_id: Mapped[UUID | None]
    source_message_id: Mapped[str | None]
    source_quote: Mapped[str | None]
    extractor: Mapped[str | None]
    guard_version: Mapped[int]
    said_at: Mapped[datetime]
    valid_from: Mapped[datetime | None]
    valid_to: Mapped[datetime | None]
    created_at: Mapped[datetime] = mapped_column(server_default=_NOW)
    last_confirmed_at: Mapped[datetime]
    confirmations: Mapped[int] = mapped_column(server_default="0")
    last_recalled_at: Mapped[datetime | None]
    expires_at: Mapped[datetime | None]
    pinned: Mapped[bool] = mapped_column(server_default="false")
    superseded_at: Mapped[datetime | None]
    superseded_by: Mapped[UUID | None]
    quarantined_at: Mapped[datetime | None]
    quarantine_reason: Mapped[str | None]
    forgotten_at: Mapped[datetime | None]
    # The attribute can't be called `metadata`: SQLAlchemy owns that name.
    extra: Mapped[dict[str, Any]] = mapped_column("metadata", server_default="{}")
    revision: Mapped[int] = mapped_column(server_default="1")


def _fact_key(column: str = "fact_id", name: str | None = None) -> ForeignKeyConstraint:
    return ForeignKeyConstraint(
        ["tenant_id", "user_id", column],
        ["memory_fact.tenant_id", "memory_fact.user_id", "memory_fact.id"],
        ondelete="CASCADE",
        name=name,
    )


class NewVector(OfUser, Base):
    """A fact's vector by a new model, until all of the user's facts have one."""

    __tablename__ = "new_vector"
    __table_args__ = (_fact_key(),)

    fact_id: Mapped[UUID] = mapped_column(primary_key=True)
    embedding: Mapped[Any] = mapped_column(HALFVEC())
    embedding_model: Mapped[str]


class Evidence(OfUser, Base):
    """Where the user said it: session, message and the quote that code found there.

    `merged_from` names the fact that it came with, where that one went into another.
    """

    __tablename__ = "evidence"
    __table_args__ = (
        _fact_key(),
        Index("ix_evidence_session", "tenant_id", "user_id", "session_id"),
        Index("ix_evidence_fact", "tenant_id", "user_id", "fact_id"),
    )

    id: Mapped[UUID] = mapped_column(primary_key=True)
    fact_id: Mapped[UUID]
    session_id: Mapped[UUID | None]
    message_id: Mapped[str | None]
    quote: Mapped[str]
    said_at: Mapped[datetime]
    created_at: Mapped[datetime] = mapped_column(server_default=_NOW)
    merged_from: Mapped[UUID | None]


class FactVerdict(OfUser, Base):
    """What a judge decided of two facts, and whether a person overturned it."""

    __tablename__ = "verdict"
    __table_args__ = (
        _fact_key("old_id", "fk_verdict_old"),
        _fact_key("new_id", "fk_verdict_new"),
        CheckConstraint("verdict in ('CONTRADICTS', 'DUPLICATE', 'INDEPENDENT')", name="verdict"),
        Index("ix_verdict_old", "tenant_id", "user_id", "old_id"),
        Index("ix_verdict_new", "tenant_id", "user_id", "new_id"),
    )

    id: Mapped[UUID] = mapped_column(primary_key=True)
    old_id: Mapped[UUID]
    new_id: Mapped[UUID | None]
    verdict: Mapped[str]
    reason: Mapped[str]
    judge: Mapped[str]
    at: Mapped[datetime] = mapped_column(server_default=_NOW)
    overturned_at: Mapped[datetime | None]


class FactEvent(OfUser, Base):
    """What happened to a fact, append-only: the source of history and of undo. Holds no text.

    `status`, `valid_to` and `expires_at` are the fact's from then on, so that the newest event
    before an instant tells what was believed. `n` orders the events of one transaction.
    """

    __tablename__ = "fact_event"
    __table_args__ = (
        _fact_key(),
        CheckConstraint(
            "status in ('live', 'superseded', 'quarantined', 'forgotten')", name="status"
        ),
        Index("ix_fact_event_fact", "tenant_id", "user_id", "fact_id", "at", "n"),
    )

    id: Mapped[UUID] = mapped_column(primary_key=True)
    fact_id: Mapped[UUID]
    at: Mapped[datetime] = mapped_column(server_default=_NOW)
    n: Mapped[int]
    what: Mapped[str]
    by: Mapped[str]
    status: Mapped[str]
    valid_to: Mapped[datetime | None]
    expires_at: Mapped[datetime | None]


class Unlearned(OfUser, Base):
    """Keyed hash of words that the user had deleted: they are not learned again."""

    __tablename__ = "unlearned"
    __table_args__ = (ForeignKeyConstraint(["tenant_id", "user_id"], _OF_USER, ondelete="CASCADE"),)

    digest: Mapped[bytes] = mapped_column(primary_key=True)
    at: Mapped[datetime] = mapped_column(server_default=_NOW)


class IdempotencyKey(Base):
    """A request's key, as a keyed hash, and the answer kept for it.

    `status` is null while the request is at work, 410 once what it stood for was erased.
    """

    __tablename__ = "idempotency_key"
    __table_args__ = (Index("ix_idempotency_key_user", "tenant_id", "user_id"),)

    tenant_id: Mapped[UUID] = mapped_column(
        ForeignKey("tenant.id", ondelete="CASCADE"), primary_key=True
    )
    digest: Mapped[bytes] = mapped_column(primary_key=True)
    body_digest: Mapped[bytes]
    user_id: Mapped[UUID | None]
    fact_id: Mapped[UUID | None]
    status: Mapped[int | None]
    answer: Mapped[dict[str, Any] | None]
    created_at: Mapped[datetime] = mapped_column(server_default=_NOW)


class FrozenBlock(OfUser, Base):
    """A session's first block, kept for a day. Valid only while the epochs still match."""

    __tablename__ = "frozen_block"
    __table_args__ = (ForeignKeyConstraint(["tenant_id", "user_id"], _OF_USER, ondelete="CASCADE"),)

    session: Mapped[str] = mapped_column(primary_key=True)
    epoch: Mapped[int]
    organization_epoch: Mapped[int]
    answer: Mapped[dict[str, Any]]
    created_at: Mapped[datetime] = mapped_column(server_default=_NOW)


class RecallEntry(OfUser, Base):
    """A recall by ids and counts, without a word of it, and what people thought of its facts."""

    __tablename__ = "recall_log"
    __table_args__ = (
        ForeignKeyConstraint(["tenant_id", "user_id"], _OF_USER, ondelete="CASCADE"),
        Index("ix_recall_log_at", "tenant_id", "at"),
        Index("ix_recall_log_id", "tenant_id", "id"),
    )

    id: Mapped[UUID] = mapped_column(primary_key=True)
    at: Mapped[datetime]
    facts: Mapped[list[UUID]] = mapped_column(ARRAY(Uuid))
    frozen: Mapped[bool]
    degraded: Mapped[str | None]
    tokens: Mapped[int]
    relevant: Mapped[list[UUID]] = mapped_column(ARRAY(Uuid), server_default="{}")
    irrelevant: Mapped[list[UUID]] = mapped_column(ARRAY(Uuid), server_default="{}")
    judged_at: Mapped[datetime | None]


class MemoryFile(OfUser, Base):
    """A file that a model keeps through the memory tool, or a directory: one without content."""

    __tablename__ = "memory_file"
    __table_args__ = (
        ForeignKeyConstraint(["tenant_id", "user_id"], _OF_USER, ondelete="CASCADE"),
        CheckConstraint("octet_length(path) between 11 and 1024", name="path"),
        CheckConstraint("octet_length(content) <= 102400", name="content"),
    )

    path: Mapped[str] = mapped_column(primary_key=True)
    content: Mapped[str | None]
    revision: Mapped[int] = mapped_column(server_default="1")
    created_at: Mapped[datetime] = mapped_column(server_default=_NOW)
    updated_at: Mapped[datetime] = mapped_column(server_default=_NOW)


class ForgettingNight(Base):
    """Where a tenant's latest night of forgetting stands: one a day (UTC), by one clock."""

    __tablename__ = "forgetting_night"

    tenant_id: Mapped[UUID] = mapped_column(
        ForeignKey("tenant.id", ondelete="CASCADE"), primary_key=True
    )
    day: Mapped[date]
    started_at: Mapped[datetime] = mapped_column(server_default=_NOW)
    finished_at: Mapped[datetime | None]


class ForgettingEntry(OfUser, Base):
    """A fact that was let go, or would have been, and by which rule. The fact may be gone."""

    __tablename__ = "forgetting_log"
    __table_args__ = (
        ForeignKeyConstraint(["tenant_id", "user_id"], _OF_USER, ondelete="CASCADE"),
        Index("ix_forgetting_log_newest", "tenant_id", "created_at", "id"),
        Index(
            "uq_forgetting_log_dry_run",
            "tenant_id",
            "user_id",
            "day",
            "fact_id",
            unique=True,
            postgresql_where=text("dry_run"),
        ),
    )

    id: Mapped[UUID] = mapped_column(primary_key=True)
    fact_id: Mapped[UUID]
    rule: Mapped[str]
    dry_run: Mapped[bool]
    day: Mapped[date]
    created_at: Mapped[datetime] = mapped_column(server_default=_NOW)


class AuditEntry(Base):
    """Who did what to whom, append-only. `about` is our random id of the user: erasing unnames it.

    Not a table about users: an entry stays when its user goes.
    """

    __tablename__ = "audit_log"
    __table_args__ = (
        Index("ix_audit_log_newest", "tenant_id", "created_at", "id"),
        Index("ix_audit_log_about", "tenant_id", "about", "created_at", "id"),
    )

    tenant_id: Mapped[UUID] = mapped_column(
        ForeignKey("tenant.id", ondelete="CASCADE"), primary_key=True
    )
    id: Mapped[UUID] = mapped_column(primary_key=True)
    created_at: Mapped[datetime] = mapped_column(server_default=_NOW)
    actor: Mapped[str]
    action: Mapped[str]
    about: Mapped[UUID | None]
    details: Mapped[dict[str, Any]] = mapped_column(server_default="{}")


class Erasure(Base):
    """An erasure that this database has seen, append-only; what the ledger is held against.

    `subject_hash` is a keyed hash of whose data went; `merged_into` of to whom, where it was moved.
    No foreign key: it outlives its tenant.
    """

    __tablename__ = "erasure"
    __table_args__ = (Index("ix_erasure_newest", "tenant_id", "erased_at", "id"),)

    tenant_id: Mapped[UUID] = mapped_column(primary_key=True)
    id: Mapped[UUID] = mapped_column(primary_key=True)
    subject_hash: Mapped[bytes]
    erased_at: Mapped[datetime]
    merged_into: Mapped[bytes | None]


class PageLink(OfUser, Base):
    """A link to the user's own page, to be used once. Only a digest of its secret is stored."""

    __tablename__ = "page_link"
    __table_args__ = (ForeignKeyConstraint(["tenant_id", "user_id"], _OF_USER, ondelete="CASCADE"),)

    digest: Mapped[bytes] = mapped_column(primary_key=True)
    expires_at: Mapped[datetime]


class PageSession(OfUser, Base):
    """A browser on the user's own page. Only a digest of its cookie's secret is stored."""

    __tablename__ = "page_session"
    __table_args__ = (ForeignKeyConstraint(["tenant_id", "user_id"], _OF_USER, ondelete="CASCADE"),)

    digest: Mapped[bytes] = mapped_column(primary_key=True)
    expires_at: Mapped[datetime]
