"""The reads that wait, the upqueries that are sent for them, and what they are told.

Invariants:
1. A read is in `waiting` until it has got its `Ready` or `Failed`. Meanwhile it waits for a fill, or `flush` is to ask
   for it (`missed`) or to look at it (`unsettled`), or `go_on` to answer it in steps (`long`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

from dataflow.fills.fill import SLOW_SECONDS, Fill
from dataflow.fills.long_reads import LongRead, LongReads
from dataflow.fills.missing import missing, params_of
from dataflow.fills.read import Read
from dataflow.fills.shards import Shards, in_groups
from dataflow.fills.state import State
from dataflow.fills.subscription import CLOSED, ENDED, Subscriptions, linked_rows
from dataflow.fills.under_way import FillsUnderWay
from dataflow.fills.weights import split, take
from dataflow.messages import Effect, Failed, GivenUp, Ready
from dataflow.readers.derivation import Params, TooLong
from dataflow.readers.reader import ReaderNode
from gtid_tracker.gtid import GtidSet
from sqltypes.errors import EvaluationError, UpwellError
from sqltypes.expression import Key

OnFailure = Callable[[ReaderNode, list[Read], Exception], list[Effect]]
MAX_ATTEMPTS = 3  # upqueries for one read before it is passed through
MAX_BATCH = 100  # keys of one upquery
ASKED = 1000  # keys that one flush asks for, or those of one read: 3 ms (`dataflow/fills/weights.py`)
NOTHING = GtidSet.empty()


class Reads:
    """Who waits for what, between two steps of the engine."""

    def __init__(self, state: State, fills: FillsUnderWay, subscriptions: Subscriptions) -> None:
        self.waiting: dict[int, Read] = {}  # by waiter
        self.missed: dict[ReaderNode, list[Read]] = {}
        self.unsettled: dict[int, Read] = {}  # by waiter: their fills have ended
        self.long = LongReads()  # they are answered from what is held, in steps
        self._state = state
        self._memory = state.memory
        self._fills = fills
        self._subscriptions = subscriptions

    # -- reads -------------------------------------------------------------------------------------------------------

    def read(self, read: Read) -> list[Effect]:
        """A read that met a hole. It gets `Ready` or `Failed` later; `flush` gives the upqueries that it needs.

        Requires: its waiter is new.
        """
        self.waiting[read.waiter] = read
        read.since = self._state.ring.position.freeze()
        return self._ask(read)

    def _ask(self, read: Read) -> list[Effect]:
        """Joins the fills under way for its keys; the rest of the keys is missed."""
        if not read.reader.installed:
            return self.give_up(read, GivenUp.CACHE_DROPPED)  # it was closed since the caller had it
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
            self.missed.setdefault(read.reader, []).append(read)
        return []

    def _join(self, read: Read, fill: Fill) -> list[Effect]:
        """The read waits for this fill, too, unless it has the answer already."""
        fill.join(read)
        self._memory.count("misses_coalesced")
        return self.tell(read, fill) if fill.bracket is not None else []

    def cancel(self, waiter: int) -> list[int]:
        """The caller went away. Returns the upqueries that nobody waits for any more, to be stopped at the source."""
        read = self.waiting.pop(waiter, None)
        self.unsettled.pop(waiter, None)
        self.long.drop(waiter)
        if read is None:
            return []
        if read.reader in self.missed:
            self.missed[read.reader] = [other for other in self.missed[read.reader] if other is not read]
        abandoned = []
        for number in read.fills:
            fill = self._fills.by_number.get(number)
            if fill is None:
                continue
            fill.reads = [other for other in fill.reads if other is not read]
            if not fill.reads and fill.bracket is None:
                self._fills.end(fill)
                abandoned.append(number)
        return abandoned

    def flush(self, failed: OnFailure | None = None) -> list[Effect]:
        """The upqueries for the misses since the last call, as many as a short step can: for each reader its keys
        together, under one bracket, and those of each `Read.group` by themselves. `pending`: there are more.

        A read whose keys are all held by now is answered instead. `failed`: what becomes of a reader's fault.
        """
        effects = self._settle_next(failed) if self.unsettled else []
        missed, self.missed = take(self.missed, ASKED)
        for reader, reads, shards in in_groups(missed, self._fills.shards_of):
            begun = self._fills.count
            try:
                effects += self._ask_for(reader, reads, shards)
            except Exception as error:
                self._fills.end_since(begun)
                if failed is None:
                    raise
                effects += failed(reader, reads, error)
        return effects

    def _settle_next(self, failed: OnFailure | None) -> list[Effect]:
        """Settles as many of the reads whose fills have ended as a short step can."""
        effects: list[Effect] = []
        room = ASKED
        while self.unsettled and room > 0:
            waiter = next(iter(self.unsettled))
            read = self.unsettled.pop(waiter)
            if waiter not in self.waiting:
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
                elif fill.id not in read.fills and read.waiter in self.waiting:  # asked for since it came
                    effects += self._join(read, fill)
        seconds = self._fills.latency.get(reader.tag, 0.0)
        for batch, exact in self._state.hot_keys.batches(reader, keys, MAX_BATCH, seconds):
            for part in split(reader, batch, ASKED):
                effects += self._start(reader, part, reads, exact, shards)
        for read in reads:
            read.holes = {}  # they are asked for; what is missing after that is another question
            if read.waiter in self.waiting and not read.fills:
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
        fills = self._fills
        fill = fills.new(reader, whole, params_of(partial, keys) if partial else {}, partial)
        if checked:
            fill.checks.add(checked, whole)
        exact = exact and not fill.checks.asked
        request = fill.request(fills.latency.get(reader.tag, 0.0) > SLOW_SECONDS, exact)
        request.shards = shards
        ring = self._state.ring
        request.lower = fills.source.known_lower(ring.pushed, ring.position)
        if request.lower is not None:
            for read in reads:
                needed = read.demand.needed if read.demand is not None else NOTHING
                if needed.intervals and not needed.issubset(request.lower):
                    request.lower = None  # a new reading has what somebody asks for
                    break
        fills.begin(fill)
        for read in reads:
            if fill.id not in read.fills:
                for key, _ in read.keys:
                    if key in whole or key in partial:
                        fill.join(read)
                        break
        memory = self._memory
        memory.counters["upqueries"] += 1
        memory.counters["exact_fills"] += exact
        memory.counters["upquery_keys"] += len(whole) + len(partial)
        return [request]

    # -- answers to reads --------------------------------------------------------------------------------------------

    def tell(self, read: Read, fill: Fill) -> list[Effect]:
        """The read's answer from the fill's snapshot alone, if all of it is there."""
        if read.waiter in self._subscriptions.by_number:
            return []  # a subscriber starts from the reader, at the position: what follows must join on without a gap
        try:
            rows = fill.answer(read)
        except EvaluationError as error:
            return self.cannot_tell(read, error)
        if rows is None or fill.bracket is None:
            return []
        demand = read.demand
        if demand is not None and not demand.met_by(fill.bracket.lower, fill.sent_at):
            return [] if demand.met() else self.give_up(read, GivenUp.BEHIND)
        # The stream tells of a transaction before it is visible, and the snapshot may be older than the read.
        if read.since is not None and not read.since.issubset(fill.bracket.lower):
            self._memory.count("snapshots_too_old")
            return []  # it is told when the fill is at the position
        if read.check is not None and read.check.sql not in fill.checks.proved:
            return self.give_up(read, GivenUp.UNCHECKED)
        del self.waiting[read.waiter]
        bracket = fill.bracket
        return [Ready(read.waiter, rows, bracket.lower, bracket.needed if bracket.uncertain.intervals else None)]

    def cannot_tell(self, read: Read, error: UpwellError) -> list[Effect]:
        """A value is out of range, or not known to be MySQL's, or the like: MySQL says what comes of the read."""
        if read.waiter not in self.waiting:
            return []
        return self.give_up(read, error)

    def _settle(self, read: Read, ended: int = 0) -> list[Effect]:
        """The read is answered from the reader if all its keys are at the position now. `ended`: a fill that has."""
        read.fills.discard(ended)
        subscribed = read.waiter in self._subscriptions.by_number
        if subscribed and self._subscriptions.in_steps(read.waiter):
            del self.waiting[read.waiter]
            return []
        try:
            rows = read.reader.answer(read.keys, short=not subscribed)
        except TooLong:
            if not read.fills:
                self.long.add(read)
            return []
        except EvaluationError as error:
            return self.cannot_tell(read, error)
        if rows is not None:
            if read.check is not None:
                return self.give_up(read, GivenUp.UNCHECKED)
            if read.demand is not None and not read.demand.met():
                return self.give_up(read, GivenUp.BEHIND)
            del self.waiting[read.waiter]
            position = self._state.ring.position.freeze()
            if subscribed:
                key, params = read.keys[0]
                held = self._state.sieve.hold(read.reader, key, params)
                if held is not None and (linked := linked_rows(read.reader, held, params)) is not None:
                    rows = linked
                return self._subscriptions.filled(read.waiter, held, rows)
            return [Ready(read.waiter, rows, position, settled=True)]
        if read.fills:
            return []
        if subscribed:  # it is not answered in steps, which would tell what is missing
            with suppress(EvaluationError):
                levels = read.reader.held_levels
                read.holes = {key: read.reader.derive(params, levels).holes for key, params in read.keys}
        return self.again(read, ended)

    def go_on(self) -> list[Effect]:
        """Makes one step for the reads that are answered in steps."""
        effects: list[Effect] = []
        for read, long in self.long.go_on(self._state.ring.position.freeze()):
            if read.waiter in self.waiting:
                effects += self._end_long(read, long)
        return effects

    def _end_long(self, read: Read, long: LongRead) -> list[Effect]:
        if long.error is not None:
            return self.cannot_tell(read, long.error)
        if read.check is not None:
            return self.give_up(read, GivenUp.UNCHECKED)
        if not long.met:
            return self.give_up(read, GivenUp.BEHIND)
        if long.found.rows is not None:
            del self.waiting[read.waiter]
            return [Ready(read.waiter, long.found.rows, long.position, settled=True)]
        if long.found.holes:
            read.holes = {key: long.found.holes.get(key, []) for key, _ in read.keys}
            return self.again(read)
        return self.give_up(read, GivenUp.HOT_KEY)

    def settle_all(self, fill: Fill) -> list[Effect]:
        """After a fill was inserted: settles as many of its reads as a short step can, the others in `flush`."""
        effects: list[Effect] = []
        room = ASKED
        for read in list(fill.reads):
            if read.waiter not in self.waiting:
                continue
            read.fills.discard(fill.id)
            if not self._fills.by_number.keys().isdisjoint(read.fills):
                continue  # another fill of it is still under way
            if room > 0:
                effects += self._settle(read, fill.id)
            else:
                self.unsettled[read.waiter] = read  # many wait for these keys
            room -= len(read.keys)
        return effects

    def again(self, read: Read, ended: int = 0) -> list[Effect]:
        """The read asks again for what is missing now, but for one that did so too often. `ended`: as in `_settle`."""
        read.fills.discard(ended)
        tired = read.attempts >= MAX_ATTEMPTS and not self._state.hot_keys.due(
            read.reader, (key for key, _ in read.keys)
        )
        if tired and read.waiter not in self._subscriptions.by_number:
            return self.give_up(read, GivenUp.HOT_KEY)
        self._memory.count("retried")
        return self._ask(read)

    def give_up(self, read: Read, why: GivenUp | UpwellError) -> list[Effect]:
        """The read is to be passed through to MySQL; a subscription that it is for ends."""
        self.waiting.pop(read.waiter, None)
        self.long.drop(read.waiter)
        self._memory.count(f"given_up_{why.reason}")
        told = ENDED.get(why, why.reason) if isinstance(why, GivenUp) else why.message
        ended = self._subscriptions.end(read.waiter, told)
        return [Failed(read.waiter, None, why), *ended]

    def fail(self, reads: Iterable[Read], error: UpwellError) -> list[Effect]:
        """The reads get the error. A subscription ends also where its rows were derived, and lost before that."""
        effects: list[Effect] = []
        for read in list(reads):
            if self.waiting.pop(read.waiter, None) is not None:
                effects.append(Failed(read.waiter, error))
            effects += self._subscriptions.end(read.waiter, error.message)
        return effects

    def fail_missed(self, error: UpwellError) -> list[Effect]:
        """After a fault: the reads that `flush` is to ask for, or to look at, get the error."""
        missed, self.missed = self.missed, {}
        unsettled, self.unsettled = self.unsettled, {}
        return self.fail([*(read for reads in missed.values() for read in reads), *unsettled.values()], error)

    def fail_lost(self, error: UpwellError) -> list[Effect]:
        """After a fault whose effects are lost: the reads that wait for nothing, as their fill was lost on the way, get
        the error. All subscriptions end: one may have missed a change."""
        missed = {read.waiter for reads in self.missed.values() for read in reads}
        missed |= self.unsettled.keys()
        waits = [read for read in self.waiting.values() if read.waiter not in missed and read.waiter not in self.long]
        lost = [read for read in waits if self._fills.by_number.keys().isdisjoint(read.fills)]
        ended = self._subscriptions.end_all(error.message)
        for changes in ended:
            self.waiting.pop(changes.subscription, None)
        return [*self.fail(lost, error), *ended]

    def close(self) -> list[Effect]:
        """Readers were closed: reads that wait for them are to be passed through, and their subscriptions end."""
        effects: list[Effect] = []
        for read in [read for read in self.waiting.values() if not read.reader.installed]:
            effects += self.give_up(read, GivenUp.CACHE_DROPPED)
        for reader in [reader for reader in self.missed if not reader.installed]:
            del self.missed[reader]
        return effects + self._subscriptions.end_closed(CLOSED)

    @property
    def pending(self) -> bool:
        """Is there anything for `flush`?"""
        return bool(self.missed or self.unsettled)

    def check_invariants(self) -> None:
        """Raises AssertionError where one does not hold."""
        asked = {read.waiter for reads in self.missed.values() for read in reads}
        for waiter, read in self.waiting.items():
            filled = not self._fills.by_number.keys().isdisjoint(read.fills)
            found = filled or waiter in asked or waiter in self.unsettled or waiter in self.long
            assert read.waiter == waiter and found, f"nobody sees to read {waiter}"
