"""What the verbs work with: the database, the three seams and the key behind keyed hashes."""

import hashlib
import hmac
from dataclasses import dataclass, field
from uuid import UUID

from app.db import Database
from app.embeddings import Embedder
from app.llm import Extractor, Judge
from app.memory.policy import Policy


@dataclass(frozen=True, slots=True)
class Core:
    """One per process, shared by all requests and jobs; holds no state of any user."""

    db: Database
    extractor: Extractor
    judge: Judge
    embedder: Embedder
    signing_key: bytes = field(repr=False)
    policy: Policy = field(default_factory=Policy)

    def keyed_hash(self, purpose: str, *parts: str | bytes | UUID) -> bytes:
        """HMAC-SHA256 over purpose and parts, each with its length: no two lists collide."""
        mac = hmac.new(self.signing_key, digestmod=hashlib.sha256)
        for part in (purpose, *parts):
            raw = part.bytes if isinstance(part, UUID) else part
            raw = raw.encode() if isinstance(raw, str) else raw
            mac.update(len(raw).to_bytes(8))
            mac.update(raw)
        return mac.digest()
