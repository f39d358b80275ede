"""When each API key was last used, to within a minute or so, at no request's expense.

A process notes a key when it looks it up, which it does about once a minute for a key in use; the
notes are written together, a few seconds later.
"""

import asyncio
from collections import defaultdict
from typing import Final
from uuid import UUID

import psycopg
from psycopg_pool import PoolTimeout

from app.db import Database
from app.lines import statement
from app.telemetry import logger
from app.trip import trip

log = logger(__name__)

WRITE_AFTER: Final = 5.0
"""Seconds that a note may wait for company."""

_USED: Final = statement("""
update api_key set last_used_at = now()
where tenant_id = %(tenant)s and id = any (%(keys)s::text[])
""")


class LastUsed:
    """The notes of one process that are not yet in the database."""

    def __init__(self) -> None:
        self._waiting: dict[UUID, set[str]] = defaultdict(set)
        self._writer: asyncio.Task[None] | None = None

    def note(self, db: Database, tenant_id: UUID, key_id: str) -> None:
        """Remember that a key was used just now. Never waits, never fails."""
        self._waiting[tenant_id].add(key_id)
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write_later(db), name="keys used")

    async def _write_later(self, db: Database) -> None:
        while self._waiting:
            await asyncio.sleep(WRITE_AFTER)
            await self.write(db)

    async def write(self, db: Database) -> None:
        """Write what waits; what can't be written is dropped, for the next minute brings it."""
        waiting, self._waiting = self._waiting, defaultdict(set)
        for tenant_id, keys in waiting.items():
            values = {"tenant": tenant_id, "keys": "{" + ",".join(keys) + "}"}
            try:
                await trip(db, tenant_id, (_USED, values))
            except (psycopg.Error, PoolTimeout) as error:
                log.warning("keys_used_dropped", keys=len(keys), error=type(error).__name__)

    async def aclose(self, db: Database) -> None:
        """Write what waits and stop."""
        if self._writer is not None:
            self._writer.cancel()
        await self.write(db)
