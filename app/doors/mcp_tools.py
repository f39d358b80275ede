"""What a model can do over MCP: four tools over the verbs of memory, with what they take and give.

A model's own words are facts of the source `mcp`: never always on, and never over what the user
said. The descriptions are read by models; they are part of the contract.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final, Literal, cast
from uuid import UUID

from pydantic import Field

from app.db import now
from app.memory import facts
from app.memory.answer import Degraded
from app.memory.core import Core
from app.memory.covered import covered
from app.memory.recall import DEFAULT_BUDGET, Question
from app.memory.recall import recall as recall_block
from app.memory.users import MemoryMode
from app.memory.view import Status, View, status_of
from app.models import Fact
from app.wire import Kind, Limit, Line, Model, Uuid

MAX_QUERY: Final = 32 * 1024


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls a tool, and about whom."""

    core: Core
    tenant_id: UUID
    user: str
    by: str


class FactOut(Model):
    """A fact as a model needs it."""

    id: UUID
    text: str
    kind: Kind
    status: Status
    source: str = Field(description="`mcp` for what a model remembered, else the user's own word.")
    said_at: datetime

    @classmethod
    def of(cls, fact: Fact, at: datetime) -> "FactOut":
        """Show a stored fact as it stands at this time."""
        return cls(
            id=fact.id,
            text=covered(fact.text, fact.guard_version),
            kind=cast("Kind", fact.kind),
            status=status_of(fact, at),
            source=fact.source,
            said_at=fact.said_at,
        )


class RememberIn(Model):
    """What to remember."""

    text: Annotated[
        Line,
        Field(
            min_length=1,
            description="One self-contained sentence of at most 200 characters about the user, "
            'without "I" or "the user": "Prefers window seats."',
        ),
    ]
    kind: Kind = Field(
        default="preference",
        description="`profile`: who the user is (name, role, employer, city, languages). "
        "`constraint`: what must or must never hold, whatever the topic. "
        "`preference`: likes, habits, tools in use. `goal`: aims and current projects.",
    )


class RememberOut(Model):
    """What became of it."""

    fact: FactOut
    verdict: Literal["added", "duplicate", "quarantined"] = Field(
        description="`duplicate`: it was known. `quarantined`: it is not served before a person "
        "has looked at it, for instance because it contradicts what the user said."
    )
    superseded: list[UUID]


class RecallIn(Model):
    """What to look for."""

    query: Annotated[
        Line,
        Field(
            max_length=MAX_QUERY,
            description="The user's message, or what it is about. Empty: only what always holds.",
        ),
    ] = ""
    token_budget: Annotated[int, Field(ge=100, le=4000, strict=True)] = DEFAULT_BUDGET


class RecalledOut(Model):
    """A fact in the block."""

    id: UUID
    tier: Literal["organization", "always_on", "similarity"]
    kind: Kind
    text: str


class RecallOut(Model):
    """What is remembered and fits the query."""

    block: str = Field(description="The facts as a text for the prompt; empty when there are none.")
    facts: list[RecalledOut]
    memory: MemoryMode
    degraded: Degraded | None


class ListIn(Model):
    """Which facts to list."""

    status: Status | Literal["all"] = "live"
    kind: Kind | None = None
    limit: Limit = 50
    cursor: str | None = Field(
        default=None, description="`next_cursor` of the page before, with the same filters."
    )


class ListOut(Model):
    """One page of facts, newest first."""

    items: list[FactOut]
    next_cursor: str | None


class ForgetIn(Model):
    """Which fact to forget."""

    fact_id: Uuid = Field(description="The `id` of a fact, from `recall` or `list_facts`.")


class ForgetOut(Model):
    """The fact as it stands now."""

    fact: FactOut


async def remember(caller: Caller, asked: RememberIn) -> RememberOut:
    """Write a fact in a model's words: never always on, and never over what the user said."""
    written, at = await facts.add_fact(
        caller.core,
        caller.tenant_id,
        caller.user,
        facts.NewFact(asked.text, asked.kind),
        source="mcp",
        by=caller.by,
    )
    return RememberOut(
        fact=FactOut.of(written.fact, at),
        verdict=written.verdict,
        superseded=list(written.superseded),
    )


async def recall(caller: Caller, asked: RecallIn) -> RecallOut:
    """Give the block for a query."""
    question = Question(asked.query, token_budget=asked.token_budget)
    answer = await recall_block(caller.core, caller.tenant_id, caller.user, question)
    return RecallOut(
        block=answer.block,
        facts=[RecalledOut.model_validate(fact) for fact in answer.facts],
        memory=cast("Any", answer.memory),
        degraded=answer.degraded,
    )


async def list_facts(caller: Caller, asked: ListIn) -> ListOut:
    """List facts, newest first."""
    async with caller.core.db.tenant(caller.tenant_id) as tx:
        page = await facts.list_facts(
            tx,
            caller.core,
            caller.tenant_id,
            caller.user,
            View(asked.status, asked.kind),
            limit=asked.limit,
            after=asked.cursor,
        )
        items = [FactOut.of(fact, now(tx)) for fact in page.items]
    return ListOut(items=items, next_cursor=page.next_cursor)


async def forget(caller: Caller, asked: ForgetIn) -> ForgetOut:
    """Close a fact, restorably: a model may be wrong, or misled."""
    async with caller.core.db.tenant(caller.tenant_id) as tx:
        fact = await facts.close_fact(
            tx, caller.tenant_id, caller.user, asked.fact_id, source="mcp", by=caller.by
        )
        return ForgetOut(fact=FactOut.of(fact, now(tx)))


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as it is shown and as it is called; calling one again changes nothing more."""

    title: str
    description: str
    takes: type[Model]
    gives: type[Model]
    call: Callable[[Caller, Any], Awaitable[Model]]
    reads_only: bool = False
    destroys: bool = False


TOOLS: Final = {
    "remember": ToolSpec(
        "Remember a fact",
        "Store one lasting fact about the user for later conversations. Only what the user said "
        "themselves and what will still matter in weeks; no guesses, no passwords or keys, nothing "
        "that holds for today only. A repeated fact is recognized, so it is safe to call again.",
        RememberIn,
        RememberOut,
        remember,
    ),
    "recall": ToolSpec(
        "Recall what matters now",
        "Get what is remembered about the user: what always holds, and what fits the query. Use it "
        "where it helps; don't recite it unless the user asks.",
        RecallIn,
        RecallOut,
        recall,
        reads_only=True,
    ),
    "list_facts": ToolSpec(
        "List facts",
        "List what is remembered about the user, newest first, with the ids that `forget` takes. "
        "For when the user asks what you know about them; before answering, use `recall`.",
        ListIn,
        ListOut,
        list_facts,
        reads_only=True,
    ),
    "forget": ToolSpec(
        "Forget a fact",
        "Stop using one fact, when the user asks for it or says that it is no longer true. "
        "It is served no more; it stays in the history, from where it can be restored.",
        ForgetIn,
        ForgetOut,
        forget,
        destroys=True,
    ),
}
