"""What a tenant decides about its memory. Values with defaults; read per tenant, cached shortly."""

from dataclasses import asdict, dataclass, fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Literal
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from app.db import now
from app.durations import format_duration, parse_duration
from app.memory import audit_log
from app.memory.guard import DEFAULT_BLOCKED
from app.models import Tenant, TenantPolicy

if TYPE_CHECKING:
    from app.memory.core import Core

Forgetting = Literal["dry_run", "enforce"]


@dataclass(frozen=True, slots=True)
class Policy:
    """Rules of one tenant. Caps bind extraction only, never what a person or program wrote."""

    session_silence: timedelta = timedelta(minutes=30)
    session_cap: timedelta = timedelta(hours=8)
    max_facts_per_user: int | None = 500
    max_facts_per_day: int = 50
    turn_retention: timedelta = timedelta(0)
    """How long a turn is kept once it is extracted; zero: it is deleted at once."""
    superseded_retention: timedelta | None = None
    goal_expiry: timedelta | None = timedelta(days=90)
    unrecalled_expiry: timedelta | None = timedelta(days=60)
    forgotten_retention: timedelta | None = timedelta(days=30)
    """How long a forgotten fact can be restored. Of all rules of forgetting, None turns one off."""
    forgetting: Forgetting | None = None
    """None: a dry run while the tenant is young, see `forgetting_of`."""
    blocked_categories: tuple[str, ...] = tuple(sorted(DEFAULT_BLOCKED))
    default_memory: Literal["on", "paused"] = "on"
    extraction_instructions: str | None = None
    """Added to what the extractor is told."""
    model: str | None = None
    prompt_version: str | None = None
    audit_retention: timedelta = timedelta(days=365)
    recall_log_retention: timedelta = timedelta(days=30)
    monthly_token_budget: int | None = None
    """Input and output tokens of a calendar month; then sessions wait."""

    @property
    def blocked(self) -> frozenset[str]:
        """Give the sensitive categories that are not stored."""
        return frozenset(self.blocked_categories)


SESSION_MAX_TURNS: Final = 500
SESSION_MAX_CHARACTERS: Final = 100_000
TRIAL: Final = timedelta(days=30)
"""A new tenant's time of dry runs, unless its policy says otherwise."""

MAX_ATTEMPTS: Final = 5
"""Tries of a session whose extraction fails or crashes; then it is `failed`."""


_DURATIONS: Final = frozenset(spec.name for spec in fields(Policy) if "timedelta" in str(spec.type))


async def policy_of(tx: AsyncSession, core: "Core", tenant_id: UUID) -> Policy:
    """Give a tenant's policy; a change made in another process holds within half a minute."""
    known = core.policies.get(tenant_id)
    if known is None:
        stored = await tx.scalar(
            select(TenantPolicy.policy).where(TenantPolicy.tenant_id == tenant_id)
        )
        known = core.policies[tenant_id] = _read(stored or {})
    return known


async def forgetting_of(tx: AsyncSession, tenant_id: UUID, policy: Policy) -> Forgetting:
    """Tell whether forgetting forgets, or only logs what it would."""
    if policy.forgetting is not None:
        return policy.forgetting
    born = await tx.scalar(select(Tenant.created_at).where(Tenant.id == tenant_id))
    return "dry_run" if born is None or now(tx) < born + TRIAL else "enforce"


async def lock_policy(tx: AsyncSession, core: "Core", tenant_id: UUID) -> Policy:
    """Read the policy in order to change parts of it: nobody else does until the commit."""
    await tx.execute(
        select(Tenant.id).where(Tenant.id == tenant_id).with_for_update(key_share=True)
    )
    core.policies.pop(tenant_id, None)
    return await policy_of(tx, core, tenant_id)


async def write_policy(
    tx: AsyncSession, core: "Core", tenant_id: UUID, policy: Policy, *, by: str
) -> Policy:
    """Replace a tenant's policy, in the caller's transaction."""
    values, before = _written(policy), _written(await policy_of(tx, core, tenant_id))
    changed = sorted(name for name in values if values[name] != before[name])
    await audit_log.record(tx, tenant_id, by, "policy_changed", details={"changed": changed})
    await tx.execute(
        insert(TenantPolicy)
        .values(tenant_id=tenant_id, policy=values)
        .on_conflict_do_update(index_elements=["tenant_id"], set_={"policy": values})
    )
    core.policies.pop(tenant_id, None)
    return policy


def _written(policy: Policy) -> dict[str, Any]:
    return {
        name: format_duration(value) if isinstance(value, timedelta) else value
        for name, value in asdict(policy).items()
    }


def _read(stored: dict[str, Any]) -> Policy:
    """Read what is stored; fields of a later version are passed over, missing ones are default."""
    values: dict[str, Any] = {}
    for spec in fields(Policy):
        if spec.name in stored:
            value = stored[spec.name]
            if spec.name in _DURATIONS and value is not None:
                value = parse_duration(value)
            values[spec.name] = tuple(value) if isinstance(value, list) else value
    return Policy(**values)
