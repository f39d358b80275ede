"""Rules of the house that a reader would otherwise have to remember."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted([*(ROOT / "app").rglob("*.py"), *(ROOT / "migrations").rglob("*.py")])


def _where(path: Path, node: ast.AST) -> str:
    return f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"


@cache
def _nodes() -> list[tuple[Path, ast.AST]]:
    return [(path, node) for path in SOURCES for node in ast.walk(ast.parse(path.read_text()))]


def test_nobody_commits_by_hand():
    """A transaction is a block; a commit in its middle would let half of a change stand."""
    commits = [
        _where(path, node)
        for path, node in _nodes()
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "commit"
    ]
    assert commits == []


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        # Errors are the product's own; only the router's two (404, 405) need translating.
        ("HTTPException", {"app/problems.py"}),
        # What must happen after an answer is a job in the answer's transaction.
        ("BackgroundTasks", set()),
        ("BackgroundTask", set()),
    ],
)
def test_the_frameworks_own_way_is_not_taken(name: str, allowed: set[str]):
    users = {
        str(path.relative_to(ROOT))
        for path, node in _nodes()
        if isinstance(node, ast.ImportFrom) and any(alias.name == name for alias in node.names)
    }
    assert users <= allowed


_CLOCKS = {
    "datetime.now", "datetime.utcnow", "datetime.today", "date.today", "func.localtimestamp",
    "time.time", "time.time_ns", "time.localtime", "time.gmtime", "time.strftime", "time.ctime",
}  # fmt: skip


def _name(node: ast.Attribute) -> str:
    return ".".join(ast.unparse(node).split(".")[-2:])


def test_a_process_asks_its_own_clock_for_no_decision():
    """Machines' clocks differ. What is decided is decided by the database's, `app.db.now`."""
    asking = {
        str(path.relative_to(ROOT))
        for path, node in _nodes()
        if (isinstance(node, ast.Attribute) and _name(node) in _CLOCKS)
        or (isinstance(node, ast.ImportFrom) and node.module == "time")
    }
    assert asking == {
        "app/telemetry.py",  # when a line of the log was written
        "app/demo.py",  # when the demo's sentences were said, on an embedded database
        "app/messages_api.py",  # until a time in Retry-After of an answer that has no Date
        "app/worker.py",  # takes back what the queue's library added by the same clock
        "app/memory/recall_log.py",  # which facts it need not note again today
        # How long a key lasts, by the same clock twice.
        "app/memory/tenants.py",
        "app/deps.py",
    }


def test_no_file_grows_past_four_hundred_lines():
    long = {
        str(path.relative_to(ROOT)): lines
        for path in SOURCES
        if (lines := len(path.read_text().splitlines())) > 400
    }
    assert set(long) <= {"app/models.py"}  # every table on one page, and nothing but tables


def test_every_module_says_what_it_is_for():
    silent = [
        str(path.relative_to(ROOT))
        for path in SOURCES
        if path.read_text().strip() and not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert silent == []


def test_dependencies_point_down():
    checked = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout
