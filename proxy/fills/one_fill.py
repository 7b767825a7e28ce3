"""One large fill: many keys of one cache, in slices, without a read that asks for them.

Each slice is an upquery of at most `KEYS` keys and about `ROWS` rows. It has a bracket of its own, and is inserted like
any other answer (docs/consistency.md). The stream and the reads go on meanwhile. A slice that leaves holes is asked
again, `TRIES` times in all.

An `Asker` asks MySQL: by the proxy's own connections, or by Spark's executors (`proxy/fills/askers.py`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Protocol

from dataflow.engine import Engine
from dataflow.messages import Filled, UpqueryRequest
from dataflow.readers.derivation import Params
from dataflow.readers.reader import ReaderNode
from planner.tree.plan import AnswerArrangement, QueryPlan
from proxy.cache.key_binder import KeyBinder
from proxy.cache.named_cache import NamedCache
from proxy.loop.slices import Slices, emptied, taken
from proxy.port.api import ParameterValue
from proxy.port.fill_progress import FillProgress
from proxy.pump.pump import Pump
from sqltypes.errors import (
    AnswerTooLarge,
    BadParameters,
    CannotFill,
    ComparedElsewhere,
    EvaluationError,
    SourceDown,
    SourceError,
)
from sqltypes.expression import Key, Row

KEYS = 200  # of a slice: to ask for them and to insert them are steps of 1 to 3 ms each
COMPARED = 100  # of a slice of an audit: to compare a key is a step of 15 to 25 microseconds
ROWS = 4000  # of a slice, about: what comes of more is worked out in steps
TRIES = 3
PAUSE = 0.2  # seconds until a slice is asked again that MySQL did not answer
PATIENCE = 60.0  # seconds that MySQL may be away
FULL = 0.95  # of the limit of memory: what is filled beyond would push out what is read
REBUILDING = 30.0  # seconds that a cache may take to be planned again
AT_ONCE = 8  # slices that are given up in one step
SETS = 64  # of the keys that are known: one of a million would take 30 ms to grow


class PlannedAgain(Exception):
    """The cache has another plan than when its slices were made."""


class Asker(Protocol):
    """Has upqueries run, and their results delivered to the pump. `room`: how many more slices it takes now."""

    @property
    def room(self) -> int: ...

    def ask(self, request: UpqueryRequest) -> None: ...

    def flush(self) -> None:
        """No more slices come for now."""
        ...

    def check(self) -> None:
        """Raises the error that stops this fill."""
        ...

    async def close(self) -> None: ...


@dataclass(slots=True)
class Slice:
    keys: dict[Key, Params]
    tries: int = 0


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan of a cache. A key that was bound by it means nothing to another: its value may be another key there."""

    plan: QueryPlan
    binder: KeyBinder
    reader: ReaderNode


class BulkFill:
    """Fills slices of one reader until all are done. Their keys belong to that reader's plan: raises PlannedAgain if
    the cache has another. `audits`: compare the held answers instead; `different`: keys whose held answer is not
    MySQL's.

    Invariants: 1. each slice is in `_again`, under way (`_asked`), or has ended.
    """

    def __init__(
        self,
        engine: Engine,
        pump: Pump,
        cache: NamedCache,
        reader: ReaderNode,
        progress: FillProgress,
        *,
        audits: bool = False,
    ) -> None:
        self._engine = engine
        self._pump = pump
        self._cache = cache
        self._reader = reader
        self._progress = progress
        self._audits = audits
        self.different: list[tuple[Key, Params]] = []
        self._asked: dict[int, Slice] = {}
        self._again: deque[Slice] = deque()
        self._more = asyncio.Event()
        self._down_since = 0.0
        self._not_before = 0.0
        self.error: SourceError | None = None  # the last that MySQL gave

    async def fill(self, slices: Iterator[Slice], asker: Asker) -> None:
        """Asks for all slices, and waits until the last one has ended. Raises CannotFill, PlannedAgain, and the asker's
        errors. Then nothing is under way any more, and the next call asks for the unfinished slices again."""
        turns = Slices()
        try:
            while True:
                self._check(asker)
                slice_ = self._next(slices) if asker.room > 0 else None
                if slice_ is not None:
                    self._ask(slice_, asker)
                    await turns.turn()
                    continue
                asker.flush()
                if not self._asked and not self._again:
                    return
                await self._wait()
        finally:
            asked, self._asked = self._asked, {}
            for slice_ in asked.values():
                slice_.tries -= 1
                self._again.append(slice_)
            await self._give_up(list(asked))

    async def _give_up(self, numbers: list[int]) -> None:
        """A few at a time; all that are left, where this is cancelled."""
        turns = Slices()
        try:
            while numbers:
                self._pump.drop_unasked(numbers[-AT_ONCE:])
                del numbers[-AT_ONCE:]
                await turns.turn()
        finally:
            self._pump.drop_unasked(numbers)

    async def close(self) -> None:
        """Lets go of what is left, a little at a time. Requires: `fill` has ended."""
        left = list(self._again)
        self._again.clear()
        await emptied(left, AT_ONCE)
        await emptied(self.different)

    def _check(self, asker: Asker) -> None:
        asker.check()
        if self._cache.dropped:
            raise CannotFill(f"cache {self._cache.name!r} was dropped meanwhile")
        if self._cache.reader is not self._reader:
            raise PlannedAgain
        used, limit = self._engine.memory.used, self._engine.limit.bytes
        if used > FULL * limit and not self._audits:
            raise CannotFill(
                f"{self._progress.held:,} of {self._progress.keys:,} keys are held, and {used:,} of the {limit:,} bytes"
                " of --memory-limit are taken: to go on would push out what is read"
            )

    def _next(self, slices: Iterator[Slice]) -> Slice | None:
        if self._again and monotonic() >= self._not_before:
            return self._again.popleft()
        return next(slices, None)

    def _ask(self, slice_: Slice, asker: Asker) -> None:
        slice_.tries += 1
        ask = self._pump.audit if self._audits else self._pump.fill_unasked
        request = ask(self._reader, slice_.keys, self._told)
        if request is None:
            self._ended(slice_, ())
            return
        self._asked[request.id] = slice_
        asker.ask(request)

    def _told(self, effect: Filled) -> None:
        slice_ = self._asked.pop(effect.id, None)
        if slice_ is None:
            return
        self._more.set()
        self._progress.slices += 1
        self._progress.rows += effect.rows
        self.different += effect.different
        if isinstance(effect.error, SourceDown):
            # It says nothing of the keys: MySQL, or the way to it, is what must come back.
            now = monotonic()
            self._down_since = self._down_since or now
            self._not_before = now + PAUSE
            self._progress.why = effect.error.message
            if now - self._down_since < PATIENCE:
                slice_.tries -= 1  # not even the last: when MySQL is back, the engine may end what is under way
        elif effect.error is None:
            self._down_since = 0.0
        else:
            self._progress.why = effect.error.message
            if isinstance(effect.error, SourceError):
                self.error = effect.error
            if isinstance(effect.error, AnswerTooLarge):
                self._part(slice_, effect.holes)
                return
        self._ended(slice_, effect.holes)

    def _part(self, slice_: Slice, holes: Sequence[tuple[Key, Params]]) -> None:
        """One of its keys has too much: it is found by halves, and left."""
        middle = len(holes) // 2
        if not middle:
            slice_.tries = TRIES
            self._ended(slice_, holes)
            return
        self._progress.held += len(slice_.keys) - len(holes)
        self._again += Slice(dict(holes[:middle])), Slice(dict(holes[middle:]))

    def _ended(self, slice_: Slice, holes: Sequence[tuple[Key, Params]]) -> None:
        self._progress.held += len(slice_.keys) - len(holes)
        if not holes:
            return
        if slice_.tries < TRIES:
            self._again.append(Slice(dict(holes), slice_.tries))
        else:
            self._progress.left += len(holes)

    async def _wait(self) -> None:
        """Until a slice has ended, or it is time to look again."""
        self._more.clear()
        try:
            async with asyncio.timeout(PAUSE):
                await self._more.wait()
        except TimeoutError:
            pass

    def check_invariants(self) -> None:
        waiting = {id(slice_) for slice_ in self._again}
        assert waiting.isdisjoint(id(slice_) for slice_ in self._asked.values()), "a slice waits, and is under way"


def sliced(keys: Iterator[tuple[Key, Params, int]], most: int = KEYS) -> Iterator[Slice]:
    """The keys in slices, of so many each at most; with each key comes about how many rows it has."""
    found: dict[Key, Params] = {}
    rows = 0
    for key, params, brings in keys:
        if found and (len(found) >= most or rows + brings > ROWS):
            yield Slice(found)
            found, rows = {}, 0
        found[key] = params
        rows += brings
    if found:
        yield Slice(found)


class Listed:
    """The keys of a listing (`planner/fill/all_keys.py`), bound as reads bind them. `not_bound`: keys that only MySQL
    can compare."""

    def __init__(self, planned: Planned, rows: list[Row]) -> None:
        self._plan = planned.plan
        self._binder = planned.binder
        self._rows = rows
        self.not_bound = 0

    def keys(self) -> Iterator[tuple[Key, Params, int]]:
        """Each once; its row is let go."""
        self._rows.reverse()
        rows = taken(self._rows)
        if self._binder.stored_int:
            for number, brings in rows:
                if number is not None:
                    yield number, (number,), brings  # type: ignore[misc]  # COUNT(*)
                else:
                    yield from ((key, params, brings) for key, params in self._binder.bind((None,)).keys)  # type: ignore[misc]
            return
        order = [self._plan.key[at].parameter for at in self._plan.reader.root_key]
        places = [order.index(index) for index in range(len(order))]
        for *values, brings in rows:
            try:
                bound = self._binder.bind([values[place] for place in places]).keys
            except (ComparedElsewhere, BadParameters, EvaluationError):
                self.not_bound += 1
                continue
            for key, params in bound:
                yield key, params, int(brings)  # type: ignore[arg-type]  # COUNT(*)

    async def close(self) -> None:
        """Lets go of the rows that are left, a little at a time."""
        await emptied(self._rows)


async def bound(binder: KeyBinder, asked: Sequence[Sequence[ParameterValue]]) -> list[tuple[Key, Params]]:
    """Distinct keys, the last first: they are taken from the end. Raises BadParameters, naming the one that is none by
    its number."""
    keys: list[tuple[Key, Params]] = []
    known: list[set[Key]] = [set() for _ in range(SETS)]
    turns = Slices()
    try:
        for number, parameters in enumerate(asked, 1):
            try:
                if why := binder.too_many(parameters):
                    raise BadParameters(why)
                for key, params in binder.bind_written(parameters).keys:
                    some = known[hash((key,)) % SETS]  # a number is its own hash: many may be multiples of SETS
                    if key not in some:
                        some.add(key)
                        keys.append((key, params))
            except (BadParameters, EvaluationError) as error:
                raise BadParameters(f"key {number} of {len(asked)}: {error.message}") from error
            await turns.turn()
    except BaseException:
        await emptied(keys)
        raise
    finally:
        await emptied(known, 1)
    keys.reverse()
    return keys


async def planned(cache: NamedCache) -> Planned:
    """The cache's plan, waited for while it is planned again. Raises CannotFill where it gets none."""
    until = monotonic() + REBUILDING
    while cache.reader is None or cache.binder is None or cache.plan is None:
        if cache.dropped or cache.state != "rebuilding" or monotonic() > until:
            raise CannotFill(f"cache {cache.name!r} is not filled: {cache.why or cache.state}")
        await asyncio.sleep(0.02)
    return Planned(cache.plan, cache.binder, cache.reader)


def one_statement_a_key(plan: QueryPlan) -> bool:
    """Whether each key's upquery is a text of its own, as in evict mode."""
    return isinstance(plan.reader.root, AnswerArrangement)
