"""The position: which transactions of MySQL every hit reflects."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from dataflow.engine import Engine
    from dataflow.messages import StreamEvent
    from gtid_tracker.gtid import GtidSet


class Moment(NamedTuple):
    """A position, for as long as it is remembered how it came about. `ring`: which one, counted from the start.
    `pushed`: transactions received through it."""

    ring: int
    pushed: int


class Position:
    """The engine's position, as text and as moments. `moment`: where it is now, another object once it has moved."""

    def __init__(self, engine: Engine, clock: Callable[[], float] = monotonic) -> None:
        self._engine = engine
        self._clock = clock
        self._changed_at = clock()
        self._ring = engine.state.ring  # that `moment` is of
        self.moment = Moment(0, engine.state.ring.pushed)
        self._text, self._text_ring, self._text_pushed = "", engine.state.ring, -1

    def text(self) -> str:
        """The GTID set that every hit now reflects. Called on every hit: the same str object until it changes."""
        ring = self._engine.state.ring  # another one after each reset
        if ring.pushed != self._text_pushed or ring is not self._text_ring:
            self._text_pushed, self._text_ring = ring.pushed, ring
            self._text = str(ring.position)
        return self._text

    def text_with(self, more: GtidSet) -> str:
        """The position and these transactions: what an entry ahead of the position reflects."""
        return str(self._engine.state.ring.position.freeze().union(more))

    def text_at(self, moment: Moment) -> str:
        """The position then; "" where it is too long ago to be told."""
        if moment == self.moment:
            return self.text()
        found = self._ring.position_at(moment.pushed) if moment.ring == self.moment.ring else None
        return "" if found is None else str(found)

    def sequence(self) -> int:
        """The number of the stream's last event that was processed."""
        return self._engine.memory.sequence

    def seconds_since_change(self) -> float:
        """Since the stream has brought something: MySQL may be about to show it."""
        return self._clock() - self._changed_at

    def on_stream(self, event: StreamEvent) -> None:
        """An event of the stream has been processed."""
        self._changed_at = self._clock()
        ring, moment = self._engine.state.ring, self.moment
        if ring is not self._ring:
            self._ring = ring
            self.moment = Moment(moment.ring + 1, ring.pushed)
        elif ring.pushed != moment.pushed:
            self.moment = tuple.__new__(Moment, (moment.ring, ring.pushed))  # without a call in Python
