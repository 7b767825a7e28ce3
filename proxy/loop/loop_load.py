"""How busy the event loop's thread is: the part of the time in which it ran, or would have run had a core been free.

Linux counts both for each thread (`schedstat`): on busy cores a loop that is always at work has little CPU time, and
much time in which it waits for a core. Elsewhere the CPU time alone is taken.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from math import exp

SHORT = 0.75  # of the time: from this on the loop is short
ENOUGH = 0.5  # below it, it is so no more
SECONDS = 0.5  # in which a look counts for 1/e


def thread_times() -> Callable[[], float]:
    """Tells how long, in seconds, this thread has run or waited for a core until now."""
    try:
        file = os.open(f"/proc/self/task/{threading.get_native_id()}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return time.thread_time

    def read() -> float:
        ran, waited, *_ = os.pread(file, 100, 0).split()
        return (int(ran) + int(waited)) / 1e9

    try:
        read()
    except (OSError, ValueError):
        os.close(file)
        return time.thread_time
    return read


class LoopLoad:
    """Between the last two looks: `used`, the seconds in which the loop had work; `idle`, the part without work.
    `busy`: the used part of about the last half second. `short`: the loop is so busy that any work on it keeps others
    waiting."""

    def __init__(self, times: Callable[[], float] | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.idle = 1.0
        self.used = 0.0
        self.busy = 0.0
        self.short = False
        self._times = times or thread_times()
        self._clock = clock
        self._at, self._used = clock(), self._times()

    def tick(self) -> None:
        """To be called now and then, on the loop's thread."""
        at, used = self._clock(), self._times()
        passed = at - self._at
        if passed <= 0:
            return
        self.used = used - self._used
        share = min(1.0, max(0.0, (used - self._used) / passed))
        self.idle = 1 - share
        weight = exp(-passed / SECONDS)
        self.busy = self.busy * weight + share * (1 - weight)
        self._at, self._used = at, used
        self.short = self.busy >= (ENOUGH if self.short else SHORT)
