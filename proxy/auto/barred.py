"""Shapes that get no cache for a time, which is longer each time that one of theirs did not pay. Pure."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from proxy.auto.made_cache import Made
from proxy.settings.automatic import Policy

MOST_BARRED = 1000

Shape = tuple[str, str]  # text, database


@dataclass(slots=True)
class Bar:
    until: float
    seconds: float
    why: str


class Barred:
    """Invariants: 1. At most `MOST_BARRED` are known, the last ones."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._bars: OrderedDict[Shape, Bar] = OrderedDict()

    def check_invariants(self) -> None:
        assert len(self._bars) <= MOST_BARRED, "too many shapes are barred"

    def at(self, shape: Shape, now: float) -> Bar | None:
        """None: it may have a cache."""
        bar = self._bars.get(shape)
        return bar if bar is not None and bar.until > now else None

    def add(self, made: Made, why: str, now: float, least: float = 0.0) -> None:
        """The shape of this cache, which did not pay. `least`: seconds."""
        shape, policy = (made.entry.shape, made.entry.database), self._policy
        before = self._bars.pop(shape, None)
        again = before is not None and now - made.at < policy.settled
        seconds = max(least, before.seconds * 2 if before is not None and again else policy.bar)
        seconds = min(seconds, policy.longest_bar)
        self._bars[shape] = Bar(now + seconds, seconds, why)
        while len(self._bars) > MOST_BARRED:
            self._bars.popitem(last=False)

    def clear(self) -> None:
        self._bars.clear()
