"""The engine: takes messages, returns effects. Synchronous, on one thread, no I/O, no clock of its own.

One transaction of the source is processed to completion before anything else happens; fills are inserted, keys evicted
and subscribers
told between two transactions. So no delta is in flight while a lookup is made, and a reader never shows half a
transaction.

Invariants:
1. `ring.position` (P) contains a transaction iff every held entry reflects it.
2. A held key reflects every change at most once.
3. Memory is bounded: `memory.used` exceeds `limit` only inside a call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from dataflow.arrangement import Arrangement, Memory
from dataflow.demand import BEHIND
from dataflow.entries import Held
from dataflow.eviction import Sieve
from dataflow.fill import SLOW_SECONDS, Fill, Read, Record
from dataflow.graph import Graph
from dataflow.hot_keys import HotKeys
from dataflow.messages import (
    Ddl,
    Effect,
    Failed,
    Gap,
    Progress,
    Ready,
    StreamEvent,
    Transaction,
    UpqueryAnswer,
    UpqueryFailed,
)
from dataflow.reader import Params, ReaderNode
from dataflow.source_history import SourceHistory
from dataflow.subscription import Subscriptions
from gtid_tracker.gtid import GtidSet
from gtid_tracker.progress import PositionWaits
from gtid_tracker.ring import Ring
from planner.plan import QueryPlan
from sqltypes.errors import EvaluationError, InvariantViolated, SourceDown, UpwellError
from sqltypes.expression import Key

MAX_ATTEMPTS = 3  # upqueries for one read before it is passed through
MAX_BATCH = 100  # keys of one upquery
FILL_PATIENCE = (
    10.0  # seconds that an answer waits for the position; a timeout is not a resolution: the fill is dropped
)


class Engine:
    """The whole state of a proxy. `clock` gives seconds, monotonic."""

    def __init__(
        self,
        position: GtidSet,
        memory_limit: int,
        clock: Callable[[], float],
        ring_transactions: int = 50_000,
        ring_bytes: int = 64 << 20,
        ahead_fills: bool = True,
        followed: Callable[[], str] = lambda: "",
        exact_fills: bool = True,
    ) -> None:
        self.memory = Memory()
        self.limit = memory_limit
        self.graph = Graph(self.memory)
        self.sieve = Sieve(self.memory)
        self.subscriptions = Subscriptions()
        self.generation = 0
        self._clock = clock
        self._ring_size = (ring_transactions, ring_bytes)
        self.ring: Ring[Record] = Ring(position, *self._ring_size)
        self._waits: PositionWaits[Fill] = PositionWaits()
        self._followed = followed  # the server_uuid whose stream this is, "" if not known
        self.hot_keys = HotKeys(exact_fills)
        self._ahead_fills = ahead_fills
        self._ahead: set[Arrangement] = set()  # those that hold entries ahead of the position
        self._fills: dict[int, Fill] = {}
        self._missed: dict[ReaderNode, list[Read]] = {}
        self._reads: dict[int, Read] = {}
        self._latency: dict[int, float] = {}  # by tag: seconds that its upqueries take, smoothed
        self.source = SourceHistory()
        self._count = 0

    # -- plans -------------------------------------------------------------------------------------------------------

    def install(self, plan: QueryPlan) -> ReaderNode:
        """Adds the plan to the graph. What the ring holds was received without the new plan's columns, so it is
        forgotten."""
        before = self.graph.wanted()
        reader = self.graph.install(plan)
        if self.graph.wanted() != before:
            self.ring.forget()
        return reader

    def remove(self, reader: ReaderNode) -> list[Effect]:
        """Takes a reader out. Reads that wait for it are to be passed through."""
        effects: list[Effect] = []
        for read in [read for read in self._reads.values() if read.reader is reader]:
            effects += self._give_up(read, "cache_dropped")
        self._missed.pop(reader, None)
        effects += self.subscriptions.end(reader, "the cache was dropped or is being rebuilt")
        self.graph.remove(reader)
        self.hot_keys.forget(reader)
        self.sieve.prune()
        return effects

    # -- reads -------------------------------------------------------------------------------------------------------

    def read(self, read: Read) -> list[Effect]:
        """A read that met a hole. It gets `Ready` or `Failed` later; `flush` gives the upqueries that it needs.

        Requires: its waiter is new.
        """
        self._reads[read.waiter] = read
        read.since = self.ring.position.freeze()
        return self._ask(read)

    def _ask(self, read: Read) -> list[Effect]:
        """Joins the fills under way for its keys; the rest of the keys is missed."""
        read.attempts += 1
        alone = False
        tracker = read.reader.program.root.tracker
        for key, _ in read.keys:
            fill: Fill | None = tracker.find(key, read.reader.tag)
            if fill is None:
                alone = True
            elif fill.id not in read.fills:
                read.fills.add(fill.id)
                fill.reads.append(read)
                self.memory.count("misses_coalesced")
                if fill.bracket is not None:
                    told = self._tell(read, fill)
                    if told:
                        return told
        if alone:
            self._missed.setdefault(read.reader, []).append(read)
        return []

    def cancel(self, waiter: int) -> list[int]:
        """The caller went away. Returns the upqueries that nobody waits for any more, to be stopped at the source."""
        read = self._reads.pop(waiter, None)
        if read is None:
            return []
        if read.reader in self._missed:
            self._missed[read.reader] = [other for other in self._missed[read.reader] if other is not read]
        abandoned = []
        for number in read.fills:
            fill = self._fills.get(number)
            if fill is None:
                continue
            fill.reads = [other for other in fill.reads if other is not read]
            if not fill.reads and fill.bracket is None:
                self._end(fill)
                abandoned.append(number)
        return abandoned

    def flush(self) -> list[Effect]:
        """The upqueries for all misses since the last call: for each reader its keys together, under one bracket.

        A read whose keys are all held by now is answered instead.
        """
        effects: list[Effect] = []
        missed, self._missed = self._missed, {}
        for reader, reads in missed.items():
            if not reader.installed:
                continue
            keys: dict[Key, Params] = {}
            for read in reads:
                for key, params in read.keys:
                    if reader.program.root.tracker.find(key, reader.tag) is None:
                        keys[key] = params
            seconds = self._latency.get(reader.tag, 0.0)
            for batch, exact in self.hot_keys.batches(reader, keys, MAX_BATCH, seconds):
                effects += self._start(reader, batch, reads, exact)
            for read in reads:
                if read.waiter in self._reads and not read.fills:
                    effects += self._settle(read)  # another reader's fills have left all that it needs
        return effects + self._between()

    def _start(self, reader: ReaderNode, keys: dict[Key, Params], reads: Iterable[Read], exact: bool) -> list[Effect]:
        """One fill. Keys below which nothing is missing any more need none."""
        whole: dict[Key, Params] = {}
        partial: dict[Key, Params] = {}
        if reader.program.levels:
            for key, params in keys.items():
                try:
                    found = reader.derive(params, reader.held_levels)
                except EvaluationError:
                    whole[key] = params  # MySQL says what comes of it
                    continue
                if found.blind or any(hole.level < 0 for hole in found.holes):
                    whole[key] = params
                elif found.holes:
                    partial[key] = params
        else:
            root_key, entries = reader.program.root_key, reader.held_levels[0]
            whole = {key: params for key, params in keys.items() if root_key(params) not in entries}
        if not whole and not partial:
            return []
        self._count += 1
        fill = Fill(self._count, reader, whole, partial, sent=self._count, sent_at=self._clock())
        fill.floor = self.source.floor
        request = fill.request(self._latency.get(reader.tag, 0.0) > SLOW_SECONDS, exact)
        request.lower = self.source.known_lower(self.ring.pushed, self.ring.position.freeze())
        if exact:
            self.memory.count("exact_fills")
        if request.lower is not None and not all(
            read.demand.needed.issubset(request.lower) for read in reads if read.demand is not None
        ):
            request.lower = None  # a new reading has what somebody asks for
        self._fills[fill.id] = fill
        tracker = reader.program.root.tracker
        for key in fill.keys:
            tracker.start(key, reader.tag, fill)
        for read in reads:
            if fill.id not in read.fills and any(key in whole or key in partial for key, _ in read.keys):
                read.fills.add(fill.id)
                fill.reads.append(read)
        self.memory.count("upqueries")
        self.memory.count("upquery_keys", len(whole) + len(partial))
        return [request]

    # -- the stream --------------------------------------------------------------------------------------------------

    def on_stream(self, event: StreamEvent) -> list[Effect]:
        """Processes one event of the change stream to completion."""
        if isinstance(event, Gap):
            self.memory.count("resets_by_stream")
            return self.reset(event.position, event.reason)
        gtid = event.gtid
        if gtid is not None and gtid in self.ring.position:
            self.memory.count("replayed_ignored")
            return []
        record = self._process(event)
        if gtid is None:
            self.ring.forget()
        else:
            self.ring.push(gtid, record)
        effects: list[Effect] = []
        if gtid is not None and self._waits:
            for fill in self._waits.arrived(gtid, self.ring.position):
                effects += self._resolved(fill)
        return effects + self._between()

    def _process(self, event: Transaction | Ddl | Progress) -> Record | None:
        """Applies an event to all that is held. Returns what the ring must remember of it."""
        if isinstance(event, Transaction):
            by_table = self.graph.by_table
            for change in event.changes:
                nodes = by_table.get(change.table)
                if nodes is not None:
                    nodes.process(change.table, change.pairs)
            if self._ahead:
                self._process_ahead(event)
            return Record.of(event) if event.changes else None
        if isinstance(event, Ddl):
            record = Record(event)
            self.memory.count("ddl")
            for node in self.graph:
                if record.concerns(node):
                    node.clear()
            return record
        return None

    def _process_ahead(self, transaction: Transaction) -> None:
        """Applies a transaction to what is held ahead of the position and does not reflect it yet."""
        for node in list(self._ahead):
            if not node.ahead:
                self._ahead.discard(node)
            for change in transaction.changes:
                if node.ahead and change.table in node.tables:
                    try:
                        node.apply_ahead(change.table, change.pairs, transaction.gtid)
                    except EvaluationError:
                        node.cannot_evaluate()

    def _between(self) -> list[Effect]:
        """What happens between two transactions: memory is brought below its limit, subscribers are told."""
        if self.memory.used > self.limit:
            self.sieve.evict_to(self.limit)
        return self._publish() if self.subscriptions.stale else []

    def reset(self, position: GtidSet, reason: str) -> list[Effect]:
        """History is lost or another server answers: everything becomes a hole, and the stream goes on after
        `position`."""
        self.memory.count("resets")
        self.memory.count("transactions", self.ring.pushed)
        self.generation += 1
        self.ring = Ring(position, *self._ring_size)
        self.source.forget()
        self._waits.clear()
        self._ahead.clear()
        effects: list[Effect] = []
        for fill in list(self._fills.values()):
            self._end(fill)
            for read in list(fill.reads):
                if read.waiter in self._reads:
                    effects += self._again(read, fill.id)
        for reader in self.graph.readers.values():
            reader.clear()
        for node in self.graph:
            node.clear()
        self.sieve.prune()
        effects += self._publish()
        return effects

    # -- upqueries ---------------------------------------------------------------------------------------------------

    def on_answer(self, answer: UpqueryAnswer) -> list[Effect]:
        """An upquery's answer: who waits gets it at once if all of it came from the snapshot; it is inserted at the
        position."""
        fill = self._fills.get(answer.id)
        if fill is None:
            return []
        tag = fill.reader.tag
        self._latency[tag] = 0.7 * self._latency.get(tag, answer.seconds) + 0.3 * answer.seconds
        bracket = answer.bracket
        contradiction = self.source.contradiction(bracket, fill.floor)
        if contradiction:
            self.memory.count("resets_by_answer")
            # Not at `lower`: the stream goes on from where it is, and does not bring again what `lower` may lack.
            return self.reset(self.ring.position.freeze(), contradiction)
        self._count += 1
        fill.answered = self._count
        try:
            fill.take(bracket, answer.results)
        except InvariantViolated:
            self.memory.count("answers_not_understood")
            return self.on_failed(
                UpqueryFailed(answer.id, InvariantViolated("the source's answer does not fit the plan"))
            )
        except EvaluationError as error:
            self._end(fill)
            return [effect for read in list(fill.reads) for effect in self._cannot_tell(read, error)]
        effects: list[Effect] = []
        for read in list(fill.reads):
            if read.waiter in self._reads:
                effects += self._tell(read, fill)
        if self._followed() not in ("", bracket.server_uuid):
            # Nothing would keep it current: the stream is another server's, as far as is known.
            self.memory.count("answers_of_another_server")
            self._end(fill)
            behind = SourceDown(f"server {bracket.server_uuid} answers, whose changes are not followed yet")
            return effects + [effect for read in list(fill.reads) for effect in self._cannot_tell(read, behind)]
        effects += self._clear_rolled_back(answer, fill)
        if not self._waits.add(bracket.needed, self.ring.position, fill):
            effects += self._insert(fill)
        elif self._may_stand_ahead(fill):
            self._insert_ahead(fill)
        else:
            fill.waiting = True
            self.memory.count("fills_waiting_for_position")
        return effects + self._between()

    def _clear_rolled_back(self, answer: UpqueryAnswer, current: Fill) -> list[Effect]:
        """A GTID that was owned, and is neither owned nor executed in a later reading, was rolled back: nobody needs
        to wait for it."""
        effects: list[Effect] = []
        if not self._waits:
            return effects
        present = answer.bracket.owned.union(answer.bracket.executed)
        for fill in list(self._waits):
            if fill is current or fill.bracket is None or not fill.bracket.owned or current.sent <= fill.answered:
                continue
            absent = fill.bracket.owned.difference(present)
            if absent and self._waits.clear_absent(absent, self.ring.position, fill):
                self.memory.count("rolled_back_cleared")
                effects += self._resolved(fill)
        return effects

    def _resolved(self, fill: Fill) -> list[Effect]:
        """The position contains the answer's L and Q."""
        fill.waiting = False
        if not fill.ahead:
            return self._insert(fill)
        fill.promote()
        self._note_conflicts(fill)
        return []

    def on_failed(self, failed: UpqueryFailed) -> list[Effect]:
        """An upquery failed: who waits gets the error as it is."""
        fill = self._fills.get(failed.id)
        if fill is None:
            return []
        self.memory.count("upqueries_failed")
        self._end(fill)
        effects: list[Effect] = []
        for read in list(fill.reads):
            if self._reads.pop(read.waiter, None) is not None:
                effects.append(Failed(read.waiter, failed.error))
                effects += self.subscriptions.failed(read.waiter, failed.error)
        return effects

    def _insert(self, fill: Fill) -> list[Effect]:
        """Inserts an answer at the position, between two transactions. Requires: P contains its L and Q."""
        self._end(fill)
        if not fill.reader.installed:
            return []
        if self._brought_forward(fill):
            fill.insert(self.hold)
            self.memory.count("fills_inserted")
            self._note_conflicts(fill)
        effects: list[Effect] = []
        for read in list(fill.reads):
            if read.waiter in self._reads:
                effects += self._settle(read, fill.id)
        return effects

    def _may_stand_ahead(self, fill: Fill) -> bool:
        """Nobody waits for it, no join is above it, and its snapshot had all of P. A server that has lost transactions
        of P may answer before the stream notices: with what it has committed since, they are no state that was."""
        return (
            self._ahead_fills
            and fill.linear
            and not any(read.waiter in self._reads for read in fill.reads)
            and fill.bracket is not None
            and self.ring.position.freeze().issubset(fill.bracket.lower)
        )

    def _insert_ahead(self, fill: Fill) -> None:
        """Inserts an answer whose L and Q the stream has still to bring, at its cut; it goes on waiting for the
        position. Requires: `fill.linear`, and nobody waits for it."""
        self._end(fill)
        if not fill.reader.installed or not self._brought_forward(fill):
            self._waits.remove(fill)
            return
        fill.insert_ahead(self.hold)
        fill.waiting = True
        self._ahead.add(fill.reader.nodes[0])
        self.memory.count("fills_ahead")

    def _brought_forward(self, fill: Fill) -> bool:
        """Brings an answer forward by all that has been received. False: it must not be inserted."""
        bracket, ring = fill.bracket, self.ring
        assert bracket is not None
        if not ring.admits(bracket.lower):
            self.memory.count("ring_too_short")
            return False
        uncertain = [record for gtid in bracket.uncertain if (record := ring.get(gtid)) is not None]
        try:
            conflicts = fill.bring_forward(uncertain, ring.after(bracket.lower))
        except EvaluationError:
            self.memory.count("evaluation_failed")
            return False
        if conflicts:
            self.memory.count("conflicts", conflicts)
        return True

    def _note_conflicts(self, fill: Fill) -> None:
        """Remembers which keys a transaction of Q has kept from being held."""
        assert fill.bracket is not None
        for key, kept in fill.kept.items():
            if kept:
                self.hot_keys.held(fill.reader, key)
            elif fill.bracket.uncertain:
                self.hot_keys.dropped(fill.reader, key)

    def hold(self, reader: ReaderNode, key: Key, params: Params) -> Held | None:
        """The reader's key, linked to all that it is derived from; None if that is not all held."""
        return self.sieve.hold(reader, key, params)

    # -- answers to reads --------------------------------------------------------------------------------------------

    def _tell(self, read: Read, fill: Fill) -> list[Effect]:
        """The read's answer from the fill's snapshot alone, if all of it is there."""
        if self.subscriptions.concerns(read.waiter):
            return []  # a subscriber starts from the reader, at the position: what follows must join on without a gap
        try:
            rows = fill.answer(read.keys)
        except EvaluationError as error:
            return self._cannot_tell(read, error)
        if rows is None or fill.bracket is None:
            return []
        demand = read.demand
        if demand is not None and not demand.met_by(fill.bracket.lower, fill.sent_at):
            return [] if demand.met() else self._give_up(read, BEHIND)
        # The stream tells of a transaction before it is visible, and the snapshot may be older than the read.
        if read.since is not None and not read.since.issubset(fill.bracket.lower):
            self.memory.count("snapshots_too_old")
            return []  # it is told when the fill is at the position
        del self._reads[read.waiter]
        bracket = fill.bracket
        return [Ready(read.waiter, rows, bracket.lower, bracket.needed if bracket.uncertain else None)]

    def _cannot_tell(self, read: Read, error: UpwellError) -> list[Effect]:
        """For example a value of the answer is out of range, or not known to be MySQL's: MySQL says what comes of
        it."""
        if read.waiter not in self._reads:
            return []
        return [*self._give_up(read, error.reason), *self.subscriptions.failed(read.waiter, error)]

    def _settle(self, read: Read, ended: int = 0) -> list[Effect]:
        """The read is answered from the reader if all its keys are at the position now. `ended`: a fill that has
        ended."""
        read.fills.discard(ended)
        try:
            rows = read.reader.answer(read.keys)
        except EvaluationError as error:
            return self._cannot_tell(read, error)
        if rows is not None:
            if read.demand is not None and not read.demand.met():
                return self._give_up(read, BEHIND)
            del self._reads[read.waiter]
            position = self.ring.position.freeze()
            if self.subscriptions.concerns(read.waiter):
                key, params = read.keys[0]
                return self.subscriptions.filled(read.waiter, self.hold(read.reader, key, params), rows)
            return [Ready(read.waiter, rows, position)]
        if read.fills:
            return []
        return self._again(read, ended)

    def _again(self, read: Read, ended: int) -> list[Effect]:
        read.fills.discard(ended)
        tired = read.attempts >= MAX_ATTEMPTS and not self.hot_keys.due(read.reader, (key for key, _ in read.keys))
        if tired and not self.subscriptions.concerns(read.waiter):
            return self._give_up(read, "hot_key")
        self.memory.count("retried")
        return self._ask(read)

    def _give_up(self, read: Read, why: str) -> list[Effect]:
        """The read is to be passed through to MySQL."""
        self._reads.pop(read.waiter, None)
        self.memory.count(f"given_up_{why}")
        return [Failed(read.waiter, None, why)]

    def _end(self, fill: Fill) -> None:
        self._fills.pop(fill.id, None)
        if fill.waiting:
            self._waits.remove(fill)
            fill.waiting = False
        tracker = fill.reader.program.root.tracker
        for key in fill.keys:
            tracker.end(key, fill.reader.tag, fill)

    def tick(self) -> list[Effect]:
        """To be called now and then: drops answers that have waited too long for the position."""
        effects: list[Effect] = []
        horizon = self._clock() - FILL_PATIENCE
        for fill in list(self._waits):
            if fill.sent_at < horizon:
                if fill.ahead:
                    self._doubt_stream(fill)
                    continue
                self.memory.count("fills_timed_out")
                if fill.bracket is not None and not self.ring.position.covers(fill.bracket.lower):
                    self.memory.count("fills_beyond_stream")  # executed long ago, and not received
                self._end(fill)
                for read in list(fill.reads):
                    if read.waiter in self._reads:
                        effects += self._again(read, fill.id)
        return effects

    def _doubt_stream(self, fill: Fill) -> None:
        """An entry ahead may wait as long as it likes, but one whose L never comes says that the stream lacks it."""
        if not fill.overdue and fill.bracket is not None and not self.ring.position.covers(fill.bracket.lower):
            self.memory.count("fills_beyond_stream")
        fill.overdue = True

    @property
    def misses_pending(self) -> bool:
        """Is there anything for `flush`?"""
        return bool(self._missed)

    @property
    def waiting(self) -> int:
        """Answers that wait for the position."""
        return sum(1 for fill in self._waits if not fill.ahead)

    @property
    def upqueries_in_flight(self) -> int:
        return sum(1 for fill in self._fills.values() if fill.bracket is None)

    # -- subscriptions -----------------------------------------------------------------------------------------------

    def subscribe(self, number: int, reader: ReaderNode, key: Key, params: Params) -> list[Effect]:
        """Begins a subscription; `number` is also the waiter of the reads that it makes. Its first `Changes` is the
        snapshot."""
        self.subscriptions.start(number, reader, key, params)
        return self._refill([number]) + self._between()

    def unsubscribe(self, number: int) -> None:
        self._reads.pop(number, None)
        self.subscriptions.stop(number)

    def _publish(self) -> list[Effect]:
        return self._refill(self.subscriptions.take_stale())

    def _refill(self, numbers: Sequence[int]) -> list[Effect]:
        effects: list[Effect] = []
        for number in numbers:
            if number in self._reads:
                continue
            try:
                told, hole = self.subscriptions.derive(number, self.hold)
            except EvaluationError as error:
                told, hole = self.subscriptions.failed(number, error), False
            effects += told
            if hole:
                reader, key, params = self.subscriptions.what(number)
                effects += self.read(Read(number, reader, [(key, params)]))
        return effects

    def check_invariants(self) -> None:
        """Raises AssertionError where the engine's state contradicts itself. For tests, the simulation and
        `--check`."""
        self.graph.check_invariants()
        self.ring.check_invariants()
        evictable = any(
            held.watch is None for reader in self.graph.readers.values() for held in reader.entries.values()
        )
        assert self.memory.used <= self.limit or not evictable, "more is held than the limit allows"
