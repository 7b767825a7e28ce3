"""Keeps the process inside its memory limit.

The engine counts bytes by estimate: what its objects should occupy. The process occupies more: the allocator's
rounding and holes, the
ring, answers under way. So the estimate's limit is set from what the process has really grown by, and lowered as soon
as that is too much.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from dataflow.engine import Engine

PAGE = os.sysconf("SC_PAGE_SIZE")
MEASURABLE = 16 << 20  # bytes of estimate from which the ratio to the real growth means something


def resident_bytes() -> int:
    """The process's resident set, from /proc (0 where there is none)."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE
    except OSError:
        return 0


class MemoryGuard:
    """Adjusts `engine.limit` so that the process's growth stays below `limit` bytes."""

    def __init__(self, engine: Engine, limit: int, resident: Callable[[], int] = resident_bytes) -> None:
        self._engine = engine
        self._limit = limit
        self._resident = resident
        self._start = resident()
        self._factor = 1.25  # real bytes for an estimated one, until measured

    def tick(self) -> None:
        engine = self._engine
        grown = self._resident() - self._start
        used = engine.memory.used
        if used > MEASURABLE and grown > 0:
            # Freed memory does not go back to the system at once, so a falling estimate must not raise the factor.
            measured = grown / max(used, engine.limit * 0.9)
            self._factor = max(1.0, 0.7 * self._factor + 0.3 * measured) if measured < self._factor else measured
        engine.limit = int(self._limit / self._factor)
        if used > engine.limit:
            engine.sieve.evict_to(engine.limit)
