"""Who did what to whom: ids, names of actions and counts, never a word that a user said.

Append-only for the service's role. What is past its time goes through one narrow function, which
reads the time from the tenant's own policy; a tenant's erasure takes the rest along.
"""

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("set local lock_timeout = '300ms'")
    op.execute(
        """
        create table audit_log (
          tenant_id uuid not null,
          id uuid not null,
          created_at timestamptz default now() not null,
          actor text not null,
          action text not null,
          about uuid,
          details jsonb default '{}' not null,
          constraint pk_audit_log primary key (tenant_id, id),
          constraint fk_audit_log_tenant
            foreign key (tenant_id) references tenant (id) on delete cascade
        );
        create index ix_audit_log_about on audit_log (tenant_id, about, created_at, id);
        create index ix_audit_log_newest on audit_log (tenant_id, created_at, id)
        """
    )
    own = "tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid"
    op.execute("alter table audit_log enable row level security")
    op.execute("alter table audit_log force row level security")
    op.execute(f"create policy own_tenant on audit_log for all using ({own}) with check ({own})")
    op.execute("grant select, insert on audit_log to usermem_service")
    op.execute(
        """
        create function app.expire_audit_log() returns bigint
        language sql security definer set search_path = pg_catalog, pg_temp as $f$
          with own as (
            select t.id, coalesce((p.policy ->> 'audit_retention')::interval, '365 days') as kept
            from public.tenant t left join public.tenant_policy p on p.tenant_id = t.id
            where t.id = nullif(current_setting('app.tenant_id', true), '')::uuid
          ), gone as (
            delete from public.audit_log a using own
            where a.tenant_id = own.id and a.created_at < now() - own.kept returning 1
          )
          select count(*) from gone
        $f$
        """
    )
    op.execute("revoke execute on function app.expire_audit_log() from public")
    op.execute("grant execute on function app.expire_audit_log() to usermem_service")


def downgrade() -> None:
    op.execute("set local lock_timeout = '300ms'")
    op.execute("drop function app.expire_audit_log()")
    op.execute("drop table audit_log")
