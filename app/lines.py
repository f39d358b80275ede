"""Lines to Postgres over which several statements go out, and their answers come back, at once.

libpq's pipeline is driven directly: psycopg's cursors, and a pool that is asked for a connection
each time, cost several times what such a transaction costs the database.
"""

import asyncio
import re
import select
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final
from uuid import UUID
from weakref import WeakKeyDictionary

import psycopg
from pgvector import HalfVector
from psycopg.pq import ConnStatus, ExecStatus
from psycopg.pq.abc import PGresult
from psycopg_pool import AsyncConnectionPool

LOOK_EVERY: Final = 0.1
"""Seconds after which a line that was told of nothing looks for itself."""

LOOKS: Final = 15
"""Looks in vain after which it counts as dead."""

HELD_FOR: Final = 300.0
"""Seconds after which a line goes back to the pool, which replaces what is old."""

_PLACEHOLDER = re.compile(r"%\((\w+)\)s")
_TEXT, _BINARY = 0, 1
_GOOD = (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK)

_prepared: WeakKeyDictionary[psycopg.AsyncConnection, set[bytes]] = WeakKeyDictionary()


class NoAnswer(psycopg.OperationalError):
    """The database took the statements and said nothing: the connection may be cut."""


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


class Line:
    """A connection in pipeline mode, for one exchange at a time. It notices its own end."""

    def __init__(self, connection: psycopg.AsyncConnection, *, prepares: bool) -> None:
        self.connection = connection
        self.until = time.monotonic() + HELD_FOR
        self.is_open = True
        self._pgconn = connection.pgconn
        self._socket = self._pgconn.socket
        self._prepared = _prepared.setdefault(connection, set()) if prepares else None
        self._loop = asyncio.get_running_loop()
        self._answered: asyncio.Future[None] | None = None
        self._results: list[PGresult] = []
        self._pgconn.enter_pipeline_mode()
        self._loop.add_reader(self._socket, self._read)

    async def exchange(self, calls: Sequence[Call]) -> list[PGresult]:
        """Send everything, then wait for everything: one round trip.

        Raises `psycopg.Error`; the line is of no use then, nor if the caller is cancelled.
        """
        self._answered = self._loop.create_future()
        self._look_later(LOOKS)
        try:
            answers = self._send(calls)
            await self._answered
        finally:
            self._timer.cancel()
            self._answered = None
        results, self._results = self._results, []
        for result in results:
            if result.status not in _GOOD:
                raise psycopg.errors.error_from_result(result)
        return [results[place] for place in answers]

    def leave(self) -> None:
        """Stop listening. The connection is anybody's again, if it is open still."""
        if self.is_open:
            self.is_open = False
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
            with suppress(psycopg.OperationalError):
                self._pgconn.exit_pipeline_mode()

    def _send(self, calls: Sequence[Call]) -> list[int]:
        """Give the places of the statements' answers: a preparation has an empty one of its own."""
        pgconn, prepared = self._pgconn, self._prepared
        answers = []
        count = 0
        for call, values in calls:
            bound = [_bound(values[name]) for name in call.values]
            parameters, formats = [value for value, _ in bound], [form for _, form in bound]
            if prepared is None:
                pgconn.send_query_params(call.query, parameters, None, formats, _BINARY)
            else:
                if call.name not in prepared:
                    pgconn.send_prepare(call.name, call.query)
                    prepared.add(call.name)
                    count += 1
                pgconn.send_query_prepared(call.name, parameters, formats, _BINARY)
            answers.append(count)
            count += 1
        pgconn.pipeline_sync()
        if pgconn.flush():
            self._loop.add_writer(self._socket, self._write)
        return answers

    def _write(self) -> None:
        """Send on, as soon as there is room for it."""
        try:
            if not self._pgconn.flush():
                self._loop.remove_writer(self._socket)
        except psycopg.OperationalError as error:
            self._end(error)

    def _read(self) -> None:
        """Take what arrived, up to the answer that says that there are no more."""
        pgconn = self._pgconn
        is_over = False
        try:
            pgconn.consume_input()
            while self._answered is not None and not pgconn.is_busy():
                result = pgconn.get_result()
                if result is None:  # the end of one statement's answers
                    # After a send that failed libpq has no more answers, and calls itself well.
                    if is_over or pgconn.status != ConnStatus.OK:
                        raise psycopg.OperationalError("the connection is lost")
                    is_over = True
                elif result.status == ExecStatus.PIPELINE_SYNC:
                    if not self._answered.done():
                        self._answered.set_result(None)
                    return
                else:
                    is_over = False
                    self._results.append(result)
        except psycopg.OperationalError as error:
            self._end(error)

    def _look_later(self, times: int) -> None:
        self._timer = self._loop.call_later(LOOK_EVERY, self._look, times - 1)

    def _look(self, times: int) -> None:
        """Read without being told: of a socket with an error uvloop tells nobody."""
        socket = select.poll()
        socket.register(self._socket, select.POLLIN)
        if socket.poll(0):  # else libpq would wait for it, and everybody with it
            self._read()
        if self._answered is None or self._answered.done():
            return
        if times:
            self._look_later(times)
        else:
            self._end(NoAnswer("no answer"))

    def _end(self, error: Exception) -> None:
        """Tell whoever waits that nothing will come."""
        self.leave()
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(error)


class Lines:
    """A pool's connections as lines: a few are kept at hand, as many as are needed are taken."""

    def __init__(
        self, pool: AsyncConnectionPool[psycopg.AsyncConnection], *, kept: int, prepares: bool
    ) -> None:
        self._pool = pool
        self._most = kept
        self._prepares = prepares
        self._idle: list[Line] = []

    async def take(self) -> Line:
        """Give a line to one caller, who gives it back. Raises `PoolTimeout`."""
        while self._idle:
            line = self._idle.pop()
            if line.is_open:
                return line
            await self.discard(line)
        connection = await self._pool.getconn()
        try:
            return Line(connection, prepares=self._prepares)
        except psycopg.Error:
            await self._put_back(connection)
            raise

    async def give(self, line: Line) -> None:
        """Take a line back after an exchange that went well; who waits at the pool comes first."""
        if (
            line.is_open
            and len(self._idle) < self._most
            and time.monotonic() < line.until
            and not self._pool.get_stats()["requests_waiting"]
        ):
            self._idle.append(line)
            return
        line.leave()
        await self._put_back(line.connection)

    async def discard(self, line: Line) -> None:
        """Close a line that went wrong: what it still has to say belongs to nobody."""
        line.leave()
        await line.connection.close()
        await self._put_back(line.connection)

    async def _put_back(self, connection: psycopg.AsyncConnection) -> None:
        # A pool that is interrupted at this loses the connection.
        await asyncio.shield(self._pool.putconn(connection))

    async def renew(self) -> None:
        """Replace what is idle, at the pool too: where one has died, its neighbours mostly have."""
        while self._idle:
            await self.discard(self._idle.pop())
        await self._pool.drain()

    async def aclose(self) -> None:
        """Give everything back, also what is still out as soon as it comes."""
        self._most = 0
        while self._idle:
            await self.give(self._idle.pop())


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
