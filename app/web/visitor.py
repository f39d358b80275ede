"""Who is on the page, and whether a form is really theirs.

A form counts when its browser says that it was sent from this site, and when it holds a token that
only a page of this session can know.
"""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final
from urllib.parse import parse_qsl, urlsplit
from zoneinfo import ZoneInfo

from fastapi import Depends
from starlette.requests import Request
from starlette.responses import Response

from app.deps import CoreDep, get_core
from app.errors import Forbidden
from app.memory.core import Core
from app.memory.page_links import SESSION_LASTS, Visit, find_page_session
from app.memory.users import UserSettings, read_settings
from app.web.texts import Texts, choose
from app.wire import JsonRequest, WrongMediaType

COOKIE: Final = "usermem_page"
LANGUAGE: Final = "usermem_language"
PATH: Final = "/me"


@dataclass(frozen=True, slots=True)
class Visitor:
    """A person on their own page."""

    core: Core = field(repr=False)
    visit: Visit
    settings: UserSettings
    cookie: str = field(repr=False)

    @property
    def zone(self) -> ZoneInfo:
        """The person's time zone, or else UTC."""
        return ZoneInfo(self.settings.timezone or "UTC")

    @property
    def form_token(self) -> str:
        """What a form of this session holds."""
        return self.core.keyed_hash("page form", self.cookie).hex()


async def get_visitor(request: Request, core: CoreDep) -> Visitor:
    """Give who is on the page. Raises `Unauthorized` once the session is over."""
    cookie = request.cookies.get(COOKIE, "")
    visit = await find_page_session(core, cookie)
    async with core.db.tenant(visit.scope.tenant_id) as tx:
        settings = await read_settings(tx, visit.scope.tenant_id, visit.user)
    return Visitor(core, visit, settings, cookie)


VisitorDep = Annotated[Visitor, Depends(get_visitor)]


async def get_form(request: Request) -> Mapping[str, str]:
    """Read a form's fields, of at most 1 MiB; the last of one name counts."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    body = await JsonRequest(request.scope, request.receive).body()
    if body and media_type != "application/x-www-form-urlencoded":
        raise WrongMediaType("A form is needed.")
    pairs = parse_qsl(body.decode(errors="replace"), keep_blank_values=True, errors="replace")
    # Ids come back as they were shown; a NUL is in none of them, and no column could hold it.
    return {name: value.replace("\0", "") for name, value in pairs}


FormDep = Annotated[Mapping[str, str], Depends(get_form)]


async def get_own_form(visitor: VisitorDep, form: FormDep) -> Mapping[str, str]:
    """Give a form of this session. Raises `Forbidden` for any other."""
    if not hmac.compare_digest(form.get("form_token", "").encode(), visitor.form_token.encode()):
        raise _foreign()
    return form


OwnForm = Annotated[Mapping[str, str], Depends(get_own_form)]


def check_same_site(request: Request) -> None:
    """Raise `Forbidden` when the browser says that another site sends this.

    Who says nothing is no browser, and no site makes it send anything. Under our referrer policy a
    browser hides the origin of our own forms too (`null`); then `Sec-Fetch-Site` decides, which is
    not sent without TLS.
    """
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    if site is not None and site not in {"same-origin", "none"}:
        raise _foreign()
    if origin is None:
        return
    if origin == "null":
        if site is None and is_secure(request):
            raise _foreign()
    elif urlsplit(origin).netloc not in _own_names(request):
        raise _foreign()


def _own_names(request: Request) -> set[str]:
    public_url = get_core(request).public_url
    return {request.headers.get("host", ""), urlsplit(public_url).netloc} - {""}


def _foreign() -> Forbidden:
    return Forbidden("The request does not come from this page.", code="foreign_form")


def is_secure(request: Request) -> bool:
    """Tell whether people reach the page over TLS, here or at a proxy in front."""
    return request.url.scheme == "https" or get_core(request).public_url.startswith("https://")


def texts_of(request: Request, visitor: Visitor | None = None) -> Texts:
    """Give the words to speak in: as switched, else of the user's locale, else of the browser."""
    return choose(
        request.query_params.get("lang"),
        request.cookies.get(LANGUAGE),
        visitor.settings.locale if visitor else None,
        request.headers.get("accept-language"),
    )


def keep_session(request: Request, response: Response, cookie: str) -> None:
    """Hand the browser its session."""
    lasts = int(SESSION_LASTS.total_seconds())
    _set(request, response, COOKIE, cookie, lasts)


def keep_language(request: Request, response: Response, language: str) -> None:
    """Have the browser remember in which language the page speaks."""
    _set(request, response, LANGUAGE, choose(language).language, 365 * 86_400)


def end_session(request: Request, response: Response) -> None:
    """Take the session's cookie away."""
    _set(request, response, COOKIE, "", 0)


def _set(request: Request, response: Response, name: str, value: str, lasts: int) -> None:
    response.set_cookie(
        name,
        value,
        max_age=lasts,
        path=PATH,
        secure=is_secure(request),
        httponly=True,
        samesite="strict",
    )
