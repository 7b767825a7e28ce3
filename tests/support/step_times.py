"""How much of the processor's time each step of an event loop takes: of asyncio's own loop, which runs every callback
and every step of a task by one function. A machine that is busy with other things makes no step longer here, and
neither does what else the process holds: garbage is collected as in a proxy that serves."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from proxy.app import freeze

BOUNDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, float("inf"))  # seconds
NAMED = 0.002  # seconds from which on it is noted what a step was


class StepTimes:
    """Seconds of the steps, by their number in each of `BOUNDS`, and the longest by name."""

    def __init__(self) -> None:
        self.counts = [0] * len(BOUNDS)
        self.longest: list[tuple[float, str, str]] = []  # seconds, what was run, what was done meanwhile
        self.doing = ""  # told by who makes the load

    def note(self, seconds: float, callback: Any) -> None:
        self.counts[next(at for at, bound in enumerate(BOUNDS) if seconds <= bound)] += 1
        if seconds >= NAMED:
            self.longest.append((seconds, named(callback), self.doing))

    @property
    def most(self) -> float:
        """While something was done: how a proxy starts is nobody's text."""
        return max((seconds for seconds, _, doing in self.longest if doing), default=0.0)

    def report(self, lines: int = 15) -> str:
        shares = ", ".join(
            f"<= {bound * 1000:g} ms: {count}" for bound, count in zip(BOUNDS, self.counts, strict=True) if count
        )
        longest = sorted(self.longest, reverse=True)[:lines]
        return "\n".join([shares, *(f"{seconds * 1000:8.1f} ms  {doing}: {what}" for seconds, what, doing in longest)])


def named(callback: Any) -> str:
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        coroutine = owner.get_coro()
        return f"task {getattr(coroutine, '__qualname__', coroutine)}"
    return str(getattr(callback, "__qualname__", callback))


@contextmanager
def step_times() -> Iterator[StepTimes]:
    """Of all loops of this process that are asyncio's own."""
    found, run = StepTimes(), asyncio.Handle._run

    def timed(handle: Any) -> None:
        callback, before = handle._callback, time.thread_time()
        run(handle)
        found.note(time.thread_time() - before, callback)

    thresholds = gc.get_threshold()
    freeze()
    try:
        with patch.object(asyncio.Handle, "_run", timed):
            yield found
    finally:
        gc.set_threshold(*thresholds)
