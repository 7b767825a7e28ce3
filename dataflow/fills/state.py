"""What is held, at which position, and what a change or a fill does to it. `dataflow/engine.py` says when.

Invariants:
1. `ring.position` (P) contains a transaction iff every entry held at the position reflects it.
2. A held key reflects every change at most once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dataflow.changes.large_change import SIZES, LargeChange, work_of
from dataflow.fills.exact_fills import HotKeys
from dataflow.fills.fill import Fill
from dataflow.fills.insertion import Insertion, audit, insert_ahead
from dataflow.graph.graph import Graph
from dataflow.held.arrangement import HASHED, UNBOUNDED, Arrangement, Memory
from dataflow.losses import CHANGE, DOUBT, HISTORY, LARGE, RESTART, Because, emptied
from dataflow.messages import Ddl, Progress, Record, StreamEvent, Transaction
from dataflow.readers.eviction import Sieve
from dataflow.readers.in_steps import Steps
from dataflow.readers.reader import ReaderNode
from gtid_tracker.gtid import GtidSet
from gtid_tracker.ring import Ring
from planner.tree.plan import QueryPlan
from sqltypes.errors import EvaluationError

ROW_BYTES = 300  # of a row change in the ring, without its values; or of a DDL statement
PLACED = 500  # entries of an answer that one step inserts, or keys above them


class State:
    """Arrangements, readers, the ring and the position."""

    def __init__(
        self,
        position: GtidSet,
        ring_transactions: int,
        ring_bytes: int,
        hot_keys: HotKeys,
        on_doubt: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_doubt`: is told what `doubt` says."""
        self.memory = Memory()
        self.graph = Graph(self.memory)
        self.sieve = Sieve(self.memory)
        self.hot_keys = hot_keys
        self.ring: Ring[Record] = Ring(position, ring_transactions, ring_bytes)
        self._ahead: set[Arrangement] = set()  # those that hold entries ahead of the position
        self.under_way: LargeChange | None = None  # a transaction that is received, and not at the position yet
        self.sizes = SIZES
        self.placed_at_once = PLACED
        self.doubts = 0  # calls of `doubt`
        self._on_doubt = on_doubt

    # -- plans -------------------------------------------------------------------------------------------------------

    def install(self, plan: QueryPlan) -> ReaderNode:
        """Adds the plan to the graph. What the ring holds was received without the new plan's columns, so it is
        forgotten."""
        before = self.graph.wanted()
        reader = self.graph.install(plan)
        if self.graph.wanted() != before:
            self._forget_ring()
            if self.under_way is not None:
                self.under_way.outdated = True
        return reader

    def remove(self, reader: ReaderNode) -> None:
        self.graph.remove(reader)
        self.hot_keys.forget(reader)
        self.sieve.prune_soon()

    # -- changes -----------------------------------------------------------------------------------------------------

    def is_large(self, event: StreamEvent) -> bool:
        """Whether it is too much work for one step: then it is to be begun."""
        if event.__class__ is not Transaction:
            return False
        rows = 0
        for change in event.changes:
            rows += len(change.pairs)
        large, graph = self.sizes.large, self.graph
        # No table has more arrangements than there are: of most transactions that says it.
        return rows * len(graph.by_plan) > large and work_of(event, graph.by_table, large) > large

    def begin(self, event: Transaction) -> None:
        """Takes a large transaction. `advance` is to follow when its steps are made. Requires: none is under way."""
        assert self.under_way is None, "a transaction is under way"
        self.under_way = LargeChange(event, self.graph.by_table, self.memory, self.sizes)

    def advance(self, event: Transaction | Ddl | Progress) -> None:
        """Applies an event to all that is held; the position contains it afterwards, and the ring what it must know.

        Requires: its GTID is not inside the position. Of the transaction that is under way all steps are made.
        """
        self.memory.sequence += 1
        self.memory.version += 1
        self.memory.room, self.memory.hashed = self.sizes.stale, HASHED
        large = self.under_way if self.under_way is not None and self.under_way.event is event else None
        try:
            record = self._process(event) if large is None else self._publish(large)
        finally:
            self.memory.room, self.memory.because = UNBOUNDED, DOUBT
        if large is not None:
            self.abandon()  # it is done
        gtid = event.gtid
        if gtid is None:
            self.doubt()
            self._forget_ring()
            return
        weight = 0
        if record.__class__ is Transaction:  # what its rows take as objects is more than their images in the binlog
            for change in record.changes:
                weight += ROW_BYTES * len(change.pairs)
            weight += 2 * record.size
        elif record is not None:
            weight = ROW_BYTES
        self.ring.push(gtid, record, weight)
        if large is not None and large.outdated:
            self._forget_ring()

    def _publish(self, large: LargeChange) -> Record:
        """What was read before it is not brought forward by its rows where they are many, or where it has others that
        nobody wanted when it was received."""
        event = large.event
        large.publish()
        self.memory.because = LARGE, event.changes[0].table if event.changes else ""
        tables = frozenset(change.table for change in event.changes)
        ahead = [node for node in self._ahead if large.outdated or not tables.isdisjoint(node.tables)]
        if large.outdated or large.rows * len(ahead) > self.sizes.remembered:
            for node in ahead:
                node.drop_ahead(event.gtid)
        elif ahead:
            self._process_ahead(event)
        if large.owns_rows:
            return Ddl(event.gtid, "a transaction of many rows", tables, schema=False)
        return event

    def delays(self, reader: ReaderNode) -> bool:
        """Whether what is read for it waits until the transaction under way has taken effect, which would miss it."""
        large = self.under_way
        if large is None or large.outdated:
            return large is not None
        return any(change.table in node.tables for change in large.event.changes for node in reader.nodes)

    def doubt(self) -> None:
        """What was held until now may not all have been true at its position, and no stream will bring what was amiss:
        nothing that was written of it may be held again."""
        self.doubts += 1
        self._on_doubt()

    def _forget_ring(self) -> None:
        """At once; what was in it is freed a little at a time."""
        if self.ring:
            self.memory.remains.add_steps(self.ring.forget())

    def abandon(self) -> None:
        """The transaction under way is not to be applied, or not again."""
        large, self.under_way = self.under_way, None
        if large is not None:
            large.leave()

    def _process(self, event: Transaction | Ddl | Progress) -> Record | None:
        """Returns what the ring must remember of it."""
        if isinstance(event, Transaction):
            by_table = self.graph.by_table
            for change in event.changes:
                nodes = by_table.get(change.table)
                if nodes is not None:
                    self.memory.because = CHANGE, change.table
                    nodes.process(change.table, change.pairs)
            if self._ahead:
                self._process_ahead(event)
            return event if event.changes else None
        if isinstance(event, Ddl):
            if event.schema:
                self.memory.count("ddl")
            else:
                self.memory.count("rows_not_read")
            self.memory.because = event.cause, ""
            for node in self._on(event.tables):
                if event.concerns(node.tables):
                    node.clear()
            return event
        return None

    def _on(self, tables: frozenset[str] | None) -> Iterable[Arrangement]:
        """The arrangements on these tables; None: all."""
        if tables is None:
            return self.graph
        by_table = self.graph.by_table
        return dict.fromkeys(node for table in tables if table in by_table for node in by_table[table])

    def _process_ahead(self, transaction: Transaction) -> None:
        """Applies a transaction to what is held ahead of the position and does not reflect it yet."""
        for node in list(self._ahead):
            if not node.ahead:
                self._ahead.discard(node)
            for change in transaction.changes:
                if node.ahead and change.table in node.tables:
                    self.memory.because = CHANGE, change.table
                    try:
                        node.apply_ahead(change.table, change.pairs, transaction.gtid)
                    except EvaluationError:
                        node.cannot_evaluate()

    def drop_ahead(self) -> None:
        """Makes holes of all that is held ahead of the position."""
        with emptied(self.memory, RESTART):
            for node in self._ahead:
                for entry in list(node.ahead.values()):
                    node.discard(entry)
        self._ahead.clear()

    def clear(self, position: GtidSet, because: Because = HISTORY) -> None:
        """Makes everything a hole; what is received from now on follows `position`."""
        self.memory.count("transactions", self.ring.pushed)
        self.doubt()
        self.memory.sequence += 1
        self.memory.version += 1
        self._forget_ring()
        self.ring = Ring(position, self.ring.max_transactions, self.ring.max_weight)
        self._ahead.clear()
        with emptied(self.memory, because):
            for reader in self.graph.readers.values():
                reader.clear()
            for node in self.graph:
                node.clear()
        self.sieve.prune_soon()

    # -- fills -------------------------------------------------------------------------------------------------------

    def insertion(self, fill: Fill) -> Steps[None]:
        """Inserts an answer at the position, if it can be brought there; of little work that is one step. Between two
        steps the stream may go on, but for a transaction under way, which has to wait or to end.

        Requires: P contains its L and Q."""
        if not fill.reader.installed or not self._brought_forward(fill):
            return
        at: GtidSet | None = None  # where what is left of the answer stands; None: where it was inserted from

        def forward() -> bool:
            nonlocal at
            if fill.ended or not fill.reader.installed:
                return False
            assert at is not None, "nothing goes on before the first step ends"
            self._bring_rest(fill, at)
            at = self.ring.position.freeze()
            return True

        if fill.unasked is not None and fill.unasked.audits:
            at = self.ring.position.freeze()
            self.memory.count("audited_keys", (yield from audit(fill, forward)))
            self.memory.count("audit_differences", len(fill.unasked.different))
            return
        for _ in Insertion(fill, self.sieve.hold, self.placed_at_once, forward).steps():
            if at is None:
                at = self.ring.position.freeze()
            yield
        if not fill.ended:
            self.memory.counters["fills_inserted"] += 1
            self._note_conflicts(fill)
            if fill.checks.asked:
                fill.checks.tell_held()

    def _bring_rest(self, fill: Fill, at: GtidSet) -> None:
        """Brings what is left of an answer, which was at that position, to the position now, or drops it."""
        try:
            fill.bring_forward((), self.ring.after(at))
        except EvaluationError:
            self.memory.count("evaluation_failed")
            fill.bring_forward((), None)

    def insert_ahead(self, fill: Fill) -> bool:
        """Inserts an answer whose L and Q the stream has still to bring, at its cut; `promote` follows when it has.
        False: it cannot be. Requires: `may_stand_ahead`."""
        if not fill.reader.installed or not self._brought_forward(fill):
            return False
        insert_ahead(fill, self.sieve.hold)
        self._ahead.add(fill.reader.nodes[0])
        self.memory.count("fills_ahead")
        return True

    def may_stand_ahead(self, fill: Fill) -> bool:
        """No join is above it, and its snapshot had all of P and what is under way. A server that has lost some of that
        may answer before the stream notices: with what it has committed since, they are no state that was."""
        if fill.bracket is None or not fill.linear or not self.ring.position.freeze().issubset(fill.bracket.lower):
            return False
        return self.under_way is None or self.under_way.event.gtid in fill.bracket.lower

    def promote(self, fill: Fill) -> None:
        """The position contains what the entries ahead of it waited for."""
        fill.promote()
        self._note_conflicts(fill)

    def _brought_forward(self, fill: Fill) -> bool:
        """Brings an answer forward by all that has been received. False: it must not be inserted."""
        bracket, ring = fill.bracket, self.ring
        assert bracket is not None
        later = ring.after(bracket.lower)
        if later is None:
            self.memory.count("ring_too_short")
            return False
        uncertain: list[Record] = []
        if bracket.uncertain.intervals:
            uncertain = [record for gtid in bracket.uncertain if (record := ring.get(gtid)) is not None]
        try:
            conflicts = fill.bring_forward(uncertain, later)
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
            if not kept and fill.bracket.uncertain.intervals:
                self.hot_keys.dropped(fill.reader, key)
            elif kept and self.hot_keys.by_reader:
                self.hot_keys.held(fill.reader, key)

    def check_invariants(self) -> None:
        """Raises AssertionError where the state contradicts itself."""
        self.graph.check_invariants()
        self.ring.check_invariants()
        self.sieve.check_invariants()
