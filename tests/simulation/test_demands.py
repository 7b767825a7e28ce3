"""Reads that ask for what the source has executed when they come, under any schedule: what they are told has it.

The answer must be the state at the position, or what a snapshot saw, that had it; that it claims to have it is not
enough. Mutants: a demand that lets every upquery pass, or every position.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest

from dataflow.demand import BEHIND
from dataflow.engine import Engine
from dataflow.fill import Read
from dataflow.messages import Effect, Failed, Ready
from gtid_tracker.gtid import GtidSet
from tests.simulation.queries import query
from tests.simulation.run import STEPS_PER_SCHEDULE
from tests.simulation.simulation import Simulation, Waiting, Wrong
from tests.simulation.sql_side import State

SEEDS = range(1, 41)


@dataclass
class Asked:
    """A demand of these GTIDs."""

    engine: Engine
    needed: GtidSet

    def met(self) -> bool:
        return self.engine.ring.position.covers(self.needed)

    def met_by(self, lower: GtidSet, sent_at: float) -> bool:
        return self.needed.issubset(lower)


class Demanding(Simulation):
    """Half of the misses ask for all that the source has executed."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._read = self.engine.read
        self.engine.read = self._ask  # type: ignore[method-assign]

    def _ask(self, read: Read) -> list[Effect]:
        if read.waiter in self.waiting and self.rng.random() < 0.5:
            read.demand = Asked(self.engine, self.source.executed())
            self.counts["demands"] += 1
        return self._read(read)

    def handle(self, effects: list[Effect]) -> None:
        self.counts["behind"] += sum(isinstance(effect, Failed) and effect.why == BEHIND for effect in effects)
        super().handle(effects)

    def check_ready(self, waiting: Waiting, ready: Ready) -> None:
        super().check_ready(waiting, ready)
        demand, asked = waiting.read.demand, query(waiting.name)
        if demand is None:
            return
        self.counts["met"] += 1
        if not demand.needed.issubset(ready.position):
            raise Wrong(f"{waiting.name}: {ready.position} is told, {demand.needed} was asked for")
        if Asked.met(demand) and asked.agrees(ready.rows, self.at_position, waiting.parameters):  # type: ignore[arg-type]
            return
        for flight in reversed(self.answered):
            if demand.needed.issubset(flight.lower):
                seen = State(flight.seen)
                try:
                    if asked.agrees(ready.rows, seen, waiting.parameters):
                        return
                finally:
                    seen.close()
        raise Wrong(f"{waiting.name} {waiting.parameters}: {ready.rows} is of no state that has {demand.needed}")


def test_who_asks_for_what_was_executed_is_told_it() -> None:
    counts = sum((Demanding(seed).run(STEPS_PER_SCHEDULE) for seed in SEEDS), start=Counter[str]())
    assert counts["met"] > 100 and counts["behind"] > 10, counts


@pytest.mark.parametrize("test", ["met", "met_by"])
def test_demand_that_is_always_met_is_caught(test: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Asked, test, lambda *arguments: True)
    with pytest.raises(Wrong):
        for seed in SEEDS:
            Demanding(seed).run(STEPS_PER_SCHEDULE)
