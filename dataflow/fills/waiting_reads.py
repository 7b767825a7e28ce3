"""The reads that wait, the upqueries that are sent for them, and what they are told.

`Engine` adds the stream and the upqueries' answers.

Invariants:
1. A read is in `_reads` until it has got its `Ready` or `Failed`, and then it waits for a fill, or `flush` is to ask
   for it (`_missed`) or to look at it (`_unsettled`), or `go_on` to answer it in steps (`_long`).
2. Memory is bounded: `memory.used` exceeds `limit` only inside a call, or while `tidy` has more to evict.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from dataflow.entries import Entry, Held
from dataflow.fills.exact_fills import HotKeys
from dataflow.fills.fill import SLOW_SECONDS, Fill, Unasked
from dataflow.fills.long_reads import LongRead, LongReads
from dataflow.fills.missing import missing, params_of
from dataflow.fills.read import Read
from dataflow.fills.shards import Shards, ShardsOf, in_groups
from dataflow.fills.source_history import SourceHistory
from dataflow.fills.state import State
from dataflow.fills.subscription import ENDED, Subscriptions, linked_rows
from dataflow.fills.weights import split, take
from dataflow.messages import Effect, Failed, Filled, GivenUp, Ready, Record, UpqueryRequest
from dataflow.readers.derivation import Params, TooLong
from dataflow.readers.eviction import GOING
from dataflow.readers.in_steps import Holes, Steps
from dataflow.readers.reader import ReaderNode
from gtid_tracker.gtid import GtidSet
from gtid_tracker.progress import PositionWaits
from gtid_tracker.ring import Ring
from sqltypes.errors import EvaluationError, UpwellError
from sqltypes.expression import Key

OnFailure = Callable[[ReaderNode, list[Read], Exception], list[Effect]]
OnBroken = Callable[[Fill, Exception], list[Effect]]
MAX_ATTEMPTS = 3  # upqueries for one read before it is passed through
MAX_BATCH = 100  # keys of one upquery
ASKED = 1000  # keys that one flush asks for, or those of one read: 3 ms (`dataflow/fills/weights.py`)
INSERTED = 200  # keys of answers that waited for the position, that one step inserts: 3 ms
TOLD = 2  # steps of what a subscriber of a large answer is told, in one step
NOTHING = GtidSet.empty()
EVICTING = 250 * GOING  # what is evicted in one step: so many keys, or that many times more that stay


class Reads:
    """Who waits for what, between two steps of the engine. `clock` gives seconds, monotonic."""

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
    ) -> None:
        self.hot_keys = HotKeys(exact_fills)
        self.state = State(position, ring_transactions, ring_bytes, self.hot_keys)
        self.memory, self.graph, self.sieve = self.state.memory, self.state.graph, self.state.sieve
        self.limit = memory_limit
        self.subscriptions = Subscriptions()
        self.generation = 0
        self._clock = clock
        self._waits: PositionWaits[Fill] = PositionWaits()
        self._followed = followed  # the history that is followed, "" if not known
        self._ahead_fills = ahead_fills
        self._due: deque[Fill] = deque()  # have waited, and are to be inserted
        self.most_inserted = INSERTED
        self._fills: dict[int, Fill] = {}
        self.unanswered: set[int] = set()  # of these, without those that no read asked for
        self._unasked_ended: list[Fill] = []  # `Filled` is still to be told of them
        self._missed: dict[ReaderNode, list[Read]] = {}
        self._unsettled: dict[int, Read] = {}  # whose fills have ended
        self._long = LongReads()  # that are answered from what is held, in steps
        self._inserting: deque[tuple[Fill, Steps[None]]] = deque()  # answers of which a part is inserted
        self._reads: dict[int, Read] = {}
        self.latency: dict[int, float] = {}  # by tag: seconds that its upqueries take, smoothed
        self.source = SourceHistory()
        self._count = 0
        self._groups = 0
        self._evicting = False  # `tidy` goes on
        self.on_broken: OnBroken | None = None  # what becomes of a fill whose insertion fails; None: the step fails
        self.shards_of = shards_of  # where the source has shards

    @property
    def ring(self) -> Ring[Record]:
        """The recent transactions and the position; another one after each `reset`."""
        return self.state.ring

    # -- reads -------------------------------------------------------------------------------------------------------

    def read(self, read: Read) -> list[Effect]:
        """A read that met a hole. It gets `Ready` or `Failed` later; `flush` gives the upqueries that it needs.

        Requires: its waiter is new.
        """
        self._reads[read.waiter] = read
        read.since = self.state.ring.position.freeze()
        return self._ask(read)

    def _ask(self, read: Read) -> list[Effect]:
        """Joins the fills under way for its keys; the rest of the keys is missed."""
        if not read.reader.installed:
            return self._give_up(read, GivenUp.CACHE_DROPPED)  # it was closed since the caller had it
        read.attempts += 1
        alone = False
        under_way, tag = read.reader.program.root.tracker.in_flight, read.reader.tag
        for key, _ in read.keys:
            fill: Fill | None = under_way[key].get(tag) if key in under_way else None
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
        self._long.drop(waiter)
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
        together, under one bracket, and those of each `Read.group` by themselves. `misses_pending` tells whether there
        are more.

        A read whose keys are all held by now is answered instead. `failed`: what becomes of a reader's fault.
        """
        effects = self._settle_next(failed) if self._unsettled else []
        missed, self._missed = take(self._missed, ASKED)
        for reader, reads, shards in in_groups(missed, self.shards_of):
            begun = self._count
            try:
                effects += self._ask_for(reader, reads, shards)
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

    def _ask_for(self, reader: ReaderNode, reads: list[Read], shards: Shards) -> list[Effect]:
        effects: list[Effect] = []
        keys: dict[Key, Params] = {}
        under_way = reader.program.root.tracker.in_flight
        for read in reads:
            for key, params in read.keys:
                fill: Fill | None = under_way[key].get(reader.tag) if key in under_way else None
                if fill is None:
                    keys[key] = params
                elif fill.id not in read.fills and read.waiter in self._reads:  # asked for since it came
                    effects += self._join(read, fill)
        seconds = self.latency.get(reader.tag, 0.0)
        for batch, exact in self.hot_keys.batches(reader, keys, MAX_BATCH, seconds):
            for part in split(reader, batch, ASKED):
                effects += self._start(reader, part, reads, exact, shards)
        for read in reads:
            read.holes = {}  # they are asked for; what is missing after that is another question
            if read.waiter in self._reads and not read.fills:
                effects += self._settle(read)  # another reader's fills have left all that it needs
        return effects

    def _start(
        self, reader: ReaderNode, keys: dict[Key, Params], reads: Iterable[Read], exact: bool, shards: Shards
    ) -> list[Effect]:
        """One fill. Keys below which nothing is missing any more need none."""
        checked = [read for read in reads if read.check is not None]
        known = {key: holes for read in reads for key, holes in read.holes.items()}
        whole, partial = missing(reader, keys, checked, known)
        if not whole and not partial:
            return []
        self._count += 1
        params = params_of(partial, keys) if partial else {}
        fill = Fill(self._count, reader, whole, params, partial, sent=self._count, sent_at=self._clock())
        fill.floor = self.source.floor
        if checked:
            fill.checks.add(checked, whole)
        exact = exact and not fill.checks.asked
        request = fill.request(self.latency.get(reader.tag, 0.0) > SLOW_SECONDS, exact)
        request.shards = shards
        ring = self.state.ring
        request.lower = self.source.known_lower(ring.pushed, ring.position)
        if request.lower is not None:
            for read in reads:
                needed = read.demand.needed if read.demand is not None else NOTHING
                if needed.intervals and not needed.issubset(request.lower):
                    request.lower = None  # a new reading has what somebody asks for
                    break
        self._fills[fill.id] = fill
        self.unanswered.add(fill.id)
        tracker = reader.program.root.tracker
        for asked in (whole, partial):
            for key in asked:
                tracker.start(key, reader.tag, fill)
        for read in reads:
            if fill.id not in read.fills:
                for key, _ in read.keys:
                    if key in whole or key in partial:
                        fill.join(read)
                        break
        memory = self.memory
        memory.counters["upqueries"] += 1
        memory.counters["exact_fills"] += exact
        memory.counters["upquery_keys"] += len(whole) + len(partial)
        return [request]

    # -- fills that no read asks for ---------------------------------------------------------------------------------

    def fill_unasked(self, reader: ReaderNode, keys: dict[Key, Params]) -> UpqueryRequest | None:
        """An upquery for keys that no read asks for; `Filled` comes when it has ended. Its answer is a part of a large
        fill, and may take long: a read of one of its keys does not wait for it, but has an upquery of its own.

        None: none of the keys is missing, or the reader is closed.
        """
        if not reader.installed:
            return None
        whole, partial = missing(reader, keys, long_is_whole=True)
        for key, params in keys.items():
            if key not in reader.entries and key not in whole and key not in partial:
                with suppress(EvaluationError):  # MySQL says what comes of it
                    self.hold(reader, key, params)  # all of it is there for other readers
        if self.memory.used > self.limit:
            self.keep_limit()  # keys were taken up
        if not whole and not partial:
            return None
        return self._unasked(reader, whole, params_of(partial, keys), partial, audits=False)

    def audit(self, reader: ReaderNode, keys: dict[Key, Params]) -> UpqueryRequest | None:
        """An upquery for keys that are held, to compare them with; `Filled` tells which are different. None: the reader
        is closed."""
        return self._unasked(reader, dict(keys), {}, {}, audits=True) if reader.installed and keys else None

    def _unasked(
        self, reader: ReaderNode, whole: dict[Key, Params], partial: dict[Key, Params], holes: Holes, audits: bool
    ) -> UpqueryRequest:
        self._count += 1
        unasked = Unasked(audits)
        fill = Fill(
            self._count, reader, whole, partial, holes, sent=self._count, sent_at=self._clock(), unasked=unasked
        )
        fill.floor = self.source.floor
        request = fill.request(slow=True)
        request.shards = self.where(reader, [*whole.items(), *partial.items()])
        self._fills[fill.id] = fill
        self.memory.count("unasked_upqueries")
        self.memory.count("unasked_keys", len(whole) + len(partial))
        return request

    def repair(self, reader: ReaderNode, keys: Iterable[Key]) -> int:
        """Makes holes of these keys, and of all that their answers are made of. Returns how many were held. Each takes
        some microseconds."""
        repaired = 0
        for key in keys:
            if (held := reader.entries.get(key)) is not None:
                repaired += 1
                deps: Iterable[Entry] = held.deps
                if held.version is None:  # it may be linked to others than it is made of now
                    with suppress(EvaluationError):
                        deps = dict.fromkeys((*deps, *reader.derive(reader.params_of(held), reader.held_levels).deps))
                reader.drop(held)
                for entry in deps:
                    if entry.content is not None:
                        entry.owner.discard(entry)
        return repaired

    def drop_unasked(self, numbers: Iterable[int]) -> None:
        """Nobody wants to know any more what comes of these fills: they end, and nothing is told of them. To free the
        keys of one takes tens of microseconds."""
        gone = set(numbers)
        for number in gone & self._fills.keys():
            self._end(self._fills[number])
        self._unasked_ended = [fill for fill in self._unasked_ended if fill.id not in gone]

    def _filled(self) -> list[Effect]:
        ended, self._unasked_ended = self._unasked_ended, []
        return [_filled(fill) for fill in ended]

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
            return [] if demand.met() else self._give_up(read, GivenUp.BEHIND)
        # The stream tells of a transaction before it is visible, and the snapshot may be older than the read.
        if read.since is not None and not read.since.issubset(fill.bracket.lower):
            self.memory.count("snapshots_too_old")
            return []  # it is told when the fill is at the position
        if read.check is not None and read.check.sql not in fill.checks.proved:
            return self._give_up(read, GivenUp.UNCHECKED)
        del self._reads[read.waiter]
        bracket = fill.bracket
        return [Ready(read.waiter, rows, bracket.lower, bracket.needed if bracket.uncertain.intervals else None)]

    def _cannot_tell(self, read: Read, error: UpwellError) -> list[Effect]:
        """A value is out of range, or not known to be MySQL's, or the like: MySQL says what comes of the read."""
        if read.waiter not in self._reads:
            return []
        return self._give_up(read, error)

    def _settle(self, read: Read, ended: int = 0) -> list[Effect]:
        """The read is answered from the reader if all its keys are at the position now. `ended`: a fill that has."""
        read.fills.discard(ended)
        if self.subscriptions.concerns(read.waiter) and self.subscriptions.in_steps(read.waiter):
            del self._reads[read.waiter]
            return []
        try:
            rows = read.reader.answer(read.keys, short=not self.subscriptions.concerns(read.waiter))
        except TooLong:
            if not read.fills:
                self._long.add(read)
            return []
        except EvaluationError as error:
            return self._cannot_tell(read, error)
        if rows is not None:
            if read.check is not None:
                return self._give_up(read, GivenUp.UNCHECKED)
            if read.demand is not None and not read.demand.met():
                return self._give_up(read, GivenUp.BEHIND)
            del self._reads[read.waiter]
            position = self.state.ring.position.freeze()
            if self.subscriptions.concerns(read.waiter):
                key, params = read.keys[0]
                held = self.hold(read.reader, key, params)
                if held is not None and (linked := linked_rows(read.reader, held, params)) is not None:
                    rows = linked
                return self.subscriptions.filled(read.waiter, held, rows)
            return [Ready(read.waiter, rows, position, settled=True)]
        if read.fills:
            return []
        if self.subscriptions.concerns(read.waiter):  # it is not answered in steps, which would tell what is missing
            with suppress(EvaluationError):
                levels = read.reader.held_levels
                read.holes = {key: read.reader.derive(params, levels).holes for key, params in read.keys}
        return self._again(read, ended)

    def _settle_more(self) -> list[Effect]:
        """Goes on with the reads that are answered in steps."""
        effects: list[Effect] = []
        for read, long in self._long.go_on(self.state.ring.position.freeze()):
            if read.waiter in self._reads:
                effects += self._end_long(read, long)
        return effects

    def _end_long(self, read: Read, long: LongRead) -> list[Effect]:
        if long.error is not None:
            return self._cannot_tell(read, long.error)
        if read.check is not None:
            return self._give_up(read, GivenUp.UNCHECKED)
        if not long.met:
            return self._give_up(read, GivenUp.BEHIND)
        if long.found.rows is not None:
            del self._reads[read.waiter]
            return [Ready(read.waiter, long.found.rows, long.position, settled=True)]
        if long.found.holes:
            read.holes = {key: long.found.holes.get(key, []) for key, _ in read.keys}
            return self._again(read, 0)
        return self._give_up(read, GivenUp.HOT_KEY)

    def _settle_all(self, fill: Fill) -> list[Effect]:
        """After a fill was inserted: settles as many of its reads as a short step can, the others in `flush`."""
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

    def _again(self, read: Read, ended: int) -> list[Effect]:
        read.fills.discard(ended)
        tired = read.attempts >= MAX_ATTEMPTS and not self.hot_keys.due(read.reader, (key for key, _ in read.keys))
        if tired and not self.subscriptions.concerns(read.waiter):
            return self._give_up(read, GivenUp.HOT_KEY)
        self.memory.count("retried")
        return self._ask(read)

    def _give_up(self, read: Read, why: GivenUp | UpwellError) -> list[Effect]:
        """The read is to be passed through to MySQL; a subscription that it is for ends."""
        self._reads.pop(read.waiter, None)
        self._long.drop(read.waiter)
        self.memory.count(f"given_up_{why.reason}")
        told = ENDED.get(why, why.reason) if isinstance(why, GivenUp) else why.message
        ended = self.subscriptions.end(read.waiter, told)
        return [Failed(read.waiter, None, why), *ended]

    def _end(self, fill: Fill) -> None:
        fill.ended = True
        if self._fills.pop(fill.id, None) is not None and fill.unasked is not None:
            self._unasked_ended.append(fill)
        self.unanswered.discard(fill.id)
        if fill.waiting:
            self._waits.remove(fill)
            fill.waiting = False
        if fill.unasked is not None:
            return  # no tracker knows of it
        tracker = fill.reader.program.root.tracker
        for asked in (fill.whole, fill.partial):
            for key in asked:
                tracker.end(key, fill.reader.tag, fill)

    def _fail(self, reads: Iterable[Read], error: UpwellError) -> list[Effect]:
        """The reads get the error. A subscription ends also where its rows were derived, and lost before that."""
        effects: list[Effect] = []
        for read in list(reads):
            if self._reads.pop(read.waiter, None) is not None:
                effects.append(Failed(read.waiter, error))
            effects += self.subscriptions.end(read.waiter, error.message)
        return effects

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

    def where(self, reader: ReaderNode, keys: Sequence[tuple[Key, Params]]) -> Shards:
        """The shards that have all of these keys; None: any may have some of it, or there are none."""
        return (self.shards_of(reader, keys) or None) if self.shards_of is not None else None

    def hold(self, reader: ReaderNode, key: Key, params: Params) -> Held | None:
        """The reader's key, linked to all that it is derived from; None if that is not all held."""
        return self.sieve.hold(reader, key, params)

    @property
    def misses_pending(self) -> bool:
        """Is there anything for `flush`?"""
        return bool(self._missed or self._unsettled)

    @property
    def upqueries_in_flight(self) -> int:
        return len(self.unanswered)

    # -- between two transactions ---------------------------------------------------------------------------------

    def between(self) -> list[Effect]:
        """What happens between two transactions: subscribers are told, then memory is brought below its limit. A
        subscription that ends here leaves a key that may go. Then it is told what came of fills that no read asked
        for."""
        effects: list[Effect] = []
        if self.subscriptions.stale:
            effects += self._publish()
        if self.memory.used > self.limit:
            self.keep_limit()
        if self._unasked_ended:
            effects += self._filled()
        return effects

    def keep_limit(self) -> None:
        """Evicts what is too much: as much as a short step can, the rest in `tidy`."""
        self.sieve.evict_to(self.limit, EVICTING)
        self._evicting = self.memory.used > self.limit and not self.sieve.stuck
        if self._evicting:
            self.memory.remains.more()

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

    def _tell_large(self) -> list[Effect]:
        return self.subscriptions.go_on(TOLD, self.read)

    def _publish(self) -> list[Effect]:
        return self._refill(self.subscriptions.take_stale())

    def _refill(self, numbers: Sequence[int]) -> list[Effect]:
        waiting = [number for number in numbers if number not in self._reads]
        return self.subscriptions.refill(waiting, self.hold, self.read)


def _filled(fill: Fill) -> Filled:
    asked = {**fill.whole, **fill.partial}
    holes = [(key, params) for key, params in asked.items() if not fill.kept.get(key, False)]
    unasked = fill.unasked or Unasked()
    return Filled(fill.id, len(asked), holes, unasked.rows, unasked.different, fill.error)
