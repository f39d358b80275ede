"""The records of an export file as they come back in: each field is checked, none is believed."""

from typing import Annotated, ClassVar, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from app.api.users import Locale, Timezone
from app.memory.export import HEADER
from app.memory.exported import TABLES
from app.memory.file_text import MAX_FILE, ROOT, Refused, resolve, storable
from app.memory.placing import Record
from app.memory.users import MemoryMode
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
from app.wire import Id, Kind, Line, Metadata, RecordedTime, Uuid

MAX_TURN: Final = 64 * 1024

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

    memory: MemoryMode = "on"
    locale: Locale | None = None
    timezone: Timezone | None = None


class FileHeader(_Record):
    """What a file says of itself; as in every body, nothing unknown is left aside."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)
    table = User

    type: Literal["export"]
    format: Literal["usermem-export-1"]
    user: str | None = None
    created_at: RecordedTime | None = None
    settings: _Settings = _Settings()

    def record(self) -> Record:
        """Give the settings and the first day of whom the file is about."""
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
    created_at: RecordedTime = Field(validation_alias="started_at")
    opened_at: RecordedTime
    last_activity_at: RecordedTime
    extracted_at: RecordedTime | None = None


class _Turn(_Record):
    table = Message

    session: Id
    position: Annotated[int, Field(ge=1, le=1_000_000, strict=True)]
    external_id: Id | None = Field(default=None, validation_alias="message_id")
    text: Annotated[str, Field(min_length=1, max_length=MAX_TURN, strict=True)]
    said_at: RecordedTime
    created_at: RecordedTime
    extracted_at: RecordedTime | None = None


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
    said_at: RecordedTime
    valid_from: RecordedTime | None = None
    valid_to: RecordedTime | None = None
    created_at: RecordedTime
    last_confirmed_at: RecordedTime
    confirmations: Count = 0
    last_recalled_at: RecordedTime | None = None
    expires_at: RecordedTime | None = None
    pinned: Flag = False
    superseded_at: RecordedTime | None = None
    superseded_by: Uuid | None = None
    quarantined_at: RecordedTime | None = None
    quarantine_reason: Code | None = None
    forgotten_at: RecordedTime | None = None
    extra: Metadata = Field(default_factory=dict, validation_alias="metadata")
    revision: Revision = 1


class _Evidence(_Record):
    table = Evidence

    fact_id: Uuid = Field(validation_alias="fact")
    session: Id | None = None
    message_id: Id | None = None
    quote: Quote
    said_at: RecordedTime
    created_at: RecordedTime
    merged_from: Uuid | None = None


class _Verdict(_Record):
    table = FactVerdict

    old_id: Uuid = Field(validation_alias="old")
    new_id: Uuid | None = Field(default=None, validation_alias="new")
    verdict: Literal["CONTRADICTS", "DUPLICATE", "INDEPENDENT"]
    reason: Annotated[Line, Field(max_length=1_000)]
    judge: Name
    at: RecordedTime
    overturned_at: RecordedTime | None = None


class _Event(_Record):
    table = FactEvent

    fact_id: Uuid = Field(validation_alias="fact")
    at: RecordedTime
    n: Count
    what: Code
    by: Name
    status: Literal["live", "superseded", "quarantined", "forgotten"]
    valid_to: RecordedTime | None = None
    expires_at: RecordedTime | None = None


class _File(_Record):
    table = MemoryFile

    path: Annotated[str, Field(strict=True), AfterValidator(_path)]
    content: Annotated[str, Field(strict=True), AfterValidator(_content)] | None = None
    revision: Revision = 1
    created_at: RecordedTime
    updated_at: RecordedTime


MODELS: Final[dict[str, type[_Record]]] = {
    HEADER: FileHeader,
    "session": _Session,
    "turn": _Turn,
    "fact": _Fact,
    "evidence": _Evidence,
    "verdict": _Verdict,
    "event": _Event,
    "file": _File,
}
TYPE_OF: Final = {table.group: table.record for table in TABLES}
LEFT_ASIDE: Final = set(TYPE_OF.values()) - set(MODELS)
"""What tells of the installation it was exported from, and is nobody's memory."""
