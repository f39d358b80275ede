"""Recall: the few right facts under a budget, in one database round trip, never by a model.

Two tiers go into every block (the organization's and the always-on one), a third adds what this
message needs, by vector and words. A failure of the embedder costs that arm alone: the answer
says that it is degraded. The first answer for a session is frozen, so that a caller's prompt cache
survives the conversation.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID, uuid4

from pgvector import HalfVector

from app.db import Database, pipelined
from app.embeddings import EmbedderError, Vector, sentences
from app.llm import Kind
from app.memory import guard
from app.memory.core import Core, incognito_digest
from app.memory.render import Tier, estimate_tokens, render
from app.text import any_word

Degraded = Literal["embedder", "deadline", "text_search"]

MAX_ORGANIZATION: Final = 10
MAX_ALWAYS_ON: Final = 12
MAX_SIMILARITY: Final = 8
MAX_SENTENCES: Final = 6
DEFAULT_BUDGET: Final = 600

_USER = """
select user_id from user_directory where tenant_id = %(tenant)s and external_id = %(user)s
"""

_STATE = """
select u.memory, u.epoch, coalesce(o.epoch, 0) as organization_epoch,
       (select count(distinct m.session_id) from message m
        where m.tenant_id = u.tenant_id and m.user_id = u.user_id) as pending,
       (select b.answer from frozen_block b
        where b.tenant_id = u.tenant_id and b.user_id = u.user_id and b.session = %(session)s
          and b.epoch = u.epoch and b.organization_epoch = coalesce(o.epoch, 0)
          and b.created_at > now() - interval '24 hours') as frozen,
       exists (select from incognito_session i
               where i.tenant_id = u.tenant_id and i.user_id = u.user_id
                 and i.digest = %(digest)s) as incognito
from memory_user u
left join memory_user o on o.tenant_id = u.tenant_id and o.user_id = u.tenant_id
where u.tenant_id = %(tenant)s and u.user_id = %(user_id)s
"""

# The ordering has `+ 0`, which no vector index can serve: a person has hundreds of facts, and an
# approximate index filtered to one person gives back too few. Reciprocal ranks with k = 10;
# recency and confirmation only break near ties, as ranks, for a clock would change the bytes.
_FACTS = """
with live as materialized (
  select id, text, kind, pinned, source, created_at, last_confirmed_at, confirmations,
         guard_version, words, embedding, embedding_model
  from memory_fact
  where tenant_id = %(tenant)s and user_id = %(user_id)s
    and superseded_at is null and quarantined_at is null and forgotten_at is null
    and (expires_at is null or expires_at > now())
), ranked as (
  select *, row_number() over (
              order by case when pinned then 0 when kind = 'constraint' then 1 else 2 end,
                       created_at, id) as place
  from live where (pinned or kind in ('constraint', 'profile')) and source <> 'mcp'
), arms as (
  select l.id, l.text, l.kind, l.pinned, l.created_at, l.guard_version,
         case when l.embedding_model = %(model)s then
           (select max(1 - ((l.embedding <=> q.vector::halfvec) + 0))
            from unnest(%(vectors)s::text[]) as q (vector)) end as vector_score,
         ts_rank(l.words, %(query)s::tsquery) as text_score,
         percent_rank() over (order by l.last_confirmed_at) as recency,
         percent_rank() over (order by l.confirmations) as confirmation
  from live l
  where %(searching)s and not exists (
    select from ranked r where r.id = l.id and r.place <= %(max_always_on)s)
), matched as (
  select *, row_number() over (order by vector_score desc nulls last, id) as vector_place,
         row_number() over (order by text_score desc, vector_score desc nulls last, id)
           as text_place
  from arms where vector_score >= %(floor)s or text_score > 0
), fused as (
  select *, case when vector_score >= %(floor)s then 1.0 / (10 + vector_place) else 0 end
         + case when text_score > 0 then 1.0 / (10 + text_place) else 0 end
         + 0.004 * recency + 0.002 * confirmation as score
  from matched
)
(select 'organization' as tier, id, text, kind, pinned, created_at, guard_version,
        null::float8 as score, count(*) over () as eligible
 from memory_fact
 where tenant_id = %(tenant)s and user_id = %(tenant)s
   and superseded_at is null and quarantined_at is null and forgotten_at is null
   and (expires_at is null or expires_at > now())
 order by created_at, id limit %(max_organization)s)
union all
(select 'always_on', id, text, kind, pinned, created_at, guard_version, null, count(*) over ()
 from ranked order by place limit %(max_always_on)s)
union all
(select 'similarity', id, text, kind, pinned, created_at, guard_version, score::float8,
        count(*) over ()
 from fused order by score desc, created_at, id limit %(max_similarity)s)
"""

_FREEZE = """
insert into frozen_block (tenant_id, user_id, session, epoch, organization_epoch, answer)
values (%(tenant)s, %(user_id)s, %(session)s, %(epoch)s, %(organization_epoch)s, %(answer)s)
on conflict (tenant_id, user_id, session) do update
set epoch = excluded.epoch, organization_epoch = excluded.organization_epoch,
    answer = excluded.answer, created_at = now()
where %(refresh)s or frozen_block.epoch <> excluded.epoch
   or frozen_block.organization_epoch <> excluded.organization_epoch
   or frozen_block.created_at <= now() - interval '24 hours'
"""


@dataclass(frozen=True, slots=True)
class Question:
    """What a caller asks for: the message at hand, the session it belongs to, the budget."""

    query: str = ""
    session: str | None = None
    token_budget: int = DEFAULT_BUDGET
    refresh: bool = False


@dataclass(frozen=True, slots=True)
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
    left_out: dict[str, int] = field(
        default_factory=lambda: {"organization": 0, "always_on": 0, "similarity": 0}
    )
    frozen: bool = False
    degraded: Degraded | None = None
    pending_sessions: int = 0
    memory: str = "on"
    recall_id: UUID = field(default_factory=uuid4)

    @property
    def block(self) -> str:
        """The text for the prompt."""
        return self.stable + self.volatile

    @property
    def tokens(self) -> int:
        """An estimate of the block's tokens."""
        return estimate_tokens(self.block)


@dataclass(frozen=True, slots=True)
class _Row:
    tier: Tier
    id: UUID
    text: str
    kind: Kind
    pinned: bool
    created_at: datetime
    guard_version: int
    score: float | None
    eligible: int


async def recall(core: Core, tenant_id: UUID, user: str, question: Question) -> Recall:
    """Answer for a user; an unseen one has an empty block and is not created.

    Embeds the query at most once and only when no frozen block can be expected.
    """
    user_id = await _find_user(core, tenant_id, user)
    if user_id is None:
        return Recall()
    vectors, degraded = await _embed(core, question.query)
    asked = {
        "tenant": tenant_id,
        "user_id": user_id,
        "session": None if question.refresh else question.session,
        "digest": incognito_digest(core, user_id, question.session or ""),
        "model": core.embedder.name if vectors else None,
        "vectors": [HalfVector(vector).to_text() for vector in vectors],
        "query": any_word(question.query),
        "searching": bool(question.query.strip()),
        "floor": core.embedder.recall_floor,
        "max_organization": MAX_ORGANIZATION,
        "max_always_on": MAX_ALWAYS_ON,
        "max_similarity": MAX_SIMILARITY,
    }
    states, rows = await _read(core.db, tenant_id, asked)
    if not states:
        core.users.pop((tenant_id, user), None)
        return Recall()
    state = states[0]
    if state["memory"] != "on":
        return Recall(memory=state["memory"], pending_sessions=state["pending"])
    if state["frozen"] is not None:
        return _thawed(state["frozen"], pending=state["pending"])
    answer = _select([_Row(**row) for row in rows], question.token_budget)
    answer = replace(answer, degraded=degraded, pending_sessions=state["pending"])
    if question.session is not None and degraded is None and not state["incognito"]:
        await _freeze(core, tenant_id, user_id, question, state, answer)
    return answer


async def _find_user(core: Core, tenant_id: UUID, user: str) -> UUID | None:
    """Look the user up, from a cache of a minute: an erased user's id finds no rows any more."""
    known = core.users.get((tenant_id, user))
    if known is None:
        async with pipelined(core.db, tenant_id) as run:
            found = await run(_USER, {"tenant": tenant_id, "user": user})
        rows = await found.fetchall()
        if not rows:
            return None
        known = core.users[tenant_id, user] = rows[0]["user_id"]
    return known


async def _embed(core: Core, query: str) -> tuple[list[Vector], Degraded | None]:
    """Embed a message and its sentences in one call; without them when that fails or is late."""
    if not query.strip():
        return [], None
    try:
        async with asyncio.timeout(core.recall_deadline):
            texts = sentences(query, MAX_SENTENCES)
            return await core.embedder.embed(texts, "query"), None
    except EmbedderError:
        return [], "embedder"
    except TimeoutError:
        return [], "deadline"


async def _read(
    db: Database, tenant_id: UUID, asked: dict[str, Any]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Read the user's state and the facts in one round trip."""
    async with pipelined(db, tenant_id) as run:
        states = await run(_STATE, asked)
        facts = await run(_FACTS, asked)
    return await states.fetchall(), await facts.fetchall()


def _select(rows: Sequence[_Row], budget: int) -> Recall:
    """Choose what fits the budget, and put it in the order of the block."""
    tiers: dict[Tier, list[_Row]] = {"organization": [], "always_on": [], "similarity": []}
    left_out: dict[Tier, int] = dict.fromkeys(tiers, 0)
    for row in rows:
        left_out[row.tier] = row.eligible
        if row.guard_version >= guard.VERSION or guard.check(row.text, row.kind).action == "keep":
            tiers[row.tier].append(row)
    stable, volatile = _render(tiers)
    while estimate_tokens(stable + volatile) > budget and _drop_one(tiers):
        stable, volatile = _render(tiers)
    facts = [
        RecalledFact(row.id, tier, row.kind, row.text, row.score)
        for tier, chosen in tiers.items()
        for row in _ordered(tier, chosen)
    ]
    return Recall(
        stable,
        volatile,
        facts,
        {tier: eligible - len(tiers[tier]) for tier, eligible in left_out.items()},
    )


def _render(tiers: dict[Tier, list[_Row]]) -> tuple[str, str]:
    return render({tier: [r.text for r in _ordered(tier, rows)] for tier, rows in tiers.items()})


def _class(row: _Row) -> int:
    return 0 if row.pinned else 1 if row.kind == "constraint" else 2


def _ordered(tier: Tier, rows: Sequence[_Row]) -> list[_Row]:
    """Print by age; the always-on tier by pinned, constraint, profile first."""
    if tier == "always_on":
        return sorted(rows, key=lambda row: (_class(row), row.created_at, row.id))
    return sorted(rows, key=lambda row: (row.created_at, row.id))


def _drop_one(tiers: dict[Tier, list[_Row]]) -> bool:
    """Sacrifice one fact of the lowest worth; False when nothing is left.

    Similarity goes first, weakest first; then profile, organization, the newest constraint, pinned.
    """
    always_on = tiers["always_on"]
    for rows, weakest in (
        (tiers["similarity"], _weakest),
        ([row for row in always_on if _class(row) == 2], _newest),
        (tiers["organization"], _newest),
        ([row for row in always_on if _class(row) == 1], _newest),
        (always_on, _newest),
    ):
        if rows:
            victim = min(rows, key=weakest)
            tiers[victim.tier].remove(victim)
            return True
    return False


def _weakest(row: _Row) -> tuple[float, int]:
    return (row.score or 0.0, -row.id.int)


def _newest(row: _Row) -> tuple[float, int]:
    return (-row.created_at.timestamp(), -row.id.int)


async def _freeze(
    core: Core,
    tenant_id: UUID,
    user_id: UUID,
    question: Question,
    state: dict[str, Any],
    answer: Recall,
) -> None:
    """Keep the answer for the session. Another process may have been first: then its row stays."""
    frozen = {
        "stable": answer.stable,
        "volatile": answer.volatile,
        "left_out": answer.left_out,
        "facts": [{**asdict(fact), "id": fact.id.hex} for fact in answer.facts],
    }
    async with pipelined(core.db, tenant_id) as run:
        await run(
            _FREEZE,
            {
                "tenant": tenant_id,
                "user_id": user_id,
                "session": question.session,
                "epoch": state["epoch"],
                "organization_epoch": state["organization_epoch"],
                "answer": json.dumps(frozen),
                "refresh": question.refresh,
            },
        )


def _thawed(frozen: dict[str, Any], *, pending: int) -> Recall:
    facts = [RecalledFact(**{**fact, "id": UUID(fact["id"])}) for fact in frozen["facts"]]
    return Recall(
        frozen["stable"],
        frozen["volatile"],
        facts,
        frozen["left_out"],
        frozen=True,
        pending_sessions=pending,
    )
