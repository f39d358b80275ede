"""Claude as extractor and judge: what is asked, how an answer is read, what is asked again.

The model is trusted with nothing: each item of an answer is checked alone, a bad one is dropped
and counted, and an answer that was cut never becomes facts.
"""

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Generic, TypeGuard, TypeVar, get_args

from app.llm import (
    Candidate,
    Extraction,
    Judgement,
    Kind,
    ModelAnsweredBadly,
    ModelError,
    ModelRefused,
    ModelTruncated,
    Pair,
    Relation,
    Statement,
    Turn,
    Usage,
    Verdict,
)
from app.prompts import (
    FACTS_SCHEMA,
    LATEST,
    PROMPTS,
    VERDICTS_SCHEMA,
    render_pairs,
    render_turns,
    unescape,
    weight,
)

if TYPE_CHECKING:
    from app.messages_api import Limits, MessagesApi, State

Unit = TypeVar("Unit")

WINDOW: Final = 100_000
"""Characters of users' text in one call."""
MAX_TOKENS: Final = (8_192, 16_384)
"""The limit of a first try, and of any other. What the model thinks counts towards it."""
SPLITS: Final = 3
"""How often a window whose answer is cut is halved before it is given up."""
MAX_ITEMS: Final = 100
"""Facts taken from one answer; what exceeds them is counted as `cap`."""

_MAX_TEXT: Final = 200
_MAX_SUBJECT: Final = 100
_MAX_REASON: Final = 200
_CUT: Final = ("max_tokens", "model_context_window_exceeded", "request_too_long")
_UNSURE: Final = Verdict("INDEPENDENT", "no clear verdict")
_KINDS: Final = get_args(Kind)
_RELATIONS: Final = get_args(Relation)
_FACT_FIELDS: Final = {"text", "kind", "subject", "turn", "quote", "valid_from"}
_VERDICT_FIELDS: Final = {"pair", "verdict", "reason"}
_NOT_IN_A_LINE: Final = ("Cc", "Cs", "Zl", "Zp")
_RFC3339: Final = re.compile(
    r"\d{4}-\d\d-\d\d(?P<time>[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d))?", re.ASCII
)


class Claude:
    """One connection to the Messages API, and the extractors and judges that share it.

    One per process and event loop. A tenant may name another model, and a policy an older prompt;
    all of them keep the same pauses, since they use the same key.
    """

    def __init__(
        self,
        api_key: str,
        base_url: str | None = None,
        *,
        model: str = "claude-haiku-5-5",
        prompt_version: str = LATEST,
        timeout: float | None = None,
        limits: "Limits | None" = None,
    ) -> None:
        # Imported here: the SDK takes seconds to load, which a process without a key needn't pay.
        from app.messages_api import Limits, MessagesApi  # noqa: PLC0415

        limits = limits or Limits()
        if timeout is not None:
            limits = replace(limits, timeout=timeout)
        self._api = MessagesApi(api_key, base_url, limits)
        self._model = model
        self._prompt_version = prompt_version

    def extractor(
        self, model: str | None = None, prompt_version: str | None = None
    ) -> "ClaudeExtractor":
        """The extractor for a model and a prompt, by default the service's own."""
        return ClaudeExtractor(self._api, model or self._model, self._known(prompt_version))

    def judge(self, model: str | None = None, prompt_version: str | None = None) -> "ClaudeJudge":
        """The judge for a model and a prompt, by default the service's own."""
        return ClaudeJudge(self._api, model or self._model, self._known(prompt_version))

    def _known(self, prompt_version: str | None) -> str:
        """The service's own prompt instead of one that a release took back."""
        if prompt_version is None or prompt_version not in PROMPTS:
            return self._prompt_version
        return prompt_version

    @property
    def state(self) -> "State":
        """How the service's own model was when last heard of: `ok`, `degraded` or `failed`."""
        return self._api.state(self._model)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._api.aclose()


class ClaudeExtractor:
    """`Extractor` by Claude. One call per window of turns; more if an answer is cut or broken."""

    def __init__(self, api: "MessagesApi", model: str, prompt_version: str) -> None:
        self.name = f"claude/{model}/{prompt_version}"
        self._api = api
        self._model = model
        self._system = PROMPTS[prompt_version].extract

    async def extract(
        self, turns: Sequence[Turn], known: Sequence[Statement], *, instructions: str | None = None
    ) -> Extraction:
        """See `Extractor.extract`. All windows succeed or none does: a failure leaves no facts."""
        asking: _Asking[Turn] = _Asking(
            self._api,
            _Question(self._model, self._system, FACTS_SCHEMA, "facts"),
            render=lambda part: render_turns(part, known, instructions),
            weigh=lambda turn: weight(turn.text),
        )
        candidates: list[Candidate] = []
        rejected: Counter[str] = Counter()
        for part, items in await asking.answers(turns):
            said = {turn.n: turn for turn in part}
            found = [_candidate(item, said) for item in items[:MAX_ITEMS]]
            candidates += filter(None, found)
            rejected.update(invalid=found.count(None), cap=len(items) - len(found))
        candidates.sort(key=lambda candidate: candidate.turn)
        return Extraction(candidates, dict(+rejected), asking.usage)


class ClaudeJudge:
    """`Judge` by Claude. One call for all pairs; more if they are many, or an answer is cut."""

    def __init__(self, api: "MessagesApi", model: str, prompt_version: str) -> None:
        self.name = f"claude/{model}/{prompt_version}"
        self._api = api
        self._model = model
        self._system = PROMPTS[prompt_version].judge

    async def judge(self, pairs: Sequence[Pair]) -> Judgement:
        """See `Judge.judge`. A verdict that is missing, malformed or given twice is INDEPENDENT."""
        asking = _Asking(
            self._api,
            _Question(self._model, self._system, VERDICTS_SCHEMA, "verdicts"),
            render=render_pairs,
            weigh=lambda numbered: weight(numbered[1].old.text + numbered[1].new.text),
        )
        verdicts = [_UNSURE] * len(pairs)
        for part, items in await asking.answers(list(enumerate(pairs, start=1))):
            asked = [n for n, _ in part]
            given = [found for item in items if (found := _verdict(item))]
            times = Counter(n for n, _ in given)
            for n, verdict in given:
                if n in asked and times[n] == 1:
                    verdicts[n - 1] = verdict
        return Judgement(verdicts, asking.usage)


@dataclass(frozen=True, slots=True)
class _Question:
    """What stays the same in all calls of one step."""

    model: str
    system: str
    schema: dict[str, object]
    key: str


class _Asking(Generic[Unit]):
    """Asks about any number of units in as few calls as will do, and adds up what it cost.

    Units are never regrouped across an answer: each part comes back with the items it was given.
    """

    def __init__(
        self,
        api: "MessagesApi",
        question: _Question,
        *,
        render: Callable[[Sequence[Unit]], str],
        weigh: Callable[[Unit], int],
    ) -> None:
        self._api = api
        self._question = question
        self._render = render
        self._weigh = weigh
        self.usage = Usage()

    async def answers(self, units: Sequence[Unit]) -> list[tuple[Sequence[Unit], list[object]]]:
        """Ask window by window. Raises `ModelError`, with the cost so far, and then all is void."""
        answers: list[tuple[Sequence[Unit], list[object]]] = []
        for window in self._windows(units):
            try:
                answers += await self._part(window, MAX_TOKENS, SPLITS)
            except ModelError as error:
                error.usage = self.usage
                raise
        return answers

    def _windows(self, units: Sequence[Unit]) -> list[list[Unit]]:
        windows: list[list[Unit]] = []
        room = 0
        for unit in units:
            weight = self._weigh(unit)
            if weight > room:
                windows.append([])
                room = WINDOW
            windows[-1].append(unit)
            room -= weight
        return windows

    async def _part(
        self, part: Sequence[Unit], limits: Sequence[int], splits: int
    ) -> list[tuple[Sequence[Unit], list[object]]]:
        """Ask for one part; an answer that is cut changes the question: more room, then halves."""
        for max_tokens in limits:
            if (items := await self._items(part, max_tokens)) is not None:
                return [(part, items)]
        if len(part) == 1 or not splits:
            raise ModelTruncated
        middle = len(part) // 2
        halves = part[:middle], part[middle:]
        return [
            answer
            for half in halves
            for answer in await self._part(half, MAX_TOKENS[-1:], splits - 1)
        ]

    async def _items(self, part: Sequence[Unit], max_tokens: int) -> list[object] | None:
        """The items of one answer, or None when it was cut. An unreadable one is asked for again.

        A lone surrogate is a broken escape: worth asking again, and then only its item is lost,
        unless nothing else is left.
        """
        for is_last in (False, True):
            text = await self._text(part, max_tokens)
            if text is None:
                return None
            items = _read(text, self._question.key)
            if items is None:
                continue
            broken = sum(not _is_unicode(item) for item in items)
            if not broken or (is_last and broken < len(items)):
                return items
        raise ModelAnsweredBadly

    async def _text(self, part: Sequence[Unit], max_tokens: int) -> str | None:
        try:
            answer = await self._api.ask(
                model=self._question.model,
                system=self._question.system,
                user=self._render(part),
                schema=self._question.schema,
                max_tokens=max_tokens,
            )
        except ModelError as error:
            self.usage += error.usage
            raise
        self.usage += answer.usage
        if answer.stop == "refusal":
            raise ModelRefused
        return None if answer.stop in _CUT else answer.text


def _read(text: str, key: str) -> list[object] | None:
    """The list of an answer that is one JSON document and nothing else; None of any other.

    A fence or a friendly word around it is no exception: prose may never pass for facts.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    items = document.get(key) if isinstance(document, dict) else None
    return items if isinstance(items, list) else None


def _is_unicode(item: object) -> bool:
    try:
        json.dumps(item, ensure_ascii=False).encode()
    except (UnicodeEncodeError, RecursionError):
        return False
    return True


def _candidate(item: object, said: Mapping[int, Turn]) -> Candidate | None:
    """The candidate that an item spells, or None if anything about it is wrong.

    Only a date that can't be used is forgiven: the fact is worth more than its date.
    """
    if not isinstance(item, dict) or not item.keys() <= _FACT_FIELDS:
        return None
    text, subject = _line(item.get("text"), _MAX_TEXT), _line(item.get("subject"), _MAX_SUBJECT)
    kind: Any = item.get("kind")
    n, quote = item.get("turn"), item.get("quote")
    valid_from = item.get("valid_from")
    if (
        not text
        or not subject
        or kind not in _KINDS
        or type(n) is not int  # True is an int, too
        or n not in said
        or not _is_quote(quote)
        or not isinstance(valid_from, str | None)
    ):
        return None
    if quote not in said[n].text:
        quote = unescape(quote)  # as the model saw it, unless it undid the entities itself
    return Candidate(text, kind, subject, n, quote, _moment(valid_from))


def _is_quote(value: object) -> TypeGuard[str]:
    return (
        isinstance(value, str) and bool(value.strip()) and "\0" not in value and _is_unicode(value)
    )


def _line(value: object, limit: int) -> str | None:
    """A string of one printable line, unescaped and trimmed; None of anything else."""
    if not isinstance(value, str):
        return None
    line = unescape(value).strip()
    bad = any(unicodedata.category(char) in _NOT_IN_A_LINE for char in line)
    return None if bad or not 0 < len(line) <= limit else line


def _moment(value: str | None) -> datetime | None:
    """An RFC 3339 date (its midnight in UTC) or date and time with an offset, in UTC."""
    match = _RFC3339.fullmatch(value or "")
    if not match:
        return None
    text = match[0].upper() if match["time"] else f"{match[0]}T00:00:00Z"
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _verdict(item: object) -> tuple[int, Verdict] | None:
    """The number of a pair and its verdict, or None if anything about the item is wrong."""
    if not isinstance(item, dict) or item.keys() != _VERDICT_FIELDS:
        return None
    n, relation, reason = item["pair"], item["verdict"], item["reason"]
    if type(n) is not int or relation not in _RELATIONS or not isinstance(reason, str):
        return None
    plain = "".join(c for c in unescape(reason) if unicodedata.category(c) not in ("Cc", "Cs"))
    return n, Verdict(relation, plain[:_MAX_REASON])
