"""The numbers that came lately, bounded: two generations, of which the older one goes."""

from __future__ import annotations


class Recent:
    """At least the last `most` different numbers, and twice as many at most.

    Invariants: 1. at most `most` numbers are in each of both generations.
    """

    __slots__ = ("_most", "_old", "_young")

    def __init__(self, most: int) -> None:
        self._most = most
        self._young: set[int] = set()
        self._old: set[int] = set()

    def again(self, number: int) -> bool:
        """Whether it came lately; from now on it did."""
        if number in self._young:
            return True
        found = number in self._old
        if len(self._young) >= self._most:
            self._old, self._young = self._young, set()
        self._young.add(number)
        return found

    def check_invariants(self) -> None:
        assert len(self._young) <= self._most and len(self._old) <= self._most
