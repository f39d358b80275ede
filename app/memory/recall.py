"""Recall: the few right facts under a budget, in one database round trip, never by a model.

Two tiers go into every block (the organization's and the always-on one), a third adds what this
message needs, by vector and words. A failure costs only the arm it hits: the answer says that it
is degraded. The first answer for a session is frozen, so that a caller's prompt cache survives
the conversation.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from typing import Any, Final, NamedTuple
from uuid import UUID

import psycopg
from psycopg_pool import PoolTimeout
from pydantic_core import from_json, to_json

from app import metrics
from app.db import Scope
from app.embeddings import Embedder, EmbedderError, Vector, sentences
from app.lines import Call, statement
from app.memory import guard, ranking
from app.memory.answer import LASTING, Degraded, Lasting, Recall
from app.memory.core import Core, incognito_digest
from app.memory.mirror import MANY, NEWER, Mirror, known
from app.memory.own_name import without_name
from app.memory.ranking import Asked
from app.memory.recall_log import LogLine
from app.memory.selection import Similar, select
from app.memory.space import embedder_named, name_of, previous_name
from app.telemetry import logger
from app.trip import trip

log = logger(__name__)

MAX_SENTENCES: Final = 6
DEFAULT_BUDGET: Final = 600

_USER = statement("""
select user_id from user_directory where tenant_id = %(tenant)s and external_id = %(user)s
""")

_UNSEEN = statement("""
select coalesce(policy ->> 'default_memory', 'on') from tenant_policy where tenant_id = %(tenant)s
""")

_READ = statement(f"""
select u.memory, u.epoch, coalesce(o.epoch, 0),
       (select count(*) from memory_session s
        where s.tenant_id = u.tenant_id and s.user_id = u.user_id and s.status <> 'done'
          and exists (select from message m
                      where m.tenant_id = s.tenant_id and m.user_id = s.user_id
                        and m.session_id = s.id and m.extracted_at is null)),
       case when i.digest is null then b.answer::text end, i.digest is not null, facts.*
from memory_user u
left join memory_user o on o.tenant_id = u.tenant_id and o.user_id = u.tenant_id
left join incognito_session i
  on i.tenant_id = u.tenant_id and i.user_id = u.user_id and i.digest = %(digest)s
left join frozen_block b
  on b.tenant_id = u.tenant_id and b.user_id = u.user_id and b.session = %(session)s
  and b.epoch = u.epoch and b.organization_epoch = coalesce(o.epoch, 0)
  and b.created_at > now() - interval '24 hours'
cross join lateral (
  select u.memory = 'on' and (b.session is null or i.digest is not null) as it
) as is_wanted
left join lateral ({NEWER}) as facts on true
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
  and not exists (select from incognito_session i
                  where i.tenant_id = u.tenant_id and i.user_id = u.user_id
                    and i.digest = %(digest)s)
for key share
on conflict (tenant_id, user_id, session) do update
set (epoch, organization_epoch, answer, created_at) = (
  select (r).epoch, (r).organization_epoch, (r).answer, (r).created_at
  from (select case
    when %(refresh)s::boolean or b.epoch < excluded.epoch
      or b.organization_epoch < excluded.organization_epoch
      or b.created_at <= now() - interval '24 hours'
    then excluded else b end as r) as one)
returning answer::text, created_at = now()
""")


@dataclass(frozen=True, slots=True)
class Question:
    """What a caller asks for: the message at hand, the session it belongs to, the budget."""

    query: str = ""
    session: str | None = None
    token_budget: int = DEFAULT_BUDGET
    refresh: bool = False


class State(NamedTuple):
    """How things stand with a user, and with the session asked for."""

    memory: str
    epoch: int
    organization_epoch: int
    pending: int
    frozen: str | None
    is_incognito: bool


_FIELDS: Final = len(State._fields)


@dataclass(frozen=True, slots=True)
class Search:
    """What the similarity tier looks for: `message` by its words, by `vectors` its meaning."""

    message: str
    vectors: Sequence[Vector] = ()
    degraded: Degraded | None = None


async def recall(core: Core, tenant_id: UUID, user: str, question: Question) -> Recall:
    """Answer for a user; an unseen one has an empty block and is not created.

    Embeds the query at most once, and not at all for a session whose block is frozen.
    """
    for _ in range(2):  # the id of somebody erased and come back is known for a minute
        user_id = await find_person(core, tenant_id, user)
        if user_id is None:
            break
        scope = Scope(tenant_id, user_id)
        answer = await _answer(core, scope, question)
        if answer is not None:
            core.recalls.note(core.db, _line(scope, answer))
            metrics.recalled(answer.degraded or ("frozen" if answer.frozen else "fresh"))
            return answer
        core.people.pop((tenant_id, user), None)
        core.mirrors.drop(user_id)
    (rows,) = await trip(core.db, tenant_id, (_UNSEEN, {"tenant": tenant_id}))
    return Recall(memory=rows[0][0] if rows else "on")


async def find_person(core: Core, tenant_id: UUID, user: str) -> UUID | None:
    """Look a user up, from a cache of a minute."""
    try:
        return core.people[tenant_id, user]
    except KeyError:
        pass  # what fails below must not drag along an error that quotes the user's id
    (rows,) = await trip(core.db, tenant_id, (_USER, {"tenant": tenant_id, "user": user}))
    if not rows:
        return None
    user_id: UUID = rows[0][0]
    core.people[tenant_id, user] = user_id
    return user_id


async def _answer(core: Core, scope: Scope, question: Question) -> Recall | None:
    """Answer for a person; None when there is no such person any more."""
    with _stage("read"):
        state, facts, shared = await read(core, scope, question)
    if state is None:
        return None
    if (settled := _settled(state)) is not None:
        return settled
    if state.frozen is not None:  # by another version of the service, and so no facts came along
        return await _answer(core, scope, replace(question, refresh=True))
    embedder = embedder_named(core, facts.model)
    with _stage("embed"):
        asked, degraded = await _asked(core, embedder, question.query, facts)
    if asked and not facts.model:
        degraded = "embedder"  # its space was not known yet when the facts were read
    with _stage("rank"):
        found = await _found(facts, asked, embedder.recall_floor)
        chosen = select(facts.stable(shared), found, question.token_budget)
        answer = Recall(
            Lasting.of(chosen),
            degraded=degraded,
            pending_sessions=state.pending,
            rechecked=chosen.rechecked,
        )
    if question.session is None or degraded is not None or state.is_incognito:
        return answer
    with _stage("freeze"):
        return await _freeze(core, scope, question, state, answer)


class _stage:  # noqa: N801 - read as a function; a generator's would cost three times as much
    """Time a part of recall."""

    __slots__ = ("_name", "_started")

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        self._started = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        metrics.recall_stage(self._name, time.perf_counter() - self._started)


def _line(scope: Scope, answer: Recall) -> LogLine:
    return LogLine(
        answer.recall_id,
        scope,
        time.monotonic(),
        answer.lasting.facts,
        answer.lasting.shared,
        answer.rechecked,
        answer.frozen,
        answer.degraded,
        answer.lasting.tokens,
    )


def _settled(state: State) -> Recall | None:
    """Give the answer that needs no search: memory is off, or the session's block is frozen."""
    if state.memory != "on":
        return Recall(memory=state.memory, pending_sessions=state.pending)
    return _thawed(state.frozen, state.pending)


def _thawed(frozen: str | None, pending: int) -> Recall | None:
    """Give a frozen answer; None for one of another version of the service, or an older guard."""
    kept = from_json(frozen) if frozen is not None else {}
    if kept.keys() != LASTING or kept["guard_version"] < guard.VERSION:
        return None
    return Recall(Lasting(**kept), frozen=True, pending_sessions=pending)


async def _asked(
    core: Core, embedder: Embedder, query: str, facts: Mirror
) -> tuple[Asked | None, Degraded | None]:
    """Give a message as it is ranked by, None for an empty one, and what it lacks."""
    if not query or not len(facts):
        return None, None
    digest = blake2b(f"{facts.model}\0{facts.name}\0{query}".encode(), digest_size=16).digest()
    try:
        return core.asked[digest], None
    except KeyError:
        pass  # `get` of such a cache takes three times as long
    search = await embed(core, embedder, query, facts.name)
    asked = ranking.asked(search.vectors, search.message) if search.message else None
    if asked is not None and search.degraded is None:
        core.asked[digest] = asked
    return asked, search.degraded


async def _found(facts: Mirror, asked: Asked | None, floor: float) -> Similar:
    if asked is None:
        return Similar()
    if len(facts) > MANY:
        return await asyncio.to_thread(ranking.similar, facts, asked, floor)
    return ranking.similar(facts, asked, floor)


async def embed(core: Core, embedder: Embedder, query: str, name: str | None) -> Search:
    """Embed a message and its sentences in one call; without them when that fails or is late."""
    text = without_name(query, name)
    if not text:
        return Search("")
    try:
        async with asyncio.timeout(core.recall_deadline):
            vectors = await embedder.embed(sentences(text, MAX_SENTENCES), "query")
    except EmbedderError:
        return Search(query, degraded="embedder")
    except TimeoutError:
        return Search(query, degraded="deadline")
    return Search(query, vectors)


def _values(core: Core, scope: Scope, question: Question) -> dict[str, Any]:
    session = question.session
    return {
        "tenant": scope.tenant_id,
        "user_id": scope.user_id,
        "session": None if question.refresh else session,
        "digest": incognito_digest(core, scope.tenant_id, session) if session else b"",
    }


def reading(
    core: Core, scope: Scope, question: Question, own: Mirror | None, shared: Mirror | None
) -> Call:
    """Give what asks how things stand, and for facts that are not as they are known here."""
    return _READ, {
        **_values(core, scope, question),
        **known(own, shared),
        "model": name_of(core),
        "previous": previous_name(core),
    }


async def read(core: Core, scope: Scope, question: Question) -> tuple[State | None, Mirror, Mirror]:
    """Read how things stand, the user's facts and the organization's, in one trip.

    Facts that are known here as they are now stay where they are. With a frozen block none come.
    """
    models = name_of(core), previous_name(core)
    own = core.mirrors.known(scope.user_id, *models)
    shared = core.mirrors.known(scope.tenant_id, *models)
    (rows,) = await trip(core.db, scope.tenant_id, reading(core, scope, question, own, shared))
    newer = [row[_FIELDS:] for row in rows if row[_FIELDS] is not None]
    facts = await core.mirrors.learn(scope, newer, own, shared)
    return State(*rows[0][:_FIELDS]) if rows else None, *facts


async def _freeze(
    core: Core, scope: Scope, question: Question, state: State, answer: Recall
) -> Recall:
    """Keep the answer for the session; give what is kept, for another process may have been first.

    What can't be kept is answered all the same: memory is never a dependency.
    """
    values = {
        **_values(core, scope, question),
        "session": question.session,
        "epoch": state.epoch,
        "organization_epoch": state.organization_epoch,
        "answer": to_json(asdict(answer.lasting)).decode(),
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
    return answer if is_ours else _thawed(kept, state.pending) or answer
