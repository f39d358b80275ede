"""The recall log, and the index by which recall counts pending sessions.

A line holds ids and counts, never text, and goes with its user.
"""

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_DDL = """
create table recall_log (
  tenant_id uuid not null,
  user_id uuid not null,
  id uuid not null,
  at timestamptz not null,
  facts uuid[] not null,
  frozen boolean not null,
  degraded text,
  tokens integer not null,
  relevant uuid[] default '{}' not null,
  irrelevant uuid[] default '{}' not null,
  judged_at timestamptz,
  constraint pk_recall_log primary key (tenant_id, user_id, id),
  constraint fk_recall_log_memory_user
    foreign key (tenant_id, user_id)
    references memory_user (tenant_id, user_id) on delete cascade
);
create index ix_recall_log_at on recall_log (tenant_id, at);
create index ix_recall_log_id on recall_log (tenant_id, id);
create index ix_memory_session_pending on memory_session (tenant_id, user_id)
  where status <> 'done'
"""


def upgrade() -> None:
    op.execute("set local lock_timeout = '300ms'")
    op.execute(_DDL)
    own = "tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid"
    op.execute("alter table recall_log enable row level security")
    op.execute("alter table recall_log force row level security")
    op.execute(f"create policy own_tenant on recall_log for all using ({own}) with check ({own})")
    op.execute("grant select, insert, update, delete on recall_log to usermem_service")


def downgrade() -> None:
    op.execute("set local lock_timeout = '300ms'")
    op.execute("drop index ix_memory_session_pending")
    op.execute("drop table recall_log")
