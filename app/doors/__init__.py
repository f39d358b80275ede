"""Other protocols over the same verbs, keys and guards as the REST API."""

from fastapi import APIRouter, FastAPI
from starlette.routing import Route

from app.doors import memory_tool
from app.doors.mcp import Mcp

router = APIRouter()
router.include_router(memory_tool.router)  # /v1/users/{user}/memory-tool


def add_to(app: FastAPI, public_url: str | None) -> None:
    """Add the doors to an application; MCP answers under `public_url` besides loopback."""
    app.include_router(router)
    app.router.routes.append(Route("/mcp", Mcp(public_url), methods=["POST"]))
