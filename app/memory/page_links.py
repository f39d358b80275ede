"""The way to the user's own page: a link that opens it once, and the browser's session after that.

Tokens hold the tenant and our random id of the user, so that they are looked up like anything else
of the user, and a secret of which only a digest is stored. Both go with their user; links also end
when the user's memory is paused or restricted.
"""

import base64
import hashlib
import secrets
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncSession

from app.db import Scope, now
from app.errors import Gone, Unauthorized
from app.memory import audit_log
from app.memory.core import Core
from app.memory.users import ensure_user, lock_user
from app.models import PageLink, PageSession, UserDirectory

LONGEST: Final = timedelta(minutes=15)
SESSION_LASTS: Final = timedelta(minutes=30)

_SECRET: Final = 24
_LENGTH: Final = 16 + 16 + _SECRET


@dataclass(frozen=True, slots=True)
class Link:
    """A link at the only moment when its token is known."""

    url: str = field(repr=False)
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Visit:
    """A browser on a user's page: whose it is, by our ids and the caller's own."""

    scope: Scope
    user: str
    expires_at: datetime


async def create_link(
    tx: AsyncSession,
    core: Core,
    tenant_id: UUID,
    user: str,
    *,
    expires_in: timedelta = LONGEST,
    by: str,
) -> Link:
    """Make a link to the user's page, creating the user if need be."""
    scope, _ = await ensure_user(tx, tenant_id, user)
    token, digest = _new_token(scope)
    expires_at = now(tx) + min(expires_in, LONGEST)
    tx.add(
        PageLink(
            tenant_id=scope.tenant_id, user_id=scope.user_id, digest=digest, expires_at=expires_at
        )
    )
    await audit_log.record(tx, tenant_id, by, "page_link_created", about=scope.user_id)
    return Link(f"{core.public_url}/me?token={token}", expires_at)


async def consume_link(core: Core, token: str) -> tuple[str, Visit]:
    """Turn a link's token into a session: its cookie's value, and whose it is.

    Raises `Gone` for a token that is no link any more, or never was.
    """
    try:
        scope, digest = _parse(token)
    except ValueError:
        raise _spent() from None
    async with core.db.tenant(scope.tenant_id) as tx:
        # The user's row before the link's, as an erasure locks them: else the two could deadlock.
        if await lock_user(tx, scope, exclusive=False) is None:
            raise _spent()
        spent = await tx.scalar(
            delete(PageLink)
            .where(
                PageLink.tenant_id == scope.tenant_id,
                PageLink.user_id == scope.user_id,
                PageLink.digest == digest,
                PageLink.expires_at > now(tx),
            )
            .returning(PageLink.digest)
        )
        if spent is None:
            raise _spent()
        cookie, kept = _new_token(scope)
        expires_at = now(tx) + SESSION_LASTS
        tx.add(
            PageSession(
                tenant_id=scope.tenant_id, user_id=scope.user_id, digest=kept, expires_at=expires_at
            )
        )
        await audit_log.record(tx, scope.tenant_id, "page", "page_opened", about=scope.user_id)
        return cookie, Visit(scope, await _name(tx, scope), expires_at)


async def find_page_session(core: Core, cookie: str) -> Visit:
    """Give whose page a cookie opens. Raises `Unauthorized` when it opens none any more."""
    try:
        scope, digest = _parse(cookie)
    except ValueError:
        raise _closed() from None
    async with core.db.tenant(scope.tenant_id) as tx:
        expires_at = await tx.scalar(
            select(PageSession.expires_at).where(
                PageSession.tenant_id == scope.tenant_id,
                PageSession.user_id == scope.user_id,
                PageSession.digest == digest,
                PageSession.expires_at > now(tx),
            )
        )
        if expires_at is None:
            raise _closed()
        return Visit(scope, await _name(tx, scope), expires_at)


async def end_page_session(core: Core, cookie: str) -> None:
    """End a session, as when somebody signs out; one that is over already is fine."""
    try:
        scope, digest = _parse(cookie)
    except ValueError:
        return
    async with core.db.tenant(scope.tenant_id) as tx:
        await tx.execute(
            delete(PageSession).where(
                PageSession.tenant_id == scope.tenant_id,
                PageSession.user_id == scope.user_id,
                PageSession.digest == digest,
            )
        )


async def expire(tx: AsyncSession, tenant_id: UUID) -> None:
    """Delete the tenant's links and sessions that are past their time."""
    for table in (PageLink, PageSession):
        await tx.execute(
            delete(table).where(table.tenant_id == tenant_id, table.expires_at <= now(tx))
        )


def _new_token(scope: Scope) -> tuple[str, bytes]:
    secret = secrets.token_bytes(_SECRET)
    raw = scope.tenant_id.bytes + scope.user_id.bytes + secret
    return base64.urlsafe_b64encode(raw).decode().rstrip("="), _digest(secret)


def _parse(token: str) -> tuple[Scope, bytes]:
    raw = base64.b64decode(
        token.encode("ascii") + b"=" * (-len(token) % 4), altchars=b"-_", validate=True
    )
    if len(raw) != _LENGTH:
        raise ValueError("no token of ours")
    return Scope(UUID(bytes=raw[:16]), UUID(bytes=raw[16:32])), _digest(raw[32:])


def _digest(secret: bytes) -> bytes:
    return hashlib.sha256(secret).digest()


async def _name(tx: AsyncSession, scope: Scope) -> str:
    user = await tx.scalar(
        select(UserDirectory.external_id).where(
            UserDirectory.tenant_id == scope.tenant_id, UserDirectory.user_id == scope.user_id
        )
    )
    if user is None:
        raise _closed()
    return user


def _spent() -> Gone:
    return Gone("The link was used, or is past its time: ask for a new one.", code="link_spent")


def _closed() -> Unauthorized:
    return Unauthorized("The page is closed: ask for a new link.", code="page_closed")
