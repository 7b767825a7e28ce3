"""The engine: takes messages, returns effects. Synchronous, on one thread, no I/O, no clock of its own.

One transaction of the source takes effect before anything else happens; fills are inserted, keys evicted
and subscribers told between two transactions. So no delta is in flight while a lookup is made, and a reader never shows
half a transaction.

The parts are in `dataflow/fills/`: what is held (`State`), who waits for what (`Reads`), the fills under way
(`FillsUnderWay`), the answers that are to be inserted (`Inserting`), fills that no read asks for (`UnaskedFills`), and
subscriptions. Here is what concerns several of them: a plan, an event of the stream, an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from dataflow.fills.exact_fills import HotKeys
from dataflow.fills.fill import Fill
from dataflow.fills.inserting import Inserting
from dataflow.fills.read import Read
from dataflow.fills.shards import ShardsOf
from dataflow.fills.source_history import SourceHistory
from dataflow.fills.state import State
from dataflow.fills.subscription import Subscriptions
from dataflow.fills.unasked import UnaskedFills
from dataflow.fills.under_way import FillsUnderWay
from dataflow.fills.waiting_reads import OnFailure, Reads
from dataflow.losses import DOUBT, FAULT, HISTORY, Because, emptied
from dataflow.messages import (
    Differs,
    Effect,
    Gap,
    GivenUp,
    Restarted,
    StreamEvent,
    Transaction,
    UpqueryAnswer,
    UpqueryFailed,
)
from dataflow.readers.derivation import Params
from dataflow.readers.memory_limit import MemoryLimit
from dataflow.readers.reader import ReaderNode
from gtid_tracker.gtid import GtidSet
from planner.tree.plan import QueryPlan
from sqltypes.errors import (
    AnswerTooLarge,
    EvaluationError,
    InvariantViolated,
    SourceDown,
    SourceError,
    UpwellError,
)
from sqltypes.expression import Key

OF_A_KEY = (SourceError, AnswerTooLarge)  # an upquery's errors that may be about one of its keys
MOST_SPLITS = 16  # of a read's upqueries that count as no attempt: more than halve the largest one
TOLD = 2  # steps of what a subscriber of a large answer is told, in one step


class Engine:
    """The whole state of a proxy. `clock` gives seconds, monotonic. `followed`: the history that is followed, "" if
    not known. `shards_of`: where the source has shards. `on_doubt`: as `State` has it."""

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
        shards_of: ShardsOf | None = None,
        on_doubt: Callable[[], None] = lambda: None,
    ) -> None:
        self.state = State(position, ring_transactions, ring_bytes, HotKeys(exact_fills), on_doubt)
        self.memory, self.graph, self.sieve = self.state.memory, self.state.graph, self.state.sieve
        self.limit = MemoryLimit(self.memory, self.sieve, memory_limit)
        self.source = SourceHistory()
        self.fills = FillsUnderWay(clock, self.source, shards_of)
        self.subscriptions = Subscriptions()
        self.reads = Reads(self.state, self.fills, self.subscriptions)
        self.inserting = Inserting(self.state, self.fills, self.reads, ahead_fills=ahead_fills)
        self.unasked = UnaskedFills(self.state, self.fills, self.limit)
        self._followed = followed
        self._groups = 0  # of reads whose shared upquery was refused

    # -- plans -------------------------------------------------------------------------------------------------------

    def install(self, plan: QueryPlan) -> ReaderNode:
        """Adds the plan to the graph."""
        return self.state.install(plan)

    def remove(self, reader: ReaderNode) -> list[Effect]:
        """Takes a reader out. Reads that wait for it are to be passed through."""
        effects = self.close([reader])
        self.state.remove(reader)
        return effects

    def close(self, readers: Iterable[ReaderNode]) -> list[Effect]:
        """Nothing is read from these readers any more, nor filled for them; reads that wait are to be passed through.
        `remove` takes them out, each when there is time. Requires: what they hold will not be asked for again."""
        for reader in readers:
            reader.installed = False
        return self.reads.close()

    # -- the stream --------------------------------------------------------------------------------------------------

    def on_stream(self, event: StreamEvent) -> list[Effect]:
        """Processes one event of the change stream to completion, in one step.

        Of one that was begun (`begin`) and is ready, that step is short. Another that is under way comes
        first, if the two have an order.
        """
        if isinstance(event, Gap):
            self.memory.count("resets_by_stream")
            self.state.abandon()
            return self.reset(event.position, event.reason)
        if isinstance(event, Restarted):
            return self._restarted()
        gtid, large = event.gtid, self.state.under_way
        if large is not None and large.event is not event and gtid is not None:
            return self.on_stream(large.event) + self.on_stream(event)
        position = self.state.ring.position
        if gtid is not None and gtid in position:
            self.memory.count("replayed_ignored")
            self.state.abandon()  # it was begun, and history began anew with it
            return []
        if large is not None and large.event is event:
            self.prepare()
        self.state.advance(event)
        if self.fills.waits.places and gtid is not None and not self.inserting.arrived(gtid, position):
            return self.between()
        return self.go_on()

    def begin(self, event: StreamEvent) -> bool:
        """Takes a transaction that is too much work for one step. False: it is not. `prepare` is to be called until it
        is ready, then `on_stream` with the same event. Until then all stays at the position before it, and no answer is
        inserted there."""
        if self.state.under_way is not None or not self.state.is_large(event):
            return False
        assert isinstance(event, Transaction)
        if event.gtid in self.state.ring.position:
            return False
        self.state.begin(event)
        return True

    def prepare(self, most: int | None = None) -> bool:
        """Makes so many short steps of the transaction under way, or all. Whether it is ready."""
        large = self.state.under_way
        if large is not None:
            for done, _ in enumerate(large.steps, 1):
                if done == most:
                    return False
        return True

    @property
    def under_way(self) -> Transaction | None:
        """The transaction that was begun and is not at the position yet."""
        large = self.state.under_way
        return large.event if large is not None else None

    def go_on(self) -> list[Effect]:
        """Inserts some of the answers that have waited for the position, and goes on with what is done in steps: large
        answers that are inserted, that reads are told, and subscribers. `unfinished`: there is more."""
        inserting, reads, large = self.inserting, self.reads, self.subscriptions.large
        if not (inserting.due or inserting.begun or reads.long.reads or large):
            return self.between()
        effects = inserting.go_on() if inserting.due or inserting.begun else []
        if reads.long.reads:
            effects += reads.go_on()
        if large:
            effects += self.subscriptions.go_on(TOLD, reads.read)
        return effects + self.between()

    @property
    def unfinished(self) -> bool:
        """Is there anything for `go_on`? It may wait: what is received meanwhile is in the ring."""
        inserting = self.inserting
        if (inserting.due or inserting.begun) and self.state.under_way is None:
            return True
        return bool(self.reads.long.reads or self.subscriptions.large)

    @property
    def has_more(self) -> bool:
        """Is there anything for `flush`, or for `go_on`?"""
        reads, inserting = self.reads, self.inserting
        if reads.missed or reads.unsettled or reads.long.reads or self.subscriptions.large:
            return True
        return bool(inserting.due or inserting.begun) and self.state.under_way is None

    def flush(self, failed: OnFailure | None = None) -> list[Effect]:
        """As `Reads.flush`."""
        return self.reads.flush(failed) + self.between()

    def between(self) -> list[Effect]:
        """What happens between two transactions: subscribers are told, then memory is brought below its limit. A
        subscription that ends here leaves a key that may go. Then it is told what came of fills that no read asked
        for."""
        effects: list[Effect] = []
        if self.subscriptions.stale:
            effects += self._refill(self.subscriptions.take_stale())
        if self.memory.used > self.limit.bytes:
            self.limit.keep()
        if self.unasked.ended:
            effects += self.unasked.told()
        return effects

    def _restarted(self) -> list[Effect]:
        """What the server may have lost is forgotten: what is held ahead of the position, answers under way and
        readings. What is at the position stays."""
        self.memory.count("restarts_of_source")
        self.source.forget()
        effects = self._ask_again()
        self.state.drop_ahead()
        return effects + self.between()

    def _ask_again(self) -> list[Effect]:
        """Ends all fills; who waits for them asks again, once."""
        self.inserting.forget()
        fills = list(self.fills.by_number.values())
        for fill in fills:
            self.fills.end(fill)
        effects: list[Effect] = []
        for read in dict.fromkeys(read for fill in fills for read in fill.reads if read.waiter in self.reads.waiting):
            read.fills.clear()
            effects += self.reads.again(read)
        return effects

    def reset(self, position: GtidSet, reason: str, because: Because = HISTORY) -> list[Effect]:
        """History is lost, or another server answers: all becomes a hole; the stream goes on after `position`."""
        self.memory.count("resets")
        self.source.forget()
        self.state.clear(position, because)
        return self._ask_again() + self.between()

    # -- upqueries ---------------------------------------------------------------------------------------------------

    def on_answer(self, answer: UpqueryAnswer) -> list[Effect]:
        """An upquery's answer: who waits gets it at once if all of it came from the snapshot; then it is inserted."""
        fill = self.fills.by_number.get(answer.id)
        if fill is None:
            return []
        self.fills.answered(fill, answer.seconds)
        contradiction = self.source.contradiction(answer.bracket, fill.floor)
        if contradiction:
            self.memory.count("resets_by_answer")
            # Not at `lower`: the stream goes on from where it is, and does not bring again what `lower` may lack.
            return self.reset(self.state.ring.position.freeze(), contradiction)
        return self._answered(fill, answer) + self.between()

    def _answered(self, fill: Fill, answer: UpqueryAnswer) -> list[Effect]:
        bracket = answer.bracket
        try:
            fill.take(bracket, answer.results, answer.columns)
        except InvariantViolated:
            self.memory.count("answers_not_understood")
            raise  # the plan may be another server's, or an older one's
        except EvaluationError as error:
            fill.error = error
            self.fills.end(fill)
            return [effect for read in list(fill.reads) for effect in self.reads.cannot_tell(read, error)]
        checks = fill.checks
        if checks.asked and (check := checks.compare(answer.checks, fill.told, fill.overlay)) is not None:
            self.fills.end(fill)
            waiting = [read for read in fill.reads if read.waiter in self.reads.waiting]
            given_up = [effect for read in waiting for effect in self.reads.give_up(read, GivenUp.DIFFERS)]
            return [Differs(check, bracket, fill.sent_at), *given_up]
        effects: list[Effect] = []
        for read in list(fill.reads):
            if read.waiter in self.reads.waiting:
                effects += self.reads.tell(read, fill)
        if self._followed() not in ("", bracket.history):
            return effects + self._of_another_server(fill, bracket.history)
        if self.fills.waits.unsettled:
            self.inserting.clear_rolled_back(answer, fill)
        return effects + self.inserting.add(fill)

    def _of_another_server(self, fill: Fill, history: str) -> list[Effect]:
        """Nothing would keep the answer current: the stream is another server's, as far as is known."""
        self.memory.count("answers_of_another_server")
        behind = SourceDown(f"server {history} answers, whose changes are not followed yet")
        fill.error = behind
        self.fills.end(fill)
        return [effect for read in list(fill.reads) for effect in self.reads.cannot_tell(read, behind)]

    def on_failed(self, failed: UpqueryFailed) -> list[Effect]:
        """An upquery failed: who waits gets the error as it is. Where it may be about one of several keys, reads of
        fewer ask again, in two halves: one bad key among a hundred costs some dozen upqueries."""
        fill = self.fills.by_number.get(failed.id)
        if fill is None:
            return []
        self.memory.count("upqueries_failed")
        fill.error = failed.error
        self.fills.end(fill)
        alone: list[Read] = []
        shared: list[Read] = []
        for read in fill.reads:
            if read.waiter in self.reads.waiting:
                (alone if not isinstance(failed.error, OF_A_KEY) or read.covers(fill.keys) else shared).append(read)
        middle = (len(shared) + 1) // 2
        for half in (shared[:middle], shared[middle:]):
            self._groups += 1
            for read in half:
                read.group = self._groups
                read.splits += 1
                if read.splits <= MOST_SPLITS:
                    read.attempts -= 1
                read.fills.discard(fill.id)
                self.reads.unsettled[read.waiter] = read
        return self.reads.fail(alone, failed.error) + self.between()

    def fail_lost(self, error: UpwellError) -> list[Effect]:
        """As `Reads.fail_lost`."""
        return self.reads.fail_lost(error) + self.between()

    def recover(self, reader: ReaderNode, reads: Iterable[Read], error: UpwellError, fill: Fill | None) -> list[Effect]:
        """After a fault (`dataflow/guard.py`): makes holes of all that the reader's answers are made of; those of the
        reads that still wait get the error."""
        if fill is not None:
            self.fills.waits.remove(fill)
            fill.waiting = False
            self.fills.end(fill)
        return self.reads.fail(reads, error) + self.empty(reader, FAULT)

    def empty(self, reader: ReaderNode, because: Because = DOUBT) -> list[Effect]:
        """Makes holes of all that the reader's answers are made of, as a TRUNCATE of its tables does; what is shared
        with other readers goes, too. Subscribers are told of what changes by that: nothing, where all was right."""
        self.state.doubt()
        with emptied(self.memory, because):
            for node in reader.nodes:
                node.clear()
        return self.between()

    def tick(self) -> list[Effect]:
        """To be called now and then: drops answers that have waited too long for the position."""
        return self.inserting.drop_overdue() + self.between()

    # -- subscriptions -----------------------------------------------------------------------------------------------

    def subscribe(self, number: int, reader: ReaderNode, key: Key, params: Params) -> list[Effect]:
        """Begins a subscription; `number` is also the waiter of the reads that it makes. Its first `Changes` is the
        snapshot."""
        self.subscriptions.start(number, reader, key, params)
        return self._refill([number]) + self.between()

    def unsubscribe(self, number: int) -> None:
        self.reads.waiting.pop(number, None)
        self.subscriptions.stop(number)
        self.limit.keep()  # what only it kept may go now

    def _refill(self, numbers: Sequence[int]) -> list[Effect]:
        waiting = [number for number in numbers if number not in self.reads.waiting]
        return self.subscriptions.refill(waiting, self.sieve.hold, self.reads.read)

    def check_invariants(self) -> None:
        """Raises AssertionError where the state contradicts itself. For tests, the simulation and `--check`."""
        self.state.check_invariants()
        self.fills.check_invariants()
        self.reads.check_invariants()
        self.inserting.check_invariants()
        self.subscriptions.check_invariants(self.reads.waiting)
        self.unasked.check_invariants()
        self.limit.check_invariants(self.graph.readers.values())
        if not self.inserting.begun and not self.memory.remains:
            needed = all(entry.dependents is not None for node in self.graph for entry in node.entries.values())
            assert needed, "an entry is held that no reader's key needs: nobody would ever evict it"
