"""The worker: procrastinate's tasks over the verbs of `app.memory`, and the care of its queue.

A job is only a wake-up: what there is to do stands in the session's row, with the time by which
somebody must have looked at it. So a lost job costs time and nothing else, and a job that runs
twice finds its work done.
"""

import asyncio
import datetime as dt
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID, uuid4

from procrastinate import App, BaseRetryStrategy, JobContext, PsycopgConnector, RetryDecision
from procrastinate.exceptions import ConnectorException, UniqueViolation
from procrastinate.jobs import Job, Status
from procrastinate.manager import JobManager
from sqlalchemy.exc import DBAPIError

from app import metrics, tracing
from app.db import Scope
from app.memory import (
    audit,
    erasures,
    extract,
    forgetting,
    health,
    learn,
    overdue,
    recheck,
    rejudge,
    retention,
)
from app.memory.core import Core
from app.memory.jobs import DUE, EMBED, EXTRACT, REJUDGE
from app.telemetry import logger

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Pace:
    """How often a worker shows life and looks around, in seconds."""

    heartbeat: float = 5
    dead_after: float = 30
    """Without a heartbeat; then a worker's jobs are given to others."""
    drain: float = 20
    """Given to jobs under way when the worker stops. It shows no life meanwhile, so this and a
    heartbeat must fit into `dead_after`."""
    poll: float = 2
    """Between looks for jobs whose time has come; new ones announce themselves."""
    care: float = 10
    restart: float = 2
    patience: float = 10
    """With Postgres, for any statement of the queue; after that it counts as cut off."""


FIRST: Final = 1
"""The priority of what people are owed, so what ends at a promised time: it goes before all else.

What only looks after the store takes its turn as a tenant's jobs do, or a flood would starve it."""

_CONNECTIONS: Final = 4
_TRY_AGAIN: Final = (0.1, 0.5, 2.0, 5.0)

# `is not distinct from`: the worker of a job is null once its dead worker's row is gone.
_HELD = "id = %(id)s and status = 'doing' and worker_id is not distinct from %(worker_id)s"
_FINISH = f"""
    with ended as (delete from procrastinate_jobs where {_HELD} returning lock)
    select pg_notify('procrastinate_any_queue_v1', '{{"type": "job_inserted", "job_id": 0}}')
    from ended where exists (
      select from procrastinate_jobs next where next.lock = ended.lock and next.status = 'todo')
    """  # noqa: S608 - constants of this module
_GIVE_BACK = f"""
    with back as (
      update procrastinate_jobs job
      set status = 'todo', attempts = attempts + 1, scheduled_at = now() + %(wait)s::interval,
        worker_id = null
      where {_HELD} and not exists (
        select from procrastinate_jobs twin
        where twin.queueing_lock = job.queueing_lock and twin.status = 'todo')
      returning id)
    delete from procrastinate_jobs where {_HELD} and not exists (select from back)
    """  # noqa: S608 - as above


# As procrastinate's own, with its rule of locks, but for whose turn it is. A branch of the union is
# tried only when those before it gave nothing.
_DUE = """
    select job.id from procrastinate_jobs job
    where job.status = 'todo' and (job.scheduled_at is null or job.scheduled_at <= now())
      and (job.lock is null or not exists (
        select from procrastinate_jobs other
        where other.lock = job.lock
          and (other.status = 'doing' or (other.status = 'todo' and other.id < job.id))))
      and {whose}
    order by {order} limit 1 for update of job skip locked
    """
_TENANT = "coalesce(job.args ->> 'tenant_id', '')"
_FETCH = f"""
    with next as materialized (
      select id from ({_DUE.format(whose="job.priority > 0", order="job.priority desc, job.id")}) u
      union all
      select id from ({_DUE.format(whose=f"{_TENANT} > %(last)s", order=f"{_TENANT}, job.id")}) v
      union all
      select id from ({_DUE.format(whose=f"{_TENANT} <= %(last)s", order=f"{_TENANT}, job.id")}) w
      limit 1)
    update procrastinate_jobs job set status = 'doing', worker_id = %(worker_id)s
    from next where job.id = next.id returning job.*
    """  # noqa: S608 - as above


class _Jobs(JobManager):
    """procrastinate's own, but for the end of a job, which only its holder may write.

    Otherwise a worker that was paused, and presumed dead, would end the job of whoever took over
    from it, and with it that job's lock. A job whose twin waits already can't be put back: it goes,
    instead of staying `doing` for ever with its user's lock. The next job of a lock that becomes
    free is announced, or it would wait for a poll. And tenants take turns: whoever posts ten
    thousand conversations at once waits for them, and nobody else does.
    """

    _last = ""
    """The tenant whose turn it was."""

    on_stuck: Callable[[], object] = staticmethod(lambda: None)
    """Called when the end of a job can't be written: a new worker must take over this one's."""

    async def fetch_job(self, queues: Iterable[str] | None, worker_id: int) -> Job | None:
        """Take what is urgent, else the oldest job of the next tenant that has one due."""
        del queues
        while True:
            try:
                rows = await self.connector.execute_query_all_async(
                    _FETCH, last=self._last, worker_id=worker_id
                )
            except UniqueViolation:
                continue  # another worker took a job of the same lock at this moment
            if not rows:
                return None
            self._last = rows[0]["args"].get("tenant_id", "")
            return Job.from_row(rows[0])

    async def finish_job(self, job: Job, status: Status, delete_job: bool) -> None:  # noqa: FBT001 - overrides
        """Delete the job, however it ended."""
        del status, delete_job
        await self._write(_FINISH, job)

    async def retry_job(
        self,
        job: Job,
        retry_at: dt.datetime | None = None,
        priority: int | None = None,
        queue: str | None = None,
        lock: str | None = None,
    ) -> None:
        """Put the job back, unchanged, until `retry_at`; or delete it when its twin waits."""
        del priority, queue, lock
        # Reckoned by this process's clock: the database's may be another.
        wait = None if retry_at is None else retry_at - dt.datetime.now(dt.UTC)
        await self._write(_GIVE_BACK, job, wait=wait)

    async def _write(self, query: str, job: Job, **arguments: Any) -> None:
        for wait in (*_TRY_AGAIN, None):
            try:
                await self.connector.execute_query_async(
                    query, id=job.id, worker_id=job.worker_id, **arguments
                )
            except ConnectorException:
                if wait is None:
                    self.on_stuck()
                    raise
                await asyncio.sleep(wait)
            else:
                return


class _Retry(BaseRetryStrategy):
    def get_retry_decision(self, *, exception: BaseException, job: Job) -> RetryDecision | None:
        if isinstance(exception, asyncio.CancelledError):
            return RetryDecision()  # stopped in the middle: the next worker goes on at once
        log.warning("job_failed", task=job.task_name, job=job.id, error=type(exception).__name__)
        if job.lock is not None:
            # Waiting, it would block every other session of its user. `overdue` finds its own. But
            # once is soon enough where a connection had died.
            was_cut = isinstance(exception, DBAPIError) and not job.attempts
            return RetryDecision(retry_in={"seconds": 1}) if was_cut else None
        return RetryDecision(retry_in={"seconds": 2 ** min(job.attempts, 6)})


def build_queue(core: Core) -> App:
    """Give the queue's app with all tasks over one core."""
    app = App(connector=PsycopgConnector())
    app.job_manager = _Jobs(app.connector)
    retry = _Retry()

    def scope_of(tenant_id: str, user_id: str) -> Scope:
        return Scope(UUID(tenant_id), UUID(user_id))

    @app.task(name=DUE, retry=retry)
    async def due(tenant_id: str, user_id: str, session_id: str) -> None:
        await extract.look_at(core, scope_of(tenant_id, user_id), UUID(session_id))

    @app.task(name=EXTRACT, retry=retry)
    async def extract_session(tenant_id: str, user_id: str, session_id: str) -> None:
        await extract.extract_session(core, scope_of(tenant_id, user_id), UUID(session_id))

    @app.task(name=EMBED, retry=retry)
    async def embed(tenant_id: str, user_id: str) -> None:
        await learn.embed_missing(core, scope_of(tenant_id, user_id))

    @app.task(name=REJUDGE, retry=retry)
    async def judge_again(tenant_id: str, user_id: str, fact_id: str) -> None:
        await rejudge.rejudge(core, scope_of(tenant_id, user_id), UUID(fact_id))

    # Every worker offers these; the queue takes it once each time.
    @app.periodic(cron="30 3 * * *")
    @app.task(name="audit", queueing_lock="audit")
    async def audit_tenants(timestamp: int) -> None:
        del timestamp
        await recheck.recheck_every_tenant(core)
        await audit.audit_every_tenant(core)

    # Asked each hour, for a worker may be down at any of them; the night itself knows its end.
    @app.periodic(cron="7 * * * *")
    @app.task(name="forget", queueing_lock="forget", priority=FIRST)
    async def forget_by_night(timestamp: int) -> None:
        del timestamp
        await forgetting.forget_every_tenant(core)

    @app.periodic(cron="17 * * * *")
    @app.task(name="retain", queueing_lock="retain", priority=FIRST)
    async def retain_by_time(timestamp: int) -> None:
        del timestamp
        await retention.retain(core)

    return app


async def _observed(work: Callable[[], Awaitable[Any]], context: JobContext, _: object) -> Any:
    """Do a job, and tell how long it took and whether it failed."""
    task, started, failed = context.job.task_name, time.perf_counter(), True
    try:
        with tracing.span(f"job {task}"):
            result = await work()
        failed = False
        return result
    finally:
        metrics.job(task, time.perf_counter() - started, failed=failed)


class Worker:
    """One worker in this process; starts itself again when the database was away."""

    def __init__(self, core: Core, *, concurrency: int, pace: Pace | None = None) -> None:
        self._core = core
        self._concurrency = concurrency
        self._pace = pace or Pace()
        self._stopping = asyncio.Event()
        self._id = uuid4()

    async def run(self) -> None:
        """Work until `stop`. Jobs under way are finished first, for a bounded time."""
        while not self._stopping.is_set():
            try:
                await self._work()
            except Exception:
                log.exception("worker_failed")
            if not self._stopping.is_set():
                log.warning("worker_restarts")
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), self._pace.restart)

    def stop(self) -> None:
        """Ask the worker to finish what it does and return."""
        self._stopping.set()

    async def _work(self) -> None:
        """Work until `stop`, or until the database fails the queue's worker or lacks erasures."""
        if not await self._may_work():
            return
        app = build_queue(self._core)
        # Its own: behind a crowd of recalls its heartbeat would stop.
        pool = self._core.db.pool_apart(_CONNECTIONS, patience=self._pace.patience)
        async with pool, app.open_async(pool):
            run = asyncio.create_task(self._run(app), name="queue")
            if isinstance(app.job_manager, _Jobs):
                app.job_manager.on_stuck = run.cancel
            aside = [
                asyncio.create_task(self._care(app), name="care"),
                asyncio.create_task(self._stopping.wait(), name="stopping"),
                asyncio.create_task(erasures.wait_for_a_lack(self._core), name="ledger"),
            ]
            try:
                await asyncio.wait({run, *aside}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in (run, *aside):
                    task.cancel()  # the queue's worker takes this as a graceful stop
                await asyncio.wait({run, *aside})
            if not run.cancelled():
                run.result()

    async def _may_work(self) -> bool:
        """Wait until no erased user's words can be worked on; False when asked to stop first."""
        ready = asyncio.create_task(erasures.wait_for_all(self._core), name="ledger")
        stopping = asyncio.create_task(self._stopping.wait(), name="stopping")
        await asyncio.wait({ready, stopping}, return_when=asyncio.FIRST_COMPLETED)
        for task in (ready, stopping):
            task.cancel()
        await asyncio.wait({ready, stopping})
        return not self._stopping.is_set()

    async def _run(self, app: App) -> None:
        await app.run_worker_async(
            concurrency=self._concurrency,
            delete_jobs="always",
            fetch_job_polling_interval=self._pace.poll,
            install_signal_handlers=False,
            shutdown_graceful_timeout=self._pace.drain,
            stalled_worker_timeout=self._pace.dead_after,
            update_heartbeat_interval=self._pace.heartbeat,
            worker_middleware=[_observed],
        )

    async def _care(self, app: App) -> None:
        """Take over from the dead and wake the overdue, now and then.

        Beside the queue, not in it: there it would wait behind the very jobs that nobody does.
        """
        while True:
            try:
                await self._take_over(app)
                await overdue.wake(self._core.db)
                await health.tell(self._core, self._id)
            except Exception as error:  # noqa: BLE001 - the database is away; the queue notices too
                log.warning("care_failed", error=type(error).__name__)
            await asyncio.sleep(self._pace.care)

    async def _take_over(self, app: App) -> None:
        manager = app.job_manager
        for job in await manager.get_stalled_jobs(seconds_since_heartbeat=self._pace.dead_after):
            log.warning("job_taken_over", task=job.task_name, job=job.id)
            await manager.retry_job(job)  # nothing, if another rescuer was first
