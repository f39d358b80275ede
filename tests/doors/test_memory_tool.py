"""Claude's memory tool over HTTP gives the answers of the SDK's own file backend, or better ones."""

import asyncio
import random
import re
from pathlib import Path
from typing import Any

import pytest
from anthropic.tools import BetaLocalFilesystemMemoryTool, ToolError

from app.memory.file_text import MAX_ENTRIES, MAX_FILE, MAX_VIEW
from tests.world import Caller, World

EMPTY = (
    "Here're the files and directories up to 2 levels deep in /memories, "
    "excluding hidden items:\n4K\t/memories"
)


async def use(caller: Caller, command: str, **arguments: Any) -> tuple[str, bool]:
    answer = await caller.post("/memory-tool", {"command": command, **arguments})
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert set(body) == {"content", "is_error"}
    return body["content"], body["is_error"]


async def do(caller: Caller, command: str, **arguments: Any) -> str:
    content, is_error = await use(caller, command, **arguments)
    assert not is_error, content
    return content


async def refused(caller: Caller, command: str, **arguments: Any) -> str:
    content, is_error = await use(caller, command, **arguments)
    assert is_error, content
    return content


# The same answers as the SDK's own backend.

NAMES = ("a", "b.md", "c", ".hidden", "Ä.txt", "node_modules")
TEXTS = (
    "",
    "one",
    "one\n",
    "one\ntwo\nthree\n",
    "x x",
    "aaa",
    "ü\r\nö",
    "tab\tend\n\n\n",
    "one two",
)


def a_path(pick: random.Random) -> str:
    if pick.random() < 0.06:
        odd = ("/memories", "/memories/", "/etc/passwd", "memories/a", "", "/Memories/a")
        return pick.choice((*odd, "/memories/../x", "/memories/a/../../../x"))
    return "/".join(("/memories", *pick.choices(NAMES, k=pick.choice((1, 1, 2, 2, 3, 4)))))


def a_command(pick: random.Random) -> dict[str, Any]:
    command = pick.choice(
        ("view", "view", "create", "create", "create", "str_replace", "insert", "delete", "rename")
    )
    path = a_path(pick)
    if command == "rename":
        return {"command": command, "old_path": path, "new_path": a_path(pick)}
    arguments: dict[str, Any] = {"command": command, "path": path}
    if command == "view" and pick.random() < 0.5:
        arguments["view_range"] = pick.choice(
            ([1, 2], [2, -1], [0, 1], [3, 2], [9, 20], [1, -2], [-3, 2], [2])
        )
    if command == "create":
        arguments["file_text"] = pick.choice(TEXTS)
    if command == "str_replace":
        arguments |= {
            "old_str": pick.choice(("one", "x", "aa", "two\nthree", "\r", "nothing")),
            "new_str": pick.choice(("", "one", "$& \\1", "a\nb\nc\nd\ne\nf")),
        }
    if command == "insert":
        arguments |= {
            "insert_line": pick.choice((0, 0, 1, 2, 3, -1, 40, "1")),
            "insert_text": pick.choice(("", "in", "in\n", "in\n\nout\n\n")),
        }
    return arguments


def by_the_sdk(
    sdk: BetaLocalFilesystemMemoryTool, command: dict[str, Any]
) -> tuple[str, bool] | None:
    """The SDK's answer; None where it lets an error of the system through to the model."""
    try:
        return str(sdk.call(command)), False
    except ToolError as error:
        return str(error.content), True
    except OSError:
        return None


def leaves_debris(sdk_root: Path, command: dict[str, Any]) -> bool:
    """The SDK makes the directories of a new path before it knows that nothing will be there."""
    if command["command"] != "rename":
        return False
    old = sdk_root / command["old_path"].lstrip("/")
    return not old.exists() or Path(command["new_path"]).is_relative_to(command["old_path"])


@pytest.mark.parametrize("seed", range(4))
async def test_random_commands_are_answered_as_the_sdks_own_backend_answers_them(
    alice: Caller, tmp_path: Path, seed: int
):
    sdk = BetaLocalFilesystemMemoryTool(str(tmp_path))
    pick = random.Random(seed)
    compared = 0
    for _ in range(300):
        command = a_command(pick)
        if leaves_debris(tmp_path, command):
            continue
        theirs = by_the_sdk(sdk, command)
        ours = await use(alice, **command)
        if theirs is None:
            assert ours[1], command
            assert str(tmp_path) not in ours[0]
            continue
        # The size of a directory is whatever the file system says.
        same = re.sub(r"^[\d.]+[BKMG]\t(/.*/|/memories)$", "4K\t\\1", theirs[0], flags=re.MULTILINE)
        assert ours == (same, theirs[1]), command
        compared += 1
    assert compared >= 250
