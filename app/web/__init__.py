"""The user's own page: what is remembered about them, why, and every change they may want."""

from fastapi import FastAPI

from app.web import actions, pages


def add_to(app: FastAPI) -> None:
    """Add the page to an application. It is no part of the API, nor of the API's document."""
    app.include_router(pages.router)  # /me, and what it shows
    app.include_router(actions.router)  # what its buttons do
    app.include_router(pages.nowhere)  # any other path below /me
