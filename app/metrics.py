"""Numbers for Prometheus: counts, times and states, never an id, a name or a word.

Every label has a short settled list of values (the pattern of a route, a status, a reason), so that
no tenant and no user can be told from what is shown.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final

import prometheus_client as prometheus
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

CONTENT_TYPE: Final = prometheus.CONTENT_TYPE_LATEST

registry = CollectorRegistry()
ProcessCollector(registry=registry)
prometheus.disable_created_metrics()  # type: ignore[no-untyped-call] # the library's gap

_QUICK: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 30)
_SLOW: Final = (0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


class _Times(Collector):
    """A histogram for what each recall is timed by several times, on the event loop's thread alone.

    The library's own, which may be used from any, takes four times as long to note a time.
    """

    def __init__(self, name: str, text: str, labels: Sequence[str]) -> None:
        self._name, self._text, self._labelnames = name, text, labels
        self._noted: dict[tuple[str, ...], list[float]] = {}
        registry.register(self)

    def labels(self, *values: str) -> Callable[[float], None]:
        """Give what notes a time in seconds."""
        noted = self._noted.setdefault(values, [0] * (len(_QUICK) + 2))

        def note(seconds: float) -> None:
            noted[bisect_left(_QUICK, seconds)] += 1
            noted[-1] += seconds

        return note

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """Give what was noted."""
        family = HistogramMetricFamily(self._name, self._text, labels=self._labelnames)
        for values, (*counts, total) in self._noted.items():
            bounds = map(floatToGoString, (*_QUICK, float("inf")))
            family.add_metric(values, list(zip(bounds, accumulate(counts), strict=True)), total)
        yield family


_requests = Counter(
    "usermem_requests", "Requests served.", ("method", "route", "status"), registry=registry
)
_request_seconds = _Times("usermem_request_seconds", "How long requests took.", ("method", "route"))
_recall_seconds = _Times(
    "usermem_recall_stage_seconds",
    "How long a stage of recall took: read, embed, rank, freeze.",
    ("stage",),
)
_recalls = Counter(
    "usermem_recalls",
    "Recalls answered: fresh, frozen, or degraded and by what.",
    ("answer",),
    registry=registry,
)
_jobs = Histogram(
    "usermem_job_seconds",
    "How long jobs ran, by task and by whether they failed.",
    ("task", "failed"),
    buckets=_SLOW,
    registry=registry,
)
_model_calls = Counter(
    "usermem_model_calls", "Questions to the model, by how they ended.", ("end",), registry=registry
)
_tokens = Counter(
    "usermem_model_tokens", "Tokens the model read and wrote.", ("direction",), registry=registry
)
_guard = Counter(
    "usermem_guard_verdicts",
    "What the guard decided on texts that wanted to become facts.",
    ("action", "reason"),
    registry=registry,
)
_facts = Counter("usermem_facts", "What extraction made of facts.", ("outcome",), registry=registry)
_checks = Gauge(
    "usermem_check",
    "A check of /readyz: 0 ok or off, 1 degraded, 2 failed.",
    ("check",),
    registry=registry,
)
_queue = Gauge(
    "usermem_queue_jobs", "Jobs in the queue: due, later, running.", ("state",), registry=registry
)
_oldest = Gauge(
    "usermem_queue_oldest_due_seconds", "How long the oldest due job waits.", registry=registry
)

_BADNESS: Final = {"ok": 0, "off": 0, "degraded": 1, "failed": 2}
_served: dict[tuple[str, str | None, int], tuple[Counter, Callable[[float], None]]] = {}
_stages = {stage: _recall_seconds.labels(stage) for stage in ("read", "embed", "rank", "freeze")}
_answers: dict[str, Counter] = {}


def served(method: str, route: str | None, status: int, seconds: float) -> None:
    """Count a request; `route` is the pattern that matched, not the path."""
    bound = _served.get((method, route, status))
    if bound is None:
        known = method if method in _METHODS else "other"
        named = route or "none"
        bound = _requests.labels(known, named, status), _request_seconds.labels(known, named)
        if known == method:  # what a caller invents is not kept
            _served[method, route, status] = bound
    bound[0].inc()
    bound[1](seconds)


def recall_stage(stage: str, seconds: float) -> None:
    """Note how long a stage of recall took."""
    _stages[stage](seconds)


def recalled(answer: str) -> None:
    """Count a recall: `fresh`, `frozen`, or the cause that degraded it."""
    bound = _answers.get(answer)
    if bound is None:
        bound = _answers[answer] = _recalls.labels(answer)
    bound.inc()


def job(task: str, seconds: float, *, failed: bool) -> None:
    """Count a job that ended."""
    _jobs.labels(task, str(failed).lower()).observe(seconds)


def model_call(end: str, input_tokens: int = 0, output_tokens: int = 0) -> None:
    """Count a question to the model, `ok` or by its error's code, and what it cost."""
    _model_calls.labels(end).inc()
    _tokens.labels("input").inc(input_tokens)
    _tokens.labels("output").inc(output_tokens)


def guarded(action: str, reason: str) -> None:
    """Count a verdict of the guard."""
    _guard.labels(action, reason).inc()


def extracted(**facts: int) -> None:
    """Count what a session brought: added, confirmed, superseded, quarantined, rejected."""
    for outcome, number in facts.items():
        _facts.labels(outcome).inc(number)


def state(
    checks: Mapping[str, str], jobs: Mapping[str, int] | None, oldest_due: float | None
) -> None:
    """Show how the service is; without `jobs` nothing could be learned about the queue."""
    for check, found in checks.items():
        _checks.labels(check).set(_BADNESS[found])
    if jobs is None:
        _queue.clear()
        _oldest.set(float("nan"))
        return
    for name, number in jobs.items():
        _queue.labels(name).set(number)
    _oldest.set(oldest_due or 0)


def render() -> bytes:
    """Give everything in Prometheus' text format."""
    return prometheus.generate_latest(registry)


def serve(address: str, port: int) -> None:
    """Serve this process's numbers from a thread: for a worker, which speaks no HTTP otherwise."""
    prometheus.start_http_server(port, address, registry)
