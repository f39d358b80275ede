"""uvicorn as the service runs it: slow clients are cut, whatever part of a request they dawdle at.

uvicorn bounds the pause between two requests alone. A body that comes too slowly is refused by the
edge, which can say so; what is below is cut without a word.
"""

import asyncio
import gc
import socket
from typing import Any, Final, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_WITHIN: Final = 20.0
"""Seconds from a connection's start, or its last answer, to the end of the next request's head."""

MOST_WAITING: Final = 500
"""Connections of one process that owe a head; past it who has owed one longest is cut.

By what they do and not by address: behind a proxy everybody has the same one. A client that means
it sends its head at once, so whoever holds connections open loses them to each other.
"""

GARBAGE_AFTER: Final = 10_000
"""Objects made and not let go of after which it is looked for; Python's own number is 700."""

READ_WITHIN: Final = 25.0
"""Seconds that an answer may wait for its reader."""


class _OneWrite:
    """A connection on which an answer's head leaves with the beginning of its body.

    uvicorn writes one after the other: two system calls, and a client that is woken twice.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._head = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send bytes; those of a head a moment later, if nothing follows."""
        if self._head:
            data, self._head = self._head + data, b""
        elif data.startswith(b"HTTP/1.1 "):
            self._head = data
            self._loop.call_soon(self._flush)
            return
        self._transport.write(data)

    def close(self) -> None:
        """Send what is left, and end."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head)


_waiting: "dict[PatientProtocol, None]" = {}
"""Who owes a head, the longest waiting first."""


class PatientProtocol(HttpToolsProtocol):
    """uvicorn's own protocol, with a watch on each connection."""

    _head: asyncio.TimerHandle | None = None
    _reader: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn's
        """Wait for the first head, and not for ever."""
        super().connection_made(cast("asyncio.Transport", _OneWrite(transport, self.loop)))
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Watch no more."""
        self._has_head()
        self._stop(self._reader)
        super().connection_lost(exc)

    def on_headers_complete(self) -> None:
        """Leave the request to the edge."""
        self._has_head()
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        """Wait for the next head, whatever else still comes."""
        super().on_response_complete()
        if not self.pipeline and not self.transport.is_closing():
            self._await_head()

    def pause_writing(self) -> None:
        """Wait for the reader, and not for ever."""
        super().pause_writing()
        self._reader = self.loop.call_later(READ_WITHIN, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on: it has read."""
        self._stop(self._reader)
        super().resume_writing()

    def _await_head(self) -> None:
        self._has_head()
        self._head = self.loop.call_later(HEAD_WITHIN, self.transport.abort)
        _waiting[self] = None
        if len(_waiting) > MOST_WAITING:
            longest = next(iter(_waiting))
            longest.cut()

    def cut(self) -> None:
        """End the connection without a word."""
        self._has_head()
        self.transport.abort()

    def _has_head(self) -> None:
        self._stop(self._head)
        _waiting.pop(self, None)

    @staticmethod
    def _stop(timer: asyncio.TimerHandle | None) -> None:
        if timer is not None:
            timer.cancel()


class Server(uvicorn.Server):
    """uvicorn, which once it has started looks for garbage among what came since, and less often.

    What was loaded until then stays, and looking through it took a tenth of the time of recall.
    """

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen."""
        await super().startup(sockets)
        gc.collect()
        gc.freeze()
        gc.set_threshold(GARBAGE_AFTER)


def configuration(app: Any, host: str, port: int, **more: Any) -> uvicorn.Config:
    """Give the server's configuration for an application."""
    return uvicorn.Config(
        app,
        host=host,
        port=port,
        http=PatientProtocol,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        **more,
    )
