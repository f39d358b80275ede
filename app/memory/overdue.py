"""The safety net: a session that should have been looked at, and wasn't, is looked at now.

Jobs are deferred in the transaction of their cause and survive crashes, so there is little to find:
sessions whose job failed for reasons of the infrastructure, or was removed by hand.
"""

from typing import Final

from app.db import SERVICE_ROLE, Database, Scope
from app.memory.jobs import defer_look

_MOST: Final = 100


async def wake(db: Database) -> int:
    """Defer a look at each session that is overdue by a minute; give how many there were."""
    async with db.pool.connection() as connection, connection.transaction():
        await connection.execute("select set_config('role', %s, true)", (SERVICE_ROLE,))
        cursor = await connection.execute("select * from app.overdue_sessions(%s)", (_MOST,))
        rows = await cursor.fetchall()
    for tenant_id, user_id, session_id in rows:
        async with db.tenant(tenant_id) as tx:
            await defer_look(tx, Scope(tenant_id, user_id), session_id)
    return len(rows)
