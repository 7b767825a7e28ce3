"""One seeded schedule of a model source, a stream, upqueries and clients around the real planner, graph, trackers, fill
logic and hot path.

After each step some reads are compared with the query over the tables at the position (a second database that follows
the stream exactly as the engine does); each answer of a miss with the query over what a snapshot saw that the read may
be told; at rest everything with the final data, and every cache must be able to hold keys again.

Each step draws from a random source of its own, so that a failing schedule stays one when other steps are left out.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Container
from dataclasses import dataclass, field
from itertools import combinations
from sqlite3 import IntegrityError

from dataflow.arrangement import Arrangement
from dataflow.engine import FILL_PATIENCE, Engine
from dataflow.fill import Read
from dataflow.messages import (
    Changes,
    Effect,
    Failed,
    Gap,
    Ready,
    UpqueryAnswer,
    UpqueryFailed,
    UpqueryRequest,
)
from gtid_tracker.bracket import Bracket
from gtid_tracker.gtid import GtidSet
from sqltypes.errors import SourceDown
from sqltypes.expression import Row
from tests.simulation.desk import Desk, unpacked
from tests.simulation.queries import QUERIES, Parameters, fill_types, query
from tests.simulation.source import SERVERS, ModelSource
from tests.simulation.sql_side import Rows, State

SMALL_LIMITS = (3_000, 6_000, 12_000)  # bytes: eviction is constant
LARGE_LIMITS = (60_000, 1 << 30)
MOST_OPEN = 4  # transactions that a cut leaves open, all of whose subsets are tried


class Wrong(AssertionError):
    """A read that must not be."""


@dataclass(eq=False)
class Flight:
    """An upquery under way: `stage` 0 sent, 1 L read, 2 snapshot taken and SQL run, 3 O read, 4 X read."""

    request: UpqueryRequest
    stage: int = 0
    server: str = ""
    lower: GtidSet = field(default_factory=GtidSet.empty)
    results: tuple[list[Row], ...] = ()
    seen: Rows = field(default_factory=dict)
    owned: GtidSet = field(default_factory=GtidSet.empty)
    still_owned: GtidSet = field(default_factory=GtidSet.empty)  # of an exact one: read after O
    executed: GtidSet = field(default_factory=GtidSet.empty)
    answered: int = 0  # the step of the answer
    locked: frozenset[str] = frozenset()  # tables that nobody may change, from the SQL of an exact upquery to its X


@dataclass(eq=False)
class Waiting:
    """A read that waits: who asks what, since which step, at which position."""

    name: str
    parameters: Parameters
    read: Read
    since: int
    position: GtidSet


@dataclass(eq=False)
class Subscriber:
    name: str
    parameters: Parameters
    rows: Counter[Row] | None = None


class Simulation:
    """One seed, one schedule. `left_out`: steps that are not made."""

    def __init__(self, seed: int, left_out: Container[int] = ()) -> None:
        self.seed = seed
        self.left_out = left_out
        self.rng = random.Random(seed)
        self.source = ModelSource(self.rng)
        self.source.shared = lambda: {table for flight in self.flights for table in flight.locked}
        self.at_position = State(self.source.visible.copy())
        self.at_first = State(self.source.visible.copy())
        self.number = 0
        self.delivered = 0
        self.failing_over = False
        self.followed = self.source.server  # whose stream it is
        self.flights: list[Flight] = []
        self.answered: list[Flight] = []
        self.waiting: dict[int, Waiting] = {}
        self.subscribers: dict[int, Subscriber] = {}
        self.counts: Counter[str] = Counter()
        self.trace: list[str] = []
        self.clock = 0.0
        self.limit = self.rng.choice((*SMALL_LIMITS, *LARGE_LIMITS))
        small = self.rng.random() < 0.2
        self.engine = Engine(
            GtidSet.empty(),
            self.limit,
            lambda: self.clock,
            *((6, 3000) if small else (1000, 1 << 22)),
            followed=lambda: self.followed,
        )
        self.desk = Desk(self.engine)
        for name in self.rng.sample(sorted(QUERIES), self.rng.randint(2, 6)):
            self.desk.open(query(name))
        self.waiter = 0
        # A stream that stands still while the source goes on, and a source that rests, find what an even schedule does
        # not.
        self.weights = self.rng.choice(
            [(4, 4, 6, 5, 1), (6, 1, 8, 5, 1), (1, 6, 8, 6, 1), (8, 8, 3, 3, 1), (2, 2, 8, 8, 3), (5, 0, 8, 5, 1)]
        )

    # -- the schedule ------------------------------------------------------------------------------------------------

    def run(self, steps: int) -> Counter[str]:
        try:
            for number in range(steps):
                self.number = number
                if number not in self.left_out:
                    self.rng.seed(self.seed * 1_000_003 + number)
                    self.step()
            self.rng.seed(self.seed)
            self.rest()
        finally:
            self.source.visible.close()
            self.at_position.close()
            self.at_first.close()
        return self.counts

    def step(self) -> None:
        """One random step, and the checks after it."""
        self.clock += 0.01
        source, stream, upquery, client, evict = self.weights
        choice = self.rng.choices(
            (self.source.step, self.deliver, self.advance_upquery, self.client, self.evict, self.rare),
            (source, stream, upquery, client, evict, 0.15),
        )[0]
        self.note(choice.__name__)
        choice()
        self.engine.check_invariants()
        self.check_some()

    def note(self, what: str) -> None:
        self.trace.append(f"{self.number}: {what}")

    def deliver(self) -> None:
        if self.delivered >= len(self.source.log):
            return
        commit = self.source.log[self.delivered]
        self.delivered += 1
        event = commit.event(self.engine.graph.wanted())
        if commit.gtid not in self.engine.ring.position:
            commit.apply(self.at_position)
        self.note(f"  the stream brings {event}")
        self.handle(self.engine.on_stream(event))
        self.counts["delivered"] += 1

    def rare(self) -> None:
        """A reconnect that repeats transactions, a cache that comes and goes, lost history, a failover, a tick."""
        kind = self.rng.randrange(6)
        names = sorted(self.desk.caches)
        if kind == 0:
            self.delivered = max(0, self.delivered - self.rng.randint(1, 3))
        elif kind == 1 and len(names) > 1:
            self.handle(self.desk.drop(self.rng.choice(names)))
        elif kind == 2:
            name = self.rng.choice(sorted(QUERIES))
            if name not in names:
                self.desk.open(query(name))
        elif kind == 3 and self.rng.random() < 0.3:
            self.lose_history("purged", GtidSet.of(commit.gtid for commit in self.source.log))
        elif kind == 4 and self.rng.random() < 0.4:
            self.fail_over()
        else:
            self.handle(self.engine.tick())

    def lose_history(self, reason: str, position: GtidSet) -> None:
        """The stream starts anew behind what has been written, or executed: all that it skips is at the position."""
        self.note(f"  {reason}, from {position}")
        ahead = [commit for commit in self.source.log if commit.gtid in position]
        for commit in ahead:
            if commit.gtid not in self.engine.ring.position:
                commit.apply(self.at_position)
        while self.delivered < len(self.source.log) and self.source.log[self.delivered].gtid in position:
            self.delivered += 1
        self.handle(self.engine.on_stream(Gap(reason, position)))
        self.counts["gaps"] += 1

    def fail_over(self) -> None:
        """Another server takes over with the same history; the stream finds out some steps later."""
        executed = self.source.executed()
        if self.failing_over and self.engine.ring.position.freeze().issubset(executed):
            self.failing_over = False
            self.followed = self.source.server
            self.lose_history("another server answers", executed)
        elif not self.failing_over:
            self.failing_over = True
            self.source.server = SERVERS[1 - SERVERS.index(self.source.server)]
        self.note(f"  upqueries go to {self.source.server}")

    def evict(self) -> None:
        readers = self.engine.graph.readers.values()
        held = [held for reader in readers for held in reader.entries.values() if held.watch is None]
        entries = [entry for node in self.engine.graph for entry in node.entries.values()]
        if held and self.rng.random() < 0.6:
            chosen = self.rng.choice(held)
            chosen.reader.drop(chosen)
        elif entries:
            entry = self.rng.choice(entries)
            entry.owner.discard(entry)
        self.counts["evictions"] += 1

    # -- upqueries ---------------------------------------------------------------------------------------------------

    def advance_upquery(self) -> None:
        if self.engine.misses_pending and self.rng.random() < 0.7:
            self.handle(self.engine.flush())
        if not self.flights:
            return
        flight = self.rng.choice(self.flights)
        self.note(f"  upquery {flight.request.id} goes on from {flight.stage}")
        if self.rng.random() < 0.01 and not self.source.quiet:
            self.flights.remove(flight)
            self.handle(self.engine.on_failed(UpqueryFailed(flight.request.id, SourceDown("connection lost"))))
            return
        if flight.request.exact and flight.stage == 1 and not self._lock(flight):
            return
        flight.stage += 1
        if flight.request.exact and flight.stage >= 4:
            self._end_exact(flight)
        elif flight.stage == 1:
            flight.server = self.source.server
            known = flight.request.lower
            flight.lower = known if known is not None else self.source.executed()
        elif flight.stage == 2:
            self._run(flight)
        elif flight.stage == 3:
            flight.owned = self.source.owned()
        elif flight.stage == 4:
            flight.executed = self.source.executed()
        else:
            self._answer(flight)

    def _lock(self, flight: Flight) -> bool:
        """The locks of an exact upquery; where they do not come, it is sent without."""
        tables = [name.split("`")[-2] for name in flight.request.tables]
        if self.source.lockable(tables):
            flight.locked = frozenset(tables)
        elif self.rng.random() < 0.2:
            self.note("  its locks do not come")
            flight.request.exact, flight.stage = False, 0
            return False
        return bool(flight.locked)

    def _end_exact(self, flight: Flight) -> None:
        if flight.stage == 4:
            flight.still_owned = self.source.owned()
        elif flight.stage == 5:
            flight.executed = self.source.executed()
            flight.locked = frozenset()
        else:
            bracket = Bracket.exact(flight.server, flight.owned, flight.still_owned, flight.executed)
            flight.lower = bracket.lower
            self.counts["exact"] += 1
            self._deliver(flight, bracket)

    def _run(self, flight: Flight) -> None:
        """Runs the SQL on what is visible now, and keeps what that was."""
        flight.seen = self.source.visible.copy()
        fill = self.engine._fills.get(flight.request.id)
        if fill is None:
            flight.results = tuple([] for _ in flight.request.statements)
            return
        flight.results = tuple(
            self.source.visible.query(statement.sql, fill_types(fill.reader.plan, ask.level))
            for statement, ask in zip(flight.request.statements, fill.asks, strict=True)
        )

    def _answer(self, flight: Flight) -> None:
        self._deliver(flight, Bracket(flight.server, flight.lower, flight.owned, flight.executed))

    def _deliver(self, flight: Flight, bracket: Bracket) -> None:
        self.flights.remove(flight)
        self.answered.append(flight)
        flight.answered = self.number
        self.note(f"  it saw {bracket.lower} or {bracket.uncertain} too: {flight.results}")
        self.handle(self.engine.on_answer(UpqueryAnswer(flight.request.id, bracket, flight.results)))
        self.counts["answers"] += 1

    # -- clients -----------------------------------------------------------------------------------------------------

    def client(self) -> None:
        """A read; now and then a subscription, or a caller who goes away."""
        rng = self.rng
        if self.waiting and rng.random() < 0.03:
            self._cancel(rng.choice(sorted(self.waiting)))
            return
        name = rng.choice(sorted(self.desk.caches))
        parameters = query(name).parameters(rng)
        self.note(f"  {name} {parameters}")
        if rng.random() < 0.04 and len(self.subscribers) < 3:
            self._subscribe(name, parameters)
        else:
            self.read(name, parameters)

    def read(self, name: str, parameters: Parameters) -> bool:
        """Whether it was a hit."""
        body = self.desk.caches[name].hit(parameters)
        if body is not None:
            self.check_hit(name, parameters, unpacked(body))
            return True
        cache = self.desk.caches[name].named
        assert cache.reader is not None and cache.binder is not None
        binding = cache.binder.bind(parameters)
        ahead = self.desk.caches[name].answer_ahead(cache.reader, binding)
        if ahead is not None:
            self.check_ahead(name, parameters, cache.reader.nodes[0], *ahead)
            return True
        self.waiter += 1
        read = Read(self.waiter, cache.reader, binding.keys)
        position = self.engine.ring.position.freeze()
        self.waiting[self.waiter] = Waiting(name, parameters, read, self.number, position)
        self.counts["misses"] += 1
        self.handle(self.engine.read(read))
        return False

    def _cancel(self, waiter: int) -> None:
        self.note(f"  read {waiter} is cancelled")
        del self.waiting[waiter]
        abandoned = set(self.engine.cancel(waiter))
        self.flights = [flight for flight in self.flights if flight.request.id not in abandoned]

    def _subscribe(self, name: str, parameters: Parameters) -> None:
        cache = self.desk.caches[name].named
        assert cache.reader is not None and cache.binder is not None
        keys = cache.binder.bind(parameters).keys
        if len(keys) == 1:
            self.waiter += 1
            self.subscribers[self.waiter] = Subscriber(name, parameters)
            self.handle(self.engine.subscribe(self.waiter, cache.reader, *keys[0]))

    def handle(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Ready():
                    self.check_ready(self.waiting.pop(effect.waiter), effect)
                case Failed():
                    self.waiting.pop(effect.waiter, None)
                    self.counts["passed"] += 1
                case Changes():
                    self._changed(effect)
                case UpqueryRequest():
                    effect.exact = effect.exact or self.rng.random() < 0.15
                    self.flights.append(Flight(effect))

    def _changed(self, changes: Changes) -> None:
        subscriber = self.subscribers.get(changes.subscription)
        if subscriber is None:
            return
        if changes.lost:
            del self.subscribers[changes.subscription]
            return
        if changes.snapshot:
            if subscriber.rows is not None:
                raise Wrong("a subscriber got a second snapshot")
            subscriber.rows = Counter(changes.added)
            return
        if subscriber.rows is None:
            raise Wrong("a subscriber got changes before its snapshot")
        subscriber.rows.subtract(changes.removed)
        if any(count < 0 for count in subscriber.rows.values()):
            raise Wrong(f"a subscriber was told that rows went which it does not have: {changes.removed}")
        subscriber.rows.update(changes.added)
        subscriber.rows += Counter()
        self.counts["changes"] += 1

    # -- checks ------------------------------------------------------------------------------------------------------

    def check_hit(self, name: str, parameters: Parameters, rows: list[Row]) -> None:
        """A hit equals the query over the tables at the position."""
        self.counts["hits"] += 1
        if not query(name).agrees(rows, self.at_position, parameters):
            expected = query(name).truth(self.at_position, parameters)
            raise Wrong(f"{name} {parameters}: hit {rows}, at P it is {expected}")

    def check_ahead(
        self, name: str, parameters: Parameters, node: Arrangement, rows: list[Row], lower: GtidSet
    ) -> None:
        """A hit ahead of the position equals the query at the position and the entry's cut together, with some of the
        transactions that the cut leaves open."""
        cuts = [entry.cut for entry in node.ahead.values() if entry.cut is not None and entry.cut.lower is lower]
        open_ = [gtid for cut in cuts[:1] for gtid in cut.doubt]
        if len(open_) > MOST_OPEN:
            return
        surely = self.engine.ring.position.freeze().union(lower)
        for count in range(len(open_) + 1):
            for some in combinations(open_, count):
                if self._was(name, parameters, rows, surely.union(GtidSet.of(some))):
                    return
        raise Wrong(f"{name} {parameters}: hit ahead of P {rows}, at {surely} and with any of {open_} it is not that")

    def _was(self, name: str, parameters: Parameters, rows: list[Row], transactions: GtidSet) -> bool:
        """Are these the query's rows after these transactions and no others, in the order of the log?"""
        state = State(self.at_first.copy())
        try:
            for commit in self.source.log:
                if commit.gtid in transactions:
                    commit.apply(state)
            return query(name).agrees(rows, state, parameters)
        except (KeyError, IntegrityError):  # a transaction without one that it stands on: no such state has been
            return False
        finally:
            state.close()

    def check_ready(self, waiting: Waiting, ready: Ready) -> None:
        """A miss is answered with the state at the position, or with what a snapshot saw whose answer came after the
        read began, or that had all that the position had then."""
        self.counts["ready"] += 1
        asked = query(waiting.name)
        if asked.agrees(ready.rows, self.at_position, waiting.parameters):
            return
        for flight in reversed(self.answered):
            if flight.answered < waiting.since and not waiting.position.issubset(flight.lower):
                continue
            seen = State(flight.seen)
            try:
                if asked.agrees(ready.rows, seen, waiting.parameters):
                    return
            finally:
                seen.close()
        raise Wrong(f"{waiting.name} {waiting.parameters}: no snapshot that it may be told gave {ready.rows}")

    def check_some(self) -> None:
        """Reads that are hits now, without disturbing what is held more than a client would."""
        for name in self.rng.sample(sorted(self.desk.caches), min(2, len(self.desk.caches))):
            cache = self.desk.caches[name]
            reader = cache.named.reader
            if reader is not None and reader.entries:
                parameters = query(name).parameters(self.rng)
                body = cache.hit(parameters)
                if body is not None:
                    self.check_hit(name, parameters, unpacked(body))

    def rest(self) -> None:
        """Lets everything come to an end, then compares all that is held, and all that subscribers have, with the
        final data; then every cache must take up keys again."""
        self.number += 1
        self.source.quiet = True
        self._until_quiet()
        if self.failing_over:
            self.fail_over()
            self._until_quiet()
        if self.waiting:
            raise Wrong(f"reads without an answer: {sorted(self.waiting)}")
        for subscriber in self.subscribers.values():
            if subscriber.rows is None or not query(subscriber.name).agrees(
                list(subscriber.rows.elements()), self.source.visible, subscriber.parameters, in_order=False
            ):
                raise Wrong(f"a subscriber of {subscriber.name} {subscriber.parameters} has {subscriber.rows}")
        for name in self.desk.caches:
            self._check_alive(name)
        self.counts.update(self.engine.memory.counters)

    def _until_quiet(self) -> None:
        for _ in range(100_000):
            delivered = self.source.resting and self.delivered == len(self.source.log)
            if delivered and not (self.flights or self.waiting or self.engine.misses_pending or self.engine.waiting):
                return
            for action in (self.source.step, self.deliver, self.advance_upquery):
                action()
            if self.source.resting and not self.flights:
                self.clock += FILL_PATIENCE  # a fill may wait for a transaction that was rolled back
                self.handle(self.engine.tick())
        raise Wrong("the system does not come to rest")

    def _check_alive(self, name: str) -> None:
        """No fill is lost for ever: what is asked twice is a hit the second time, if there is memory."""
        self.number += 1
        for _ in range(3):
            parameters = query(name).parameters(self.rng)
            if self.read(name, parameters):
                continue
            self._until_quiet()
            if not self.read(name, parameters) and self.limit in LARGE_LIMITS:
                raise Wrong(f"{name} {parameters}: asked again, and still not held")
            self._until_quiet()
