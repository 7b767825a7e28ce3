"""Draws entities as often as they were met on the real site: histograms of the site's operator, sampled by weight.

A histogram says how many entities had about so many events. An entity of a bin is drawn in proportion to the bin's
centre (a quarter of the width for the first bin), so the draw is piecewise uniform. Ids ascend with popularity: the
last entities are the hottest.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from random import Random

FOLDER = Path(__file__).with_name("histograms")

# Width of a bin, by file.
WIDTHS = {"votes_per_user": 100, "votes_per_story": 10, "votes_per_comment": 10, "comments_per_story": 10}


def read_bins(name: str) -> list[tuple[int, int]]:
    """The pairs (events of the bin, number of entities), ascending."""
    lines = (FOLDER / f"{name}.dat").read_text().split("\n")
    return [(int(start), int(count)) for start, count in (line.split() for line in lines if line.strip())]


def scaled_counts(counts: Sequence[int], total: int) -> list[int]:
    """`counts` scaled so that they sum to exactly `total`, by largest remainder."""
    whole = sum(counts)
    result = [count * total // whole for count in counts]
    by_remainder = sorted(range(len(counts)), key=lambda i: (-(counts[i] * total % whole), i))
    for i in by_remainder[: total - sum(result)]:
        result[i] += 1
    return result


class Histogram:
    """Entities 0 .. size-1 with their weights.

    Invariants: 1. `cumulative` ascends strictly. 2. its length is `size`.
    """

    def __init__(self, name: str, size: int) -> None:
        bins = read_bins(name)
        counts = scaled_counts([count for _, count in bins], size)
        weights: list[float] = []
        for (start, _), count in zip(bins, counts, strict=True):
            weights.extend([start or WIDTHS[name] / 4] * count)
        self.name = name
        self.size = size
        self.cumulative = list(accumulate(weights))

    def draw(self, random: Random) -> int:
        return bisect_right(self.cumulative, random.random() * self.cumulative[-1], 0, self.size - 1)

    def draws(self, random: Random, count: int) -> list[int]:
        """As `draw`, `count` times, faster."""
        return random.choices(range(self.size), cum_weights=self.cumulative, k=count)
