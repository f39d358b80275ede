"""How a migration runs: as the owner, one at a time, and never holding up the service for long."""

import os
import time

import psycopg
from alembic import context
from sqlalchemy import Connection, create_engine, pool, text
from sqlalchemy.exc import OperationalError

from app import models

_LOCK = 7_203_559_001  # any constant: two replicas that start at once must meet on the same number

_TURN = 0.5
"""Seconds between looks whether it is our turn."""

_WAITS = (0.5, 1, 2, 4, *(8,) * 20)
"""Seconds between tries. Each waits .3 s for a table (the migrations say so), and whoever
uses the table waits behind it meanwhile: so it lets go, and comes again."""


def _ours(name: str | None, kind: str, _parents: object) -> bool:
    """The queue's tables belong to its library; models and schema are compared without them."""
    return kind != "table" or not (name or "").startswith("procrastinate_")


def _run(connection: Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=models.Tenant.metadata,
        transaction_per_migration=True,
        compare_server_default=True,
        include_name=_ours,
    )
    with context.begin_transaction():
        context.run_migrations()


def _run_patiently(connection: Connection) -> None:
    """Run; where a table can't be had, go on from that migration a little later."""
    for wait in (*_WAITS, None):
        try:
            _run(connection)
        except OperationalError as error:
            if wait is None or not isinstance(error.orig, psycopg.errors.LockNotAvailable):
                raise
            connection.rollback()
            time.sleep(wait)
        else:
            return


def _connect(url: str) -> None:
    engine = create_engine(
        url.replace("postgresql://", "postgresql+psycopg://", 1),
        poolclass=pool.NullPool,
        hide_parameters=True,
        connect_args={"options": "-c timezone=UTC -c statement_timeout=15min"},
    )
    with engine.connect() as guard, engine.connect() as connection:
        # Held by a connection of its own: the migrations' transactions come and go beside it. Not
        # in a transaction, or an index that is built concurrently might wait for it for ever.
        guard.execution_options(isolation_level="AUTOCOMMIT")
        # Asked for again and again: an index that is built concurrently waits for every statement
        # under way, so also for one that waits for this lock, and Postgres can't see that circle.
        while not guard.scalar(text("select pg_try_advisory_lock(:key)"), {"key": _LOCK}):
            time.sleep(_TURN)
        _run_patiently(connection)


def main() -> None:
    """Use the connection or URL handed over by the caller, else the environment's."""
    attributes = context.config.attributes
    if "connection" in attributes:
        _run(attributes["connection"])
        return
    url = (
        attributes.get("url")
        or os.environ.get("USERMEM_MIGRATE_DATABASE_URL")
        or os.environ.get("USERMEM_DATABASE_URL")
    )
    if not url:
        raise SystemExit("Set USERMEM_MIGRATE_DATABASE_URL, or run `usermem migrate`.")
    _connect(url)


main()
