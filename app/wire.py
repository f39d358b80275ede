"""What comes over the wire, before a route sees it: ids, times, free text, strict JSON.

Ids are the caller's own and compared exactly, so they are refused where they can't be kept as they
are; free text is cleaned instead, for a chat must not fail over a control character.
"""

import json
import re
import unicodedata
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal, NoReturn
from urllib.parse import unquote_to_bytes

from fastapi import Path, Request
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from app.errors import UsermemError
from app.text import clean, one_line

MAX_BODY: Final = 1024 * 1024
MAX_ID: Final = 256
MAX_DEPTH: Final = 32

_RFC3339 = re.compile(
    r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?(?:[Zz]|[+-]\d{2}:\d{2})"
)


class Malformed(UsermemError):  # noqa: N818 - named as the answer is
    """The bytes are not UTF-8, or the text is not JSON."""

    status, title, code = 400, "Bad request", "malformed"


class WrongMediaType(UsermemError):  # noqa: N818 - as above
    """The body is of another type than JSON."""

    status, title, code = 415, "Unsupported media type", "unsupported_media_type"


class TooDeep(UsermemError):  # noqa: N818 - as above
    """The body nests too deep, or a number can't be kept."""

    status, title, code = 422, "Unprocessable content", "too_deep"


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


def parse_time(value: object) -> datetime:
    """Read an RFC 3339 time with an offset, into UTC."""
    text = _strict_str(value)
    try:
        if not _RFC3339.fullmatch(text):
            raise ValueError
        return datetime.fromisoformat(text.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        raise PydanticCustomError(
            "bad_time", "a time is RFC 3339 with an offset, like 2026-09-03T10:00:00+02:00"
        ) from None


_STRING = WithJsonSchema({"type": "string"})
_ID = WithJsonSchema({"type": "string", "minLength": 1, "maxLength": MAX_ID})

Id = Annotated[str, BeforeValidator(_strict_str), AfterValidator(check_id), _ID]
UserId = Annotated[str, BeforeValidator(decode_id), Path(alias="user"), _ID]
SessionId = Annotated[str, BeforeValidator(decode_id), Path(alias="session"), _ID]
Text = Annotated[str, BeforeValidator(lambda value: clean(_strict_str(value))), _STRING]
Line = Annotated[str, BeforeValidator(lambda value: one_line(_strict_str(value))), _STRING]
Time = Annotated[
    datetime,
    BeforeValidator(parse_time),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
Kind = Literal["preference", "constraint", "profile", "goal"]
Limit = Annotated[int, Field(ge=1, le=200)]


def cleaned(value: Any) -> Any:
    """Clean every string of a JSON value, keys too."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [cleaned(item) for item in value]
    if isinstance(value, dict):
        return {clean(key): cleaned(item) for key, item in value.items()}
    return value


def _no_constant(_name: str) -> NoReturn:
    raise ValueError


def parse_json(body: bytes) -> Any:
    """Parse strictly: UTF-8 without a byte order mark, no NaN or Infinity, bounded numbers.

    A repeated key keeps its last value, as everywhere in Python. Raises `Malformed` for what is
    not JSON and `TooDeep` for what nests without end.
    """
    try:
        value = json.loads(body.decode("utf-8"), parse_constant=_no_constant)
    except RecursionError:
        raise TooDeep("The body nests too deep.") from None
    except ValueError:
        raise Malformed("The body is not JSON in UTF-8.") from None
    _check(value, MAX_DEPTH)
    return value


def _check(value: Any, depth: int) -> None:
    if depth == 0:
        raise TooDeep(f"The body nests deeper than {MAX_DEPTH} levels.")
    if isinstance(value, float) and value in {float("inf"), float("-inf")}:
        raise TooDeep("The body holds a number beyond what can be kept.", code="number_range")
    for item in (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    ):
        _check(item, depth - 1)


class JsonRequest(Request):
    """A request whose body is strict JSON."""

    async def json(self) -> Any:
        """Parse the body once."""
        if not hasattr(self, "_parsed"):
            self._parsed = parse_json(await self.body())
        return self._parsed

    async def require_json(self) -> None:
        """Refuse a body of another type. An empty one is the route's to judge."""
        media_type = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        if await self.body() and media_type != "application/json":
            raise WrongMediaType("The body must be application/json.")
