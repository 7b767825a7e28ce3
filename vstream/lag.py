"""How far a stream's position is behind its source, in seconds. No I/O; the clocks are handed in."""

from __future__ import annotations

from collections.abc import Callable


class Lag:
    """`behind`, in all methods: seconds from when the last transaction was committed until it was received; None while
    what is received does not tell. `received_at`, `received_wall`: when something was received last, by both clocks.
    `drained`: how often all had been taken that had arrived."""

    def __init__(self, heartbeat: float, clock: Callable[[], float], wall_clock: Callable[[], float]) -> None:
        """`heartbeat`: seconds after which the source says that it has nothing else."""
        self.clock, self.wall_clock = clock, wall_clock
        self.heartbeat = heartbeat
        self.drained = 0
        self.heard()
        self._current_at = self.received_wall  # when the position was the source's, as far as is known

    def heard(self) -> None:
        self.received_at, self.received_wall = self.clock(), self.wall_clock()

    def current(self) -> None:
        """The position is the source's now."""
        self._current_at = self.wall_clock()

    def lost(self, behind: float | None) -> None:
        """The connection is lost."""
        self.drained += 1
        if behind is not None:
            self._current_at = self.received_wall - behind

    def lag(self, behind: float | None) -> float:
        """As measured last: a short silence counts as rest."""
        if behind is None:
            return max(0.0, self.wall_clock() - self._current_at)
        silence = self.clock() - self.received_at
        return behind + (silence if silence > 2 * self.heartbeat else 0.0)

    def age(self, behind: float | None) -> float:
        """An upper bound, as far as the clocks agree."""
        if behind is None:
            return max(0.0, self.wall_clock() - self._current_at)
        return behind + max(0.0, self.clock() - self.received_at)
