"""Whatever the OpenAPI document allows and forbids is sent to a real service, and its answers held
against that document. `make fuzz` takes its time; here it is a short run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT_KEY
from tests.databases import fresh
from tests.fleet import Fleet

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "3"))


@pytest.mark.timeout(3600)
def test_no_answer_is_a_fault_or_outside_the_document(urls, tmp_path):
    with fresh(urls) as its, Fleet.on(its, tmp_path, USERMEM_ROOT_KEY=ROOT_KEY) as fleet:
        fleet.run("migrate")
        key = fleet.tenant()
        url = fleet.api("--worker")
        ran = subprocess.run(
            [
                Path(sys.executable).with_name("schemathesis"),
                *("run", f"{url}/openapi.json", "--checks=all", f"--header=Authorization: Bearer {key}"),
                *(f"--max-examples={EXAMPLES}", "--continue-on-failure", "--seed=1", "--no-color"),
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    assert ran.returncode == 0, ran.stdout[-20_000:]
