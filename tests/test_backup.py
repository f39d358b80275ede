"""A backup by the very lines of its page: noise without the key, the whole memory with it."""

import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import httpx2
import psycopg
import pytest

from app import db
from app.embedded import _wheel
from tests.databases import fresh
from tests.fleet import USERMEM, Fleet

PAGE = (Path(__file__).parent.parent / "docs" / "operations" / "backup.md").read_text()
KEYS, DUMP, RESTORE = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
CANARY = "xylophone-canary"

pytestmark = pytest.mark.skipif(
    shutil.which("age") is None, reason="Debian's package age is missing"
)


def shell(script: str, fleet: Fleet, folder: Path) -> subprocess.CompletedProcess[bytes]:
    """Run lines of the page in a folder, with the programs that they name."""
    path = f"{_wheel() / 'bin'}:{USERMEM.parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["/bin/bash", "-e", "-c", script],
        cwd=folder,
        env={**fleet.environment, "PATH": path, "SUPERUSER_URL": fleet.urls.superuser},
        capture_output=True,
        check=False,
    )


def learn(url: str, key: str, user: str, text: str) -> None:
    answer = httpx2.post(
        f"{url}/v1/users/{user}/facts",
        headers={"Authorization": f"Bearer {key}"},
        json={"text": text, "kind": "preference"},
        timeout=20,
    )
    assert answer.status_code == 201, answer.text


def texts(url: str, key: str, user: str) -> list[str]:
    headers = {"Authorization": f"Bearer {key}"}
    answer = httpx2.get(f"{url}/v1/users/{user}/facts", headers=headers, timeout=20)
    assert answer.status_code == 200, answer.text
    return [fact["text"] for fact in answer.json()["items"]]


@pytest.mark.timeout(300)
def test_a_backup_is_noise_without_its_key_and_the_whole_memory_with_it(urls, tmp_path):
    safe, store = tmp_path / "safe", tmp_path / "store"
    for folder in (safe, store):
        folder.mkdir()
    with fresh(urls) as before, fresh(urls) as after, Fleet.on(before, tmp_path) as fleet:
        db.migrate(before.superuser)
        key, url = fleet.tenant(), fleet.api()
        for user in ("alice", "bob"):
            learn(url, key, user, f"Likes {CANARY}.")
        assert shell(KEYS, fleet, safe).returncode == 0
        (safe / "backup.pub").rename(store / "backup.pub")

        made = shell(DUMP, fleet, store)

        assert (made.returncode, made.stderr) == (0, b"")
        stolen = (store / "memory.dump.age").read_bytes()
        assert CANARY.encode() not in stolen
        assert not re.search(rb"PGDMP|memory_fact", stolen)
        assert sorted(file.name for file in store.iterdir()) == ["backup.pub", "memory.dump.age"]
        # Whoever has the file alone, with a key of their own, does what the page says.
        shell("age-keygen --output backup.key", fleet, store)
        thief = shell("age --decrypt --identity backup.key memory.dump.age", fleet, store)
        assert (thief.returncode != 0, thief.stdout) == (True, b"")
        assert shell("pg_restore --file=- memory.dump.age", fleet, store).returncode != 0

        erased = httpx2.delete(
            f"{url}/v1/users/bob", headers={"Authorization": f"Bearer {key}"}, timeout=20
        )
        assert erased.status_code == 200
        shutil.copy(store / "memory.dump.age", safe)
        elsewhere = replace(fleet, urls=after)

        restored = shell(RESTORE, elsewhere, safe)

        assert restored.returncode == 0, restored.stderr
        with psycopg.connect(after.superuser) as connection:
            found = connection.execute("select text from memory_fact").fetchall()
        assert found == [(f"Likes {CANARY}.",)]
        url = elsewhere.api()  # among the fleet's processes, so it ends with them
        assert texts(url, key, "alice") == [f"Likes {CANARY}."]
        assert texts(url, key, "bob") == []


def test_a_dump_that_breaks_off_does_not_pass_for_one(urls, tmp_path):
    nowhere = replace(urls, superuser="postgresql://nobody@/nowhere?host=/nonexistent")
    fleet = Fleet(nowhere, tmp_path)
    assert shell(KEYS, fleet, tmp_path).returncode == 0
    assert shell(DUMP, fleet, tmp_path).returncode != 0
