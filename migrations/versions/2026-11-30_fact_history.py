"""What was believed when: each event keeps the state that it left its fact in.

Evidence remembers which fact it came with, so that undoing a merge gives it back.

What takes long (the past, the index, the look at every row) happens outside the short transactions
that lock the table. Each part can be done again, should the migration be cut off after it.
"""

from uuid import UUID

from alembic import op
from sqlalchemy import Connection, text

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_USERS = 500

_LAST_OF_THE_NEXT = text(
    """
    select tenant_id, user_id from (
      select tenant_id, user_id from memory_user
      where (tenant_id, user_id) > (:tenant, :user) order by 1, 2 limit :most) u
    order by 1 desc, 2 desc limit 1
    """
)
# Of the past only the last end of a fact is known, and its present expiry.
_FILL = text(
    """
    update fact_event e
    set status = s.status, expires_at = f.expires_at,
        valid_to = case when s.status = 'superseded' then f.valid_to end
    from memory_fact f, fact_event of_fact
    cross join lateral (
      select case when d.what in ('superseded', 'closed') then 'superseded'
                  when d.what = 'quarantined' then 'quarantined' else 'live' end as status
      from fact_event d
      where d.tenant_id = of_fact.tenant_id and d.user_id = of_fact.user_id
        and d.fact_id = of_fact.fact_id and d.at <= of_fact.at
        and (d.what not in ('confirmed', 'changed') or d.id = of_fact.id)
      order by d.what in ('confirmed', 'changed'), d.at desc limit 1
    ) s
    where of_fact.tenant_id = e.tenant_id and of_fact.user_id = e.user_id
      and of_fact.id = e.id and e.status is null
      and f.tenant_id = e.tenant_id and f.user_id = e.user_id and f.id = e.fact_id
      and (e.tenant_id, e.user_id) > (:tenant, :user)
      and (e.tenant_id, e.user_id) <= (:last_tenant, :last_user)
    """
)


def _fill(connection: Connection) -> None:
    """Give the events of the past their state, some users at a time."""
    after = UUID(int=0), UUID(int=0)
    while True:
        start = {"tenant": after[0], "user": after[1]}
        last = connection.execute(_LAST_OF_THE_NEXT, {**start, "most": _USERS}).first()
        if last is None:
            return
        after = last[0], last[1]
        connection.execute(_FILL, {**start, "last_tenant": after[0], "last_user": after[1]})


def upgrade() -> None:
    op.execute("set local lock_timeout = '300ms'")
    op.execute(
        """
        alter table fact_event
          add column if not exists n integer default 0 not null,
          add column if not exists status text,
          add column if not exists valid_to timestamptz,
          add column if not exists expires_at timestamptz,
          drop constraint if exists ck_fact_event_status,
          drop constraint if exists is_filled,
          add constraint ck_fact_event_status
            check (status in ('live', 'superseded', 'quarantined', 'forgotten')) not valid,
          add constraint is_filled check (status is not null) not valid;
        alter table evidence add column if not exists merged_from uuid
        """
    )
    with op.get_context().autocommit_block():
        _fill(op.get_bind())
        op.execute("alter table fact_event validate constraint ck_fact_event_status")
        op.execute("alter table fact_event validate constraint is_filled")
        _build("tenant_id, user_id, fact_id, at, n")
    op.execute("set local lock_timeout = '300ms'")
    # With the constraint that says so already, no row is looked at again.
    op.execute(
        """
        alter table fact_event
          alter column n drop default,
          alter column status set not null,
          drop constraint is_filled
        """
    )
    _exchange()


def downgrade() -> None:
    with op.get_context().autocommit_block():
        _build("tenant_id, user_id, fact_id")
    op.execute("set local lock_timeout = '300ms'")
    _exchange()
    op.execute(
        """
        alter table fact_event
          drop column expires_at, drop column valid_to, drop column status, drop column n;
        alter table evidence drop column merged_from
        """
    )


def _build(columns: str) -> None:
    """Build the index anew beside the one in use."""
    op.execute("drop index concurrently if exists ix_fact_event_next")
    op.execute(f"create index concurrently ix_fact_event_next on fact_event ({columns})")


def _exchange() -> None:
    op.execute("drop index ix_fact_event_fact")
    op.execute("alter index ix_fact_event_next rename to ix_fact_event_fact")
