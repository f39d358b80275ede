"""What the page's buttons do. Each is a form that leads back to a page, so none needs a script."""

import re
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import urlencode
from uuid import UUID

from fastapi import APIRouter, Request, Response
from starlette.responses import RedirectResponse

from app.deps import CoreDep, KeyCacheDep
from app.download import Download
from app.errors import Conflict, Gone, Invalid, NotFound, Stale
from app.memory import edit, files
from app.memory.erase import erase_user
from app.memory.export import export_user
from app.memory.file_text import Delete, Refused
from app.memory.page_links import consume_link, end_page_session
from app.memory.sessions import delete_session
from app.memory.undo import restore_fact
from app.memory.users import write_settings
from app.web.pages import KINDS, fact_page
from app.web.render import HEADERS, message, render
from app.web.route import PageRoute
from app.web.visitor import (
    FormDep,
    OwnForm,
    VisitorDep,
    end_session,
    keep_language,
    keep_session,
    texts_of,
)

if TYPE_CHECKING:
    from app.llm import Kind

router = APIRouter(prefix="/me", route_class=PageRoute, include_in_schema=False)

BY: Final = "page"
"""Who acts here, in events and in the audit log."""

_OWN_PAGE: Final = re.compile(r"/me(/[a-z0-9/-]*)?(\?[\w.~%&=+-]*)?", re.ASCII)


def _back(to: str, done: str | None = None) -> RedirectResponse:
    """Lead to a page of ours, which says what was done; to the first one from anywhere else."""
    where = to if _OWN_PAGE.fullmatch(to) else "/me"
    if done is not None:
        path, _, query = where.partition("?")
        kept = [part for part in query.split("&") if part and not part.startswith("done=")]
        where = f"{path}?{'&'.join([*kept, urlencode({'done': done})])}"
    return RedirectResponse(where, 303, HEADERS)


@router.post("")
async def open_page(
    request: Request, core: CoreDep, form: FormDep, token: str | None = None
) -> Response:
    """Use a link's token up and give the browser a session."""
    given = form.get("token") or token
    if not given:
        raise Gone("There is no link here.", code="link_spent")
    cookie, _ = await consume_link(core, given)
    answer = _back("/me")
    keep_session(request, answer, cookie)
    if "lang" in form:
        keep_language(request, answer, form["lang"])
    return answer


@router.post("/sign-out")
async def sign_out(request: Request, visitor: VisitorDep, _form: OwnForm) -> Response:
    """End the session, here and in the browser."""
    await end_page_session(visitor.core, visitor.cookie)
    answer = message(request, "signed_out", reader=visitor)
    end_session(request, answer)
    return answer


@router.post("/language")
async def switch_language(request: Request, _visitor: VisitorDep, form: OwnForm) -> Response:
    """Speak another language from here on."""
    answer = _back(form.get("back", ""))
    keep_language(request, answer, form.get("lang", ""))
    return answer


@router.post("/facts/{fact}")
async def change(request: Request, visitor: VisitorDep, fact: UUID, form: OwnForm) -> Response:
    """Correct a fact: new words make a successor, another kind changes it in place."""
    text, kind = form.get("text"), form.get("kind")
    fields = {"kind": cast("Kind", kind)} if kind in KINDS else {}
    try:
        if not text or not text.strip():
            raise Invalid("There is no text.", code="empty")
        kept, _ = await edit.change_fact(
            visitor.core,
            visitor.visit.scope.tenant_id,
            visitor.visit.user,
            fact,
            edit.Change(text, fields),
            revisions=_revisions(form),
            source="page",
            by=BY,
        )
    except (Invalid, Stale, Conflict) as error:
        texts = texts_of(request, visitor)
        known = f"refused.{error.code}"
        problem = texts(known if known in texts else "refused.invalid")
        return await fact_page(
            request, visitor, fact, status=error.status, problem=problem, typed=text
        )
    return _back(f"/me/facts/{kept.id}", "saved")


def _revisions(form: OwnForm) -> frozenset[int]:
    """Read which revision the form was made of; one that names none is of none."""
    said = form.get("revision", "")
    return frozenset({int(said)} if said.isascii() and said.isdecimal() and len(said) < 10 else ())


@router.post("/facts/{fact}/pin")
async def pin(visitor: VisitorDep, fact: UUID, form: OwnForm) -> Response:
    """Make a fact always on, or end that."""
    pinned = form.get("pinned") == "yes"
    await edit.change_fact(
        visitor.core,
        visitor.visit.scope.tenant_id,
        visitor.visit.user,
        fact,
        edit.Change(fields={"pinned": pinned}),
        revisions=None,
        by=BY,
    )
    return _back(form.get("back", ""), "pinned" if pinned else "unpinned")


@router.post("/facts/{fact}/restore")
async def restore(visitor: VisitorDep, fact: UUID, form: OwnForm) -> Response:
    """Bring back what was replaced or let go."""
    tenant_id = visitor.visit.scope.tenant_id
    async with visitor.core.db.tenant(tenant_id) as tx:
        await restore_fact(tx, tenant_id, visitor.visit.user, fact, by=BY)
    return _back(form.get("back", ""), "restored")


@router.post("/facts/{fact}/delete")
async def delete(visitor: VisitorDep, fact: UUID, form: OwnForm) -> Response:
    """Erase a fact, with what it had replaced."""
    visit, core = visitor.visit, visitor.core
    async with core.db.tenant(visit.scope.tenant_id) as tx:
        await edit.delete_fact(tx, core, visit.scope.tenant_id, visit.user, fact, by=BY)
    return _back(form.get("back", ""), "deleted")


@router.post("/conversations/delete")
async def delete_conversation(visitor: VisitorDep, form: OwnForm) -> Response:
    """Delete a conversation and what was learned from it alone."""
    tenant_id = visitor.visit.scope.tenant_id
    async with visitor.core.db.tenant(tenant_id) as tx:
        session = form.get("session", "")
        await delete_session(tx, tenant_id, visitor.visit.user, session, by=BY)
    return _back("/me/conversations", "conversation_deleted")


@router.post("/notes/delete")
async def delete_note(visitor: VisitorDep, form: OwnForm) -> Response:
    """Delete a file that an assistant keeps."""
    visit = visitor.visit
    try:
        await files.run(
            visitor.core, visit.scope.tenant_id, visit.user, Delete(form.get("path", ""))
        )
    except Refused:
        raise NotFound("There is no such file.") from None
    return _back("/me/notes", "note_deleted")


@router.post("/memory")
async def switch(visitor: VisitorDep, form: OwnForm) -> Response:
    """Pause memory, or let it go on."""
    memory = "on" if form.get("memory") == "on" else "paused"
    tenant_id = visitor.visit.scope.tenant_id
    async with visitor.core.db.tenant(tenant_id) as tx:
        await write_settings(tx, tenant_id, visitor.visit.user, {"memory": memory}, by=BY)
    return _back(form.get("back", ""), "resumed" if memory == "on" else "paused")


@router.post("/export")
async def export(visitor: VisitorDep, _form: OwnForm) -> Response:
    """Give everything as one file. A form's answer, for the audit log tells of it."""
    visit = visitor.visit
    file = await export_user(
        visitor.core.db, visit.scope.tenant_id, visit.user, as_document=True, by=BY
    )
    return Download(file, "application/json", "memory.json", HEADERS)


@router.post("/erase")
async def erase(
    request: Request, visitor: VisitorDep, keys: KeyCacheDep, form: OwnForm
) -> Response:
    """Erase everything, once the person has said so a second time."""
    texts = texts_of(request, visitor)
    if form.get("sure") != "yes":
        problem = texts("erase.not_sure")
        return render(request, "erase.html", visitor, status=422, problem=problem)
    visit = visitor.visit
    erased = await erase_user(visitor.core, visit.scope.tenant_id, visit.user, by=BY)
    keys.drop_bound(visit.scope.tenant_id, visit.user)
    until = texts.date(erased.backups_until, visitor.zone)
    answer = message(request, "erased", reader=visitor, until=until)
    end_session(request, answer)
    return answer
