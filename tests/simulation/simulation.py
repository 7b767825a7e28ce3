"""One schedule of a model source, a stream, upqueries and clients around the real planner, graph, trackers, fill logic
and hot path, step by step (`perform`).

What is checked: a hit is the query over the tables at the position (a second database that follows the stream exactly
as the engine does) or, for an entry ahead of it, over the position and what its upquery's snapshot saw. A miss is the
state that its answer names, and not older than the position when the read began. A subscriber has the state at the
position after each change it is told of. The engine begins anew when there was a cause, and only then. At rest all that
is held equals the final data, and every cache must be able to hold keys again.

Each step says all it needs, so that a failing schedule stays one when other steps are left out; a step that finds
nothing to do does nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress

from dataflow.changes.large_change import Sizes
from dataflow.engine import Engine
from dataflow.fills.read import Read
from dataflow.messages import (
    Changes,
    Check,
    Differs,
    Effect,
    Failed,
    Filled,
    GivenUp,
    OwnAnswer,
    Ready,
    UpqueryAnswer,
    UpqueryFailed,
    UpqueryRequest,
)
from dataflow.readers.in_steps import Holes
from gtid_tracker.gtid import GtidSet
from proxy.read.misses import Misses
from sqltypes.errors import EvaluationError, SourceDown, SourceError, UpwellError
from sqltypes.expression import Row
from tests.simulation.bulk import Bulk
from tests.simulation.checks import Checks
from tests.simulation.desk import Desk, unpacked
from tests.simulation.flights import Asked, Flight, Subscriber, Told, Waiting
from tests.simulation.following import Following
from tests.simulation.large_reads import LargeRead, LargeReads, hit_large
from tests.simulation.queries import Parameters, query, types_of
from tests.simulation.script import Action, Setup
from tests.simulation.source import Change, ModelSource, Number, Source
from tests.simulation.sql_side import State
from tests.simulation.thresholds import Thresholds
from tests.support.engine_rig import deliver
from tests.support.in_steps import everything_in_steps

CHECK_EVERY = 16  # steps of a schedule from one check of all invariants to the next; of a script every step is checked
EXACT_EVERY = 6  # upqueries, besides those that the engine wants exact
CLIENTS = ("look", "derive", "read", "demand", "check", "compare")
LOOK_BACK = 8  # hits from one that is compared with earlier positions to the next
BETWEEN_STEPS = 0.01  # seconds
LOST, REFUSED = SourceDown("connection lost"), SourceError(1690, "22003", "out of range")
Results = list[list[Row]]


class Simulation(Following):
    """The moments of an upquery are in `moments`, of one that locks in `exact_moments`; `one_snapshot`: all its
    statements see the same state."""

    moments = ("lower", "snapshot", "owned", "executed")
    exact_moments = ("locks", "snapshot", "owned", "still owned", "executed")
    one_snapshot = True
    exact = True  # can upqueries lock what they read?

    def __init__(self, setup: Setup, alter: Callable[[Results], None] | None = None) -> None:
        self.setup = setup
        self._thresholds = Thresholds(setup.bags)
        self.source = self.made_source(setup)
        self.at_position = State(setup.rows)
        Following.__init__(self)
        self.flights: list[Flight] = []
        self.waiting: dict[int, Waiting] = {}
        self.subscribers: dict[int, Subscriber] = {}
        self.asked: dict[tuple[str, Parameters], None] = {}
        self.told = Told()
        self.counts: Counter[str] = Counter()
        self.graphs: set[frozenset[str]] = set()
        self.actions: list[Action] = []
        self.log: Callable[[str], None] | None = None
        self.check_every = CHECK_EVERY
        self.clock = 0.0
        self.began: dict[int, float] = {}  # when a server took over, or came back, by incarnation
        self.begin_process(self.source.executed(), setup.caches)
        self.checks = Checks(self)
        self._alter = alter
        self._holes: Holes = {}  # found by the read that was a hit no more
        self._waiter = 0

    def begin_process(self, position: GtidSet, caches: Sequence[str]) -> None:
        """What there is of a process that has just begun at a position, with these caches."""
        setup = self.setup
        self.engine = Engine(
            position, setup.limit, lambda: self.clock, *setup.ring,
            followed=lambda: self.followed, exact_fills=self.exact, on_doubt=self.on_doubt,
        )  # fmt: skip
        self.engine.memory.remains.few = setup.few
        self.engine.inserting.most = max(1, setup.few)
        self.engine.state.sizes = Sizes(*setup.sizes)
        if setup.steps:
            everything_in_steps(self.engine, setup.short)
        self.desk = Desk(self.engine)
        self.bulk = Bulk(self.engine)
        self.large_reads = LargeReads(self.desk, lambda: self.at_position.rows)
        for name in caches:
            self.desk.open(query(name))
        self.graphs.add(frozenset(caches))

    def on_doubt(self) -> None:
        """As `State.doubt`."""

    def made_source(self, setup: Setup) -> Source:
        made = ModelSource(setup.rows, setup.ordered)
        made.locked = lambda: {table for flight in self.flights for table in flight.locked}
        return made

    def close(self) -> None:
        self._thresholds.close()
        self.source.close()
        self.at_position.close()
        self.checks.close()

    def perform(self, action: Action) -> None:
        """One step, and the checks that it calls for."""
        self.actions.append(action)
        if self.log is not None:
            self.log(repr(action))
        self.clock += BETWEEN_STEPS
        with suppress(EvaluationError) if action[0] in CLIENTS else nullcontext():  # the read is MySQL's to answer
            getattr(self, "do_" + action[0])(*action[1:])
        if self._touched:
            self._touched = False
            self.checks.resets()
            if len(self.actions) % self.check_every == 0:
                self.engine.check_invariants()

    def note(self, text: Callable[[], str]) -> None:
        if self.log is not None:
            self.log("    # " + text())

    # -- the source --------------------------------------------------------------------------------------------------

    def do_begin(self, number: int, kind: str, changes: Sequence[Change]) -> None:
        self.source.begin(number, kind, changes)

    def do_ddl(self, number: int, name: str, rows: Sequence[Row], named: bool) -> None:
        self.source.begin_ddl(number, name, rows, named)

    def do_advance(self, number: Number, moments: int) -> None:
        for _ in range(moments):
            self.source.advance(number)

    def do_unseen(self) -> None:
        self.source.execute_unseen()

    def do_fail_over(self, lost: int, same: bool) -> None:
        """Another server takes over, or the same comes back; the stream finds out some steps later. Upqueries that are
        being run fail; an answer that is on its way arrives."""
        assert isinstance(self.source, ModelSource), "of shards each has a server of its own"
        self.source.fail_over(lost, same)
        self.began[self.source.incarnation] = self.clock
        if same:  # whoever answers comes back later than what it had sent arrives, or does not
            self.feeds[0].cut()
        for flight in self.under_way():
            self._fail(flight)
        self.counts["failovers"] += 1

    def under_way(self) -> list[Flight]:
        """The upqueries that are being run."""
        return [flight for flight in self.flights if self._runs(flight)]

    def _runs(self, flight: Flight) -> bool:
        return 0 < flight.stage < len(self._moments(flight))

    # -- caches and memory -------------------------------------------------------------------------------------------

    def do_open(self, name: str) -> None:
        if name not in self.desk.caches:
            self.desk.open(query(name))
            self.graphs.add(frozenset(self.desk.caches))

    def do_drop(self, name: str) -> None:
        if name in self.desk.caches and len(self.desk.caches) > 1:
            self.handle(self.desk.drop(name))
            self.graphs.add(frozenset(self.desk.caches))

    def do_evict_key(self, at: int) -> None:
        readers = self.engine.graph.readers.values()
        held = [held for reader in readers for held in reader.entries.values() if held.watch is None]
        if held:
            chosen = held[at % len(held)]
            chosen.reader.drop(chosen)
            self.counts["evictions"] += 1
            self._touched = True

    def do_evict_entry(self, at: int) -> None:
        entries = [entry for node in self.engine.graph for entry in (*node.entries.values(), *node.ahead.values())]
        if entries:
            chosen = entries[at % len(entries)]
            chosen.owner.discard(chosen)
            self.counts["evictions"] += 1
            self._touched = True

    def do_empty(self, at: int) -> None:
        readers = list(self.engine.graph.readers.values())
        self.handle(self.engine.empty(readers[at % len(readers)]))
        self.counts["emptied"] += 1
        self._touched = True

    def do_take_apart(self, most: int) -> None:
        self.engine.memory.remains.take_apart(most)
        self.counts["taken_apart"] += 1
        self._touched = True

    # -- upqueries ---------------------------------------------------------------------------------------------------

    def do_flush(self) -> None:
        if self.engine.unfinished:
            self.handle(self.engine.go_on())
        if self.engine.reads.pending:
            self.handle(self.engine.flush())

    def do_fail_upquery(self, at: int) -> None:
        if self.flights:
            flight = self.flights[at % len(self.flights)]
            self._fail(flight, REFUSED if flight.request.id % 2 else LOST)

    def _fail(self, flight: Flight, error: UpwellError = LOST) -> None:
        self.flights.remove(flight)
        fill = self.engine.fills.by_number.get(flight.request.id)
        effects = self.engine.on_failed(UpqueryFailed(flight.request.id, error))
        if fill is not None and error is REFUSED:
            self.checks.refused(fill, effects)
        self.handle(effects)

    def do_upquery(self, at: int, moments: int) -> None:
        """The next moments of an upquery under way."""
        if self.flights:
            flight = self.flights[at % len(self.flights)]
            for _ in range(moments):
                if flight in self.flights:
                    self._go_on(flight)

    def _moments(self, flight: Flight) -> tuple[str, ...]:
        return self.exact_moments if flight.request.exact else self.moments

    def _go_on(self, flight: Flight) -> None:
        if flight.stage == 0:
            flight.server, flight.incarnation = self.source.server, self.source.incarnation
        moments = self._moments(flight)
        if flight.stage == len(moments):
            self._enclose(flight)
            self._answer(flight)
            return
        moment = moments[flight.stage]
        if self._reach(flight, moment):
            self.note(lambda: f"upquery {flight.request.id} has reached {moment!r}")
            flight.stage += 1

    def _reach(self, flight: Flight, moment: str) -> bool:
        """Does what an upquery does at one of its moments. False: it has to do that again."""
        match moment:
            case "locks":
                return flight.lock(self.source)
            case "snapshot":
                return self._run(flight)
            case _:
                flight.ask(moment, self.source)
                return True

    def _run(self, flight: Flight) -> bool:
        """Runs the SQL on what is visible now, and keeps what that was. Whether all is run."""
        flight.seen, flight.seen_gtids = self.source.seen()
        fill = self.engine.fills.by_number.get(flight.request.id)
        if fill is None:
            return True
        statements = flight.request.statements
        for types, statement in list(zip(types_of(fill), statements, strict=True))[len(flight.results) :]:
            flight.results.append(self.source.visible.query(statement.sql, types))
            if not self.one_snapshot:
                break
        return len(flight.results) == len(statements)

    def _enclose(self, flight: Flight) -> None:
        """It has all that its bracket is made of."""

    def _answer(self, flight: Flight) -> None:
        self.flights.remove(flight)
        bracket = self.bulk.bracket(flight)
        flight.lower = bracket.lower
        if self._alter is not None:
            self._alter(flight.results)
        self.note(lambda: f"it saw {bracket.lower} or {bracket.uncertain} too: {flight.results}")
        if flight.request.id in self.engine.fills.by_number:
            self.checks.answered.append(flight)
            if self.told.must_contradict(flight):
                self.checks.contradicts(self.told)
                self._expect_reset()
        # No connection is older than the run of the server that it is to.
        connected = self.began.get(flight.incarnation, float("-inf"))
        results, own = tuple(flight.results), self._own_answers(flight)
        answer = UpqueryAnswer(flight.request.id, bracket, results, 0.0, connected, own)
        self.handle(deliver(self.engine, answer, prepared=answer.id % 2 == 1))
        self.counts["exact_answers" if flight.request.exact else "answers"] += 1

    def _own_answers(self, flight: Flight) -> tuple[OwnAnswer, ...]:
        """To the clients' own texts (`UpqueryRequest.checks`)."""
        return ()

    # -- clients -----------------------------------------------------------------------------------------------------

    def do_look(self, name: str, parameters: Parameters) -> None:
        """A read if it is a hit, else nothing."""
        with suppress(EvaluationError):
            _ = name in self.desk.caches and self._hit(name, parameters)

    def _hit(self, name: str, parameters: Parameters, demand: Asked | None = None) -> bool:
        """Also where what is held does not meet the demand: the proxy waits until it does."""
        cache = self.desk.caches[name]
        rows, self._holes = hit_large(self.desk, cache, parameters)
        if rows is not None:
            self.checks.hit(name, parameters, rows)
            if not self.counts["hits"] % LOOK_BACK:
                self.checks.look_back(name, parameters)
            return True
        named = cache.named
        assert named.reader is not None and named.binder is not None
        ahead = Misses(cache, self.desk.host, 0).answer_ahead(named.reader, named.binder.bind(parameters))
        if ahead is None or (demand is not None and not demand.needed.issubset(self.position.union(ahead[1]))):
            return False
        self.checks.hit_ahead(name, parameters, *ahead)
        return True

    def do_peek(self, name: str, parameters: Parameters) -> None:
        """What is held is looked at, and not given."""
        body = self.desk.caches[name].peek(parameters) if name in self.desk.caches else None
        if body is not None:
            self.checks.hit(name, parameters, unpacked(body))

    def do_derive(self, name: str, parameters: Parameters) -> None:
        """A read of what is held begins; if that is large, it goes on in steps."""
        if name in self.desk.caches:
            self._touched = True
            self._told_large(self.large_reads.begin(name, parameters))

    def do_derive_on(self, at: int, steps: int) -> None:
        self._touched = True
        self._told_large(self.large_reads.go_on(at, steps))

    def _told_large(self, read: LargeRead | None) -> None:
        if read is not None and read.answer is not None:
            self.counts["derived in steps"] += 1
            tables = self.large_reads.tables_of(read.answer)
            self.checks.hit_before(read.name, read.parameters, unpacked(read.answer.body), tables)

    def do_read(self, name: str, parameters: Parameters) -> None:
        self.read(name, parameters)

    def do_demand(self, name: str, parameters: Parameters) -> None:
        """A read that asks for all that is executed when it comes."""
        self.read(name, parameters, Asked(self.engine, self.source.executed()))

    def read(self, name: str, parameters: Parameters, demand: Asked | None = None, check: Check | None = None) -> bool:
        """Whether it was a hit."""
        if name not in self.desk.caches:
            return False
        self.asked[name, parameters] = None
        if self._hit(name, parameters, demand):
            return True
        self._waiter += 1
        cache = self.desk.caches[name].named
        assert cache.reader is not None and cache.binder is not None
        keys = cache.binder.bind(parameters).keys
        read = Read(self._waiter, cache.reader, keys, demand=demand, check=check, holes=self._holes)
        self.waiting[self._waiter] = Waiting(name, parameters, read, self.position)
        self.counts["misses"] += 1
        self.handle(self.engine.reads.read(read))
        return False

    def do_bulk(self, name: str, asked: Sequence[Parameters], keys_of_a_slice: int) -> None:
        """A large fill of keys that no read has asked for."""
        if name in self.desk.caches:
            self.asked.update(dict.fromkeys((name, parameters) for parameters in asked))
            self.handle(list(self.bulk.begin(self.desk.caches[name].named, asked, keys_of_a_slice)))
            self.counts["bulk fills"] += 1

    def do_audit(self, name: str) -> None:
        if name in self.desk.caches:
            self.handle(list(self.bulk.audit(self.desk.caches[name].named)))
            self.counts["audits"] += 1

    def do_give_up_bulk(self, at: int) -> None:
        gone = self.bulk.give_up(at)
        self.flights = [flight for flight in self.flights if flight.request.id not in gone]

    def do_cancel(self, at: int) -> None:
        """A caller goes away."""
        if self.waiting:
            waiter = sorted(self.waiting)[at % len(self.waiting)]
            del self.waiting[waiter]
            abandoned = set(self.engine.reads.cancel(waiter))
            self.flights = [flight for flight in self.flights if flight.request.id not in abandoned]

    def do_subscribe(self, name: str, parameters: Parameters) -> None:
        if name not in self.desk.caches:
            return
        cache = self.desk.caches[name].named
        assert cache.reader is not None and cache.binder is not None
        keys = cache.binder.bind(parameters).keys
        if len(keys) == 1:
            self._waiter += 1
            self.subscribers[self._waiter] = Subscriber(name, parameters)
            self.handle(self.engine.subscribe(self._waiter, cache.reader, *keys[0]))

    def do_unsubscribe(self, at: int) -> None:
        if self.subscribers:
            number = sorted(self.subscribers)[at % len(self.subscribers)]
            del self.subscribers[number]
            self.engine.unsubscribe(number)

    def compare_at_rest(self, name: str, parameters: Parameters) -> None:
        """What is held is compared, where anything is."""

    def handle(self, effects: list[Effect]) -> None:
        self._touched = True
        for effect in effects:
            match effect:
                case Ready():
                    self.checks.ready(self.waiting.pop(effect.waiter), effect)
                case Failed():
                    self.waiting.pop(effect.waiter, None)
                    self.counts["behind" if effect.why is GivenUp.BEHIND else "passed"] += 1
                case Changes():
                    self.checks.changes(effect)
                case Differs():
                    raise AssertionError("nothing is checked here but by the simulation itself")
                case Filled():
                    self.bulk.ended(effect)
                case UpqueryRequest():
                    self.flights.append(self._sent(effect))

    def _sent(self, request: UpqueryRequest) -> Flight:
        request.exact = request.exact or request.id % EXACT_EVERY == 0
        return self._flight(request)

    def _flight(self, request: UpqueryRequest) -> Flight:
        return Flight(request, self.told.answers)
