"""Around every request for the page: the browser's word on who sends it, and errors as pages."""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect

from app import problems
from app.deps import get_core
from app.errors import NotFound, UsermemError
from app.memory.erasures import require_all
from app.telemetry import logger
from app.web.render import message
from app.web.visitor import check_same_site, end_session, texts_of

log = logger(__name__)


class PageRoute(APIRoute):
    """A route that answers people: what goes wrong is told in a page, in their language."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Wrap FastAPI's handler."""
        handle = super().get_route_handler()

        async def served(request: Request) -> Response:
            try:
                await require_all(get_core(request))
                if request.method != "GET":
                    check_same_site(request)
                return await handle(request)
            except ClientDisconnect:
                raise
            except Exception as error:  # noqa: BLE001 - none may reach the API's handlers
                return _failure(request, error)

        return served


def _failure(request: Request, error: Exception) -> Response:
    """Give the page for an error; like the API's answer it repeats nothing that was sent."""
    if isinstance(error, RequestValidationError):
        error = NotFound("There is no such page.")
    if not isinstance(error, UsermemError):
        error = problems.as_busy(error) or error
    if not isinstance(error, UsermemError):
        log.error("request_failed", exc_info=error)
    status = error.status if isinstance(error, UsermemError) else 500
    code = error.code if isinstance(error, UsermemError) else "internal"
    texts = texts_of(request)
    keys = (f"error.{code}", f"error.{status}", "error.internal")
    known = next(key for key in keys if key in texts)
    is_over = status in {401, 410}
    answer = message(request, known, status=status, is_over=is_over)
    if status == 401:
        end_session(request, answer)
    if isinstance(error, UsermemError) and error.retry_after is not None:
        answer.headers["Retry-After"] = str(error.retry_after)
    return answer
