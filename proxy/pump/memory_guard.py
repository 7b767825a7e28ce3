"""Keeps what is held inside the memory limit.

The engine counts bytes by estimate: what its objects should occupy. The process occupies more: the allocator's rounding
and holes, the ring, answers under way. So the estimate's limit is set from what the process has really grown by.

Freed memory does not go back to the system, it is used again. So the process's growth belongs to the most that was ever
held, not to what is held now: measured against the latter, evicting would look as if each byte held cost more and more.

Not all growth is the cache's: sessions, plans and remembered texts grow the process, too. So growth is charged to the
cache only while the cache itself is at work (what it holds reaches a new height, or entries replace each other), and a
byte is never believed to cost more than MOST_FACTOR.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from pathlib import Path

import structlog

from dataflow.engine import Engine

log = structlog.get_logger("upwell")

PAGE = os.sysconf("SC_PAGE_SIZE")
MEASURABLE = 16 << 20  # bytes of estimate from which the ratio to the real growth means something
FIRST_FACTOR = 1.15  # real bytes for an estimated one, until measured
MOST_FACTOR = 2.0
TOLD_FACTOR = 1.5
LEAST_RING = 4 << 20  # bytes
WHY_LOWERED = "a byte that is held costs more than was estimated, so less is held; --memory-limit is still the limit"


M_MMAP_THRESHOLD, LARGE_BLOCK = -3, 1 << 20  # of mallopt


def map_large_blocks() -> None:
    """Has the C library take each large block from the system, and give it back when it is freed.

    Otherwise the first one that is freed raises the limit from which it does so. Dictionaries of keys, which are made
    anew as keys come and go, are then put into its heap, and leave holes there: a fifth of what is held.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # not every C library has it
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK)


def resident_bytes() -> int:
    """The process's resident set, from /proc (0 where there is none)."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE
    except OSError:
        return 0


def ring_bytes(limit: int) -> int:
    """How much of so much memory the ring of transactions may have."""
    return max(LEAST_RING, limit // 10)


class MemoryGuard:
    """Adjusts `engine.limit.bytes` so that what the cache has grown the process by stays below `limit` bytes.

    Invariants:
    1. `_most_used`, `_most_grown` and `_charged` never fall, and `_charged` is at most `_most_grown`.
    2. `factor` is from 1 to MOST_FACTOR: the limit never shrinks below a part of itself that is known beforehand.
    """

    def __init__(self, engine: Engine, limit: int, resident: Callable[[], int] = resident_bytes) -> None:
        self.engine = engine
        self._limit = limit
        self._resident = resident
        self._start = resident()
        self._most_used = 0
        self._most_grown = 0  # of the process
        self._charged = 0  # of that, what the cache has caused
        self._evicted = engine.sieve.evicted
        self._told = False
        self.factor = FIRST_FACTOR
        self._apply()

    def keep_below(self, limit: int) -> None:
        """The limit is another one from now on. What is too much goes in steps; the ring of transactions, a tenth of
        the limit at most, with what comes."""
        self._limit = limit
        self.engine.state.ring.max_weight = ring_bytes(limit)
        self._apply()

    def tick(self) -> None:
        """Looks at the process and sets the engine's limit."""
        used, evicted = self.engine.memory.used, self.engine.sieve.evicted
        grown = self._resident() - self._start
        if used > self._most_used or evicted != self._evicted:
            self._charged += max(0, grown - self._most_grown)
        self._evicted = evicted
        self._most_used = max(self._most_used, used)
        self._most_grown = max(self._most_grown, grown)
        if self._most_used > MEASURABLE:
            self.factor = min(max(1.0, self._charged / self._most_used), MOST_FACTOR)
        self._apply()
        if self.factor > TOLD_FACTOR and not self._told:
            self._told = True
            log.warning("memory_limit_lowered", limit=self._limit, held=self.engine.limit.bytes, why=WHY_LOWERED)

    def check_invariants(self) -> None:
        assert 0 <= self._charged <= self._most_grown, "more is charged than has grown"
        assert 1.0 <= self.factor <= MOST_FACTOR, self.factor

    def _apply(self) -> None:
        limit = self.engine.limit
        limit.bytes = int(self._limit / self.factor)
        limit.keep()
