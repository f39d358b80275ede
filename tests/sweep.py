"""Looking for a string in everything that a database holds, as a superuser."""

from dataclasses import dataclass
from uuid import UUID

import psycopg

_COLUMNS = """
select c.table_schema, c.table_name, c.column_name
from information_schema.columns c
join information_schema.tables t using (table_schema, table_name)
where c.table_schema not in ('pg_catalog', 'information_schema') and t.table_type = 'BASE TABLE'
  and (c.data_type in ('text', 'character varying', 'json', 'jsonb', 'bytea', 'ARRAY')
       or c.udt_name = 'tsvector')
"""


@dataclass(frozen=True)
class Holding:
    """One value that can hold words, and whose it is where the table says so."""

    place: str
    text: str
    tenant_id: UUID | None
    user_id: UUID | None


def holdings(url: str) -> list[Holding]:
    """Give every value of every table that can hold words."""
    found: list[Holding] = []
    with psycopg.connect(url) as connection:
        owned = {
            (table, column)
            for table, column in connection.execute(
                "select table_name, column_name from information_schema.columns"
                " where column_name in ('tenant_id', 'user_id')"
            )
        }
        for schema, table, column in connection.execute(_COLUMNS).fetchall():
            tenant = "tenant_id" if (table, "tenant_id") in owned else "null"
            user = "user_id" if (table, "user_id") in owned else "null"
            rows = connection.execute(
                f'select "{column}", {tenant}::uuid, {user}::uuid from "{schema}"."{table}"'
                f' where "{column}" is not null'
            )
            found += [Holding(f"{table}.{column}", _text(row[0]), row[1], row[2]) for row in rows]
    return found


def _text(value: object) -> str:
    return bytes(value).decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
