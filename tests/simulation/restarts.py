"""Schedules in which the proxy ends at any moment and begins anew with its last snapshot (`dataflow/fills/keeping.py`,
`dataflow/fills/restoring.py`). The walk goes on in steps while the source, the stream and clients do, and so does what
is held again.

What a hit must be is checked as ever: the query over the tables at the position, which after a start is the snapshot's.
"""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dataflow.fills.keeping import Keeping
from dataflow.fills.restoring import Restoring
from dataflow.messages import Restarted
from gtid_tracker.gtid import GtidSet
from tests.simulation.flights import Told
from tests.simulation.schedule import Schedule
from tests.simulation.script import Action, Setup
from tests.simulation.simulation import Results, Simulation
from tests.simulation.sql_side import Rows

KEPT = 0.2  # of the steps at which much is held begin a snapshot
RESTARTED, IN_VAIN = 0.05, 0.001  # of the steps with a snapshot, and without, begin another process
GOES_ON = 0.2  # of the steps a walk goes on, and so do blocks that are held again
MUCH = 3  # keys


@dataclass
class Snapshot:
    """What was written. `rows`: the tables at its position. `server`, `incarnation`: of the source then."""

    caches: tuple[str, ...]
    server: str
    incarnation: int
    blocks: list[bytes] = field(default_factory=list)
    hot: list[bool] = field(default_factory=list)
    void: dict[int, list[int]] = field(default_factory=dict)
    at: GtidSet = field(default_factory=GtidSet.empty)
    rows: Rows = field(default_factory=dict)

    def in_order(self) -> Iterator[tuple[int, bytes]]:
        """The blocks with their numbers, those of keys that were read lately first."""
        numbers = sorted(range(len(self.blocks)), key=lambda number: not self.hot[number])
        return ((number, self.blocks[number]) for number in numbers)


class Restarts(Simulation):
    """`kept`: the snapshot that the next process begins with."""

    def __init__(self, setup: Setup, alter: Callable[[Results], None] | None = None) -> None:
        self.kept: Snapshot | None = None
        self._walk: Iterator[None] | None = None
        self._restoring: Iterator[None] | None = None
        super().__init__(setup, alter)

    def on_doubt(self) -> None:
        self.kept = self._walk = None

    @property
    def holds(self) -> int:
        """How many keys are held."""
        return sum(len(reader.entries) for reader in self.engine.graph.readers.values())

    # -- a snapshot ----------------------------------------------------------------------------------------------------

    def do_keep(self) -> None:
        if self._walk is None and self._restoring is None:
            self._walk = self._kept()

    def do_keep_on(self, steps: int) -> None:
        for _ in range(steps):
            if self._walk is not None and next(self._walk, self) is self:
                self._walk = None

    def _kept(self) -> Iterator[None]:
        names = tuple(self.desk.caches)
        readers = [cache.named.reader for cache in self.desk.caches.values()]
        keeping = Keeping(self.engine.state, [one for one in readers if one is not None], most=2, looked_at=1)
        made = Snapshot(names, self.source.server, self.source.incarnation)
        for block in keeping.blocks():
            if block is not None:
                made.blocks.append(block)
            yield
        while self.engine.under_way is not None:
            yield
        keeping.fix()
        made.hot, made.at, made.rows = keeping.hot, keeping.at, self.at_position.copy()
        for void in keeping.settle():
            made.void = void or {}
            yield
        self.kept = made
        self.counts["snapshots"] += 1

    # -- another process -----------------------------------------------------------------------------------------------

    def do_restart(self) -> None:
        """The process is gone, with all that it had under way. The next one begins where the snapshot is, if the source
        still goes on from there; else where the source is."""
        kept = self.kept
        if kept is not None and not self._goes_on_from(kept):
            kept = self.kept = None
        self.changing = self._walk = self._restoring = None
        self.noting.clear()
        self.flights.clear()
        self.waiting.clear()
        self.subscribers.clear()
        self.told = Told()
        self._beyond, self.checks.expected_resets = 0, 0
        self.checks.forget()
        self.followed = self.source.server
        position = self.source.executed() if kept is None else kept.at
        rows = self.source.state_at(position, strict=False) if kept is None else kept.rows
        assert rows is not None, "no server has what is executed"
        self.at_position.become(rows)
        self.feeds = self.feeds_behind(position)
        kept_before = self.kept
        self.begin_process(position, tuple(self.desk.caches))
        self.checks.keep_position()
        self.kept = kept_before
        self._touched = True
        self.counts["restarts"] += 1
        if kept is not None:
            self._restoring = self._held_again(kept)
            next(self._restoring)
            if kept.incarnation != self.source.incarnation:
                self._on_stream(Restarted(position))

    def _goes_on_from(self, kept: Snapshot) -> bool:
        source = self.source
        followed = kept.at.issubset(source.executed()) and source.purged_set().issubset(kept.at)
        return followed and kept.server == source.server

    def _held_again(self, kept: Snapshot) -> Iterator[None]:
        by_name = {name: cache.named.reader for name, cache in self.desk.caches.items()}
        restoring = Restoring(self.engine.state, [by_name.get(name) for name in kept.caches])
        self.noting.append(restoring)
        yield  # from now on the stream may go on
        for number, block in kept.in_order():
            while not restoring.may_hold:
                yield
            plain: tuple[Any, ...] = pickle.loads(block)
            restoring.hold(plain, kept.void.get(number, ()))
            self._touched = True
            yield
        self.counts["held again"] += restoring.held
        self.counts["touched meanwhile"] += restoring.touched
        self.noting.remove(restoring)

    def do_hold_again(self, steps: int) -> None:
        for _ in range(steps):
            if self._restoring is not None and next(self._restoring, self) is self:
                self._restoring = None


class RestartSchedule(Schedule):
    """Its other draws are those of the seed."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._restarts = random.Random(7 * seed + 5)
        self.setup = replace(self.setup, restarts=True)

    def run(self, simulation: Simulation, steps: int) -> None:
        assert isinstance(simulation, Restarts)
        for _ in range(steps):
            super().run(simulation, 1)
            for action in self._drawn(simulation):
                simulation.perform(action)

    def _drawn(self, simulation: Restarts) -> Sequence[Action]:
        rng = self._restarts
        if simulation.holds >= MUCH and rng.random() < KEPT:
            return (("keep",),)
        if rng.random() < (RESTARTED if simulation.kept is not None and simulation.kept.blocks else IN_VAIN):
            return (("restart",), ("hold_again", rng.choice((0, 0, 1, 2, 1000))))
        if rng.random() < GOES_ON:
            return (("keep_on", rng.choice((1, 2, 9))), ("hold_again", rng.choice((0, 1, 9))))
        return ()
