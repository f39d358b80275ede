"""What the service really sends to Postgres, read from its query log, keeps the schema's rules."""

import os
import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest

from app.memory.erase import OF_USERS
from app.settings import Settings
from tests.world import Urls, World

pytestmark = pytest.mark.skipif(
    "USERMEM_TEST_DATABASE_URL" in os.environ, reason="the log of another server can't be read"
)

TABLES = "|".join(sorted({table.name for table in OF_USERS} - {"user_directory"}))
_TOUCHES = re.compile(rf"\b(?:from|join|into|update)\s+(?:only\s+)?({TABLES})\b", re.IGNORECASE)


def log_of(urls: Urls) -> Path:
    return Path(parse_qs(urlsplit(urls.superuser).query)["host"][0]).parent / "postgres.log"


def statements(log: str) -> set[str]:
    entries = re.findall(r"LOG:  (?:statement|execute [^:]+): (.*(?:\n\t.*)*)", log, re.MULTILINE)
    return {" ".join(entry.split()) for entry in entries}


@pytest.fixture
async def sent(urls, tmp_path) -> set[str]:
    """Every statement of a user's whole life."""
    settings = Settings(
        database_url=urls.service,
        signing_key="k" * 40,
        extractor="rules",
        erasure_ledger=tmp_path / "erasures.ndjson",
    )
    with psycopg.connect(urls.superuser, autocommit=True) as admin:
        admin.execute("alter role usermem_service set log_statement = 'all'")
        start = log_of(urls).stat().st_size
        try:
            async with World.open(settings, urls) as world:
                dana = await world.tenant()
                await dana.say("I live in Lisbon.", "I prefer window seats.")
                await dana.say("Actually, I moved to Porto.")
                await dana.block("Which seat?", session="s")
                await dana.block("Which seat?", session="s")
                await dana.post("/search", {"query": "seat"})
                fact, *_ = await dana.facts("all")
                await dana.get(f"/facts/{fact['id']}/why")
                await dana.get(f"/facts/{fact['id']}/history")
                await dana.get("/sessions")
                await dana.get("/export")
                await dana.delete(f"/facts/{fact['id']}")
                await dana.delete("")
        finally:
            admin.execute("alter role usermem_service reset log_statement")
    return statements(log_of(urls).read_text()[start:])


async def test_every_statement_names_tenant_and_user_and_one_function_enters_the_tenant(sent):
    about_users = {statement for statement in sent if _TOUCHES.search(statement)}

    assert len(about_users) > 30
    unnamed = {
        statement
        for statement in about_users
        if not all(
            len(re.findall(rf"\b{column}\b", statement)) >= len(_TOUCHES.findall(statement))
            for column in ("tenant_id", "user_id")
        )
    }
    assert unnamed == set()
    assert [s for s in sent if "app.tenant_id" in s and "enter_tenant" not in s] == []
    assert any("app.enter_tenant" in statement for statement in sent)


async def test_no_statement_locks_across_nodes_or_sets_anything_for_its_session(sent):
    assert [s for s in sent if re.search(r"pg_(try_)?advisory", s)] == []
    assert [s for s in sent if re.match(r"set (?!local)", s, re.IGNORECASE)] == []
    assert [s for s in sent if re.search(r"set_config\([^)]*false\)", s)] == []
