"""The engine: takes messages, returns effects. Synchronous, on one thread, no I/O, no clock of its own.

One transaction of the source takes effect before anything else happens; fills are inserted, keys evicted
and subscribers told between two transactions. So no delta is in flight while a lookup is made, and a reader never shows
half a transaction.

What is held, and what events and fills do to it, is in `dataflow/fills/state.py`; who waits for what is in
`dataflow/fills/waiting_reads.py`. Here are the stream, and the answers of the upqueries under way.
"""

from __future__ import annotations

from collections.abc import Iterable

from dataflow.fills.fill import Fill
from dataflow.fills.read import Read
from dataflow.fills.subscription import CLOSED
from dataflow.fills.waiting_reads import Reads
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
from dataflow.readers.eviction import GOING
from dataflow.readers.in_steps import Steps
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

MOST_ARRIVED = 500  # answers whose wait ends with one event: of more, none is inserted in the same step
OF_A_KEY = (SourceError, AnswerTooLarge)  # an upquery's errors that may be about one of its keys
MOST_SPLITS = 16  # of a read's upqueries that count as no attempt: more than halve the largest one
ENTRIES_OF_A_KEY = 10  # that are inserted while one key is held
FILL_PATIENCE = 10.0  # seconds that an answer waits for the position; a timeout resolves nothing: the fill is dropped


class Engine(Reads):
    """The whole state of a proxy. `clock` gives seconds, monotonic."""

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
        effects: list[Effect] = []
        for read in [read for read in self._reads.values() if not read.reader.installed]:
            effects += self._give_up(read, GivenUp.CACHE_DROPPED)
        for reader in [reader for reader in self._missed if not reader.installed]:
            del self._missed[reader]
        return effects + self.subscriptions.end_closed(CLOSED)

    def tidy(self, most: int) -> bool:
        """Takes apart so much of what was let go (`dataflow/held/remains.py`). Whether there is more to do."""
        remains = self.memory.remains
        if remains:
            remains.take_apart(most)
            return bool(remains) or self._evicting or self.sieve.prune(0)
        if self._evicting:
            self.sieve.go_on(self.limit, GOING * most)
            self._evicting = self.memory.used > self.limit and not self.sieve.stuck
            return self._evicting or self.sieve.prune(0)
        return self.sieve.prune(10 * most)

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
        if self._waits.places and gtid is not None:
            arrived = self._waits.arrived(gtid, position)
            self._due += arrived
            if len(arrived) > MOST_ARRIVED:
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
        if not (self._due or self._inserting or self._long.reads or self.subscriptions.large):
            return self.between()
        effects: list[Effect] = []
        if self._due:
            effects += self._insert_due()
        if self._inserting and self.state.under_way is None:
            effects += self._place_more(*self._inserting.popleft())
        if self._long.reads:
            effects += self._settle_more()
        if self.subscriptions.large:
            effects += self._tell_large()
        return effects + self.between()

    def _insert_due(self) -> list[Effect]:
        effects: list[Effect] = []
        room = 0 if self.state.under_way is not None else self.most_inserted
        while self._due and room > 0:
            fill = self._due.popleft()
            room -= len(fill.whole) + len(fill.partial) + sum(map(len, fill.overlay)) // ENTRIES_OF_A_KEY
            effects += self._resolved(fill)
        return effects

    @property
    def unfinished(self) -> bool:
        """Is there anything for `go_on`? It may wait: what is received meanwhile is in the ring."""
        if (self._due or self._inserting) and self.state.under_way is None:
            return True
        return bool(self._long.reads or self.subscriptions.large)

    @property
    def has_more(self) -> bool:
        """Is there anything for `flush`, or for `go_on`?"""
        if self._missed or self._unsettled or self._long.reads or self.subscriptions.large:
            return True
        return bool(self._due or self._inserting) and self.state.under_way is None

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
        self._waits.clear()
        self._due.clear()
        fills = list(self._fills.values())
        for fill in fills:
            self._end(fill)
        effects: list[Effect] = []
        for read in dict.fromkeys(read for fill in fills for read in fill.reads if read.waiter in self._reads):
            read.fills.clear()
            effects += self._again(read, 0)
        return effects

    def reset(self, position: GtidSet, reason: str) -> list[Effect]:
        """History is lost, or another server answers: all becomes a hole; the stream goes on after `position`."""
        self.memory.count("resets")
        self.generation += 1
        self.source.forget()
        self.state.clear(position)
        return self._ask_again() + self.between()

    # -- upqueries ---------------------------------------------------------------------------------------------------

    def on_answer(self, answer: UpqueryAnswer) -> list[Effect]:
        """An upquery's answer: who waits gets it at once if all of it came from the snapshot; then it is inserted."""
        fill = self._fills.get(answer.id)
        if fill is None:
            return []
        if fill.unasked is None:
            tag = fill.reader.tag
            self.latency[tag] = 0.7 * self.latency.get(tag, answer.seconds) + 0.3 * answer.seconds
        contradiction = self.source.contradiction(answer.bracket, fill.floor)
        if contradiction:
            self.memory.count("resets_by_answer")
            # Not at `lower`: the stream goes on from where it is, and does not bring again what `lower` may lack.
            return self.reset(self.state.ring.position.freeze(), contradiction)
        return self._answered(fill, answer) + self.between()

    def _answered(self, fill: Fill, answer: UpqueryAnswer) -> list[Effect]:
        bracket = answer.bracket
        self._count += 1
        fill.answered, fill.answered_at = self._count, self._clock()
        self.unanswered.discard(fill.id)
        try:
            fill.take(bracket, answer.results, answer.columns)
        except InvariantViolated:
            self.memory.count("answers_not_understood")
            raise  # the plan may be another server's, or an older one's
        except EvaluationError as error:
            fill.error = error
            self._end(fill)
            return [effect for read in list(fill.reads) for effect in self._cannot_tell(read, error)]
        checks = fill.checks
        if checks.asked and (check := checks.compare(answer.checks, fill.told, fill.overlay)) is not None:
            self._end(fill)
            waiting = [read for read in fill.reads if read.waiter in self._reads]
            given_up = [effect for read in waiting for effect in self._give_up(read, GivenUp.DIFFERS)]
            return [Differs(check, bracket, fill.sent_at), *given_up]
        effects: list[Effect] = []
        for read in list(fill.reads):
            if read.waiter in self._reads:
                effects += self._tell(read, fill)
        if self._followed() not in ("", bracket.history):
            return effects + self._of_another_server(fill, bracket.history)
        if self._waits.unsettled:
            self._clear_rolled_back(answer, fill)
        if self._due:
            effects += self._insert_due()
        unsettled = bracket.owned.difference(bracket.executed) if bracket.owned.intervals else bracket.owned
        if not self._waits.add(bracket.needed, self.state.ring.position, fill, unsettled):
            if self.state.under_way is not None and self.state.delays(fill.reader):
                self._due.append(fill)
            else:
                effects += self._insert(fill)
        elif self._may_stand_ahead(fill):
            self._insert_ahead(fill)
        else:
            fill.waiting = True
            self.memory.count("fills_waiting_for_position")
        return effects

    def _of_another_server(self, fill: Fill, history: str) -> list[Effect]:
        """Nothing would keep the answer current: the stream is another server's, as far as is known."""
        self.memory.count("answers_of_another_server")
        behind = SourceDown(f"server {history} answers, whose changes are not followed yet")
        fill.error = behind
        self._end(fill)
        return [effect for read in list(fill.reads) for effect in self._cannot_tell(read, behind)]

    def _clear_rolled_back(self, answer: UpqueryAnswer, current: Fill) -> None:
        """A GTID that was owned, and is neither owned nor executed in a later reading, was rolled back: nobody needs
        to wait for it. Unless the server was restarted in between, and lost what had been seen."""
        bracket = answer.bracket
        for fill, missing in self._waits.rolled_back(bracket.owned, bracket.executed).items():
            absent = bracket.asked(missing)  # a reading of some shards tells nothing of the others
            restarted = answer.connected_at >= fill.sent_at
            if fill is current or restarted or not absent or current.sent <= fill.answered:
                continue
            if self._waits.clear_absent(absent, self.state.ring.position, fill):
                self.memory.count("rolled_back_cleared")
                self._due.append(fill)

    def _resolved(self, fill: Fill) -> list[Effect]:
        """The position contains the answer's L and Q. A fault is this fill's, not that of the event or of the answer
        which has ended its wait."""
        fill.waiting = False
        try:
            if not fill.ahead:
                return self._insert(fill) if fill.id in self._fills else []  # else it has ended meanwhile
            self.state.promote(fill)
        except Exception as error:
            if self.on_broken is None:
                raise
            return self.on_broken(fill, error)
        return []

    def on_failed(self, failed: UpqueryFailed) -> list[Effect]:
        """An upquery failed: who waits gets the error as it is. Where it may be about one of several keys, reads of
        fewer ask again, in two halves: one bad key among a hundred costs some dozen upqueries."""
        fill = self._fills.get(failed.id)
        if fill is None:
            return []
        self.memory.count("upqueries_failed")
        fill.error = failed.error
        self._end(fill)
        alone: list[Read] = []
        shared: list[Read] = []
        for read in fill.reads:
            if read.waiter in self._reads:
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
                self._unsettled[read.waiter] = read
        return self._fail(alone, failed.error) + self.between()

    def fail_lost(self, error: UpwellError) -> list[Effect]:
        """After a fault whose effects are lost: the reads that wait for nothing, as their fill was lost on the way, get
        the error. All subscriptions end: one may have missed a change."""
        missed = {read.waiter for reads in self._missed.values() for read in reads}
        missed |= self._unsettled.keys()
        waits = [read for read in self._reads.values() if read.waiter not in missed and read.waiter not in self._long]
        lost = [read for read in waits if self._fills.keys().isdisjoint(read.fills)]
        ended = self.subscriptions.end_all(error.message)
        for changes in ended:
            self._reads.pop(changes.subscription, None)
        return [*self._fail(lost, error), *ended, *self.between()]

    def recover(self, reader: ReaderNode, reads: Iterable[Read], error: UpwellError, fill: Fill | None) -> list[Effect]:
        """After a fault (`dataflow/guard.py`): makes holes of all that the reader's answers are made of; those of the
        reads that still wait get the error."""
        if fill is not None:
            self._waits.remove(fill)
            fill.waiting = False
            self._end(fill)
        for node in reader.nodes:
            node.clear()
        return self._fail(reads, error) + self.between()

    def _insert(self, fill: Fill) -> list[Effect]:
        """Inserts an answer at the position, or begins to. Requires: P contains its L and Q."""
        if not fill.reader.installed:
            self._end(fill)
            return []
        return self._place(fill, self.state.insertion(fill))

    def _place(self, fill: Fill, steps: Steps[None]) -> list[Effect]:
        more = False
        try:
            for _ in steps:
                more = True
                self._inserting.append((fill, steps))
                return []
            if fill.ended:
                return []  # who waited for it asks again
            self._end(fill)
            return self._settle_all(fill)
        finally:
            if not more and fill.pins.held:
                fill.pins.release()

    def _place_more(self, fill: Fill, steps: Steps[None]) -> list[Effect]:
        """A fault is this fill's, not that of the step."""
        try:
            return self._place(fill, steps)
        except Exception as error:
            if self.on_broken is None:
                raise
            return self.on_broken(fill, error)

    def _may_stand_ahead(self, fill: Fill) -> bool:
        """Nobody waits for it: who does must be told at the position. What is to be compared first must be at the
        position, too. Of what no read asked for it is told at the position which keys are held."""
        waited_for = any(read.waiter in self._reads for read in fill.reads)
        free = self._ahead_fills and not waited_for and fill.unasked is None and not fill.checks.doubtful()
        return free and self.state.may_stand_ahead(fill)

    def _insert_ahead(self, fill: Fill) -> None:
        """Inserts an answer at its cut; it goes on waiting for the position."""
        self._end(fill)
        if self.state.insert_ahead(fill):
            fill.waiting = True
        else:
            self._waits.remove(fill)

    def tick(self) -> list[Effect]:
        """To be called now and then: drops answers that have waited too long for the position."""
        effects: list[Effect] = []
        horizon = self._clock() - FILL_PATIENCE
        for fill in list(self._waits):
            if fill.answered_at < horizon:
                if fill.becomes_overdue(self.state.ring.position):
                    self.memory.count("fills_beyond_stream")
                if fill.ahead:
                    continue
                self.memory.count("fills_timed_out")
                self._end(fill)
                for read in list(fill.reads):
                    if read.waiter in self._reads:
                        effects += self._again(read, fill.id)
        return effects + self.between()

    @property
    def waiting(self) -> int:
        """Answers that wait for the position."""
        return sum(1 for fills in (self._waits, self._due) for fill in fills if not fill.ahead)

    def check_invariants(self) -> None:
        """Raises AssertionError where the state contradicts itself. For tests, the simulation and `--check`."""
        self.state.check_invariants()
        evictable = any(
            held.watch is None for reader in self.graph.readers.values() for held in reader.entries.values()
        )
        if not self._inserting and not self.memory.remains:
            needed = all(entry.dependents is not None for node in self.graph for entry in node.entries.values())
            assert needed, "an entry is held that no reader's key needs: nobody would ever evict it"
        bounded = self.memory.used <= self.limit or self._evicting or not evictable
        assert bounded, "more is held than the limit allows"
