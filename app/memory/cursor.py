"""Keyset cursors: where the next page begins, bound to tenant, user and filter, and signed."""

import base64
import hmac
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Generic, TypeVar
from uuid import UUID

from app.errors import Invalid
from app.models import ApiKey, AuditEntry, Fact, ForgettingEntry, Session

if TYPE_CHECKING:
    from app.memory.core import Core
    from app.memory.forgetting_rules import Due

_MAC = 16


T = TypeVar("T", Fact, Session, AuditEntry, ApiKey, ForgettingEntry, "Due")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a list, newest first; `next_cursor` is None on the last."""

    items: Sequence[T]
    next_cursor: str | None


def page(core: "Core", binding: tuple[str, ...], rows: Sequence[T], limit: int) -> Page[T]:
    """Cut the page out of `limit + 1` rows: the row too many says that there are more."""
    if len(rows) <= limit:
        return Page(rows, None)
    last = rows[limit - 1]
    return Page(rows[:limit], encode(core, binding, last.created_at, last.id))


def encode(core: "Core", binding: tuple[str, ...], created_at: datetime, row_id: UUID | str) -> str:
    """Make the cursor that follows the row of this time and id, for one list alone."""
    name = row_id.hex if isinstance(row_id, UUID) else row_id
    place = f"{created_at.isoformat()}|{name}".encode()
    mac = core.keyed_hash("cursor", *binding, place)[:_MAC]
    return base64.urlsafe_b64encode(mac + place).decode().rstrip("=")


def decode(core: "Core", binding: tuple[str, ...], cursor: str) -> tuple[datetime, UUID]:
    """Read a cursor back. Raises `Invalid` for a broken one or one of another list."""
    at, row_id = decode_text(core, binding, cursor)
    return at, UUID(row_id)


def decode_text(core: "Core", binding: tuple[str, ...], cursor: str) -> tuple[datetime, str]:
    """Read a cursor of a list whose ids are texts. Raises `Invalid` as `decode` does."""
    try:
        raw = base64.b64decode(
            cursor.encode("ascii") + b"=" * (-len(cursor) % 4), altchars=b"-_", validate=True
        )
        mac, place = raw[:_MAC], raw[_MAC:]
        if not hmac.compare_digest(mac, core.keyed_hash("cursor", *binding, place)[:_MAC]):
            raise ValueError
        at, _, row_id = place.decode().partition("|")
        return datetime.fromisoformat(at), row_id
    except (ValueError, UnicodeError):
        raise Invalid("The cursor does not belong to this list.", code="bad_cursor") from None


def binding_of(*parts: object, **filters: object) -> tuple[str, ...]:
    """Name one list: who asks, for whom, and every filter, in a fixed order."""
    return (*map(str, parts), json.dumps(filters, sort_keys=True, default=str))
