"""What is kept for a time only goes when its time is over, whether anybody asks again or not."""

from datetime import timedelta
from typing import Final
from uuid import UUID

from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncSession

from app.db import now
from app.memory import audit_log, forgetting, page_links, recall_log
from app.memory.core import Core
from app.memory.idempotency import KEPT_FOR
from app.memory.policy import policy_of
from app.memory.tenants import every_tenant
from app.models import IdempotencyKey, Message, SeenMessage, User
from app.telemetry import logger

log = logger(__name__)

MESSAGE_IDS: Final = timedelta(days=30)


async def retain(core: Core) -> None:
    """Delete what is past its time, tenant by tenant; a fault costs only its own tenant."""
    for tenant_id in await every_tenant(core.db):
        try:
            async with core.db.tenant(tenant_id) as tx:
                await _retain_of(tx, core, tenant_id)
        except Exception as error:  # noqa: BLE001 - whatever it is, the next tenant's turn comes
            log.error("retention_failed", tenant=tenant_id.hex, error=type(error).__name__)  # noqa: TRY400 - a statement's text holds ids


async def _retain_of(tx: AsyncSession, core: Core, tenant_id: UUID) -> None:
    policy = await policy_of(tx, core, tenant_id)
    # Kept answers first: an erasure locks them before all that hangs on its user.
    await tx.execute(
        delete(IdempotencyKey).where(
            IdempotencyKey.tenant_id == tenant_id, IdempotencyKey.created_at < now(tx) - KEPT_FOR
        )
    )
    restricted = select(User.user_id).where(
        User.tenant_id == tenant_id, User.memory == "restricted"
    )
    await tx.execute(
        delete(Message).where(
            Message.tenant_id == tenant_id,
            Message.user_id.not_in(restricted),
            Message.extracted_at <= now(tx) - policy.turn_retention,
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
