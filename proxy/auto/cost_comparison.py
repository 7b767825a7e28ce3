"""Compares two costs for a loop that is short of time: to pass everything, or to have automatic caches.

A sum of single costs does not tell. Hits in transactions go a longer way, MySQL's answers lead to questions about the
session, and changes are processed. So the loop's time for each statement is measured as a whole, without automatic
caches and with them. Both are measured in the same minutes, so under the same load.
"""

from __future__ import annotations

from dataclasses import dataclass

WINDOW = 1.0  # seconds that are measured together; the best ones are compared, for whatever disturbs makes them worse
LEAST_PASSING, LEAST_CACHING = 1.5, 5.0  # seconds that must have been measured
SETTLING = 2.0  # after a cache was made: it is planned, and each session asks for its rights
FRESH = 120.0  # seconds for which it is known what passing takes
WORSE = 1.05


@dataclass(slots=True)
class _Way:
    """`seconds`: measured in all. `at`: when, last. `us`: of the loop for a statement, in the best window."""

    used: float = 0.0  # in the window that has begun, as the next two
    statements: int = 0
    window: float = 0.0
    seconds: float = 0.0
    at: float = float("-inf")
    us: float = float("inf")

    def note(self, now: float, seconds: float, used: float, statements: int) -> None:
        self.used += used
        self.statements += statements
        self.window += seconds
        self.seconds += seconds
        self.at = now
        if self.window >= WINDOW:
            if self.statements:
                self.us = min(self.us, self.used / self.statements * 1e6)
            self.used, self.statements, self.window = 0.0, 0, 0.0


class TwoWays:
    """Times in seconds."""

    def __init__(self) -> None:
        self._passing = _Way()
        self._caching = _Way()
        self._settled = float("-inf")

    def changed(self, now: float) -> None:
        """An automatic cache was made or dropped."""
        self._caching = _Way()
        self._settled = now + SETTLING

    def note(self, now: float, seconds: float, used: float, statements: int, *, caching: bool) -> None:
        """So long the loop was short, and used that much time for so many statements. `caching`: there are automatic
        caches."""
        if caching:
            if now >= self._settled:
                self._caching.note(now, seconds, used, statements)
            return
        if now - self._passing.at > FRESH:
            self._passing = _Way()
        self._passing.note(now, seconds, used, statements)

    def is_known(self, now: float) -> bool:
        """Whether the cost of passing is known."""
        return self._passing.seconds >= LEAST_PASSING and now - self._passing.at <= FRESH

    def worse(self, now: float) -> str:
        """In what caching is worse, "" if it is not, or that cannot be told."""
        passing, caching = self._passing, self._caching
        if not self.is_known(now) or caching.seconds < LEAST_CACHING or caching.us <= passing.us * WORSE:
            return ""
        return (
            f"a statement takes {caching.us:.0f} us of Upwell's time, which is short,"
            f" and {passing.us:.0f} us where nothing is cached"
        )
