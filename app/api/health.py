"""Is it alive, can it serve, and how does it do?"""

from ipaddress import ip_address
from typing import Final, Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse

from app import metrics
from app.deps import CoreDep, StrictRoute, address_of, is_secret
from app.errors import Unauthorized
from app.memory.core import Check
from app.memory.health import readiness
from app.wire import Model

router = APIRouter(route_class=StrictRoute, tags=["operations"])

_FORWARDED: Final = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")


class Alive(Model):
    """The process answers."""

    status: Literal["ok"] = "ok"


class Ready(Model):
    """Whether the service can serve, and how well."""

    status: Literal["ok", "degraded"]
    checks: dict[str, Check]
    oldest_waiting_job_s: float | None


@router.get("/livez")
async def livez() -> Alive:
    """Tell that the process answers."""
    return Alive()


@router.get("/readyz", responses={503: {"model": Ready}})
async def readyz(core: CoreDep, response: Response) -> Ready:
    """Tell whether requests can be served: 503 without database or with an old schema."""
    state = await readiness(core)
    if not state.can_serve:
        response.status_code = 503
    return Ready(
        status=state.status, checks=state.checks, oldest_waiting_job_s=state.oldest_waiting_job_s
    )


@router.get(
    "/metrics",
    response_class=PlainTextResponse,
    responses={401: {"description": "Neither from loopback nor with the token"}},
)
async def get_metrics(request: Request, core: CoreDep) -> Response:
    """Give this process's numbers for Prometheus, on loopback or with the operator's token."""
    if not _is_local(request) and not is_secret(request, request.state.metrics_token):
        raise Unauthorized("Ask on loopback, or send USERMEM_METRICS_TOKEN as a bearer token.")
    ready = await readiness(core)
    queue = ready.queue
    jobs = {"due": queue.due, "later": queue.later, "running": queue.running} if queue else None
    metrics.state(ready.checks, jobs, ready.oldest_waiting_job_s)
    return Response(metrics.render(), media_type=metrics.CONTENT_TYPE)


def _is_local(request: Request) -> bool:
    """Tell a caller on this machine; not a proxy there that passes on somebody else's request."""
    if any(name in request.headers for name in _FORWARDED):
        return False
    try:
        return ip_address(address_of(request)).is_loopback
    except ValueError:
        return False
