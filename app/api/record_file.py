"""An export file, read strictly: what comes out is sound, what is not is counted.

A file may come from another installation or a later version, or from somebody who means harm.
"""

import codecs
import json
import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import IO, Any, Final

from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError

from app.api.records import LEFT_ASIDE, MODELS, TYPE_OF, FileHeader
from app.errors import Invalid, UsermemError
from app.memory.export import FORMAT, HEADER, verbatim
from app.memory.placing import Record
from app.wire import Malformed, parse_json

MAX_RECORD: Final = 1024 * 1024
_PIECE: Final = 64 * 1024
_SPACE: Final = re.compile("[ \t\r\n]*")


def read_lines(file: IO[bytes]) -> Iterator[Record | str]:
    """Give the records of an NDJSON export, and for what is none of them a word why."""
    lines = _lines(file)
    first = next(lines, None)
    if not isinstance(first, dict) or first.get("type") != HEADER:
        raise _no_export()
    return _records(chain([first], lines))


def read_document(file: IO[bytes]) -> Iterator[Record | str]:
    """Give the records of a one-document export, without ever holding all of it."""
    return _records(_Document(file).objects())


def _records(objects: Iterator[Mapping[str, Any] | str]) -> Iterator[Record | str]:
    """Give one person's records. Raises `Invalid` for a file that holds several persons'."""
    headers = 0
    for one in objects:
        if isinstance(one, str):
            yield one
            continue
        record = verbatim(one)
        headers += record.get("type") == HEADER
        if headers > 1:
            raise Invalid("The file holds several users.", code="several_users")
        yield from _record(record, record.get("type"))


def _record(record: Mapping[str, Any], named: object) -> Iterator[Record | str]:
    if not isinstance(named, str) or named not in {*MODELS, *LEFT_ASIDE}:
        yield "unknown_type"
        return
    model = MODELS.get(named)
    if model is None:
        return
    try:
        yield model.model_validate(record).record()
    except ValidationError as error:
        if model is FileHeader:
            raise _refused(error) from None
        yield "invalid"


def _refused(error: ValidationError) -> Exception:
    """Name the header's wrong fields, unless it is the header of something else."""
    wrong = [
        {"type": item["type"], "loc": ("body", *item["loc"]), "msg": item["msg"]}
        for item in error.errors(include_input=False)
    ]
    is_other = any(item["loc"][1] in {"type", "format"} for item in wrong)
    return _no_export() if is_other else RequestValidationError(wrong)


def _lines(file: IO[bytes]) -> Iterator[Mapping[str, Any] | str]:
    while line := file.readline(MAX_RECORD + 1):
        if len(line) > MAX_RECORD and not line.endswith(b"\n"):
            yield "line_too_long"
            while line and not line.endswith(b"\n"):
                line = file.readline(MAX_RECORD)
        elif line.strip():
            yield _parsed(line)


def _parsed(line: bytes) -> Mapping[str, Any] | str:
    try:
        value = parse_json(line)
    except UsermemError as error:
        return error.code
    return value if isinstance(value, dict) else "malformed"


class _Document:
    """One JSON object, read piece by piece: its lists an item at a time.

    Raises `Malformed` where it is no JSON, and `Invalid` for an item that is too large.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._decode = codecs.getincrementaldecoder("utf-8")().decode
        self._text = ""
        self._at = 0
        self._ended = False

    def objects(self) -> Iterator[Mapping[str, Any] | str]:
        """Give the items of the lists, each with its type, and the header last."""
        header: dict[str, Any] = {}
        self._take("{")
        while True:
            name = self._value()
            if not isinstance(name, str):
                raise _malformed()
            self._take(":")
            if self._peek() == "[" and name in TYPE_OF:
                yield from self._items(TYPE_OF[name])
            elif name in FileHeader.model_fields:
                header[name] = self._value()
            else:
                wrong = {"type": "extra_forbidden", "loc": ("body", name), "msg": "Unknown field"}
                raise RequestValidationError([wrong])  # at once: many would fill the memory
            if self._take(",}") == "}":
                break
        if self._peek():
            raise _malformed()
        yield header | {"type": HEADER}

    def _items(self, named: str) -> Iterator[Mapping[str, Any] | str]:
        self._take("[")
        if self._peek() == "]":
            self._take("]")
            return
        while True:
            item = self._value()
            yield {**item, "type": named} if isinstance(item, dict) else "malformed"
            if self._take(",]") == "]":
                return

    def _value(self) -> Any:
        self._peek()
        decoder = json.JSONDecoder()
        while True:
            try:
                _, end = decoder.raw_decode(self._text, self._at)
            except RecursionError:
                raise Invalid("The file nests too deep.", code="too_deep") from None
            except ValueError:
                end = -1
            if end != len(self._text) and end >= 0:
                break
            if len(self._text) - self._at > MAX_RECORD:
                raise Invalid("The file holds an item over 1 MiB.", code="line_too_long")
            if not self._more():
                raise _malformed()
        value = parse_json(self._text[self._at : end].encode())
        self._at = end
        return value

    def _take(self, wanted: str) -> str:
        found = self._peek()
        if not found or found not in wanted:
            raise _malformed()
        self._at += 1
        return found

    def _peek(self) -> str:
        """Give the next character that is no white space; empty at the end."""
        while True:
            space = _SPACE.match(self._text, self._at)
            self._at = space.end() if space else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def _more(self) -> bool:
        if self._ended:
            return False
        piece = self._file.read(_PIECE)
        self._ended = not piece
        try:
            self._text = self._text[self._at :] + self._decode(piece, final=self._ended)
        except UnicodeDecodeError:
            raise _malformed() from None
        self._at = 0
        return not self._ended


def _no_export() -> Invalid:
    return Invalid(f"The file is no {FORMAT}.", code="not_an_export")


def _malformed() -> Malformed:
    return Malformed("The body is not JSON in UTF-8.")
