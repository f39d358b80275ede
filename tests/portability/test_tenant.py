"""A whole tenant in one file: every user, nobody else's, and each can be brought back alone."""

import io
import json
import os
import stat

from typer.testing import CliRunner

from app import cli
from app.memory.export import export_tenant
from tests.portability.files import Records, put
from tests.world import Caller


def _by_user(content: bytes) -> dict[str, Records]:
    users: dict[str, Records] = {}
    user = ""
    for line in content.splitlines():
        record = json.loads(line)
        if record["type"] == "export":
            user = record["user"]
        users.setdefault(user, []).append(record)
    return users


async def test_every_user_is_there_and_can_be_imported_alone(alice: Caller, other: Caller):
    for name in ("alice", "bob", "=carol", "übung"):
        await alice.of(name).post(
            "/facts", {"text": f"Uses tool {name[-3:]}.", "kind": "preference"}
        )
    await other.post("/facts", {"text": "Uses something foreign.", "kind": "preference"})
    out = io.BytesIO()

    count = await export_tenant(alice.world.core.db, alice.tenant_id, out, by="cli")

    users = _by_user(out.getvalue())
    assert count == 4
    assert set(users) == {"alice", "bob", "'=carol", "übung"}
    assert b"foreign" not in out.getvalue()
    newcomer = other.of("newcomer")
    report = (await put(newcomer, *users["bob"])).json()
    assert (report["imported"], report["rejected"]) == (1, {})
    all_at_once = await put(newcomer, *users["alice"], *users["bob"])
    assert (all_at_once.status_code, all_at_once.json()["code"]) == (422, "several_users")


async def test_the_facts_of_the_organization_come_first_under_nobodys_name(alice: Caller):
    rule = {"text": "We deploy on Fridays.", "kind": "constraint"}
    await alice.call("POST", "/v1/organization/facts", json=rule)
    await alice.post("/facts", {"text": "Uses Postgres.", "kind": "preference"})
    out = io.BytesIO()

    count = await export_tenant(alice.world.core.db, alice.tenant_id, out, by="cli")

    records = [json.loads(line) for line in out.getvalue().splitlines()]
    headers = [(one["user"], n) for n, one in enumerate(records) if one["type"] == "export"]
    assert count == 1
    assert [user for user, _ in headers] == [None, "alice"]
    texts = [
        [one["text"] for one in part if one["type"] == "fact"]
        for part in (records[: headers[1][1]], records[headers[1][1] :])
    ]
    assert texts == [["We deploy on Fridays."], ["Uses Postgres."]]
    log = (await alice.call("GET", "/v1/audit-log", params={"action": "tenant_exported"})).json()
    assert [(entry["actor"], entry["user"]) for entry in log["items"]] == [("cli", None)]


async def test_users_are_read_page_by_page(alice: Caller, monkeypatch):
    monkeypatch.setattr("app.memory.export._TOGETHER", 2)
    for n in range(5):
        await alice.of(f"user {n}").call(
            "PUT", alice.of(f"user {n}").base + "/settings", json={"locale": "en"}
        )
    out = io.BytesIO()

    assert await export_tenant(alice.world.core.db, alice.tenant_id, out, by="cli") == 5
    assert sorted(_by_user(out.getvalue())) == [f"user {n}" for n in range(5)]


def test_the_command_writes_a_file_for_its_owner_alone(urls, tmp_path, monkeypatch):
    monkeypatch.setenv("USERMEM_DATABASE_URL", urls.service)
    monkeypatch.setenv("USERMEM_MIGRATE_DATABASE_URL", urls.owner)
    monkeypatch.setenv("USERMEM_SIGNING_KEY", "k" * 40)
    runner = CliRunner()
    created = runner.invoke(cli.app, ["tenants", "create", f"to export {os.getpid()}"])
    tenant = json.loads(created.stdout)["tenant"]["id"]
    file = tmp_path / "tenant.ndjson"

    ran = runner.invoke(cli.app, ["tenants", "export", tenant, "--output", str(file)])

    assert ran.exit_code == 0, ran.output
    assert file.read_bytes() == b""
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    printed = runner.invoke(cli.app, ["tenants", "export", tenant])
    assert (printed.exit_code, printed.stdout) == (0, "")
