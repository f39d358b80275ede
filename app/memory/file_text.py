"""What the memory tool's commands mean and say, without a database: paths, views, edits.

The texts are those of the SDK's own file backend, which models know.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from app.text import without_surrogates

ROOT: Final = "/memories"
MAX_FILE: Final = 102_400
"""Bytes of one file."""
MAX_ENTRIES: Final = 2_000
"""Files and directories of one user."""
MAX_PATH: Final = 1_024
"""Bytes of a path."""
MAX_DEPTH: Final = 20
MAX_VIEW: Final = 16_000
"""Characters of a file that one view shows; the rest is for another, by `view_range`."""

_ENCODED: Final = re.compile("%2[ef]", re.IGNORECASE)
_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


class Refused(Exception):  # noqa: N818 - an answer, not a fault
    """The command is not carried out; `text` tells the model why."""

    def __init__(self, text: str) -> None:
        super().__init__("a command of the memory tool was refused")
        self.text = text


@dataclass(frozen=True, slots=True)
class View:
    """Show a file with line numbers, or what is in a directory."""

    path: str
    view_range: Sequence[int] | None = None


@dataclass(frozen=True, slots=True)
class Create:
    """Write a new file; its directories are made."""

    path: str
    file_text: str


@dataclass(frozen=True, slots=True)
class StrReplace:
    """Replace a text that occurs once; by nothing if not said by what."""

    path: str
    old_str: str
    new_str: str = ""


@dataclass(frozen=True, slots=True)
class Insert:
    """Insert lines behind the line of that number."""

    path: str
    insert_line: int
    insert_text: str


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a file, or a directory with all below it."""

    path: str


@dataclass(frozen=True, slots=True)
class Rename:
    """Move a file or directory; never onto another."""

    old_path: str
    new_path: str


Command = View | Create | StrReplace | Insert | Delete | Rename


def resolve(path: str, *, is_file: bool = False) -> str:
    """Give the path as it is stored. Refuses every spelling that could mean another one.

    One slash at the end is let pass, as listings show directories with it, but not for a new file.
    """
    if not path.startswith(ROOT):
        raise Refused(f"Path must start with {ROOT}, got: {path}")
    stored = unicodedata.normalize("NFC", path)
    if not is_file:
        stored = stored.removesuffix("/")
    head, *segments = stored.removeprefix(ROOT).split("/")
    if head or not all(_is_plain(segment) for segment in segments) or not fits(stored):
        raise Refused(f"Path {path} would escape {ROOT} directory")
    return stored


def _is_plain(segment: str) -> bool:
    return (
        segment not in {"", ".", ".."}
        and "\\" not in segment
        and not _ENCODED.search(segment)
        and not any(unicodedata.category(char) in _UNSEEN for char in segment)
    )


def fits(path: str) -> bool:
    """Tell whether a path is short and shallow enough to be stored."""
    return len(path.encode()) <= MAX_PATH and path.count("/") - 1 <= MAX_DEPTH


def storable(text: str) -> str:
    """Give a text as the database can hold it, else as it was written: it must be found again."""
    return without_surrogates(text.replace("\0", ""))


def listed(shown: str, path: str, entries: Mapping[str, int | None]) -> str:
    """List a directory two levels deep; what is hidden, or below something hidden, is left out."""
    head = "Here're the files and directories up to 2 levels deep in"
    lines = [f"{head} {shown}, excluding hidden items:", f"{_size(None)}\t{shown}"]
    below = (entry.split("/") for entry in entries if entry.startswith(f"{path}/"))
    depth = path.count("/") + 1
    for parts in sorted(below):
        names = parts[depth:]
        if len(names) <= 2 and not any(name.startswith(".") for name in names):
            size = entries["/".join(parts)]
            slash = "/" if size is None else ""
            lines.append(f"{_size(size)}\t{shown}/{'/'.join(names)}{slash}")
    return "\n".join(lines)


def _size(size: int | None) -> str:
    """Write a size as the SDK does; a directory has that of an empty one on a disk."""
    value = 4096 if size is None else size
    unit = 0
    while value >= 1024 ** (unit + 1) and unit < 3:
        unit += 1
    scaled = value / 1024**unit
    return f"{scaled:.0f}{'BKMG'[unit]}" if scaled == int(scaled) else f"{scaled:.1f}{'BKMG'[unit]}"


def numbered(command: View, text: str) -> str:
    """Show a file, or the lines asked for; what is too long for one view is cut, and says so."""
    lines = text.split("\n")
    first, last = 1, len(lines)
    if command.view_range is not None and len(command.view_range) == 2:
        first = max(1, command.view_range[0])
        last = len(lines) if command.view_range[1] == -1 else command.view_range[1]
    head = f"Here's the content of {command.path} with line numbers:\n"
    body = "\n".join(_number(n, line) for n, line in enumerate(lines[first - 1 : last], first))
    if len(head) + len(body) <= MAX_VIEW:
        return head + body
    room = MAX_VIEW - len(head) - 100
    # Whole lines, unless one alone is longer than a view.
    kept = body[:room].rpartition("\n")[0] or body[:room]
    rest = first + kept.count("\n") + 1
    end = last if last < len(lines) else -1
    return (
        f"{head}{kept}\n[Cut at {MAX_VIEW:,} characters. View on with view_range [{rest}, {end}].]"
    )


def _number(n: int, line: str) -> str:
    return f"{n:>6}\t{line}"


def _lines_of(wanted: str, text: str) -> str:
    numbers: list[str] = []
    line, counted = 1, 0
    at = text.find(wanted)
    while at >= 0:
        line += text.count("\n", counted, at)
        counted = at
        numbers.append(str(line))
        at = text.find(wanted, at + 1)
    return ", ".join(numbers)


def replaced(text: str, command: StrReplace) -> tuple[str, str]:
    """Give a file's new text, and the answer with the lines around the change."""
    old = storable(command.old_str)
    if not old or old not in text:
        raise Refused(
            f"No replacement was performed, old_str `{command.old_str}` did not appear verbatim "
            f"in {command.path}."
        )
    if text.count(old) > 1:
        raise Refused(
            f"No replacement was performed. Multiple occurrences of old_str `{command.old_str}` "
            f"in lines: {_lines_of(old, text)}. Please ensure it is unique"
        )
    changed = text[: text.find(old)].count("\n")
    new = text.replace(old, storable(command.new_str))
    start = max(0, changed - 2)
    near = new.split("\n")[start : changed + 3]
    return new, (
        "The memory file has been edited. "
        "Here is the snippet showing the change (with line numbers):\n"
        + "\n".join(_number(n, line) for n, line in enumerate(near, start + 1))
    )


def inserted(text: str, command: Insert) -> str:
    """Give a file's new text, which ends its last line."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    if not 0 <= command.insert_line <= len(lines):
        raise Refused(
            f"Invalid `insert_line` parameter: {command.insert_line}. "
            f"It should be within the range [0, {len(lines)}]."
        )
    lines.insert(command.insert_line, storable(command.insert_text).rstrip("\n"))
    new = "\n".join(lines)
    return new if new.endswith("\n") else f"{new}\n"
