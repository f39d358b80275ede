"""Databases beside the one that all tests share: fresh, dumped, restored."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psycopg
from psycopg import sql

from app import db
from app.embedded import _wheel
from tests.world import Urls


@contextmanager
def fresh(urls: Urls) -> Iterator[Urls]:
    """A new, empty database on the tests' server, for the block's time."""
    name = f"fresh_{uuid4().hex[:12]}"
    with psycopg.connect(urls.superuser, autocommit=True) as admin:
        admin.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        try:
            yield Urls(*(_renamed(url, name) for url in (urls.service, urls.owner, urls.superuser)))
        finally:
            admin.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@contextmanager
def migrated(urls: Urls) -> Iterator[Urls]:
    """The same, with the newest schema."""
    with fresh(urls) as its:
        db.migrate(its.superuser)
        yield its


def _renamed(url: str, name: str) -> str:
    return re.sub(r"@/[^?]*\?", f"@/{name}?", url)


def dump(urls: Urls, file: Path) -> None:
    _run("pg_dump", "--format=custom", f"--file={file}", urls.superuser)


def restore(file: Path, urls: Urls) -> None:
    _run("pg_restore", "--exit-on-error", f"--dbname={urls.superuser}", str(file))


def _run(program: str, *arguments: str) -> None:
    subprocess.run([_wheel() / "bin" / program, *arguments], check=True)
