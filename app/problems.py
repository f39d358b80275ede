"""Every error answer: RFC 9457 problem+json, in the answers and in the OpenAPI document alike.

An answer names a field or a state and never repeats what was sent.
"""

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, Final, Self

import psycopg
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import iter_route_contexts
from psycopg_pool import PoolClosed, PoolTimeout, TooManyRequests
from pydantic import BaseModel
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as CheckoutTimeout
from starlette.exceptions import HTTPException

from app.errors import Unavailable, UsermemError
from app.telemetry import logger

log = logger(__name__)

MEDIA_TYPE: Final = "application/problem+json"
_TITLES: Final = {
    404: ("Not found", "not_found"),
    405: ("Method not allowed", "method_not_allowed"),
}
_DATABASE: Final[tuple[type[Exception], ...]] = (
    psycopg.OperationalError,
    PoolTimeout,
    PoolClosed,
    TooManyRequests,
    CheckoutTimeout,
    DBAPIError,
)
_OWN_CODES: Final = ("query_too_long", "message_too_long", "metadata_too_large", "bad_time")


class Problem(BaseModel):
    """Why a request was not served (RFC 9457). `code` is a stable word for programs."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    request_id: str

    @classmethod
    def of(cls, status: int, title: str, code: str, detail: str, request_id: str) -> Self:
        """Give one of ours: `type` follows from `code`."""
        return cls(
            type=f"urn:usermem:problem:{code}",
            title=title,
            status=status,
            detail=detail,
            code=code,
            request_id=request_id,
        )


def problem(
    request: Request,
    status: int,
    title: str,
    code: str,
    detail: str,
    headers: dict[str, str] | None = None,
) -> JSONResponse:
    """Give an RFC 9457 answer."""
    shown = Problem.of(status, title, code, detail, request.state.request_id)
    return JSONResponse(shown.model_dump(), status, headers, MEDIA_TYPE)


def internal(request: Request) -> JSONResponse:
    """Give the answer to a fault of ours."""
    return problem(request, 500, "Internal error", "internal", "Something went wrong here.")


async def on_fault(request: Request, _error: Exception) -> Response:
    """Answer for what nobody else answers for; Starlette raises it again, for the edge to log."""
    return internal(request)


async def _on_error(request: Request, error: UsermemError) -> JSONResponse:
    headers = {}
    if error.retry_after is not None:
        headers["Retry-After"] = str(error.retry_after)
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if error.status in {408, 413}:
        headers["Connection"] = "close"  # the rest of the body is not worth reading
    return problem(request, error.status, error.title, error.code, error.detail, headers)


async def _on_invalid(request: Request, error: RequestValidationError) -> JSONResponse:
    """Name the fields and what is wrong with them, never what was in them."""
    codes = {item["type"] for item in error.errors()}
    code = next((code for code in _OWN_CODES if code in codes), "invalid")
    return problem(request, 422, "Unprocessable content", code, told(error.errors()))


def told(errors: Sequence[Any]) -> str:
    """Tell what is wrong with which fields, in pydantic's words, without what was in them."""
    # A place that two parts of a route look at is wrong but once.
    each = dict.fromkeys(f"{_name(item['loc'])}: {item['msg']}" for item in errors)
    return "; ".join(list(each)[:5]) + "."


def _name(place: tuple[Any, ...]) -> str:
    """Name a field; a caller's own key may be anything, so only plain short ones are repeated."""
    parts = [str(part) if isinstance(part, int) or _is_plain(part) else "a field" for part in place]
    return ".".join(parts)


def _is_plain(part: str) -> bool:
    return len(part) <= 64 and part.isascii() and re.fullmatch(r"\w+(\.\w+)*", part) is not None


async def _on_http(request: Request, error: HTTPException) -> JSONResponse:
    """Answer for the router: there is no such path, or the path has no such method."""
    title, code = _TITLES.get(error.status_code, ("Error", "error"))
    headers = {"Allow": _allowed(request)} if error.status_code == 405 else None
    return problem(request, error.status_code, title, code, f"{title}.", headers)


def _allowed(request: Request) -> str:
    """List every method of the path, where the router names those of one route only."""
    app: FastAPI = request.app
    path = request.scope["path"]
    methods = {
        method
        for route in iter_route_contexts(app.routes)
        if (regex := getattr(route, "path_regex", None)) is not None and regex.match(path)
        for method in route.methods or ()
    }
    if "GET" in methods:
        methods.add("HEAD")
    return ", ".join(sorted(methods))


async def _on_database(request: Request, error: Exception) -> JSONResponse:
    """Answer 503 where the database is away or busy; anything else is a fault of ours."""
    busy = as_busy(error)
    if busy is None:
        raise error
    return await _on_error(request, busy)


def as_busy(error: Exception) -> Unavailable | None:
    """Give what to answer where the database is away or busy, None for any other fault."""
    if not isinstance(error, _DATABASE):
        return None
    if isinstance(error, DBAPIError) and not _is_passing(error.orig):
        return None
    log.warning("database_unavailable", error=type(error).__name__)
    return Unavailable("The service is busy; try again.", retry_after=1)


def _is_passing(error: BaseException | None) -> bool:
    return isinstance(
        error,
        psycopg.OperationalError
        | psycopg.errors.SerializationFailure
        | psycopg.errors.DeadlockDetected
        | psycopg.errors.UniqueViolation
        | psycopg.errors.ForeignKeyViolation,  # what it belongs to is being erased
    )


HANDLERS: Final[dict[type[Exception], Any]] = {
    UsermemError: _on_error,
    RequestValidationError: _on_invalid,
    HTTPException: _on_http,
    **dict.fromkeys(_DATABASE, _on_database),
}


async def answer(request: Request, error: Exception) -> Response:
    """Give the answer to an error, as the router would. Raises one that is a fault of ours."""
    for kind in type(error).__mro__:
        if kind in HANDLERS:
            response: Response = await HANDLERS[kind](request, error)
            return response
    raise error


def declare(document: dict[str, Any]) -> None:
    """Write the error answers into an OpenAPI document: those of its kind to every operation."""
    schemas = document["components"]["schemas"]
    schemas["Problem"] = Problem.model_json_schema()
    schemas.pop("HTTPValidationError", None)
    schemas.pop("ValidationError", None)
    for operations in document["paths"].values():
        for operation in operations.values():
            answers = operation["responses"]
            answers.pop("422", None)
            for status in _statuses(operation):
                answers.setdefault(str(status), {"description": HTTPStatus(status).phrase})
            for status, answer in answers.items():
                if status >= "400" and "content" not in answer:
                    schema = {"$ref": "#/components/schemas/Problem"}
                    answer["content"] = {MEDIA_TYPE: {"schema": schema}}
            operation["responses"] = dict(sorted(answers.items()))


def _statuses(operation: dict[str, Any]) -> set[int]:
    statuses = {400, 422, 431}
    if any(given["name"].lower() == "idempotency-key" for given in operation.get("parameters", ())):
        statuses |= {409, 410}
    if "requestBody" in operation:
        statuses.add(408)
    if "security" in operation:
        statuses |= {401, 403, 404, 413, 415, 429, 503}
    return statuses
