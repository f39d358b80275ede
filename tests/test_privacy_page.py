"""The page on privacy names every table, every route that it promises, and no other."""

import re
from pathlib import Path

import psycopg

from app.memory.exported import TABLES
from tests.api.routes import ROUTES
from tests.test_schema import OF_NOBODY
from tests.world import Urls

DOCS = Path(__file__).parent.parent / "docs"
PRIVACY = (DOCS / "privacy.md").read_text()
FORMAT = (DOCS / "export-format.md").read_text()


def test_every_table_about_people_is_named_with_its_retention(urls: Urls):
    with psycopg.connect(urls.superuser) as connection:
        tables = {
            str(name)
            for (name,) in connection.execute(
                "select c.relname from pg_class c where c.relkind = 'r'"
                " and c.relnamespace = 'public'::regnamespace"
                " and not c.relname ^@ 'procrastinate_'"
            )
        }
    rows = [row.split("|") for row in PRIVACY.splitlines() if row.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`([a-z_]+)`", row[1])}

    of_nobody = {"alembic_version", *OF_NOBODY} - {"audit_log", "erasure"}
    assert tables - named == of_nobody
    assert named <= tables
    assert all(row[3].strip() for row in rows)


def test_every_route_that_is_promised_is_there():
    known = {route.name for route in ROUTES}
    for page in (PRIVACY, FORMAT):
        promised = set(re.findall(r"`((?:GET|PUT|POST|PATCH|DELETE) /v1/[^ `]+)`", page))
        assert promised
        assert promised <= known


def test_every_type_of_record_is_described():
    told = dict(re.findall(r"^\| `([a-z]+)` \| `([a-z]+)` \|", FORMAT, re.MULTILINE))

    assert told == {table.record: table.group for table in TABLES}
