"""What comes over the wire, before a route sees it: ids, times, free text, strict JSON.

Ids are the caller's own and compared exactly, so they are refused where they can't be kept as they
are; free text is cleaned instead, for a chat must not fail over a control character.
"""

import json
import math
import re
import unicodedata
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal, NoReturn
from urllib.parse import parse_qsl, unquote_to_bytes
from uuid import UUID

from fastapi import Path, Request
from fastapi.exceptions import RequestValidationError
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic_core import PydanticCustomError
from starlette.convertors import Convertor, register_url_convertor

from app.errors import Invalid, UsermemError
from app.memory.ingest import EARLIEST_YEAR
from app.text import clean, one_line

MAX_BODY: Final = 1024 * 1024
MAX_ID: Final = 256
MAX_DEPTH: Final = 32
MAX_METADATA: Final = 16 * 1024

_RFC3339 = re.compile(
    r"\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?"
    r"(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)",
    re.ASCII,
)
_QUALITY = re.compile(r"\bq\s*=\s*([01](?:\.[0-9]{0,3})?)")


class Malformed(UsermemError):  # noqa: N818 - named as the answer is
    """The bytes are not UTF-8, or the text is not JSON."""

    status, title, code = 400, "Bad request", "malformed"


class WrongMediaType(UsermemError):  # noqa: N818 - as above
    """The body is of another type than JSON."""

    status, title, code = 415, "Unsupported media type", "unsupported_media_type"


class TooLarge(UsermemError):  # noqa: N818 - as above
    """The body is over its limit."""

    status, title, code = 413, "Content too large", "too_large"


class IdConvertor(Convertor[str]):
    """Matches an id's segment in a path, an empty one too: the id is then wrong, not the route."""

    regex = "[^/]*"

    def convert(self, value: str) -> str:
        """Leave it percent-encoded; `decode_id` follows."""
        return value

    def to_string(self, value: str) -> str:
        """Give it back."""
        return value


register_url_convertor("id", IdConvertor())


class Model(BaseModel):
    """Base of all bodies and answers: nothing unknown comes in, every field goes out."""

    model_config = ConfigDict(extra="forbid", from_attributes=True, ser_json_inf_nan="null")


def check_id(value: str) -> str:
    """Take the caller's own id: 1 to 256 characters, NFC, no controls, no surrogates."""
    value = unicodedata.normalize("NFC", value)
    if not 1 <= len(value) <= MAX_ID:
        raise PydanticCustomError("bad_id", "an id has 1 to 256 characters")
    if value in {".", ".."} or any(unicodedata.category(char) in {"Cc", "Cs"} for char in value):
        raise PydanticCustomError(
            "bad_id", "an id has no control characters or surrogates and is not '.' or '..'"
        )
    return value


def _strict_str(value: object) -> str:
    # Before pydantic's own check, which refuses a lone surrogate with an error that holds it.
    if not isinstance(value, str):
        raise PydanticCustomError("string_type", "a string is needed")
    return value


def decode_id(value: object) -> str:
    """Take an id out of the path, where it arrives percent-encoded."""
    try:
        return check_id(unquote_to_bytes(_strict_str(value)).decode())
    except UnicodeDecodeError:
        raise Malformed("The path is not UTF-8.") from None


def _decode_uuid(value: object) -> UUID:
    # Not pydantic's own parser, whose error repeats characters of what was sent.
    try:
        return UUID(_strict_str(value))
    except ValueError:
        raise PydanticCustomError("bad_id", "a UUID is needed") from None


def _whole(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def parse_time(value: object) -> datetime:
    """Read an RFC 3339 time with an offset, into UTC."""
    text = _strict_str(value)
    try:
        if not _RFC3339.fullmatch(text):
            raise ValueError
        return datetime.fromisoformat(text.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        raise PydanticCustomError(
            "no_time", "a time is RFC 3339 with an offset, like 2026-09-03T10:00:00+02:00"
        ) from None


def _of_this_age(at: datetime) -> datetime:
    if at.year < EARLIEST_YEAR:
        raise PydanticCustomError("bad_time", "a time lies before 2000")
    return at


_ID = WithJsonSchema(
    {
        "type": "string",
        "minLength": 1,
        "maxLength": MAX_ID,
        "pattern": r"^(?!\.{1,2}$)[^\u0000-\u001f\u007f-\u009f]+$",
    }
)

Id = Annotated[str, BeforeValidator(_strict_str), AfterValidator(check_id), _ID]
UserId = Annotated[str, BeforeValidator(decode_id), Path(alias="user"), _ID]
SessionId = Annotated[str, BeforeValidator(decode_id), Path(alias="session"), _ID]
Uuid = Annotated[
    UUID, BeforeValidator(_decode_uuid), WithJsonSchema({"type": "string", "format": "uuid"})
]
FactId = Annotated[Uuid, Path(alias="fact")]
RecallId = Annotated[Uuid, Path(alias="recall_id")]
ONE_LINE: Final = BeforeValidator(lambda value: one_line(_strict_str(value)))
"""After a field's own limits, or the OpenAPI document would lack them."""
Line = Annotated[str, ONE_LINE]
WHOLE: Final = BeforeValidator(_whole)
"""After a number's limits: in JSON 3.0 is a whole number too."""
RecordedTime = Annotated[
    datetime,
    BeforeValidator(parse_time),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""In a file that is imported, where a record of another age is counted, not refused."""
Time = Annotated[RecordedTime, AfterValidator(_of_this_age)]
Kind = Literal["preference", "constraint", "profile", "goal"]
Limit = Annotated[int, Field(ge=1, le=200)]


def _cleaned(value: Any) -> Any:
    """Clean every string of a JSON value, keys too."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [_cleaned(item) for item in value]
    if isinstance(value, dict):
        return {clean(key): _cleaned(item) for key, item in value.items()}
    return value


def _small(value: Any) -> Any:
    if len(json.dumps(value, ensure_ascii=False).encode()) > MAX_METADATA:
        raise PydanticCustomError("metadata_too_large", "metadata has at most 16 KiB of JSON")
    return value


Metadata = Annotated[dict[str, Any], BeforeValidator(_cleaned), AfterValidator(_small)]


def prefers(media_type: str, accept: str, *, to: str) -> bool:
    """Tell whether an Accept header names a type, and wants it no less than another."""
    wishes: dict[str, float] = {}
    for part in accept.lower().split(","):
        name, _, parameters = part.partition(";")
        quality = _QUALITY.search(parameters)
        wishes.setdefault(name.strip(), float(quality[1]) if quality else 1.0)
    wish = wishes.get(media_type, 0.0)
    return wish > 0 and wish >= wishes.get(to, 0.0)


def read_query(
    query: bytes, declared: Collection[str], prefixes: Collection[str] = ()
) -> dict[str, str]:
    """Give the parameters of a query string.

    Refuses one that is not UTF-8, names what is not declared, or repeats a name. Declared are also
    the names that go on after one of the prefixes.
    """
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict")
    except UnicodeError:
        raise Malformed("The query string is not percent-encoded UTF-8.") from None
    read: dict[str, str] = {}
    for name, value in pairs:
        known = name in declared or any(
            name.startswith(prefix) and name != prefix for prefix in prefixes
        )
        if not known or name in read:
            problem = "is given twice" if known else "there is no such parameter"
            raise RequestValidationError(
                [{"type": "query_parameter", "loc": ("query", name), "msg": problem}]
            )
        read[name] = value
    return read


def _no_constant(_name: str) -> NoReturn:
    raise ValueError


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise Invalid("The body holds a number beyond what can be kept.", code="number_range")
    return number


def parse_json(body: bytes) -> Any:
    """Parse strictly: UTF-8 without a byte order mark, no NaN or Infinity, bounded numbers.

    A repeated key keeps its last value, as everywhere in Python. Raises `Malformed` for what is
    not JSON and `Invalid` for a number out of range or what nests deeper than `MAX_DEPTH`.
    """
    try:
        value = json.loads(body.decode(), parse_constant=_no_constant, parse_float=_finite)
    except RecursionError:
        raise _too_deep() from None
    except ValueError:
        raise Malformed("The body is not JSON in UTF-8.") from None
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [
            item
            for parent in level
            if isinstance(parent, dict | list)
            for item in (parent.values() if isinstance(parent, dict) else parent)
        ]
        if not level:
            return value
    raise _too_deep()


def _too_deep() -> Invalid:
    return Invalid(f"The body nests deeper than {MAX_DEPTH} levels.", code="too_deep")


class JsonRequest(Request):
    """A request whose body is strict JSON of at most `MAX_BODY` bytes."""

    async def body(self) -> bytes:
        """Read the body, and no further than its limit, whatever its length was said to be."""
        if not hasattr(self, "_body"):
            said = self.headers.get("content-length")
            if said is None and "transfer-encoding" not in self.headers:
                self._body = b""
                return b""
            if said is not None and said.isdecimal() and int(said[:20]) > MAX_BODY:
                raise _too_large()
            read = bytearray()
            async for chunk in self.stream():
                read += chunk
                if len(read) > MAX_BODY:
                    raise _too_large()
            self._body = bytes(read)
        return self._body

    async def json(self) -> Any:
        """Parse the body once."""
        if not hasattr(self, "_json"):
            self._json = parse_json(await self.body())
        return self._json

    async def check(self, *, takes_body: bool, needs_body: bool) -> None:
        """Refuse a body that can't be read as JSON, and one that is not empty where none is due."""
        if not await self.body():
            if needs_body:
                raise Malformed("The body is empty; JSON is needed.")
            return
        media_type = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        if media_type != "application/json":
            raise WrongMediaType("The body must be application/json.")
        if self.headers.get("content-encoding", "identity").strip().lower() != "identity":
            raise WrongMediaType("The body must not be compressed.")
        value = await self.json()
        if not takes_body and value != {}:
            field = next(iter(value), None) if isinstance(value, dict) else None
            raise RequestValidationError(
                [
                    {
                        "type": "extra_forbidden",
                        "loc": ("body",) if field is None else ("body", field),
                        "msg": "nothing is taken here",
                    }
                ]
            )


def _too_large() -> TooLarge:
    return TooLarge(f"The body is over its limit of {MAX_BODY} bytes.")
