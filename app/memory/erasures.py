"""Erasures against the ledger: which ones a restored database lacks, and doing those again.

An erasure counts as seen when the database holds it, or a later one of the same subject: an erasure
that was entered, failed to commit and was tried again is none that is missing.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from operator import attrgetter
from typing import Final, Literal
from uuid import UUID

import psycopg
from psycopg_pool import PoolTimeout
from sqlalchemy import func, select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from app.db import SERVICE_ROLE, now
from app.errors import Conflict, NotFound, Unavailable, UsermemError
from app.memory import cursor
from app.memory.core import Core
from app.memory.erase import entered, erase, erase_tenant, key_check, tenant_hash, user_hash
from app.memory.ingest import clamp_time
from app.memory.ledger import Entry, Ledger, LedgerCorrupt
from app.models import Erasure, User, UserDirectory
from app.telemetry import logger

log = logger(__name__)

LOOK_AGAIN: Final = 1.0
"""Seconds between looks at a database that lacks erasures, or was not to be had."""

WATCHED: Final = 10.0
"""Seconds between looks at one that has seen all: it may be restored under a running process."""

_BATCH: Final = 1_000


async def list_erasures(
    tx: AsyncSession,
    core: Core,
    tenant_id: UUID,
    *,
    since: datetime | None,
    limit: int,
    after: str | None,
) -> tuple[Sequence[Erasure], str | None]:
    """List a tenant's erasures, newest first. Raises `Invalid` for no time of this age."""
    if since is not None:
        clamp_time(since, now(tx))
    binding = cursor.binding_of("erasures", tenant_id, since=since)
    place = cursor.decode(core, binding, after) if after else None
    query = select(Erasure).where(Erasure.tenant_id == tenant_id)
    if since is not None:
        query = query.where(Erasure.erased_at >= since)
    if place:
        query = query.where(tuple_(Erasure.erased_at, Erasure.id) < tuple_(*place))
    query = query.order_by(Erasure.erased_at.desc(), Erasure.id.desc()).limit(limit + 1)
    rows = list(await tx.scalars(query))
    if len(rows) <= limit:
        return rows, None
    last = rows[limit - 1]
    return rows[:limit], cursor.encode(core, binding, last.erased_at, last.id)


async def seen(core: Core) -> list[Entry]:
    """Give the erasures that the database has seen, of all tenants, oldest first."""
    async with core.db.pool.connection() as connection, connection.transaction():
        # In the server's zone times of the hour that comes twice would compare wrongly.
        await connection.execute(
            "select set_config('role', %s, true), set_config('timezone', 'UTC', true)",
            (SERVICE_ROLE,),
        )
        rows = await connection.execute(
            "select id, tenant_id, subject_hash, erased_at, merged_into"
            " from app.erasures() order by erased_at"
        )
        own_check = key_check(core)
        return [
            Entry(erasure_id, tenant_id, subject_hash, erased_at, own_check, into)
            for erasure_id, tenant_id, subject_hash, erased_at, into in await rows.fetchall()
        ]


def missing(entries: Iterable[Entry], known: Iterable[Entry]) -> list[Entry]:
    """Give the entries that were not seen: neither they nor a later one of their subject."""
    latest: dict[bytes, datetime] = {}
    for entry in known:
        latest[entry.subject_hash] = max(
            entry.erased_at, latest.get(entry.subject_hash, entry.erased_at)
        )
    return [
        entry
        for entry in entries
        if entry.subject_hash not in latest or latest[entry.subject_hash] < entry.erased_at
    ]


async def check(core: Core) -> Literal["ok", "degraded", "failed"]:
    """Tell how the database stands to its ledger; `degraded` without one.

    Looks again where the last look is a while ago: sooner while erasures are missing. Raises what
    the database raises.
    """
    ledger = core.ledger
    if ledger is None:
        return "degraded"
    async with ledger.looking:  # whoever comes meanwhile waits for this look's answer
        pause = WATCHED if ledger.is_whole else LOOK_AGAIN
        if time.monotonic() - ledger.looked_at >= pause:
            await _look(core, ledger)
    return "ok" if ledger.is_whole else "failed"


async def _look(core: Core, ledger: Ledger) -> None:
    """Compare the two, unless neither has changed since they were found to agree."""
    as_found = await ledger.state(), await _fingerprint(core)
    if not ledger.is_whole or as_found != ledger.agreed:
        ledger.is_whole = await _has_seen_all(core, ledger)
        ledger.agreed = as_found  # of before the comparison: what changed in it is compared again
    ledger.looked_at = time.monotonic()


async def _fingerprint(core: Core) -> object:
    """Give what differs between two databases that have not seen the same erasures."""
    async with core.db.pool.connection() as connection, connection.transaction():
        await connection.execute("select set_config('role', %s, true)", (SERVICE_ROLE,))
        found = await connection.execute(
            "select count(*), bit_xor(hashtextextended(id::text, 0)) from app.erasures()"
        )
        return await found.fetchone()


async def watch(core: Core) -> None:
    """Look again and again, for as long as the caller lets it."""
    while True:
        await asyncio.sleep(WATCHED)
        try:
            await check(core)
        except (psycopg.Error, PoolTimeout) as error:
            log.warning("ledger_not_checked", error=type(error).__name__)


async def wait_for_a_lack(core: Core) -> None:
    """Return when erasures are missing; for ever where there is no ledger."""
    while core.ledger is None or core.ledger.is_whole:  # noqa: ASYNC110 - many may find it
        await asyncio.sleep(LOOK_AGAIN)


async def _has_seen_all(core: Core, ledger: Ledger) -> bool:
    known = await seen(core)
    try:
        entries = await ledger.read()
        lacking = missing(entries, known)
        if lacking and ledger.is_whole:
            lacking = await _still_missing(core, ledger, lacking)
    except OSError as error:
        log.error("ledger_unreadable", error=type(error).__name__)  # noqa: TRY400 - its text names a path alone
        return False
    except LedgerCorrupt as error:
        log.error("ledger_corrupt", line=error.line)  # noqa: TRY400 - the line is all there is to it
        return False
    if lacking:
        log.error("erasures_missing", count=len(lacking))
        return False
    # The other way round: a ledger that was lost, or is another machine's, is made whole.
    ids = {entry.erasure_id for entry in entries}
    unwritten = [entry for entry in known if entry.erasure_id not in ids]
    if unwritten:
        try:
            await ledger.append(unwritten)
        except Unavailable as error:
            log.error("ledger_not_caught_up", error=type(error).__name__)  # noqa: TRY400 - told there
            return False
        log.warning("ledger_caught_up", count=len(unwritten))
    return True


async def _still_missing(core: Core, ledger: Ledger, lacking: Sequence[Entry]) -> list[Entry]:
    """Give those that are missing a moment later too: an erasure under way commits after its entry.

    Without it every look could take one for a restored database, and nothing would be served.
    """
    await asyncio.sleep(LOOK_AGAIN)
    entered_still = {entry.erasure_id for entry in await ledger.read()}
    unseen = missing(lacking, await seen(core))
    return [entry for entry in unseen if entry.erasure_id in entered_still]


async def require_all(core: Core) -> None:
    """Raise `Unavailable` while the database may hold what was erased."""
    if core.ledger is None or core.ledger.is_whole:
        return
    if await check(core) == "failed":
        raise Unavailable(
            "The database lacks erasures of its ledger: an operator must replay them.",
            code="erasures_missing",
            retry_after=30,
        )


async def wait_for_all(core: Core) -> None:
    """Return when the database has seen every erasure: nobody may work on what was erased."""
    while True:
        try:
            if await check(core) != "failed":
                return
        except (psycopg.Error, PoolTimeout, UsermemError) as error:
            log.warning("ledger_not_checked", error=type(error).__name__)
        await asyncio.sleep(LOOK_AGAIN)


async def replay(core: Core, entries: Iterable[Entry]) -> int:
    """Do again those of the entries that the database lacks; give how many. Safe to repeat.

    Whoever came, or came back, after an erasure is left alone. So is whoever was merged away, for
    what was moved isn't with the other one here, unless that one was erased afterwards. Raises
    `Conflict` before anything is done when an entry was written under another signing key: nobody
    could be told from its hash.
    """
    lacking = missing(entries, await seen(core))
    if any(entry.key_check != key_check(core) for entry in lacking):
        raise Conflict(
            "The ledger was written under another signing key: set USERMEM_SIGNING_KEY to that "
            "one and replay again. Nothing was erased.",
            code="another_key",
        )
    by_tenant: dict[UUID, list[Entry]] = defaultdict(list)
    for entry in sorted(lacking, key=_when):
        by_tenant[entry.tenant_id].append(entry)
    for tenant_id, own in by_tenant.items():
        names = await _names(core, tenant_id, {entry.subject_hash for entry in own})
        for entry in own:
            if _is_gone(entry, own):
                await _replay(core, entry, names.get(entry.subject_hash))
            else:
                log.warning("merge_not_replayed", erasure=str(entry.erasure_id))
                await _replay(core, entry, None)
    return len(lacking)


_when: Final = attrgetter("erased_at")


def _is_gone(entry: Entry, entries: Iterable[Entry]) -> bool:
    """Tell whether what an entry took away was erased in the end, and not only moved.

    A database that lacks a merge lacks what happened to the other user since, too.
    """
    last: Entry | None = entry
    while last is not None and last.merged_into is not None:
        since, into = last.erased_at, last.merged_into
        later = (one for one in entries if one.subject_hash == into and one.erased_at > since)
        last = min(later, key=_when, default=None)
    return last is not None


async def _replay(core: Core, entry: Entry, user: str | None) -> None:
    if entry.subject_hash == tenant_hash(core, entry.tenant_id):
        with suppress(NotFound):
            await erase_tenant(core, entry.tenant_id, replayed=entry)
            return
    async with core.db.tenant(entry.tenant_id) as tx:
        if user is not None and await _was_there(tx, entry, user):
            await erase(tx, core, entry.tenant_id, user, by="cli", replayed=entry)
        else:
            tx.add(entered(entry))


async def _was_there(tx: AsyncSession, entry: Entry, user: str) -> bool:
    """Tell whether a person was in this database before an erasure.

    The first day that an import brought along says nothing of that: it may be of before, and what
    a person brings back after an erasure is theirs.
    """
    since = await tx.scalar(
        select(func.coalesce(UserDirectory.here_since, User.created_at))
        .join(
            User,
            (User.tenant_id == UserDirectory.tenant_id) & (User.user_id == UserDirectory.user_id),
        )
        .where(UserDirectory.tenant_id == entry.tenant_id, UserDirectory.external_id == user)
    )
    return since is not None and since <= entry.erased_at


async def _names(core: Core, tenant_id: UUID, wanted: set[bytes]) -> dict[bytes, str]:
    """Find whom the hashes stand for: nothing but the directory can tell, user by user."""
    found: dict[bytes, str] = {}
    after = ""
    while True:
        async with core.db.tenant(tenant_id) as tx:
            query = (
                select(UserDirectory.external_id)
                .where(UserDirectory.tenant_id == tenant_id, UserDirectory.external_id > after)
                .order_by(UserDirectory.external_id)
                .limit(_BATCH)
            )
            batch = list(await tx.scalars(query))
        for user in batch:
            digest = user_hash(core, tenant_id, user)
            if digest in wanted:
                found[digest] = user
        if len(batch) < _BATCH:
            return found
        after = batch[-1]
