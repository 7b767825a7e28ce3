"""A seeded schedule of a model source, a stream, upqueries and clients around the real planner, graph, trackers and
fill logic.

After each step some held keys are compared with the query over the tables at the position (a second database that
follows the stream
exactly as the engine does); each answer of a miss with the query over what the snapshot saw; at rest everything with
the final data.

    python -m tests.simulation.run --steps 20000 --seed 1
"""

from __future__ import annotations

import argparse
import pickle
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from dataflow.engine import FILL_PATIENCE, Engine
from dataflow.fill import Read
from dataflow.messages import Changes, Effect, Failed, Ready, UpqueryAnswer, UpqueryFailed, UpqueryRequest
from dataflow.reader import Params, ReaderNode
from gtid_tracker.bracket import Bracket
from gtid_tracker.gtid import GtidSet
from planner.api import plan_query
from planner.plan import AnswerArrangement, QueryPlan
from planner.upquery_sql import fill_columns
from sqltypes.errors import SourceDown
from sqltypes.expression import Key, Row
from sqltypes.schema import Relation, ResultColumn, SchemaSnapshot, SqlType
from tests.simulation.source import SERVER, ModelSource
from tests.simulation.sql_side import DATABASE, INT, TABLES, State

QUERIES = {
    "rows": "SELECT id, v FROM a WHERE k = ? AND f = 1",
    "other_index": "SELECT id, k, v FROM a WHERE j = ?",
    "by_id": "SELECT k, j, v FROM a WHERE id = ?",
    "right_rows": "SELECT id, w FROM b WHERE j = ?",
    "in_list": "SELECT id, v FROM a WHERE k IN (?)",
    "total": "SELECT COUNT(*) AS n, SUM(v) AS s FROM a WHERE k = ? AND f = 1",
    "groups": "SELECT j, COUNT(*) AS n, SUM(v) AS s, MIN(v) AS lo, MAX(v) AS hi FROM a WHERE k = ? GROUP BY j",
    "everything": "SELECT COUNT(*) AS n, MAX(w) AS hi FROM b",
    "inner": "SELECT a.id, b.id AS bid, a.v, b.w FROM a JOIN b ON b.j = a.j WHERE a.k = ? AND a.f = 1",
    "outer": "SELECT a.id, b.id AS bid, a.v, b.w FROM a LEFT JOIN b ON b.j = a.j WHERE a.k = ? AND a.f = 1",
    "self": "SELECT x.id, y.id AS yid, y.v FROM a x JOIN a y ON y.id = x.j WHERE x.k = ?",
    "diamond": "SELECT a.id, b.id AS bid, c.id AS cid FROM a JOIN b ON b.j = a.j LEFT JOIN b c ON c.id = a.v WHERE a.k = ?",
    "chain": "SELECT b.id, a.id AS aid, y.v FROM b JOIN a ON a.k = b.w LEFT JOIN a y ON y.id = a.j WHERE b.j = ?",
    "pushed_count": "SELECT b.id, COUNT(a.id) AS n, SUM(a.v) AS s FROM b LEFT JOIN a ON a.k = b.w WHERE b.id = ? GROUP BY b.id",
    "derived_count": "SELECT b.w, COUNT(*) AS n FROM a JOIN b ON b.j = a.j WHERE a.k = ? GROUP BY b.w",
    "distinct": "SELECT DISTINCT j FROM a WHERE k = ?",
    "top": "SELECT id, v FROM a WHERE f = 1 ORDER BY v DESC, id LIMIT 2",
    "evict": "SELECT id FROM a WHERE k = ? UNION ALL SELECT id FROM b WHERE j = ?",
    "evict_join": "SELECT a.id FROM a WHERE a.k = ? AND EXISTS (SELECT 1 FROM b WHERE b.j = a.j)",
}


class Wrong(AssertionError):
    """A read that must not be."""


@dataclass(eq=False)
class Flight:
    """An upquery under way: `stage` 0 sent, 1 L read, 2 snapshot taken and SQL run, 3 O and X read."""

    request: UpqueryRequest
    stage: int = 0
    lower: GtidSet = field(default_factory=GtidSet.empty)
    results: tuple[list[Row], ...] = ()
    expected: dict[tuple[int, Key], list[Row]] = field(default_factory=dict)
    owned: GtidSet = field(default_factory=GtidSet.empty)
    executed: GtidSet = field(default_factory=GtidSet.empty)


@dataclass(eq=False)
class Subscriber:
    reader: ReaderNode
    key: Key
    params: Params
    rows: Counter[Row] | None = None


class Simulation:
    """One seed, one schedule."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.source = ModelSource(self.rng)
        self.at_position = State()
        for name in TABLES:
            self.at_position.apply(name, [(None, row) for row in self.source.visible.rows(name)])
        self.delivered = 0
        self.flights: list[Flight] = []
        self.answered: dict[int, Flight] = {}
        self.reads: dict[int, Read] = {}
        self.subscribers: dict[int, Subscriber] = {}
        self.counts: Counter[str] = Counter()
        self.clock = 0.0
        limit = self.rng.choice((4_000, 12_000, 60_000, 1 << 30))
        small = self.rng.random() < 0.2
        self.engine = Engine(GtidSet.empty(), limit, lambda: self.clock, *((6, 10) if small else (1000, 10_000)))
        self.names: dict[int, str] = {}
        names = self.rng.sample(sorted(QUERIES), self.rng.randint(2, 6))
        self.readers: dict[str, ReaderNode] = {name: self._install(name) for name in names}
        self.waiter = 0
        # A stream that stands still while the source goes on, and a source that rests, find what an even schedule does
        # not.
        self.weights = self.rng.choice(
            [(4, 4, 6, 5, 1), (6, 1, 8, 5, 1), (1, 6, 8, 6, 1), (8, 8, 3, 3, 1), (2, 2, 8, 8, 3), (5, 0, 8, 5, 1)]
        )

    def _install(self, name: str) -> ReaderNode:
        relations: dict[tuple[str, str], Relation] = {(DATABASE, table.name): table for table in TABLES.values()}
        plan = plan_query(QUERIES[name], DATABASE, SchemaSnapshot(relations, (9, 7, 0)))
        reader = self.engine.install(plan)
        reader.encoders = [pickle.dumps]
        self.names[reader.tag] = name
        return reader

    # -- the schedule ------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """One random step, and the checks after it."""
        self.clock += 0.01
        source, stream, upquery, client, evict = self.weights
        choice = self.rng.choices(
            (self.source.step, self.deliver, self.advance_upquery, self.client, self.evict, self.rare),
            (source, stream, upquery, client, evict, 0.15),
        )[0]
        choice()
        self.engine.check_invariants()
        self.check_some()

    def deliver(self) -> None:
        if self.delivered >= len(self.source.log):
            return
        commit = self.source.log[self.delivered]
        self.delivered += 1
        event = commit.event()
        if commit.gtid not in self.engine.ring.position:
            commit.apply(self.at_position)
        self.handle(self.engine.on_stream(event))
        self.counts["delivered"] += 1

    def rare(self) -> None:
        """A reconnect that repeats transactions, a cache that comes and goes, lost history, a tick."""
        kind = self.rng.randrange(5)
        if kind == 0:
            self.delivered = max(0, self.delivered - self.rng.randint(1, 3))
        elif kind == 1 and len(self.readers) > 1:
            name = self.rng.choice(sorted(self.readers))
            self.handle(self.engine.remove(self.readers.pop(name)))
        elif kind == 2:
            name = self.rng.choice(sorted(QUERIES))
            if name not in self.readers:
                self.readers[name] = self._install(name)
        elif kind == 3 and self.rng.random() < 0.3:
            self.lose_history()
        else:
            self.handle(self.engine.tick())

    def lose_history(self) -> None:
        """The stream's position is purged: the engine starts anew behind all that has been written."""
        while self.delivered < len(self.source.log):
            commit = self.source.log[self.delivered]
            if commit.gtid not in self.engine.ring.position:
                commit.apply(self.at_position)
            self.delivered += 1
        position = GtidSet.of(commit.gtid for commit in self.source.log)
        self.handle(self.engine.reset(position, "purged"))
        self.counts["resets"] += 1

    def evict(self) -> None:
        held = [held for reader in self.readers.values() for held in reader.entries.values() if held.watch is None]
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
        if self.rng.random() < 0.01:
            self.flights.remove(flight)
            self.handle(self.engine.on_failed(UpqueryFailed(flight.request.id, SourceDown("connection lost"))))
            return
        flight.stage += 1
        if flight.stage == 1:
            flight.lower = self.source.executed()
        elif flight.stage == 2:
            self._run(flight)
        elif flight.stage == 3:
            flight.owned = self.source.owned()
        elif flight.stage == 4:
            flight.executed = self.source.executed()
        else:
            self.flights.remove(flight)
            self.answered[flight.request.id] = flight
            bracket = Bracket(SERVER, flight.lower, flight.owned, flight.executed)
            self.handle(self.engine.on_answer(UpqueryAnswer(flight.request.id, bracket, flight.results)))
            self.counts["answers"] += 1

    def _run(self, flight: Flight) -> None:
        """Runs the SQL on what is visible now, and the clients' own queries beside it."""
        fill = self.engine._fills.get(flight.request.id)
        if fill is None:
            flight.results = tuple([] for _ in flight.request.statements)
            return
        results = []
        for statement, ask in zip(flight.request.statements, fill.asks, strict=True):
            types = result_types(fill.reader, ask.level)
            results.append(self.source.visible.query(statement.sql, types))
        flight.results = tuple(results)
        for key, params in fill.whole.items():
            flight.expected[fill.reader.tag, key] = self.truth(self.source.visible, fill.reader, params)

    def truth(self, state: State, reader: ReaderNode, params: Params) -> list[Row]:
        """The client's own query for one key, answered by SQLite."""
        sql = bound(QUERIES[self.names[reader.tag]], params)
        return state.query(sql, [column.type for column in output_columns(reader.plan)])

    # -- clients -----------------------------------------------------------------------------------------------------

    def client(self) -> None:
        """A read, of one key or of a list; now and then a subscription, or a caller who goes away."""
        rng = self.rng
        if self.reads and rng.random() < 0.03:
            self.cancel(rng.choice(sorted(self.reads)))
            return
        name = rng.choice(sorted(self.readers))
        reader = self.readers[name]
        keys = [self._key(reader)]
        if name == "in_list" and rng.random() < 0.7:
            keys = list({key: (key, params) for key, params in (self._key(reader) for _ in range(3))}.values())
        self.waiter += 1
        if rng.random() < 0.04 and len(self.subscribers) < 3:
            self._subscribe(reader, *keys[0])
            return
        rows = self.stored(reader, keys)
        if rows is not None:
            self.check_hit(reader, keys, rows)
            return
        read = Read(self.waiter, reader, keys)
        self.reads[self.waiter] = read
        self.counts["misses"] += 1
        self.handle(self.engine.read(read))

    def _key(self, reader: ReaderNode) -> tuple[Key, Params]:
        params = tuple(self.rng.choice((0, 1, 2)) for _ in reader.plan.parameters)
        return reader.key_of(params), params

    def cancel(self, waiter: int) -> None:
        del self.reads[waiter]
        abandoned = set(self.engine.cancel(waiter))
        self.flights = [flight for flight in self.flights if flight.request.id not in abandoned]

    def _subscribe(self, reader: ReaderNode, key: Key, params: Params) -> None:
        self.subscribers[self.waiter] = Subscriber(reader, key, params)
        self.handle(self.engine.subscribe(self.waiter, reader, key, params))

    def handle(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Ready():
                    self.check_ready(self.reads.pop(effect.waiter), effect)
                case Failed():
                    self.reads.pop(effect.waiter, None)
                    self.counts["passed"] += 1
                case Changes():
                    self._changed(effect)
                case UpqueryRequest():
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

    def check_hit(self, reader: ReaderNode, keys: Sequence[tuple[Key, Params]], rows: list[Row]) -> None:
        """A hit equals the query over the tables at the position."""
        expected = [row for _, params in keys for row in self.truth(self.at_position, reader, params)]
        self.counts["hits"] += 1
        if Counter(rows) != Counter(expected):
            raise Wrong(f"{self.names[reader.tag]} {keys}: hit {sorted_rows(rows)}, at P it is {sorted_rows(expected)}")

    def check_ready(self, read: Read, ready: Ready) -> None:
        """A miss is answered with what its upquery's snapshot saw, or with the state at the position."""
        expected = [row for _, params in read.keys for row in self.truth(self.at_position, read.reader, params)]
        self.counts["ready"] += 1
        if Counter(ready.rows) == Counter(expected):
            return
        for flight in self.answered.values():
            parts = [flight.expected.get((read.reader.tag, key)) for key, _ in read.keys]
            known = [part for part in parts if part is not None]
            if len(known) == len(parts) and Counter(ready.rows) == Counter(row for part in known for row in part):
                return
        raise Wrong(
            f"{self.names[read.reader.tag]} {read.keys}: {sorted_rows(ready.rows)} was never seen by any snapshot"
        )

    def stored(self, reader: ReaderNode, keys: Sequence[tuple[Key, Params]]) -> list[Row] | None:
        """The answer as a listener would give it: each key's stored encoding, made now if there is none."""
        rows: list[Row] = []
        for key, params in keys:
            held = self.engine.hold(reader, key, params)
            body = reader.body(held, params, 0) if held is not None else None
            if held is None or body is None:
                return None
            held.visited = True
            rows += pickle.loads(body)
        if self.engine.memory.used > self.engine.limit:
            self.engine.sieve.evict_to(self.engine.limit)
        return rows

    def check_some(self) -> None:
        held = [(reader, key) for reader in self.readers.values() for key in reader.entries]
        for reader, key in self.rng.sample(held, min(2, len(held))):
            self._check_held(reader, key)

    def _check_held(self, reader: ReaderNode, key: Key) -> None:
        """What a held key would answer now, if it can, equals the query over the tables at the position."""
        params = key if isinstance(key, tuple) else (key,)
        rows = self.stored(reader, [(key, params)])
        if rows is not None:
            self.check_hit(reader, [(key, params)], rows)

    def rest(self) -> None:
        """Lets everything come to an end, then compares all that is held, and all that subscribers have, with the
        final data."""
        self.source.quiet = True
        for _ in range(100_000):
            delivered = self.source.resting and self.delivered == len(self.source.log)
            if delivered and not (self.flights or self.reads or self.engine.misses_pending or self.engine.waiting):
                break
            for action in (self.source.step, self.deliver, self.advance_upquery):
                action()
            if self.source.resting and not self.flights:
                self.clock += FILL_PATIENCE  # a fill may wait for a transaction that was rolled back
                self.handle(self.engine.tick())
        else:
            raise Wrong("the system does not come to rest")
        for reader in self.readers.values():
            for key in list(reader.entries):
                self._check_held(reader, key)
        for subscriber in self.subscribers.values():
            expected = Counter(self.truth(self.source.visible, subscriber.reader, subscriber.params))
            if subscriber.rows is not None and subscriber.rows != expected:
                raise Wrong(
                    f"a subscriber of {self.names[subscriber.reader.tag]} has {subscriber.rows}, not {expected}"
                )
        if self.reads:
            raise Wrong(f"reads without an answer: {sorted(self.reads)}")
        self.counts.update(self.engine.memory.counters)

    def run(self, steps: int) -> Counter[str]:
        try:
            for _ in range(steps):
                self.step()
            self.rest()
        finally:
            self.source.visible.close()
            self.at_position.close()
        return self.counts


def output_columns(plan: QueryPlan) -> Sequence[ResultColumn]:
    """The answer's columns; in evict mode, where MySQL would announce them, all are integers here."""
    root = plan.reader.root
    if isinstance(root, AnswerArrangement):
        return (ResultColumn("id", INT, True),)
    return [ResultColumn(column.name, column.type, column.nullable) for column in plan.reader.output]


def result_types(reader: ReaderNode, level: int) -> list[SqlType]:
    plan = reader.nodes[level].plan
    if isinstance(plan, AnswerArrangement):
        return [column.type for column in output_columns(reader.plan)]
    return [type_ for _, type_ in fill_columns(plan)]


def bound(sql: str, params: Params) -> str:
    for value in params:
        sql = sql.replace("?", str(value), 1)
    return sql


def sorted_rows(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=repr)


STEPS_PER_SCHEDULE = 400


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Simulate schedules of upqueries against the change stream.")
    parser.add_argument("--steps", type=int, default=20_000, help="steps in all (default 20000)")
    parser.add_argument("--seed", type=int, default=1, help="the first schedule's seed (default 1)")
    options = parser.parse_args(arguments)
    counts: Counter[str] = Counter()
    started = time.perf_counter()
    schedules = max(1, options.steps // STEPS_PER_SCHEDULE)
    for seed in range(options.seed, options.seed + schedules):
        try:
            counts += Simulation(seed).run(STEPS_PER_SCHEDULE)
        except Exception:
            print(f"seed {seed}: failed; run again with --seed {seed} --steps {STEPS_PER_SCHEDULE}", file=sys.stderr)
            raise
    seconds = time.perf_counter() - started
    steps = schedules * STEPS_PER_SCHEDULE
    print(
        f"{steps} steps in {schedules} schedules from seed {options.seed}: nothing found, {steps / seconds:.0f} steps a second"
    )
    for name, count in sorted(counts.items()):
        print(f"  {name:32} {count}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
