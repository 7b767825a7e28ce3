"""The engine: takes messages, returns effects. Synchronous, on one thread, no I/O, no clock of its own.

One transaction of the source is processed to completion before anything else happens; fills are inserted, keys evicted
and subscribers told between two transactions. So no delta is in flight while a lookup is made, and a reader never shows
half a transaction.

What is held, and what events and fills do to it, is in `dataflow/state.py`; here are the reads, the upqueries under way
and who waits for what.

Invariants:
1. A read is in `_reads` until it has got its `Ready` or `Failed`, and then it waits for a fill, or `flush` is to ask
   for it (`_missed`) or to look at it (`_unsettled`).
2. Memory is bounded: `memory.used` exceeds `limit` only inside a call, or while `tidy` has more to evict.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from dataflow.demand import BEHIND
from dataflow.entries import Held
from dataflow.eviction import GOING
from dataflow.fill import SLOW_SECONDS, Fill, Read, Record, missing
from dataflow.hot_keys import HotKeys
from dataflow.messages import (
    Differs,
    Effect,
    Failed,
    Gap,
    Ready,
    Restarted,
    StreamEvent,
    Transaction,
    UpqueryAnswer,
    UpqueryFailed,
)
from dataflow.reader import Params, ReaderNode
from dataflow.source_history import SourceHistory
from dataflow.state import State
from dataflow.subscription import ENDED, Subscriptions
from dataflow.weights import split, take
from gtid_tracker.gtid import GtidSet
from gtid_tracker.progress import PositionWaits
from gtid_tracker.ring import Ring
from planner.plan import QueryPlan
from sqltypes.errors import EvaluationError, Fault, InvariantViolated, SourceDown, UpwellError
from sqltypes.expression import Key

OnFailure = Callable[[ReaderNode, list[Read], Exception], list[Effect]]
OnBroken = Callable[[Fill, Exception], list[Effect]]
MAX_ATTEMPTS = 3  # upqueries for one read before it is passed through
MAX_BATCH = 100  # keys of one upquery
ASKED = 1000  # keys that one flush asks for, or those of one read: 3 ms (`dataflow/weights.py`)
INSERTED = 200  # keys of answers that waited for the position, that one step inserts: 3 ms
EVICTING = 250 * GOING  # what is evicted in one step: so many keys, or that many times more that stay
FILL_PATIENCE = 10.0  # seconds that an answer waits for the position; a timeout resolves nothing: the fill is dropped


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
        self.hot_keys = HotKeys(exact_fills)
        self.state = State(position, ring_transactions, ring_bytes, self.hot_keys)
        self.memory, self.graph, self.sieve = self.state.memory, self.state.graph, self.state.sieve
        self.limit = memory_limit
        self.subscriptions = Subscriptions()
        self.generation = 0
        self._clock = clock
        self._waits: PositionWaits[Fill] = PositionWaits()
        self._followed = followed  # the server_uuid whose stream this is, "" if not known
        self._ahead_fills = ahead_fills
        self._due: deque[Fill] = deque()  # have waited, and are to be inserted
        self.most_inserted = INSERTED
        self._fills: dict[int, Fill] = {}
        self._unanswered: set[int] = set()  # of these
        self._missed: dict[ReaderNode, list[Read]] = {}
        self._unsettled: dict[int, Read] = {}  # whose fills have ended
        self._reads: dict[int, Read] = {}
        self.latency: dict[int, float] = {}  # by tag: seconds that its upqueries take, smoothed
        self.source = SourceHistory()
        self._count = 0
        self._evicting = False  # `tidy` goes on
        self.on_broken: OnBroken | None = None  # what becomes of a fill whose insertion fails; None: the step fails

    @property
    def ring(self) -> Ring[Record]:
        """The recent transactions and the position; another one after each `reset`."""
        return self.state.ring

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
            effects += self._give_up(read, "cache_dropped")
        for reader in [reader for reader in self._missed if not reader.installed]:
            del self._missed[reader]
        return effects + self.subscriptions.end_closed(ENDED["cache_dropped"])

    def tidy(self, most: int) -> bool:
        """Takes apart so much of what was let go (`dataflow/remains.py`). Whether there is more to do."""
        remains = self.memory.remains
        if remains:
            remains.take_apart(most)
            return bool(remains) or self._evicting or self.sieve.prune(0)
        if self._evicting:
            self.sieve.go_on(self.limit, GOING * most)
            self._evicting = self.memory.used > self.limit and not self.sieve.stuck
            return self._evicting or self.sieve.prune(0)
        return self.sieve.prune(10 * most)

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
        if not read.reader.installed:
            return self._give_up(read, "cache_dropped")  # it was closed since the caller had it
        read.attempts += 1
        alone = False
        tracker = read.reader.program.root.tracker
        for key, _ in read.keys:
            fill: Fill | None = tracker.find(key, read.reader.tag)
            if fill is None:
                alone = True
            elif fill.id not in read.fills and (told := self._join(read, fill)):
                return told
        if alone:
            self._missed.setdefault(read.reader, []).append(read)
        return []

    def _join(self, read: Read, fill: Fill) -> list[Effect]:
        """The read waits for this fill, too, unless it has the answer already."""
        fill.join(read)
        self.memory.count("misses_coalesced")
        return self._tell(read, fill) if fill.bracket is not None else []

    def cancel(self, waiter: int) -> list[int]:
        """The caller went away. Returns the upqueries that nobody waits for any more, to be stopped at the source."""
        read = self._reads.pop(waiter, None)
        self._unsettled.pop(waiter, None)
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

    def flush(self, failed: OnFailure | None = None) -> list[Effect]:
        """The upqueries for the misses since the last call, as many as a short step can: for each reader its keys
        together, under one bracket. `misses_pending` tells whether there are more.

        A read whose keys are all held by now is answered instead. `failed`: what becomes of a reader's fault.
        """
        effects = self._settle_next(failed)
        missed, self._missed = take(self._missed, ASKED)
        for reader, reads in missed.items():
            begun = self._count
            try:
                effects += self._ask_for(reader, reads)
            except Exception as error:
                for number in range(begun + 1, self._count + 1):
                    if number in self._fills:
                        self._end(self._fills[number])  # its request is lost
                if failed is None:
                    raise
                effects += failed(reader, reads, error)
        return effects + self.between()

    def _settle_next(self, failed: OnFailure | None) -> list[Effect]:
        """Settles as many of the reads whose fills have ended as a short step can."""
        effects: list[Effect] = []
        room = ASKED
        while self._unsettled and room > 0:
            waiter = next(iter(self._unsettled))
            read = self._unsettled.pop(waiter)
            if waiter not in self._reads:
                continue
            room -= len(read.keys)
            try:
                effects += self._settle(read)
            except Exception as error:
                if failed is None:
                    raise
                effects += failed(read.reader, [read], error)
        return effects

    def _ask_for(self, reader: ReaderNode, reads: list[Read]) -> list[Effect]:
        effects: list[Effect] = []
        keys: dict[Key, Params] = {}
        for read in reads:
            for key, params in read.keys:
                fill: Fill | None = reader.program.root.tracker.find(key, reader.tag)
                if fill is None:
                    keys[key] = params
                elif fill.id not in read.fills and read.waiter in self._reads:  # asked for since it came
                    effects += self._join(read, fill)
        seconds = self.latency.get(reader.tag, 0.0)
        for batch, exact in self.hot_keys.batches(reader, keys, MAX_BATCH, seconds):
            for part in split(reader, batch, ASKED):
                effects += self._start(reader, part, reads, exact)
        for read in reads:
            if read.waiter in self._reads and not read.fills:
                effects += self._settle(read)  # another reader's fills have left all that it needs
        return effects

    def _start(self, reader: ReaderNode, keys: dict[Key, Params], reads: Iterable[Read], exact: bool) -> list[Effect]:
        """One fill. Keys below which nothing is missing any more need none."""
        checked = [read for read in reads if read.check is not None]
        whole, partial = missing(reader, keys, checked)
        if not whole and not partial:
            return []
        self._count += 1
        fill = Fill(self._count, reader, whole, partial, sent=self._count, sent_at=self._clock())
        fill.floor = self.source.floor
        fill.add_checks(checked)
        exact = exact and not fill.checks
        request = fill.request(self.latency.get(reader.tag, 0.0) > SLOW_SECONDS, exact)
        request.lower = self.source.known_lower(self.ring.pushed, self.ring.position.freeze())
        if exact:
            self.memory.count("exact_fills")
        if request.lower is not None and not all(
            read.demand.needed.issubset(request.lower) for read in reads if read.demand is not None
        ):
            request.lower = None  # a new reading has what somebody asks for
        self._fills[fill.id] = fill
        self._unanswered.add(fill.id)
        tracker = reader.program.root.tracker
        for key in fill.keys:
            tracker.start(key, reader.tag, fill)
        for read in reads:
            if fill.id not in read.fills and any(key in whole or key in partial for key, _ in read.keys):
                fill.join(read)
        self.memory.count("upqueries")
        self.memory.count("upquery_keys", len(whole) + len(partial))
        return [request]

    # -- the stream --------------------------------------------------------------------------------------------------

    def on_stream(self, event: StreamEvent) -> list[Effect]:
        """Processes one event of the change stream to completion, in one step.

        Of one that was begun (`begin`) and is ready, that step is short. One that is under way and is not this one comes
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
        if gtid is not None and gtid in self.ring.position:
            self.memory.count("replayed_ignored")
            self.state.abandon()  # it was begun, and history began anew with it
            return []
        if large is not None and large.event is event:
            self.prepare()
        self.state.advance(event)
        if gtid is not None and self._waits:
            self._due += self._waits.arrived(gtid, self.ring.position)
        return self.go_on()

    def begin(self, event: StreamEvent) -> bool:
        """Takes a transaction that is too much work for one step. False: it is not. `prepare` is to be called until it
        is ready, then `on_stream` with the same event. Until then all stays at the position before it, and no answer is
        inserted there."""
        if self.state.under_way is not None or not self.state.is_large(event):
            return False
        assert isinstance(event, Transaction)
        if event.gtid in self.ring.position:
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
        """Inserts some of the answers that have waited for the position. `unfinished`: there are more."""
        return self._insert_due() + self.between()

    def _insert_due(self) -> list[Effect]:
        effects: list[Effect] = []
        room = 0 if self.state.under_way is not None else self.most_inserted
        while self._due and room > 0:
            fill = self._due.popleft()
            room -= len(fill.whole) + len(fill.partial)
            effects += self._resolved(fill)
        return effects

    @property
    def unfinished(self) -> bool:
        """Is there anything for `go_on`? It may wait: what is received meanwhile is in the ring."""
        return bool(self._due) and self.state.under_way is None

    def between(self) -> list[Effect]:
        """What happens between two transactions: subscribers are told, then memory is brought below its limit. A
        subscription that ends here leaves a key that may go."""
        effects = self._publish() if self.subscriptions.stale else []
        if self.memory.used > self.limit:
            self.keep_limit()
        return effects

    def keep_limit(self) -> None:
        """Evicts what is too much: as much as a short step can, the rest in `tidy`."""
        self.sieve.evict_to(self.limit, EVICTING)
        self._evicting = self.memory.used > self.limit and not self.sieve.stuck
        if self._evicting:
            self.memory.remains.more()

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
        tag = fill.reader.tag
        self.latency[tag] = 0.7 * self.latency.get(tag, answer.seconds) + 0.3 * answer.seconds
        contradiction = self.source.contradiction(answer.bracket, fill.floor)
        if contradiction:
            self.memory.count("resets_by_answer")
            # Not at `lower`: the stream goes on from where it is, and does not bring again what `lower` may lack.
            return self.reset(self.ring.position.freeze(), contradiction)
        return self._answered(fill, answer) + self.between()

    def _answered(self, fill: Fill, answer: UpqueryAnswer) -> list[Effect]:
        bracket = answer.bracket
        self._count += 1
        fill.answered = self._count
        self._unanswered.discard(fill.id)
        try:
            fill.take(bracket, answer.results, answer.columns)
        except InvariantViolated as error:
            self.memory.count("answers_not_understood")
            fault = Fault(f"the source's answer does not fit the plan: {error}")
            return self.on_failed(UpqueryFailed(answer.id, fault))
        except EvaluationError as error:
            self._end(fill)
            return [effect for read in list(fill.reads) for effect in self._cannot_tell(read, error)]
        if (check := fill.compare(answer.checks)) is not None:
            self._end(fill)
            waiting = [read for read in fill.reads if read.waiter in self._reads]
            return [Differs(check, bracket), *(effect for read in waiting for effect in self._give_up(read, "differs"))]
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
        self._clear_rolled_back(answer, fill)
        effects += self._insert_due()
        unsettled = bracket.owned.difference(bracket.executed) if bracket.owned else bracket.owned
        if not self._waits.add(bracket.needed, self.ring.position, fill, unsettled):
            if self.state.under_way is not None:
                self._due.append(fill)
            else:
                effects += self._insert(fill)
        elif self._may_stand_ahead(fill):
            self._insert_ahead(fill)
        else:
            fill.waiting = True
            self.memory.count("fills_waiting_for_position")
        return effects

    def _clear_rolled_back(self, answer: UpqueryAnswer, current: Fill) -> None:
        """A GTID that was owned, and is neither owned nor executed in a later reading, was rolled back: nobody needs
        to wait for it. Unless the server was restarted in between, and lost what had been seen."""
        bracket = answer.bracket
        for fill, absent in self._waits.rolled_back(bracket.owned, bracket.executed).items():
            restarted = answer.connected_at >= fill.sent_at
            if fill is current or restarted or current.sent <= fill.answered:
                continue
            if self._waits.clear_absent(absent, self.ring.position, fill):
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
        """An upquery failed: who waits gets the error as it is."""
        fill = self._fills.get(failed.id)
        if fill is None:
            return []
        self.memory.count("upqueries_failed")
        self._end(fill)
        return self._fail(fill.reads, failed.error) + self.between()

    def fail_lost(self, error: UpwellError) -> list[Effect]:
        """After a fault whose effects are lost: the reads that wait for nothing, as their fill was lost on the way, get
        the error. All subscriptions end: one may have missed a change."""
        missed = {read.waiter for reads in self._missed.values() for read in reads} | self._unsettled.keys()
        waits = [read for read in self._reads.values() if read.waiter not in missed]
        lost = [read for read in waits if self._fills.keys().isdisjoint(read.fills)]
        ended = self.subscriptions.end_all(error.message)
        for changes in ended:
            self._reads.pop(changes.subscription, None)
        return [*self._fail(lost, error), *ended, *self.between()]

    def fail_missed(self, error: UpwellError) -> list[Effect]:
        """After a fault: the reads that `flush` is to ask for, or to look at, get the error."""
        missed, self._missed = self._missed, {}
        unsettled, self._unsettled = self._unsettled, {}
        return self._fail([*(read for reads in missed.values() for read in reads), *unsettled.values()], error)

    def waits(self, waiter: int) -> bool:
        """Whether that read is still to get its answer."""
        return waiter in self._reads

    def fill_of(self, number: int) -> Fill | None:
        """The upquery of that number, while it is under way."""
        return self._fills.get(number)

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

    def _fail(self, reads: Iterable[Read], error: UpwellError) -> list[Effect]:
        """The reads get the error. A subscription ends also where its rows were derived, and lost before that."""
        effects: list[Effect] = []
        for read in list(reads):
            if self._reads.pop(read.waiter, None) is not None:
                effects.append(Failed(read.waiter, error))
            effects += self.subscriptions.end(read.waiter, error.message)
        return effects

    def _insert(self, fill: Fill) -> list[Effect]:
        """Inserts an answer at the position, between two transactions. Requires: P contains its L and Q."""
        self._end(fill)
        if not fill.reader.installed:
            return []
        self.state.insert(fill)
        effects: list[Effect] = []
        room = ASKED
        for read in list(fill.reads):
            if read.waiter not in self._reads:
                continue
            read.fills.discard(fill.id)
            if not self._fills.keys().isdisjoint(read.fills):
                continue  # another fill of it is still under way
            if room > 0:
                effects += self._settle(read, fill.id)
            else:
                self._unsettled[read.waiter] = read  # many wait for these keys
            room -= len(read.keys)
        return effects

    def _may_stand_ahead(self, fill: Fill) -> bool:
        """Nobody waits for it: who does must be told at the position. What is to be compared first must be at the
        position, too."""
        waited_for = any(read.waiter in self._reads for read in fill.reads)
        free = self._ahead_fills and not waited_for and not fill.doubtful()
        return free and self.state.may_stand_ahead(fill)

    def _insert_ahead(self, fill: Fill) -> None:
        """Inserts an answer at its cut; it goes on waiting for the position."""
        self._end(fill)
        if self.state.insert_ahead(fill):
            fill.waiting = True
        else:
            self._waits.remove(fill)

    def hold(self, reader: ReaderNode, key: Key, params: Params) -> Held | None:
        """The reader's key, linked to all that it is derived from; None if that is not all held."""
        return self.state.hold(reader, key, params)

    # -- answers to reads --------------------------------------------------------------------------------------------

    def _tell(self, read: Read, fill: Fill) -> list[Effect]:
        """The read's answer from the fill's snapshot alone, if all of it is there."""
        if self.subscriptions.concerns(read.waiter):
            return []  # a subscriber starts from the reader, at the position: what follows must join on without a gap
        try:
            rows = fill.answer(read)
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
        if read.check is not None and read.check.sql not in fill.proved:
            return self._give_up(read, "unchecked")
        del self._reads[read.waiter]
        bracket = fill.bracket
        return [Ready(read.waiter, rows, bracket.lower, bracket.needed if bracket.uncertain else None)]

    def _cannot_tell(self, read: Read, error: UpwellError) -> list[Effect]:
        """A value is out of range, or not known to be MySQL's, or the like: MySQL says what comes of the read."""
        if read.waiter not in self._reads:
            return []
        return self._give_up(read, error.reason, error.message)

    def _settle(self, read: Read, ended: int = 0) -> list[Effect]:
        """The read is answered from the reader if all its keys are at the position now. `ended`: a fill that has."""
        read.fills.discard(ended)
        try:
            rows = read.reader.answer(read.keys)
        except EvaluationError as error:
            return self._cannot_tell(read, error)
        if rows is not None:
            if read.check is not None:
                return self._give_up(read, "unchecked")
            if read.demand is not None and not read.demand.met():
                return self._give_up(read, BEHIND)
            del self._reads[read.waiter]
            position = self.ring.position.freeze()
            if self.subscriptions.concerns(read.waiter):
                key, params = read.keys[0]
                return self.subscriptions.filled(read.waiter, self.hold(read.reader, key, params), rows)
            return [Ready(read.waiter, rows, position, settled=True)]
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

    def _give_up(self, read: Read, why: str, told: str = "") -> list[Effect]:
        """The read is to be passed through to MySQL; a subscription that it is for ends."""
        self._reads.pop(read.waiter, None)
        self.memory.count(f"given_up_{why}")
        ended = self.subscriptions.end(read.waiter, told or ENDED.get(why, why))
        return [Failed(read.waiter, None, why), *ended]

    def _end(self, fill: Fill) -> None:
        self._fills.pop(fill.id, None)
        self._unanswered.discard(fill.id)
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
                if fill.becomes_overdue(self.ring.position):
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
    def misses_pending(self) -> bool:
        """Is there anything for `flush`?"""
        return bool(self._missed or self._unsettled)

    @property
    def waiting(self) -> int:
        """Answers that wait for the position."""
        return sum(1 for fills in (self._waits, self._due) for fill in fills if not fill.ahead)

    @property
    def upqueries_in_flight(self) -> int:
        return len(self._unanswered)

    # -- subscriptions -----------------------------------------------------------------------------------------------

    def subscribe(self, number: int, reader: ReaderNode, key: Key, params: Params) -> list[Effect]:
        """Begins a subscription; `number` is also the waiter of the reads that it makes. Its first `Changes` is the
        snapshot."""
        self.subscriptions.start(number, reader, key, params)
        return self._refill([number]) + self.between()

    def unsubscribe(self, number: int) -> None:
        self._reads.pop(number, None)
        self.subscriptions.stop(number)
        self.keep_limit()  # what only it kept may go now

    def _publish(self) -> list[Effect]:
        return self._refill(self.subscriptions.take_stale())

    def _refill(self, numbers: Sequence[int]) -> list[Effect]:
        waiting = [number for number in numbers if number not in self._reads]
        return self.subscriptions.refill(waiting, self.hold, self.read)

    def check_invariants(self) -> None:
        """Raises AssertionError where the state contradicts itself. For tests, the simulation and `--check`."""
        self.state.check_invariants()
        evictable = any(
            held.watch is None for reader in self.graph.readers.values() for held in reader.entries.values()
        )
        bounded = self.memory.used <= self.limit or self._evicting or not evictable
        assert bounded, "more is held than the limit allows"
