"""Claude's memory tool answers as the SDK's own file backend does, but for its holes."""

import asyncio
import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from anthropic.tools import BetaLocalFilesystemMemoryTool, ToolError

from app.memory.file_text import MAX_ENTRIES, MAX_FILE, MAX_VIEW
from tests.world import Caller

EMPTY = (
    "Here're the files and directories up to 2 levels deep in /memories, "
    "excluding hidden items:\n4K\t/memories"
)


async def use(caller: Caller, command: str, **arguments: Any) -> tuple[str, bool]:
    # As ASCII: a client of another language may send half of a surrogate pair.
    content = json.dumps({"command": command, **arguments})
    answer = await caller.call(
        "POST",
        f"{caller.base}/memory-tool",
        content=content,
        headers={"Content-Type": "application/json"},
    )
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
    pick = random.Random(seed)  # noqa: S311 - which command comes, not a secret
    compared = 0
    for _ in range(270):
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
    assert compared >= 200


# Where the SDK's own backend is silent, lets an error through, or has a hole.


async def test_an_unseen_user_has_an_empty_directory_and_is_not_created(alice: Caller):
    assert await do(alice, "view", path="/memories") == EMPTY
    assert await do(alice, "view", path="/memories/") == EMPTY.replace("memories", "memories/")
    assert alice.world.rows("select 1 from memory_user where tenant_id = %s", alice.tenant_id) == []


async def test_a_listing_ends_at_the_second_level_and_tells_sizes(alice: Caller):
    for path, text in (
        ("b/c/d.txt", "x"),
        ("b/.git", "x"),
        ("a.txt", "x" * 1536),
        ("z.txt", ""),
        ("b/e.txt", "ü"),
    ):
        await do(alice, "create", path=f"/memories/{path}", file_text=text)

    shown = await do(alice, "view", path="/memories")

    assert shown.splitlines()[1:] == [
        "4K\t/memories",
        "1.5K\t/memories/a.txt",
        "4K\t/memories/b/",
        "4K\t/memories/b/c/",
        "2B\t/memories/b/e.txt",
        "0B\t/memories/z.txt",
    ]
    assert await do(alice, "view", path="/memories/b/") == (
        "Here're the files and directories up to 2 levels deep in /memories/b/, excluding hidden "
        "items:\n4K\t/memories/b/\n4K\t/memories/b//c/\n1B\t/memories/b//c/d.txt\n"
        "2B\t/memories/b//e.txt"
    )


async def test_a_long_file_is_cut_and_can_be_paged_through(alice: Caller):
    lines = [f"line {n} {'x' * 90}" for n in range(900)]
    await do(alice, "create", path="/memories/long", file_text="\n".join(lines))

    seen: list[str] = []
    asked: dict[str, Any] = {}
    for _ in range(20):
        shown = await do(alice, "view", path="/memories/long", **asked)
        assert len(shown) <= MAX_VIEW
        seen += [row.split("\t")[1] for row in shown.splitlines()[1:] if "\t" in row]
        rest = re.search(
            r"\[Cut at 16,000 characters\. View on with view_range (\[.*\])\.\]$", shown
        )
        if rest is None:
            break
        asked = {"view_range": json.loads(rest[1])}

    assert seen == lines
    part = await do(alice, "view", path="/memories/long", view_range=[10, 300])
    assert part.endswith(", 300].]")


async def test_one_line_longer_than_a_view_is_cut(alice: Caller):
    await do(alice, "create", path="/memories/long", file_text="x " * 20_000 + "\nend")

    shown = await do(alice, "view", path="/memories/long")

    assert len(shown) <= MAX_VIEW
    assert shown.endswith("view_range [2, -1].]")


async def test_a_replacement_left_out_deletes(alice: Caller):
    await do(alice, "create", path="/memories/a", file_text="one two three")
    await do(alice, "str_replace", path="/memories/a", old_str=" two")
    await do(alice, "str_replace", path="/memories/a", old_str=" three", new_str=None)

    assert (await do(alice, "view", path="/memories/a")).endswith("     1\tone")


async def test_an_empty_text_matches_nothing(alice: Caller):
    await do(alice, "create", path="/memories/a", file_text="one")

    told = await refused(alice, "str_replace", path="/memories/a", old_str="", new_str="x")

    assert (
        told == "No replacement was performed, old_str `` did not appear verbatim in /memories/a."
    )


@pytest.mark.parametrize(
    "path",
    [
        "/memories_backup",
        "/memories/../x",
        "/memories/.",
        "/memories/a/..",
        "/memories//a",
        "/memories/a//",
        "/memories/..\\x",
        "/memories/%2e%2e%2fx",
        "/memories/a%2Fb",
        "/memories/a\x00b",
        "/memories/a\nb",
        "/memories/a\u202eb",
        "/memories/a\ud800b",
        "/memories/" + "x" * 1015,
        "/memories" + "/x" * 21,
    ],
)
async def test_a_path_that_could_mean_another_is_refused_by_every_command(alice: Caller, path: str):
    escapes = f"Path {path} would escape /memories directory".replace("\ud800", "\ufffd")
    commands: list[dict[str, Any]] = [
        {"command": "view", "path": path},
        {"command": "create", "path": path, "file_text": "x"},
        {"command": "str_replace", "path": path, "old_str": "x"},
        {"command": "insert", "path": path, "insert_line": 0, "insert_text": "x"},
        {"command": "delete", "path": path},
        {"command": "rename", "old_path": path, "new_path": "/memories/a"},
        {"command": "rename", "old_path": "/memories/a", "new_path": path},
    ]
    for command in commands:
        assert await use(alice, **command) == (escapes, True)
    assert await do(alice, "view", path="/memories") == EMPTY


async def test_a_new_file_has_no_slash_at_its_end(alice: Caller):
    told = await refused(alice, "create", path="/memories/a/", file_text="x")

    assert told == "Path /memories/a/ would escape /memories directory"


async def test_one_name_in_two_unicode_forms_is_one_file(alice: Caller):
    await do(alice, "create", path="/memories/cafe\u0301", file_text="x")

    assert await refused(alice, "create", path="/memories/caf\u00e9", file_text="y") == (
        "File /memories/caf\u00e9 already exists"
    )


@pytest.mark.parametrize("root", ["/memories", "/memories/"])
async def test_the_root_stays(alice: Caller, root: str):
    await do(alice, "create", path="/memories/a", file_text="x")

    assert (
        await refused(alice, "delete", path=root) == "Cannot delete the /memories directory itself"
    )
    assert await refused(alice, "rename", old_path=root, new_path="/memories/b") == (
        "Cannot rename the /memories directory itself"
    )


async def test_what_the_file_system_would_say_is_said_in_plain_words(alice: Caller):
    await do(alice, "create", path="/memories/f", file_text="x")
    await do(alice, "create", path="/memories/d/e", file_text="x")

    below = "The path /memories/f is a file: nothing can be below it."
    assert await refused(alice, "create", path="/memories/f/g", file_text="x") == below
    assert await refused(alice, "rename", old_path="/memories/d", new_path="/memories/f/g") == below
    assert await refused(alice, "rename", old_path="/memories/d", new_path="/memories/d/x") == (
        "Cannot move /memories/d into itself"
    )


async def test_a_refused_command_changes_nothing(alice: Caller):
    await do(alice, "create", path="/memories/f", file_text="x")
    before = await do(alice, "view", path="/memories")

    await refused(alice, "rename", old_path="/memories/none", new_path="/memories/a/b")
    await refused(alice, "create", path="/memories/c/d", file_text="x" * (MAX_FILE + 1))

    assert await do(alice, "view", path="/memories") == before


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"command": "frobnicate"}, "Unknown command: frobnicate."),
        ({"path": "/memories"}, "Unknown command: none."),
        ({"command": ["view"]}, "Unknown command: none."),
        ({"command": "view"}, "The command `view` needs the argument `path`."),
        ({"command": "create", "path": "/memories/a"}, "needs the argument `file_text`."),
        ({"command": "insert", "path": "/memories/a", "insert_text": ""}, "`insert_line`."),
        ({"command": "view", "path": 7}, "The argument `path` must be a string."),
        ({"command": "view", "path": "/memories", "view_range": 3}, "must be a list of two"),
        ({"command": "view", "path": "/memories", "view_range": ["a", 1]}, "takes whole numbers"),
        (
            {"command": "insert", "path": "/memories/a", "insert_line": True, "insert_text": ""},
            "The argument `insert_line` takes whole numbers.",
        ),
    ],
)
async def test_what_a_model_got_wrong_is_told_in_a_sentence(
    alice: Caller, given: dict[str, Any], told: str
):
    answer = await alice.post("/memory-tool", given)

    assert answer.status_code == 200
    assert answer.json()["is_error"]
    assert told in answer.json()["content"]


# Limits, secrets, pauses.

SECRET = "AKIA" + "Q3Z7W5N8K2M4P6R1"


async def test_a_secret_is_refused_however_it_is_written(alice: Caller):
    await do(alice, "create", path="/memories/a", file_text="It begins with AKIA, they said.\n")
    writes: list[dict[str, Any]] = [
        {"command": "create", "path": "/memories/b", "file_text": f"key: {SECRET}"},
        {"command": "create", "path": "/memories/c", "file_text": "pad " * 5000 + SECRET},
        {"command": "create", "path": f"/memories/{SECRET}", "file_text": ""},
        {"command": "insert", "path": "/memories/a", "insert_line": 0, "insert_text": SECRET},
        {"command": "rename", "old_path": "/memories/a", "new_path": f"/memories/{SECRET}"},
        # Put together out of two harmless halves.
        {"command": "str_replace", "path": "/memories/a", "old_str": ",", "new_str": SECRET[4:]},
    ]
    for write in writes:
        told, is_error = await use(alice, **write)
        assert is_error, write
        assert "looks like a secret" in told
        assert SECRET not in told

    held = alice.world.rows("select path, content from memory_file")
    assert not any(SECRET in f"{path}{content}" for path, content in held)


async def test_files_are_bounded_in_size_and_number(alice: Caller):
    await do(alice, "create", path="/memories/full", file_text="ü" * (MAX_FILE // 2))
    told = await refused(
        alice, "insert", path="/memories/full", insert_line=0, insert_text="one more"
    )
    assert "102,400 bytes" in told

    (user_id,) = alice.world.rows(
        "select user_id from memory_user where tenant_id = %s", alice.tenant_id
    )[0]
    alice.world.execute(
        "insert into memory_file (tenant_id, user_id, path, content) "
        "select %s, %s, '/memories/' || n, '' from generate_series(1, %s) n",
        alice.tenant_id,
        user_id,
        MAX_ENTRIES - 2,
    )
    assert "2,000 files" in await refused(alice, "create", path="/memories/a/b", file_text="")
    await do(alice, "create", path="/memories/last", file_text="")
    assert "2,000 files" in await refused(alice, "create", path="/memories/more", file_text="")


async def test_a_directory_is_not_moved_to_where_its_files_would_not_fit(alice: Caller):
    await do(alice, "create", path="/memories/a" + "/x" * 18, file_text="")

    told = await refused(alice, "rename", old_path="/memories/a", new_path="/memories/b/c/d")

    assert "too long or too deep" in told


@pytest.mark.parametrize("memory", ["paused", "restricted"])
async def test_while_memory_is_not_on_no_file_is_read_or_written(alice: Caller, memory: str):
    await do(alice, "create", path="/memories/a", file_text="x")
    await alice.call("PATCH", f"{alice.base}/settings", json={"memory": memory})

    for command in ("view", "delete"):
        told = await refused(alice, command, path="/memories/a")
        assert told == f"The user's memory is {memory}: no file is read or written now."

    await alice.call("PATCH", f"{alice.base}/settings", json={"memory": "on"})
    assert (await do(alice, "view", path="/memories/a")).endswith("     1\tx")


async def test_text_that_the_database_can_not_hold_is_cleaned_of_it_alone(alice: Caller):
    await do(alice, "create", path="/memories/a", file_text="a\x00b\ud800\r\nc\tZ\u200d")

    assert (await do(alice, "view", path="/memories/a")).endswith(
        "     1\tab\ufffd\r\n     2\tc\tZ\u200d"
    )
    await do(alice, "str_replace", path="/memories/a", old_str="a\x00b\ud800", new_str="d")


async def test_files_of_other_users_and_tenants_are_out_of_reach(alice: Caller, other: Caller):
    bob = alice.of("bob")
    for caller in (alice, bob, other):
        await do(caller, "create", path="/memories/a", file_text=f"{caller.user}'s")
        await do(caller, "create", path="/memories/d/e", file_text="x")

    await do(bob, "delete", path="/memories/d")
    await do(other, "rename", old_path="/memories/a", new_path="/memories/b")

    assert (await do(alice, "view", path="/memories/a")).endswith("\talice's")
    assert len((await do(alice, "view", path="/memories")).splitlines()) == 5


# Two writers at once.


async def test_of_two_creations_at_once_one_succeeds(alice: Caller):
    answers = await asyncio.gather(
        *(use(alice, "create", path="/memories/a/b", file_text=str(n)) for n in range(6))
    )

    assert sorted(answers) == sorted(
        [
            ("File created successfully at: /memories/a/b", False),
            *[("File /memories/a/b already exists", True)] * 5,
        ]
    )


@pytest.mark.parametrize("padding", [0, 6_000])
async def test_no_update_is_lost_between_writers(alice: Caller, padding: int):
    """A long file is looked through for secrets outside the lock: it may change meanwhile."""
    pad = "pad " * (padding // 4)
    slots = "\n".join(f"slot{n}." for n in range(6))
    await do(alice, "create", path="/memories/a", file_text=f"{slots}\n{pad}\n")

    replaced = (
        use(alice, "str_replace", path="/memories/a", old_str=f"slot{n}.", new_str=f"done{n}.")
        for n in range(6)
    )
    inserted = (
        use(alice, "insert", path="/memories/a", insert_line=0, insert_text=f"new{n}.")
        for n in range(4)
    )
    answers = await asyncio.gather(*replaced, *inserted)

    assert not any(is_error for _, is_error in answers), answers
    shown = await do(alice, "view", path="/memories/a")
    assert all(f"done{n}." in shown for n in range(6))
    assert all(f"new{n}." in shown for n in range(4))
    assert alice.world.rows(
        "select revision from memory_file where tenant_id = %s", alice.tenant_id
    ) == [(11,)]
