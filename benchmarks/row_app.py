"""What a frozen recall is measured against: an empty FastAPI route that reads one row by its key.

The same kind of pool, no tenant, no key, no row-level security, nothing but the row.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypedDict

from fastapi import FastAPI, Request
from psycopg_pool import AsyncConnectionPool


class _State(TypedDict):
    pool: AsyncConnectionPool


@asynccontextmanager
async def _lifespan(_app: FastAPI) -> AsyncIterator[_State]:
    async with AsyncConnectionPool(
        os.environ["ROW_DATABASE_URL"], min_size=1, max_size=10, kwargs={"autocommit": True}
    ) as pool:
        yield {"pool": pool}


app = FastAPI(lifespan=_lifespan)


@app.get("/row/{tenant}/{user}")
async def row(request: Request, tenant: str, user: str) -> dict[str, str]:
    """Read one row."""
    async with request.state.pool.connection() as connection:
        found = await connection.execute(
            "select user_id from user_directory where tenant_id = %s and external_id = %s",
            (tenant, user),
        )
        (user_id,) = await found.fetchone()
    return {"user_id": str(user_id)}
