"""Spans, where somebody collects them: of requests and jobs, and of nothing that anyone said."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import httpx2
import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from starlette.types import ASGIApp, Receive, Scope, Send

from app import tracing
from app.main import create_app
from app.settings import Settings
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


async def test_the_libraries_own_records_stay_off_whoever_collects(
    alice: Caller, kept: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
):
    """FastAPI tells any collector of the process what was sent, and why it was refused."""
    monkeypatch.setenv("FASTAPI_OTEL_AUTO_CONFIGURE", "true")
    monkeypatch.setattr("opentelemetry.trace.get_tracer_provider", lambda: tracing._provider)
    app = create_app(Settings(signing_key="k" * 40), alice.world.urls.service, with_worker=False)
    transport = httpx2.ASGITransport(_within(alice.world.state, app))
    async with httpx2.AsyncClient(transport=transport, base_url="http://here") as http:
        headers = {"Authorization": f"Bearer {alice.key}"}
        body = {"text": ["zqxspan"], "kind": "zqxspan"}
        answer = await http.post(f"{alice.base}/facts", json=body, headers=headers)
    assert answer.status_code == 422
    assert [span["name"] for span in spans(kept)] == ["POST /v1/users/{user}/facts"]


def _within(state: Mapping[str, Any], app: ASGIApp) -> ASGIApp:
    async def stated(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, "state": dict(state)}, receive, send)

    return stated


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
