"""Processes of the real service on one database: APIs and workers, as an operator runs them."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from tests.world import Urls

USERMEM = Path(sys.executable).with_name("usermem")
_HIDDEN = ("USERMEM_", "ANTHROPIC_")


@dataclass
class Fleet:
    """Starts processes over `urls`; the block of `on` ends them all."""

    urls: Urls
    folder: Path
    settings: dict[str, str] = field(default_factory=dict)
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @classmethod
    @contextmanager
    def on(cls, urls: Urls, folder: Path, **settings: str) -> Iterator["Fleet"]:
        fleet = cls(urls, folder, settings)
        try:
            yield fleet
        finally:
            for process in fleet.processes:
                process.terminate()
            for process in fleet.processes:
                process.wait(40)

    @property
    def environment(self) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if not name.startswith(_HIDDEN)}
        return {
            **own,
            "USERMEM_DATABASE_URL": self.urls.service,
            "USERMEM_MIGRATE_DATABASE_URL": self.urls.superuser,  # who owns a fresh database
            "USERMEM_SIGNING_KEY": "k" * 40,
            "USERMEM_EXTRACTOR": "rules",
            "USERMEM_ERASURE_LEDGER": str(self.folder / "erasures.ndjson"),
            # One key asks for all callers here.
            "USERMEM_RATE_LIMIT_RECALL": "0",
            "USERMEM_RATE_LIMIT": "0",
            **self.settings,
        }

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        log = self.folder / f"{arguments[0]}-{len(self.processes)}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [USERMEM, *arguments], env=self.environment, stdout=out, stderr=out
            )
        self.processes.append(process)
        return process

    def run(self, *arguments: str) -> str:
        """Run a command to its end and give what it printed."""
        done = subprocess.run(
            [USERMEM, *arguments], env=self.environment, check=True, capture_output=True, text=True
        )
        return done.stdout

    def worker(self) -> subprocess.Popen[bytes]:
        return self.start("worker")

    def api(self, *options: str) -> str:
        """Serve on a free port, without a worker unless asked; give the URL once it is alive."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        process = self.start("serve", f"--port={port}", *(options or ("--no-worker",)))
        url = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + 240
        while time.monotonic() < deadline:
            assert process.poll() is None, "the service ended by itself"
            try:
                httpx2.get(f"{url}/livez", timeout=5)
            except httpx2.TransportError:
                time.sleep(0.1)
            else:
                return url
        raise AssertionError("the service did not start")

    def tenant(self, name: str = "acme") -> str:
        """Create a tenant; give its key."""
        made: dict[str, Any] = json.loads(self.run("tenants", "create", name))
        key: str = made["key"]["key"]
        return key


def kill(process: subprocess.Popen[bytes]) -> None:
    """End a process at once, without a last word."""
    process.send_signal(signal.SIGKILL)
    process.wait(10)
