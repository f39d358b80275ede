"""The embedded Postgres: what it promises about privacy, sharing, crashes and bad directories."""

import contextlib
import os
import re
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import sqlalchemy
from psycopg.conninfo import conninfo_to_dict

from app import account, embedded
from app.embedded import EmbeddedError, EmbeddedPostgres

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="about running as root")
only_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

HOLD = """
import signal, sys, psycopg
from pathlib import Path
from app.embedded import EmbeddedPostgres
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have had it ignored
with EmbeddedPostgres(Path(sys.argv[1]), durable=False) as postgres:
    try:
        print("held", flush=True)
        sys.stdin.readline()
    except KeyboardInterrupt:
        with psycopg.connect(postgres.url("owner")) as connection:
            print(connection.execute("select 'answers'").fetchone()[0], flush=True)
"""


@pytest.fixture(scope="module")
def shared(tmp_path_factory) -> Iterator[tuple[Path, EmbeddedPostgres]]:
    folder = tmp_path_factory.mktemp("shared")
    with EmbeddedPostgres(folder, durable=False) as postgres:
        yield folder, postgres


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """As pytest's, but gone at once: a cluster takes 40 MB."""
    yield tmp_path
    shutil.rmtree(tmp_path)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory) -> Path:
    folder = Path(tmp_path_factory.mktemp("stopped"))
    with EmbeddedPostgres(folder, durable=False):
        return folder


@pytest.fixture
def ready(stopped, tmp_path) -> Path:
    """A data directory that was started before: a copy is made faster than a cluster."""
    subprocess.run(["/bin/cp", "-a", f"{stopped}/.", str(tmp_path)], check=True)
    return Path(tmp_path)


@contextlib.contextmanager
def holding(folder: Path, script: str = HOLD) -> Iterator[subprocess.Popen[str]]:
    """Another Python process that holds the server of `folder`."""
    with subprocess.Popen(
        [sys.executable, "-c", script, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "held\n"
            yield child
        finally:
            child.kill()


def postmaster(folder: Path) -> int:
    return int((folder / "postgres" / "postmaster.pid").read_text().splitlines()[0])


def is_running(folder: Path) -> bool:
    return (folder / "postgres" / "postmaster.pid").exists()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def write_note(postgres: EmbeddedPostgres, text: str) -> None:
    with psycopg.connect(postgres.url("owner")) as connection:
        connection.execute("create table if not exists note (text text)")
        connection.execute("insert into note values (%s)", [text])


def notes(postgres: EmbeddedPostgres) -> list[str]:
    with psycopg.connect(postgres.url("owner")) as connection:
        return [text for (text,) in connection.execute("select text from note order by text")]


def kill_postmaster(folder: Path) -> None:
    pid = postmaster(folder)
    os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 5
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.01)


@pytest.mark.parametrize(("role", "name"), embedded._ROLES.items())
def test_each_role_connects_and_has_vectors(shared, role, name):
    with psycopg.connect(shared[1].url(role)) as connection:
        found = connection.execute("select current_user, '[1,2]'::vector <-> '[1,5]'").fetchone()
    assert found == (name, 3.0)


def test_sqlalchemy_takes_the_url(shared):
    url = shared[1].url("service").replace("postgresql://", "postgresql+psycopg://")
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)
    with engine.connect() as connection:
        assert connection.scalar(sqlalchemy.text("select current_user")) == "usermem_service"


def test_the_service_role_owns_nothing_and_has_no_powers(shared):
    with psycopg.connect(shared[1].url("service")) as connection:
        powers = connection.execute(
            "select rolsuper, rolbypassrls, rolcreatedb, rolcreaterole, rolinherit, rolreplication"
            " from pg_roles where rolname = current_user"
        ).fetchone()
        owned = connection.execute(
            "select count(*) from pg_shdepend"
            " where refobjid = to_regrole('usermem_service') and deptype = 'o'"
        ).fetchone()
        assert powers == (False,) * 6
        assert owned == (0,)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("create table mine ()")


def test_the_owner_bypasses_row_security_but_is_no_superuser(shared):
    with psycopg.connect(shared[1].url("owner")) as connection:
        powers = "select rolsuper, rolbypassrls from pg_roles where rolname = current_user"
        assert connection.execute(powers).fetchone() == (False, True)
        connection.execute("set role usermem_service")


def test_text_is_unicode_and_checksummed(shared):
    with psycopg.connect(shared[1].url("service")) as connection:
        found = connection.execute(
            "select lower('ÉÀ'), current_setting('server_encoding'),"
            " current_setting('data_checksums'), current_setting('timezone')"
        ).fetchone()
    assert found == ("éà", "UTF8", "on", "UTC")


def test_files_and_socket_are_closed_to_others(shared):
    folder, _ = shared
    cluster = folder / "postgres"
    assert mode(cluster) == 0o700
    assert mode(cluster / ".s.PGSQL.5432") == 0o700
    assert {mode(file) for file in folder.glob("postgres.*")} == {0o600}
    if os.geteuid() == 0:
        assert cluster.stat().st_uid != 0


@only_linux
def test_nothing_listens_on_tcp(shared):
    inodes = set()
    for fd in Path(f"/proc/{postmaster(shared[0])}/fd").iterdir():
        inodes |= set(re.findall(r"socket:\[(\d+)\]", str(fd.readlink())))
    tables = [Path("/proc/net", table) for table in ("tcp", "tcp6")]
    rows = [line.split() for table in tables for line in table.read_text().splitlines()]
    assert inodes
    assert not inodes & {row[9] for row in rows}


@only_linux
def test_postgres_inherits_no_lock_and_no_secret(shared):
    pid = postmaster(shared[0])
    held = {fd.readlink().name for fd in Path(f"/proc/{pid}/fd").iterdir()}
    assert not held & {"postgres.lock", "postgres.users"}
    assert b"HOME=" not in Path(f"/proc/{pid}/environ").read_bytes()


def test_no_row_text_reaches_the_log(shared):
    folder, postgres = shared
    with psycopg.connect(postgres.url("owner"), autocommit=True) as connection:
        connection.execute("create table diary (text text check (length(text) < 3) unique)")
        for statement in (
            "insert into diary values ('marmalade')",
            "select 'marmalade'::int",
            "selekt 'marmalade'",
            "do $$ begin raise warning 'marmalade'; end $$",
        ):
            with contextlib.suppress(psycopg.Error):
                connection.execute(statement)
        with contextlib.suppress(psycopg.Error):
            connection.execute("insert into diary values (%s)", ["marmalade"])
    assert "marmalade" not in (folder / "postgres.log").read_text()


def test_a_crashed_statement_is_not_logged_and_the_server_comes_back(ready):
    with EmbeddedPostgres(ready, durable=False) as postgres:
        with contextlib.closing(psycopg.connect(postgres.url("owner"))) as connection:
            connection.pgconn.send_query(b"select 'marmalade', pg_sleep(60)")
            time.sleep(0.1)
            os.kill(connection.info.backend_pid, signal.SIGKILL)
        with EmbeddedPostgres(ready):
            write_note(postgres, "after")
    log = (ready / "postgres.log").read_text()
    assert "terminated by signal 9" in log
    assert "marmalade" not in log


def test_data_survives_a_restart(tmp_path):
    for text in ("first", "second"):
        with EmbeddedPostgres(tmp_path) as postgres:
            write_note(postgres, text)
        assert not is_running(tmp_path)
    with EmbeddedPostgres(tmp_path) as postgres:
        assert notes(postgres) == ["first", "second"]


def test_data_survives_kill_of_the_holder_and_then_of_postgres(ready):
    postgres = EmbeddedPostgres(ready)
    with holding(ready, HOLD.replace(", durable=False", "")) as child:
        write_note(postgres, "kept")
        pid = postmaster(ready)
        child.kill()
        child.wait()
    with postgres:
        assert postmaster(ready) == pid
        assert notes(postgres) == ["kept"]
        kill_postmaster(ready)
        with EmbeddedPostgres(ready):
            assert postmaster(ready) != pid
            assert notes(postgres) == ["kept"]
    assert not is_running(ready)


def test_a_stale_pid_file_that_names_another_process_is_seen_through(ready):
    with EmbeddedPostgres(ready) as postgres:
        write_note(postgres, "kept")
        kill_postmaster(ready)
        file = ready / "postgres" / "postmaster.pid"
        owner = file.stat().st_uid if os.geteuid() == 0 else None
        with subprocess.Popen(["/bin/sleep", "60"], user=owner) as other:
            file.write_text(file.read_text().replace(str(postmaster(ready)), str(other.pid), 1))
            with EmbeddedPostgres(ready):
                assert notes(postgres) == ["kept"]
            other.kill()


def test_processes_share_one_server_and_the_last_one_out_stops_it(ready):
    with EmbeddedPostgres(ready, durable=False) as postgres:
        pid = postmaster(ready)
        with holding(ready) as child:
            postgres.stop()
            assert postmaster(ready) == pid
            write_note(postgres, "shared")
            child.communicate("\n", timeout=20)
    assert not is_running(ready)
    with pytest.raises(EmbeddedError, match="start it first"):
        postgres.url("owner")


def test_handles_of_one_process_share_one_server(ready):
    first, second = EmbeddedPostgres(ready, durable=False), EmbeddedPostgres(ready)
    first.start()
    first.start()
    second.start()
    first.stop()
    first.stop()
    write_note(second, "still there")
    second.stop()
    assert not is_running(ready)


def test_a_forked_child_stops_nothing(ready):
    fork = "    if os.fork() == 0:\n        postgres.stop()\n        os._exit(0)\n    os.wait()\n"
    script = "import os\n" + HOLD.replace("    try:", fork + "    try:", 1)
    with holding(ready, script) as child:
        pid = postmaster(ready)
        with EmbeddedPostgres(ready):
            pass  # one more that comes and goes
        assert postmaster(ready) == pid
        child.communicate("\n", timeout=20)
    assert not is_running(ready)


def test_ctrl_c_does_not_reach_postgres(ready):
    with holding(ready) as child:
        os.killpg(child.pid, signal.SIGINT)
        out, _ = child.communicate(timeout=20)
    assert out == "answers\n"
    assert not is_running(ready)


@only_linux
def test_an_interrupted_first_start_heals(tmp_path):
    script = HOLD.replace("with Emb", "print('held', flush=True)\nwith Emb")
    with holding(tmp_path, script) as child:
        while not list(tmp_path.glob("postgres.new-*/base")) and child.poll() is None:
            time.sleep(0.001)
        os.killpg(child.pid, signal.SIGKILL)
    assert not (tmp_path / "postgres").exists()
    with EmbeddedPostgres(tmp_path, durable=False) as postgres:
        write_note(postgres, "healed")
    assert not list(tmp_path.glob("postgres.new-*"))


def test_a_half_prepared_database_heals(ready):
    with EmbeddedPostgres(ready, durable=False) as postgres:
        with psycopg.connect(postgres.url("superuser", "postgres"), autocommit=True) as connection:
            connection.execute("drop database usermem")
        with EmbeddedPostgres(ready):
            write_note(postgres, "healed")
        with psycopg.connect(postgres.url("superuser")) as connection:
            connection.execute("drop extension vector")
        with EmbeddedPostgres(ready), psycopg.connect(postgres.url("service")) as connection:
            connection.execute("select '[1]'::vector")


@pytest.mark.parametrize("name", ["x" * 200, "a 'b' \"c\", $HOME `d` %41+&?#é"])
def test_any_folder_name_will_do(tmp_path, name):
    with EmbeddedPostgres(tmp_path / name, durable=False) as postgres:
        write_note(postgres, "there")
        with EmbeddedPostgres(tmp_path / name) as joined:
            assert notes(joined) == ["there"]
        folder = Path(str(conninfo_to_dict(postgres.url("owner"))["host"]))
        assert mode(folder) == 0o700
        assert folder.stat().st_uid == (tmp_path / name / "postgres").stat().st_uid
    if not folder.is_relative_to(tmp_path):
        assert not folder.exists()


def make_file(folder: Path) -> None:
    folder.write_text("")


def make_other_version(folder: Path) -> None:
    (folder / "postgres").mkdir(parents=True)
    (folder / "postgres" / "PG_VERSION").write_text("17\n")


def make_other_content(folder: Path) -> None:
    (folder / "postgres").mkdir(parents=True)
    (folder / "postgres" / "letters.txt").write_text("")


def make_broken_cluster(folder: Path) -> None:
    (folder / "postgres").mkdir(parents=True)
    (folder / "postgres" / "PG_VERSION").write_text("18\n")


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        (make_file, "is not a folder: choose another --data-dir"),
        (make_other_version, "made by Postgres 17 and this is 18: move it with pg_dump"),
        (make_other_content, "is no Postgres cluster: move it away"),
        (make_broken_cluster, r"did not start \(.+\): see .*postgres.log"),
    ],
)
def test_an_unusable_directory_is_explained(tmp_path, spoil, text):
    spoil(tmp_path / "data")
    with pytest.raises(EmbeddedError, match=text):
        EmbeddedPostgres(tmp_path / "data").start()


def test_a_directory_that_cannot_be_made_is_explained():
    with pytest.raises(EmbeddedError, match=r"can't be used .* choose another --data-dir"):
        EmbeddedPostgres(Path("/proc/none")).start()


def test_a_server_that_hangs_is_explained_in_bounded_time(ready, monkeypatch):
    with EmbeddedPostgres(ready, durable=False):
        monkeypatch.setattr(embedded, "_PATIENCE", 0.5)
        pid = postmaster(ready)
        os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(EmbeddedError, match="gave no answer"):
                EmbeddedPostgres(ready).start()
        finally:
            os.kill(pid, signal.SIGCONT)
        monkeypatch.undo()
    assert not is_running(ready)


def may(user: str | int, test: str, path: Path) -> bool:
    """What the kernel lets `user` do: `-x` is passing through a folder, `-r` is listing it."""
    command = ["/usr/bin/test", test, str(path)]
    return (
        subprocess.run(
            command, user=user, group=user, extra_groups=[], cwd="/", check=False
        ).returncode
        == 0
    )


@only_root
def test_under_root_only_the_database_user_passes_a_closed_parent(tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with EmbeddedPostgres(closed / "data", durable=False) as postgres:
        write_note(postgres, "inside")
    for folder in (closed, closed / "data"):
        assert folder.stat().st_uid == 0
        assert mode(folder) & 0o007 == 0
        assert may("usermem", "-x", folder)
        assert not may("usermem", "-r", folder)
        assert not may(12345, "-x", folder)


@only_root
def test_under_root_a_chmod_of_the_parent_is_made_good(tmp_path):
    for _ in range(2):
        with EmbeddedPostgres(tmp_path / "data", durable=False):
            assert may("usermem", "-x", tmp_path)
        tmp_path.chmod(0o700)
        assert not may("usermem", "-x", tmp_path)


@only_root
def test_an_access_list_keeps_what_it_gave_and_what_its_mask_withheld(tmp_path):
    for folder in tmp_path.parents[: -len(Path(tempfile.gettempdir()).parts)]:
        folder.chmod(0o755)
    entries = [
        (0x01, 7, -1),
        (0x02, 7, 12345),
        (0x02, 4, 12346),
        (0x04, 0, -1),
        (0x10, 4, -1),
        (0x20, 0, -1),
    ]
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
    os.setxattr(tmp_path, "system.posix_acl_access", acl)

    account.let_through(54321, tmp_path / "data")

    rights = {
        user: [may(user, test, tmp_path) for test in ("-r", "-w", "-x")]
        for user in (12345, 12346, 54321, 54322)
    }
    assert rights == {
        12345: [True, False, False],
        12346: [True, False, False],
        54321: [False, False, True],
        54322: [False, False, False],
    }


@only_root
def test_where_no_access_list_can_be_set_that_is_said():
    with pytest.raises(PermissionError, match="can't be let through /proc/"):
        account.let_through(54321, Path("/proc/1/map_files/none"))


def test_a_wheel_installed_under_a_strict_umask_is_opened(tmp_path):
    tree = tmp_path / "pginstall"
    (tree / "bin").mkdir(parents=True)
    for name, bits in (("bin/postgres", 0o700), ("share.txt", 0o600)):
        (tree / name).touch(bits)
        (tree / name).chmod(bits)
    for folder in (tree / "bin", tree):
        folder.chmod(0o700)
    account.open_to_all(tree)
    modes = {path.name: mode(path) for path in (tree, *tree.rglob("*"))}
    assert modes == {"pginstall": 0o755, "bin": 0o755, "postgres": 0o755, "share.txt": 0o644}
