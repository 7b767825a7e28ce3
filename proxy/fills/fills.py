"""Large fills and audits: which keys, by what, and how far they are. `proxy/fills/one_fill.py` makes one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Coroutine, Iterator, Sequence
from contextlib import aclosing, suppress
from itertools import islice
from time import monotonic

import structlog

from dataflow.engine import Engine
from dataflow.entries import Held
from dataflow.readers.reader import ReaderNode, held_bytes
from external_upquery.address import Upstream
from planner.fill.all_keys import listing_sql, why_not_listed
from proxy.cache.named_cache import NamedCache
from proxy.catalog.catalog import Catalog
from proxy.fills.askers import AT_ONCE, DirectAsker, SparkAsker
from proxy.fills.one_fill import (
    COMPARED,
    BulkFill,
    Listed,
    Planned,
    PlannedAgain,
    Slice,
    bound,
    one_statement_a_key,
    planned,
    sliced,
)
from proxy.fills.spark_process import SparkProcess, login_of
from proxy.loop.slices import Slices, emptied, in_slices, taken
from proxy.port.api import ParameterValue
from proxy.port.fill_progress import AuditProgress, FillBy, FillProgress
from proxy.pump.pump import Pump
from proxy.source.source import Upqueries
from sqltypes.errors import AnswerTooLarge, CannotFill, DoesNotFit, SparkUnavailable, UpwellError
from sqltypes.expression import Row, Value

log = structlog.get_logger("upwell.bulk")

TOLD_EVERY = 0.2  # seconds from one progress to the next
MOST_KEYS = 4_000_000  # of one fill: what is known of those that are still to be asked for is held meanwhile
LISTING_BYTES = 256 << 20
PLANS = 5  # of the cache, from its beginning to its end
ROWS_OF_A_KEY = 4  # where it is not known
TOLD_FROM = 10_000  # keys: a line of the log
OF_A_LIST = 100  # values that are bound in one step
REPAIRED = 100  # keys of one step
MOST_NAMED = 10_000  # keys that differ
MOST_BEHIND = 4  # fills that no caller waits for
MANY_MISSED = 2_000  # keys that one call misses: to fill them together takes less than a read for each
FULL = 0.9  # of the limit of memory: more is not begun


class Bulk:
    """All large fills and audits of a proxy. Each cache has one fill at a time; Spark's fills run one after
    the other."""

    def __init__(
        self,
        upstream: Upstream,
        engine: Engine,
        pump: Pump,
        executor: Upqueries,
        catalog: Catalog,
        spark: SparkProcess,
        spark_min_rows: int,
    ) -> None:
        self._upstream = upstream
        self._engine = engine
        self._pump = pump
        self._executor = executor
        self._catalog = catalog
        self.spark = spark
        self.spark_min_rows = spark_min_rows
        self._filling: dict[str, FillProgress] = {}
        self._ends: dict[str, asyncio.Event] = {}  # of these: set when another may begin
        self._behind: set[asyncio.Task[None]] = set()  # fills that no caller waits for
        self._one_by_spark = asyncio.Lock()

    async def close(self) -> None:
        for task in list(self._behind):
            await ended(task)
        await self.spark.close()

    @property
    def under_way(self) -> list[FillProgress]:
        return list(self._filling.values())

    async def fill(
        self,
        name: str,
        keys: Sequence[Sequence[ParameterValue]] | None,
        by: FillBy,
        *,
        most: int = MOST_KEYS,
        first: int | None = None,
    ) -> AsyncGenerator[FillProgress, None]:
        """As `api.Fills` has it. `most`: how many keys are listed at most. `first`: fill only so many of the listed
        keys that are not held. A cache has one fill at a time: another caller, as after a start, waits for it."""
        cache = self._catalog.get(name)
        progress = FillProgress(name, by)
        started = monotonic()
        while (ends := self._ends.get(name)) is not None:
            progress.stage, progress.seconds = "waiting for another fill of the cache", monotonic() - started
            yield progress
            with suppress(TimeoutError):
                await asyncio.wait_for(ends.wait(), TOLD_EVERY)
            cache = self._catalog.get(name)
        self._filling[name], self._ends[name] = progress, asyncio.Event()
        work = asyncio.get_running_loop().create_task(self._fill(cache, keys, by, progress, most, first))
        try:
            while not work.done():
                await asyncio.wait([work], timeout=TOLD_EVERY)
                progress.seconds = monotonic() - started
                if not work.done():
                    yield progress
            work.result()
            progress.done, progress.stage = True, "done"
            if progress.keys >= TOLD_FROM:
                log.info(
                    "filled", cache=name, by=progress.by.value, keys=progress.keys, left=progress.left,
                    rows=progress.rows, seconds=round(progress.seconds, 3),
                )  # fmt: skip
            yield progress
        finally:
            del self._filling[name]
            try:
                await ended(work)
            finally:
                self._ends.pop(name).set()

    def want(self, cache: NamedCache, parameters: Sequence[ParameterValue]) -> None:
        """Fills the keys of a list that is too long for a read, so MySQL answered it. Its next read may be a hit. A
        cache has one such list at a time; others are ignored meanwhile."""
        lists = [at for at, value in enumerate(parameters) if isinstance(value, tuple)]
        if len(lists) != 1 or cache.name in self._filling or len(self._behind) >= MOST_BEHIND:
            return
        (at,) = lists
        values = parameters[at]
        assert isinstance(values, tuple)
        reader, binder = cache.reader, cache.binder
        are_keys = binder is not None and binder.are_keys(values)
        if reader is not None and are_keys and all(value in reader.entries for value in values):
            return  # they are held, and have still to be encoded
        keys = [
            (*parameters[:at], values[first : first + OF_A_LIST], *parameters[at + 1 :])
            for first in range(0, len(values), OF_A_LIST)
        ]
        self._begin_behind(self._fill_behind(cache.name, keys))

    def hold_all(self, name: str, most: int) -> None:
        """Fills all keys of a cache, where they are at most so many. Nobody waits for it."""
        if name not in self._filling and len(self._behind) < MOST_BEHIND:
            self._begin_behind(self._fill_behind(name, None, most))

    def _begin_behind(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._behind.add(task)
        task.add_done_callback(self._behind.discard)

    async def _fill_behind(
        self, name: str, keys: Sequence[Sequence[ParameterValue]] | None, most: int = MOST_KEYS
    ) -> None:
        by = FillBy.SIZE if keys is not None else FillBy.DIRECT
        with suppress(UpwellError):  # whoever reads one of the keys is told
            async with aclosing(self.fill(name, keys, by, most=most)) as going_on:
                async for _ in going_on:
                    pass

    async def fill_first(self, name: str, keys: Sequence[Sequence[ParameterValue]]) -> bool:
        """As `api.Fills` has it. Not for a cache that has yet to earn its trust: its fills are compared before a
        client gets them, a key at a time, and a read brings its comparison with it."""
        trust = self._catalog.get(name).trust
        if len(keys) < MANY_MISSED or name in self._filling or not (trust is None or trust.fills.earned):
            return False
        if any(isinstance(one, tuple) for key in keys for one in key):
            return False
        await self._fill_behind(name, keys)
        return True

    async def audit(
        self, name: str = "", by: FillBy = FillBy.SIZE, *, repair: bool = False
    ) -> AsyncGenerator[AuditProgress, None]:
        """As `api.Fills` has it."""
        caches = [self._catalog.get(name)] if name else list(self._catalog.caches.values())
        for cache in caches:
            if cache.dropped:
                continue
            told = AuditProgress(cache.name)
            progress = FillProgress(cache.name, by)
            started = monotonic()
            work = asyncio.get_running_loop().create_task(self._audit(cache, by, progress, told, repair=repair))
            try:
                while not told.done:
                    await asyncio.wait([work], timeout=TOLD_EVERY)
                    told.keys, told.left, told.rows = progress.keys, progress.left, progress.rows
                    told.compared, told.seconds = progress.held, monotonic() - started
                    told.why = told.why or progress.why
                    told.done = work.done()
                    if told.done:
                        work.result()
                    yield told
            finally:
                await ended(work)

    async def _audit(
        self, cache: NamedCache, by: FillBy, progress: FillProgress, told: AuditProgress, *, repair: bool
    ) -> None:
        for _ in range(PLANS):
            progress.keys = progress.held = progress.left = 0
            reader = cache.reader
            if reader is None:
                told.why = f"it holds nothing: {cache.why or cache.state}"
                return
            audit = BulkFill(self._engine, self._pump, cache, reader, progress, audits=True)
            held: list[list[Held]] = []
            try:
                turns = Slices()
                for some in self._engine.sieve.keys_of(reader):
                    held.append(some)
                    progress.keys += len(some)
                    await turns.turn()
                oldest_first = (one for some in taken(held) for one in taken(some) if one.alive)
                keys = ((one.key, reader.params_of(one), ROWS_OF_A_KEY) for one in oldest_first)
                slices = sliced(keys, COMPARED)
                await self._ask(audit, slices, progress.keys * ROWS_OF_A_KEY, by, progress)
                if audit.error is not None and not progress.held:
                    raise audit.error
                await self._tell_different(reader, audit, told, repair=repair)
                return
            except PlannedAgain:
                continue
            finally:
                await emptied(held, 1)
                await audit.close()

    async def _tell_different(self, reader: ReaderNode, audit: BulkFill, told: AuditProgress, *, repair: bool) -> None:
        """What was found. A key that changes meanwhile is made a hole all the same."""
        if not (count := len(audit.different)):
            return
        turns = Slices()
        audit.different.reverse()
        while audit.different:
            some = list(islice(taken(audit.different), REPAIRED))
            if repair:
                told.repaired += self._pump.repair(reader, [key for key, _ in some])
            room = MOST_NAMED - len(told.different)
            told.different += [shown(params) for _, params in some[:room]]
            await turns.turn()
        log.error("audit_differs", cache=told.cache, keys=count, first=told.different[:5])

    async def _fill(
        self,
        cache: NamedCache,
        asked: Sequence[Sequence[ParameterValue]] | None,
        by: FillBy,
        progress: FillProgress,
        most: int,
        first: int | None,
    ) -> None:
        for _ in range(PLANS):
            progress.keys = progress.held = progress.left = 0
            found = await planned(cache)
            try:
                if asked is None:
                    await self._fill_all(cache, found, by, progress, most, first)
                else:
                    await self._fill_some(cache, found, asked, by, progress)
                return
            except PlannedAgain:
                log.info("fill_begins_anew", cache=cache.name, why="the cache was planned again")
        raise CannotFill(f"cache {cache.name!r} was planned again {PLANS} times meanwhile: {self._held(progress)}")

    async def _fill_all(
        self,
        cache: NamedCache,
        found: Planned,
        by: FillBy,
        progress: FillProgress,
        most: int,
        first: int | None,
    ) -> None:
        plan = found.plan
        if why := why_not_listed(plan):
            raise CannotFill(f"the keys of cache {cache.name!r} cannot be listed: {why}; give them (--keys)")
        progress.stage = "listing keys"
        sql = listing_sql(plan)
        if (count := await self._count(f"SELECT COUNT(*) FROM ({sql}) AS k", plan.database)) > most:
            raise CannotFill(f"cache {cache.name!r} has {count:,} keys: one fill takes {most:,} at most")
        try:
            _, rows = await self._executor.query(sql, plan.database, answer_limit=LISTING_BYTES)
        except AnswerTooLarge as error:
            raise CannotFill(f"the keys of cache {cache.name!r} are too many to be listed: {error}") from error
        if first is not None:
            rows = [row async for row in in_slices(rows) if not _is_held(found, row)][:first]
        progress.keys = len(rows)
        brings = await missing_rows(found, rows)
        listed = Listed(found, rows)
        try:
            await self._run(cache, found.reader, sliced(listed.keys()), brings, by, progress)
        finally:
            await listed.close()
        progress.left += listed.not_bound
        if listed.not_bound:
            progress.why = f"{listed.not_bound} values are compared by MySQL alone"

    async def _count(self, sql: str, database: str) -> int:
        _, ((count,),) = await self._executor.query(sql, database)
        return _number(count)

    async def _fill_some(
        self,
        cache: NamedCache,
        found: Planned,
        asked: Sequence[Sequence[ParameterValue]],
        by: FillBy,
        progress: FillProgress,
    ) -> None:
        progress.stage = "looking at keys"
        keys = await bound(found.binder, asked)
        progress.keys = len(keys)
        if one_statement_a_key(found.plan) and by is FillBy.SIZE:
            by = FillBy.DIRECT
        held = found.reader.entries
        brings = ROWS_OF_A_KEY * len([key async for key, _ in in_slices(keys) if key not in held])
        slices = sliced((key, params, ROWS_OF_A_KEY) for key, params in taken(keys))
        try:
            await self._run(cache, found.reader, slices, brings, by, progress)
        finally:
            await emptied(keys)

    async def _run(
        self,
        cache: NamedCache,
        reader: ReaderNode,
        slices: Iterator[Slice],
        brings: int,
        by: FillBy,
        progress: FillProgress,
    ) -> None:
        """The first slices are filled directly: they tell whether MySQL lets us, and what a key takes."""
        fill = BulkFill(self._engine, self._pump, cache, reader, progress)
        progress.stage, progress.by = "filling", FillBy.DIRECT
        try:
            await fill.fill(_first(slices, AT_ONCE), DirectAsker(self._pump, progress))
            if fill.error is not None and not progress.held:
                raise fill.error
            self._check_room(reader, progress)
            await self._ask(fill, slices, brings, by, progress)
        finally:
            await fill.close()

    async def _ask(
        self, fill: BulkFill, slices: Iterator[Slice], brings: int, by: FillBy, progress: FillProgress
    ) -> None:
        """`brings`: about how many rows."""
        progress.stage = "filling"
        if by is FillBy.SPARK or (by is FillBy.SIZE and brings >= self.spark_min_rows):
            try:
                await self._by_spark(fill, slices, progress)
                return
            except SparkUnavailable as error:
                if by is FillBy.SPARK:
                    raise
                progress.why = f"not by Spark: {error.message}"
                log.warning("without_spark", cache=progress.cache, why=error.message)
            progress.stage, progress.by = "filling", FillBy.DIRECT
        await fill.fill(slices, DirectAsker(self._pump, progress))

    async def _by_spark(self, fill: BulkFill, slices: Iterator[Slice], progress: FillProgress) -> None:
        if self._upstream.kind != "mysql":
            raise SparkUnavailable("Spark asks MySQL servers, and the upstream is a vtgate")
        progress.stage = "waiting for another fill by Spark" if self._one_by_spark.locked() else "starting Spark"
        async with self._one_by_spark:
            if self.spark.pid is None:
                progress.stage = "starting Spark"
            await self.spark.start()
            progress.stage, progress.by = "filling", FillBy.SPARK
            asker = SparkAsker(self._pump, self.spark, login_of(self._upstream))
            try:
                await fill.fill(slices, asker)
            finally:
                await asker.close()

    def _check_room(self, reader: ReaderNode, progress: FillProgress) -> None:
        """Raises DoesNotFit where it can be told that not all keys fit: the others will be as large as those held."""
        if not reader.entries:
            return
        room = FULL * self._engine.limit.bytes - self._engine.memory.used
        more = progress.keys - max(progress.held, len(reader.entries))
        of_one = held_bytes(reader) / len(reader.entries)
        if (needed := more * of_one) > room:
            raise DoesNotFit(
                f"{progress.keys:,} keys do not fit: {more:,} more would take about {needed / (1 << 20):,.0f} MiB, and"
                f" {max(0.0, room) / (1 << 20):,.0f} MiB of --memory-limit are free; name those that are asked for"
                " (--keys), or give it more memory",
                progress.keys,
                max(0, int(room / of_one)),
            )

    @staticmethod
    def _held(progress: FillProgress) -> str:
        return f"{progress.held:,} of {progress.keys:,} keys are held"


async def ended(work: asyncio.Task[None]) -> None:
    """Cancels it where it has not ended."""
    if not work.done():
        work.cancel()
        with suppress(asyncio.CancelledError):
            await work


def shown(params: Sequence[Value | tuple[Value, ...]]) -> str:
    """As a key of a file of keys is written."""
    return json.dumps(params[0] if len(params) == 1 else params, default=str, ensure_ascii=False)


def _is_held(found: Planned, row: Row) -> bool:
    """Whether a listed key is held, where its first value is the key."""
    return found.binder.stored_int and row[0] in found.reader.entries


async def missing_rows(found: Planned, rows: list[Row]) -> int:
    """How many rows MySQL will send for the keys of a listing: what is held already is not asked for. Of keys that are
    not listed as they are held, the part that is missing is taken for that of the rows."""
    brings, counted = 0, 0
    async for row in in_slices(rows):
        counted += _number(row[-1])
        brings += 0 if _is_held(found, row) else _number(row[-1])
    if found.binder.stored_int or not rows:
        return brings
    return int(counted * max(0.0, 1 - len(found.reader.entries) / len(rows)))


def _first(slices: Iterator[Slice], most: int) -> Iterator[Slice]:
    for _ in range(most):
        if (one := next(slices, None)) is None:
            return
        yield one


def _number(value: object) -> int:
    assert isinstance(value, int)
    return value
