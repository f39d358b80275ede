"""Tenants, their keys, the restricted role and the one way to enter a tenant.

Row-level security is forced, so that it binds the owner too; the owner needs BYPASSRLS, for
without it a backfill would touch no row and a foreign key would be validated over orphans,
silently. The service's role owns nothing and cannot bypass.
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_OWN_TENANT = "nullif(current_setting('app.tenant_id', true), '')::uuid"


def upgrade() -> None:
    op.execute("set local lock_timeout = '300ms'")
    _check_owner()
    op.execute(
        """
        do $do$
        begin
          if not exists (select from pg_roles where rolname = 'usermem_service') then
            create role usermem_service nologin nobypassrls;
          end if;
        exception when duplicate_object or unique_violation then
          null;  -- another database of this cluster was migrated at the same moment
        end $do$
        """
    )
    op.execute(
        """
        do $do$
        begin
          if not pg_has_role(current_user, 'usermem_service', 'member') then
            execute format('grant usermem_service to %I', current_user);
          end if;
        end $do$
        """
    )
    op.execute("grant select on alembic_version to usermem_service")
    op.execute("create extension if not exists vector")
    op.execute("create schema app")
    op.execute("grant usage on schema app, public to usermem_service")
    # SET LOCAL rather than set_config(): only the command is carried to the nodes of a sharded
    # Postgres, and only after the first line; a plain one keeps that as a setting nobody reads.
    op.execute(
        """
        create function app.enter_tenant(tenant uuid) returns void language plpgsql as $f$
        begin
          set local citus.propagate_set_commands = 'local';
          execute format('set local app.tenant_id = %L', tenant);
        end $f$
        """
    )
    op.create_table(
        "tenant",
        sa.Column("id", sa.Uuid, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column(
            "created_at", sa.TIMESTAMP(timezone=True), server_default=sa.func.now(), nullable=False
        ),
        sa.PrimaryKeyConstraint("id", name="pk_tenant"),
        sa.UniqueConstraint("name", name="uq_tenant_name"),
    )
    op.create_table(
        "api_key",
        sa.Column("tenant_id", sa.Uuid, nullable=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("digest", sa.LargeBinary, nullable=False),
        sa.Column("scopes", sa.ARRAY(sa.Text), nullable=False),
        sa.Column("bound_to", sa.Text),
        sa.Column(
            "created_at", sa.TIMESTAMP(timezone=True), server_default=sa.func.now(), nullable=False
        ),
        sa.Column("expires_at", sa.TIMESTAMP(timezone=True)),
        sa.Column("revoked_at", sa.TIMESTAMP(timezone=True)),
        sa.PrimaryKeyConstraint("tenant_id", "id", name="pk_api_key"),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenant.id"], name="fk_api_key_tenant", ondelete="CASCADE"
        ),
    )
    for table, column in (("tenant", "id"), ("api_key", "tenant_id")):
        op.execute(f"alter table {table} enable row level security")
        op.execute(f"alter table {table} force row level security")
        op.execute(
            f"create policy own_tenant on {table} for all "
            f"using ({column} = {_OWN_TENANT}) with check ({column} = {_OWN_TENANT})"
        )
        op.execute(f"grant select, insert, update, delete on {table} to usermem_service")


def _check_owner() -> None:
    bypasses = op.get_bind().scalar(
        sa.text("select rolsuper or rolbypassrls from pg_roles where rolname = current_user")
    )
    if not bypasses:
        raise RuntimeError(
            "the role that migrates needs BYPASSRLS (alter role … bypassrls), see the README"
        )


def downgrade() -> None:
    op.execute("set local lock_timeout = '300ms'")
    op.drop_table("api_key")
    op.drop_table("tenant")
    op.execute("drop function app.enter_tenant(uuid)")
    op.execute("revoke usage on schema app, public from usermem_service")
    op.execute("revoke select on alembic_version from usermem_service")
    # The role stays: it belongs to the cluster, and other databases may use it.
    op.execute("drop schema app")
