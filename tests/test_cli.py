"""What an operator reads who gives a command a wrong value, or no database."""

import json
import os
import socket
import subprocess
from uuid import UUID

import pytest

from app import cli
from app.errors import Invalid, NotFound
from tests.conftest import ROOT_KEY
from tests.fleet import USERMEM
from tests.serving import command
from tests.world import Caller, Urls, World


async def test_a_key_that_is_to_live_for_no_time_is_not_made(urls: Urls, alice: Caller, tmp_path):
    made = ("keys", "create", str(alice.tenant_id), "--scopes", "recall")
    for span in ("0", "0s"):
        told = await command(urls, tmp_path / "ledger", *made, "--expires-in", span)
        assert told.exit_code == 2
    count = "select count(*) from api_key where tenant_id = %s and scopes = '{recall}'"
    assert alice.world.rows(count, alice.tenant_id) == [(0,)]


async def test_a_scope_that_is_named_twice_is_kept_once(urls: Urls, alice: Caller, tmp_path):
    made = ("keys", "create", str(alice.tenant_id), "--scopes", "recall,ingest,recall")
    told = await command(urls, tmp_path / "ledger", *made)
    assert json.loads(told.output)["scopes"] == ["recall", "ingest"]


def test_a_database_that_does_not_answer_is_one_plain_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("USERMEM_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")
    monkeypatch.setattr("sys.argv", ["usermem", "migrate"])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 1
    said = capsys.readouterr().err
    assert said == "usermem: The database does not answer. Is it up, and is its URL right?\n"


@pytest.mark.parametrize("what", [["worker"], ["serve", "--port", "0"]])
def test_a_process_that_still_waits_for_its_database_ends_when_told(what: list[str]):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        environment = {
            **os.environ,
            "USERMEM_DATABASE_URL": f"postgresql://a@127.0.0.1:{silent.getsockname()[1]}/a",
            "USERMEM_SIGNING_KEY": "k" * 40,
        }
        process = subprocess.Popen([USERMEM, *what], env=environment, stderr=subprocess.DEVNULL)
        try:
            silent.accept()[0].close()
            process.terminate()
            assert process.wait(15) == 0
        finally:
            process.kill()
            process.wait()


async def test_a_port_that_is_none_is_a_wrong_option(urls: Urls, tmp_path):
    told = await command(urls, tmp_path / "ledger", "serve", "--port", "70000")
    assert told.exit_code == 2


NAMES = (
    'x"; DROP TABLE memory_fact; --',
    "'); delete from tenant; --",
    "' OR '1'='1",
    "../../etc/passwd",
    "/etc/passwd",
    "..",
    "%",
    "_",
    "$(touch touched) `touch touched` ; touch touched",
    "{0} %s %(asked)s \\ \\x27",
    "\udcff",  # what the shell makes of a byte that is no UTF-8
    "two  spaces\tand a tab",
)


def _holdings(world: World) -> list[tuple[object, ...]]:
    """The schema, and how much each table holds of what these commands should not touch."""
    schema = world.rows(
        "select table_name, column_name, data_type from information_schema.columns"
        " where table_schema in ('public', 'app') order by 1, 2"
    )
    tables = sorted({str(name) for name, *_ in schema} - {"tenant", "api_key", "audit_log"})
    return schema + [
        (name, *world.rows(f'select count(*) from "{name}"'))
        for name in tables
        if world.rows("select to_regclass(%s) is not null", f"public.{name}") == [(True,)]
    ]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
async def test_a_tenants_name_is_a_name_to_every_command(
    urls: Urls, alice: Caller, tmp_path, monkeypatch: pytest.MonkeyPatch, name: str
):
    ledger, world = tmp_path / "apart" / "ledger", alice.world
    ledger.parent.mkdir()
    monkeypatch.chdir(tmp_path)
    await alice.say("I live in Porto.")
    before = _holdings(world)

    unknown = await command(urls, ledger, "keys", "create", name, "--scopes", "recall")
    assert isinstance(unknown.exception, NotFound)
    made = json.loads((await command(urls, ledger, "tenants", "create", name)).output)
    keyed = await command(urls, ledger, "keys", "create", name, "--scopes", "recall")
    exported = await command(urls, ledger, "tenants", "export", name)
    retried = await command(urls, ledger, "sessions", "retry", name, "--failed")
    audited = await command(urls, ledger, "audit", "poisoning", name)

    for told in (keyed, exported, retried, audited):
        assert told.exit_code == 0, (told.output, told.exception)
    assert world.rows(
        "select tenant_id from api_key where id = %s", json.loads(keyed.output)["id"]
    ) == [(UUID(made["tenant"]["id"]),)]
    assert _holdings(world) == before
    assert await alice.texts() == ["Lives in Porto."]
    assert {path.name for path in tmp_path.iterdir()} == {"apart"}
    world.execute("delete from tenant where id = %s", made["tenant"]["id"])


@pytest.mark.parametrize("name", NAMES, ids=ascii)
async def test_a_tenants_name_is_a_name_over_http(world: World, name: str):
    before = _holdings(world)
    made = await world.http.post(
        "/v1/tenants",
        content=json.dumps({"name": name}),
        headers={"Authorization": f"Bearer {ROOT_KEY}", "Content-Type": "application/json"},
    )
    assert made.status_code == 201, made.text
    assert _holdings(world) == before
    world.execute("delete from tenant where id = %s", made.json()["tenant"]["id"])


async def test_an_id_is_no_other_tenants_name(urls: Urls, alice: Caller, tmp_path):
    """Whoever may choose a name can't take over what is meant for another tenant."""
    named = await alice.world.tenant(str(alice.tenant_id))

    told = await command(
        urls,
        tmp_path / "ledger",
        "keys",
        "create",
        str(alice.tenant_id).upper(),
        "--scopes",
        "recall",
    )

    made = "select tenant_id from api_key where id = %s"
    assert alice.world.rows(made, json.loads(told.output)["id"]) == [(alice.tenant_id,)]
    assert named.tenant_id != alice.tenant_id


@pytest.mark.parametrize("asked", [name for name in NAMES if name != "\udcff"], ids=ascii)
async def test_a_key_or_a_user_is_only_what_is_named(urls: Urls, alice: Caller, tmp_path, asked):
    before = _holdings(alice.world)
    keys = alice.world.rows("select id, revoked_at from api_key order by id")
    revoked = await command(urls, tmp_path / "ledger", "keys", "revoke", asked)
    assert isinstance(revoked.exception, NotFound)

    user = await command(
        urls, tmp_path / "ledger", "keys", "create", str(alice.tenant_id),
        "--scopes", "recall", "--user", asked,
    )  # fmt: skip
    assert user.exit_code in {0, 2}
    if user.exit_code == 0:
        assert json.loads(user.output)["user"] == asked
    scopes = await command(
        urls, tmp_path / "ledger", "keys", "create", str(alice.tenant_id), "--scopes", asked
    )
    assert isinstance(scopes.exception, Invalid)
    assert _holdings(alice.world) == before
    now = dict(alice.world.rows("select id, revoked_at from api_key"))
    assert {key: now[key] for key, _ in keys} == dict(keys)
