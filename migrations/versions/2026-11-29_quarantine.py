"""Indexes for looking across a tenant: its quarantine, and whose random id a row carries."""

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("set local lock_timeout = '300ms'")
    op.execute(
        """
        create index ix_memory_fact_quarantine on memory_fact (tenant_id, created_at, id)
          where quarantined_at is not null;
        create index ix_user_directory_user on user_directory (tenant_id, user_id)
        """
    )
    # For the nightly audit: which tenants there are, and nothing else about them.
    op.execute(
        """
        create function app.tenant_ids() returns setof uuid
        language sql stable security definer set search_path = pg_catalog, pg_temp as $f$
          select id from public.tenant order by id
        $f$
        """
    )
    op.execute("revoke execute on function app.tenant_ids() from public")
    op.execute("grant execute on function app.tenant_ids() to usermem_service")


def downgrade() -> None:
    op.execute("set local lock_timeout = '300ms'")
    op.execute("drop function app.tenant_ids()")
    op.execute("drop index ix_user_directory_user")
    op.execute("drop index ix_memory_fact_quarantine")
