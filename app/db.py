"""The way into Postgres: one pool each for statements and for the queue, one kind of transaction.

Row-level security is the second lock on every tenant's rows, so a transaction is entered only
through `Database.tenant()`: it drops to the restricted role and names the tenant, both for this
transaction alone, whatever the login may do and whoever used the connection before.
"""

import asyncio
import os
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final
from uuid import UUID

import psycopg
from psycopg.adapt import Transformer
from psycopg_pool import AsyncConnectionPool
from sqlalchemy import TIMESTAMP, LargeBinary, MetaData, Text, text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase

import migrations
from app.lines import Lines

if TYPE_CHECKING:
    from alembic.config import Config

SERVICE_ROLE = "usermem_service"
"""Owns nothing, can't bypass row-level security; every statement of the service runs as it."""

RESERVED: Final = 2
"""Connections that a process keeps for what people are owed, however busy the others are."""

PATIENCE: Final = 2.0
"""Seconds that the start of a transaction may take, with a new connection where one is needed."""

# A network that swallows packets says nothing. Where nobody waits the system finds out in ten
# seconds, where something was sent in four; a new connection has two.
_CUT_OFF: Final = {
    "connect_timeout": 2,
    "keepalives_idle": 4,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 4000,
}

_LONGEST_PAUSE: Final = 5.0
"""Seconds between two tries of a pool to reach a database that was away, however long it was."""

Pool = AsyncConnectionPool[psycopg.AsyncConnection]

_is_owed: ContextVar[bool] = ContextVar("is_owed", default=False)
_enter_by: ContextVar[float | None] = ContextVar("enter_by", default=None)
"""When the task that starts a transaction gives up, on the loop's clock."""

_SNAPSHOT: Final = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}

# The time zone too: a pooler in between passes on nothing that is asked for at the connect. And the
# server must learn by itself that a client is cut off or frozen, or its locks would stay for hours.
_ENTER = text(
    "select set_config('role', :role, true), set_config('timezone', 'UTC', true),"
    " set_config('idle_in_transaction_session_timeout', :abandoned, true),"
    " app.enter_tenant(:tenant), now()"
)


class Base(DeclarativeBase):
    """Base of all tables: one naming convention, one column type per Python type."""

    metadata = MetaData(
        naming_convention={
            "pk": "pk_%(table_name)s",
            "fk": "fk_%(table_name)s_%(referred_table_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
        }
    )
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        datetime: TIMESTAMP(timezone=True),
        str: Text,
        bytes: LargeBinary,
        dict[str, Any]: JSONB,
        dict[str, int]: JSONB,
        list[str]: ARRAY(Text),
    }


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose memory: one user of one tenant, by our own random ids. Never optional or partial."""

    tenant_id: UUID
    user_id: UUID

    @property
    def is_organization(self) -> bool:
        """Tell the tenant's reserved user, whose facts are the organization's."""
        return self.user_id == self.tenant_id


class _Connection(psycopg.AsyncConnection):
    """One that hangs up on a server which does not answer, where the answer can't take long."""

    patience: float = 900
    """Seconds that any answer may take. A proxy in between may hold a line that leads nowhere."""

    @classmethod
    async def in_time(cls, *args: Any, **kwargs: Any) -> psycopg.AsyncConnection:
        """Connect before the start of the transaction is given up."""
        try:
            async with asyncio.timeout_at(_enter_by.get()):
                return await cls.connect(*args, **kwargs)
        except TimeoutError:
            raise psycopg.OperationalError("the database does not answer") from None

    async def wait(self, *args: Any, **kwargs: Any) -> Any:
        """Wait for the server as psycopg does."""
        loop, by = asyncio.get_running_loop(), _enter_by.get()
        timer = loop.call_at(by or loop.time() + self.patience, self._hang_up)
        try:
            return await super().wait(*args, **kwargs)
        finally:
            timer.cancel()

    def _hang_up(self) -> None:
        # To cancel would wait for the server again; so it looks as if the server had hung up.
        with socket.socket(fileno=os.dup(self.pgconn.socket)) as line, suppress(OSError):
            line.shutdown(socket.SHUT_RDWR)


class Database:
    """The connections of one process. Open it once; close it at the end.

    `pool` is raw psycopg in autocommit, for the queue and for `lines`, which `app.trip` goes over
    and which keep up to half of it at hand; SQLAlchemy keeps a pool of its own. Both pools wait at
    most `pool_timeout` seconds for a connection. Postgres ends a transaction that hears nothing
    from here for `abandoned_after` seconds.
    """

    def __init__(
        self,
        url: str,
        *,
        pool_size: int = 10,
        pool_timeout: float = 2,
        prepared_statements: bool = True,
        abandoned_after: int = 30,
    ) -> None:
        self.reader = Transformer()  # kept, for to find out how types are read takes its time
        self._entering = {"role": SERVICE_ROLE, "abandoned": f"{abandoned_after}s"}
        connect: dict[str, object] = {
            "application_name": "usermem",
            "prepare_threshold": 5 if prepared_statements else None,
            **_CUT_OFF,
        }
        self._engine, self._reserve = (
            create_async_engine(
                url.replace("postgresql://", "postgresql+psycopg://", 1),
                pool_size=size,
                max_overflow=0,
                pool_timeout=pool_timeout,
                pool_pre_ping=True,
                hide_parameters=True,
                connect_args={**connect, "async_creator_fn": _Connection.in_time},
            )
            for size in (pool_size, RESERVED)
        )
        self._sessions = async_sessionmaker(self._engine, expire_on_commit=False)
        self._reserved = async_sessionmaker(self._reserve, expire_on_commit=False)
        self._new_pool = partial(_pool, url, connect)
        self.pool = self._new_pool(size=pool_size, timeout=pool_timeout, patience=PATIENCE)
        self.lines = Lines(self.pool, kept=pool_size // 2, prepares=prepared_statements)
        self._renewed = 0.0

    async def open(self) -> None:
        """Open the raw pool; raises `psycopg_pool.PoolTimeout` when Postgres can't be reached."""
        try:
            await self.pool.open(wait=True)
        except BaseException:
            await self.pool.close()  # its tasks can't be cancelled, and the loop waits for them
            raise

    def pool_apart(self, size: int, *, patience: float) -> Pool:
        """Give another raw pool, not open yet, whose connections wait so long for any answer.

        One is waited for half a minute, and tried before it is given.
        """
        check = AsyncConnectionPool.check_connection
        return self._new_pool(size=size, patience=patience, check=check)

    async def renew(self) -> None:
        """Replace the idle raw connections, at most once a second."""
        now = time.monotonic()
        if now - self._renewed > 1.0:
            self._renewed = now
            await self.lines.renew()

    async def close(self) -> None:
        """Give every connection back to Postgres."""
        await self.lines.aclose()
        await self.pool.close()
        await self._engine.dispose()
        await self._reserve.dispose()

    @asynccontextmanager
    async def tenant(
        self, tenant_id: UUID, *, snapshot: bool = False
    ) -> AsyncIterator[AsyncSession]:
        """Open a transaction as the restricted role inside one tenant; commit at the end.

        An exception rolls back. Nothing else in the service begins or commits a transaction. All
        statements of a `snapshot` see the database at one moment, and none can write.
        """
        sessions = self._reserved if _is_owed.get() else self._sessions
        async with sessions.begin() as tx:
            token = _enter_by.set(asyncio.get_running_loop().time() + PATIENCE)
            try:
                if snapshot:
                    await tx.connection(execution_options=_SNAPSHOT)
                entered = await tx.execute(_ENTER, {**self._entering, "tenant": tenant_id})
            finally:
                _enter_by.reset(token)
            tx.info["now"] = entered.one().now
            yield tx


@contextmanager
def owed() -> Iterator[None]:
    """Take connections of the block from the reserve: an erasure must not wait behind a crowd."""
    token = _is_owed.set(True)
    try:
        yield
    finally:
        _is_owed.reset(token)


def _pool(
    url: str, connect: dict[str, object], *, size: int, patience: float, **options: Any
) -> Pool:
    async def make_ready(connection: psycopg.AsyncConnection) -> None:
        # Not among the pool's arguments: the queue's library opens its listening connection with
        # them and names autocommit itself.
        await connection.set_autocommit(True)
        if isinstance(connection, _Connection):
            connection.patience = patience

    return AsyncConnectionPool(
        url,
        min_size=1,
        max_size=size,
        # Left alone, it would wait twice as long before each try, up to minutes.
        reconnect_timeout=_LONGEST_PAUSE,
        reconnect_failed=Pool.check,
        open=False,
        connection_class=_Connection,
        kwargs=connect,
        configure=make_ready,
        **options,
    )


def now(tx: AsyncSession) -> datetime:
    """Give the database's time at the start of the transaction: the only clock for decisions."""
    at: datetime = tx.info["now"]
    return at


async def raw_connection(tx: AsyncSession) -> psycopg.AsyncConnection:
    """Give the psycopg connection under a transaction, for the queue to write into it."""
    connection = await tx.connection()
    raw = (await connection.get_raw_connection()).driver_connection
    if not isinstance(raw, psycopg.AsyncConnection):
        raise TypeError("the engine must run on psycopg")
    return raw


def _alembic(**attributes: object) -> "Config":
    # Imported here: only commands and tests migrate, and the import costs a tenth of a second.
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__path__[0])))
    config.attributes.update(attributes)
    return config


def migrate(url: str, revision: str = "head") -> None:
    """Bring the schema to `revision` as the owner behind `url`. Safe for several at once.

    A schema that a newer release has left is served as it is.
    """
    from alembic import command  # noqa: PLC0415 - as above

    config = _alembic(url=url)
    if revision == "base" or revision.startswith("-"):
        command.downgrade(config, revision)
        return
    with psycopg.connect(url, prepare_threshold=None) as connection:
        exists = connection.execute("select to_regclass('alembic_version')").fetchone()
        found = connection.execute(_REVISION).fetchone() if exists != (None,) else None
    if found is None or not _is_newer(found[0]):
        command.upgrade(config, revision)


async def schema_serves(db: Database) -> bool:
    """Tell whether this code can work on the database: it is at its newest migration, or later.

    Later, because a release only adds: while it is rolled out the one before runs on its schema.
    """
    try:
        async with db.pool.connection() as connection:
            row = await (await connection.execute(_REVISION)).fetchone()
    except psycopg.errors.UndefinedTable:
        return False
    return row is not None and (row[0] == _head() or _is_newer(row[0]))


_REVISION: Final = "select version_num from alembic_version"


@cache
def _head() -> str:
    from alembic.script import ScriptDirectory  # noqa: PLC0415 - as above

    return ScriptDirectory.from_config(_alembic()).get_current_head() or ""


def _is_newer(revision: str) -> bool:
    """Tell a revision that this code can't know; they are numbers, counted up."""
    return revision.isdecimal() and int(revision) > int(_head())
