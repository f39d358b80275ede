"""The records of an export file, read strictly: what comes out is sound, what is not is counted.

A file may come from another installation or a later version, or from somebody who means harm.
"""

import codecs
import json
import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import IO, Annotated, Any, ClassVar, Final, Literal

from fastapi.exceptions import RequestValidationError
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError

from app.api.users import Locale, Timezone
from app.errors import Invalid, UsermemError
from app.memory.export import FORMAT, HEADER, verbatim
from app.memory.exported import TABLES
from app.memory.file_text import MAX_FILE, ROOT, Refused, resolve, storable
from app.memory.placing import Record
from app.models import (
    Evidence,
    Fact,
    FactEvent,
    FactVerdict,
    MemoryFile,
    Message,
    Session,
    User,
)
from app.wire import Id, Kind, Line, Malformed, Metadata, Time, Uuid, parse_json

MAX_RECORD: Final = 1024 * 1024
MAX_TURN: Final = 64 * 1024
_PIECE: Final = 64 * 1024
_SPACE: Final = re.compile("[ \t\r\n]*")

Count = Annotated[int, Field(ge=0, le=1_000_000_000, strict=True)]
Revision = Annotated[int, Field(ge=1, le=1_000_000_000, strict=True)]
Flag = Annotated[bool, Field(strict=True)]
Code = Annotated[Line, Field(pattern=r"^[a-z_.]{1,60}$")]
Name = Annotated[Line, Field(pattern=r"^[A-Za-z0-9:._/@-]{1,200}$")]
Quote = Annotated[Line, Field(min_length=1, max_length=1_000)]


def _path(value: str) -> str:
    try:
        stored = resolve(value)
    except Refused:
        stored = ROOT
    if stored == ROOT:
        raise PydanticCustomError("file_path", "a file or directory lies below the root")
    return stored


def _content(value: str) -> str:
    stored = storable(value)
    if len(stored.encode()) > MAX_FILE:
        raise PydanticCustomError("file_size", "a file is too large")
    return stored


class _Record(BaseModel):
    """A row as a file tells it; fields that are not known here are left aside."""

    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)
    table: ClassVar[type]

    def record(self) -> Record:
        """Give the row's columns, and the caller's own id of the session that it names."""
        columns = self.model_dump()
        return Record(self.table, columns, columns.pop("session", None))


class _Settings(BaseModel):
    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)

    memory: Literal["on", "paused", "restricted"] = "on"
    locale: Locale | None = None
    timezone: Timezone | None = None


class _Header(_Record):
    """What a file says of itself; as in every body, nothing unknown is left aside."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)
    table = User

    type: Literal["export"]
    format: Literal["usermem-export-1"]
    user: str | None = None
    created_at: Time | None = None
    settings: _Settings = _Settings()

    def record(self) -> Record:
        return Record(User, {"created_at": self.created_at, **self.settings.model_dump()})


class _Session(_Record):
    table = Session

    session: Id
    status: Literal["open", "queued", "extracting", "done", "failed"]
    reason: Code | None = None
    ended: Flag = False
    attempt: Count = Field(default=0, validation_alias="attempts")
    user_turns: Count = 0
    added: Count = 0
    confirmed: Count = 0
    superseded: Count = 0
    quarantined: Count = 0
    rejected: Annotated[dict[Code, Count], Field(max_length=100)] = Field(default_factory=dict)
    model_calls: Count = 0
    input_tokens: Count = 0
    output_tokens: Count = 0
    created_at: Time = Field(validation_alias="started_at")
    opened_at: Time
    last_activity_at: Time
    extracted_at: Time | None = None


class _Turn(_Record):
    table = Message

    session: Id
    position: Annotated[int, Field(ge=1, le=1_000_000, strict=True)]
    external_id: Id | None = Field(default=None, validation_alias="message_id")
    text: Annotated[str, Field(min_length=1, max_length=MAX_TURN, strict=True)]
    said_at: Time
    created_at: Time
    extracted_at: Time | None = None


class _Fact(_Record):
    table = Fact

    id: Uuid
    text: Annotated[Line, Field(min_length=1)]
    kind: Kind
    subject: Annotated[Line, Field(min_length=1, max_length=100)]
    source: Literal["transcript", "api", "page", "mcp", "import"]
    session: Id | None = None
    source_message_id: Id | None = Field(default=None, validation_alias="message_id")
    source_quote: Quote | None = Field(default=None, validation_alias="quote")
    extractor: Name | None = None
    said_at: Time
    valid_from: Time | None = None
    valid_to: Time | None = None
    created_at: Time
    last_confirmed_at: Time
    confirmations: Count = 0
    last_recalled_at: Time | None = None
    expires_at: Time | None = None
    pinned: Flag = False
    superseded_at: Time | None = None
    superseded_by: Uuid | None = None
    quarantined_at: Time | None = None
    quarantine_reason: Code | None = None
    forgotten_at: Time | None = None
    extra: Metadata = Field(default_factory=dict, validation_alias="metadata")
    revision: Revision = 1


class _Evidence(_Record):
    table = Evidence

    fact_id: Uuid = Field(validation_alias="fact")
    session: Id | None = None
    message_id: Id | None = None
    quote: Quote
    said_at: Time
    created_at: Time
    merged_from: Uuid | None = None


class _Verdict(_Record):
    table = FactVerdict

    old_id: Uuid = Field(validation_alias="old")
    new_id: Uuid | None = Field(default=None, validation_alias="new")
    verdict: Literal["CONTRADICTS", "DUPLICATE", "INDEPENDENT"]
    reason: Annotated[Line, Field(max_length=1_000)]
    judge: Name
    at: Time
    overturned_at: Time | None = None


class _Event(_Record):
    table = FactEvent

    fact_id: Uuid = Field(validation_alias="fact")
    at: Time
    n: Count
    what: Code
    by: Name
    status: Literal["live", "superseded", "quarantined", "forgotten"]
    valid_to: Time | None = None
    expires_at: Time | None = None


class _File(_Record):
    table = MemoryFile

    path: Annotated[str, Field(strict=True), AfterValidator(_path)]
    content: Annotated[str, Field(strict=True), AfterValidator(_content)] | None = None
    revision: Revision = 1
    created_at: Time
    updated_at: Time


_MODELS: Final[dict[str, type[_Record]]] = {
    HEADER: _Header,
    "session": _Session,
    "turn": _Turn,
    "fact": _Fact,
    "evidence": _Evidence,
    "verdict": _Verdict,
    "event": _Event,
    "file": _File,
}
_TYPE_OF: Final = {table.group: table.record for table in TABLES}
_LEFT_ASIDE: Final = set(_TYPE_OF.values()) - set(_MODELS)
"""What tells of the installation it was exported from, and is nobody's memory."""


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
    if not isinstance(named, str) or named not in {*_MODELS, *_LEFT_ASIDE}:
        yield "unknown_type"
        return
    model = _MODELS.get(named)
    if model is None:
        return
    try:
        yield model.model_validate(record).record()
    except ValidationError as error:
        if model is _Header:
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
            if self._peek() == "[" and name in _TYPE_OF:
                yield from self._items(_TYPE_OF[name])
            elif name in _Header.model_fields:
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
