"""What must hold in the simulation, whatever the schedule."""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING

from dataflow.fills.fill import Fill
from dataflow.messages import Changes, Effect, Failed, Ready
from gtid_tracker.gtid import GtidSet
from sqltypes.expression import Row
from tests.simulation.desk import unpacked
from tests.simulation.flights import Flight, Subscriber, Told, Waiting
from tests.simulation.queries import Parameters, query
from tests.simulation.sql_side import Rows, State

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation

LARGE_LIMIT = 300_000  # bytes that hold all keys of a schedule
PAST = 12  # earlier positions
KEPT = 100  # positions
# What must never be counted: an entry that lacks a row which goes, an answer that does not fit what was asked.
NEVER = ("removed_row_not_held", "answers_not_understood", "audit_differences")


class Wrong(AssertionError):
    """What must not be."""


class Checks:
    """The checks of one schedule."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._scratch: State | None = None
        self.answered: deque[Flight] = deque(maxlen=200)
        self.expected_resets = 0
        self._past: deque[tuple[int, Rows]] = deque(maxlen=PAST)  # the tables at earlier positions, by their numbers
        self._positions: deque[tuple[GtidSet, Rows]] = deque(maxlen=KEPT)  # likewise, for reads in steps

    def forget(self) -> None:
        """Another process begins: nothing is known of positions before."""
        self._past.clear()
        self._positions.clear()
        self.answered.clear()

    def close(self) -> None:
        if self._scratch is not None:
            self._scratch.close()

    # -- reads -------------------------------------------------------------------------------------------------------

    def hit(self, name: str, parameters: Parameters, rows: list[Row]) -> None:
        """A hit equals the query over the tables at the position."""
        simulation = self._simulation
        simulation.counts["hits"] += 1
        if not query(name).agrees(rows, simulation.at_position, parameters):
            expected = query(name).truth(simulation.at_position, parameters)
            raise Wrong(f"{name} {parameters}: hit {rows}, at P it is {expected}")

    def refused(self, fill: Fill, effects: list[Effect]) -> None:
        """What the source refuses is told to the reads that ask for all of the upquery's keys: to another read it may
        be about a key that is not its own."""
        failed = [effect.waiter for effect in effects if isinstance(effect, Failed) and effect.error is not None]
        for waiting in [self._simulation.waiting[waiter] for waiter in failed if waiter in self._simulation.waiting]:
            self._simulation.counts["refused"] += 1
            lacking = set(fill.keys) - {key for key, _ in waiting.read.keys}
            if lacking:
                raise Wrong(f"{waiting.name} {waiting.parameters}: gets the error of an upquery for {lacking}, too")

    def keep_position(self) -> None:
        """The tables at the position, for `look_back`."""
        simulation = self._simulation
        tables = {name: dict(rows) for name, rows in simulation.at_position.rows.items()}
        self._past.append((simulation.engine.memory.sequence, tables))
        self._positions.append((simulation.position, tables))

    def look_back(self, name: str, parameters: Parameters) -> None:
        """What is said to be the same as at earlier positions."""
        for sequence, tables in self._past:
            body = self._simulation.desk.caches[name].peek_since(parameters, sequence)
            if body is not None:
                self.hit_before(name, parameters, unpacked(body), tables)

    def hit_before(self, name: str, parameters: Parameters, rows: list[Row], tables: Rows) -> None:
        """What is the same as at an earlier position, or was derived for it, equals the query over the tables there."""
        self._simulation.counts["hits of before"] += 1
        if not query(name).agrees(rows, self._at(tables), parameters):
            raise Wrong(f"{name} {parameters}: {rows} is said to be the answer of before, and was not")

    def hit_ahead(self, name: str, parameters: Parameters, rows: list[Row], lower: GtidSet) -> None:
        """A hit ahead of the position equals the query over the tables at the position and what its upquery saw; it is
        for queries without lookups only."""
        simulation = self._simulation
        if query(name).plan.reader.lookups:
            raise Wrong(f"{name} {parameters}: a join ahead of the position")
        for flight in reversed(self.answered):
            if flight.lower != lower:
                continue
            state = simulation.source.state_at(simulation.position.union(flight.seen_gtids))
            if state is not None and query(name).agrees(rows, self._at(state), parameters):
                return
        raise Wrong(f"{name} {parameters}: hit {rows} ahead of P, at {lower}, which is no state after P")

    def _at(self, rows: Rows) -> State:
        if self._scratch is None:
            self._scratch = State()
        self._scratch.become(rows)
        return self._scratch

    def ready(self, waiting: Waiting, ready: Ready) -> None:
        """A miss is the state at the position, or what one snapshot saw; the answer names which, and it is not older
        than the position when the read began."""
        simulation = self._simulation
        simulation.counts["ready"] += 1
        asked, demand = query(waiting.name), waiting.read.demand
        if demand is not None:
            simulation.counts["demands_met"] += 1
            if not demand.needed.issubset(ready.position):
                raise Wrong(f"{waiting.name}: {ready.position} is told, {demand.needed} was asked for")
        if ready.position == simulation.position and asked.agrees(
            ready.rows, simulation.at_position, waiting.parameters
        ):
            return
        for position, tables in self._positions if ready.settled else ():
            if position == ready.position and asked.agrees(ready.rows, self._at(tables), waiting.parameters):
                simulation.counts["settled before"] += 1
                return
        if not waiting.position.issubset(ready.position):
            raise Wrong(f"{waiting.name} {waiting.parameters}: told a state older than the position at its start")
        most = ready.horizon or ready.position
        for flight in reversed(self.answered):
            if (
                flight.lower == ready.position
                and flight.seen_gtids.issubset(most)
                and asked.agrees(ready.rows, self._at(flight.seen), waiting.parameters)
            ):
                return
        raise Wrong(f"{waiting.name} {waiting.parameters}: {ready.rows} is no state of {ready.position}")

    # -- subscribers -------------------------------------------------------------------------------------------------

    def changes(self, changes: Changes) -> None:
        """What a subscriber has after each change is the state at the position."""
        simulation = self._simulation
        subscriber = simulation.subscribers.get(changes.subscription)
        if subscriber is None:
            return
        if changes.lost:
            del simulation.subscribers[changes.subscription]
            return
        if changes.snapshot:
            if subscriber.rows is not None:
                raise Wrong("a subscriber got a second snapshot")
            subscriber.rows = Counter(changes.added)
        else:
            if subscriber.rows is None:
                raise Wrong("a subscriber got changes before its snapshot")
            subscriber.rows.subtract(changes.removed)
            if any(count < 0 for count in subscriber.rows.values()):
                raise Wrong(f"a subscriber was told that rows went which it does not have: {changes.removed}")
            subscriber.rows.update(changes.added)
            subscriber.rows += Counter()
        self._subscriber(subscriber)
        simulation.counts["changes"] += 1

    def _subscriber(self, subscriber: Subscriber) -> None:
        if subscriber.rows is None or not query(subscriber.name).agrees(
            list(subscriber.rows.elements()), self._simulation.at_position, subscriber.parameters, in_order=False
        ):
            raise Wrong(f"a subscriber of {subscriber.name} {subscriber.parameters} has {subscriber.rows}")

    # -- resets ------------------------------------------------------------------------------------------------------

    def contradicts(self, told: Told) -> None:
        """A contradiction between answers is one between servers."""
        if len(told.incarnations()) < 2:
            raise Wrong("an upquery's lower bound is older than what its server had told before")

    def resets(self) -> None:
        """History begins anew where the stream or the answers say so, and nowhere else."""
        counters = self._simulation.engine.memory.counters
        if counters.get("resets", 0) != self.expected_resets:
            raise Wrong(f"{counters.get('resets', 0)} times anew, for {self.expected_resets} causes")
        for name in NEVER:
            if counters.get(name, 0):
                raise Wrong(f"{name} was counted")

    # -- at rest -----------------------------------------------------------------------------------------------------

    def at_rest(self) -> None:
        """All that is held, and all that subscribers have, is the final data; no read is without an answer."""
        simulation = self._simulation
        if simulation.waiting:
            raise Wrong(f"reads without an answer: {sorted(simulation.waiting)}")
        if simulation.at_position.rows != simulation.source.visible.rows:
            raise Wrong("the position is not the final data: the model is wrong")
        for subscriber in simulation.subscribers.values():
            self._subscriber(subscriber)
        for name, parameters in simulation.asked:
            simulation.do_look(name, parameters)
