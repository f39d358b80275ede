"""Search over one user's facts: the parts of each score; filters on kind, time and metadata.

Filters are values, never SQL: the statement is always the same.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Final, cast
from uuid import UUID

from sqlalchemy import select

from app.db import Scope, now
from app.errors import Invalid
from app.lines import Statement, statement
from app.llm import Kind
from app.memory import guard, ranking
from app.memory.core import Core
from app.memory.mirror import LIVE
from app.memory.recall import embed, find_person
from app.memory.space import previous_name
from app.models import Fact
from app.trip import trip

_ORDERED: Final = ("lt", "lte", "gt", "gte")
OPERATORS: Final = ("eq", "ne", *_ORDERED, "in", "exists")

# Compared by JSON type: 9 < 10, "9" is not 9, and only numbers with numbers, strings with strings
# have an order. What a fact doesn't have is not equal to anything.
_METADATA: Final = """
not exists (
  select from (select key, op, coalesce(value, 'null') as value  -- a null in JSON arrives as ours
               from jsonb_to_recordset(%(wanted)s::jsonb) as r (key text, op text, value jsonb)) w
  where not coalesce(case w.op
    when 'eq' then metadata -> w.key = w.value
    when 'ne' then metadata -> w.key is distinct from w.value
    when 'in' then exists (select from jsonb_array_elements(w.value) as one
                           where one = metadata -> w.key)
    when 'exists' then to_jsonb(metadata ? w.key) = w.value
    else jsonb_typeof(metadata -> w.key) = jsonb_typeof(w.value) and case w.op
      when 'lt' then metadata -> w.key < w.value
      when 'lte' then metadata -> w.key <= w.value
      when 'gt' then metadata -> w.key > w.value
      when 'gte' then metadata -> w.key >= w.value end
  end, false))
"""

_TIME: Final = """
quarantined_at is null and forgotten_at is null
and case when %(as_of)s::timestamptz is not null
  then coalesce(valid_from, said_at) <= %(as_of)s and (valid_to is null or valid_to > %(as_of)s)
       and (expires_at is null or expires_at > %(as_of)s)
  else (superseded_at is null or %(include_superseded)s::boolean)
       and (expires_at is null or expires_at > now()) end
"""

_PERSON: Final = statement(f"""
select u.memory = 'on',
       (select f.text from memory_fact f
        where f.tenant_id = u.tenant_id and f.user_id = u.user_id and f.slot = 'name' and {LIVE}),
       %(previous)s::text is not null
       and exists (select from memory_fact p
                   where p.tenant_id = u.tenant_id and p.user_id = u.user_id
                     and p.embedding_model = %(previous)s)
from memory_user u
where u.tenant_id = %(tenant)s and u.user_id = %(user_id)s
""")  # noqa: S608 - the text put in is a constant


@cache
def ranked(vectors: int) -> Statement:
    """Give the statement that ranks a user's facts for a message of so many vectors."""
    # The two texts put in are constants of the code; what a caller sends is bound.
    return statement(
        f"""
        with candidate as materialized (
          select id, created_at, last_confirmed_at, confirmations, {ranking.scores(vectors)}
          from memory_fact
          where tenant_id = %(tenant)s and user_id = %(user_id)s and {_TIME} and {_METADATA}
            and (%(kinds)s::text[] is null or kind = any (%(kinds)s::text[]))
        ), {ranking.FUSED}
        select id, score, vector_score, case when text_score > 0 then text_score end
        from fused order by score desc, created_at, id limit %(most)s
        """  # noqa: S608 - see above
    )


@dataclass(frozen=True, slots=True)
class Query:
    """What to search for, and what to leave aside."""

    query: str
    limit: int = 10
    kinds: Sequence[Kind] | None = None
    as_of: datetime | None = None
    include_superseded: bool = False
    metadata: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """A fact with its fused score and that of each arm: cosine and word rank, None for no match."""

    fact: Fact
    score: float
    vector_score: float | None
    text_score: float | None


@dataclass(frozen=True, slots=True)
class Results:
    """Best first; `at` is the instant as of which the facts were read."""

    items: Sequence[Found]
    at: datetime


async def search(core: Core, tenant_id: UUID, user: str, query: Query) -> Results:
    """Search an unseen user's facts, or those of one whose memory is off, and find nothing.

    Raises `Invalid` for a filter that has no meaning.
    """
    wanted = json.dumps(_conditions(query.metadata or {}))
    person, is_on, name, is_of_previous = await _find_person(core, tenant_id, user)
    embedder = core.previous if is_of_previous and core.previous else core.embedder
    best: list[tuple[Any, ...]] = []
    of = {"tenant": tenant_id, "user_id": person}
    if is_on and query.query:
        search = await embed(core, embedder, query.query, name)
        values = {
            **ranking.values(embedder, search.vectors, search.message),
            **of,
            "wanted": wanted,
            "as_of": query.as_of,
            "include_superseded": query.include_superseded,
            "kinds": None if query.kinds is None else "{" + ",".join(query.kinds) + "}",
            "most": query.limit,
        }
        (best,) = await trip(core.db, tenant_id, (ranked(len(search.vectors)), values))
    async with core.db.tenant(tenant_id) as tx:
        facts: dict[UUID, Fact] = {}
        if person is not None and best:
            scope = Scope(tenant_id, person)
            rows = await tx.scalars(
                select(Fact).where(
                    Fact.tenant_id == scope.tenant_id,
                    Fact.user_id == scope.user_id,
                    Fact.id.in_([row[0] for row in best]),
                )
            )
            facts = {fact.id: fact for fact in rows if _may_be_shown(fact)}
        return Results([Found(facts[row[0]], *row[1:]) for row in best if row[0] in facts], now(tx))


async def _find_person(
    core: Core, tenant_id: UUID, user: str
) -> tuple[UUID | None, bool, str | None, bool]:
    """Look a user up: whether memory is on, the name, and whether the previous embedder serves.

    One who is unseen is None and off.
    """
    for _ in range(2):  # the id of somebody erased and come back is known for a minute
        person = await find_person(core, tenant_id, user)
        if person is None:
            break
        of = {"tenant": tenant_id, "user_id": person, "previous": previous_name(core)}
        (rows,) = await trip(core.db, tenant_id, (_PERSON, of))
        if rows:
            return person, *rows[0]
        core.people.pop((tenant_id, user), None)
    return None, False, None, False


def _may_be_shown(fact: Fact) -> bool:
    """Look again at what an older guard let in, as recall does."""
    return (
        fact.guard_version >= guard.VERSION
        or guard.check(fact.text, cast("Kind", fact.kind)).action == "keep"
    )


def _conditions(metadata: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Spell a filter out: a plain value means `eq`, an object holds operators."""
    conditions = []
    for key, asked in metadata.items():
        operators = asked if isinstance(asked, Mapping) else {"eq": asked}
        if not operators:
            raise Invalid("A metadata filter names no operator.", code="bad_filter")
        for op, value in operators.items():
            _check(op, value)
            conditions.append({"key": key, "op": op, "value": value})
    return conditions


def _check(op: str, value: Any) -> None:
    if op not in OPERATORS:
        raise Invalid(
            f"A metadata filter knows only the operators {', '.join(OPERATORS)}.", code="bad_filter"
        )
    is_number_or_text = isinstance(value, str | int | float) and not isinstance(value, bool)
    if op in _ORDERED and not is_number_or_text:
        raise Invalid(f"'{op}' compares with a number or a string.", code="bad_filter")
    if op == "in" and not isinstance(value, list):
        raise Invalid("'in' takes a list.", code="bad_filter")
    if op == "exists" and not isinstance(value, bool):
        raise Invalid("'exists' is true or false.", code="bad_filter")
