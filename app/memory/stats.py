"""How a tenant's memory does, day by day: numbers for a plot, of nobody in particular."""

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from uuid import UUID

from sqlalchemy import func, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from app.db import now
from app.memory import recall_log
from app.memory.learn import live
from app.models import Fact, Usage, User

_REJECTED = "rejected."


@dataclass(slots=True)
class Day:
    """What happened in one day (UTC)."""

    day: date
    sessions: int = 0
    facts_added: int = 0
    facts_confirmed: int = 0
    facts_superseded: int = 0
    facts_quarantined: int = 0
    rejected: dict[str, int] = field(default_factory=dict)
    recalls: int = 0
    degraded: int = 0
    model_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Stats:
    """Days, oldest first and none missing; rates over all of them, None of nothing; sizes now."""

    days: list[Day]
    facts_per_session: float | None
    contradiction_rate: float | None
    """Supersessions per 100 facts written."""
    recall_precision: float | None
    users: int
    facts_live: int


_COUNTED = frozenset(Day.__slots__) - {"day", "rejected"}


async def stats(tx: AsyncSession, tenant_id: UUID, first: date, last: date) -> Stats:
    """Give the numbers of the days from `first` to `last`, both included.

    Joins the caller's transaction. `facts_per_session` counts what sessions brought, the other
    numbers also what was written by hand.
    """
    counts: dict[date, dict[str, int]] = defaultdict(dict)
    rows = await tx.execute(
        select(Usage.day, Usage.name, Usage.count).where(
            Usage.tenant_id == tenant_id, Usage.day.between(first, last)
        )
    )
    for day, name, number in rows:
        counts[day][name] = number
    days = [_day(first + timedelta(days=n), counts) for n in range((last - first).days + 1)]
    learned = sum(of_day.get("session_facts", 0) for of_day in counts.values())
    return Stats(
        days,
        facts_per_session=_rate(learned, sum(day.sessions for day in days)),
        contradiction_rate=_rate(
            100 * sum(day.facts_superseded for day in days), sum(day.facts_added for day in days)
        ),
        recall_precision=await recall_log.precision(
            tx, tenant_id, _midnight(first), _midnight(last + timedelta(days=1))
        ),
        users=await _users(tx, tenant_id),
        facts_live=await _facts_live(tx, tenant_id),
    )


def _day(day: date, counts: dict[date, dict[str, int]]) -> Day:
    of_day = counts.get(day, {})
    return Day(
        day,
        rejected={
            name.removeprefix(_REJECTED): number
            for name, number in sorted(of_day.items())
            if name.startswith(_REJECTED)
        },
        **{name: number for name, number in of_day.items() if name in _COUNTED},
    )


def _rate(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


async def _users(tx: AsyncSession, tenant_id: UUID) -> int:
    """Count the people; the organization is none."""
    counted = select(func.count()).where(User.tenant_id == tenant_id, User.user_id != tenant_id)
    return await tx.scalar(counted) or 0


async def _facts_live(tx: AsyncSession, tenant_id: UUID) -> int:
    unexpired = or_(Fact.expires_at.is_(None), Fact.expires_at > now(tx))
    counted = select(func.count()).where(Fact.tenant_id == tenant_id, live(), unexpired)
    return await tx.scalar(counted) or 0
