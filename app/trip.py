"""One transaction in one round trip: begin, enter the tenant, the statements, commit.

For recall, which every request of every user pays for. libpq's pipeline is driven directly, since
psycopg's own cursors cost several times what such a transaction costs the database.
"""

import asyncio
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final
from uuid import UUID
from weakref import WeakKeyDictionary

import psycopg
from pgvector import HalfVector
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGconn, PGresult
from psycopg_pool import PoolTimeout

from app.db import SERVICE_ROLE, Database

PATIENCE: Final = 1.5
"""Seconds without an answer after which a connection counts as dead."""

Row = tuple[Any, ...]


class NoAnswer(psycopg.OperationalError):
    """The database took the statements and said nothing: the connection may be cut."""


_PLACEHOLDER = re.compile(r"%\((\w+)\)s")
_TEXT, _BINARY = 0, 1
_GOOD = (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK)


@dataclass(frozen=True, slots=True)
class Statement:
    """SQL with `%(name)s` for values, prepared once on each connection that runs it."""

    name: bytes
    query: bytes
    values: Sequence[str]


def statement(sql: str) -> Statement:
    """Compile a statement. Where Postgres can't tell a value's type the SQL must cast it."""
    values = list(dict.fromkeys(_PLACEHOLDER.findall(sql)))
    query = _PLACEHOLDER.sub(lambda match: f"${values.index(match[1]) + 1}", sql).encode()
    return Statement(
        b"usermem_" + blake2b(query, digest_size=8).hexdigest().encode(), query, values
    )


Call = tuple[Statement, Mapping[str, Any]]

_BEGIN = statement("begin")
_COMMIT = statement("commit")
# A plan made for one person is right for every other: all are found through the same index. Made
# anew it costs more than it runs; made while the table was small it would scan all of it.
_ENTER = statement(
    "select set_config('role', %(role)s, true), set_config('plan_cache_mode', 'force_generic_plan',"
    " true), set_config('enable_seqscan', 'off', true), set_config('timezone', 'UTC', true),"
    " app.enter_tenant(%(tenant)s)"
)

_prepared: WeakKeyDictionary[psycopg.AsyncConnection, set[bytes]] = WeakKeyDictionary()
_renewed: WeakKeyDictionary[Database, float] = WeakKeyDictionary()


async def trip(db: Database, tenant_id: UUID, *calls: Call) -> list[list[Row]]:
    """Run the statements in one transaction inside the tenant; give the rows of each.

    A connection that is dead, or forgot what was prepared on it, is replaced and the trip made once
    more, so what the statements do must be right when done twice. Raises
    `psycopg.OperationalError` or `PoolTimeout` when the database is away, any other
    `psycopg.Error` for a statement's own fault.
    """
    try:
        return await _try(db, tenant_id, calls)
    except (NoAnswer, PoolTimeout):
        raise  # the caller has waited long enough, and a busy pool is no reason to empty it
    except psycopg.errors.InvalidSqlStatementName:
        # Whoever else used the connection had all its statements dropped; it is closed by now.
        return await _try(db, tenant_id, calls)
    except psycopg.OperationalError:
        await _renew(db)
        return await _try(db, tenant_id, calls)


async def _renew(db: Database) -> None:
    """Replace the idle connections: where one has died, its neighbours mostly have too."""
    now = time.monotonic()
    if now - _renewed.get(db, 0.0) > 1.0:
        _renewed[db] = now
        await db.pool.drain()


async def _try(db: Database, tenant_id: UUID, calls: Sequence[Call]) -> list[list[Row]]:
    connection = await db.pool.getconn()
    try:
        async with asyncio.timeout(PATIENCE):
            results = await _communicate(
                connection,
                (
                    (_BEGIN, {}),
                    (_ENTER, {"role": SERVICE_ROLE, "tenant": tenant_id}),
                    *calls,
                    (_COMMIT, {}),
                ),
                prepares=db.prepares,
            )
    except BaseException as error:
        # Whatever went wrong, what the connection still has to say belongs to nobody now.
        await connection.close()
        if isinstance(error, TimeoutError):
            raise NoAnswer("the database does not answer") from None
        raise
    finally:
        await db.pool.putconn(connection)
    return [_rows(db, result) for result in results[2:-1]]


def _rows(db: Database, result: PGresult) -> list[Row]:
    if not result.ntuples:
        return []
    db.reader.set_pgresult(result)
    return db.reader.load_rows(0, result.ntuples, tuple)


async def _communicate(
    connection: psycopg.AsyncConnection, calls: Sequence[Call], *, prepares: bool
) -> list[PGresult]:
    """Send everything, then read everything: one round trip."""
    pgconn = connection.pgconn
    prepared = _prepared.setdefault(connection, set())
    answers: list[bool] = []  # a preparation is answered too, but with nothing
    pgconn.enter_pipeline_mode()
    for call, values in calls:
        bound = [_bound(values[name]) for name in call.values]
        parameters, formats = [value for value, _ in bound], [form for _, form in bound]
        if not prepares:
            pgconn.send_query_params(call.query, parameters, None, formats, _BINARY)
        else:
            if call.name not in prepared:
                pgconn.send_prepare(call.name, call.query)
                prepared.add(call.name)
                answers.append(False)
            pgconn.send_query_prepared(call.name, parameters, formats, _BINARY)
        answers.append(True)
    pgconn.pipeline_sync()
    results = await _receive(pgconn)
    pgconn.exit_pipeline_mode()
    for result in results:
        if result.status not in _GOOD:
            raise psycopg.errors.error_from_result(result)
    return [result for result, is_answer in zip(results, answers, strict=True) if is_answer]


def _bound(value: Any) -> tuple[bytes | None, int]:
    """Give a value as Postgres reads it: in text where only Postgres knows the type."""
    bind = _BINDERS.get(type(value))
    return bind(value) if bind else (str(value).encode(), _TEXT)


_BINDERS: Final[Mapping[type, Callable[[Any], tuple[bytes | None, int]]]] = {
    UUID: lambda value: (value.bytes, _BINARY),
    HalfVector: lambda value: (value.to_binary(), _BINARY),
    bytes: lambda value: (value, _BINARY),
    type(None): lambda value: (value, _BINARY),
}


async def _receive(pgconn: PGconn) -> list[PGresult]:
    """Wait for all answers, up to the one that says that there are no more."""
    loop = asyncio.get_running_loop()
    socket = pgconn.socket
    while pgconn.flush():
        await _ready(loop.add_writer, loop.remove_writer, socket)
    results: list[PGresult] = []
    while True:
        while pgconn.is_busy():
            await _ready(loop.add_reader, loop.remove_reader, socket)
            pgconn.consume_input()
        result = pgconn.get_result()
        if result is None:
            continue  # the end of one statement's answers
        if result.status == ExecStatus.PIPELINE_SYNC:
            return results
        results.append(result)


async def _ready(add: Callable[..., None], remove: Callable[[int], object], socket: int) -> None:
    """Wait until the socket can be read, or written."""
    ready = asyncio.get_running_loop().create_future()
    add(socket, _wake, ready)
    try:
        await ready
    finally:
        remove(socket)


def _wake(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
