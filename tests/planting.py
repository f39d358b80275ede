"""Facts put straight into the database, for tests that need many, old or odd ones."""

import hashlib
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
from pgvector import HalfVector
from psycopg.types.json import Jsonb

from app.embeddings import Vector
from app.memory import guard
from app.text import words
from tests.world import Caller

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Planted:
    """A fact as it will stand in its row; `age` is its place in time, greater is later."""

    text: str
    kind: str = "preference"
    age: int = 0
    vector: Vector | None = None
    model: str = "usem3-512"
    pinned: bool = False
    source: str = "api"
    subject: str = "thing"
    slot: str | None = None
    confirmations: int = 0
    guard_version: int = guard.VERSION
    expires_at: datetime | None = None
    superseded_at: datetime | None = None
    quarantined_at: datetime | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    id: UUID = field(default_factory=uuid4)

    @property
    def created_at(self) -> datetime:
        return EPOCH + timedelta(minutes=self.age)


_COLUMNS = (
    "tenant_id, user_id, id, text, kind, subject, slot, fingerprint, words, embedding,"
    " embedding_model, source, guard_version, said_at, valid_from, valid_to, created_at,"
    " last_confirmed_at, confirmations, expires_at, pinned, superseded_at, quarantined_at, metadata"
)
_ROW = (
    "%s, %s, %s, %s, %s, %s, %s, %s, %s::tsvector, %s::halfvec, "
    "%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s"
)


def plant(caller: Caller, *facts: Planted, owner: UUID | None = None) -> UUID:
    """Give a user these facts, creating the user if need be; `owner` is the organization."""
    with psycopg.connect(caller.world.urls.superuser) as connection:
        user_id = owner or _user(connection, caller)
        connection.execute(
            "insert into memory_user (tenant_id, user_id) values (%s, %s) on conflict do nothing",
            (caller.tenant_id, user_id),
        )
        with connection.cursor() as cursor:
            cursor.executemany(
                f"insert into memory_fact ({_COLUMNS}) values ({_ROW})",
                [_values(caller.tenant_id, user_id, fact) for fact in facts],
            )
        connection.execute(
            "update memory_user set revision = revision + 1 where tenant_id = %s and user_id = %s",
            (caller.tenant_id, user_id),
        )
    return user_id


def _user(connection: psycopg.Connection, caller: Caller) -> UUID:
    row = connection.execute(
        "insert into user_directory values (%s, %s, %s) on conflict (tenant_id, external_id)"
        " do update set external_id = excluded.external_id returning user_id",
        (caller.tenant_id, caller.user, uuid4()),
    ).fetchone()
    assert row is not None
    return row[0]


def _values(tenant_id: UUID, user_id: UUID, fact: Planted) -> tuple[Any, ...]:
    lexemes = " ".join(f"'{word}'" for word in sorted(set(words(fact.text))))
    return (
        tenant_id, user_id, fact.id, fact.text, fact.kind, fact.subject, fact.slot,
        hashlib.sha256(fact.id.bytes).digest(), lexemes,
        None if fact.vector is None else HalfVector(fact.vector).to_text(),
        None if fact.vector is None else fact.model,
        fact.source, fact.guard_version, fact.created_at, fact.valid_from, fact.valid_to,
        fact.created_at, fact.created_at, fact.confirmations, fact.expires_at, fact.pinned,
        fact.superseded_at, fact.quarantined_at, Jsonb(fact.metadata),
    )  # fmt: skip


async def embedded(caller: Caller, *facts: Planted) -> list[Planted]:
    """Give the facts their vectors."""
    vectors = await caller.world.core.embedder.embed([fact.text for fact in facts])
    for fact, vector in zip(facts, vectors, strict=True):
        fact.vector = vector
    return list(facts)
