"""Trials of a source of several shards: fills are checked in the snapshot of the shards that were asked, held answers
are compared with what vtgate answers, while the stream brings now of this shard and now of that one, servers are
exchanged, and other shards take over.

A client's text is vtgate's to route: it goes where its rows are, whichever shards the bracket is of. At those that were
asked it sees their snapshots, at others what there is at that moment.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation.flights import Flight
from tests.simulation.script import Setup
from tests.simulation.sharded import Sharded, ShardedFlight
from tests.simulation.sharded_schedule import ShardedSchedule
from tests.simulation.shards import together
from tests.simulation.simulation import Results
from tests.simulation.sql_side import State
from tests.simulation.trials import Trials, TrialSchedule


class ShardedTrials(Trials, Sharded):
    """`Trials` says what is checked and compared, `Sharded` what is asked where."""

    def __init__(self, setup: Setup, alter: Callable[[Results], None] | None = None) -> None:
        super().__init__(setup, alter)
        self._shown = State()

    def close(self) -> None:
        super().close()
        self._shown.close()

    def shown(self, flight: Flight) -> State:
        assert isinstance(flight, ShardedFlight)
        asked = {group for shard in flight.shards for group in shard.groups}
        beside, _ = self.source.snapshot(set(range(self.source.groups)) - asked)
        self._shown.become(together((beside, flight.seen)))
        return self._shown

    def _enclose(self, flight: Flight) -> None:
        super()._enclose(flight)
        if flight.deliver is not None and flight.request.shards is not None:
            self.counts["compared with some shards"] += 1


class ShardedTrialSchedule(TrialSchedule, ShardedSchedule):
    """A schedule of shards with comparisons, which a seed of their own draws."""
