"""What operating the service needs: keys that can be told apart, workers that say how they are.

The indexes let a worker find the next job of each tenant in turn, and whether a job's lock is free,
without reading the whole queue. Every request that posts writes there, so they are built beside it;
one that was left half built, by a migration that was cut off, goes first.
"""

from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

_SERVICE = "usermem_service"


_INDEXES = {
    "procrastinate_jobs_by_tenant": "((coalesce(args ->> 'tenant_id', '')), id)"
    " where status = 'todo'",
    "procrastinate_jobs_by_lock": "(lock, id) where status in ('todo', 'doing')",
}


def upgrade() -> None:
    with op.get_context().autocommit_block():
        for name, columns in _INDEXES.items():
            op.execute(f"drop index concurrently if exists {name}")
            op.execute(f"create index concurrently {name} on procrastinate_jobs {columns}")
    op.execute("set local lock_timeout = '300ms'")
    op.execute("alter table api_key add column last_four text")
    op.execute("alter table api_key add column last_used_at timestamptz")
    # Of no tenant: what a process knows of the model, for those that never ask it.
    op.execute(
        """
        create table worker_state (
          id uuid not null,
          seen_at timestamptz default now() not null,
          model text not null,
          constraint pk_worker_state primary key (id)
        )
        """
    )
    op.execute(f"grant select, insert, update, delete on worker_state to {_SERVICE}")


def downgrade() -> None:
    with op.get_context().autocommit_block():
        for name in _INDEXES:
            op.execute(f"drop index concurrently if exists {name}")
    op.execute("set local lock_timeout = '300ms'")
    op.execute("drop table worker_state")
    op.execute("alter table api_key drop column last_used_at")
    op.execute("alter table api_key drop column last_four")
