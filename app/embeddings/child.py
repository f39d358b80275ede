"""The process beside the service in which the local model works.

The model's tokenizer is pure Python: on a thread of the service it would hold the interpreter while
requests wait for it.
"""

import asyncio
import os
import socket
import subprocess
import weakref
from collections import deque
from collections.abc import Sequence
from contextlib import suppress

from app.embeddings.seam import EmbedderError
from app.telemetry import logger

ANSWER = 512 * 4
"""Bytes of a vector."""

UNREADABLE = b"\xff" * ANSWER
"""The answer to a text that could not be embedded."""

AHEAD = 2
"""Texts that the process holds at once: what it reads while the answer before is on its way.

The others wait here, where their callers may still give them up. So few fit any buffer: neither
side ever waits for the other to read.
"""

log = logger(__name__)


class Child:
    """A started process. Its answers come in the order of its texts.

    It ends with `end`, with the last reference to it, and with the service, however that ends; and
    when it has left a text without an answer for `patience` seconds. Event loops may take turns.
    """

    def __init__(self, command: Sequence[str], patience: float) -> None:
        """Start it. Raises `EmbedderError`."""
        try:
            self._socket, theirs = socket.socketpair()
        except OSError:
            raise EmbedderError("unavailable") from None
        with theirs:
            try:
                self._process = subprocess.Popen(  # noqa: S603 - our own program, without a shell
                    command,
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    stderr=subprocess.DEVNULL,
                    # More threads than it uses would take memory all the same.
                    env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
                )
            except OSError:
                self._socket.close()
                raise EmbedderError("unavailable") from None
        self._socket.setblocking(False)
        self._close = weakref.finalize(self, _close, self._process, self._socket)
        self._patience = patience
        self._watch: asyncio.TimerHandle | None = None
        self._has_answered = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: deque[tuple[bytes, asyncio.Future[bytes]]] = deque()
        self._asked: deque[asyncio.Future[bytes]] = deque()
        self._came = b""

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Whether it answers no more."""
        return not self._close.alive

    @property
    def answers(self) -> bool:
        """Whether it has answered before, and was not seen to end since."""
        return self._has_answered and not self.has_ended

    async def ask(self, text: bytes) -> bytes:
        """Give the vector of a text. Raises `EmbedderError` when the process ends before."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._leave_loop()
            self._loop = loop
            loop.add_reader(self._socket, self._receive)
        answer: asyncio.Future[bytes] = loop.create_future()
        self._waiting.append((text, answer))
        self._send()
        try:
            return await answer
        except asyncio.CancelledError:
            # A process that stands still never comes to it.
            with suppress(ValueError):
                self._waiting.remove((text, answer))
            raise

    def end(self) -> None:
        """Kill the process, which holds nothing but the model. Who waits hears `unavailable`."""
        if self.has_ended:
            return
        self._leave_loop()
        self._close()
        for answer in (*self._asked, *(answer for _, answer in self._waiting)):
            if _is_awaited(answer):
                answer.set_exception(EmbedderError("unavailable"))
        self._asked.clear()
        self._waiting.clear()

    def _leave_loop(self) -> None:
        self._watch_no_more()
        if self._loop and not self._loop.is_closed():
            self._loop.remove_reader(self._socket)

    def _send(self) -> None:
        try:
            while self._waiting and len(self._asked) < AHEAD:
                text, answer = self._waiting.popleft()
                if _is_awaited(answer):
                    self._asked.append(answer)
                    self._socket.sendall(len(text).to_bytes(4, "little") + text)
        except OSError:
            self._fail()
        else:
            if self._asked and self._watch is None:
                loop = asyncio.get_running_loop()
                self._watch = loop.call_later(self._patience, self._give_up)

    def _receive(self) -> None:
        try:
            came = self._socket.recv(AHEAD * ANSWER)
        except BlockingIOError:
            return
        except OSError:
            came = b""
        if not came:
            self._fail()
            return
        self._came += came
        while len(self._came) >= ANSWER:
            answer, self._came = self._came[:ANSWER], self._came[ANSWER:]
            asked = self._asked.popleft()
            self._has_answered = True
            self._watch_no_more()
            if _is_awaited(asked):
                asked.set_result(answer)
        self._send()

    def _fail(self) -> None:
        self.end()
        log.warning("embedder_ended", status=self._process.returncode)

    def _give_up(self) -> None:
        """End a process that hangs: who waits would wait for ever, a worker's jobs among them."""
        self.end()
        log.warning("embedder_hung")

    def _watch_no_more(self) -> None:
        if self._watch:
            self._watch.cancel()
            self._watch = None


def _close(process: "subprocess.Popen[bytes]", ours: socket.socket) -> None:
    ours.close()
    process.kill()
    process.wait()


def _is_awaited(answer: "asyncio.Future[bytes]") -> bool:
    """Whether somebody waits for it still: a caller may give up, or an event loop end."""
    return not answer.done() and not answer.get_loop().is_closed()
