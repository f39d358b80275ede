"""Recall: the few right facts under a budget, in one database round trip, never by a model.

Two tiers go into every block (the organization's and the always-on one), a third adds what this
message needs, by vector and words. A failure costs only the arm it hits: the answer says that it
is degraded. The first answer for a session is frozen, so that a caller's prompt cache survives
the conversation.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final, Literal, NamedTuple
from uuid import UUID, uuid4

import psycopg
from psycopg_pool import PoolTimeout

from app.db import Scope
from app.embeddings import EmbedderError, Vector, sentences
from app.llm import Kind
from app.memory import guard, ranking
from app.memory.core import Core, Person, incognito_digest
from app.memory.own_name import without_name
from app.memory.recall_log import Line
from app.memory.render import Tier, estimate_tokens
from app.memory.selection import CAPS, Row, select
from app.telemetry import logger
from app.trip import Call, statement, trip

log = logger(__name__)

Degraded = Literal["embedder", "deadline", "text_search"]

MAX_SENTENCES: Final = 6
DEFAULT_BUDGET: Final = 600

_USER = statement("""
select user_id from user_directory where tenant_id = %(tenant)s and external_id = %(user)s
""")

_STATE = statement(f"""
select u.memory, u.epoch, coalesce(o.epoch, 0),
       (select count(*) from memory_session s
        where s.tenant_id = u.tenant_id and s.user_id = u.user_id and s.status <> 'done'
          and exists (select from message m
                      where m.tenant_id = s.tenant_id and m.user_id = s.user_id
                        and m.session_id = s.id and m.extracted_at is null)),
       {ranking.NAME},
       (select b.answer from frozen_block b
        where b.tenant_id = u.tenant_id and b.user_id = u.user_id and b.session = %(session)s
          and b.epoch = u.epoch and b.organization_epoch = coalesce(o.epoch, 0)
          and b.created_at > now() - interval '24 hours'
          and not exists (select from incognito_session i
                          where i.tenant_id = u.tenant_id and i.user_id = u.user_id
                            and i.digest = %(digest)s)),
       exists (select from incognito_session i
               where i.tenant_id = u.tenant_id and i.user_id = u.user_id
                 and i.digest = %(digest)s)
from memory_user u
left join memory_user o on o.tenant_id = u.tenant_id and o.user_id = u.tenant_id
where u.tenant_id = %(tenant)s and u.user_id = %(user_id)s
""")  # noqa: S608 - the text put in is a constant

# Kept is what is valid: of two first calls at once the later one gets the earlier one's block. The
# row is written again in that case too, since nothing else shows it to this statement.
_FREEZE = statement("""
insert into frozen_block as b
  (tenant_id, user_id, session, epoch, organization_epoch, answer)
select u.tenant_id, u.user_id, %(session)s::text, u.epoch, %(organization_epoch)s::integer,
       %(answer)s::jsonb
from memory_user u
where u.tenant_id = %(tenant)s and u.user_id = %(user_id)s and u.epoch = %(epoch)s
for key share
on conflict (tenant_id, user_id, session) do update
set (epoch, organization_epoch, answer, created_at) = (
  select (r).epoch, (r).organization_epoch, (r).answer, (r).created_at
  from (select case
    when %(refresh)s::boolean or b.epoch < excluded.epoch
      or b.organization_epoch < excluded.organization_epoch
      or b.created_at <= now() - interval '24 hours'
    then excluded else b end as r) as one)
returning answer, created_at = now()
""")

_CAPS: Final = {f"max_{tier}": most for tier, most in CAPS.items()}


@dataclass(frozen=True, slots=True)
class Question:
    """What a caller asks for: the message at hand, the session it belongs to, the budget."""

    query: str = ""
    session: str | None = None
    token_budget: int = DEFAULT_BUDGET
    refresh: bool = False


@dataclass(slots=True)
class RecalledFact:
    """A fact in the block; `score` only in the similarity tier."""

    id: UUID
    tier: Tier
    kind: Kind
    text: str
    score: float | None


@dataclass(frozen=True, slots=True)
class Recall:
    """The answer. `stable + volatile` is the block; both empty when no fact was selected."""

    stable: str = ""
    volatile: str = ""
    facts: Sequence[RecalledFact] = ()
    left_out: dict[Tier, int] = field(default_factory=lambda: dict.fromkeys(CAPS, 0))
    frozen: bool = False
    degraded: Degraded | None = None
    pending_sessions: int = 0
    memory: str = "on"
    recall_id: UUID = field(default_factory=uuid4)
    rechecked: Sequence[UUID] = ()
    """Facts of an older guard that the present one let pass."""

    @property
    def block(self) -> str:
        """The text for the prompt."""
        return self.stable + self.volatile

    @property
    def tokens(self) -> int:
        """An estimate of the block's tokens."""
        return estimate_tokens(self.block)


class _State(NamedTuple):
    """How things stand with a user, and with the session asked for."""

    memory: str
    epoch: int
    organization_epoch: int
    pending: int
    name: str | None
    frozen: dict[str, Any] | None
    is_incognito: bool


@dataclass(frozen=True, slots=True)
class _Search:
    """What the similarity tier looks for: `message` by its words, `text` by its vectors."""

    message: str
    text: str
    vectors: Sequence[Vector] = ()
    degraded: Degraded | None = None


async def recall(core: Core, tenant_id: UUID, user: str, question: Question) -> Recall:
    """Answer for a user; an unseen one has an empty block and is not created.

    Embeds the query at most once, and not at all where a frozen block is known to be; only a name
    that the person told within the last minute can cost a second look.
    """
    for _ in range(2):  # the id of somebody erased and come back is known for a minute
        person = await find_person(core, tenant_id, user)
        if person is None:
            break
        scope = Scope(tenant_id, person.user_id)
        answer = await _answer(core, scope, person, question)
        if answer is not None:
            core.recalls.note(core.db, _line(scope, answer))
            return answer
        core.people.pop((tenant_id, user), None)
    return Recall()


async def find_person(core: Core, tenant_id: UUID, user: str) -> Person | None:
    """Look a user up, from a cache of a minute."""
    known = core.people.get((tenant_id, user))
    if known is None:
        (rows,) = await trip(core.db, tenant_id, (_USER, {"tenant": tenant_id, "user": user}))
        if not rows:
            return None
        known = core.people[tenant_id, user] = Person(rows[0][0])
    return known


async def _answer(core: Core, scope: Scope, person: Person, question: Question) -> Recall | None:
    """Answer for a person; None when there is no such person any more."""
    session = (scope.user_id, question.session)
    if session in core.frozen_sessions and not question.refresh:
        state, _ = await _read(core, scope, question, None)
        if state is None or (settled := _settled(state)) is not None:
            return settled if state else None
        core.frozen_sessions.discard(session)
    search = await embed(core, question.query, person.name)
    state, rows, degraded = await _read_or_less(core, scope, question, search)
    if state is not None and _settled(state) is None:
        person.name = state.name
        if without_name(question.query, person.name) != search.text:
            search = await embed(core, question.query, person.name)
            state, rows, degraded = await _read_or_less(core, scope, question, search)
    if state is None:
        return None
    if (settled := _settled(state)) is not None:
        if settled.frozen:
            core.frozen_sessions.add(session)
        return settled
    answer = _selected(rows, question.token_budget, degraded, state.pending)
    if question.session is None or degraded is not None or state.is_incognito:
        return answer
    core.frozen_sessions.add(session)
    return await _freeze(core, scope, question, state, answer)


def _line(scope: Scope, answer: Recall) -> Line:
    return Line(
        answer.recall_id,
        scope,
        datetime.now(UTC),
        [fact.id for fact in answer.facts if fact.tier != "organization"],
        [fact.id for fact in answer.facts if fact.tier == "organization"],
        answer.rechecked,
        answer.frozen,
        answer.degraded,
        answer.tokens,
    )


def _settled(state: _State) -> Recall | None:
    """Give the answer that needs no search: memory is off, or the session's block is frozen."""
    if state.memory != "on":
        return Recall(memory=state.memory, pending_sessions=state.pending)
    if state.frozen is None:
        return None
    return _thawed(state.frozen, state.pending)


async def embed(core: Core, query: str, name: str | None) -> _Search:
    """Embed a message and its sentences in one call; without them when that fails or is late."""
    text = without_name(query, name)
    if not text:
        return _Search(query, text)
    try:
        async with asyncio.timeout(core.recall_deadline):
            vectors = await core.embedder.embed(sentences(text, MAX_SENTENCES), "query")
    except EmbedderError:
        return _Search(query, text, degraded="embedder")
    except TimeoutError:
        return _Search(query, text, degraded="deadline")
    return _Search(query, text, vectors)


async def _read_or_less(
    core: Core, scope: Scope, question: Question, search: _Search
) -> tuple[_State | None, list[Row], Degraded | None]:
    """Read state and facts; without the text arm where Postgres can't search for these words."""
    try:
        return *await _read(core, scope, question, search), search.degraded
    except psycopg.OperationalError:
        raise
    except psycopg.Error as error:
        log.warning("text_search_failed", error=type(error).__name__)
        less = replace(search, message="")
        return *await _read(core, scope, question, less), search.degraded or "text_search"


async def _read(
    core: Core, scope: Scope, question: Question, search: _Search | None
) -> tuple[_State | None, list[Row]]:
    """Read the user's state, and the facts if there is something to search by, in one trip."""
    values: dict[str, Any] = {
        "tenant": scope.tenant_id,
        "user_id": scope.user_id,
        "session": None if question.refresh else question.session,
        "digest": incognito_digest(core, scope.tenant_id, question.session)
        if question.session
        else b"",
    }
    calls: list[Call] = [(_STATE, values)]
    if search is not None:
        values |= _CAPS
        values["guard"] = guard.VERSION
        if search.text:
            values |= ranking.values(core.embedder, search.vectors, search.message)
        facts = ranking.recall_statement(len(search.vectors), searching=bool(search.text))
        calls.append((facts, values))
    states, *rows = await trip(core.db, scope.tenant_id, *calls)
    state = _State(*states[0]) if states else None
    return state, [Row(*row) for row in rows[0]] if rows else []


def _selected(rows: Sequence[Row], budget: int, degraded: Degraded | None, pending: int) -> Recall:
    chosen = select(rows, budget)
    return Recall(
        chosen.stable,
        chosen.volatile,
        [RecalledFact(row.id, row.tier, row.kind, row.text, row.score) for row in chosen.rows],
        chosen.left_out,
        degraded=degraded,
        pending_sessions=pending,
        rechecked=chosen.rechecked,
    )


async def _freeze(
    core: Core, scope: Scope, question: Question, state: _State, answer: Recall
) -> Recall:
    """Keep the answer for the session; give what is kept, for another process may have been first.

    What can't be kept is answered all the same: memory is never a dependency.
    """
    values = {
        "tenant": scope.tenant_id,
        "user_id": scope.user_id,
        "session": question.session,
        "epoch": state.epoch,
        "organization_epoch": state.organization_epoch,
        "answer": json.dumps(_frozen(answer), ensure_ascii=False),
        "refresh": question.refresh,
    }
    try:
        (rows,) = await trip(core.db, scope.tenant_id, (_FREEZE, values))
    except (psycopg.Error, PoolTimeout) as error:
        log.warning("freeze_failed", error=type(error).__name__)
        return answer
    if not rows:
        return answer  # what it holds was changed a moment ago
    kept, is_ours = rows[0]
    return answer if is_ours else _thawed(kept, state.pending)


def _frozen(answer: Recall) -> dict[str, Any]:
    return {
        "stable": answer.stable,
        "volatile": answer.volatile,
        "left_out": answer.left_out,
        "facts": [
            (fact.id.hex, fact.tier, fact.kind, fact.text, fact.score) for fact in answer.facts
        ],
    }


def _thawed(frozen: dict[str, Any], pending: int) -> Recall:
    return Recall(
        frozen["stable"],
        frozen["volatile"],
        [RecalledFact(UUID(fact[0]), *fact[1:]) for fact in frozen["facts"]],
        frozen["left_out"],
        frozen=True,
        pending_sessions=pending,
    )
