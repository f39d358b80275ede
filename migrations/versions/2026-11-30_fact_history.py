"""What was believed when: each event keeps the state that it left its fact in.

Evidence remembers which fact it came with, so that undoing a merge gives it back.
"""

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("set local lock_timeout = '300ms'")
    op.execute(
        """
        alter table fact_event
          add column n integer default 0 not null,
          add column status text,
          add column valid_to timestamptz,
          add column expires_at timestamptz;
        alter table evidence add column merged_from uuid
        """
    )
    # Of the past only the last end of a fact is known, and its present expiry.
    op.execute(
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
          and of_fact.id = e.id
          and f.tenant_id = e.tenant_id and f.user_id = e.user_id and f.id = e.fact_id
        """
    )
    op.execute(
        """
        alter table fact_event
          alter column n drop default,
          alter column status set not null,
          add constraint ck_fact_event_status
            check (status in ('live', 'superseded', 'quarantined', 'forgotten'));
        drop index ix_fact_event_fact;
        create index ix_fact_event_fact on fact_event (tenant_id, user_id, fact_id, at, n)
        """
    )


def downgrade() -> None:
    op.execute("set local lock_timeout = '300ms'")
    op.execute(
        """
        drop index ix_fact_event_fact;
        create index ix_fact_event_fact on fact_event (tenant_id, user_id, fact_id);
        alter table fact_event
          drop column expires_at, drop column valid_to, drop column status, drop column n;
        alter table evidence drop column merged_from
        """
    )
