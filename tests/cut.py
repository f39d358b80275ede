"""A wire between the service and its Postgres that can be cut without anybody being told."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import parse_qs, urlsplit


class Wire:
    """Carries bytes to a Unix socket, or swallows them: no end, no reset, as a dead network."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._whole = asyncio.Event()
        self._whole.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._generation = 0
        self.port = 0

    def cut(self) -> None:
        """Lose what is sent from now on, both ways; the lines that are open never work again."""
        self._whole.clear()
        self._generation += 1

    def mend(self) -> None:
        """Let new lines through."""
        self._whole.set()

    @classmethod
    @asynccontextmanager
    async def to_database(cls, url: str) -> AsyncIterator[tuple["Wire", str]]:
        """Lay one of TCP to the tests' Postgres, whose own socket is a file; give its URL too."""
        parts = urlsplit(url)
        asked = parse_qs(parts.query)
        async with cls.to(f"{asked['host'][0]}/.s.PGSQL.{asked['port'][0]}") as wire:
            at = f"{parts.username}@127.0.0.1:{wire.port}{parts.path}"
            yield wire, f"postgresql://{at}?sslmode=disable"

    @classmethod
    @asynccontextmanager
    async def to(cls, path: str) -> AsyncIterator["Wire"]:
        wire = cls(path)
        server = await asyncio.start_server(wire._line, "127.0.0.1", 0)
        wire.port = server.sockets[0].getsockname()[1]
        try:
            yield wire
        finally:
            server.close()
            for task in wire._tasks:
                task.cancel()
            await asyncio.gather(*wire._tasks, return_exceptions=True)

    async def _line(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        ends = [writer]
        try:
            # Either end may hang up at any time, and in the end everything does.
            with suppress(OSError, asyncio.CancelledError):
                if not self._whole.is_set():
                    await asyncio.sleep(600)  # nobody picks up
                born = self._generation
                there, back = await asyncio.open_unix_connection(self._path)
                ends.append(back)
                await asyncio.gather(
                    self._carry(reader, back, born), self._carry(there, writer, born)
                )
        finally:
            for end in ends:
                end.transport.abort()

    async def _carry(
        self, source: asyncio.StreamReader, to: asyncio.StreamWriter, born: int
    ) -> None:
        while data := await source.read(65536):
            if born == self._generation:
                to.write(data)
                await to.drain()
        if born != self._generation:
            await asyncio.sleep(600)  # that the other end hung up is lost too
        to.close()
