"""Versions of accounts and their rights, as far as the stream has brought changes of them."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

BRINGS = 60.0
"""Seconds in which a change of rights is noticed that is in no binlog."""
KEPT = 1000  # versions that have ended


class Accounts:
    """What MySQL has read of rights at one version may be as of before the change that ends it, or as of behind it: the
    stream brings a change after it was made.

    Invariant: what was read at a version before `_sure[version]` is as of before the change that has ended it.
    """

    def __init__(self, on_change: Callable[[], None] = lambda: None, clock: Callable[[], float] = monotonic) -> None:
        self.version = 0  # another number after each change
        self.current_at = float("-inf")  # all that MySQL had executed then, the stream has brought
        self._sure: dict[int, float] = {}
        self._on_change = on_change
        self._clock = clock

    def now(self) -> tuple[int, float]:
        """Of what is read now."""
        return self.version, self._clock()

    def changed(self) -> None:
        if len(self._sure) >= KEPT:
            self._sure.clear()
        self._sure[self.version] = min(self.current_at, self._clock() - BRINGS)
        self.version += 1
        self._on_change()

    def are_sure(self, version: int, at: float) -> bool:
        """Whether all that was read then, at this version, is as of one state of rights."""
        return version == self.version or at < self._sure.get(version, float("-inf"))

    def check_invariants(self) -> None:
        """Raises AssertionError. For tests."""
        assert len(self._sure) <= KEPT and all(version < self.version for version in self._sure)
