"""Other protocols over the same verbs, keys and guards as the REST API."""

from fastapi import FastAPI

from app.doors import mcp, memory_tool


def add_to(app: FastAPI, public_url: str | None) -> None:
    """Add the doors to an application; MCP answers under `public_url` besides loopback."""
    app.include_router(memory_tool.router)  # /v1/users/{user}/memory-tool
    app.router.routes.append(mcp.route(public_url))  # /mcp
