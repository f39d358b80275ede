"""What happened in a tenant, counted by day: numbers alone, for budgets and for plots."""

from collections.abc import Mapping
from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from app.db import now
from app.llm import Usage as Cost
from app.models import Usage


async def count(tx: AsyncSession, tenant_id: UUID, counts: Mapping[str, int]) -> None:
    """Add to today's counts (UTC), in the caller's transaction.

    In the order of their names, so that two transactions never wait for each other in a circle: so
    call it once in a transaction, after all facts are written.
    """
    today = now(tx).date()
    values = [
        {"tenant_id": tenant_id, "day": today, "name": name, "count": number}
        for name, number in sorted(counts.items())
        if number
    ]
    if not values:
        return
    added = insert(Usage).values(values)
    await tx.execute(
        added.on_conflict_do_update(
            index_elements=["tenant_id", "day", "name"],
            set_={"count": Usage.count + added.excluded.count},
        )
    )


def spent(cost: Cost) -> dict[str, int]:
    """Give what the model cost as counts."""
    return {
        "model_calls": cost.calls,
        "input_tokens": cost.input_tokens,
        "output_tokens": cost.output_tokens,
    }


async def spend(tx: AsyncSession, tenant_id: UUID, cost: Cost) -> None:
    """Book what the model cost on the tenant's day, in the caller's transaction."""
    await count(tx, tenant_id, spent(cost))


async def over_budget(tx: AsyncSession, tenant_id: UUID, budget: int | None) -> bool:
    """Tell whether the tokens since the month began (UTC) have reached the budget, if any."""
    if budget is None:
        return False
    spent = await tx.scalar(
        select(func.coalesce(func.sum(Usage.count), 0)).where(
            Usage.tenant_id == tenant_id,
            Usage.day >= now(tx).date().replace(day=1),
            Usage.name.in_(["input_tokens", "output_tokens"]),
        )
    )
    return int(spent or 0) >= budget
