"""What `/metrics` shows and to whom, and what `/readyz` says of work that does not move."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args
from uuid import uuid4

import httpx2
import pytest
import yaml
from pydantic import SecretStr

from app import metrics
from app.deps import secret_digest
from app.embeddings.seam import State
from app.memory import health
from app.memory.core import Check
from tests.api.test_errors import check_problem
from tests.fakes import FakeEmbedder, silence, until, working
from tests.world import Caller, World

ALERTS = Path(__file__).parents[1] / "docs" / "operations" / "alerts.yml"


@pytest.fixture(autouse=True)
def _alone(world: World):
    silence(world)
    world.execute("delete from procrastinate_workers")
    world.execute("delete from worker_state")


async def numbers(world: World) -> dict[str, float]:
    answer = await world.http.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    lines = [line.rpartition(" ") for line in answer.text.splitlines() if line[0] != "#"]
    return {name: float(value) for name, _, value in lines}


async def grown(world: World, before: dict[str, float]) -> dict[str, float]:
    after = await numbers(world)
    return {name: n - before.get(name, 0) for name, n in after.items() if n != before.get(name, 0)}


async def test_requests_recalls_guard_and_facts_are_counted(alice: Caller):
    before = await numbers(alice.world)
    await alice.say("I prefer window seats.", "I live in Lisbon.")
    await alice.block("Which seat?")
    await alice.get("/facts/nonsense")
    more = await grown(alice.world, before)

    memory = 'method="GET",route="/v1/users/{user}/memory"'
    assert more[f'usermem_requests_total{{{memory},status="200"}}'] == 1
    assert more[f"usermem_request_seconds_count{{{memory}}}"] == 1
    one_fact = 'method="GET",route="/v1/users/{user}/facts/{fact}"'
    assert more[f'usermem_requests_total{{{one_fact},status="422"}}'] == 1
    assert more['usermem_recalls_total{answer="fresh"}'] == 1
    for stage in ("read", "embed", "rank"):
        assert more[f'usermem_recall_stage_seconds_count{{stage="{stage}"}}'] == 1
    assert more['usermem_guard_verdicts_total{action="keep",reason=""}'] == 2
    assert more['usermem_facts_total{outcome="added"}'] == 2


async def test_a_job_is_counted_by_its_task_and_by_whether_it_failed(alice: Caller):
    before = await numbers(alice.world)
    async with working(alice.world.core):
        body = {"messages": [{"role": "user", "content": "I live in Lisbon."}]}
        await alice.post("/transcripts", body)
        done = 'usermem_job_seconds_count{failed="false",task="extract"}'

        async def counted() -> bool:
            return (await grown(alice.world, before)).get(done) == 1

        await until(counted)


async def test_no_label_names_a_tenant_a_user_or_a_word(alice: Caller):
    canary = "zqxlabel"
    caller = Caller(alice.world, alice.tenant_id, alice.key, canary)
    await caller.say(f"I prefer {canary} seats.", session=canary)
    await caller.block(canary)
    await caller.call(canary.upper(), f"/v1/{canary}")
    await caller.call("GET", f"/{canary}")

    text = (await alice.world.http.get("/metrics")).text

    assert canary not in text.lower()
    assert str(alice.tenant_id) not in text
    assert alice.tenant_id.hex not in text
    labels = set(re.findall(r"(\w+)=\"", text))
    assert labels <= {
        *("method", "route", "status", "le", "stage", "answer", "task", "failed"),
        *("end", "direction", "action", "reason", "outcome", "check", "state"),
    }


def at(world: World, address: str, token: str | None = None):
    """The same service, asked from another address."""
    digest = secret_digest(SecretStr(token) if token else None)

    async def app(scope, receive, send):
        scope["client"] = (address, 1)
        await world.app({**scope, "state": {**world.state, "metrics_token": digest}}, receive, send)

    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://test")


@pytest.mark.parametrize(
    ("address", "header", "status"),
    [
        ("127.0.0.1", {}, 200),
        ("::1", {}, 200),
        ("10.0.0.7", {}, 401),
        ("10.0.0.7", {"Authorization": "Bearer " + "t" * 20}, 200),
        ("10.0.0.7", {"Authorization": "Bearer " + "x" * 20}, 401),
        ("127.0.0.1", {"X-Forwarded-For": "203.0.113.9"}, 401),
        ("", {}, 401),
    ],
)
async def test_metrics_are_for_loopback_or_the_token(world: World, address, header, status):
    async with at(world, address, "t" * 20) as http:
        answer = await http.get("/metrics", headers=header)
    if status == 200:
        assert answer.status_code == 200
    else:
        check_problem(answer, 401, "unauthorized")


async def test_without_a_token_nobody_from_elsewhere_gets_in(world: World):
    async with at(world, "10.0.0.7") as http:
        check_problem(await http.get("/metrics", headers={"Authorization": "Bearer "}), 401)
        check_problem(await http.get("/metrics", headers={"Authorization": "Bearer None"}), 401)


async def readyz(world: World) -> dict[str, Any]:
    return (await world.http.get("/readyz")).json()


async def test_no_worker_and_a_job_that_waits_are_seen_and_alerted(alice: Caller):
    body = {"messages": [{"role": "user", "content": "I live in Lisbon."}]}
    await alice.post("/transcripts", body)
    alice.world.execute("update procrastinate_events set at = now() - interval '10 minutes'")

    ready = await readyz(alice.world)
    found = await numbers(alice.world)

    assert (ready["status"], ready["checks"]["worker"]) == ("degraded", "failed")
    assert 600 <= ready["oldest_waiting_job_s"] < 660
    assert found['usermem_check{check="worker"}'] == 2
    assert found['usermem_queue_jobs{state="due"}'] == 1
    assert found["usermem_queue_oldest_due_seconds"] >= 600


async def test_a_worker_of_another_process_is_seen(world: World):
    assert (await readyz(world))["checks"]["worker"] == "failed"
    async with working(world.core):
        await until(lambda: world.rows("select count(*) from procrastinate_workers") == [(1,)])
        assert (await readyz(world))["checks"]["worker"] == "ok"


async def test_a_model_that_fails_a_worker_elsewhere_is_seen_here(world: World):
    assert (await readyz(world))["checks"]["model"] == "off"
    for state in get_args(Check)[:3]:
        await health.tell(replace(world.core, model_state=iter((state,)).__next__), uuid4())
        ready = await readyz(world)
        assert ready["checks"]["model"] == state
        assert ready["status"] == "degraded"  # no worker runs here
        world.execute("delete from worker_state")
    await health.tell(replace(world.core, model_state=lambda: "failed"), uuid4())
    await health.tell(replace(world.core, model_state=lambda: "ok"), uuid4())
    assert (await readyz(world))["checks"]["model"] == "failed"
    world.execute("update worker_state set seen_at = now() - interval '2 minutes'")
    assert (await readyz(world))["checks"]["model"] == "off"


@pytest.mark.parametrize("state", ["degraded", "failed"])
async def test_an_embedder_that_failed_lately_is_seen_and_asked_nothing(world: World, state: State):
    embedder = FakeEmbedder()
    embedder.state, embedder.is_down = state, True
    assert (await readyz(world))["checks"]["embedder"] == "ok"
    for core in replace(world.core, embedder=embedder), replace(world.core, previous=embedder):
        async with world.over(core) as other:
            answer = await other.http.get("/readyz")
        assert answer.status_code == 200
        assert answer.json()["checks"]["embedder"] == state


async def test_a_worker_tells_of_its_model(world: World):
    elsewhere = replace(world.core, model_state=lambda: "degraded")
    async with working(elsewhere):
        await until(lambda: world.rows("select model from worker_state") == [("degraded",)])
    assert (await readyz(world))["checks"]["model"] == "degraded"


def _rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(ALERTS.read_text())["groups"]
    return group["rules"]


def test_an_alert_is_raised_on_numbers_that_there_are():
    families = {metric.name: metric for metric in metrics.registry.collect()}
    shown = {
        sample: metric.type
        for name, metric in families.items()
        for sample in (name, f"{name}_total", f"{name}_bucket", f"{name}_count", f"{name}_sum")
    }
    assert len(_rules()) >= 8
    for rule in _rules():
        named = re.findall(r"\busermem_\w+", rule["expr"])
        assert named
        for name in named:
            kind = shown[name]
            assert name.endswith("_total") == (kind == "counter"), name
            assert name.endswith(("_bucket", "_count")) == (kind == "histogram"), name
        for name, labels in re.findall(
            r"\b(usermem_\w+)\{((?:[^}\"]|\"[^\"]*\")*)\}", rule["expr"]
        ):
            known = {f"{metric}{end}": metric for metric in families for end in _ENDS}
            has = {*getattr(metrics, _OF[known[name]])._labelnames, "le"}
            assert set(re.findall(r"(\w+)[=!]", labels)) <= has, rule["alert"]
        assert {"alert", "expr", "for", "labels", "annotations"} <= set(rule)
        assert rule["expr"].count("(") == rule["expr"].count(")")


_ENDS = ("", "_total", "_bucket", "_count", "_sum")
_OF = {
    "usermem_requests": "_requests",
    "usermem_request_seconds": "_request_seconds",
    "usermem_recalls": "_recalls",
    "usermem_job_seconds": "_jobs",
    "usermem_model_calls": "_model_calls",
    "usermem_guard_verdicts": "_guard",
    "usermem_check": "_checks",
}


@pytest.mark.parametrize("check", ["database", "worker", "model"])
def test_what_readiness_finds_has_an_alert_within_five_minutes(check: str):
    rules = [rule for rule in _rules() if re.search(rf'check=~?"[a-z|]*{check}', rule["expr"])]
    assert rules
    assert all(int(rule["for"].removesuffix("m")) <= 5 for rule in rules)
