"""The audit log: who did what to whom, written in the transaction of the act itself.

No content, and of a user our own random id alone: once the user is erased nobody can tell whose it
was. The service can append and read; what is past the tenant's retention goes by a function of the
database.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID, uuid4

from sqlalchemy import and_, select, text, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from app.db import now
from app.memory import cursor
from app.models import AuditEntry, UserDirectory

if TYPE_CHECKING:
    from app.memory.core import Core

Action = Literal[
    "user_erased",
    "user_exported",
    "user_imported",
    "user_merged",
    "settings_changed",
    "fact_corrected",
    "fact_deleted",
    "fact_restored",
    "facts_forgotten",
    "session_deleted",
    "quarantine_released",
    "quarantine_rejected",
    "quarantine_swept",
    "key_created",
    "key_revoked",
    "key_rotated",
    "policy_changed",
    "page_link_created",
    "page_opened",
    "tenant_created",
    "tenant_exported",
]


async def record(
    tx: AsyncSession,
    tenant_id: UUID,
    by: str,
    action: Action,
    *,
    about: UUID | None = None,
    details: Mapping[str, Any] | None = None,
) -> None:
    """Append an entry in the caller's transaction.

    `by` is `key:<id>`, `page`, `cli`, `root` or `worker:<name>`; `details` are ids, counts and
    settled words, never text of a user nor the caller's own id of one.
    """
    before = tx.info.get("audited", 0)
    tx.info["audited"] = before + 1
    tx.add(
        AuditEntry(
            tenant_id=tenant_id,
            id=uuid4(),
            # One instant each, in the order done: the log is sorted by it.
            created_at=now(tx) + timedelta(microseconds=before),
            actor=by,
            action=action,
            about=about,
            details=dict(details or {}),
        )
    )
    await tx.flush()


@dataclass(frozen=True, slots=True)
class Filter:
    """Which entries; `user` is the caller's own id."""

    user: str | None = None
    action: Action | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Shown:
    """An entry, with the caller's own id of whom it is about while that user exists."""

    entry: AuditEntry
    user: str | None


async def list_entries(
    tx: AsyncSession,
    core: "Core",
    tenant_id: UUID,
    wanted: Filter,
    *,
    limit: int,
    after: str | None,
) -> tuple[Sequence[Shown], str | None]:
    """List a tenant's entries, newest first; those about an unseen user are none."""
    filters = [wanted.user, wanted.action, wanted.since, wanted.until]
    binding = cursor.binding_of("audit log", tenant_id, filters=filters)
    place = cursor.decode(core, binding, after) if after else None
    query = (
        select(AuditEntry, UserDirectory.external_id)
        .outerjoin(
            UserDirectory,
            and_(
                UserDirectory.tenant_id == AuditEntry.tenant_id,
                UserDirectory.user_id == AuditEntry.about,
            ),
        )
        .where(AuditEntry.tenant_id == tenant_id)
    )
    if wanted.user is not None:
        query = query.where(UserDirectory.external_id == wanted.user)
    if wanted.action is not None:
        query = query.where(AuditEntry.action == wanted.action)
    if wanted.since is not None:
        query = query.where(AuditEntry.created_at >= wanted.since)
    if wanted.until is not None:
        query = query.where(AuditEntry.created_at < wanted.until)
    if place:
        query = query.where(tuple_(AuditEntry.created_at, AuditEntry.id) < tuple_(*place))
    query = query.order_by(AuditEntry.created_at.desc(), AuditEntry.id.desc()).limit(limit + 1)
    rows = (await tx.execute(query)).all()
    page = cursor.page(core, binding, [entry for entry, _ in rows], limit)
    return [Shown(entry, user) for entry, user in rows[:limit]], page.next_cursor


async def expire(tx: AsyncSession) -> None:
    """Delete the entered tenant's entries that are past its policy's `audit_retention`."""
    await tx.execute(text("select app.expire_audit_log()"))
