"""The seam to whatever reads conversations: an extractor proposes facts, a judge compares them.

Two implementations exist: Claude (`app.claude`) and the keyless rules (`app.rules`). Everything
behind the seam is untrusted: quotes, lengths, kinds and secrets are checked again by `app.memory`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

Kind = Literal["preference", "constraint", "profile", "goal"]
Relation = Literal["CONTRADICTS", "DUPLICATE", "INDEPENDENT"]


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of the user, already scrubbed. `n` counts from 1 within the call."""

    n: int
    text: str
    said_at: datetime


@dataclass(frozen=True, slots=True)
class Statement:
    """A fact or candidate as the judge sees it; `said_at` is when the user said it."""

    text: str
    kind: Kind
    subject: str
    said_at: datetime


@dataclass(frozen=True, slots=True)
class Candidate:
    """What an extractor proposes: one sentence, with the words of turn number `turn` it rests on.

    `closes` marks a statement that only ends what was true ("no longer uses Redis"): a live fact
    that it contradicts is closed and nothing is added.
    """

    text: str
    kind: Kind
    subject: str
    turn: int
    quote: str
    valid_from: datetime | None = None
    closes: bool = False


@dataclass(frozen=True, slots=True)
class Pair:
    """Two statements of one user: `new` is the candidate, `old` is stored or was said before it."""

    old: Statement
    new: Statement


@dataclass(frozen=True, slots=True)
class Verdict:
    """How `new` stands to `old`, and why, in one short sentence without the user's words."""

    relation: Relation
    reason: str


@dataclass(frozen=True, slots=True)
class Usage:
    """What a step cost: model calls (retries included) and tokens as the API counted them."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.calls + other.calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
        )


@dataclass(frozen=True, slots=True)
class Extraction:
    """The candidates in the order they were said; `rejected` counts dropped items by reason."""

    candidates: Sequence[Candidate]
    rejected: Mapping[str, int] = field(default_factory=dict)
    usage: Usage = Usage()


@dataclass(frozen=True, slots=True)
class Judgement:
    """One verdict per pair, in the order of the pairs."""

    verdicts: Sequence[Verdict]
    usage: Usage = Usage()


class Extractor(Protocol):
    """Reads the user's turns and proposes durable facts. Stateless; safe to share between tasks."""

    name: str
    """Implementation, model and prompt version, stored with every fact: `rules/1`."""

    async def extract(
        self, turns: Sequence[Turn], known: Sequence[Statement], *, instructions: str | None = None
    ) -> Extraction:
        """Propose facts from `turns`; `known` are live facts of the same user.

        `instructions` are the tenant's own additions. Raises `ModelError` when no answer was had.
        """
        ...


class Judge(Protocol):
    """Compares statements. Strict: INDEPENDENT unless sure. Stateless; safe to share."""

    name: str

    async def judge(self, pairs: Sequence[Pair]) -> Judgement:
        """Give one verdict per pair. Raises `ModelError` when no answer was had."""
        ...


class ModelError(Exception):
    """The model gave no usable answer. `code` is a stable word for status pages and metrics."""

    code = "model_error"

    def __init__(self, usage: Usage = Usage(), retry_after: float | None = None) -> None:
        super().__init__(self.code)
        self.usage = usage
        self.retry_after = retry_after
        """Seconds that the service asked to be left alone, if it said so."""


class ModelUnavailable(ModelError):  # noqa: N818 - a condition of the other side, not a fault here
    """Overloaded, rate-limited, timed out or unreachable: wait and try again; not counted."""

    code = "model_unavailable"


class ModelMisconfigured(ModelError):  # noqa: N818 - as above
    """400, 401, 403 or 404: only an operator can mend it; wait, one probe a minute."""

    code = "model_misconfigured"


class ModelRefused(ModelError):  # noqa: N818 - as above
    """The model declined. Final for this session; there are no facts."""

    code = "refusal"


class ModelTruncated(ModelError):  # noqa: N818 - as above
    """Cut at the token limit even after the request was changed. Counts as a failed try."""

    code = "truncated"


class ModelAnsweredBadly(ModelError):  # noqa: N818 - as above
    """Not the JSON that was asked for, twice; or just this question is declined. A failed try."""

    code = "invalid_answer"
