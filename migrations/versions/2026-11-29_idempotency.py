"""Idempotency keys and the answers kept for them, a day each.

What is unique in a tenant stands outside the tables about users; `user_id` is filled in with the
answer, so that an erasure finds it.
"""

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("set local lock_timeout = '300ms'")
    op.execute(
        """
        create table idempotency_key (
          tenant_id uuid not null,
          digest bytea not null,
          body_digest bytea not null,
          user_id uuid,
          fact_id uuid,
          status integer,
          answer jsonb,
          created_at timestamptz default now() not null,
          constraint pk_idempotency_key primary key (tenant_id, digest),
          constraint fk_idempotency_key_tenant
            foreign key (tenant_id) references tenant (id) on delete cascade
        );
        create index ix_idempotency_key_user on idempotency_key (tenant_id, user_id)
        """
    )
    own = "tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid"
    op.execute("alter table idempotency_key enable row level security")
    op.execute("alter table idempotency_key force row level security")
    op.execute(
        f"create policy own_tenant on idempotency_key for all using ({own}) with check ({own})"
    )
    op.execute("grant select, insert, update, delete on idempotency_key to usermem_service")


def downgrade() -> None:
    op.execute("set local lock_timeout = '300ms'")
    op.execute("drop table idempotency_key")
