"""The safety net: a session that should have been looked at, and wasn't, is looked at now.

Jobs are deferred in the transaction of their cause and survive crashes, so this finds nothing; it
is for the day when somebody empties the queue by hand.
"""

from typing import Final

from app.db import Database, Scope
from app.memory.jobs import defer_retry

_MOST: Final = 100


async def wake(db: Database) -> int:
    """Defer a look at each session that is overdue by a minute; give how many there were."""
    async with db.pool.connection() as connection, connection.transaction():
        await connection.execute("select set_config('role', 'usermem_service', true)")
        cursor = await connection.execute("select * from app.overdue_sessions(%s)", (_MOST,))
        rows = await cursor.fetchall()
    for tenant_id, user_id, session_id in rows:
        scope = Scope(tenant_id, user_id)
        async with db.tenant(tenant_id) as tx:
            await defer_retry(tx, scope, session_id, None)
    return len(rows)
