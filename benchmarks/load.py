"""Asks a server as fast as it answers, over kept-alive connections.

`wrk` if it is there, for it costs the machine almost nothing; else a small generator in Python,
which shares two cores with what it measures and so shows less than the server can do.
"""

import asyncio
import itertools
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

NO_WRK: Final = "wrk is not installed (Debian: apt-get install wrk); the built-in generator serves"

_LUA: Final = """
local paths, n, salt = {}, 0, os.getenv("SALT")
for line in io.lines(os.getenv("PATHS")) do paths[#paths + 1] = line end
local headers = {["Authorization"] = "Bearer " .. os.getenv("KEY")}
function request()
  n = n + 1
  local path = paths[n % #paths + 1]
  if salt ~= "" then path = path .. "%20" .. salt .. n end
  return wrk.format("GET", path, headers)
end
function done(summary, latency, requests)
  local shape = '{"requests": %d, "seconds": %f, "p50": %f, "p95": %f, "bad": %d}'
  io.write("\\nRESULT ", string.format(shape,
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3,
    latency:percentile(95) / 1e3, summary.errors.status + summary.errors.connect
    + summary.errors.read + summary.errors.write + summary.errors.timeout), "\\n")
end
"""


@dataclass(frozen=True, slots=True)
class Measured:
    """What came back; times in milliseconds."""

    rps: float
    p50: float
    p95: float


def ask(
    port: int,
    key: str,
    paths: Sequence[str],
    *,
    seconds: float,
    clients: int = 4,
    salt: str = "",
) -> Measured:
    """Ask for these paths in turn; with a salt no two requests are alike. Any failure raises."""
    if wrk := shutil.which("wrk"):
        return _with_wrk(wrk, port, key, paths, seconds, clients, salt)
    return asyncio.run(_built_in(port, key, paths, seconds, clients, salt))


def _with_wrk(
    wrk: str, port: int, key: str, paths: Sequence[str], seconds: float, clients: int, salt: str
) -> Measured:
    with tempfile.TemporaryDirectory() as folder:
        script, list_ = Path(folder, "ask.lua"), Path(folder, "paths")
        script.write_text(_LUA)
        list_.write_text("\n".join(paths) + "\n")
        run = subprocess.run(
            [wrk, "-t1", f"-c{clients}", f"-d{round(seconds)}s", "-s", str(script),
             f"http://127.0.0.1:{port}"],
            env={"PATHS": str(list_), "KEY": key, "SALT": salt},
            capture_output=True,
            text=True,
            check=True,
        )  # fmt: skip
    result = json.loads(run.stdout.partition("RESULT ")[2])
    if result["bad"]:
        raise RuntimeError(f"{result['bad']} requests failed")
    return Measured(result["requests"] / result["seconds"], result["p50"], result["p95"])


async def _built_in(
    port: int, key: str, paths: Sequence[str], seconds: float, clients: int, salt: str
) -> Measured:
    asked = _requests(key, paths, salt)
    until = time.perf_counter() + seconds
    times: list[float] = []

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while (started := time.perf_counter()) < until:
            writer.write(next(asked))
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            if not head.startswith((b"http/1.1 2", b"http/1.1 304")):
                raise RuntimeError("a request failed")
            length = head.partition(b"content-length: ")[2].partition(b"\r\n")[0]
            if length:
                await reader.readexactly(int(length))
            times.append(time.perf_counter() - started)
        writer.close()

    await asyncio.gather(*(client() for _ in range(clients)))
    times.sort()
    return Measured(
        len(times) / seconds, times[len(times) // 2] * 1e3, times[len(times) * 95 // 100] * 1e3
    )


def _requests(key: str, paths: Sequence[str], salt: str) -> Iterator[bytes]:
    for number, path in enumerate(itertools.cycle(paths)):
        tail = f"%20{salt}{number}" if salt else ""
        yield (
            f"GET {path}{tail} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {key}\r\n\r\n"
        ).encode()
