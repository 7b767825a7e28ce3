"""The memory limit: what is held stays below it, and what was let go is taken apart.

Invariants:
1. More than `bytes` is held only inside a call, while `tidy` has more to evict, or where no key may go.
"""

from __future__ import annotations

from collections.abc import Iterable

from dataflow.held.arrangement import Memory
from dataflow.readers.eviction import GOING, Sieve
from dataflow.readers.reader import ReaderNode

EVICTING = 250 * GOING  # what is evicted in one step: so many keys, or that many times more that stay


class MemoryLimit:
    """`bytes`: by estimate, as `Memory.used` is."""

    def __init__(self, memory: Memory, sieve: Sieve, limit: int) -> None:
        self._memory = memory
        self._sieve = sieve
        self.bytes = limit
        self._evicting = False  # `tidy` goes on

    def keep(self) -> None:
        """Evicts what is too much, if anything is: as much as a short step can, the rest in `tidy`."""
        if self._memory.used <= self.bytes:
            return
        self._sieve.evict_to(self.bytes, EVICTING)
        if self._look():
            self._memory.remains.more()

    def tidy(self, most: int) -> bool:
        """Takes apart so much of what was let go (`dataflow/held/remains.py`), then evicts. Whether there is more to
        do."""
        remains, sieve = self._memory.remains, self._sieve
        if remains:
            remains.take_apart(most)
            return bool(remains) or self._evicting or sieve.prune(0)
        if self._evicting:
            sieve.go_on(self.bytes, GOING * most)
            return self._look() or sieve.prune(0)
        return sieve.prune(10 * most)

    def _look(self) -> bool:
        """Whether there is more to evict."""
        self._evicting = self._memory.used > self.bytes and not self._sieve.stuck
        return self._evicting

    def check_invariants(self, readers: Iterable[ReaderNode]) -> None:
        """`readers`: all. Raises AssertionError where one does not hold."""
        evictable = any(held.watch is None for reader in readers for held in reader.entries.values())
        assert self._memory.used <= self.bytes or self._evicting or not evictable, "more is held than the limit allows"
