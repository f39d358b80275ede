"""What is kept for a time only goes when its time is over, whether anybody asks again or not."""

from datetime import timedelta
from typing import Final
from uuid import UUID

from sqlalchemy import delete
from sqlalchemy.ext.asyncio import AsyncSession

from app.db import now
from app.memory import audit_log, forgetting, page_links, recall_log
from app.memory.core import Core
from app.memory.idempotency import KEPT_FOR
from app.memory.policy import policy_of
from app.memory.tenants import every_tenant
from app.models import IdempotencyKey, Message, SeenMessage

MESSAGE_IDS: Final = timedelta(days=30)


async def retain(core: Core) -> None:
    """Delete what is past its time, tenant by tenant, a transaction each."""
    for tenant_id in await every_tenant(core.db):
        async with core.db.tenant(tenant_id) as tx:
            await _retain_of(tx, core, tenant_id)


async def _retain_of(tx: AsyncSession, core: Core, tenant_id: UUID) -> None:
    policy = await policy_of(tx, core, tenant_id)
    await tx.execute(
        delete(Message).where(
            Message.tenant_id == tenant_id,
            Message.extracted_at <= now(tx) - policy.turn_retention,
        )
    )
    await tx.execute(
        delete(IdempotencyKey).where(
            IdempotencyKey.tenant_id == tenant_id, IdempotencyKey.created_at < now(tx) - KEPT_FOR
        )
    )
    await tx.execute(
        delete(SeenMessage).where(
            SeenMessage.tenant_id == tenant_id, SeenMessage.seen_at < now(tx) - MESSAGE_IDS
        )
    )
    await recall_log.expire(tx, tenant_id, policy.recall_log_retention)
    await page_links.expire(tx, tenant_id)
    await audit_log.expire(tx)
    await forgetting.expire_log(tx, tenant_id, policy)
