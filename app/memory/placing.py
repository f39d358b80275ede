"""Where each row of an import goes: beside what is there, never over it, and never twice.

One import, in its transaction and under the user's lock. Ids of facts follow from the file's, so
that a second import finds what the first has written.
"""

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID, uuid4

from sqlalchemy import ARRAY, Select, Text, bindparam, func, insert, or_, select, true, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncSession

from app.db import Scope
from app.memory import guard
from app.memory.chains import successors
from app.memory.core import Core, incognito_digest
from app.memory.file_text import MAX_ENTRIES
from app.memory.files import bring
from app.memory.ingest import message_digest, resume
from app.memory.learn import live, unlearned_digests
from app.memory.write import STORED, record_events
from app.models import (
    Evidence,
    Fact,
    FactEvent,
    FactVerdict,
    IncognitoSession,
    MemoryFile,
    Message,
    SeenMessage,
    Session,
    Unlearned,
)
from app.rules import is_single_valued
from app.text import fingerprint, words

_TOGETHER: Final = 1_000
_LIVE: Final = ("superseded_at", "quarantined_at", "forgotten_at")
_FACT: Final = insert(Fact).values(
    words=func.array_to_tsvector(bindparam("lexemes", type_=ARRAY(Text)))
)
_TIE: Final = (
    update(Fact)
    .where(
        Fact.tenant_id == bindparam("of_tenant"),
        Fact.user_id == bindparam("of_user"),
        Fact.id == bindparam("fact"),
    )
    .values(superseded_by=bindparam("successor"))
)
_SAME: Final[dict[type, tuple[str, ...]]] = {
    Evidence: ("fact_id", "session_id", "message_id", "quote", "said_at"),
    FactVerdict: ("old_id", "new_id", "verdict", "at"),
    FactEvent: ("fact_id", "at", "n", "what", "by"),
}
"""By what two rows of a table are the same, whatever their ids."""


@dataclass(slots=True)
class Record:
    """A row that a file proposes: its columns, checked, and the caller's own id of its session."""

    table: type
    columns: dict[str, Any]
    session: str | None = None


class Placing:
    """What one import has written so far, and which of the file's facts is which here."""

    def __init__(
        self, tx: AsyncSession, core: Core, scope: Scope, refused: Collection[UUID], by: str
    ) -> None:
        self._tx = tx
        self._core = core
        self._scope = scope
        self._by = by
        self._owner = {"tenant_id": scope.tenant_id, "user_id": scope.user_id}
        self._sessions: dict[str, UUID] = {}
        self._fresh: set[UUID] = set()
        """Sessions that were not there before."""
        self._open: tuple[UUID | None, set[tuple[Any, bytes]], set[int]] = None, set(), set()
        """The session whose turns were placed last, what was said in it, where."""
        self._woken: set[UUID] = set()
        """Sessions with turns that may wait."""
        self._facts: dict[UUID, UUID | None] = dict.fromkeys(refused)
        """Which fact of the file is which here, None for one that was refused."""
        self.added: set[UUID] = set()
        """Facts that were not there before."""
        self.rejected: Counter[str] = Counter()

    async def place(self, table: type, records: Sequence[Record]) -> None:
        """Write some records of one table, each table after those that it refers to."""
        if table is Session:
            await self._place_sessions(records)
        elif table is Message:
            await self._place_turns(records)
        elif table is Fact:
            await self._place_facts(records)
        elif table is MemoryFile:
            files = [record.columns for record in records]
            self.rejected += await bring(self._tx, self._scope, files, most=MAX_ENTRIES)
        else:
            await self._place_details(table, records)

    def known(self) -> dict[UUID, UUID]:
        """Give which fact of the file is which here."""
        return {old: new for old, new in self._facts.items() if new is not None}

    async def finish(self, links: Mapping[UUID, UUID]) -> None:
        """Tie the chains of the new facts, and look after sessions whose turns wait."""
        successor_of, broken = successors(links, self._facts)
        self.rejected += broken
        whose = {"of_tenant": self._scope.tenant_id, "of_user": self._scope.user_id}
        ties = [
            {**whose, "fact": new, "successor": successor_of[old]}
            for old, new in self._facts.items()
            if new in self.added and successor_of.get(old) not in {None, new}
        ]
        if ties:
            await (await self._tx.connection()).execute(_TIE, ties)
        added = sorted(self.added)
        for start in range(0, len(added), _TOGETHER):
            await self._date(added[start : start + _TOGETHER])
        for session_id in self._woken:
            await resume(self._tx, self._core, self._scope, session_id)

    async def _date(self, added: Sequence[UUID]) -> None:
        """Append an event to facts that came in without one of the state that they are in now."""
        newest = (
            self._mine(FactEvent, FactEvent.status, FactEvent.valid_to, FactEvent.expires_at)
            .where(FactEvent.fact_id == Fact.id)
            .order_by(FactEvent.at.desc(), FactEvent.n.desc())
            .limit(1)
            .lateral("newest")
        )
        undated = (
            self._mine(Fact, Fact.id)
            .outerjoin(newest, true())
            .where(
                Fact.id.in_(added),
                or_(
                    newest.c.status.is_distinct_from(STORED),
                    newest.c.valid_to.is_distinct_from(Fact.valid_to),
                    newest.c.expires_at.is_distinct_from(Fact.expires_at),
                ),
            )
        )
        events = [(fact_id, "imported") for fact_id in await self._tx.scalars(undated)]
        await record_events(self._tx, self._scope, events, self._by)

    def _mine(self, table: Any, *columns: Any) -> Select[Any]:
        return select(*columns).where(
            table.tenant_id == self._scope.tenant_id, table.user_id == self._scope.user_id
        )

    async def _place_sessions(self, records: Sequence[Record]) -> None:
        named = {str(record.session): record for record in records}
        digests = {
            incognito_digest(self._core, self._scope.tenant_id, name): name for name in named
        }
        hidden = await self._tx.scalars(
            self._mine(IncognitoSession, IncognitoSession.digest).where(
                IncognitoSession.digest.in_(digests)
            )
        )
        for digest in hidden:
            del named[digests[digest]]
            self.rejected["incognito"] += 1
        there = await self._tx.execute(
            self._mine(Session, Session.external_id, Session.id).where(
                Session.external_id.in_(named)
            )
        )
        self._sessions |= {row.external_id: row.id for row in there}
        rows = []
        for name, record in named.items():
            if name not in self._sessions:
                row = {**self._owner, **record.columns, "id": uuid4(), "external_id": name}
                self._sessions[name] = row["id"]
                self._fresh.add(row["id"])
                if row["status"] not in {"done", "failed"}:
                    # Settled, until it is seen whether turns wait in it.
                    row |= {"status": "done", "ended": row["status"] != "open"}
                rows.append(row)
        await self._insert(Session, rows)

    async def _place_turns(self, records: Sequence[Record]) -> None:
        by_session: dict[UUID, list[dict[str, Any]]] = {}
        for record in records:
            session_id = self._sessions.get(str(record.session))
            if session_id is None:
                self.rejected["unknown_id"] += 1
            else:
                by_session.setdefault(session_id, []).append(record.columns)
        for session_id, turns in by_session.items():
            await self._place_turns_of(session_id, turns)

    async def _place_turns_of(self, session_id: UUID, turns: list[dict[str, Any]]) -> None:
        """Store those turns of a session that are not there; behind the others if need be."""
        said, taken = await self._turns_of(session_id)
        last = max(taken, default=0)
        unseen = await self._unseen(session_id, turns)
        rows = []
        for turn in turns:
            same = turn["said_at"], hashlib.sha256(turn["text"].encode()).digest()
            if same in said or not (turn["external_id"] is None or turn["external_id"] in unseen):
                continue
            unseen.discard(turn["external_id"])
            if turn["position"] in taken:
                turn["position"] = last + 1
            taken.add(turn["position"])
            last = max(last, turn["position"])
            rows.append({**self._owner, "session_id": session_id, **turn})
        await self._insert(Message, rows)
        if any(row["extracted_at"] is None for row in rows):
            self._woken.add(session_id)
        if rows:
            await self._tx.execute(
                update(Session)
                .where(
                    Session.tenant_id == self._scope.tenant_id,
                    Session.user_id == self._scope.user_id,
                    Session.id == session_id,
                )
                .values(user_turns=func.greatest(Session.user_turns, last))
            )

    async def _turns_of(self, session_id: UUID) -> tuple[set[tuple[Any, bytes]], set[int]]:
        """Give what was said in a session before this import, and which positions are taken.

        Read once for a run of turns: a file holds a session's together.
        """
        if self._open[0] != session_id:
            digest = func.sha256(func.convert_to(Message.text, "UTF8"))
            there = (
                await self._tx.execute(
                    self._mine(Message, Message.position, Message.said_at, digest).where(
                        Message.session_id == session_id
                    )
                )
            ).all()
            said = {(row[1], bytes(row[2])) for row in there}
            taken = {row.position for row in there}
            self._open = session_id, set() if session_id in self._fresh else said, taken
        return self._open[1:]

    async def _unseen(self, session_id: UUID, turns: Sequence[dict[str, Any]]) -> set[str]:
        """Give the ids of turns that were not read before, and remember them."""
        digests = {
            message_digest(self._core, session_id, turn["external_id"]): turn["external_id"]
            for turn in turns
            if turn["external_id"] is not None
        }
        if not digests:
            return set()
        rows = [{**self._owner, "session_id": session_id, "digest": digest} for digest in digests]
        new = await self._tx.scalars(
            upsert(SeenMessage).values(rows).on_conflict_do_nothing().returning(SeenMessage.digest)
        )
        return {digests[digest] for digest in new}

    async def _place_facts(self, records: Sequence[Record]) -> None:
        rows = [self._fact(record) for record in records]
        there = await self._there(rows)
        deleted = await self._deleted(rows)
        fresh: list[dict[str, Any]] = []
        for record, row in zip(records, rows, strict=True):
            old = record.columns["id"]
            same = next((there[key] for key in _keys(row) if key in there), None)
            if same is None and self._facts.get(old) is not None:
                same = self._facts[old]
            if same is not None:
                self._facts[old] = same
            elif deleted.isdisjoint(self._digests(row)):
                if row["slot"] is not None and _is_live(row):
                    row["slot"] = None if ("slot", row["slot"]) in there else row["slot"]
                there |= dict.fromkeys(_keys(row), row["id"])
                there |= {("slot", row["slot"]): row["id"]} if _is_live(row) else {}
                self._facts[old] = row["id"]
                self.added.add(row["id"])
                fresh.append(row)
            else:
                self._facts[old] = None
                self.rejected["deleted"] += 1
        if fresh:
            await (await self._tx.connection()).execute(_FACT, fresh)

    def _fact(self, record: Record) -> dict[str, Any]:
        """Give the row of a fact; what can be told from its text is never taken from the file."""
        columns = dict(record.columns)
        derived = self._core.keyed_hash("import", self._scope.user_id, columns["id"])
        subject = columns["subject"]
        columns["metadata"] = columns.pop("extra")
        return {
            **self._owner,
            **columns,
            "id": UUID(bytes=derived[:16], version=4),
            "slot": subject if is_single_valued(subject) else None,
            "fingerprint": fingerprint(columns["text"]),
            "lexemes": sorted(set(words(columns["text"]))),
            "guard_version": guard.VERSION,
            "source_session_id": self._sessions.get(str(record.session)),
        }

    async def _there(self, rows: Sequence[dict[str, Any]]) -> dict[object, UUID]:
        """Give the facts that are there already, by whatever a row of the file may share."""
        found = await self._tx.execute(
            self._mine(
                Fact,
                Fact.id,
                Fact.fingerprint,
                Fact.created_at,
                Fact.said_at,
                Fact.slot,
                live().label("live"),
            ).where(
                or_(
                    Fact.id.in_([row["id"] for row in rows]),
                    Fact.fingerprint.in_([row["fingerprint"] for row in rows]),
                    live() & Fact.slot.in_([row["slot"] for row in rows if row["slot"]]),
                )
            )
        )
        there: dict[object, UUID] = {}
        for fact in found:
            there[fact.id] = there[fact.fingerprint, fact.created_at, fact.said_at] = fact.id
            if fact.live:
                there[fact.fingerprint] = there["slot", fact.slot] = fact.id
        return there

    def _digests(self, row: Mapping[str, Any]) -> list[bytes]:
        return unlearned_digests(self._core, self._scope, row["text"], row["source_quote"])

    async def _deleted(self, rows: Sequence[dict[str, Any]]) -> set[bytes]:
        """Give the keyed hashes, among those of these rows, of words that the user deleted."""
        digests = {digest for row in rows for digest in self._digests(row)}
        return set(
            await self._tx.scalars(
                self._mine(Unlearned, Unlearned.digest).where(Unlearned.digest.in_(digests))
            )
        )

    async def _place_details(self, table: type, records: Sequence[Record]) -> None:
        """Store evidence, verdicts or events of facts that are here, each once."""
        rows = [row for record in records if (row := self._detail(table, record)) is not None]
        first, *_ = _SAME[table]
        columns = [getattr(table, name) for name in _SAME[table]]
        there = {
            tuple(row)
            for row in await self._tx.execute(
                self._mine(table, *columns).where(
                    getattr(table, first).in_({row[first] for row in rows})
                )
            )
        }
        fresh: dict[tuple[Any, ...], dict[str, Any]] = {}
        for row in rows:
            key = tuple(row[name] for name in _SAME[table])
            if key not in there:
                fresh.setdefault(key, row)
        await self._insert(table, list(fresh.values()))

    def _detail(self, table: type, record: Record) -> dict[str, Any] | None:
        row = {**self._owner, **record.columns, "id": uuid4()}
        for name in ("fact_id", "old_id", "new_id"):
            if row.get(name) is not None:
                if row[name] not in self._facts:
                    self.rejected["unknown_id"] += 1
                row[name] = self._facts.get(row[name])
                if row[name] is None:
                    return None
        if table is FactEvent and row["fact_id"] not in self.added:
            return None  # what is there has a history of its own, which tells how it stands
        if table is Evidence:
            row["session_id"] = self._sessions.get(str(record.session))
            row["merged_from"] = self._facts.get(row["merged_from"])
        return row

    async def _insert(self, table: Any, rows: Sequence[dict[str, Any]]) -> None:
        if rows:
            await (await self._tx.connection()).execute(insert(table), rows)


def _is_live(row: Mapping[str, Any]) -> bool:
    return all(row[name] is None for name in _LIVE)


def _keys(row: Mapping[str, Any]) -> list[object]:
    """Give by what a fact is the same as one that is there: its id, its history, its words."""
    keys: list[object] = [row["id"], (row["fingerprint"], row["created_at"], row["said_at"])]
    return [*keys, row["fingerprint"]] if _is_live(row) else keys
