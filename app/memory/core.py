"""What the verbs work with: the database, the three seams and the key behind keyed hashes."""

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, Literal
from uuid import UUID

from cachetools import TTLCache

from app.db import Database
from app.embeddings import Embedder
from app.llm import Extractor, Judge, ModelError, ModelMisconfigured
from app.memory.ledger import Ledger
from app.memory.mirror import Mirrors
from app.memory.policy import Policy
from app.memory.ranking import Asked
from app.memory.recall_log import RecallLog

LOCAL_URL: Final = "http://127.0.0.1:8000"

Check = Literal["ok", "degraded", "failed", "off"]


@dataclass(frozen=True, slots=True)
class Patience:
    """How long work that got no answer is left alone before it is tried again."""

    judge: timedelta = timedelta(seconds=2)
    """That a person who writes a fact waits for the judge; then the rules decide for now."""
    retry: timedelta = timedelta(seconds=15)
    """After a try without an answer; a failed one waits four times longer each time."""
    probe: timedelta = timedelta(minutes=1)
    """After an answer that only an operator can mend."""
    budget: timedelta = timedelta(minutes=10)
    """Between looks whether a tenant's monthly budget has room again."""
    longest: timedelta = timedelta(hours=1)

    def after(self, error: ModelError) -> timedelta:
        """Give how long to leave a model alone that gave no answer: as long as it asked, or more.

        No longer than `longest`: then it is seen whether it meant it.
        """
        floor = self.probe if isinstance(error, ModelMisconfigured) else self.retry
        asked = min(error.retry_after or 0, self.longest.total_seconds())
        return max(floor, timedelta(seconds=asked))


@dataclass(frozen=True, slots=True)
class Core:
    """One per process, shared by all requests and jobs."""

    db: Database
    extractor: Extractor
    judge: Judge
    embedder: Embedder
    signing_key: bytes = field(repr=False)
    readers: Callable[[Policy], tuple[Extractor, Judge]] | None = None
    """Gives the extractor and judge of a tenant's own model or prompt; None where only one is."""
    patience: Patience = Patience()
    previous: Embedder | None = None
    """Made the vectors of the users who are not embedded anew yet, while the model changes."""
    recall_deadline: float = 1.0
    """Seconds that recall waits for the embedder."""
    model_state: Callable[[], Check] = lambda: "off"
    """How the model's side was when last heard of; `off` without one."""
    ledger: Ledger | None = None
    """What remembers erasures apart from the database."""
    backup_retention: timedelta = timedelta(days=30)
    """How long backups of the database are kept, for receipts."""
    public_url: str = LOCAL_URL
    """Where users reach this service, without a slash at the end."""
    policies: TTLCache[UUID, Policy] = field(
        default_factory=lambda: TTLCache(maxsize=10_000, ttl=30), repr=False
    )
    people: TTLCache[tuple[UUID, str], UUID] = field(
        default_factory=lambda: TTLCache(maxsize=50_000, ttl=60), repr=False
    )
    """Who is who, for recall, by tenant and external id; one who was erased has no rows."""
    mirrors: Mirrors = field(default_factory=lambda: Mirrors(2**20), repr=False)
    """The facts of the people who were asked about last."""
    asked: TTLCache[bytes, Asked] = field(
        default_factory=lambda: TTLCache(maxsize=1_000, ttl=60), repr=False
    )
    """Messages as they are ranked by, under a digest of their text."""
    recalls: RecallLog = field(default_factory=RecallLog, repr=False)

    def readers_of(self, policy: Policy) -> tuple[Extractor, Judge]:
        """Give whom this tenant's sessions are read by."""
        if self.readers is None or (policy.model is None and policy.prompt_version is None):
            return self.extractor, self.judge
        return self.readers(policy)

    def keyed_hash(self, purpose: str, *parts: str | bytes | UUID) -> bytes:
        """HMAC-SHA256 over purpose and parts, each with its length: no two lists collide."""
        mac = hmac.new(self.signing_key, digestmod=hashlib.sha256)
        for part in (purpose, *parts):
            raw = part.bytes if isinstance(part, UUID) else part
            raw = raw.encode() if isinstance(raw, str) else raw
            mac.update(len(raw).to_bytes(8))
            mac.update(raw)
        return mac.digest()


def incognito_digest(core: Core, tenant_id: UUID, session: str) -> bytes:
    """Give the keyed hash under which an incognito session is remembered.

    Without the user, whose row it is: so it can move when two users turn out to be one person.
    """
    return core.keyed_hash("incognito", tenant_id, session)
