"""Reads of one cache whose answers are too large to be held: MySQL is asked for them, and for no fill. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from time import monotonic

from proxy.port.api import ParameterValue
from proxy.port.reasons import NO_REASON, Why

SECONDS = 60.0  # then it is tried again: the answer may have become smaller
MOST = 1000  # reads that are remembered


class TooLarge:
    """Invariants: 1. At most MOST reads are remembered, in the order in which that ends."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._until: OrderedDict[tuple[ParameterValue, ...], tuple[float, Why]] = OrderedDict()

    def note(self, parameters: Sequence[ParameterValue], why: Why) -> None:
        """A read with these parameters was refused a fill."""
        self._until.pop(tuple(parameters), None)
        self._until[tuple(parameters)] = self._clock() + SECONDS, why
        if len(self._until) > MOST:
            self._until.popitem(last=False)

    def why(self, parameters: Sequence[ParameterValue]) -> Why:
        """Why a fill is not to be tried; "" if nothing says so."""
        if not self._until:
            return NO_REASON
        until, why = self._until.get(tuple(parameters), (0.0, NO_REASON))
        if why and until <= self._clock():
            del self._until[tuple(parameters)]
            return NO_REASON
        return why

    def forget(self) -> None:
        """All may be tried again."""
        self._until.clear()

    def check_invariants(self) -> None:
        """Raises AssertionError. For tests."""
        times = [until for until, _ in self._until.values()]
        assert len(times) <= MOST and times == sorted(times)
