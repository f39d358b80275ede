"""The service under measurement: its own embedded Postgres, one uvicorn process, no worker."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Server:
    """A server in a process of its own."""

    port: int
    pid: int

    @property
    def rss_mb(self) -> float:
        """Resident memory of the process itself now."""
        return _processes()[self.pid][1]

    @property
    def children_rss_mb(self) -> float:
        """Resident memory of all processes that descend from it; 0 without any."""
        processes, found = _processes(), {self.pid}
        while more := {pid for pid, (parent, _) in processes.items() if parent in found} - found:
            found |= more
        return sum(processes[pid][1] for pid in found - {self.pid})


def _processes() -> dict[int, tuple[int, float]]:
    """Give each process's parent and its resident memory in MB."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/status"):
        with suppress(OSError):  # it may have ended meanwhile
            status = dict(line.split(":", 1) for line in path.read_text().splitlines())
            resident = status.get("VmRSS", "0 kB").split()[0]
            found[int(status["Pid"])] = int(status["PPid"]), int(resident) / 1024
    return found


@contextmanager
def running(command: Sequence[str], env: Mapping[str, str]) -> Iterator[Server]:
    """Start a server that takes `--port`, wait until it listens, stop it at the end."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [*command, "--port", str(port)],
        env={**os.environ, **env},
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    try:
        _wait(process, port)
        yield Server(port, process.pid)
    finally:
        process.terminate()
        process.wait(30)


def _wait(process: subprocess.Popen[bytes], port: int) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with status {process.returncode}")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise RuntimeError("the server does not listen")


def service(database_url: str, **more: str) -> tuple[list[str], dict[str, str]]:
    """Give command and environment of the service over a migrated database, with more settings.

    Without a line in the log for each request, as the route that it is measured against.
    """
    return [str(Path(sys.executable).with_name("usermem")), "serve", "--no-worker"], {
        "USERMEM_DATABASE_URL": database_url,
        "USERMEM_SIGNING_KEY": "k" * 40,
        "USERMEM_EXTRACTOR": "rules",
        "USERMEM_LOG_LEVEL": "warning",
        "USERMEM_RATE_LIMIT": "0",
        "USERMEM_RATE_LIMIT_RECALL": "0",
        **more,
    }


def row_app(database_url: str) -> tuple[list[str], dict[str, str]]:
    """Give command and environment of the route that reads one row."""
    command = [sys.executable, "-m", "uvicorn", "benchmarks.row_app:app", "--no-access-log"]
    return command, {"ROW_DATABASE_URL": database_url}


def wide_embeddings() -> tuple[list[str], dict[str, str]]:
    """Give command and environment of the embeddings service of 1,024 dimensions."""
    return [sys.executable, "-m", "uvicorn", "benchmarks.wide:app", "--no-access-log"], {}
