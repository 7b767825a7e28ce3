"""Between the engine and the loop: carries effects to who waits and upqueries to the executor.

Everything here runs on the event loop's thread, synchronously, in the order in which it happens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import count
from time import monotonic

from dataflow.engine import Engine
from dataflow.fills.demand import Demand
from dataflow.fills.fill import Fill
from dataflow.fills.read import Read
from dataflow.fills.shards import root_rows
from dataflow.guard import Guard
from dataflow.losses import Because
from dataflow.messages import (
    Changes,
    Check,
    Differs,
    Effect,
    Failed,
    Filled,
    GivenUp,
    Ready,
    StreamEvent,
    UpqueryAnswer,
    UpqueryFailed,
    UpqueryRequest,
)
from dataflow.readers.derivation import Params
from dataflow.readers.in_steps import Holes
from dataflow.readers.reader import ReaderNode
from proxy.cache.key_binder import Bound
from proxy.loop.slices import Slices
from proxy.port.faults import Faults
from proxy.port.reasons import Reason, Why
from proxy.pump.change_in_slices import ChangeInSlices
from proxy.pump.tidying import Tidying
from proxy.pump.wire_formats import WireFormats
from proxy.source.source import FindShards, Upqueries
from sqltypes.errors import Fault
from sqltypes.expression import Key

BATCH_WINDOW = 0.0003  # seconds that a miss waits for others while upqueries are under way
DIFFERS = Reason.OTHER.why("the cache's answer differed from MySQL's own: it is not believed any more")
SUSPECTED = Reason.OTHER.why(
    "an answer of the cache differed from MySQL's own, and it is not known yet whether that is a fault"
)
NOT_COMPARED = Reason.OTHER.why("the cache is new, and its answer could not be compared with MySQL's own")
HOT_KEY = Reason.LATE.why("the key was written each time that it was filled")
CACHE_DROPPED = Reason.PLANNED_ANEW.why("the cache was dropped or planned anew meanwhile")
BEHIND = Reason.LATE.why("neither the position nor the fill has what the read asks for")
GIVEN_UP = {
    GivenUp.DIFFERS: DIFFERS,
    GivenUp.UNCHECKED: NOT_COMPARED,
    GivenUp.HOT_KEY: HOT_KEY,
    GivenUp.CACHE_DROPPED: CACHE_DROPPED,
}
CATCHING_UP = "the process did not run for a while: what its change stream has brought meanwhile is being read"
NO_CONNECTION = Reason.LATE.why("no connection is free for the fill")
BUSY = 2  # upqueries in flight from which misses are batched


class PassThrough(Exception):
    """The engine cannot be sure of an answer: the read is MySQL's to answer. No client sees it raised."""

    def __init__(self, why: Why) -> None:
        super().__init__(why)
        self.why = why


class Behind(PassThrough):
    """Neither the position nor the upquery that the read waited for has what it asked for."""


class Pump:
    """Waiters, subscriptions and the scheduling of upqueries."""

    def __init__(
        self,
        engine: Engine,
        executor: Upqueries,
        timeout: float,
        find_shards: FindShards | None = None,
        formats: WireFormats | None = None,
        followers: Sequence[Callable[[StreamEvent], None]] = (),
        waiting: Sequence[tuple[Collection[object], Callable[[StreamEvent], None]]] = (),
    ) -> None:
        """`timeout`: of an upquery, in seconds. `find_shards`: as `Source` has it. `followers`: are told of each event
        that has been processed, in this order; `waiting`: those that are so only while somebody waits."""
        self.engine = engine
        self._find_shards = find_shards
        self.faults = Faults(engine.memory.count)
        self._faulted = False
        self._guard = Guard(engine, self._on_fault)
        self._executor = executor
        self.timeout = timeout
        self._loop = asyncio.get_running_loop()
        self._numbers = count(1)
        self._waiters: dict[int, asyncio.Future[Ready]] = {}
        self._subscribers: dict[int, Callable[[Changes], None]] = {}
        self._unasked: dict[int, Callable[[Filled], None]] = {}  # by upquery, who is told what came of it
        self._followers, self._waiting = followers, waiting
        self._scheduled = False
        self._going_on = False
        self._preparing: set[asyncio.Task[None]] = set()
        self.formats = formats or WireFormats()
        self.change = ChangeInSlices(self._guard, self._process)
        Tidying(engine)

    # -- reads -------------------------------------------------------------------------------------------------------

    async def miss(
        self,
        reader: ReaderNode,
        keys: Bound,
        demand: Demand | None = None,
        check: Check | None = None,
        *,
        doubted: bool = False,
        holes: Holes | None = None,
    ) -> Ready:
        """The answer of a read that met a hole, with the position it reflects. `doubted`, `holes`: as `Read` has it.
        Raises the source's errors, PassThrough, and Behind where the answer does not meet the demand."""
        if self._find_shards is not None:
            await self._found(self._find_shards, reader, keys)
        number = next(self._numbers)
        future: asyncio.Future[Ready] = self._loop.create_future()
        self._waiters[number] = future
        try:
            read = Read(number, reader, keys, demand=demand, check=check, doubted=doubted, holes=holes or {})
            self.handle(self.engine.reads.read(read))
            return await future
        finally:
            if self._waiters.pop(number, None) is not None:
                for abandoned in self.engine.reads.cancel(number):
                    self._executor.cancel(abandoned)

    async def _found(self, find: FindShards, reader: ReaderNode, keys: Bound) -> None:
        """Waits until the source has said on which shards these are, where that is not known and may be."""
        if (rows := root_rows(reader, keys)) is not None and (finding := find(rows)) is not None:
            await finding

    async def would_wait(self, reader: ReaderNode, keys: Bound) -> bool:
        """Whether a miss of these keys would wait for a connection: all are taken, or those that their tables or shard
        may have, and no fill is under way for it."""
        under_way = reader.program.root.tracker.in_flight
        for key, _ in keys:
            if key not in under_way or reader.tag not in under_way[key]:
                break
        else:
            return False
        if self._find_shards is None:
            return self._executor.would_wait(None, reader.tables)
        if self._executor.full:
            return True  # the question where they are would wait, too
        await self._found(self._find_shards, reader, keys)
        return self._executor.would_wait(self.engine.fills.where(reader, keys), reader.tables)

    def handle(self, effects: list[Effect]) -> None:
        """Delivers what the engine returned, and sees to it that new misses are asked for."""
        for effect in effects:
            match effect:
                case Ready():
                    future = self._waiters.pop(effect.waiter, None)
                    if future is not None and not future.done():
                        future.set_result(effect)
                case Failed():
                    future = self._waiters.pop(effect.waiter, None)
                    if future is not None and not future.done():
                        future.set_exception(_failure(effect))
                case UpqueryRequest():
                    self._submit(effect)
                case _:
                    self._tell(effect)
        if self._faulted:
            self._faulted = False
            self._fail_lost()
        if self.engine.has_more:
            self._see_to_more()

    def _tell(self, effect: Changes | Differs | Filled) -> None:
        """What is for nobody who waits for an answer."""
        match effect:
            case Changes():
                subscriber = self._subscribers.get(effect.subscription)
                if subscriber is not None:
                    subscriber(effect)
            case Filled():
                if (told := self._unasked.pop(effect.id, None)) is not None:
                    told(effect)
            case Differs():
                effect.check.on_differs(effect)

    def _see_to_more(self) -> None:
        """Misses are asked for at once while nothing is under way; else they gather, so that they share an upquery."""
        reads = self.engine.reads
        if not self._scheduled and (reads.missed or reads.unsettled):
            in_flight = len(self.engine.fills.unanswered)
            if not in_flight:
                self._flush()
            elif in_flight >= BUSY:
                self._scheduled = True
                self._loop.call_later(BATCH_WINDOW, self._flush)
            else:
                self._scheduled = True
                self._loop.call_soon(self._flush)
        if self.engine.unfinished and not self._going_on:
            self._going_on = True
            self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._going_on = False
        self.handle(self._guard.go_on())

    def _fail_lost(self) -> None:
        """After a fault: what the engine had to tell some who wait was lost with its step."""
        for number, future in list(self._waiters.items()):
            if number not in self.engine.reads.waiting and not future.done():
                future.set_exception(Fault("the engine has failed"))

    def _flush(self) -> None:
        """Asks for as much as a step can. What that leaves has steps of its own."""
        self._scheduled = True
        try:
            self.handle(self._guard.flush())
        finally:
            reads = self.engine.reads
            self._scheduled = bool(reads.missed or reads.unsettled)
            if self._scheduled:
                self._loop.call_soon(self._flush)

    def _submit(self, request: UpqueryRequest) -> None:
        try:
            self._executor.submit(request, self._deliver, monotonic() + self.timeout)
        except Exception as error:  # noqa: BLE001 - an edge: who waits for it is told; the other effects are others'
            fault = self.faults.note("engine: sending", request.statements[0].sql if request.statements else "", error)
            self._loop.call_soon(self._deliver, UpqueryFailed(request.id, fault))

    def _deliver(self, result: UpqueryAnswer | UpqueryFailed) -> None:
        if isinstance(result, UpqueryAnswer):
            fill = self.engine.fills.by_number.get(result.id)
            if fill is None or not fill.is_large(result):
                self.handle(self._guard.on_answer(result, fill))
                return
            task = self._loop.create_task(self._prepare(fill, result))
            self._preparing.add(task)
            task.add_done_callback(self._preparing.discard)
        else:
            self.handle(self._guard.on_failed(result))

    async def _prepare(self, fill: Fill, answer: UpqueryAnswer) -> None:
        """Delivers a large answer. What takes long is done first, in steps."""
        slices = Slices()
        for _ in fill.prepare(answer):
            await slices.turn()
            if self.engine.fills.by_number.get(answer.id) is not fill:
                return  # nobody waits for it any more
        self.handle(self._guard.on_answer(answer, fill))

    def _on_fault(self, step: str, what: str, error: Exception) -> None:
        self._faulted = True
        self.engine.state.doubt()
        self.faults.note("engine: " + step, what, error)

    # -- fills that no read asks for ---------------------------------------------------------------------------------

    def fill_unasked(
        self, reader: ReaderNode, keys: dict[Key, Params], told: Callable[[Filled], None]
    ) -> UpqueryRequest | None:
        """As the engine's. The caller has it run, by `run` or elsewhere, and its result comes to `deliver`; `told` gets
        what came of it."""
        request = self.engine.unasked.fill(reader, keys)
        if request is not None:
            self._unasked[request.id] = told
        return request

    def audit(
        self, reader: ReaderNode, keys: dict[Key, Params], told: Callable[[Filled], None]
    ) -> UpqueryRequest | None:
        """Likewise, to compare what is held of these keys."""
        request = self.engine.unasked.audit(reader, keys)
        if request is not None:
            self._unasked[request.id] = told
        return request

    def run(self, request: UpqueryRequest) -> None:
        """Has an upquery of `fill_unasked` run on the pool's connections."""
        self._submit(request)

    def repair(self, reader: ReaderNode, keys: Iterable[Key]) -> int:
        """As the engine's."""
        return self.engine.unasked.repair(reader, keys)

    def empty(self, reader: ReaderNode, because: Because) -> None:
        """As the engine's."""
        self.handle(self.engine.empty(reader, because))

    def deliver(self, result: UpqueryAnswer | UpqueryFailed) -> None:
        """The result of an upquery of `fill_unasked` that was run elsewhere."""
        self._deliver(result)

    def drop_unasked(self, numbers: Sequence[int]) -> None:
        """These upqueries of `fill_unasked` are not wanted any more."""
        for number in numbers:
            if self._unasked.pop(number, None) is not None:
                self._executor.cancel(number)
        self.engine.unasked.drop(numbers)

    # -- the stream --------------------------------------------------------------------------------------------------

    def on_stream(self, event: StreamEvent) -> None:
        """One event of the change stream, processed to completion; a transaction that is much work in slices
        (`change`). What comes meanwhile and has its place behind that waits for it, in the same step."""
        change = self.change
        if change.event is not None or change.failed is not None:
            change.end_before(event)
        try:
            large = self.engine.state.is_large(event)
        except Exception:  # noqa: BLE001 - `begin` asks again: the guard tells of the fault
            large = True
        if large and change.event is None and self._guard.begin(event):
            change.begin(event)
            return
        self._process(event)

    def _process(self, event: StreamEvent) -> None:
        effects = self._guard.on_stream(event)
        if effects or self._faulted or self.engine.has_more:
            self.handle(effects)
        for follow in self._followers:
            follow(event)
        for waiters, follow in self._waiting:
            if waiters:
                follow(event)

    def tick(self) -> None:
        self.handle(self._guard.tick())

    # -- subscriptions -----------------------------------------------------------------------------------------------

    def subscribe(self, reader: ReaderNode, keys: Bound, subscriber: Callable[[Changes], None]) -> int:
        """Begins a subscription to one key; its number is for `unsubscribe`."""
        number = next(self._numbers)
        self._subscribers[number] = subscriber
        ((key, params),) = keys
        self.handle(self.engine.subscribe(number, reader, key, params))
        return number

    def unsubscribe(self, number: int) -> None:
        self._subscribers.pop(number, None)
        self.engine.unsubscribe(number)


def _failure(failed: Failed) -> Exception:
    """What the waiting read raises."""
    if failed.error is not None:
        return failed.error
    why = failed.why
    assert why is not None
    if why is GivenUp.BEHIND:
        return Behind(BEHIND)
    return PassThrough(GIVEN_UP[why] if isinstance(why, GivenUp) else Reason.OTHER.why(why.reason))
