"""Audits: what a person should look at."""

from fastapi import APIRouter, Depends

from app.api.facts import FactOut
from app.deps import CoreDep, CredentialDep, KeyedRoute, Needs
from app.memory.audit import audit_poisoning
from app.wire import Model

router = APIRouter(prefix="/v1/audits", route_class=KeyedRoute, tags=["audits"])
_admin = Depends(Needs("admin"))


class SuspectOut(Model):
    """A live fact, and the phrase it resembles, or `guard:` and why it would not get in today."""

    fact: FactOut
    user: str | None
    phrase: str
    score: float


class SuspectList(Model):
    """The report, worst first."""

    items: list[SuspectOut]


@router.post("/poisoning", dependencies=[_admin])
async def poisoning(core: CoreDep, key: CredentialDep) -> SuspectList:
    """Report live facts that resemble planted ones or that today's guard would refuse."""
    suspects, at = await audit_poisoning(core, key.tenant_id)
    items = [
        SuspectOut(
            fact=FactOut.of(suspect.fact, at),
            user=suspect.user,
            phrase=suspect.phrase,
            score=round(suspect.score, 4),
        )
        for suspect in suspects
    ]
    return SuspectList(items=items)
