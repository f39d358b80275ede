"""What can be looked at: the way in, facts and why each is believed, conversations, notes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response

from app.db import now
from app.deps import CoreDep
from app.errors import NotFound
from app.llm import Kind
from app.memory import edit, facts, files
from app.memory.sessions import list_sessions
from app.memory.view import Status, View
from app.text import one_line
from app.web.render import ASSETS, HEADERS, message, render
from app.web.route import PageRoute
from app.web.shown import ShownFact, mask, show, show_evidence
from app.web.visitor import COOKIE, Visitor, VisitorDep, get_visitor

router = APIRouter(prefix="/me", route_class=PageRoute, include_in_schema=False)
nowhere = APIRouter(prefix="/me", route_class=PageRoute, include_in_schema=False)

KINDS: Final[Sequence[Kind]] = ("constraint", "profile", "preference", "goal")
_PAST: Final[Sequence[Status]] = ("superseded", "forgotten", "expired")

_FEW: Final = 20
_MANY: Final = 50

Search = Annotated[str, Query(max_length=2048)]


@dataclass(frozen=True, slots=True)
class Section:
    """A list of facts under a heading, and the cursor of what else there is."""

    name: str
    facts: Sequence[ShownFact]
    kind: Kind | None = None
    status: Status = "live"
    more: str | None = None


async def _section(
    visitor: Visitor,
    name: str,
    *,
    q: str = "",
    kind: Kind | None = None,
    status: Status = "live",
    limit: int = _FEW,
    after: str | None = None,
) -> Section:
    visit, core = visitor.visit, visitor.core
    view = View(status, kind, containing=one_line(q) or None)
    async with core.db.tenant(visit.scope.tenant_id) as tx:
        page = await facts.list_facts(
            tx, core, visit.scope.tenant_id, visit.user, view, limit=limit, after=after
        )
        at = now(tx)
    return Section(name, await show(page.items, at), kind, status, page.next_cursor)


@router.get("")
async def memory(
    request: Request, core: CoreDep, token: str | None = None, q: Search = ""
) -> Response:
    """Show what is remembered. With a link's token, a button alone: looking uses nothing up."""
    if token is not None:
        return render(request, "open.html", token=token)
    if COOKIE not in request.cookies:
        return message(request, "closed", status=401)
    visitor = await get_visitor(request, core)
    sections = [await _section(visitor, f"kind.{kind}", q=q, kind=kind) for kind in KINDS]
    held = await _section(visitor, "status.quarantined", q=q, status="quarantined")
    return render(
        request,
        "memory.html",
        visitor,
        q=q,
        sections=[section for section in (*sections, held) if section.facts],
    )


@router.get("/past")
async def past(request: Request, visitor: VisitorDep, q: Search = "") -> Response:
    """Show what is remembered no more: replaced, let go, or past its time."""
    sections = [await _section(visitor, f"status.{status}", q=q, status=status) for status in _PAST]
    return render(
        request,
        "past.html",
        visitor,
        q=q,
        sections=[section for section in sections if section.facts],
    )


@router.get("/list")
async def one_list(
    request: Request,
    visitor: VisitorDep,
    q: Search = "",
    kind: Kind | None = None,
    status: Status = "live",
    after: str | None = None,
) -> Response:
    """Show one list page by page."""
    name = f"kind.{kind}" if kind else f"status.{status}"
    section = await _section(visitor, name, q=q, kind=kind, status=status, limit=_MANY, after=after)
    return render(request, "list.html", visitor, q=q, sections=[section])


@router.get("/facts/{fact}")
async def one_fact(request: Request, visitor: VisitorDep, fact: UUID) -> Response:
    """Show a fact: why it is believed, what it replaced, when it was used; and change it."""
    return await fact_page(request, visitor, fact)


async def fact_page(
    request: Request,
    visitor: Visitor,
    fact: UUID,
    *,
    status: int = 200,
    problem: str | None = None,
    typed: str | None = None,
) -> Response:
    """Give the page of a fact, with what was wrong with a change of it and the text it had."""
    visit = visitor.visit
    async with visitor.core.db.tenant(visit.scope.tenant_id) as tx:
        why = await facts.explain(tx, visit.scope.tenant_id, visit.user, fact)
        chain = await edit.chain_of(tx, visit.scope.tenant_id, visit.user, fact)
        at = now(tx)
    (shown,) = await show([why.fact], at)
    before = [other for other in chain if other.superseded_by == fact]
    after = [other for other in chain if other.id == why.fact.superseded_by]
    return render(
        request,
        "fact.html",
        visitor,
        status=status,
        fact=shown,
        evidence=await show_evidence(why),
        replaced=await show(before, at),
        replaced_by=await show(after, at),
        kinds=KINDS,
        problem=problem,
        typed=typed,
    )


@router.get("/conversations")
async def conversations(
    request: Request, visitor: VisitorDep, after: str | None = None
) -> Response:
    """Show the conversations that something was or will be learned from."""
    visit, core = visitor.visit, visitor.core
    async with core.db.tenant(visit.scope.tenant_id) as tx:
        page = await list_sessions(
            tx, core, visit.scope.tenant_id, visit.user, limit=_MANY, after=after
        )
    return render(
        request, "conversations.html", visitor, sessions=page.items, more=page.next_cursor
    )


@router.get("/notes")
async def notes(request: Request, visitor: VisitorDep, path: str | None = None) -> Response:
    """Show the files that an assistant keeps, or one of them."""
    visit = visitor.visit
    async with visitor.core.db.tenant(visit.scope.tenant_id) as tx:
        if path is None:
            listed = await files.list_files(tx, visit.scope.tenant_id, visit.user)
            return render(request, "notes.html", visitor, files=listed)
        if "\0" in path:
            raise NotFound("There is no such file.")
        content = await files.read_file(tx, visit.scope.tenant_id, visit.user, path)
    return render(request, "note.html", visitor, path=path, content=await mask(content))


@router.get("/data")
async def data(request: Request, visitor: VisitorDep) -> Response:
    """Show what can be done with all of it: pause, take along, erase."""
    return render(request, "data.html", visitor)


@router.get("/erase")
async def before_erasing(request: Request, visitor: VisitorDep) -> Response:
    """Ask once more before everything is erased."""
    return render(request, "erase.html", visitor, problem=None)


@router.get("/static/{name}")
async def static(name: str) -> Response:
    """Give a style sheet or script; its address changes with its content."""
    if name not in ASSETS:
        raise NotFound("There is no such file.")
    content, media_type = ASSETS[name]
    forever = {"Cache-Control": "public, max-age=31536000, immutable"}
    return Response(content, media_type=media_type, headers={**HEADERS, **forever})


@nowhere.api_route("/{rest:path}", methods=["GET", "POST", "PUT", "PATCH", "DELETE"])
async def nothing() -> Response:
    """Answer for every other path below the page."""
    raise NotFound("There is no such page.")
