"""The demonstration: the whole service for a few seconds, in a directory that is gone afterwards.

Nothing here knows a result: two conversations go in over HTTP, and all that is shown comes back
out of the API. The rules and the local embedder serve, whatever keys the environment holds.
"""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import shorten
from typing import Any, Final

import httpx2
import uvicorn
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from app import db, telemetry
from app.address import database
from app.errors import UsermemError
from app.main import create_app
from app.memory.render import estimate_tokens
from app.memory.tenants import create_tenant
from app.server import configuration
from app.settings import Settings

_USER: Final = "dana"
_PATIENCE: Final = 30
"""Seconds for a session to be done."""

_START: Final = 90
"""Seconds for the service to answer: on a busy machine its imports alone may take long."""


_FIRST_TEXT: Final = """
Dana: Hi, my name is Dana and I live in Lisbon. We use Postgres, and our monthly report has become
slow. What would you look at first?

AI: Hello Dana! You are probably a data engineer at a startup, so I'll be direct. Run EXPLAIN
(ANALYZE, BUFFERS) on the report's query and compare estimated with actual rows. Where they differ
by more than ten times, run ANALYZE on the table or raise its statistics target. A sequential scan
over a large table under a selective filter asks for an index. And since you are on AWS, RDS
Performance Insights will show you the waits.

Dana: Never suggest AWS, we are on-prem by contract.

AI: Understood. Then pg_stat_statements and auto_explain give you the same picture on your own
machines. Load both through shared_preload_libraries, let them collect for a day, and sort by total
execution time: the report's query will be near the top, and its plan will be in the log.

Dana: Thanks. Something else: draft a short note to our travel desk about my flight to Berlin on
Friday. I prefer window seats.

AI: Here is a draft: 'Hello, please book me a flight from Lisbon to Berlin for Friday morning,
returning on Saturday, with a window seat on both legs. Many thanks, Dana.' I guess you like early
flights and travel with hand luggage only.
"""

_SECOND_TEXT: Final = """
Dana: We migrated from Postgres to PlanetScale. How do people roll back a schema change there?

AI: You must love MySQL by now. PlanetScale works with deploy requests: a change is made on a
branch, compared with production and deployed without locking. For about half an hour after the
deployment it can be reverted with one command, and rows written in between are kept. After that, a
new deploy request in the other direction is the way back.

Dana: Good to know. And I'm learning Rust. I prefer window seats, as you know.

AI: Noted. For Rust, start with the book, then write something small that you would otherwise have
written in Go, which I assume is your main language.
"""


@dataclass(frozen=True, slots=True)
class _Conversation:
    session: str
    days_ago: int
    text: str

    def turns(self) -> list[tuple[str, str]]:
        """Give each turn as who speaks and what is said."""
        lines = (" ".join(turn.split()).partition(": ") for turn in self.text.split("\n\n"))
        return [(name, words) for name, _, words in lines]

    def messages(self) -> list[dict[str, str]]:
        """Give the turns as a backend would send them."""
        turns = self.turns()
        start = datetime.now(UTC) - timedelta(days=self.days_ago, minutes=len(turns))
        return [
            {
                "role": "user" if name == "Dana" else "assistant",
                "content": words,
                "created_at": (start + timedelta(minutes=number)).isoformat(),
            }
            for number, (name, words) in enumerate(turns)
        ]


_CONVERSATIONS: Final = (
    _Conversation("slow-report", 21, _FIRST_TEXT),
    _Conversation("new-database", 0, _SECOND_TEXT),
)
_QUESTION: Final = "Which seat should I ask for on the way back?"


class DemoFailed(UsermemError):  # noqa: N818 - said to a person who tries the service
    """The demonstration could not be shown."""


def run() -> None:
    """Show the main job on a service of its own; leave nothing behind."""
    telemetry.configure("error")
    console = Console(highlight=False)
    console.width = min(console.width, 80)
    with ExitStack() as stack:
        with console.status("Starting Postgres and the service"):
            folder = stack.enter_context(TemporaryDirectory(prefix="usermem-demo-"))
            http = stack.enter_context(_service(Path(folder, "data")))
        _Show(console, http).play()


@contextmanager
def _service(data_dir: Path) -> Iterator[httpx2.Client]:
    """Serve on a free port of this machine, with a worker inside; give a tenant's client."""
    # Built without reading the environment: a key or a URL there is not for this.
    settings = Settings.model_construct(data_dir=data_dir, extractor="rules", embedder="local")
    with database(settings) as address, socket.create_server(("127.0.0.1", 0)) as listener:
        db.migrate(address.owner_url)
        key = asyncio.run(_tenant(address.owner_url))
        served = create_app(settings, address.service_url)
        server = uvicorn.Server(configuration(served, "127.0.0.1", 0))
        thread = threading.Thread(target=server.run, args=([listener],), name="service")
        thread.start()
        try:
            _wait_for(server, thread)
            with httpx2.Client(
                base_url=f"http://127.0.0.1:{listener.getsockname()[1]}/v1/users/{_USER}",
                headers={"Authorization": f"Bearer {key}"},
                timeout=2 * _PATIENCE,
                trust_env=False,
            ) as http:
                yield http
        finally:
            server.should_exit = True
            thread.join()


async def _tenant(url: str) -> str:
    base = db.Database(url, pool_size=2, pool_timeout=_PATIENCE)
    await base.open()
    try:
        return (await create_tenant(base, "demo"))[2].key
    finally:
        await base.close()


def _wait_for(server: uvicorn.Server, thread: threading.Thread) -> None:
    deadline = time.monotonic() + _START
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline:
            raise DemoFailed("The service did not start.")
        time.sleep(0.02)


class _Show:
    """Tells the story of one user's memory, out of the API's answers alone."""

    def __init__(self, console: Console, http: httpx2.Client) -> None:
        self._console = console
        self._http = http
        self._known: dict[str, dict[str, Any]] = {}

    def play(self) -> None:
        """Two conversations, then a question."""
        self._console.print(
            Text.assemble(
                ("Usermem", "bold"),
                "  two conversations become facts, and facts a block for the next prompt",
            )
        )
        for number, conversation in enumerate(_CONVERSATIONS, start=1):
            self._title(f"Conversation {number}, {_when(conversation.days_ago)}")
            self._tell(conversation)
        self._title("A new question")
        self._ask()

    def _call(self, method: str, path: str, **kwargs: Any) -> Any:
        answer = self._http.request(method, path, **kwargs)
        if answer.is_error:
            raise DemoFailed(f"{method} {path} was answered with {answer.status_code}.")
        return answer.json()

    def _title(self, title: str) -> None:
        self._console.print()
        self._console.rule(Text(title, "bold"), align="left", style="dim")

    def _tell(self, conversation: _Conversation) -> None:
        """Post a conversation, wait until it is read, and show what has changed."""
        for name, words in conversation.turns():
            self._turn(name, words)
        receipt = self._call(
            "POST",
            "/transcripts",
            json={"session": conversation.session, "messages": conversation.messages()},
        )
        state = self._call(
            "GET", f"/sessions/{conversation.session}", params={"wait": str(_PATIENCE)}
        )
        if state["status"] != "done":
            raise DemoFailed(f"The session is {state['status']} after {_PATIENCE} seconds.")
        counts = state["facts"]
        self._say(
            f"Turns: {receipt['accepted']} of the user read, {receipt['ignored']} of the "
            "assistant dropped at the door.\n"
            f"Facts: {counts['added']} added, {counts['confirmed']} confirmed, "
            f"{counts['superseded']} superseded. Model calls: {state['model_calls']}."
        )
        self._show_changes()

    def _turn(self, name: str, words: str) -> None:
        """Show a turn: the user's whole, the assistant's by its beginning."""
        is_user = name == "Dana"
        line = Table.grid(padding=(0, 2))
        line.add_column(width=4, no_wrap=True)
        line.add_column()
        shown = words if is_user else shorten(words, 60, placeholder=" …")
        line.add_row(name, Text(shown), style=None if is_user else "dim")
        self._console.print(Padding(line, (0, 0, 0, 2)))

    def _say(self, text: str) -> None:
        self._console.print()
        self._console.print(Padding(Text(text), (0, 0, 0, 2)))

    def _show_changes(self) -> None:
        """Show facts that are new, were said again, or gave way, since the last look."""
        listed = self._call("GET", "/facts", params={"status": "all", "limit": 200})["items"]
        before, self._known = self._known, {fact["id"]: fact for fact in listed}
        added = [fact for fact in reversed(listed) if fact["id"] not in before]
        again = [
            fact
            for fact in listed
            if fact["id"] in before and fact["confirmations"] > before[fact["id"]]["confirmations"]
        ]
        gone = [
            fact
            for fact in listed
            if fact["superseded_by"] and not before.get(fact["id"], {}).get("superseded_by")
        ]
        if added:
            self._facts("Learned", added)
        if again:
            self._facts("Said again: more evidence for the same fact, no second one", again)
        for old in gone:
            self._supersession(old)

    def _facts(self, heading: str, facts: Sequence[Mapping[str, Any]]) -> None:
        table = Table(box=None, padding=(0, 2, 0, 0), title=heading, title_justify="left")
        table.title_style = "bold"
        table.add_column("kind", style="cyan", header_style="dim", no_wrap=True)
        table.add_column("fact", header_style="dim", ratio=2)
        table.add_column("the user's words", style="dim italic", header_style="dim", ratio=3)
        for fact in facts:
            evidence = self._why(fact["id"])["evidence"]
            table.add_row(fact["kind"], Text(fact["text"]), Text(_quoted(evidence)))
        self._console.print()
        self._console.print(Padding(table, (0, 0, 0, 2)))

    def _why(self, fact_id: str) -> Any:
        return self._call("GET", f"/facts/{fact_id}/why")

    def _supersession(self, old: Mapping[str, Any]) -> None:
        new = self._known[old["superseded_by"]]
        verdict = next(v for v in self._why(old["id"])["verdicts"] if v["new"] == new["id"])
        lines = Table.grid(padding=(0, 2))
        lines.add_column(style="dim", no_wrap=True)
        lines.add_column()
        lines.add_row("old", Text(old["text"], "strike dim"))
        lines.add_row("new", Text(new["text"], "green"))
        lines.add_row("why", Text(f"{verdict['verdict']}: {verdict['reason']}"))
        lines.add_row("judge", Text(f"{verdict['judge']}; the old fact stays, for audit", "dim"))
        self._console.print()
        self._console.print(Text("  Superseded, not overwritten", "bold"))
        self._console.print(Padding(lines, (0, 0, 0, 2)))

    def _ask(self) -> None:
        """Ask for the block, and print it last."""
        self._turn("Dana", _QUESTION)
        recalled = self._call("GET", "/memory", params={"query": _QUESTION})
        history = sum(estimate_tokens(words) for one in _CONVERSATIONS for _, words in one.turns())
        live = [fact for fact in self._known.values() if fact["status"] == "live"]
        self._say(
            f"Tokens, estimated: the whole history {history} and growing, the block "
            f"{recalled['tokens']} and never\nmore than 600. It holds {len(recalled['facts'])} of "
            f"{len(live)} live facts. Paste it after your own instructions.\nNext: make run, and "
            "the quick start in README.md."
        )
        self._console.print()
        # Piped, the block is byte for byte what the API gave; a terminal gets whole words a line.
        self._console.print(
            Text(recalled["block"]), soft_wrap=not self._console.is_terminal, style="green"
        )


def _quoted(evidence: Sequence[Mapping[str, Any]]) -> str:
    return "\n".join(f"“{one['quote']}”" for one in evidence)


def _when(days_ago: int) -> str:
    return f"{days_ago} days ago" if days_ago else "today"
