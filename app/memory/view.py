"""Which facts a list shows: by status, by what was true, by what the store believed.

Two clocks: `as_of` asks the world's, from `valid_from` (or `said_at`) to `valid_to`, `known_at` the
store's, from the append-only events. Asked together they give what the store believed at one time
about another.
"""

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NoReturn

from sqlalchemy import ColumnElement, Select, Text, and_, cast, func, or_, select, true
from sqlalchemy.dialects.postgresql import JSONB, TSQUERY

from app.db import Scope
from app.llm import Kind
from app.memory.write import STORED
from app.models import Fact, FactEvent
from app.text import clean, words

Status = Literal["live", "superseded", "quarantined", "expired", "forgotten"]
AnyStatus = Literal[Status, "all"]


@dataclass(frozen=True, slots=True)
class View:
    """Which of a user's facts to list, and of which time.

    `as_of` asks what was true then, `known_at` what the store believed then. Without `status` the
    one gives live and superseded facts that held then, the other those that were live then.
    """

    status: AnyStatus | None = None
    kind: Kind | None = None
    as_of: datetime | None = None
    known_at: datetime | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    """Top-level keys with the text of their value: `9` means the number or the string, `"9"` the
    string alone."""
    containing: str | None = None
    """Only facts with all of these words or parts of words."""


def status_of(fact: Fact, at: datetime) -> Status:
    """Give the one status that the API shows for a fact."""
    if fact.quarantined_at is not None:
        return "quarantined"
    if fact.forgotten_at is not None:
        return "forgotten"
    if fact.superseded_at is not None:
        return "superseded"
    if fact.expires_at is not None and fact.expires_at <= at:
        return "expired"
    return "live"


def with_status(
    status: AnyStatus,
    at: datetime,
    stored: ColumnElement[str] = STORED,
    expires_at: ColumnElement[datetime | None] | None = None,
) -> ColumnElement[bool]:
    """Select facts of a status, by their own columns or a former state; mirrors `status_of`."""
    expiry = Fact.expires_at.expression if expires_at is None else expires_at
    if status == "all":
        return true()
    if status == "live":
        return and_(stored == "live", or_(expiry.is_(None), expiry > at))
    if status == "expired":
        return and_(stored == "live", expiry <= at)
    return stored == status


def seen(scope: Scope, view: View, at: datetime) -> Select[Fact]:
    """Select the user's facts of a view; `at` is now.

    What the store believed then stands in each fact's newest event of that time.
    """
    query = select(Fact).where(Fact.tenant_id == scope.tenant_id, Fact.user_id == scope.user_id)
    stored: ColumnElement[str] = STORED
    valid_to: ColumnElement[Any] = Fact.valid_to.expression
    expires_at: ColumnElement[Any] = Fact.expires_at.expression
    if view.known_at is not None:
        at = view.known_at
        event = (
            select(FactEvent.status, FactEvent.valid_to, FactEvent.expires_at)
            .where(
                FactEvent.tenant_id == scope.tenant_id,
                FactEvent.user_id == scope.user_id,
                FactEvent.fact_id == Fact.id,
                FactEvent.at <= at,
            )
            .order_by(FactEvent.at.desc(), FactEvent.n.desc())
            .limit(1)
            .lateral("belief")
        )
        query = query.join(event, true())
        stored, valid_to, expires_at = event.c.status, event.c.valid_to, event.c.expires_at
    if view.status is not None or view.as_of is None:
        query = query.where(with_status(view.status or "live", at, stored, expires_at))
    else:
        query = query.where(stored.in_(("live", "superseded")))
    if view.as_of is not None:
        query = query.where(
            func.coalesce(Fact.valid_from, Fact.said_at) <= view.as_of,
            or_(valid_to.is_(None), valid_to > view.as_of),
            or_(expires_at.is_(None), expires_at > view.as_of),
        )
    if view.kind is not None:
        query = query.where(Fact.kind == view.kind)
    for key, value in view.metadata.items():
        query = query.where(Fact.extra[key].in_(_read_as(value)))
    if view.containing is not None:
        query = query.where(_containing(view.containing))
    return query


def _containing(said: str) -> ColumnElement[bool]:
    """Select facts with what a person typed: as it stands there, or in another form of the word."""
    parts = and_(true(), *(Fact.text.icontains(part, autoescape=True) for part in said.split()))
    lexemes = words(said)
    if not lexemes:
        return parts
    query = " & ".join("'" + word.replace("'", "''") + "'" for word in lexemes)
    return or_(parts, Fact.words.bool_op("@@")(cast(query, TSQUERY)))


def _read_as(value: str) -> list[ColumnElement[Any]]:
    """Give the JSON values that a query parameter may mean: the text itself, and what it spells."""
    meant: list[Any] = [value]
    with suppress(ValueError, RecursionError):
        spelt = json.loads(value, parse_constant=_refuse)
        if isinstance(spelt, str):
            meant.append(clean(spelt))
        elif spelt is None or (isinstance(spelt, int | float) and math.isfinite(spelt)):
            meant.append(spelt)
    return [cast(cast(json.dumps(one), Text), JSONB) for one in meant]


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)
