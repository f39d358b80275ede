"""What a replay of the ledger must know: whose memory was moved, and since when somebody is here.

People who were here before the second column are told by their first day, as they were until now:
a default for them would make everybody look newer than every erasure.
"""

from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("set local lock_timeout = '300ms'")
    op.execute("alter table erasure add column merged_into bytea")
    op.execute("alter table user_directory add column here_since timestamptz")
    op.execute("alter table user_directory alter column here_since set default now()")


def downgrade() -> None:
    op.execute("set local lock_timeout = '300ms'")
    op.execute("alter table user_directory drop column here_since")
    op.execute("alter table erasure drop column merged_into")
