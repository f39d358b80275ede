"""Other protocols over the same verbs, keys and guards as the REST API."""

from fastapi import APIRouter

from app.doors import memory_tool

router = APIRouter()
router.include_router(memory_tool.router)  # /v1/users/{user}/memory-tool
