"""The files that Claude's memory tool keeps for a user; a row without content is a directory."""

from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("set local lock_timeout = '300ms'")
    op.execute(
        """
        create table memory_file (
          tenant_id uuid not null,
          user_id uuid not null,
          path text not null,
          content text,
          revision integer default 1 not null,
          created_at timestamptz default now() not null,
          updated_at timestamptz default now() not null,
          constraint pk_memory_file primary key (tenant_id, user_id, path),
          constraint fk_memory_file_memory_user foreign key (tenant_id, user_id)
            references memory_user (tenant_id, user_id) on delete cascade,
          constraint ck_memory_file_path check (octet_length(path) between 11 and 1024),
          constraint ck_memory_file_content check (octet_length(content) <= 102400)
        )
        """
    )
    own = "tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid"
    op.execute("alter table memory_file enable row level security")
    op.execute("alter table memory_file force row level security")
    op.execute(f"create policy own_tenant on memory_file for all using ({own}) with check ({own})")
    op.execute("grant select, insert, update, delete on memory_file to usermem_service")


def downgrade() -> None:
    op.execute("set local lock_timeout = '300ms'")
    op.execute("drop table memory_file")
