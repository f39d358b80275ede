"""A Messages API on loopback that says what a test tells it to, over real HTTP.

    with ScriptedClaude() as server:
        server.script(Fault(529), Facts(fact("Lives in Graz.", quote="I live in Graz")))
        claude = Claude("key", server.url)

Steps are played in the order the requests come; a step with `on=` waits for a request of that kind.
Without a step, `server.extract` and `server.judge` answer: callables from a `Request` to items,
by default no facts and INDEPENDENT for every pair; a chat (without an output schema) is answered by
`Says`. Every request is kept in `server.requests`.
"""

import contextlib
import html
import json
import re
import socket
import struct
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, Self

from app.claude import Claude

Step = Literal["extract", "judge", "chat"]
Item = Mapping[str, object]


@dataclass(frozen=True)
class Request:
    """One request as it came: `step` is told by its schema, `at` by the monotonic clock."""

    step: Step
    body: dict[str, Any]
    headers: dict[str, str]
    path: str
    at: float

    @property
    def prompt(self) -> str:
        return str(self.body["messages"][0]["content"])

    @property
    def system(self) -> str:
        return str(self.body["system"])

    @property
    def turns(self) -> list[tuple[int, str]]:
        """Number and text of each turn, as the user wrote it."""
        found = re.findall(r'<turn n="(\d+)" said_at="[^"]+">(.*?)</turn>', self.prompt, re.DOTALL)
        return [(int(n), html.unescape(text)) for n, text in found]

    @property
    def pairs(self) -> list[tuple[int, str, str]]:
        """Number, old text and new text of each pair."""
        text = r"<subject>.*?</subject><text>(.*?)</text>"
        found = re.findall(
            rf'<pair n="(\d+)">\s*<old [^>]*>{text}</old>\s*<new [^>]*>{text}</new>', self.prompt
        )
        return [(int(n), html.unescape(old), html.unescape(new)) for n, old, new in found]


@dataclass(frozen=True, kw_only=True)
class _Answering:
    """What every answer with status 200 can carry."""

    stop: str = "end_turn"
    usage: Mapping[str, int] = field(
        default_factory=lambda: {"input_tokens": 10, "output_tokens": 5}
    )
    on: Step | None = None


@dataclass(frozen=True)
class Raw(_Answering):
    """An answer with exactly this text."""

    text: str


@dataclass(frozen=True)
class Facts(_Answering):
    """An extractor's answer."""

    items: Sequence[object] = ()

    @property
    def text(self) -> str:
        return json.dumps({"facts": list(self.items)})


@dataclass(frozen=True)
class Verdicts(_Answering):
    """A judge's answer."""

    items: Sequence[object] = ()

    @property
    def text(self) -> str:
        return json.dumps({"verdicts": list(self.items)})


@dataclass(frozen=True)
class Says(_Answering):
    """An assistant's turn in a chat: content blocks as the API has them."""

    blocks: Sequence[Item] = ({"type": "text", "text": "All right."},)


@dataclass(frozen=True, kw_only=True)
class Default:
    """Whatever the server would say without a script, after a while if wanted."""

    delay: float = 0.0
    on: Step | None = None


@dataclass(frozen=True, kw_only=True)
class Fault:
    """An HTTP error in the API's form; `error_code` as in the spend limits."""

    status: int
    retry_after: str | None = None
    message: str = "scripted"
    error_code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    on: Step | None = None


@dataclass(frozen=True, kw_only=True)
class Page:
    """A 200 that is no answer of the API, such as a proxy's page."""

    body: bytes = b"<html>Sign in</html>"
    content_type: str = "text/html"
    on: Step | None = None


@dataclass(frozen=True, kw_only=True)
class Reset:
    """The connection is torn down instead of an answer."""

    on: Step | None = None


@dataclass(frozen=True, kw_only=True)
class Drip:
    """Headers at once, then one byte of the body now and then, without end."""

    every: float = 0.05
    on: Step | None = None


Play = Raw | Facts | Verdicts | Says | Default | Fault | Page | Reset | Drip


def facts(*items: object, on: Step | None = "extract") -> Facts:
    return Facts(items, on=on)


def verdicts(*items: object, on: Step | None = "judge") -> Verdicts:
    return Verdicts(items, on=on)


def says(text: str) -> Says:
    return Says([{"type": "text", "text": text}], on="chat")


def calls(tool: str, **arguments: object) -> Says:
    block = {"type": "tool_use", "id": f"toolu_{tool}", "name": tool, "input": arguments}
    return Says([block], stop="tool_use", on="chat")


def refusal(text: str = "", on: Step | None = None) -> Raw:
    return Raw(text, stop="refusal", on=on)


def cut(text: str = '{"facts": [{"text": "Lives in', on: Step | None = None) -> Raw:
    """An answer that ran into the token limit, half a document by default."""
    return Raw(text, stop="max_tokens", on=on)


def fact(text: str, *, quote: str, **other: object) -> dict[str, object]:
    """An item as the model should give it; `other` overrides or adds fields."""
    return {
        "text": text,
        "kind": "profile",
        "subject": "home city",
        "turn": 1,
        "quote": quote,
        "valid_from": None,
    } | other


def no_facts(request: Request) -> list[Item]:
    return []


def independent(request: Request) -> list[Item]:
    return [{"pair": n, "verdict": "INDEPENDENT", "reason": "scripted"} for n, *_ in request.pairs]


def every_turn_verbatim(request: Request) -> list[Item]:
    """The worst extractor: whatever a user wrote is a constraint. Guards alone must hold."""
    return [
        fact(text, quote=text, kind="constraint", subject=f"subject {n}", turn=n)
        for n, text in request.turns
    ]


class ScriptedClaude:
    """The server; a context manager. Requests are answered on threads of their own."""

    def __init__(
        self,
        extract: Callable[[Request], Sequence[Item]] = no_facts,
        judge: Callable[[Request], Sequence[Item]] = independent,
    ) -> None:
        self.extract = extract
        self.judge = judge
        self.requests: list[Request] = []
        self._steps: list[Play] = []
        self._always: dict[Step | None, Play] = {}
        self._lock = threading.Lock()
        self.stopping = threading.Event()
        self._http = _Server(("127.0.0.1", 0), _Handler)
        self._http.script = self
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)

    @classmethod
    def hostile(cls) -> Self:
        """Gives every user turn back as a fact, and finds nothing to object to."""
        return cls(extract=every_turn_verbatim)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def script(self, *steps: Play) -> None:
        """Add steps, each to be played once."""
        with self._lock:
            self._steps += steps

    def always(self, step: Play | None, on: Step | None = None) -> None:
        """What to play when no step is left: for ever, or until set anew; None ends it."""
        with self._lock:
            if step is None:
                self._always.pop(on, None)
            else:
                self._always[on] = step

    def of(self, step: Step) -> list[Request]:
        """The requests of one kind so far."""
        return [request for request in self.requests if request.step == step]

    def play(self, request: Request) -> Play:
        """Record a request and choose what to answer; for the handler."""
        with self._lock:
            self.requests.append(request)
            for index, step in enumerate(self._steps):
                if step.on in (None, request.step):
                    return self._steps.pop(index)
            return self._always.get(request.step) or self._always.get(None) or Default()


@contextlib.asynccontextmanager
async def connected(server: ScriptedClaude, **limits: Any) -> AsyncIterator[Claude]:
    """A client of the server whose times are short enough for a test."""
    from app.messages_api import Limits  # noqa: PLC0415 - loads the SDK, as slow as in the service

    claude = Claude("key", server.url, limits=Limits(**{"timeout": 5.0, "retries": 0} | limits))
    try:
        yield claude
    finally:
        await claude.aclose()


def _step_of(body: Mapping[str, Any]) -> Step:
    if "output_config" not in body:
        return "chat"
    properties = body["output_config"]["format"]["schema"]["properties"]
    return "extract" if "facts" in properties else "judge"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    script: ScriptedClaude


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        headers = {name.lower(): value for name, value in self.headers.items()}
        headers.pop("x-api-key", None)
        request = Request(
            step=_step_of(body),
            body=body,
            headers=headers,
            path=self.path,
            at=time.monotonic(),
        )
        # A client that gives up in the middle is part of the play.
        with contextlib.suppress(ConnectionError):
            self._perform(self.server.script.play(request), request)

    def _perform(self, step: Play, request: Request) -> None:
        match step:
            case Raw() | Facts() | Verdicts():
                # A thinking block comes first, as newer models have it.
                thinking = {"type": "thinking", "thinking": "", "signature": "scripted"}
                self._message(step, [thinking, {"type": "text", "text": step.text}])
            case Says():
                self._message(step, step.blocks)
            case Default():
                self.server.script.stopping.wait(step.delay)
                self._perform(self._default(request), request)
            case Fault():
                self._fault(step)
            case Page():
                self._send(200, step.body, {"content-type": step.content_type})
            case Reset():
                # Lingering for no time at all makes close() send RST, not FIN.
                linger = struct.pack("ii", 1, 0)
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                self.close_connection = True
                self.connection.close()
            case Drip():
                self._drip(step)

    def _default(self, request: Request) -> Facts | Verdicts | Says:
        script = self.server.script
        if request.step == "chat":
            return Says()
        if request.step == "extract":
            return Facts(script.extract(request))
        return Verdicts(script.judge(request))

    def _message(self, step: _Answering, content: Sequence[object]) -> None:
        message = {
            "id": "msg_scripted",
            "type": "message",
            "role": "assistant",
            "model": "scripted",
            "content": list(content),
            "stop_reason": step.stop,
            "stop_sequence": None,
            "usage": dict(step.usage),
        }
        self._send(200, json.dumps(message).encode(), {"content-type": "application/json"})

    def _fault(self, step: Fault) -> None:
        error: dict[str, object] = {"type": "scripted_error", "message": step.message}
        if step.error_code:
            error["details"] = {"error_code": step.error_code}
        headers = {"content-type": "application/json", **step.headers}
        if step.retry_after is not None:
            headers["retry-after"] = step.retry_after
        self._send(step.status, json.dumps({"type": "error", "error": error}).encode(), headers)

    def _drip(self, step: Drip) -> None:
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", "1000000")
        self.end_headers()
        while not self.server.script.stopping.wait(step.every):
            self.wfile.write(b" ")
            self.wfile.flush()

    def _send(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing: the requests are kept, and hold what users said."""
