"""The migrations go up, down and up again, and build exactly what the models say."""

import re

import psycopg
import pytest
from sqlalchemy import create_engine

from app import db
from app.db import Base
from app.memory import erase, exported
from tests.databases import fresh
from tests.world import Urls

_SHAPE = {
    "columns": """
        select c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
               pg_get_expr(d.adbin, d.adrelid)
        from pg_attribute a join pg_class c on c.oid = a.attrelid
        left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
        where c.relkind = 'r' and a.attnum > 0 and not a.attisdropped and {ours}""",
    "constraints": """
        select c.relname, k.conname, pg_get_constraintdef(k.oid)
        from pg_constraint k join pg_class c on c.oid = k.conrelid where {ours}""",
    "indexes": """
        select c.relname, i.relname, pg_get_indexdef(i.oid)
        from pg_index x join pg_class i on i.oid = x.indexrelid
        join pg_class c on c.oid = x.indrelid where {ours}""",
}
_GUARDS = {
    "policies": "select tablename, policyname, cmd, qual, with_check from pg_policies",
    "grants": """
        select table_schema, table_name, grantee, privilege_type
        from information_schema.role_table_grants
        where grantee <> 'PUBLIC' and table_schema in ('public', 'app')""",
    "functions": """
        select p.oid::regprocedure::text, pg_get_functiondef(p.oid)
        from pg_proc p join pg_namespace n on n.oid = p.pronamespace
        where n.nspname in ('public', 'app') and p.prokind = 'f'
          and not exists (select from pg_depend d where d.objid = p.oid and d.deptype = 'e')""",
    "types": """
        select t.typname from pg_type t join pg_namespace n on n.oid = t.typnamespace
        where n.nspname in ('public', 'app') and t.typtype in ('e', 'c', 'd')
          and not exists (select from pg_depend d where d.objid = t.oid and d.deptype = 'e')""",
    "schemas": "select nspname from pg_namespace where nspname = 'app'",
}
_OURS = (
    "c.relnamespace = 'public'::regnamespace and c.relname <> 'alembic_version' "
    "and not c.relname ^@ 'procrastinate_'"
)

Rows = dict[str, list[tuple[object, ...]]]


def _read(url: str, queries: dict[str, str], ours: str = _OURS) -> Rows:
    with psycopg.connect(url) as connection:
        return {
            name: sorted(connection.execute(query.format(ours=ours)), key=str)
            for name, query in queries.items()
        }


@pytest.fixture(scope="module")
def migrated(urls: Urls) -> Rows:
    return _read(urls.superuser, _SHAPE)


def test_every_migration_can_be_undone_and_done_again(urls: Urls):
    everything = {**_SHAPE, **_GUARDS}
    with fresh(urls) as its:
        url = its.superuser
        db.migrate(url)
        first = _read(url, everything, ours="c.relnamespace = 'public'::regnamespace")
        db.migrate(url, "base")
        left = _read(url, everything)
        db.migrate(url)
        again = _read(url, everything, ours="c.relnamespace = 'public'::regnamespace")
    assert first["policies"]
    assert {name: rows for name, rows in left.items() if rows} == {
        "types": [("alembic_version",)],
        "grants": [row for row in left["grants"] if row[1] == "alembic_version"],
    }
    assert again == first


def test_the_models_describe_what_the_migrations_build(urls: Urls, migrated: Rows):
    with fresh(urls) as its:
        url = its.superuser
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("create extension vector")
        engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://", 1))
        try:
            Base.metadata.create_all(engine)
        finally:
            engine.dispose()
        described = _read(url, _SHAPE)
    assert described == migrated


def _keys(migrated: Rows, kinds: str) -> dict[str, list[str]]:
    return {
        f"{table} {name}": re.findall(r"\w+", str(text).split("(", 1)[1].split(")", 1)[0])
        for table, name, text in [*migrated["constraints"], *migrated["indexes"]]
        if re.match(kinds, str(text))
    }


# What is unique in a whole tenant can't begin with the user; nothing refers to these tables.
_UNIQUE_IN_TENANT = {"user_directory": "external_id", "idempotency_key": "digest"}


def test_every_key_of_a_table_about_users_begins_with_tenant_and_user(migrated: Rows):
    of_users = {str(row[0]) for row in migrated["columns"] if row[1] == "user_id"}
    of_users -= set(_UNIQUE_IN_TENANT)
    assert len(of_users) >= 11
    keys = {
        name: columns[:2]
        for name, columns in _keys(
            migrated, r"PRIMARY KEY|UNIQUE|FOREIGN KEY|CREATE UNIQUE INDEX \S+ ON \S+ USING btree "
        ).items()
        if name.split()[0] in of_users and not name.endswith("fk_memory_user_tenant")
    }
    assert {name for name, columns in keys.items() if columns != ["tenant_id", "user_id"]} == set()
    assert len(keys) >= 2 * len(of_users)


def test_what_is_unique_in_a_tenant_stands_apart_from_the_tables_about_users(migrated: Rows):
    keys = _keys(migrated, "PRIMARY KEY")
    for table, column in _UNIQUE_IN_TENANT.items():
        assert keys[f"{table} pk_{table}"] == ["tenant_id", column]
        references = [
            str(text)
            for owner, _, text in migrated["constraints"]
            if "FOREIGN KEY" in str(text) and (owner == table or f"REFERENCES {table}" in str(text))
        ]
        assert all("REFERENCES tenant(" in text for text in references)


def test_foreign_keys_cascade_or_refuse(urls: Urls):
    with psycopg.connect(urls.superuser) as connection:
        others = connection.execute(
            "select conname from pg_constraint k join pg_class c on c.oid = k.conrelid "
            "where contype = 'f' and (confdeltype not in ('c', 'a') or confupdtype <> 'a') "
            f"and {_OURS}"
        ).fetchall()
    assert others == []


def test_no_table_of_ours_has_a_trigger(urls: Urls):
    with psycopg.connect(urls.superuser) as connection:
        triggers = connection.execute(
            "select tgname from pg_trigger t join pg_class c on c.oid = t.tgrelid "
            f"where not tgisinternal and {_OURS}"
        ).fetchall()
    assert triggers == []


def test_vectors_are_stored_in_line(urls: Urls):
    with psycopg.connect(urls.superuser) as connection:
        [storage] = connection.execute(
            "select attstorage from pg_attribute "
            "where attrelid = 'memory_fact'::regclass and attname = 'embedding'"
        ).fetchall()
    assert storage == ("p",)


# What may hold personal data though it is no table about users, and what an erasure does with it.
_ERASED_OTHERWISE = {
    "idempotency_key": "the answer goes, the keyed hash says 410 for a day",
    "api_key": "a key bound to the user goes",
}
OF_NOBODY = {
    "tenant": "a customer's name",
    "tenant_policy": "what a customer decided",
    "tenant_usage": "numbers of a day",
    "forgetting_night": "when a customer's night began",
    "audit_log": "random ids, which nobody can tie to a user any more",
    "erasure": "keyed hashes",
    "worker_state": "of no tenant",
}
# What an export leaves out, for nobody could read it, here or elsewhere.
_HASHES_ALONE = {
    "seen_message": "keyed hashes of message ids",
    "incognito_session": "keyed hashes of session ids",
    "unlearned": "keyed hashes of deleted words",
    "page_link": "digests of secrets, for minutes",
    "page_session": "digests of secrets, for hours",
}
_DERIVED = {"new_vector": "numbers made of a fact's text, as its embedding"}


def tables_that_can_hold_personal_data(migrated: Rows) -> set[str]:
    """Every table of ours but those whose rows are nobody's: `OF_NOBODY` says why."""
    return {str(row[0]) for row in migrated["columns"]} - set(OF_NOBODY)


def test_an_erasure_covers_every_table_that_can_hold_personal_data(migrated: Rows):
    covered = {table.name for table in erase.OF_USERS} | set(_ERASED_OTHERWISE)

    assert tables_that_can_hold_personal_data(migrated) == covered


def test_an_export_covers_every_table_that_can_hold_personal_data(migrated: Rows):
    """A new table fails this until it has an entry in `TABLES`, or a reason above."""
    told = {table.model.__tablename__ for table in exported.TABLES}
    told |= {model.__tablename__ for model in exported.IN_HEADER}

    # What was done to the user is told as long as it is known of whom it is.
    assert tables_that_can_hold_personal_data(migrated) | {"audit_log"} == told | {
        *_HASHES_ALONE,
        *_DERIVED,
    }
    assert told.isdisjoint({*_HASHES_ALONE, *_DERIVED})


def test_tables_of_hashes_hold_nothing_else(migrated: Rows):
    kinds = {
        str(kind)
        for table, _, kind, *_ in migrated["columns"]
        if table in {*_HASHES_ALONE, "erasure"}
    }

    assert kinds == {"uuid", "bytea", "timestamp with time zone"}


def test_what_hangs_on_a_user_goes_with_the_user(migrated: Rows):
    roots = {table.name for table in erase._ROOTS}
    hanging = {
        str(table)
        for table, _, text in migrated["constraints"]
        if re.match(r"FOREIGN KEY \(tenant_id, user_id.*ON DELETE CASCADE", str(text))
    }

    assert roots == {"memory_user", "user_directory"}
    assert hanging == {table.name for table in erase.OF_USERS} - roots


def test_the_audit_log_and_the_erasures_can_only_grow(urls: Urls):
    with psycopg.connect(urls.superuser) as connection:
        rows = connection.execute(
            "select table_name, privilege_type from information_schema.role_table_grants "
            "where grantee = 'usermem_service' and table_name in ('audit_log', 'erasure')"
        ).fetchall()

    assert {verb for _, verb in rows} == {"SELECT", "INSERT"}
    assert len(rows) == 4
