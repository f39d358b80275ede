"""Tenants and their API keys.

A key reads `um_<id>_<secret>`. The id holds the tenant, so that row-level security holds even for
the look-up; the secret has 192 random bits and a checksum, and only its SHA-256 is stored: for a
secret of that size a slow hash would add nothing.
"""

import hashlib
import hmac
import re
import secrets
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final
from uuid import UUID, uuid4

from sqlalchemy import ColumnElement, and_, func, or_, select, tuple_, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from app.db import SERVICE_ROLE, Database, now
from app.errors import Conflict, Invalid, NotFound, Unauthorized
from app.memory import audit_log, cursor
from app.models import ApiKey, Tenant
from app.text import one_line

if TYPE_CHECKING:
    from app.memory.core import Core

SCOPES: Final = ("ingest", "recall", "facts", "privacy", "admin")

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_KEY = re.compile(r"um_([0-9A-Za-z]{33})_([0-9A-Za-z]{33})([0-9A-Za-z]{6})")
_KEY_BYTES = 24
_ID_LENGTH = 33
_MAX_NAME = 200
_NO_DIGEST: Final = b"\0" * 32


def _base62(raw: bytes, width: int) -> str:
    number, digits = int.from_bytes(raw), ""
    while number:
        number, digit = divmod(number, 62)
        digits = _ALPHABET[digit] + digits
    return digits.rjust(width, "0")


def _unbase62(digits: str, length: int) -> bytes:
    number = 0
    for digit in digits:
        number = number * 62 + _ALPHABET.index(digit)
    return number.to_bytes(length)


def _checksum(body: str) -> str:
    return _base62(zlib.crc32(body.encode()).to_bytes(4), 6)


def tenant_of(key_id: str) -> UUID:
    """Read the tenant out of a key's id. Raises `NotFound` for anything that is not one."""
    try:
        if len(key_id) != _ID_LENGTH:
            raise ValueError
        return UUID(bytes=_unbase62(key_id, _KEY_BYTES)[:16])
    except (ValueError, OverflowError):
        raise _no_such_key() from None


@dataclass(frozen=True, slots=True)
class Credential:
    """What a valid key allows."""

    tenant_id: UUID
    key_id: str
    scopes: frozenset[str]
    bound_to: str | None
    expires_at: datetime | None
    """By this process's clock, which may be another than the database's."""

    @property
    def actor(self) -> str:
        """The name under which the audit log keeps what is done with the key."""
        return f"key:{self.key_id}"

    def expired(self, at: datetime) -> bool:
        """Tell whether the key is past its time, for whoever kept the credential a while."""
        return self.expires_at is not None and self.expires_at <= at


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key at the only moment when its text is known."""

    id: str
    key: str = field(repr=False)
    scopes: tuple[str, ...]
    bound_to: str | None
    created_at: datetime
    expires_at: datetime | None


async def create_tenant(db: Database, name: str, *, by: str = "cli") -> tuple[UUID, str, NewKey]:
    """Create a tenant and a first key with every scope. Raises `Conflict` for a known name."""
    name = one_line(name)
    if not 1 <= len(name) <= _MAX_NAME:
        raise Invalid(f"A tenant's name has 1 to {_MAX_NAME} characters.")
    tenant_id = uuid4()
    try:
        async with db.tenant(tenant_id) as tx:
            tx.add(Tenant(id=tenant_id, name=name))
            await tx.flush()
            await audit_log.record(tx, tenant_id, by, "tenant_created")
            key = await create_key(tx, tenant_id, SCOPES, by=by)
    except IntegrityError:
        raise Conflict("A tenant of that name exists.", code="name_taken") from None
    return tenant_id, name, key


async def resolve_tenant(db: Database, id_or_name: str) -> UUID:
    """Find a tenant by id or name, over the owner's connection: the service's role sees none.

    An id goes before a name that looks like one. Raises `NotFound`.
    """
    asked = one_line(id_or_name)
    async with db.pool.connection() as connection:
        cursor = await connection.execute(
            "select id from tenant where id::text = lower(%(asked)s) or name = %(asked)s"
            " order by name = %(asked)s limit 1",
            {"asked": asked},
        )
        row = await cursor.fetchone()
    if row is None:
        raise NotFound("There is no such tenant.")
    tenant_id: UUID = row[0]
    return tenant_id


async def every_tenant(db: Database) -> list[UUID]:
    """Give the ids of all tenants, as the service's role: for the worker's rounds."""
    async with db.pool.connection() as connection, connection.transaction():
        await connection.execute("select set_config('role', %s, true)", (SERVICE_ROLE,))
        cursor = await connection.execute("select app.tenant_ids()")
        return [row[0] for row in await cursor.fetchall()]


async def list_tenants(db: Database) -> list[UUID]:
    """Give the ids of all tenants, over the owner's connection."""
    async with db.pool.connection() as connection:
        cursor = await connection.execute("select id from tenant order by created_at, id")
        return [row[0] for row in await cursor.fetchall()]


async def create_key(
    tx: AsyncSession,
    tenant_id: UUID,
    scopes: Sequence[str],
    *,
    bound_to: str | None = None,
    expires_in: timedelta | None = None,
    by: str = "cli",
) -> NewKey:
    """Create a key in the caller's transaction, for all users or bound to one external user id."""
    if set(scopes) - set(SCOPES) or not scopes:
        raise Invalid(f"Scopes are one or more of: {', '.join(SCOPES)}.")
    if await tx.get(Tenant, tenant_id) is None:
        raise NotFound("There is no such tenant.")
    made = _add(tx, tenant_id, scopes, bound_to, expires_in)
    details = {"key": made.id, "scopes": list(scopes)}
    await audit_log.record(tx, tenant_id, by, "key_created", details=details)
    return made


def _add(
    tx: AsyncSession,
    tenant_id: UUID,
    scopes: Sequence[str],
    bound_to: str | None,
    expires_in: timedelta | None,
) -> NewKey:
    key_id = _base62(tenant_id.bytes + secrets.token_bytes(8), _ID_LENGTH)
    secret = _base62(secrets.token_bytes(_KEY_BYTES), 33)
    body = f"um_{key_id}_{secret}"
    key = body + _checksum(body)
    expires_at = now(tx) + expires_in if expires_in else None
    tx.add(
        ApiKey(
            tenant_id=tenant_id,
            id=key_id,
            digest=hashlib.sha256(secret.encode()).digest(),
            scopes=list(scopes),
            bound_to=bound_to,
            created_at=now(tx),
            expires_at=expires_at,
            last_four=key[-4:],
        )
    )
    return NewKey(key_id, key, tuple(scopes), bound_to, now(tx), expires_at)


async def list_keys(
    tx: AsyncSession, core: "Core", tenant_id: UUID, *, limit: int, after: str | None
) -> cursor.Page[ApiKey]:
    """List a tenant's keys that were not revoked, newest first; expired ones too."""
    binding = cursor.binding_of("keys", tenant_id)
    place = cursor.decode_text(core, binding, after) if after else None
    query = select(ApiKey).where(ApiKey.tenant_id == tenant_id, ApiKey.revoked_at.is_(None))
    if place:
        query = query.where(tuple_(ApiKey.created_at, ApiKey.id) < tuple_(*place))
    query = query.order_by(ApiKey.created_at.desc(), ApiKey.id.desc()).limit(limit + 1)
    return cursor.page(core, binding, list(await tx.scalars(query)), limit)


async def rotate_key(
    tx: AsyncSession, tenant_id: UUID, key_id: str, overlap: timedelta, *, by: str
) -> NewKey:
    """Create a key that may do the same and lives as long; the old one ends after the overlap.

    Raises `NotFound` for a key that is unknown or revoked.
    """
    old = await tx.scalar(
        select(ApiKey).where(_is_key(tenant_id, key_id), _UNREVOKED).with_for_update()
    )
    if old is None:
        raise _no_such_key()
    lifetime = old.expires_at - old.created_at if old.expires_at else None
    made = _add(tx, tenant_id, old.scopes, old.bound_to, lifetime)
    ends = now(tx) + overlap
    old.expires_at = min(old.expires_at, ends) if old.expires_at else ends
    details = {"key": key_id, "successor": made.id}
    await audit_log.record(tx, tenant_id, by, "key_rotated", details=details)
    return made


async def revoke_key(db: Database, key_id: str, *, of: UUID | None = None, by: str = "cli") -> None:
    """Revoke a key, of the tenant named if one is; every process refuses it within its cache time.

    Raises `NotFound` for a key that is unknown or revoked.
    """
    tenant_id = tenant_of(key_id)
    if of not in {None, tenant_id}:
        raise _no_such_key()
    async with db.tenant(tenant_id) as tx:
        found = await tx.execute(
            update(ApiKey)
            .where(_is_key(tenant_id, key_id), _UNREVOKED)
            .values(revoked_at=now(tx))
            .returning(ApiKey.id)
        )
        if found.first() is None:
            raise _no_such_key()
        await audit_log.record(tx, tenant_id, by, "key_revoked", details={"key": key_id})


def _no_such_key() -> NotFound:
    return NotFound("There is no such key.")


def _is_key(tenant_id: UUID, key_id: str) -> ColumnElement[bool]:
    return and_(ApiKey.tenant_id == tenant_id, ApiKey.id == key_id)


_UNREVOKED: Final = ApiKey.revoked_at.is_(None)


def parse_key(key: str) -> tuple[UUID, str, bytes]:
    """Take a key apart into tenant, key id and digest of its secret, without a look-up.

    Raises `Unauthorized` for whatever is not a well-formed key, so that guesses cost nothing.
    """
    match = _KEY.fullmatch(key)
    if match is None or not hmac.compare_digest(_checksum(key[:-6]), match[3]):
        raise Unauthorized("The API key is not valid.")
    try:
        tenant_id = tenant_of(match[1])
    except NotFound:
        raise Unauthorized("The API key is not valid.") from None
    return tenant_id, match[1], hashlib.sha256(match[2].encode()).digest()


async def find_credential(
    db: Database, tenant_id: UUID, key_id: str, digest: bytes
) -> Credential | None:
    """Look a key up; None when it is unknown, revoked, expired or its secret is another."""
    async with db.tenant(tenant_id) as tx:
        at = now(tx)
        valid = and_(
            _is_key(tenant_id, key_id),
            _UNREVOKED,
            or_(ApiKey.expires_at.is_(None), ApiKey.expires_at > at),
        )
        # One row of one size, whether there is such a key or not: else the time would tell.
        kept = select(ApiKey.digest).where(valid).scalar_subquery()
        stored = await tx.scalar(select(func.coalesce(kept, _NO_DIGEST)))
        if stored is None or not hmac.compare_digest(stored, digest):
            return None
        row = await tx.scalar(select(ApiKey).where(valid))
    if row is None:
        return None
    ends = row.expires_at and datetime.now(UTC) + (row.expires_at - at)
    return Credential(tenant_id, key_id, frozenset(row.scopes), row.bound_to, ends)
