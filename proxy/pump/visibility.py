"""How long it takes from a commit in MySQL until hits here show it, of every transaction that concerns a cache.

A commit's time is MySQL's own, taken just before the transaction is made durable there; it is corrected by how far that
machine's clock is ahead of this one's, as measured when the change stream logged in. Behind a replica it is the time at
the server where the transaction was first committed.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from itertools import accumulate
from typing import Protocol

from dataflow.messages import StreamEvent, Transaction

BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
RECENT = 4096  # transactions of which the quantiles are


class Source(Protocol):
    @property
    def skew(self) -> float:
        """Seconds by which its clock is ahead of ours."""


class VisibleTimes:
    """Counts what is processed."""

    def __init__(self, source: Source, wall_clock: Callable[[], float] = time.time) -> None:
        self.sum = 0.0  # seconds
        self._source = source
        self._clock = wall_clock
        self._counts = [0] * (len(BOUNDS) + 1)
        self._recent: deque[float] = deque(maxlen=RECENT)

    def on_stream(self, event: StreamEvent) -> None:
        """The engine has processed the event."""
        if event.__class__ is Transaction and event.committed_at:
            seconds = max(0.0, self._clock() + self._source.skew - event.committed_at)
            self.sum += seconds
            self._counts[bisect_left(BOUNDS, seconds)] += 1
            self._recent.append(seconds)

    def buckets(self) -> tuple[tuple[float, int], ...]:
        """How many took at most so many seconds, for each bound and for infinity."""
        return tuple(zip((*BOUNDS, float("inf")), accumulate(self._counts), strict=True))

    def quantiles(self, *shares: float) -> tuple[float, ...]:
        """Seconds within which these shares of the last transactions were visible; 0 while there were none."""
        ordered = sorted(self._recent)
        if not ordered:
            return (0.0,) * len(shares)
        return tuple(ordered[min(len(ordered) - 1, int(share * len(ordered)))] for share in shares)
