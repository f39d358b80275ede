"""The floor under recall: exact vector search in plain psycopg, nothing around it.

Precomputed vectors, a prepared statement, four threads; no HTTP, no words, no tiers, no row-level
security.
"""

import random
import threading
import time
from collections.abc import Sequence
from typing import Final
from uuid import UUID

import psycopg
from pgvector import HalfVector
from pgvector.psycopg import register_vector

from app.embeddings import Vector

THREADS: Final = 4

_SEARCH: Final = """
select id, text, 1 - (embedding <=> %(vector)s) from memory_fact
where tenant_id = %(tenant)s and user_id = %(user)s
  and superseded_at is null and quarantined_at is null and forgotten_at is null
order by (embedding <=> %(vector)s) + 0 limit 8
"""


def people(url: str, tenant_id: UUID) -> list[UUID]:
    """Give the ids of everybody who has facts to search."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "select user_id from user_directory where tenant_id = %s", (tenant_id,)
        ).fetchall()
    return [row[0] for row in rows]


def searches_per_second(
    url: str, tenant_id: UUID, of: Sequence[UUID], vectors: Sequence[Vector], seconds: float
) -> float:
    """Search random people's facts for random questions, as often as it goes."""
    asked = [HalfVector(vector) for vector in vectors]
    done = [0] * THREADS
    ready = threading.Barrier(THREADS)

    def work(number: int) -> None:
        dice = random.Random(number)
        with psycopg.connect(url, autocommit=True, prepare_threshold=0) as connection:
            register_vector(connection)
            cursor = connection.cursor(binary=True)
            ready.wait()
            until = time.perf_counter() + seconds
            while time.perf_counter() < until:
                values = {
                    "vector": dice.choice(asked),
                    "tenant": tenant_id,
                    "user": dice.choice(of),
                }
                if len(cursor.execute(_SEARCH, values).fetchall()) != 8:
                    raise RuntimeError("a search came back short")
                done[number] += 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(done) / seconds
