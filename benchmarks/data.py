"""A tenant full of people for the benchmark: real sentences, embedded once and dealt out to many.

Vectors made up at random would lie: none comes near a question, so half of the work would vanish.
"""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from uuid import UUID

import psycopg
from pgvector import HalfVector

from app.embeddings import Embedder, Vector
from app.memory import guard
from app.text import words

FACTS_PER_USER: Final = 200
ORGANIZATION_FACTS: Final = 5

_TOPICS: Final = {
    "flights": "window seats, aisle seats, morning flights, night trains, hand luggage, lounges",
    "food": "spicy ramen, oat milk, green tea, dark chocolate, grilled fish, sourdough, soup",
    "code": "Rust, Postgres, type hints, small functions, Vim, tabs, code reviews, property tests",
    "music": "jazz records, string quartets, techno, folk guitar, film scores, choir concerts",
    "sport": "trail running, bouldering, rowing, cycling to work, table tennis, winter swimming",
    "work": "short meetings, written decisions, quiet mornings, remote days, pair programming",
    "reading": "history books, crime novels, long essays, comics, travel diaries, poetry",
    "home": "house plants, cold bedrooms, wooden floors, black cats, open windows, a tidy desk",
    "plans": "a marathon in May, a move to Lisbon, a thesis on graphs, a garden shed, a new bike",
    "answers": "bullet points, metric units, plain words, worked examples, links to sources",
}
_FORMS: Final = (
    "Prefers {}.",
    "Likes {} in the evening.",
    "Has enjoyed {} since last year.",
    "Avoids {} on weekdays.",
    "Recommends {} to friends.",
    "Is looking for {} near the office.",
    "Spends the weekend with {}.",
    "Asks about {} before every trip.",
)
_QUESTIONS: Final = (
    "What should I know about {} before tomorrow?",
    "Can you help me choose between {} and something else?",
    "Which {} would suit me best?",
    "Write a short note about {} for my team.",
    "How do I get better at {}?",
)


def _things() -> list[str]:
    return [thing for topic in _TOPICS.values() for thing in topic.split(", ")]


def fact_texts() -> list[str]:
    """Give a few hundred different facts."""
    return [form.format(thing) for thing, form in itertools.product(_things(), _FORMS)]


def questions() -> list[str]:
    """Give a few hundred different questions; many touch several facts of a person."""
    return [form.format(thing) for thing, form in itertools.product(_things(), _QUESTIONS)]


async def embed_all(embedder: Embedder, texts: list[str]) -> list[Vector]:
    """Embed in slices that no embedder refuses."""
    vectors: list[Vector] = []
    for start in range(0, len(texts), 32):
        vectors += await embedder.embed(texts[start : start + 32])
    return vectors


_POOL: Final = """
create temporary table pool (n serial, text text, words tsvector, embedding halfvec)
"""
_PEOPLE: Final = """
with people as (
  insert into memory_user (tenant_id, user_id)
  select %(tenant)s, gen_random_uuid() from generate_series(1, %(users)s) returning user_id
)
insert into user_directory (tenant_id, external_id, user_id)
select %(tenant)s, 'user-' || (%(first)s - 1 + row_number() over ()), user_id from people
"""
# Facts are dealt by age first and person second, so that a person's rows lie apart on disk, as
# they do when people come back day after day.
_FACTS: Final = """
insert into memory_fact
  (tenant_id, user_id, id, text, kind, subject, fingerprint, words, embedding, embedding_model,
   source, guard_version, said_at, created_at, last_confirmed_at, confirmations)
select %(tenant)s, d.user_id, gen_random_uuid(), p.text,
       case when f.n %% 20 = 0 then 'constraint' when f.n %% 20 = 1 then 'profile'
            when f.n %% 5 = 2 then 'goal' else 'preference' end,
       'thing', sha256(int4send(f.n)), p.words, p.embedding, %(model)s, 'api', %(guard)s,
       at, at, at, f.n %% 3
from generate_series(1, %(facts)s) as f (n)
cross join user_directory d
cross join lateral (select now() - make_interval(days => 300 - f.n) as at) as t
join pool p on p.n = 1 + (f.n * 7 + hashtext(d.external_id) %% 1000 + 1000) %% %(pool)s
where d.tenant_id = %(tenant)s and d.external_id like 'user-%%'
  and substr(d.external_id, 6)::int >= %(first)s
order by f.n, hashtext(d.external_id)
"""
_ORGANIZATION: Final = """
insert into memory_user (tenant_id, user_id) values (%(tenant)s, %(tenant)s);
"""
_ORGANIZATION_FACTS: Final = """
insert into memory_fact
  (tenant_id, user_id, id, text, kind, subject, fingerprint, words, source, guard_version,
   said_at, last_confirmed_at)
select %(tenant)s, %(tenant)s, gen_random_uuid(), 'The team follows house rule ' || n || '.',
       'constraint', 'thing', sha256(int4send(n)), '', 'api', %(guard)s, now(), now()
from generate_series(1, %(facts)s) as n
"""


class Town:
    """The people of one tenant; grow it as a measurement needs them."""

    def __init__(self, admin: psycopg.Connection, tenant_id: UUID, model: str) -> None:
        self._admin = admin
        self.tenant_id = tenant_id
        self.users = 0
        self._values = {"tenant": tenant_id, "model": model, "guard": guard.VERSION}

    def grow(self, users: int, facts_per_user: int = FACTS_PER_USER) -> None:
        """Add people until there are `users`, and have the planner know of them."""
        with self._admin.transaction():
            pool = self._admin.execute("select count(*) from pool").fetchone()
            assert pool is not None
            values = {
                **self._values,
                "first": self.users + 1,
                "users": users - self.users,
                "facts": facts_per_user,
                "pool": pool[0],
            }
            self._admin.execute(_PEOPLE, values)
            self._admin.execute(_FACTS, values)
        self.users = users
        self._admin.execute("vacuum analyze memory_fact")
        self._admin.execute("analyze memory_user, user_directory")


@contextmanager
def town(
    superuser_url: str, tenant_id: UUID, model: str, texts: list[str], vectors: list[Vector]
) -> Iterator[Town]:
    """Open an empty town whose people will know these facts."""
    with psycopg.connect(superuser_url, autocommit=True) as admin:
        admin.execute(_POOL)
        with (
            admin.cursor() as cursor,
            cursor.copy("copy pool (text, words, embedding) from stdin") as rows,
        ):
            for text, vector in zip(texts, vectors, strict=True):
                lexemes = " ".join(f"'{word}'" for word in sorted(set(words(text))))
                rows.write_row((text, lexemes, HalfVector(vector).to_text()))
        admin.execute(_ORGANIZATION, {"tenant": tenant_id})
        admin.execute(
            _ORGANIZATION_FACTS,
            {"tenant": tenant_id, "facts": ORGANIZATION_FACTS, "guard": guard.VERSION},
        )
        yield Town(admin, tenant_id, model)
