"""Trials of a source of several shards: fills are checked in the snapshot of the shards that were asked, held answers
are compared with what vtgate answers, while the stream brings now of this shard and now of that one, servers are
exchanged, and other shards take over.

A client's text is vtgate's to route: it goes where its rows are, whichever shards the bracket is of. At those that were
asked it sees their snapshots, at others what there is at that moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tests.simulation.flights import Flight
from tests.simulation.queries import Parameters
from tests.simulation.script import Setup
from tests.simulation.sharded import Sharded, ShardedFlight
from tests.simulation.sharded_schedule import PARTITIONS, ShardedSchedule
from tests.simulation.shards import together
from tests.simulation.simulation import Results
from tests.simulation.sql_side import State
from tests.simulation.trials import ALL_MOMENTS, Trials, TrialSchedule

OVERTAKEN = 0.12  # of the steps
SOME = 0, 1, 2, 3, 3, 5, 6, 7, 9  # moments of one, two or three shards, each with four
ALL_BUT_THE_ANSWER = 4, 8, 12


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
    """A schedule of shards with comparisons. Often something is committed while one is asked for, or other shards take
    over."""

    def _drawn(self, simulation: Trials, asked: Sequence[tuple[str, Parameters]]) -> list[tuple[object, ...]]:
        drawn = super()._drawn(simulation, asked)
        if asked and self._trials.random() < OVERTAKEN and not simulation.source.exclusive:
            drawn += self._overtaken(simulation, self._trials.choice(asked))
        return drawn

    def _overtaken(self, simulation: Trials, read: tuple[str, Parameters]) -> Iterator[tuple[object, ...]]:
        """As a rule nothing else is under way, and what is compared is held at the position."""
        rng = self._trials
        self._commits += 1
        held = ("read", *read), ("flush",), ("upquery", -1, ALL_MOMENTS), ("deliver", 30)
        if rng.random() < 0.7:
            yield from (("advance", number, 5) for number in simulation.source.live)
            yield from (("deliver", 30), *held)
        yield "compare", *read
        resharded = self._reshards and rng.random() < 0.3
        yield "aside", -1, rng.choice(ALL_BUT_THE_ANSWER if resharded else SOME)
        yield "begin", self._commits, "rows", self._changes(simulation)
        yield "advance", self._commits, rng.randint(2, 4)
        if resharded:
            yield from (("reshard", rng.choice(PARTITIONS[self._groups])), ("deliver", 30), *held)
        yield "aside", -1, ALL_MOMENTS
