"""How often a key may ask, a user of it, and an address guess: so many times a minute.

Each process counts for itself, and each replica has its share of every limit, so that they need
nothing in common.
"""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from cachetools import TTLCache
from limits import RateLimitItem, RateLimitItemPerMinute
from limits.storage import Storage
from limits.strategies import FixedWindowRateLimiter

from app.errors import TooManyRequests

Budget = Literal["recall", "privacy", "other", "wrong_key"]
"""What is counted apart: so neither a chatty nor a broken caller can use up the right to erase."""

_MINUTE: Final = 60
_MOST: Final = 100_000
"""Names that are counted at one time; the longest known give way."""


@dataclass(slots=True)
class _Window:
    count: int
    ends: float


class _Windows(Storage):
    """One window a name, from its first hit; the library's own starts a thread at most hits."""

    def __init__(self, timer: Callable[[], float]) -> None:
        super().__init__()
        self._timer = timer
        self.reset()

    @property
    def base_exceptions(self) -> type[Exception]:
        return ValueError

    def incr(self, key: str, expiry: float, amount: int = 1) -> int:
        window = self._windows.get(key)
        if window is None:
            window = self._windows[key] = _Window(0, self._timer() + expiry)
        window.count += amount
        return window.count

    def get(self, key: str) -> int:
        window = self._windows.get(key)
        return window.count if window else 0

    def get_expiry(self, key: str) -> float:
        window = self._windows.get(key)
        return window.ends if window else self._timer()

    def check(self) -> bool:
        return True

    def reset(self) -> None:
        self._windows: TTLCache[str, _Window] = TTLCache(_MOST, _MINUTE, self._timer)

    def clear(self, key: str) -> None:
        self._windows.pop(key, None)


class Rates:
    """The limits of one process: requests a minute by budget, shared out among `replicas`.

    A budget without a number, or with 0, has no limit. `one_user` is as much of each budget as one
    user of a key may take.
    """

    def __init__(
        self,
        limits: Mapping[Budget, int] | None = None,
        *,
        one_user: int = 0,
        replicas: int = 1,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._timer = timer
        self._windows = _Windows(timer)
        self._limiter = FixedWindowRateLimiter(self._windows)
        self._items: dict[Budget, RateLimitItem] = {
            budget: RateLimitItemPerMinute(math.ceil(most / replicas), namespace=budget)
            for budget, most in (limits or {}).items()
            if most
        }
        self._one_user = math.ceil(one_user / replicas)

    @property
    def has_user_limit(self) -> bool:
        """Tell whether it matters which user of a key a request is about."""
        return self._one_user > 0

    def spend(self, budget: Budget, who: str, user: str = "") -> None:
        """Count a request. Raises `TooManyRequests` when there were too many in this minute.

        What is refused to a user takes nothing from the others who share the key.
        """
        if user and self._one_user:
            self.check(budget, who)  # first, or made-up users would fill the memory
            of_user = RateLimitItemPerMinute(self._one_user, namespace=f"user {budget}")
            if not self._limiter.hit(of_user, who, user):
                raise self._spent(of_user, who, user)
        item = self._items.get(budget)
        if item is not None and not self._limiter.hit(item, who):
            raise self._spent(item, who)

    def check(self, budget: Budget, who: str) -> None:
        """Raise `TooManyRequests` if the next one would be too many; count nothing."""
        item = self._items.get(budget)
        if item is not None and not self._limiter.test(item, who):
            raise self._spent(item, who)

    def _spent(self, item: RateLimitItem, *who: str) -> TooManyRequests:
        left = self._windows.get_expiry(item.key_for(*who)) - self._timer()
        return TooManyRequests(
            "There were too many requests in this minute.", retry_after=max(1, math.ceil(left))
        )
