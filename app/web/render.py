"""From a template to an answer. Every text is escaped, and no answer may be kept or framed.

The page needs no other site and no script or style of its own making inside the document, so the
browser is told to refuse both: whatever a fact holds, it can only be read.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request

from app.web.texts import TEXTS, Texts
from app.web.visitor import Visitor, texts_of

HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; "
    "base-uri 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "X-Robots-Tag": "noindex",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Vary": "Cookie, Accept-Language",
}

_BIDI: Final = re.compile("[\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c]")

_HERE: Final = Path(__file__).parent
_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".LICENSE": "text/plain; charset=utf-8",
}
ASSETS: Final = {
    path.name: (path.read_bytes(), _TYPES[path.suffix])
    for path in sorted((_HERE / "static").iterdir())
    if path.suffix in _TYPES
}
"""The static files with their types, by name."""

_HTMX: Final = json.dumps(
    {
        "includeIndicatorStyles": False,
        "allowEval": False,
        "allowScriptTags": False,
        "selfRequestsOnly": True,
        # What was shown must not outlive the session in the browser's storage.
        "historyEnabled": False,
        "historyCacheSize": 0,
        "scrollIntoViewOnBoost": False,
        # An error is a page too, and is shown.
        "responseHandling": [
            {"code": "204", "swap": False},
            {"code": "[2345]..", "swap": True},
        ],
    }
)


def asset(name: str) -> str:
    """Give the address of a static file; another content has another address."""
    return f"/me/static/{name}?v={hashlib.sha256(ASSETS[name][0]).hexdigest()[:12]}"


_templates: Final = Environment(
    loader=FileSystemLoader(_HERE / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    auto_reload=False,
)


def _isolated(text: str) -> str:
    """Keep the direction of an id to itself, inside a sentence of ours."""
    return f"\u2068{_BIDI.sub('', text)}\u2069"


def _present(fields: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in fields.items() if value}


_templates.filters["present"] = _present
_templates.globals.update(
    asset={name: asset(name) for name in ASSETS},
    htmx=_HTMX,
    isolated=_isolated,
    languages=list(TEXTS.values()),
)


def render(
    request: Request,
    template: str,
    visitor: Visitor | None = None,
    *,
    status: int = 200,
    texts: Texts | None = None,
    **context: Any,
) -> HTMLResponse:
    """Give a page of this template, in the visitor's language and time zone."""
    texts = texts or texts_of(request, visitor)
    zone = visitor.zone if visitor else ZoneInfo("UTC")
    done = f"done.{request.query_params.get('done', '')}"
    page = _templates.get_template(template).render(
        {
            "t": texts,
            "date": lambda at: texts.date(at, zone),
            "time": lambda at: texts.time(at, zone),
            "visitor": visitor,
            "here": request.url.path,
            "back": f"{request.url.path}?{request.url.query}".rstrip("?"),
            "notice": texts(done) if done in texts else "",
            **context,
        }
    )
    return HTMLResponse(page, status, HEADERS)


def message(
    request: Request,
    key: str,
    *,
    status: int = 200,
    is_over: bool = True,
    reader: Visitor | None = None,
    **values: object,
) -> HTMLResponse:
    """Give a page that says one thing, from the texts `key` and `key.title`.

    Unless the session is over, it leads back. `reader` is whose language it speaks.
    """
    texts = texts_of(request, reader)
    return render(
        request,
        "message.html",
        status=status,
        texts=texts,
        title=texts(f"{key}.title"),
        text=texts(key, **values),
        is_over=is_over,
    )
