"""The job queue's own tables, as procrastinate 3.10 ships them.

They stand outside row-level security, which is why jobs carry nothing but our own random ids.
"""

from alembic import op
from procrastinate.schema import SchemaManager

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_SERVICE = "usermem_service"


def upgrade() -> None:
    op.execute("set local lock_timeout = '300ms'")
    # Over the driver's own cursor: the text holds `%`, which SQLAlchemy would read as a parameter.
    raw = op.get_bind().connection.driver_connection
    if raw is None:
        raise RuntimeError("the queue's schema needs a live connection")
    with raw.cursor() as cursor:
        cursor.execute(SchemaManager.get_schema())
    op.execute(
        f"""
        do $do$
        declare t record;
        begin
          for t in select tablename from pg_tables
                   where schemaname = 'public' and tablename like 'procrastinate\\_%' loop
            execute format('grant select, insert, update, delete on %I to {_SERVICE}', t.tablename);
          end loop;
          for t in select sequencename from pg_sequences
                   where schemaname = 'public' and sequencename like 'procrastinate\\_%' loop
            execute format('grant usage, select on sequence %I to {_SERVICE}', t.sequencename);
          end loop;
        end $do$
        """
    )
    # The only look across tenants: nothing but random ids comes out, for the worker's safety net.
    op.execute(
        """
        create function app.overdue_sessions(most integer)
        returns table (tenant_id uuid, user_id uuid, session_id uuid)
        language sql stable security definer set search_path = pg_catalog, pg_temp as $f$
          select s.tenant_id, s.user_id, s.id from public.memory_session s
          where s.status in ('open', 'queued', 'extracting')
            and s.extract_after < now() - interval '1 minute'
          order by s.extract_after limit most
        $f$
        """
    )
    op.execute("revoke execute on function app.overdue_sessions(integer) from public")
    op.execute(f"grant execute on function app.overdue_sessions(integer) to {_SERVICE}")


def downgrade() -> None:
    op.execute("set local lock_timeout = '300ms'")
    op.execute("drop function app.overdue_sessions(integer)")
    op.execute(
        """
        do $do$
        declare t record;
        begin
          for t in select tablename from pg_tables
                   where schemaname = 'public' and tablename like 'procrastinate\\_%' loop
            execute format('drop table %I cascade', t.tablename);
          end loop;
          for t in select oid::regprocedure as signature from pg_proc
                   where proname like 'procrastinate\\_%' loop
            execute format('drop function if exists %s cascade', t.signature);
          end loop;
          for t in select typname from pg_type join pg_namespace n on n.oid = typnamespace
                   where n.nspname = 'public' and typname like 'procrastinate\\_%'
                   and typtype in ('e', 'c') loop
            execute format('drop type if exists %I cascade', t.typname);
          end loop;
        end $do$
        """
    )
