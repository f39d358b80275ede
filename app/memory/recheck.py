"""By night, what an older guard let in is held against today's, so that it is looked at once.

What passes is marked as seen. A live fact with a secret goes to quarantine, where nobody is shown
it; anything else that today's guard would not keep is left to the audit, which reports it.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, Literal, cast
from uuid import UUID

from sqlalchemy import and_, select, tuple_, update

from app.db import Scope
from app.memory import guard
from app.memory.core import Core
from app.memory.covered import covered
from app.memory.learn import live
from app.memory.policy import policy_of
from app.memory.quarantine import take
from app.memory.tenants import every_tenant
from app.memory.users import lock_user
from app.models import Fact

if TYPE_CHECKING:
    from app.llm import Kind

SECRET: Final = "secret"  # noqa: S105 - a reason, none itself
_BY: Final = "worker:guard"
_TOGETHER: Final = 500
_UNSEEN: Final = Fact.guard_version < guard.VERSION

_Fate = Literal["seen", "secret"]
_Fates = Mapping[UUID, Mapping[_Fate, list[UUID]]]


async def recheck_every_tenant(core: Core) -> None:
    """Look at every fact that today's guard has not seen, tenant after tenant."""
    for tenant_id in await every_tenant(core.db):
        await recheck(core, tenant_id)


async def recheck(core: Core, tenant_id: UUID) -> None:
    """Look at a tenant's facts; opens its own short transactions. Safe to run twice."""
    async with core.db.tenant(tenant_id) as tx:
        blocked = (await policy_of(tx, core, tenant_id)).blocked
    query = select(Fact).where(Fact.tenant_id == tenant_id, _UNSEEN)
    query = query.order_by(Fact.user_id, Fact.id).limit(_TOGETHER)
    batch: list[Fact] = []
    while not batch or len(batch) == _TOGETHER:
        after = [(last.user_id, last.id) for last in batch[-1:]]
        following = [tuple_(Fact.user_id, Fact.id) > place for place in after]
        async with core.db.tenant(tenant_id) as tx:
            batch = list(await tx.scalars(query.where(*following)))
        if not batch:
            return
        # Off the event loop: half a second of looking.
        fates = await asyncio.to_thread(_fates, batch, blocked)
        for user_id, of in fates.items():
            await _settle(core, Scope(tenant_id, user_id), of)


def _fates(batch: Iterable[Fact], blocked: frozenset[str]) -> _Fates:
    fates: dict[UUID, dict[_Fate, list[UUID]]] = defaultdict(lambda: defaultdict(list))
    for fact in batch:
        decision = guard.check(fact.text, cast("Kind", fact.kind), blocked=blocked)
        if decision.reason == SECRET:
            fates[fact.user_id]["secret"].append(fact.id)
        elif decision.action == "keep" and _is_clean(fact):
            fates[fact.user_id]["seen"].append(fact.id)
    return fates


def _is_clean(fact: Fact) -> bool:
    said = (fact.subject, fact.extra)
    return (covered(fact.subject, 0), covered(fact.extra, 0)) == said


async def _settle(core: Core, scope: Scope, of: Mapping[_Fate, list[UUID]]) -> None:
    """Mark what was seen and take away what holds a secret, if it is as it was."""
    mine = and_(Fact.tenant_id == scope.tenant_id, Fact.user_id == scope.user_id, _UNSEEN)
    async with core.db.tenant(scope.tenant_id) as tx:
        person = await lock_user(tx, scope)
        if person is None:
            return
        seen = update(Fact).where(mine, Fact.id.in_(of.get("seen", ())))
        await tx.execute(seen.values(guard_version=guard.VERSION))
        secret = select(Fact.id).where(mine, live(), Fact.id.in_(of.get("secret", ())))
        if facts := set(await tx.scalars(secret)):
            await take(tx, person, facts, reason=SECRET, by=_BY)
