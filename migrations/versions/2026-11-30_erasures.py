"""Erasures as the database knows them, to be held against the ledger, and links to a user's page.

An erasure outlives its tenant: a row holds random ids, a time and a keyed hash.
"""

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_DDL = """
create table erasure (
  tenant_id uuid not null,
  id uuid not null,
  subject_hash bytea not null,
  erased_at timestamptz not null,
  constraint pk_erasure primary key (tenant_id, id)
);
create index ix_erasure_newest on erasure (tenant_id, erased_at, id);
create table page_link (
  tenant_id uuid not null,
  user_id uuid not null,
  digest bytea not null,
  expires_at timestamptz not null,
  constraint pk_page_link primary key (tenant_id, user_id, digest),
  constraint fk_page_link_memory_user
    foreign key (tenant_id, user_id)
    references memory_user (tenant_id, user_id) on delete cascade
);
create table page_session (
  tenant_id uuid not null,
  user_id uuid not null,
  digest bytea not null,
  expires_at timestamptz not null,
  constraint pk_page_session primary key (tenant_id, user_id, digest),
  constraint fk_page_session_memory_user
    foreign key (tenant_id, user_id)
    references memory_user (tenant_id, user_id) on delete cascade
)
"""
_VERBS = {
    "erasure": "select, insert",
    "page_link": "select, insert, update, delete",
    "page_session": "select, insert, update, delete",
}


def upgrade() -> None:
    op.execute("set local lock_timeout = '300ms'")
    op.execute(_DDL)
    own = "tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid"
    for table, verbs in _VERBS.items():
        op.execute(f"alter table {table} enable row level security")
        op.execute(f"alter table {table} force row level security")
        op.execute(f"create policy own_tenant on {table} for all using ({own}) with check ({own})")
        op.execute(f"grant {verbs} on {table} to usermem_service")
    # The ledger is one for all tenants, and so is the look whether the database has seen it all.
    op.execute(
        """
        create function app.erasures() returns setof public.erasure
        language sql stable security definer set search_path = pg_catalog, pg_temp as $f$
          select * from public.erasure
        $f$
        """
    )
    op.execute("revoke execute on function app.erasures() from public")
    op.execute("grant execute on function app.erasures() to usermem_service")


def downgrade() -> None:
    op.execute("set local lock_timeout = '300ms'")
    op.execute("drop function app.erasures()")
    for table in reversed(_VERBS):
        op.execute(f"drop table {table}")
