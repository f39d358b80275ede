"""Real processes, really killed: what was acknowledged is learned, once, whatever dies when."""

import json
import multiprocessing
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app.worker import Pace
from tests.fakes import FAST, silence, until
from tests.slow_worker import THINKS, work
from tests.world import Caller, World

BEFORE = ["I live in Lisbon.", "We use Redis and Postgres.", "I prefer window seats."]
SAID = ["I moved to Porto.", "We use Redis.", "I have two cats.", "I work at Acme."]

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["tests.slow_worker"])


@contextmanager
def a_worker(world: World, log: str = os.devnull, pace: Pace = FAST) -> Iterator[Any]:
    """Run a worker in a process of its own; SIGKILL is the only way out."""
    process = _processes.Process(target=work, args=(world.urls.service, log, pace), daemon=True)
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()


def status(caller: Caller) -> list[str]:
    query = "select status from memory_session where tenant_id = %s and external_id = 'killed'"
    return [row[0] for row in caller.world.rows(query, caller.tenant_id)]


async def end_state(caller: Caller) -> Any:
    """Give all that a run leaves, but for ids and times."""
    facts = await caller.facts("all")
    texts = {fact["id"]: fact["text"] for fact in facts}
    left = sorted(
        (f["text"], f["status"], f["confirmations"], texts.get(f["superseded_by"])) for f in facts
    )
    counts = [
        caller.world.rows(f"select count(*) from {table} where tenant_id = %s", caller.tenant_id)
        for table in ("evidence", "verdict", "fact_event", "message")
    ]
    return left, counts


async def begin(caller: Caller) -> None:
    silence(caller.world)
    await caller.say(*BEFORE)
    turns = [{"role": "user", "content": text} for text in SAID]
    sent = await caller.post("/transcripts", {"session": "killed", "messages": turns})
    assert sent.status_code == 202


async def killed_after(caller: Caller, seconds: float) -> Any:
    """Give the end state when the worker dies that long after it claimed the session."""
    await begin(caller)
    with a_worker(caller.world):
        await until(lambda: status(caller) == ["extracting"])
        time.sleep(seconds)  # noqa: ASYNC251 - nothing here may go on meanwhile
    with a_worker(caller.world):
        await until(lambda: status(caller) == ["done"], within=30)
    return await end_state(caller)


async def kill_at(world: World, moments: list[float]) -> None:
    undisturbed = await world.tenant()
    await begin(undisturbed)
    with a_worker(world):
        await until(lambda: status(undisturbed) == ["done"], within=30)
    expected = await end_state(undisturbed)
    outcomes = {(state, bool(confirmations)) for _, state, confirmations, _ in expected[0]}
    assert outcomes == {("live", False), ("live", True), ("superseded", False)}

    for moment in moments:
        assert await killed_after(await world.tenant(), moment) == expected, f"killed at {moment}"


async def test_worker_killed_between_claim_and_commit_leaves_no_trace_of_it(world):
    await kill_at(world, [THINKS / 2, THINKS * 1.5, THINKS * 2.1])


@pytest.mark.soak
@pytest.mark.timeout(900)
async def test_worker_killed_at_twenty_points_between_claim_and_commit(world):
    await kill_at(world, [n * 2.6 * THINKS / 20 for n in range(20)])


async def frozen(world: World, log: Path, pace: Pace) -> None:
    """Stop a worker past its lease, let another finish its job, and let it go on."""
    caller = await world.tenant()
    await begin(caller)
    with a_worker(world, str(log), pace) as stopped:
        await until(lambda: status(caller) == ["extracting"])
        os.kill(stopped.pid, signal.SIGSTOP)
        with a_worker(world, pace=pace):
            await until(lambda: status(caller) == ["done"], within=90)
            after = await end_state(caller)
            os.kill(stopped.pid, signal.SIGCONT)
            await until(lambda: '"claim_lost"' in log.read_text())
            assert '"session_extracted"' not in log.read_text()
            assert await end_state(caller) == after

    attempts = "select attempt from memory_session where external_id = 'killed' and tenant_id = %s"
    assert world.rows(attempts, caller.tenant_id) == [(2,)]


async def test_worker_that_was_frozen_past_its_lease_can_not_commit(world, tmp_path):
    await frozen(world, tmp_path / "log", FAST)


@pytest.mark.soak
@pytest.mark.timeout(300)
async def test_worker_that_was_frozen_for_as_long_as_in_production_can_not_commit(world, tmp_path):
    await frozen(world, tmp_path / "log", Pace())


class Service:
    """`usermem serve` on an embedded database of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._usermem = str(Path(sys.executable).parent / "usermem")
        self.port = _free_port()
        self.key = ""

    @contextmanager
    def running(self, *options: str) -> Iterator[subprocess.Popen[bytes]]:
        """Serve until the block ends or the process is killed in it."""
        arguments = [*options, "--port", str(self.port), "--data-dir", str(self._folder)]
        process = subprocess.Popen(
            [self._usermem, "serve", *arguments], stderr=subprocess.DEVNULL, env=_environment()
        )
        try:
            self._await_health(process)
            yield process
        finally:
            process.terminate()
            process.wait(40)

    def create_tenant(self) -> None:
        made = subprocess.run(
            [self._usermem, "tenants", "create", "acme", "--data-dir", str(self._folder)],
            capture_output=True,
            check=True,
            env=_environment(),
        )
        self.key = json.loads(made.stdout)["key"]["key"]

    def call(self, method: str, path: str, **kwargs: Any) -> httpx2.Response:
        return httpx2.request(
            method,
            f"http://127.0.0.1:{self.port}{path}",
            headers={"Authorization": f"Bearer {self.key}"} if self.key else {},
            timeout=35,
            **kwargs,
        )

    def _await_health(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + 240
        while time.monotonic() < deadline:
            assert process.poll() is None, "the service ended by itself"
            try:
                if self.call("GET", "/livez").status_code == 200:
                    return
            except httpx2.TransportError:
                time.sleep(0.1)
        raise AssertionError("the service did not start")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _environment() -> dict[str, str]:
    hidden = ("USERMEM_", "ANTHROPIC_")
    return {name: value for name, value in os.environ.items() if not name.startswith(hidden)}


@pytest.fixture
def service() -> Iterator[Service]:
    folder = Path(tempfile.mkdtemp(prefix="usermem-crash-"))
    yield Service(folder)
    shutil.rmtree(folder, ignore_errors=True)


def _tell(service: Service, session: str, text: str) -> None:
    body = {"session": session, "messages": [{"role": "user", "content": text}]}
    assert service.call("POST", "/v1/users/u/transcripts", json=body).status_code == 202


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait(10)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_service_killed_right_after_its_202_learns_what_it_acknowledged(service):
    with service.running("--no-worker") as process:
        service.create_tenant()
        _tell(service, "s", "I live in Lisbon.")
        _kill(process)

    with service.running():
        state = service.call("GET", "/v1/users/u/sessions/s?wait=30").json()
        facts = service.call("GET", "/v1/users/u/facts?status=all").json()["items"]

    assert state["status"] == "done"
    assert [(fact["text"], fact["confirmations"]) for fact in facts] == [("Lives in Lisbon.", 0)]


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_service_killed_at_random_moments_learns_each_fact_once(service):
    cities = ["Linz", "Graz", "Porto", "Lisbon", "Berlin", "Vienna"]
    for n, city in enumerate(cities):
        with service.running() as process:
            if not service.key:
                service.create_tenant()
            _tell(service, f"s{n}", f"I live in {city}.")
            _tell(service, f"t{n}", "I prefer window seats.")
            time.sleep(n * 0.05)
            _kill(process)

    with service.running():
        deadline = time.monotonic() + 2 * Pace().dead_after
        for session in [f"{kind}{n}" for n in range(len(cities)) for kind in "st"]:
            path = f"/v1/users/u/sessions/{session}?wait=30"
            while service.call("GET", path).json()["status"] != "done":
                assert time.monotonic() < deadline
        facts = service.call("GET", "/v1/users/u/facts?status=all").json()["items"]

    assert sorted(fact["text"] for fact in facts) == sorted(
        [f"Lives in {city}." for city in cities] + ["Prefers window seats."]
    )
    (seat,) = [fact for fact in facts if fact["text"] == "Prefers window seats."]
    assert seat["confirmations"] == len(cities) - 1
