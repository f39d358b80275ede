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
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID, uuid4

from sqlalchemy import or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from app.db import SERVICE_ROLE, Database, now
from app.errors import Conflict, Invalid, NotFound, Unauthorized
from app.memory import audit_log
from app.models import ApiKey, Tenant
from app.text import one_line

SCOPES: Final = ("ingest", "recall", "facts", "privacy", "admin")

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_KEY = re.compile(r"um_([0-9A-Za-z]{33})_([0-9A-Za-z]{33})([0-9A-Za-z]{6})")
_KEY_BYTES = 24
_ID_LENGTH = 33
_MAX_NAME = 200


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
        raise NotFound("There is no such key.") from None


@dataclass(frozen=True, slots=True)
class Credential:
    """What a valid key allows."""

    tenant_id: UUID
    key_id: str
    scopes: frozenset[str]
    bound_to: str | None
    expires_at: datetime | None

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

    Raises `NotFound`.
    """
    async with db.pool.connection() as connection:
        cursor = await connection.execute(
            "select id from tenant where id::text = %(asked)s or name = %(asked)s",
            {"asked": id_or_name.lower() if _is_uuid(id_or_name) else id_or_name},
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


def _is_uuid(value: str) -> bool:
    try:
        UUID(value)
    except ValueError:
        return False
    return True


async def create_key(
    tx: AsyncSession,
    tenant_id: UUID,
    scopes: tuple[str, ...],
    *,
    bound_to: str | None = None,
    expires_in: timedelta | None = None,
    by: str = "cli",
) -> NewKey:
    """Create a key in the caller's transaction, for all users or bound to one external user id."""
    unknown = set(scopes) - set(SCOPES)
    if unknown or not scopes:
        raise Invalid(f"Scopes are one or more of: {', '.join(SCOPES)}.")
    if await tx.get(Tenant, tenant_id) is None:
        raise NotFound("There is no such tenant.")
    key_id = _base62(tenant_id.bytes + secrets.token_bytes(8), _ID_LENGTH)
    secret = _base62(secrets.token_bytes(_KEY_BYTES), 33)
    body = f"um_{key_id}_{secret}"
    expires_at = now(tx) + expires_in if expires_in else None
    tx.add(
        ApiKey(
            tenant_id=tenant_id,
            id=key_id,
            digest=hashlib.sha256(secret.encode()).digest(),
            scopes=list(scopes),
            bound_to=bound_to,
            expires_at=expires_at,
        )
    )
    details = {"key": key_id, "scopes": list(scopes)}
    await audit_log.record(tx, tenant_id, by, "key_created", details=details)
    return NewKey(key_id, body + _checksum(body), tuple(scopes), bound_to, expires_at)


async def revoke_key(db: Database, key_id: str, *, by: str = "cli") -> None:
    """Revoke a key; every process refuses it within its cache time. Raises `NotFound`."""
    tenant_id = tenant_of(key_id)
    async with db.tenant(tenant_id) as tx:
        found = await tx.execute(
            update(ApiKey)
            .where(ApiKey.tenant_id == tenant_id, ApiKey.id == key_id)
            .values(revoked_at=now(tx))
            .returning(ApiKey.id)
        )
        if found.first() is None:
            raise NotFound("There is no such key.")
        await audit_log.record(tx, tenant_id, by, "key_revoked", details={"key": key_id})


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
        row = await tx.scalar(
            select(ApiKey).where(
                ApiKey.tenant_id == tenant_id,
                ApiKey.id == key_id,
                ApiKey.revoked_at.is_(None),
                or_(ApiKey.expires_at.is_(None), ApiKey.expires_at > now(tx)),
            )
        )
    stored = row.digest if row else b"\0" * 32
    if not hmac.compare_digest(stored, digest) or row is None:
        return None
    return Credential(tenant_id, key_id, frozenset(row.scopes), row.bound_to, row.expires_at)
