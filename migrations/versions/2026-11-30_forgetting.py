"""Forgetting: where each tenant's night stands, and what it took, by ids and rules, without a word.

Why: a night that was killed goes on from the instant at which it began, and no worker begins a
second one; a tenant sees for how long it likes what was, or would have been, let go.
"""

from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("set local lock_timeout = '300ms'")
    op.execute(
        """
        create table forgetting_night (
          tenant_id uuid not null,
          day date not null,
          started_at timestamptz default now() not null,
          finished_at timestamptz,
          constraint pk_forgetting_night primary key (tenant_id),
          constraint fk_forgetting_night_tenant
            foreign key (tenant_id) references tenant (id) on delete cascade
        );
        create table forgetting_log (
          tenant_id uuid not null,
          user_id uuid not null,
          id uuid not null,
          fact_id uuid not null,
          rule text not null,
          dry_run boolean not null,
          day date not null,
          created_at timestamptz default now() not null,
          constraint pk_forgetting_log primary key (tenant_id, user_id, id),
          constraint fk_forgetting_log_memory_user
            foreign key (tenant_id, user_id) references memory_user (tenant_id, user_id)
            on delete cascade
        );
        create index ix_forgetting_log_newest on forgetting_log (tenant_id, created_at, id);
        create unique index uq_forgetting_log_dry_run
          on forgetting_log (tenant_id, user_id, day, fact_id) where dry_run
        """
    )
    own = "tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid"
    for table in ("forgetting_night", "forgetting_log"):
        op.execute(f"alter table {table} enable row level security")
        op.execute(f"alter table {table} force row level security")
        op.execute(f"create policy own_tenant on {table} for all using ({own}) with check ({own})")
        op.execute(f"grant select, insert, update, delete on {table} to usermem_service")


def downgrade() -> None:
    op.execute("set local lock_timeout = '300ms'")
    op.execute("drop table forgetting_log")
    op.execute("drop table forgetting_night")
