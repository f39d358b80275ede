"""OpenTelemetry spans of requests and jobs, when `OTEL_EXPORTER_OTLP_ENDPOINT` names a collector.

Without it nothing is loaded and a span costs nothing. A span holds a route's pattern or a task's
name, a status and times: no path, no id, no text, and of an exception its type alone.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span as OtelSpan

ENDPOINT: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"

Headers = Sequence[tuple[bytes, bytes]]


class Span:
    """A span that nobody keeps."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is left to do."""

    def name(self, name: str) -> None:
        """Name it, once it is known what it was."""

    def tell(self, name: str, value: str | int) -> None:
        """Add an attribute: a settled word or a number."""


class _Kept(Span):
    def __init__(self, span: "OtelSpan") -> None:
        self._span = span

    def name(self, name: str) -> None:
        self._span.update_name(name)

    def tell(self, name: str, value: str | int) -> None:
        self._span.set_attribute(name, value)


_NOBODYS: Final = Span()
_provider: "TracerProvider | None" = None


def configure(exporter: "SpanExporter | None" = None) -> None:
    """Keep spans from now on, if a collector is named or an exporter is given."""
    global _provider  # noqa: PLW0603 - one per process, like the log
    if exporter is None and not os.environ.get(ENDPOINT):
        return
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 - loads the SDK
        OTLPSpanExporter,
    )
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - as above
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 - as above
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415 - as above

    name = os.environ.get("OTEL_SERVICE_NAME", "usermem")
    _provider = TracerProvider(resource=Resource.create({"service.name": name}))
    _provider.add_span_processor(BatchSpanProcessor(exporter or OTLPSpanExporter()))


def shutdown() -> None:
    """Send what waits, and keep no more spans."""
    global _provider  # noqa: PLW0603 - as above
    if _provider is not None:
        _provider.shutdown()
        _provider = None


def span(name: str, headers: Headers = ()) -> AbstractContextManager[Span]:
    """Give a span for a block; the headers may say whose part it is (`traceparent`)."""
    return _NOBODYS if _provider is None else _kept(_provider, name, headers)


@contextmanager
def _kept(provider: "TracerProvider", name: str, headers: Headers) -> Iterator[Span]:
    from opentelemetry.trace import SpanKind, Status, StatusCode  # noqa: PLC0415 - as above
    from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415 - as above
        TraceContextTextMapPropagator,
    )

    # The caller's trace and nothing else of the headers: baggage could be anything.
    carrier: dict[str, Any] = {
        key.decode("latin-1"): value.decode("latin-1")
        for key, value in headers
        if key == b"traceparent"
    }
    with provider.get_tracer("usermem").start_as_current_span(
        name,
        TraceContextTextMapPropagator().extract(carrier) if headers else None,
        SpanKind.SERVER if headers else SpanKind.CONSUMER,
        # An exception's text may quote what a user wrote.
        record_exception=False,
        set_status_on_exception=False,
    ) as current:
        try:
            yield _Kept(current)
        except BaseException as error:
            current.set_attribute("error.type", type(error).__qualname__)
            current.set_status(Status(StatusCode.ERROR))
            raise
