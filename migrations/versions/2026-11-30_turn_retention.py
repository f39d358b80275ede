"""Turns may be kept for a while after they were extracted; until then nothing is marked."""

from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("set local lock_timeout = '300ms'")
    op.execute("alter table message add column extracted_at timestamptz")
    op.execute(
        "create index ix_message_extracted on message (tenant_id, extracted_at)"
        " where extracted_at is not null"
    )


def downgrade() -> None:
    op.execute("set local lock_timeout = '300ms'")
    # Extracted already: without the mark they would be extracted again.
    op.execute("delete from message where extracted_at is not null")
    op.execute("drop index ix_message_extracted")
    op.execute("alter table message drop column extracted_at")
