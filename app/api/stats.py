"""A tenant's numbers, by day, so that they can be plotted."""

from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Query
from pydantic import BeforeValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from app.db import now
from app.deps import CoreDep, CredentialDep, KeyedRoute, Needs, Tx
from app.errors import Invalid
from app.memory.stats import stats
from app.wire import Model, parse_time

router = APIRouter(prefix="/v1/tenant", route_class=KeyedRoute, tags=["tenant"])
_admin = Depends(Needs("admin"))

MOST_DAYS: Final = 366
SHOWN: Final = 30
"""Days that are shown when nobody says how many."""

_YEARS: Final = range(2000, 3000)


def _parse_day(value: object) -> date:
    """Read a day like 2026-09-03, or the day (UTC) of an RFC 3339 time."""
    try:
        text = value if isinstance(value, str) else ""
        day = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).date()
    except ValueError:
        day = parse_time(value).date()
    if day.year not in _YEARS:
        raise PydanticCustomError("bad_day", "a day lies between the years 2000 and 2999")
    return day


Day = Annotated[
    date,
    BeforeValidator(_parse_day),
    WithJsonSchema(
        {
            "type": "string",
            "anyOf": [{"format": "date"}, {"format": "date-time"}],
            "examples": ["2026-09-03", "2026-09-03T00:00:00Z"],
        }
    ),
]


class DayOut(Model):
    """What happened in one day (UTC)."""

    day: date
    sessions: int
    facts_added: int
    facts_confirmed: int
    facts_superseded: int
    facts_quarantined: int
    rejected: dict[str, int]
    recalls: int
    degraded: int
    model_calls: int
    input_tokens: int
    output_tokens: int


class StatsOut(Model):
    """A tenant's numbers: a row for every day, oldest first, rates over all of them, sizes now."""

    days: list[DayOut]
    facts_per_session: float | None
    contradiction_rate: float | None
    recall_precision: float | None
    users: int
    facts_live: int


@router.get("/stats", dependencies=[_admin])
async def get_stats(
    core: CoreDep,
    key: CredentialDep,
    tx: Tx,
    since: Annotated[Day | None, Query(alias="from")] = None,
    until: Annotated[Day | None, Query(alias="to")] = None,
) -> StatsOut:
    """Give the numbers of up to 366 days, both ends included; the last 30 if nothing is said."""
    await core.recalls.write(core.db)
    last = until or max(since or date.min, now(tx).astimezone(UTC).date())
    first = since or last - timedelta(days=SHOWN - 1)
    if not 0 <= (last - first).days < MOST_DAYS:
        raise Invalid(f"'from' comes before 'to', and at most {MOST_DAYS} days are given.")
    return StatsOut.model_validate(await stats(tx, key.tenant_id, first, last))
