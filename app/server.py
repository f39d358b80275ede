"""uvicorn as the service runs it: slow clients are cut, whatever part of a request they dawdle at.

uvicorn bounds the pause between two requests alone. A body that comes too slowly is refused by the
edge, which can say so; what is below is cut without a word. Nor does it bound what it reads of a
head, and what is no HTTP it answers at once, before the requests that came earlier.
"""

import asyncio
import gc
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from secrets import token_hex
from typing import Any, Final, cast

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from app import problems
from app.errors import Unavailable

HEAD_WITHIN: Final = 20.0
"""Seconds from a connection's start, or its last answer, to the end of the next request's head."""

MOST_WAITING: Final = 500
"""Connections of one process that owe a head; past it who has owed one longest is cut.

By what they do and not by address: behind a proxy everybody has the same one. A client that means
it sends its head at once, so whoever holds connections open loses them to each other.
"""

GARBAGE_AFTER: Final = 10_000
"""Objects made and not let go of after which it is looked for; Python's own number is 700."""

TURN: Final = 0.0005
"""Seconds for which a thread may keep the interpreter from the others; Python's own number is ten
times more, for which every request would wait, several times over, while a conversation is read."""

READ_WITHIN: Final = 25.0
"""Seconds that an answer may wait for its reader."""

MOST_HEAD: Final = 64 * 1024
"""Bytes of a request's head; as many may frame a body, beside as many as it has itself.

The parser has no limit, and takes more time for a byte the more there were before. What arrives in
one piece is read whole.
"""

LINGER: Final = 2.0
"""Seconds in which a client that is still sending may read its answer before the end.

Its bytes would otherwise be answered by a reset, which overtakes what was said.
"""

_PROBLEM: Final = problems.MEDIA_TYPE.encode()

_waiting: "dict[PatientProtocol, None]" = {}
"""Who owes a head, the longest waiting first."""


class _OneWrite:
    """A connection on which an answer's head leaves with the beginning of its body.

    uvicorn writes one after the other: two system calls, and a client that is woken twice. `leave`
    ends the connection once it is closed.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        leave: Callable[[], object],
    ) -> None:
        self._transport = transport
        self._loop = loop
        self._leave = leave
        self._has_left = False
        self._head = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send bytes; those of a head a moment later, if nothing follows; after the end, none."""
        if self.is_closing():
            return
        if self._head:
            data, self._head = self._head + data, b""
        elif data.startswith(b"HTTP/1.1 "):
            self._head = data
            self._loop.call_soon(self._flush)
            return
        self._transport.write(data)

    def is_closing(self) -> bool:
        """Tell whether it has an end."""
        return self._has_left or self._transport.is_closing()

    def close(self) -> None:
        """Send what is left, and end."""
        if not self.is_closing():
            self._flush()
            self._has_left = True
            self._leave()

    def _flush(self) -> None:
        head, self._head = self._head, b""
        if head and not self._transport.is_closing():
            self._transport.write(head)


class PatientProtocol(HttpToolsProtocol):
    """uvicorn's own protocol, with a watch on each connection."""

    _head: asyncio.TimerHandle | None = None
    _reader: asyncio.TimerHandle | None = None
    _overhead = 0
    """Bytes of the request that were read and are no body."""
    _is_request = False
    """In the middle of one: not all of it was read."""
    _is_head = False
    _is_unreadable = False
    """What comes is read no more; the requests before it are still answered."""
    _end: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn's
        """Wait for the first head, and not for ever."""
        self._wire = transport
        super().connection_made(
            cast("asyncio.Transport", _OneWrite(transport, self.loop, self._leave))
        )
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Watch no more."""
        self._has_head()
        self._stop(self._reader)
        self._stop(self._end)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, as long as it is worth it."""
        if self._is_unreadable or self.transport.is_closing():
            return
        self._overhead += len(data)
        super().data_received(data)
        if self._overhead > MOST_HEAD and not self._is_unreadable:
            if self._is_body():
                self.transport.close()
            else:
                self._refuse(431, "Head too large", "head_too_large")

    def on_message_begin(self) -> None:
        """Read a head."""
        self._is_request = self._is_head = True
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a field of the head; what follows the body is no part of the request."""
        if self._is_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Leave the request to the edge."""
        super().on_headers_complete()  # raises where there is no such address
        self._has_head()
        self._is_head = False
        self._overhead = 0

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body, and allow for as much again around it."""
        self._overhead -= 2 * len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Begin to count anew."""
        self._is_request = False
        self._overhead = 0
        super().on_message_complete()

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

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP."""
        del msg
        self._refuse(400, "Bad request", "malformed")

    def _refuse(self, status: int, title: str, code: str) -> None:
        """Answer what can't be read, in its turn and if it has no answer yet; then end."""
        self._is_unreadable = True
        latest: RequestResponseCycle | None = self.cycle
        if latest and not latest.response_complete and not self._is_body():
            latest.keep_alive = False
            return
        if not self._is_body() or not (self.pipeline or self.cycle.response_started):
            self.transport.write(_refusal(status, title, code))
        self.transport.close()

    def _is_body(self) -> bool:
        return self._is_request and not self._is_head

    def _leave(self) -> None:
        """End the connection; who is in the middle of a request may hear the answer first."""
        self._has_head()
        if not self._is_request or not self._wire.can_write_eof():
            self._wire.close()
            return
        self._wire.write_eof()
        self.flow.resume_reading()
        self._end = self.loop.call_later(LINGER, self._wire.abort)

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


def _problem(status: int, title: str, code: str) -> bytes:
    # No request was read, or its own id is not known here.
    shown = problems.Problem.of(status, title, code, f"{title}.", token_hex(16))
    return shown.model_dump_json().encode()


def _refusal(status: int, title: str, code: str) -> bytes:
    body = _problem(status, title, code)
    return (
        b"HTTP/1.1 %d %b\r\n"
        b"Content-Type: %b\r\n"
        b"Content-Length: %d\r\nConnection: close\r\n\r\n%b"
        % (status, HTTPStatus(status).phrase.encode(), _PROBLEM, len(body), body)
    )


class Server(uvicorn.Server):
    """uvicorn, in an interpreter that is tuned for many short requests.

    Garbage is looked for among what came since the start, and less often: what was loaded until
    then stays, and looking through it took a tenth of the time of recall.
    """

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen."""
        await super().startup(sockets)
        gc.collect()
        gc.freeze()
        gc.set_threshold(GARBAGE_AFTER)
        sys.setswitchinterval(TURN)


def _to_its_end(app: ASGIApp) -> ASGIApp:
    """Let who is still waited for when the process must end hear that it does, and no 500."""

    async def served(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await app(scope, receive, send)
        except asyncio.CancelledError:
            if scope["type"] != "http":
                raise
            body = _problem(Unavailable.status, Unavailable.title, Unavailable.code)
            headers = [
                (b"content-type", _PROBLEM),
                (b"content-length", b"%d" % len(body)),
                (b"retry-after", b"1"),
                (b"connection", b"close"),
            ]
            with suppress(RuntimeError):  # the answer had begun
                await send(
                    {
                        "type": "http.response.start",
                        "status": Unavailable.status,
                        "headers": headers,
                    }
                )
                await send({"type": "http.response.body", "body": body})

    return served


def configuration(app: ASGIApp, host: str, port: int, **more: Any) -> uvicorn.Config:
    """Give the server's configuration for an application."""
    return uvicorn.Config(
        _to_its_end(app),
        host=host,
        port=port,
        http=PatientProtocol,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        **more,
    )
