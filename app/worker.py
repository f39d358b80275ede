"""The worker: procrastinate's tasks over the verbs of `app.memory`, and the care of its queue.

A task that raises is tried again, for ever and ever more slowly: what a session did wrong is
settled by `extract` itself, so only the infrastructure's faults arrive here.
"""

import asyncio
from contextlib import suppress
from typing import Final
from uuid import UUID

from procrastinate import App, BaseRetryStrategy, PsycopgConnector, RetryDecision
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import Job, Status

from app.db import Scope
from app.memory import extract, learn, overdue
from app.memory.core import Core
from app.memory.jobs import DUE, EMBED, EXTRACT
from app.telemetry import logger

log = logger(__name__)

HEARTBEAT: Final = 5.0
DEAD_AFTER: Final = 20.0
"""Seconds without a heartbeat after which a worker's jobs are given to others."""

_RESTART_AFTER: Final = 2.0


class _Patiently(BaseRetryStrategy):
    def get_retry_decision(self, *, exception: BaseException, job: Job) -> RetryDecision:
        log.warning("job_failed", task=job.task_name, job=job.id, error=type(exception).__name__)
        return RetryDecision(retry_in={"seconds": min(2**job.attempts, 60)})


_patiently = _Patiently()


def build_queue(core: Core) -> App:
    """Give the queue's app with all tasks over one core."""
    app = App(connector=PsycopgConnector())

    def scope_of(tenant_id: str, user_id: str) -> Scope:
        return Scope(UUID(tenant_id), UUID(user_id))

    @app.task(name=DUE, retry=_patiently)
    async def due(tenant_id: str, user_id: str, session_id: str) -> None:
        await extract.look_at(core, scope_of(tenant_id, user_id), UUID(session_id))

    @app.task(name=EXTRACT, retry=_patiently)
    async def extract_session(tenant_id: str, user_id: str, session_id: str) -> None:
        await extract.extract_session(core, scope_of(tenant_id, user_id), UUID(session_id))

    @app.task(name=EMBED, retry=_patiently)
    async def embed(tenant_id: str, user_id: str) -> None:
        await learn.embed_missing(core, scope_of(tenant_id, user_id))

    @app.periodic(cron="* * * * * */10")
    @app.task(name="rescue", queueing_lock="rescue")
    async def rescue(timestamp: int) -> None:
        del timestamp
        await _take_over(app)
        await overdue.wake(core.db)

    return app


async def _take_over(app: App) -> None:
    manager = app.job_manager
    for job in await manager.get_stalled_jobs(seconds_since_heartbeat=DEAD_AFTER):
        log.warning("job_taken_over", task=job.task_name, job=job.id)
        try:
            await manager.retry_job(job)
        except ConnectorException:
            # One like it waits already: this one has nothing left to do.
            await manager.finish_job(job, Status.FAILED, delete_job=True)


class Worker:
    """One worker in this process; starts itself again when the database was away."""

    def __init__(self, core: Core, *, concurrency: int) -> None:
        self._pool = core.db.pool
        self._concurrency = concurrency
        self._app = build_queue(core)
        self._stopping = asyncio.Event()
        self._run: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Work until `stop`. Jobs under way are finished first, for a bounded time."""
        while not self._stopping.is_set():
            try:
                await self._work()
            except Exception:
                log.exception("worker_failed")
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), _RESTART_AFTER)

    async def _work(self) -> None:
        async with self._app.open_async(self._pool):
            await _take_over(self._app)
            self._run = asyncio.create_task(
                self._app.run_worker_async(
                    concurrency=self._concurrency,
                    delete_jobs="always",
                    fetch_job_polling_interval=5.0,
                    install_signal_handlers=False,
                    shutdown_graceful_timeout=20.0,
                    stalled_worker_timeout=DEAD_AFTER,
                    update_heartbeat_interval=HEARTBEAT,
                )
            )
            if self._stopping.is_set():
                self._run.cancel()
            with suppress(asyncio.CancelledError):
                await self._run

    def stop(self) -> None:
        """Ask the worker to finish what it does and return."""
        self._stopping.set()
        if self._run is not None:
            self._run.cancel()  # the worker takes this as a graceful stop
