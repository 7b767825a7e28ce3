"""Which REPEATABLE READ transactions will need a snapshot at MySQL though they begin with a hit. Pure.

A transaction that begins with a hit of some cache mostly goes on as the last ones did that began so. Where those had
MySQL look at tables later, MySQL opens its snapshot right behind the first hit: then all that the transaction is shown
is of one state. It costs MySQL two small statements, and a COMMIT where the forecast is wrong.
"""

from __future__ import annotations

MOST_CACHES = 10_000
UP, DOWN, MOST = 3, 1, 6
EXPECTED = 3
"""From this score on. A share of a quarter of the transactions keeps it there."""
REST = 1.0
"""Seconds without such snapshots where the stream has not brought in time what one of them had: each would wait so."""


class SnapshotForecast:
    """Of all sessions. Names of caches to scores from 0 to `MOST`."""

    def __init__(self) -> None:
        self._scores: dict[str, int] = {}
        self.rests_until = 0.0  # of the clock

    def expects(self, cache: str) -> bool:
        """Whether MySQL will look at tables in a transaction that has begun with a hit of this cache."""
        return self._scores.get(cache, 0) >= EXPECTED

    def note(self, cache: str, looked: bool) -> None:
        """Such a transaction is over. `looked`: MySQL has looked at tables in it."""
        score = self._scores.get(cache, 0)
        if looked:
            if len(self._scores) >= MOST_CACHES:
                self._scores.clear()
            self._scores[cache] = min(score + UP, MOST)
        elif score:
            self._scores[cache] = score - DOWN
