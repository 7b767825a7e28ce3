"""Keeps the process inside its memory limit.

The engine counts bytes by estimate: what its objects should occupy. The process occupies more: the allocator's rounding
and holes, the ring, answers under way. So the estimate's limit is set from what the process has really grown by.

Freed memory does not go back to the system, it is used again. So the process's growth belongs to the most that was ever
held, not to what is held now: measured against the latter, evicting would look as if each byte held cost more and more.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from dataflow.engine import Engine

PAGE = os.sysconf("SC_PAGE_SIZE")
MEASURABLE = 16 << 20  # bytes of estimate from which the ratio to the real growth means something
FIRST_FACTOR = 1.15  # real bytes for an estimated one, until measured


def resident_bytes() -> int:
    """The process's resident set, from /proc (0 where there is none)."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE
    except OSError:
        return 0


class MemoryGuard:
    """Adjusts `engine.limit` so that the process's growth stays below `limit` bytes.

    Invariants: 1. `_most_used` and `_most_grown` never fall; their ratio is what a byte of estimate costs.
    """

    def __init__(self, engine: Engine, limit: int, resident: Callable[[], int] = resident_bytes) -> None:
        self._engine = engine
        self._limit = limit
        self._resident = resident
        self._start = resident()
        self._most_used = 0
        self._most_grown = 0
        self.factor = FIRST_FACTOR
        self._apply()

    def tick(self) -> None:
        """Looks at the process and sets the engine's limit."""
        self._most_used = max(self._most_used, self._engine.memory.used)
        self._most_grown = max(self._most_grown, self._resident() - self._start)
        if self._most_used > MEASURABLE:
            self.factor = max(1.0, self._most_grown / self._most_used)
        self._apply()

    def _apply(self) -> None:
        engine = self._engine
        engine.limit = int(self._limit / self.factor)
        if engine.memory.used > engine.limit:
            engine.sieve.evict_to(engine.limit)
