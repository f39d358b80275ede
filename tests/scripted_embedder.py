"""An embeddings service on loopback that answers as a test tells it to, over real HTTP.

Left alone it speaks OpenAI's `/embeddings` and gives vectors in which shared words bring texts
near, the same in every run. It records what it was asked.
"""

import asyncio
import json
import threading
import time
import zlib
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self, TypeVar

from app.embeddings import Embedder, EmbedderError

T = TypeVar("T")
E = TypeVar("E", bound=Embedder)


@dataclass(frozen=True)
class Asked:
    """A request as it arrived."""

    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]

    @property
    def texts(self) -> list[str]:
        return list(self.body["input"])


@dataclass(frozen=True)
class Reply:
    """What to answer: a status, a body (any JSON, or raw bytes), after a delay.

    Without `body` the vectors that were asked for; `hang_up` closes the connection instead.
    """

    status: int = 200
    body: Any = None
    delay: float = 0.0
    hang_up: bool = False


def vector_of(text: str, dimensions: int) -> list[float]:
    """Give each word a direction of its own and add them up."""
    numbers = [0.0] * dimensions
    for word in text.lower().split() or ["."]:
        seed = zlib.crc32(word.strip(".,!?").encode())
        for step in range(8):
            seed = (seed * 1_103_515_245 + 12_345) % 2**31
            numbers[seed // 7 % dimensions] += 1.0 if step % 2 else -0.5
    numbers[0] += 0.01
    return numbers


def answer(vectors: Sequence[Any]) -> dict[str, Any]:
    """Wrap vectors as OpenAI does."""
    return {
        "object": "list",
        "data": [
            {"object": "embedding", "index": n, "embedding": vector}
            for n, vector in enumerate(vectors)
        ],
    }


@dataclass
class ScriptedEmbedder:
    """Use as a context manager; `url` goes into the settings of the embedder under test.

    `script` holds replies for the next requests, `always` the reply for all others.
    """

    dimensions: int = 64
    always: Reply = field(default_factory=Reply)
    script: deque[Reply] = field(default_factory=deque)
    asked: list[Asked] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self._reply))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def _reply(self, asked: Asked) -> Reply:
        self.asked.append(asked)
        reply = self.script.popleft() if self.script else self.always
        if reply.body is None:
            vectors = [vector_of(text, self.dimensions) for text in asked.texts]
            return Reply(reply.status, answer(vectors), reply.delay, reply.hang_up)
        return reply


def _handler(reply_to: Callable[[Asked], Reply]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            reply = reply_to(Asked(self.path, headers, json.loads(body)))
            time.sleep(reply.delay)
            if reply.hang_up:
                self.close_connection = True
                return
            content = (
                reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
            )
            try:
                self.send_response(reply.status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
            except ConnectionError:
                self.close_connection = True  # the client had enough; so some tests want it

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's name
            """Keep silent."""

    return Handler


def using(embedder: E, act: Callable[[E], Awaitable[T]]) -> T:
    """Run `act` on an event loop of its own and close the embedder."""

    async def run() -> T:
        try:
            return await act(embedder)
        finally:
            await embedder.aclose()

    return asyncio.run(run())


def chain(error: BaseException | None) -> list[type[BaseException]]:
    """List the types of an error and of all that it holds on to."""
    types: list[type[BaseException]] = []
    while error is not None:
        types.append(type(error))
        error = error.__cause__ or error.__context__
    return types


async def code_of(work: Awaitable[object]) -> str | None:
    """Give the code of the error that `work` ended in, if any."""
    try:
        await work
    except EmbedderError as error:
        return error.code
    return None
