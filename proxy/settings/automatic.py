"""The limits of automatic caching: how many reads make a shape worth a cache, and how long a cache is kept."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

TWICE = 2  # reads: what was asked once may never be asked again


@dataclass(frozen=True, slots=True)
class Policy:
    """When a cache is made and how long it is kept. Times in seconds, unless the name says otherwise.

    `few_reads`: so many passed reads in ten minutes earn a shape a cache while the loop has time;
    `busy_ms`: two or more reads that took MySQL so long in all earn it one in any case.
    `memory`: the most bytes of all automatic caches; `most`: their number.
    """

    memory: int
    few_reads: int = 3
    busy_ms: float = 5.0
    most: int = 200
    every: float = 1.0  # between two looks at what might be cached
    count_every: float = 5.0  # between two looks at the caches there are
    trial: float = 120.0  # before a cache is judged
    seldom: float = 600.0  # before one is whose reads are fewer than `some_reads`: most of them are the first of a key
    some_reads: int = 300
    short_trial: float = 8.0  # where the loop is short
    settled: float = 3600.0  # a cache that was kept so long has shown its worth: it is barred as if for the first time
    bar: float = 600.0
    longest_bar: float = 86_400.0

    def needed(self, p50_us: float, *, idle: bool) -> int:
        """Reads in ten minutes that make a cache worth it, of a shape for which MySQL takes so long. `idle`: the loop
        has time."""
        busy = max(TWICE, ceil(self.busy_ms * 1000 / p50_us)) if p50_us > 0 else None
        few = self.few_reads if idle or busy is None else busy
        return few if busy is None else min(few, busy)
