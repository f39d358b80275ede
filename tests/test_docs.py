"""The documents say what is so: settings, targets, the tree, and which test proves what."""

import ast
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import urllib.request
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
import typer
from typer.testing import CliRunner

from app import cli
from app.durations import format_duration
from app.settings import Settings

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
GUARANTEES = (ROOT / "docs" / "guarantees.md").read_text()


def unit_of(annotation: Any, default: Any) -> str:
    if get_origin(annotation) is Literal:
        return " \\| ".join(f"`{choice}`" for choice in get_args(annotation))
    if isinstance(default, timedelta):
        return "duration"
    kinds = {int: "count", float: "cosine, -1 to 1", bool: "`true` \\| `false`", Path: "path"}
    inner = [kind for kind in get_args(annotation) or (annotation,) if kind is not type(None)]
    return kinds.get(inner[0], "secret" if inner[0].__name__ == "SecretStr" else "text")


def default_of(value: Any) -> str:
    if value is None:
        return "unset"
    if isinstance(value, timedelta):
        return f"`{format_duration(value)}`"
    return f"`{str(value).lower()}`" if isinstance(value, bool) else f"`{value}`"


def settings_rows() -> list[str]:
    return [
        f"| `USERMEM_{name.upper()}` | {default_of(field.default)} "
        f"| {unit_of(field.annotation, field.default)} | {field.description} |"
        for name, field in Settings.model_fields.items()
    ]


def shell_commands(text: str) -> list[str]:
    fences = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    lines = [line for language, code in fences if language == "sh" for line in code.splitlines()]
    found = (re.search(r"(?:^|bin/)usermem ([^|#]*)", line) for line in lines)
    return [match[1].strip() for match in found if match]


def section(text: str, heading: str) -> str:
    return text.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]


def table(text: str) -> list[list[str]]:
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows[1:]]


def test_the_settings_table_is_the_settings():
    told = [line for line in README.splitlines() if line.startswith("| `USERMEM_")]

    assert told == settings_rows()


def test_no_page_names_a_setting_that_is_not_there():
    pages = [ROOT / name for name in ("README.md", "CHANGELOG.md", "docker-compose.yml")]
    known = {f"USERMEM_{name.upper()}" for name in Settings.model_fields}
    known |= {"USERMEM_TEST_DATABASE_URL"}

    for page in [*pages, *(ROOT / "docs").rglob("*.md")]:
        named = set(re.findall(r"\bUSERMEM_[A-Z_]+\b", page.read_text()))
        assert named - known == set(), page.name


@pytest.fixture
def serving(tmp_path, free_tcp_port):
    """A service as `make run` starts it, on another port and folder; gives its environment."""
    environment = {**os.environ, "USERMEM_DATA_DIR": str(tmp_path), "USERMEM_EXTRACTOR": "rules"}
    command = [str(Path(sys.executable).with_name("usermem")), "serve", f"--port={free_tcp_port}"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
        try:
            wait_for(f"http://127.0.0.1:{free_tcp_port}/readyz")
            yield environment
        finally:
            process.terminate()


def wait_for(url: str) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 - on loopback
                answer.read()
                return
        except OSError:  # refused, or too slow in its first seconds
            time.sleep(0.2)
    pytest.fail("the service did not start")


@pytest.mark.timeout(240)
@pytest.mark.skipif(shutil.which("curl") is None, reason="the quick start is written for curl")
def test_the_quick_start_runs_as_it_stands_and_ends_as_shown(serving, free_tcp_port):
    start = section(README, "Quick start")
    fences = re.findall(r"^```(\w+)\n(.*?)^```$", start, re.DOTALL | re.MULTILINE)
    script = "\n".join(
        code for language, code in fences if language == "sh" and code != "make run\n"
    )
    script = script.replace("127.0.0.1:8000", f"127.0.0.1:{free_tcp_port}")
    script = script.replace(".venv/bin/", f"{Path(sys.executable).parent}/")

    ran = subprocess.run(
        ["/bin/bash", "-euo", "pipefail"],
        input=script,
        env=serving,
        capture_output=True,
        text=True,
        check=True,
    )

    shown = [code for language, code in fences if language in {"json", "text"}]
    decoder = json.JSONDecoder()
    receipt, end = decoder.raw_decode(ran.stdout)
    state, rest = decoder.raw_decode(ran.stdout, end)
    assert without_times(receipt) == without_times(json.loads(shown[0]))
    assert without_times(state) == without_times(json.loads(shown[1]))
    assert ran.stdout[rest:] == shown[2].rstrip("\n")


def without_times(answer: dict[str, Any]) -> dict[str, Any]:
    return {key: None if key.endswith(("_at", "_after")) else v for key, v in answer.items()}


def test_every_make_target_is_there():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))

    assert set(re.findall(r"`make ([a-z-]+)`", README)) <= targets
    assert {
        row[0].strip("`").removeprefix("make ") for row in table(section(README, "Development"))
    } == (targets - {"help"})


def test_every_command_that_is_shown_is_one_of_the_command_line():
    shown = shell_commands(README)

    assert len(shown) >= 5
    for arguments in shown:
        told = CliRunner().invoke(cli.app, [*shlex.split(arguments), "--help"])
        assert told.exit_code == 0, arguments


def test_every_command_of_the_command_line_is_named():
    found = typer.main.get_command(cli.app)

    for name, command in found.commands.items():  # type: ignore[attr-defined]
        inner = getattr(command, "commands", {"": None})
        for below in inner:
            assert f"usermem {name} {below}".strip() in README


def test_every_event_of_the_log_and_every_check_of_readiness_is_explained():
    page = (ROOT / "docs" / "operations" / "signals.md").read_text()
    code = "".join(path.read_text() for path in (ROOT / "app").rglob("*.py"))
    events = set(re.findall(r'\b(?:log\.\w+|report)\(\s*"([a-z_]+)"', code)) | {"request"}
    explained = {
        name
        for row in page.splitlines()
        if row.startswith("| `")
        for name in re.findall(r"`(\w+)`", row.split("|")[1])
    }

    assert len(events) > 15
    assert explained == events | {"database", "schema", "ledger", "worker", "model", "embedder"}


def test_every_module_has_its_line_in_the_tree():
    tree = section(README, "The house")
    named = set(re.findall(r"^ *([a-z_]+(?:\.py|/))(?= )", tree, re.MULTILINE))
    modules = {path.name for path in (ROOT / "app").glob("*.py")} - {"__init__.py"}
    folders = {f"{path.parent.name}/" for path in (ROOT / "app").glob("*/__init__.py")}

    assert (modules | folders) - named == set()
    assert {name for name in named if name.endswith(".py")} <= {
        path.name for path in (ROOT / "app").rglob("*.py")
    }


def test_links_within_the_pages_lead_somewhere():
    for page in (ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")):
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_every_guarantee_stands_once():
    ids = [row[0] for row in table(GUARANTEES)]

    assert ids == [f"T{n:02}" for n in range(1, 95)] + [f"P{n:02}" for n in range(1, 42)]


@pytest.mark.parametrize("row", table(GUARANTEES), ids=lambda row: row[0])
def test_a_guarantee_names_tests_that_exist_or_says_not_yet(row):
    proven_by = row[-1]

    if proven_by != "not yet":
        proofs = re.findall(r"`([^`]+)`", proven_by)
        assert proofs
        for proof in proofs:
            path, _, name = proof.partition("::")
            assert name in functions_of(path), proof


@cache
def functions_of(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / "tests" / path).read_text())
    defined = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, defined))
