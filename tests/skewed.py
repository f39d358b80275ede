"""Clocks that are wrong, in this process or in one of its own, under a database's that is right.

What Python calls is shifted: `time.time` and `datetime.now`, whoever calls them. Not shifted are
what compiled code reads by itself (TLS, which no test uses), file times, and clocks that only
measure spans.
"""

import ctypes
import gc
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, tzinfo
from typing import Any

from app.worker import Pace
from tests import slow_worker

_METHODS: Any = gc.get_referents(datetime.__dict__)[0]


@contextmanager
def ahead(seconds: float) -> Iterator[None]:
    """Let this process's clock be so many seconds ahead, or behind, for the block's time."""
    real_time, real_now, real_method = time.time, datetime.now, _METHODS["now"]

    def now(kind: type[datetime], tz: tzinfo | None = None) -> datetime:
        del kind
        return real_now(tz) + timedelta(seconds=seconds)

    time.time = lambda: real_time() + seconds
    _replace(classmethod(now))
    try:
        yield
    finally:
        time.time = real_time
        _replace(real_method)


def _replace(now: Any) -> None:
    # The type itself is changed, not its name: the database's driver makes datetimes in C, which
    # are none of a subclass.
    _METHODS["now"] = now
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(datetime))


def work(url: str, seconds: float, thinks: float, pace: Pace) -> None:
    """Work until killed under a clock that is wrong, with a model that takes its time."""
    vars(slow_worker).update(THINKS=thinks)
    with ahead(seconds):
        slow_worker.work(url, os.devnull, pace)
