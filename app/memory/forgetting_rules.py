"""Which facts are due to be let go, by which rule, and what a fact is worth. Reads only.

One statement decides, for the preview, for the nightly scan and once more under a user's lock, so
that the three can't differ. Every rule is a value of the tenant's policy; None turns it off.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Literal
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from app.memory.policy import Policy

Rule = Literal[
    "expired",
    "goal_expiry",
    "unrecalled_expiry",
    "max_facts_per_user",
    "superseded_retention",
    "forgotten_retention",
]

REASONS: Final[dict[Rule, str]] = {
    "expired": "Its expires_at has passed.",
    "goal_expiry": "A goal that nobody confirmed for the policy's goal_expiry.",
    "unrecalled_expiry": "Never recalled in the policy's unrecalled_expiry since it was learned.",
    "max_facts_per_user": "The user has more learned facts than the policy's max_facts_per_user.",
    "superseded_retention": "Superseded for longer than the policy's superseded_retention.",
    "forgotten_retention": "Forgotten for longer than the policy's forgotten_retention: gone now.",
}

SETTLED: Final = timedelta(days=30)
"""How long the cap spares what a person restored, released or changed."""

LEARNED: Final = ("transcript", "mcp")
"""Sources that the cap per user binds, in extraction as in forgetting."""

# What a person restored, released or changed lately counts as confirmed then: nobody's undo may be
# undone in the next night. The cap binds what was learned, never what a person or program wrote.
_DUE: Final = """
with known as (
  select f.user_id, f.id, f.kind, f.pinned, f.source, f.revision, f.confirmations, f.created_at,
         f.superseded_at, f.forgotten_at, f.expires_at, f.last_confirmed_at, f.last_recalled_at,
         case f.source when 'import' then greatest(f.created_at, u.created_at)
                       else f.created_at end as came_at,
         (select max(e.at) from fact_event e
          where e.tenant_id = f.tenant_id and e.user_id = f.user_id and e.fact_id = f.id
            and e.what in ('restored', 'released', 'changed')) as settled_at
  from memory_fact f
  join memory_user u on u.tenant_id = f.tenant_id and u.user_id = f.user_id
  where f.tenant_id = :tenant_id and f.user_id between :first and :last
    and f.user_id <> f.tenant_id and u.memory <> 'restricted' and f.quarantined_at is null
), ruled as (
  select *, case
    when forgotten_at is not null then
      case when forgotten_at <= cast(:forgotten_before as timestamptz)
           then 'forgotten_retention' end
    when superseded_at is not null then
      case when superseded_at <= cast(:superseded_before as timestamptz)
           then 'superseded_retention' end
    when expires_at <= :at then 'expired'
    when kind = 'goal' and not pinned
      and greatest(last_confirmed_at, settled_at) <= cast(:goal_before as timestamptz)
      then 'goal_expiry'
    when kind not in ('profile', 'constraint') and not pinned and source not in ('api', 'page')
      and last_recalled_at is null
      and greatest(came_at, settled_at) <= cast(:unrecalled_before as timestamptz)
      then 'unrecalled_expiry'
    end as rule
  from known
), valued as (
  select *, ln(1 + confirmations)
    + case kind when 'constraint' then 3 when 'profile' then 2 else 1 end
    + 2 * power(0.5, greatest(0, least(500, extract(epoch from
        :at - greatest(last_confirmed_at, last_recalled_at, settled_at)) / (60 * 86400)))
      )::float8 as score,
    rule is null and forgotten_at is null and superseded_at is null
      and source = any (cast(:learned as text[])) as learned,
    pinned or coalesce(settled_at > cast(:settled_before as timestamptz), false) as spared
  from ruled
), ranked as (
  select *, count(*) filter (where learned) over (partition by user_id) as crowd,
    row_number() over (partition by user_id, learned and not spared
                       order by score, last_confirmed_at, id) as place
  from valued
), due as (
  select user_id, id, coalesce(rule, 'max_facts_per_user') as rule,
         case when rule is null then score end as score, revision, confirmations, created_at
  from ranked
  where rule is not null
    or (learned and not spared and place <= crowd - cast(:most as bigint))
)
"""

_IN_ORDER: Final = text(_DUE + "select * from due order by user_id, created_at, id")  # noqa: S608 - constants
_NEWEST: Final = text(
    f"{_DUE} select * from due where (created_at, id) < (:before, :before_id)"  # noqa: S608 - as above
    " order by created_at desc, id desc limit :limit"
)

FIRST: Final = UUID(int=0)
LAST: Final = UUID(int=2**128 - 1)


@dataclass(frozen=True, slots=True)
class Due:
    """A fact to be let go, and all that must be the same under the lock for it to go.

    `score` is what it is worth, where the cap asks.
    """

    user_id: UUID
    id: UUID
    rule: Rule
    score: float | None
    revision: int
    confirmations: int
    created_at: datetime


async def due_of(
    tx: AsyncSession, tenant_id: UUID, policy: Policy, at: datetime, first: UUID, last: UUID
) -> list[Due]:
    """Give what is due as of `at` of the users from `first` to `last`, user by user."""
    values = _values(tenant_id, policy, at) | {"first": first, "last": last}
    return [Due(*row) for row in await tx.execute(_IN_ORDER, values)]


async def newest_due(
    tx: AsyncSession,
    tenant_id: UUID,
    policy: Policy,
    at: datetime,
    *,
    limit: int,
    before: tuple[datetime, UUID] | None,
) -> Sequence[Due]:
    """Give what is due as of `at` in the whole tenant, newest facts first."""
    place = before or (at + timedelta(days=1), LAST)
    values = _values(tenant_id, policy, at) | {"first": FIRST, "last": LAST, "limit": limit}
    values |= {"before": place[0], "before_id": place[1]}
    return [Due(*row) for row in await tx.execute(_NEWEST, values)]


def _values(tenant_id: UUID, policy: Policy, at: datetime) -> dict[str, Any]:
    def before(span: timedelta | None) -> datetime | None:
        return None if span is None else at - span

    return {
        "tenant_id": tenant_id,
        "at": at,
        "goal_before": before(policy.goal_expiry),
        "unrecalled_before": before(policy.unrecalled_expiry),
        "superseded_before": before(policy.superseded_retention),
        "forgotten_before": before(policy.forgotten_retention),
        "settled_before": before(SETTLED),
        "learned": list(LEARNED),
        "most": policy.max_facts_per_user,
    }
