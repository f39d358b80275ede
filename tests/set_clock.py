"""A database whose clock says what a test sets, read by the service like any other."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

import psycopg

from tests.databases import migrated
from tests.world import Urls

# `now()` is looked up where a search path begins; what was fixed before is told to look there too.
_SET_UP = """
create schema clock;
grant usage on schema clock to public;
create table clock.set (at timestamptz);
insert into clock.set values (now());
create function clock.now() returns timestamptz language sql stable security definer
  as 'select at from clock.set';
create function clock.clock_timestamp() returns timestamptz language sql volatile security definer
  as 'select at from clock.set';
do $$
declare found record;
begin
  for found in
    select attrelid::regclass as of_table, attname from pg_attrdef
    join pg_attribute on attrelid = adrelid and attnum = adnum
    where pg_get_expr(adbin, adrelid) = 'now()'
  loop
    execute format('alter table %s alter %I set default clock.now()',
                   found.of_table, found.attname);
  end loop;
  for found in select oid::regprocedure as name from pg_proc
    where pronamespace = 'app'::regnamespace and proconfig is not null
  loop
    execute format('alter function %s set search_path = clock, pg_catalog, pg_temp', found.name);
  end loop;
  execute format('alter database %I set search_path = clock, pg_catalog, public',
                 current_database());
end $$;
"""


@contextmanager
def clock_set(urls: Urls, zone: str) -> Iterator[tuple[Urls, Callable[[datetime], None]]]:
    """Give a migrated database whose sessions begin in that zone, and what sets its clock."""
    with migrated(urls) as its:
        with psycopg.connect(its.superuser) as connection:
            connection.execute(_SET_UP)
            name = connection.info.dbname
            connection.execute(f"alter database {name} set timezone = '{zone}'")

        def set_to(at: datetime) -> None:
            with psycopg.connect(its.superuser) as connection:
                connection.execute("update clock.set set at = %s", (at,))

        yield its, set_to
