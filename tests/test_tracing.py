"""Spans, where somebody collects them: of requests and jobs, and of nothing that anyone said."""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from app import tracing
from tests.fakes import silence, until, working
from tests.world import Caller

TRACE = "0af7651916cd43dd8448eb211c80319c"


@pytest.fixture
def kept() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    tracing.configure(exporter)
    yield exporter
    tracing.shutdown()


def spans(exporter: InMemorySpanExporter) -> list[dict[str, Any]]:
    assert tracing._provider is not None
    tracing._provider.force_flush()
    return [json.loads(span.to_json()) for span in exporter.get_finished_spans()]


async def test_a_request_is_a_span_of_its_callers_trace(alice: Caller, kept):
    headers = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01", "baggage": "user=zqxspan"}
    await alice.get("/memory", params={"query": "zqxspan"}, headers=headers)
    await alice.of("zqxspan").get("/facts/zqxspan", headers=headers)

    found = spans(kept)

    assert [span["name"] for span in found] == [
        "GET /v1/users/{user}/memory",
        "GET /v1/users/{user}/facts/{fact}",
    ]
    assert {span["context"]["trace_id"] for span in found} == {f"0x{TRACE}"}
    assert [span["attributes"] for span in found] == [
        {"http.response.status_code": 200},
        {"http.response.status_code": 422},
    ]
    assert "zqxspan" not in json.dumps(found)
    assert alice.key not in json.dumps(found)


async def test_a_job_is_a_span_without_whose_it_is(alice: Caller, kept):
    silence(alice.world)
    async with working(alice.world.core):
        body = {"messages": [{"role": "user", "content": "I prefer zqxspan."}]}
        await alice.post("/transcripts", body)
        await until(lambda: "job extract" in {span["name"] for span in spans(kept)})
    told = json.dumps(spans(kept))
    assert "zqxspan" not in told
    assert alice.tenant_id.hex not in told


async def test_an_exception_is_told_by_its_type_alone(kept):
    with pytest.raises(ValueError, match="zqxspan"), tracing.span("job extract"):
        raise ValueError("zqxspan")
    (span,) = spans(kept)
    assert span["attributes"] == {"error.type": "ValueError"}
    assert span["status"]["status_code"] == "ERROR"
    assert "zqxspan" not in json.dumps(span)


@pytest.mark.parametrize("endpoint", ["", "http://127.0.0.1:9"])
def test_the_sdk_is_loaded_only_where_a_collector_is_named(endpoint: str):
    script = (
        "import sys\n"
        "from app import tracing\n"
        "tracing.configure()\n"
        "tracing.span('x').__enter__()\n"
        "print('opentelemetry.sdk' in sys.modules)\n"
        "import os; sys.stdout.flush(); os._exit(0)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script],
        env={tracing.ENDPOINT: endpoint},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.strip() == str(bool(endpoint))
