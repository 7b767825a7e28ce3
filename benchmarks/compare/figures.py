"""Ratios of pairs, and the report that is printed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb
from statistics import median

from benchmarks.result import Figure, Sheet

LIMIT = 1.03  # a path may take so many times as long as at the base
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Pair:
    """Processor seconds of the proxy for one operation, measured one right after the other."""

    base: float
    tree: float

    @property
    def ratio(self) -> float:
        return self.tree / self.base


@dataclass(frozen=True, slots=True)
class Compared:
    """A path and its pairs. Requires: at least one."""

    name: str
    pairs: Sequence[Pair]

    @property
    def ratios(self) -> list[float]:
        """In ascending order."""
        return sorted(pair.ratio for pair in self.pairs)

    @property
    def ratio(self) -> float:
        return median(self.ratios)

    @property
    def interval(self) -> tuple[float, float]:
        """Where the median of very many pairs would be, with a probability of at least CONFIDENCE; the smallest and
        the greatest ratio where there are too few pairs to say so."""
        ratios = self.ratios
        left_out = outside(len(ratios))
        return ratios[left_out], ratios[-1 - left_out]


def outside(count: int) -> int:
    """How many of `count` ordered values may be left out at each end, so that the rest surrounds the median of what
    they were drawn from with a probability of at least CONFIDENCE: each value is below that median with 1/2."""
    most = (1 - CONFIDENCE) / 2 * 2**count
    below, left_out = 1, 0
    while below <= most:
        left_out += 1
        below += comb(count, left_out)
    return max(left_out - 1, 0)


def sheet(compared: Sequence[Compared], base: str) -> Sheet:
    """A row for each path; microseconds are medians."""
    columns = "path", "base us", "tree us", "tree / base", "95 %", "min", "max", "pairs"
    table = Sheet(f"processor time of the proxy for one operation: the working tree against {base}", columns)
    for one in compared:
        low, high = one.interval
        table.rows.append(
            (
                one.name,
                median(pair.base for pair in one.pairs) * 1e6,
                median(pair.tree for pair in one.pairs) * 1e6,
                f"{one.ratio:.3f}",
                f"{low:.3f} .. {high:.3f}",
                f"{one.ratios[0]:.3f}",
                f"{one.ratios[-1]:.3f}",
                len(one.pairs),
            )
        )
    return table


def rates(compared: Sequence[Compared], commit: str) -> list[Figure]:
    """By processor time, how many operations a second the tree does to one of the commit."""
    return [Figure(f"{one.name}: operations per CPU second to {commit[:7]}'s", 1 / one.ratio, "x") for one in compared]


def verdict(compared: Sequence[Compared]) -> list[str]:
    """Which paths have become slower than LIMIT allows, and how sure that is."""
    above = [one for one in compared if one.ratio > LIMIT]
    sure = [one for one in above if one.interval[0] > LIMIT]
    unsure = [one for one in above if one not in sure]
    lines = []
    if sure:
        lines.append(f"above {LIMIT}: {listed(sure)}")
    if unsure:
        lines.append(
            f"above {LIMIT}, but within the noise (PAIRS={2 * len(unsure[0].pairs)} says more): {listed(unsure)}"
        )
    if not above:
        lines.append(f"no path is above {LIMIT}")
    widest = max(compared, key=lambda one: one.interval[1] - one.interval[0])
    halves = sorted((one.interval[1] - one.interval[0]) / 2 for one in compared)
    lines.append(
        f"spread: the ratios are known to within {median(halves):.1%} (median of the paths),"
        f" that of {widest.name!r} to within {halves[-1]:.1%}"
    )
    return lines


def listed(compared: Sequence[Compared]) -> str:
    return ", ".join(f"{one.name} {one.ratio:.3f}" for one in compared)
