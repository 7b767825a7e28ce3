"""One template on MySQL and through Upwell: times, CPU, and whether the answers are equal."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from examples.lobsters.cached import Cached
from examples.lobsters.cpu import ConnectionClock, process_seconds
from examples.lobsters.direct import Direct
from examples.lobsters.queries import CATALOGUE, Compare, Parameters, Sample, Template

Rows = Sequence[Sequence[Any]]


@dataclass(slots=True)
class Effort:
    """How much to measure. Seconds are for each template and side."""

    keys: int = 20
    seconds: float = 0.25
    runs: int = 400


@dataclass(slots=True)
class Figures:
    """Of one template. Times in milliseconds, CPU in microseconds; None where it could not be measured."""

    id: str
    keys: int = 0
    mysql_ms: float = 0.0
    mysql_cpu_us: float | None = None
    miss_ms: float | None = None
    hit_ms: float | None = None
    hit_cpu_us: float | None = None
    differences: list[str] = field(default_factory=list)

    @property
    def ratio(self) -> float | None:
        """MySQL's time to a hit's, both as the client sees them."""
        return self.mysql_ms / self.hit_ms if self.hit_ms else None

    @property
    def cpu_ratio(self) -> float | None:
        """MySQL's CPU for an execution to the proxy's for a hit."""
        return self.mysql_cpu_us / self.hit_cpu_us if self.mysql_cpu_us and self.hit_cpu_us else None


def same(template: Template, direct: Direct, parameters: Parameters, expected: Rows, seen: Rows) -> bool:
    """Whether `seen` may stand for `expected`, MySQL's own answer."""
    if template.compare is Compare.ORDERED:
        return list(map(tuple, expected)) == list(map(tuple, seen))
    if template.compare is Compare.BAG:
        return Counter(map(tuple, expected)) == Counter(map(tuple, seen))
    if len(expected) != len(seen):
        return False
    allowed = {tuple(row) for row in direct.query(template.allowed, parameters * 2)}
    return all(tuple(row) in allowed for row in seen)


def draw_keys(template: Template, sample: Sample, count: int) -> list[Parameters]:
    """Different parameters; one if the template has none."""
    drawn = (sample.of(template) for _ in range(count * 3 if template.draws else 1))
    return list(dict.fromkeys(drawn))[:count]


def repeat(run: Callable[[Parameters], object], keys: Sequence[Parameters], effort: Effort) -> tuple[list[float], int]:
    """Runs over the keys again and again until the time or the number of runs is used up: (seconds of each, runs)."""
    times: list[float] = []
    end = time.perf_counter() + effort.seconds
    while len(times) < effort.runs:
        for key in keys:
            start = time.perf_counter()
            run(key)
            now = time.perf_counter()
            times.append(now - start)
            if now > end and len(times) >= 3:
                return times, len(times)
    return times, len(times)


class Measurement:
    """Both sides, and their CPU clocks. The source must be at rest: answers are compared."""

    def __init__(self, direct: Direct, cached: Cached, proxy_pid: int, effort: Effort | None = None) -> None:
        self.direct, self.cached = direct, cached
        self.effort = effort or Effort()
        self._proxy_pid = proxy_pid
        self._clock = ConnectionClock(direct.connection)

    def template(self, id: str, sample: Sample) -> Figures:
        template = CATALOGUE[id]
        keys = draw_keys(template, sample, self.effort.keys)
        figures = Figures(id, len(keys))
        # The first run of every key is not measured: MySQL's pages are in memory, as they are in a busy server.
        expected = {key: self.direct.read(id, key) for key in keys}
        before = self._clock.seconds() if self._clock.works else 0.0
        times, runs = repeat(lambda key: self.direct.read(id, key), keys, self.effort)
        figures.mysql_ms = median(times) * 1e3
        if self._clock.works:
            figures.mysql_cpu_us = (self._clock.seconds() - before) / runs * 1e6
        self._misses(figures, keys)
        self._hits(figures, keys)
        self.compare(figures, expected)
        return figures

    def _misses(self, figures: Figures, keys: Sequence[Parameters]) -> None:
        cache, times = self.cached.cache(figures.id), []
        for key in keys:
            start = time.perf_counter()
            answer = cache.get(*key)
            if answer.served == "miss":
                times.append(time.perf_counter() - start)
        figures.miss_ms = median(times) * 1e3 if times else None

    def _hits(self, figures: Figures, keys: Sequence[Parameters]) -> None:
        cache, served = self.cached.cache(figures.id), Counter[str]()

        def hit(key: Parameters) -> None:
            served[cache.get(*key).served] += 1

        before = process_seconds(self._proxy_pid)
        times, runs = repeat(hit, keys, self.effort)
        used = process_seconds(self._proxy_pid) - before
        if served["hit"] < runs:
            figures.differences.append(f"{runs - served['hit']} of {runs} reads of held keys were not hits")
        figures.hit_ms = median(times) * 1e3
        figures.hit_cpu_us = used / runs * 1e6

    def compare(self, figures: Figures, expected: Mapping[Parameters, Rows]) -> None:
        """Adds a line to `figures` for each key whose answer is not MySQL's."""
        template, cache = CATALOGUE[figures.id], self.cached.cache(figures.id)
        for key, rows in expected.items():
            seen = cache.get(*key)
            if not same(template, self.direct, key, rows, seen):
                figures.differences.append(f"{key!r}: MySQL {list(rows)[:3]!r}, Upwell {list(seen)[:3]!r}")
