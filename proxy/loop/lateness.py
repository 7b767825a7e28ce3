"""Always measures how late the event loop is, by a timer that is due every 20 ms.

A long step of the loop makes every session wait. A second thread finds out which step that is: it sleeps, and if the
timer is overdue it looks at the loop's stack once. A machine that is short of processors makes the loop late, too; then
the loop has used little CPU time.
"""

from __future__ import annotations

import sys
import threading
import time
from bisect import bisect_left
from collections.abc import Callable
from itertools import accumulate
from types import FrameType

import structlog

from proxy.loop.beat import Beat, now

log = structlog.get_logger("upwell.loop")

BEAT = 0.02  # seconds from one look to the next
LATE = 0.05  # seconds from which on a log line says what ran
FROZEN = 1.0  # seconds from which on what is held may be too old: the process may not have run
LINES_APART = 10.0  # seconds between two such lines
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
NO_PROCESSOR = "waiting for a processor"
NOT_SEEN = "steps that were too short to be seen"
DEEPEST = 6  # calls that are named, the innermost last


def nothing() -> None:
    pass


class Lateness:
    """Runs from `start` to `stop`, on the running event loop. `doing`: the loop's step when it was last late."""

    def __init__(self, on_frozen: Callable[[], None] = nothing, on_beat: Callable[[], None] = nothing) -> None:
        """`on_frozen`: called if the loop was late by `FROZEN` or more, before it handles anything that arrived
        meanwhile. `on_beat`: called at each look."""
        self._on_frozen, self._on_beat = on_frozen, on_beat
        self.sum = 0.0  # seconds
        self.most = 0.0
        self.lately = 0.0  # seconds, on average over about the last second
        self.doing = ""
        self.times = 0  # that it was late by `LATE` or more
        self._counts = [0] * (len(BOUNDS) + 1)
        self._thread_id = threading.get_ident()
        self._beat = Beat(BEAT, self._look)
        self._cpu = 0.0
        self._seen = ""  # by the watching thread, since the last beat
        self._told_at = float("-inf")
        self._untold = 0
        self._ended = threading.Event()

    def start(self) -> None:
        self._cpu = time.thread_time()
        self._beat.start()
        threading.Thread(target=self._watch, name="upwell-lateness", daemon=True).start()

    def stop(self) -> None:
        self._ended.set()
        self._beat.stop()

    def buckets(self) -> tuple[tuple[float, int], ...]:
        """How often it was late by at most so many seconds, for each bound and for infinity."""
        return tuple(zip((*BOUNDS, float("inf")), accumulate(self._counts), strict=True))

    def _look(self, late: float) -> None:
        if late >= FROZEN:
            self._on_frozen()
        cpu = time.thread_time()
        used, self._cpu = cpu - self._cpu, cpu
        self.note(late, used)
        self._on_beat()

    def note(self, late: float, used: float) -> None:
        """Counts one lateness. `used`: the loop's CPU time since the last one. Both in seconds."""
        self.sum += late
        self.most = max(self.most, late)
        self.lately += (late - self.lately) * BEAT
        self._counts[bisect_left(BOUNDS, late)] += 1
        doing, self._seen = self._seen, ""
        if late < LATE:
            return
        self.doing = doing or (NO_PROCESSOR if used < late / 2 else NOT_SEEN)
        self.times += 1
        self._untold += 1
        at = time.monotonic()
        if at - self._told_at >= LINES_APART:
            times, self._untold, self._told_at = self._untold, 0, at
            log.warning("loop_late", seconds=round(late, 3), cpu_seconds=round(used, 3), doing=self.doing, times=times)

    def _watch(self) -> None:
        """In its own thread."""
        while not self._ended.wait(BEAT):
            if now() - self._beat.due > LATE and not self._seen:
                frame = sys._current_frames().get(self._thread_id)
                if frame is not None:
                    self._seen = calls(frame)


def calls(frame: FrameType | None) -> str:
    """The innermost calls of a stack, by module and function, the outermost first."""
    names: list[str] = []
    while frame is not None and len(names) < DEEPEST:
        names.append(f"{frame.f_globals.get('__name__', '?')}.{frame.f_code.co_name}")
        frame = frame.f_back
    return " > ".join(reversed(names))
