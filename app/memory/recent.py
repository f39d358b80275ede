"""A small memory of what was seen lately: bounded, approximate, and of nothing but hashes."""

from collections.abc import Hashable


class Recent:
    """Remembers at least the latest `most` things, and at most twice as many.

    Two things may be taken for one, rarely: only for what is merely quicker or thriftier when
    right. Holds no thing itself, so what is erased elsewhere isn't kept here.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._new: set[int] = set()
        self._old: set[int] = set()

    def __contains__(self, thing: Hashable) -> bool:
        key = hash(thing)
        return key in self._new or key in self._old

    def add(self, thing: Hashable) -> None:
        """Remember a thing."""
        if len(self._new) >= self._most:
            self._old, self._new = self._new, set()
        self._new.add(hash(thing))

    def discard(self, thing: Hashable) -> None:
        """Forget a thing."""
        key = hash(thing)
        self._new.discard(key)
        self._old.discard(key)

    def clear(self) -> None:
        """Forget everything."""
        self._new, self._old = set(), set()
