"""The page on privacy names every table, every route that it promises, and no other."""

import re
from pathlib import Path

from app.memory.export import TABLES
from tests.api.routes import ROUTES
from tests.portability.test_export import _WITHOUT_A_PERSON
from tests.world import World

DOCS = Path(__file__).parent.parent / "docs"
PRIVACY = (DOCS / "privacy.md").read_text()
FORMAT = (DOCS / "export-format.md").read_text()

_ELSEWHERE = {"DELETE /v1/users/{user}"}
"""Erasing a user is not a route yet."""


def test_every_table_about_people_is_named_with_its_retention(world: World):
    tables = {
        name
        for (name,) in world.rows(
            "select c.relname from pg_class c where c.relkind = 'r'"
            " and c.relnamespace = 'public'::regnamespace and not c.relname ^@ 'procrastinate_'"
        )
    }
    rows = [row.split("|") for row in PRIVACY.splitlines() if row.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`([a-z_]+)`", row[1])}

    assert tables - named - set(_WITHOUT_A_PERSON) == set()
    assert named <= tables
    assert all(row[3].strip() for row in rows)


def test_every_route_that_is_promised_is_there():
    known = {route.name for route in ROUTES} | _ELSEWHERE
    for page in (PRIVACY, FORMAT):
        promised = set(re.findall(r"`((?:GET|PUT|POST|PATCH|DELETE) /v1/[^ `]+)`", page))
        assert promised
        assert promised <= known


def test_every_type_of_record_is_described():
    told = dict(re.findall(r"^\| `([a-z]+)` \| `([a-z]+)` \|", FORMAT, re.MULTILINE))

    assert told == {table.record: table.group for table in TABLES}
