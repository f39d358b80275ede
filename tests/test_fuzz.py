"""A real service is sent what its OpenAPI document allows and forbids, and its answers are held
against that document. Here it is a short run; `make fuzz` takes its time."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from app import db
from tests.conftest import ROOT_KEY
from tests.databases import fresh
from tests.fleet import Fleet

SHORT_RUN = ["--phases=examples,fuzzing", "--max-examples=3", "--seed=1"]
LONG_RUN = [f"--max-examples={os.environ.get('FUZZ_EXAMPLES')}"]
ROOT = Path(__file__).parent.parent


@pytest.mark.timeout(7200)
def test_no_answer_is_a_fault_or_outside_the_document(urls, tmp_path):
    with fresh(urls) as its, Fleet.on(its, tmp_path, USERMEM_ROOT_KEY=ROOT_KEY) as fleet:
        db.migrate(its.superuser)
        key = fleet.tenant()
        url = fleet.api("--worker")
        ran = subprocess.run(
            [
                Path(sys.executable).with_name("schemathesis"),
                f"--config-file={ROOT / 'tests' / 'schemathesis.toml'}",
                *("run", f"{url}/openapi.json", "--no-color", "--workers=2"),
                f"--header=Authorization: Bearer {key}",
                *(LONG_RUN if "FUZZ_EXAMPLES" in os.environ else SHORT_RUN),
            ],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )

    assert ran.returncode == 0, ran.stdout[-20_000:]
