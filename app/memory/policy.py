"""What a tenant may decide about its memory, with the defaults. Values, not settings."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Policy:
    """Rules of one tenant. Caps bind extraction only, never what a person or program wrote."""

    session_silence: timedelta = timedelta(minutes=30)
    session_cap: timedelta = timedelta(hours=8)
    session_max_turns: int = 500
    session_max_characters: int = 100_000
    max_attempts: int = 5
    """Tries of a session whose extraction fails or crashes; then it is `failed`."""
