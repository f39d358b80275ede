"""What an operator reads who gives a command a wrong value, or no database."""

import json
import os
import socket
import subprocess

import pytest

from app import cli
from tests.fleet import USERMEM
from tests.serving import command
from tests.world import Caller, Urls


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
