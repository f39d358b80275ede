"""No log repeats what a user said, whichever library speaks."""

import json
import subprocess
import sys
from typing import Any

import pytest

WORDS = "zqx771 the words of the user"

_BEGIN = f"""
import asyncio, json, logging
from app import telemetry
telemetry.configure("debug")
WORDS = {WORDS!r}
"""


def logged(script: str) -> list[dict[str, Any]]:
    """What a process writes to its log that runs the script."""
    ran = subprocess.run(
        [sys.executable, "-c", _BEGIN + script], capture_output=True, text=True, check=True
    )
    assert WORDS not in ran.stderr
    return [json.loads(line) for line in ran.stderr.splitlines()]


@pytest.mark.parametrize(
    ("script", "event"),
    [
        (
            """
async def fails():
    raise RuntimeError(WORDS)

async def main():
    await asyncio.wait({asyncio.create_task(fails())})
""",
            "Task exception was never retrieved",
        ),
        (
            """
async def main():
    asyncio.get_running_loop().call_soon(json.loads, WORDS)
    await asyncio.sleep(0.01)
""",
            "Exception in callback loads",
        ),
    ],
    ids=["task", "callback"],
)
def test_a_failure_that_nobody_waited_for_is_reported_without_its_words(script, event):
    lines = logged(script + "\nasyncio.run(main())")

    assert [line["event"] for line in lines if line["level"] == "error"] == [event]


def test_an_exception_is_logged_by_its_type_and_place():
    (line,) = logged("""
try:
    raise ValueError(WORDS)
except ValueError:
    logging.getLogger("somebody").exception("it failed")
""")

    assert (line["event"], line["error"]) == ("it failed", "ValueError")
    assert line["where"] == ["<string>:8 <module>"]


def test_a_log_that_can_not_be_written_repeats_nothing():
    assert (
        logged("""
class Broken(logging.StreamHandler):
    def format(self, record):
        raise OSError
logging.getLogger().handlers[:] = [Broken()]
logging.getLogger("somebody").warning("said: %s", WORDS)
""")
        == []
    )
