"""${message}

Why:
"""

from alembic import op

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("set local lock_timeout = '300ms'")
    ${upgrades if upgrades else ""}


def downgrade() -> None:
    op.execute("set local lock_timeout = '300ms'")
    ${downgrades if downgrades else ""}
