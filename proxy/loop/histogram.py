"""Times by how long they took, as Prometheus counts them."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import accumulate

BOUNDS = (
    *(0.000005, 0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1),
    *(0.25, 0.5, 1.0, 2.5),
)


@dataclass(slots=True)
class Histogram:
    """`sum` in seconds."""

    sum: float = 0.0
    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))

    def note(self, seconds: float) -> None:
        self.sum += seconds
        self.counts[bisect_left(BOUNDS, seconds)] += 1

    def buckets(self) -> tuple[tuple[float, int], ...]:
        """How many took at most so many seconds, for each bound and for infinity."""
        return tuple(zip((*BOUNDS, float("inf")), accumulate(self.counts), strict=True))
