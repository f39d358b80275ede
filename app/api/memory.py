"""Recall: one call gives the block for the next prompt."""

from collections.abc import Callable, Coroutine
from typing import Annotated, Any, Literal, TypeVar
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import AfterValidator, Field, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError
from starlette.types import Receive, Scope, Send

from app import problems
from app.deps import CoreDep, CredentialDep, Needs, admit, get_core, needs_of
from app.memory.answer import Degraded
from app.memory.core import Core
from app.memory.recall import DEFAULT_BUDGET, Question, recall
from app.memory.tenants import Credential
from app.memory.users import MemoryMode
from app.wire import WHOLE, Id, JsonRequest, Kind, Line, Model, UserId, prefers, read_query

T = TypeVar("T")

MAX_GET_QUERY = 2 * 1024
MAX_POST_QUERY = 32 * 1024


def at_most(limit: int) -> AfterValidator:
    """Bound a query in bytes."""

    def check(query: str) -> str:
        if len(query.encode()) > limit:
            raise PydanticCustomError(
                "query_too_long", "a query has at most {limit} bytes here", {"limit": limit}
            )
        return query

    return AfterValidator(check)


class _Asked(Model):
    """What a caller asks for."""

    session: Id | None = None
    token_budget: Annotated[int, Field(ge=100, le=4000)] = DEFAULT_BUDGET
    refresh: bool = False


class RecallQuery(_Asked):
    """What a caller asks for in a URL."""

    query: Annotated[Line, at_most(MAX_GET_QUERY)] = ""


class RecallIn(_Asked):
    """What a caller asks for."""

    query: Annotated[Line, at_most(MAX_POST_QUERY)] = ""
    token_budget: Annotated[int, Field(ge=100, le=4000, strict=True), WHOLE] = DEFAULT_BUDGET
    refresh: bool = Field(default=False, strict=True)


class CacheControl(Model):
    """Anthropic's mark for a cached prefix."""

    type: Literal["ephemeral"] = "ephemeral"


class SystemBlock(Model):
    """A block for Anthropic's `system`, after the caller's own instructions."""

    type: Literal["text"] = "text"
    text: str
    cache_control: CacheControl | None = None


class RecalledFactOut(Model):
    """A fact in the block."""

    id: UUID
    tier: Literal["organization", "always_on", "similarity"]
    kind: Kind
    text: str
    score: float | None


class LeftOut(Model):
    """How many facts of each tier matched but did not fit."""

    organization: int
    always_on: int
    similarity: int


class RecallOut(Model):
    """The block, in every form a caller may need."""

    block: str
    stable: str
    volatile: str
    system: list[SystemBlock]
    facts: list[RecalledFactOut]
    recall_id: UUID
    tokens: int
    left_out: LeftOut
    frozen: bool
    degraded: Degraded | None
    pending_sessions: int
    memory: MemoryMode


def _matches(header: str | None, etag: str) -> bool:
    if header is None:
        return False
    opaque = etag.removeprefix("W/")
    return any(
        tag.strip() == "*" or tag.strip().removeprefix("W/") == opaque for tag in header.split(",")
    )


class _RecallRoute(APIRoute):
    """Documented by FastAPI like any other route, but called without its solver of dependencies.

    The solver costs more than the database trip of a frozen recall. The same is checked in the same
    order by the same types, and errors are the same.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Give what calls the route's function."""
        needs = needs_of(self)
        takes_body = "POST" in (self.methods or ())
        declared = () if takes_body else RecallQuery.model_fields.keys()

        async def handle(request: Request) -> Response:
            key, user = await admit(request, needs)
            strict = JsonRequest(request.scope, request.receive)
            await strict.check(takes_body=takes_body, needs_body=takes_body)
            query = read_query(request.scope["query_string"], declared)
            asked = (
                _validated(_BODY, await strict.json(), "body")
                if takes_body
                else _validated(_QUERY, query, "query")
            )
            response: Response = await self.endpoint(request, user, asked, get_core(request), key)
            return response

        return handle


_QUERY: TypeAdapter[RecallQuery | RecallIn] = TypeAdapter(RecallQuery)
_BODY: TypeAdapter[RecallQuery | RecallIn] = TypeAdapter(RecallIn)


def _validated(adapter: TypeAdapter[T], value: object, *place: str) -> T:
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        raise RequestValidationError(
            [{**item, "loc": (*place, *item["loc"])} for item in error.errors(include_input=False)]
        ) from None


router = APIRouter(prefix="/v1/users/{user:id}", route_class=_RecallRoute, tags=["memory"])
_recall = Depends(Needs("recall"))

_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {
        "model": RecallOut,
        "content": {"text/plain": {"schema": {"type": "string"}}},
        "headers": {"ETag": {"schema": {"type": "string"}}},
    },
}
_NOT_MODIFIED: dict[int | str, dict[str, Any]] = {304: {"description": "The same block as before"}}


@router.get("/memory", dependencies=[_recall], responses={**_ANSWERS, **_NOT_MODIFIED})
async def get_memory(
    request: Request,
    user: UserId,
    asked: Annotated[RecallQuery, Query()],
    core: CoreDep,
    key: CredentialDep,
) -> Response:
    """Give the block for the next prompt."""
    return await _recalled(request, user, asked, core, key)


@router.post("/memory", dependencies=[_recall], responses=_ANSWERS)
async def post_memory(
    request: Request, user: UserId, asked: RecallIn, core: CoreDep, key: CredentialDep
) -> Response:
    """Give the block, for a query that is too long or too private for a URL."""
    return await _recalled(request, user, asked, core, key)


class Direct:
    """Serves this page's routes without the router; errors are answered as everywhere."""

    def __init__(self) -> None:
        routes = [route for route in router.routes if isinstance(route, _RecallRoute)]
        self._path = routes[0].path_regex
        self._served = {
            method: (route, route.get_route_handler())
            for route in routes
            for method in route.methods or ()
        }

    def takes(self, scope: Scope) -> bool:
        """Tell whether a request is for recall, and put into its scope what a router would."""
        if (
            scope["method"] not in self._served
            or (match := self._path.match(scope["path"])) is None
        ):
            return False
        scope["path_params"] = match.groupdict()
        scope["route"] = self._served[scope["method"]][0]
        return True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        request = Request(scope, receive)
        try:
            response = await self._served[scope["method"]][1](request)
        except Exception as error:  # noqa: BLE001 - those without an answer are raised again
            response = await problems.answer(request, error)
        await response(scope, receive, send)


async def _recalled(
    request: Request, user: str, asked: RecallQuery | RecallIn, core: Core, key: Credential
) -> Response:
    question = Question(asked.query, asked.session, asked.token_budget, asked.refresh)
    answer = await recall(core, key.tenant_id, user, question)
    etag = answer.lasting.etag
    if request.method == "GET" and _matches(request.headers.get("if-none-match"), etag):
        return _Block(304, etag)
    if prefers("text/plain", request.headers.get("accept", ""), to="application/json"):
        return _Block(200, etag, b"text/plain; charset=utf-8", answer.block)
    return _Block(200, etag, b"application/json", answer.json)


class _Block(Response):
    """An answer whose few headers needn't be put together by way of a dictionary."""

    def __init__(self, status: int, etag: str, media_type: bytes = b"", text: str = "") -> None:
        self.status_code = status
        self.background = None
        self.body = text.encode()
        self.raw_headers = [
            (b"etag", etag.encode()),
            (b"vary", b"Accept"),
            (b"cache-control", b"private, no-store"),
        ]
        if media_type:
            length = str(len(self.body)).encode()
            self.raw_headers += [(b"content-type", media_type), (b"content-length", length)]
