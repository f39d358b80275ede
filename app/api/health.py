"""Is it alive, and can it serve?"""

from typing import Literal

from fastapi import APIRouter, Response

from app.deps import CoreDep, StrictRoute
from app.memory.core import Check
from app.memory.health import readiness
from app.wire import Model

router = APIRouter(route_class=StrictRoute, tags=["operations"])


class Alive(Model):
    """The process answers."""

    status: Literal["ok"] = "ok"


class Ready(Model):
    """Whether the service can serve, and how well."""

    status: Literal["ok", "degraded", "failed"]
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
