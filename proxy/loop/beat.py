"""A timer that tells how late it is, and that runs before requests that arrived after it was due.

After a freeze (SIGSTOP, a suspended machine) the loop finds its own timers and the requests of that time at once, and
handles the requests first. So this timer is one of the kernel's, with a file descriptor: epoll reports what is ready in
the order in which it became so. Its clock goes on while a machine is suspended. If the kernel has no such timer, it is
one of the loop's.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC  # as timerfd_create has them


class _Spec(ctypes.Structure):
    """`struct itimerspec`: when it comes again (never), and when first."""

    _fields_ = [(name, ctypes.c_long) for name in ("again_s", "again_ns", "first_s", "first_ns")]


def now() -> float:
    """Seconds, also those in which the machine was suspended."""
    return time.clock_gettime(_CLOCK)


def _kernel_timers() -> Any:
    """The C library, if it has them."""
    library = ctypes.CDLL(None, use_errno=True)
    return library if hasattr(library, "timerfd_create") else None


class Beat:
    """Calls back every so many seconds, counted from the end of one call to the next, with its lateness in seconds."""

    def __init__(self, every: float, call: Callable[[float], None]) -> None:
        self.due = 0.0  # by `now`
        self._every, self._call = every, call
        self._spec = _Spec(0, 0, int(every), int(every % 1 * 1e9))
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._library = _kernel_timers()
        self._file = self._library.timerfd_create(_CLOCK, _FLAGS) if self._library is not None else -1

    def start(self) -> None:
        if self._file >= 0:
            self._loop.add_reader(self._file, self._on_file)
        self._next()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._file >= 0:
            self._loop.remove_reader(self._file)
            os.close(self._file)
            self._file = -1

    def _next(self) -> None:
        self.due = now() + self._every
        if self._file < 0:
            self._timer = self._loop.call_later(self._every, self._beat)
        elif self._library.timerfd_settime(self._file, 0, ctypes.byref(self._spec), None):
            raise OSError(ctypes.get_errno(), "a timer cannot be set")

    def _on_file(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._file, 8)
            self._beat()

    def _beat(self) -> None:
        self._call(max(0.0, now() - self.due))
        self._next()
