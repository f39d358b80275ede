"""What a tenant decides, and what happened in it by day."""

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_DDL = """
create table tenant_policy (
  tenant_id uuid not null,
  policy jsonb not null,
  constraint pk_tenant_policy primary key (tenant_id),
  constraint fk_tenant_policy_tenant
    foreign key (tenant_id) references tenant (id) on delete cascade
);
create table tenant_usage (
  tenant_id uuid not null,
  day date not null,
  name text not null,
  count bigint not null,
  constraint pk_tenant_usage primary key (tenant_id, day, name),
  constraint fk_tenant_usage_tenant
    foreign key (tenant_id) references tenant (id) on delete cascade
)
"""


def upgrade() -> None:
    op.execute("set local lock_timeout = '300ms'")
    op.execute(_DDL)
    own = "tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid"
    for table in ("tenant_policy", "tenant_usage"):
        op.execute(f"alter table {table} enable row level security")
        op.execute(f"alter table {table} force row level security")
        op.execute(f"create policy own_tenant on {table} for all using ({own}) with check ({own})")
        op.execute(f"grant select, insert, update, delete on {table} to usermem_service")


def downgrade() -> None:
    op.execute("set local lock_timeout = '300ms'")
    op.execute("drop table tenant_usage")
    op.execute("drop table tenant_policy")
