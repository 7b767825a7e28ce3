"""What is known of a proxy from its stream: the last overview, how fast counters rise, and the last reads."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from upwell.top.feed import merged

KEPT = 300  # samples, a second each, and reads
LATELY = 5  # samples over which a cache's counters are told a second
COUNTED = ("hits", "misses", "passed")
LINES = ("hits", "misses", "passed", "hit_rate")  # that are drawn; of `rates`, and of a row of the last hour

Json = Mapping[str, Any]


class State:
    """`overview`: as docs/http.md has it; empty before the first event. `lost`: why nothing comes, "" while it does.
    `reads_away`: likewise of reads, which have a stream of their own.

    Invariants: 1. `_counts` has the counters of each cache at the last LATELY + 1 events, `series` what was drawn of
    the last KEPT.
    """

    def __init__(self) -> None:
        self.overview: dict[str, Any] = {}
        self.lost = ""
        self.came_back = 0.0  # when, in seconds since 1970, by the proxy's clock; 0: it was never lost
        self.series: dict[str, deque[float]] = {name: deque(maxlen=KEPT) for name in LINES}
        self.reads: deque[Json] = deque(maxlen=KEPT)
        self.reads_lost = 0  # how many were not told, as too many came at once
        self.reads_away = ""
        self._counts: deque[tuple[float, dict[str, tuple[int, int, int]]]] = deque(maxlen=LATELY + 1)
        self._was_lost = False

    def take(self, kind: str, data: Any) -> None:
        """An event of one of the streams."""
        if kind == "reads":
            self.reads_lost += data["lost"]
            self.reads.extend(data["reads"])
        elif kind == "sample":
            history = self.overview.get("history")
            if history is not None:
                most = max(1, round(3600 / history["every"]))
                history["rows"] = [*history["rows"], *data][-most:]
        elif kind in ("overview", "patch"):
            self._look(data if kind == "overview" else merged(self.overview, data))
        elif kind in ("reads lost", "reads begun"):
            self.reads_away = data or ""
        elif kind in ("lost", "refused"):
            self.lost, self._was_lost = data, True

    def _look(self, overview: dict[str, Any]) -> None:
        self.overview, self.lost = overview, ""
        at = overview["at"]
        if self._was_lost:
            self._was_lost, self.came_back = False, at
            self._counts.clear()  # counters begin anew with a process
        rates = overview["rates"]
        for name, values in self.series.items():
            values.append(float(rates[name]))
        counts = {name: tuple(cache[one] for one in COUNTED) for name, cache in overview["caches"].items()}
        self._counts.append((at, counts))

    def rates(self, name: str) -> tuple[float, float, float]:
        """Hits, misses and passed reads of a cache, a second."""
        if len(self._counts) < 2:
            return 0.0, 0.0, 0.0
        (began, first), (at, last) = self._counts[0], self._counts[-1]
        now = last.get(name, (0, 0, 0))
        before = first.get(name, now)
        seconds = max(at - began, 1e-3)
        found = [max(0, after - then) / seconds for after, then in zip(now, before, strict=True)]
        return found[0], found[1], found[2]

    def last(self, name: str, *, hour: bool) -> float | None:
        """The last value of a line. None: there is none, as there is no hit rate without reads."""
        values = self.line(name, hour=hour)
        if name == "hit_rate" and not any(self.last(one, hour=hour) for one in COUNTED):
            return None
        return values[-1] if values else None

    def line(self, name: str, *, hour: bool) -> Sequence[float]:
        """What is drawn of a figure: a value a second, or the last hour's rows."""
        if not hour:
            return tuple(self.series[name])
        history = self.overview.get("history", {"columns": (), "rows": ()})
        if name not in history["columns"]:
            return ()
        place = history["columns"].index(name)
        return tuple(row[place] for row in history["rows"])
