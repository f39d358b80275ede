"""One transaction in one round trip: begin, enter the tenant, the statements, commit.

For recall, which every request of every user pays for.
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import psycopg
from psycopg.pq.abc import PGresult
from psycopg_pool import PoolTimeout

from app.db import SERVICE_ROLE, Database
from app.lines import Call, NoAnswer, statement

Row = tuple[Any, ...]

_BEGIN = statement("begin")
_COMMIT = statement("commit")
# A plan made for one person is right for every other: all are found through the same index. Made
# anew it costs more than it runs; made while the table was small it would scan all of it.
_ENTER = statement(
    "select set_config('role', %(role)s, true), set_config('plan_cache_mode', 'force_generic_plan',"
    " true), set_config('enable_seqscan', 'off', true), set_config('timezone', 'UTC', true),"
    " app.enter_tenant(%(tenant)s)"
)


async def trip(db: Database, tenant_id: UUID, *calls: Call) -> list[list[Row]]:
    """Run the statements in one transaction inside the tenant; give the rows of each.

    A connection that is dead, or forgot what was prepared on it, is replaced and the trip made once
    more, so what the statements do must be right when done twice. Raises
    `psycopg.OperationalError` or `PoolTimeout` when the database is away, any other
    `psycopg.Error` for a statement's own fault.
    """
    try:
        return await _try(db, tenant_id, calls)
    except (NoAnswer, PoolTimeout):
        raise  # the caller has waited long enough, and a busy pool is no reason to empty it
    except psycopg.errors.InvalidSqlStatementName:
        # Whoever else used the connection had all its statements dropped; it is closed by now.
        return await _try(db, tenant_id, calls)
    except psycopg.OperationalError:
        await db.renew()
        return await _try(db, tenant_id, calls)


async def _try(db: Database, tenant_id: UUID, calls: Sequence[Call]) -> list[list[Row]]:
    enter = _ENTER, {"role": SERVICE_ROLE, "tenant": tenant_id}
    line = await db.lines.take()
    try:
        results = await line.exchange([(_BEGIN, {}), enter, *calls, (_COMMIT, {})])
    except BaseException:
        await db.lines.discard(line)
        raise
    await db.lines.give(line)
    return [_rows(db, result) for result in results[2:-1]]


def _rows(db: Database, result: PGresult) -> list[Row]:
    if not result.ntuples:
        return []
    db.reader.set_pgresult(result)
    return db.reader.load_rows(0, result.ntuples, tuple)
