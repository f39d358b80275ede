"""What a tenant decides for itself."""

from dataclasses import asdict, replace
from datetime import timedelta
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends
from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from app.deps import CoreDep, CredentialDep, KeyedRoute, Needs, Tx
from app.durations import Duration, format_duration
from app.memory.guard import DEFAULT_BLOCKED
from app.memory.policy import (
    Forgetting,
    Policy,
    forgetting_of,
    lock_policy,
    policy_of,
    write_policy,
)
from app.prompts import PROMPTS
from app.wire import WHOLE, Line, Model

router = APIRouter(prefix="/v1/tenant", route_class=KeyedRoute, tags=["tenant"])
_admin = Depends(Needs("admin"))
_DEFAULT = Policy()


def _category(name: str) -> str:
    if name not in DEFAULT_BLOCKED:
        known = ", ".join(sorted(DEFAULT_BLOCKED))
        raise PydanticCustomError("category", "a category is one of: {known}", {"known": known})
    return name


def _prompt(version: str) -> str:
    if version not in PROMPTS:
        raise PydanticCustomError("prompt", "there is no such prompt version")
    return version


def _span(default: timedelta | None) -> Any:
    # pydantic would write the default in a form that is not read here.
    shown = None if default is None else format_duration(default)
    return Field(default, json_schema_extra={"default": shown})


class PolicyBody(Model):
    """A tenant's policy; with PATCH, what is not named stays as it is."""

    session_silence: Duration = _span(_DEFAULT.session_silence)
    session_cap: Duration = _span(_DEFAULT.session_cap)
    max_facts_per_user: Annotated[int, Field(ge=1, le=10_000, strict=True), WHOLE] | None = (
        _DEFAULT.max_facts_per_user
    )
    max_facts_per_day: Annotated[int, Field(ge=0, le=10_000, strict=True), WHOLE] = (
        _DEFAULT.max_facts_per_day
    )
    turn_retention: Duration = _span(_DEFAULT.turn_retention)
    superseded_retention: Duration | None = _span(_DEFAULT.superseded_retention)
    goal_expiry: Duration | None = _span(_DEFAULT.goal_expiry)
    unrecalled_expiry: Duration | None = _span(_DEFAULT.unrecalled_expiry)
    forgotten_retention: Duration | None = _span(_DEFAULT.forgotten_retention)
    forgetting: Forgetting | None = _DEFAULT.forgetting
    blocked_categories: list[
        Annotated[
            str,
            AfterValidator(_category),
            Field(json_schema_extra={"enum": sorted(DEFAULT_BLOCKED)}),
        ]
    ] = Field(default_factory=lambda: list(_DEFAULT.blocked_categories))
    default_memory: Literal["on", "paused"] = _DEFAULT.default_memory
    extraction_instructions: Annotated[Line, Field(max_length=2_000)] | None = None
    model: Annotated[Line, Field(min_length=1, max_length=100)] | None = None
    prompt_version: (
        Annotated[Line, AfterValidator(_prompt), Field(json_schema_extra={"enum": list(PROMPTS)})]
        | None
    ) = None
    monthly_token_budget: Annotated[int, Field(ge=0, strict=True), WHOLE] | None = None
    audit_retention: Duration = _span(_DEFAULT.audit_retention)
    recall_log_retention: Duration = _span(_DEFAULT.recall_log_retention)


@router.get("/policy", dependencies=[_admin])
async def get_policy(core: CoreDep, key: CredentialDep, tx: Tx) -> PolicyBody:
    """Read the policy."""
    return await _shown(tx, key, await policy_of(tx, core, key.tenant_id))


@router.put("/policy", dependencies=[_admin])
async def put_policy(body: PolicyBody, core: CoreDep, key: CredentialDep, tx: Tx) -> PolicyBody:
    """Replace the policy; what is not named gets its default."""
    await lock_policy(tx, core, key.tenant_id)
    return await _write(core, key, tx, _DEFAULT, body, everything=True)


@router.patch("/policy", dependencies=[_admin])
async def patch_policy(body: PolicyBody, core: CoreDep, key: CredentialDep, tx: Tx) -> PolicyBody:
    """Change parts of the policy."""
    current = await lock_policy(tx, core, key.tenant_id)
    return await _write(core, key, tx, current, body, everything=False)


async def _write(
    core: CoreDep,
    key: CredentialDep,
    tx: Tx,
    current: Policy,
    body: PolicyBody,
    *,
    everything: bool,
) -> PolicyBody:
    named = set(PolicyBody.model_fields) if everything else body.model_fields_set
    changes = {name: getattr(body, name) for name in named}
    if "blocked_categories" in changes:
        changes["blocked_categories"] = tuple(sorted(set(body.blocked_categories)))
    wanted = replace(current, **changes)
    policy = await write_policy(tx, core, key.tenant_id, wanted, by=key.actor)
    return await _shown(tx, key, policy)


async def _shown(tx: Tx, key: CredentialDep, policy: Policy) -> PolicyBody:
    """Show a policy; of forgetting that is left to the tenant's age, how it is today."""
    forgetting = await forgetting_of(tx, key.tenant_id, policy)
    return PolicyBody.model_validate({**asdict(policy), "forgetting": forgetting})
