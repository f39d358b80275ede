"""Vectors by a new model, collected until a user's facts all have one."""

from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("set local lock_timeout = '300ms'")
    op.execute(
        """
        create table new_vector (
          tenant_id uuid not null,
          user_id uuid not null,
          fact_id uuid not null,
          embedding halfvec not null,
          embedding_model text not null,
          constraint pk_new_vector primary key (tenant_id, user_id, fact_id),
          constraint fk_new_vector_memory_fact foreign key (tenant_id, user_id, fact_id)
            references memory_fact (tenant_id, user_id, id) on delete cascade
        )
        """
    )
    own = "tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid"
    op.execute("alter table new_vector enable row level security")
    op.execute("alter table new_vector force row level security")
    op.execute(f"create policy own_tenant on new_vector for all using ({own}) with check ({own})")
    op.execute("grant select, insert, update, delete on new_vector to usermem_service")


def downgrade() -> None:
    op.execute("set local lock_timeout = '300ms'")
    op.execute("drop table new_vector")
