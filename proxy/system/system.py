"""The system behind the listeners: implements `proxy.port.api.System`. A read is answered from a cache, or MySQL
answers it.

Nothing here decodes rows of passed reads, and a hit (`proxy/read/open_cache.py`) does not come here at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import replace
from functools import partial
from time import monotonic, perf_counter

import upwell
from dataflow.engine import Engine
from dataflow.entries import Held
from dataflow.messages import Gap, Progress, StreamEvent
from dataflow.readers.derivation import Params
from dataflow.readers.reader import ReaderNode
from external_upquery.address import Upstream
from gtid_tracker.gtid import GtidSet
from planner.explain import dot, explain
from planner.matcher import QueryMatcher
from planner.text.clock import MAY_HAVE
from planner.text.hints import MARK
from proxy.access.log import AccessLog
from proxy.auto.clock_keys import ClockKeys
from proxy.auto.decisions import AutoCache
from proxy.auto.fill_budget import FillBudget
from proxy.auto.passed_reads import ProxiedQueries
from proxy.cache.key_binder import MOST_KEYS
from proxy.cache.named_cache import NamedCache
from proxy.catalog.catalog import Catalog
from proxy.fills.fills import Bulk
from proxy.fills.warm_up import WarmUp
from proxy.loop.histogram import Histogram
from proxy.loop.lateness import Lateness
from proxy.loop.slices import Encoder, Join, encode_in_slices, in_slices
from proxy.port.accounts import Accounts
from proxy.port.api import (
    BY_GRPC,
    DEFAULT_WAIT,
    Answer,
    CacheInfo,
    Freshness,
    MadeBy,
    Moment,
    ParameterValue,
    Served,
    SubscriptionEvent,
    SystemStatus,
    WireFormat,
)
from proxy.port.faults import is_fault
from proxy.port.figures import COUNTERS, of_source
from proxy.port.fill_progress import AuditProgress, FillBy, FillProgress
from proxy.port.reasons import Reason, Why
from proxy.pump.pump import Pump
from proxy.pump.visibility import VisibleTimes
from proxy.read.freshness import CallDemand, Freshener
from proxy.read.literals import is_long, read_text, substituted, substituted_in_slices
from proxy.read.open_cache import OpenCache
from proxy.source.source import Upqueries
from proxy.system.assembly import auditor_of, sampler_of
from proxy.system.subscriptions import Subscriptions
from sqltypes.errors import TooStale, UnknownCache, UpwellError
from sqltypes.expression import Key
from sqltypes.schema import ResultColumn
from vstream.source import ChangeSource

VISIBLE_SOON = 0.05  # seconds that a transaction of the stream may need to become visible
LEAST_PATIENCE = 0.05  # seconds that MySQL may take to execute what the stream has brought already
SHORT = 0.8  # of the limit of memory
WIDE = 200  # columns
GRPC_ACCOUNT = ""  # callers of gRPC are no accounts of MySQL
NO_CACHE = Reason.NOT_CACHED.why("no cache matches; `upwell cache explain` says whether the query can be cached")
BY_CLOCK = Reason.NOT_CACHED.why(
    "no cache matches: queries by the clock (NOW() and the like) are hits over MySQL's protocol alone"
)


class Router:
    """Routes reads. `closed`: not "" while no hit may be served, with the reason. `stopping`: new callers should go
    elsewhere, those that are here are served."""

    def __init__(
        self,
        upstream: Upstream,
        engine: Engine,
        pump: Pump,
        executor: Upqueries,
        stream: ChangeSource,
        catalog: Catalog,
        matcher: QueryMatcher,
        check_sample: float = 0.0,
        verify_new_caches: int = 0,
    ) -> None:
        self.pump = pump
        self.faults = pump.faults
        self.closed, self.stopping = "", False
        self.proxied = ProxiedQueries(catalog)
        self.auto_cache: AutoCache | None = None
        self.budget: FillBudget | None = None  # with automatic caching
        self.bulk: Bulk | None = None
        self.warm_up: WarmUp | None = None
        self.access_log: AccessLog | None = None
        self._upstream = upstream
        self._engine = engine
        self._executor = executor
        self._stream = stream
        self._catalog = catalog
        self._matcher = matcher
        self._passed = 0  # statements that came over gRPC and were MySQL's
        self.clock_keys = ClockKeys(lambda: catalog.caches.values(), lambda: engine.sieve, monotonic)
        self.times = {Served.HIT.value: Histogram(), Served.MISS.value: Histogram()}  # of hits only some are timed
        self._position_text = ""
        self._position_pushed, self._position_ring = -1, engine.ring
        self._ring = engine.ring  # that `moment` is of
        self._open: dict[tuple[str, int], OpenCache] = {}
        self._freshener = Freshener(engine, stream.age, executor.executed)
        self._changed_at = monotonic()
        self.lateness: Lateness | None = None
        self.session_figures: Callable[[], dict[str, int]] = dict  # of the MySQL listener
        self.changes = 0  # another number after each change of accounts and their rights, or of caches
        self.accounts = Accounts(self._on_change)
        self.moment = Moment(0, engine.ring.pushed)
        matcher.on_change = self._on_change
        self._visible = VisibleTimes(stream)
        self.sampler = sampler_of(engine, executor, stream, pump, check_sample, self.spent)
        self.auditor = auditor_of(engine, self.sampler, catalog, verify_new_caches, self._source_version)
        self.sampler.on_different = self.auditor.on_different
        catalog.installed.auditor = self.auditor
        pump.on_differs = self.auditor.on_differs
        pump.on_position = self._on_position
        self._subscriptions = Subscriptions(self, catalog)
        self.server_version = ""

    def _source_version(self) -> str:
        return self.server_version

    # -- formats -----------------------------------------------------------------------------------------------------

    def register_format(self, name: str, wire: WireFormat) -> None:
        self.pump.formats.register(name, wire)

    def encoder(self, format_: int, columns: tuple[ResultColumn, ...]) -> Encoder:
        return self.pump.formats.encoder(format_, columns)

    def join(self, format_: int) -> Join:
        return self.pump.formats.joins[format_]

    def wire(self, format_: int) -> WireFormat:
        return self.pump.formats.wires[format_]

    # -- caches ------------------------------------------------------------------------------------------------------

    def open_cache(self, name: str, format: str) -> OpenCache:
        return self._opened(self._catalog.get(name), self.pump.formats.number(format))

    def _opened(self, cache: NamedCache, format_: int) -> OpenCache:
        opened = self._open.get((cache.name, format_))
        if opened is None or opened.named is not cache:
            opened = self._open[cache.name, format_] = OpenCache(self, cache, format_)
        return opened

    async def create_cache(self, name: str, sql: str, database: str, made_by: MadeBy = BY_GRPC) -> CacheInfo:
        database = database or self._upstream.database
        cache, existed = await self._catalog.create(name, sql, database, made_by)
        self._close_dropped()  # an automatic one may have made room for its namesake
        return replace(cache.info(), existed=existed)

    async def drop_cache(self, name: str, only_of: str = "") -> None:
        await self._catalog.drop(name, only_of=only_of)
        self._close_dropped()

    def automatic(self) -> list[NamedCache]:
        """The caches that automatic caching has made, but for those that somebody has made his own."""
        return self._catalog.automatic()

    async def drop_automatic(self, name: str) -> None:
        """Raises UnknownCache where there is none of that name, or it is somebody's own."""
        await self._catalog.drop(name, only_automatic=True)
        self._close_dropped()

    def _close_dropped(self) -> None:
        self._open = {key: opened for key, opened in self._open.items() if not opened.named.dropped}

    async def list_caches(self) -> list[CacheInfo]:
        caches = list(self._catalog.caches.values())
        return [self._info(cache) async for cache in in_slices(caches) if not cache.dropped]

    def _info(self, cache: NamedCache) -> CacheInfo:
        """With what automatic caching has decided of it, where it has made it."""
        info = cache.info()
        decided = self.auto_cache.decided(cache.name) if self.auto_cache is not None and cache.is_automatic else ""
        return replace(info, decided=decided) if decided else info

    def find_cache(self, name: str) -> CacheInfo | None:
        cache = self._catalog.caches.get(name)
        return cache.info() if cache is not None else None

    async def explain(self, name: str, sql: str, database: str) -> tuple[str, str]:
        if name:
            plan = self._catalog.get(name).plan
            if plan is None:
                raise UnknownCache(f"cache {name!r} is not planned: {self._catalog.get(name).why}")
        else:
            plan = (await self._catalog.plan(sql, database or self._upstream.database)).plan
        return explain(plan), dot(plan)

    # -- queries -----------------------------------------------------------------------------------------------------

    def demand(self, freshness: Freshness) -> CallDemand:
        return self._freshener.demand(freshness)

    def demand_after(self, own: GtidSet, shown: GtidSet | None = None, wait: float = DEFAULT_WAIT) -> CallDemand:
        return self._freshener.demand_after(own, shown, wait)

    async def query(
        self,
        sql: str,
        database: str,
        parameters: Sequence[ParameterValue],
        format: str,
        freshness: Freshness | None = None,
    ) -> Answer:
        demand = self.demand(freshness) if freshness is not None else None
        database = database or self._upstream.database
        format_ = self.pump.formats.number(format)
        matched = None if is_long(sql) else self._matched(sql, database, parameters)
        if matched is not None:
            name, values = matched
            opened = self._opened(self._catalog.get(name), format_)
            # A read of longer lists is no fill, nor is it compared.
            short = sum(len(value) for value in parameters if isinstance(value, tuple)) <= MOST_KEYS
            text = substituted(sql, parameters) if short and opened.named.trust is not None else ""
            return await opened.read(values, demand, text)
        text = await read_text(sql, parameters)
        started = perf_counter()
        why = NO_CACHE if MAY_HAVE.search(sql.encode(errors="replace")) is None else BY_CLOCK
        answer = await self._pass(text, database, format_, why, "", demand)
        took = perf_counter() - started
        await asyncio.sleep(0)  # to encode the answer and to look at the text are two steps
        self.proxied.entry(sql, database).note(took * 1e6, GRPC_ACCOUNT)
        return answer

    def statements(self) -> int:
        """How many statements were answered until now, by a cache or by MySQL."""
        gone = self._catalog.gone
        held = sum(cache.hits + cache.misses for cache in self._catalog.caches.values())
        return self._passed + self.session_figures().get("mysql_passed", 0) + held + gone.hits + gone.misses

    def spent(self, cache: NamedCache, us: float) -> None:
        """Charges this much of the loop's time, for a read that was no hit, to a cache that pays for it."""
        if self.budget is not None and cache.is_automatic:
            cache.work_us += us
            self.budget.spend(cache.name, us)

    def note_passed(self, cache: str, why: Why) -> None:
        """MySQL answers a read of the cache of this name, or of none (""), for this reason."""
        self.proxied.passed(why)
        if (found := self._catalog.caches.get(cache)) is not None:
            found.passed.add(why)

    async def pass_cache(
        self,
        cache: NamedCache,
        parameters: Sequence[ParameterValue],
        format_: int,
        why: Why,
        demand: CallDemand | None = None,
    ) -> Answer:
        """The cache's query with these parameters, answered by MySQL. Raises TooStale where MySQL itself lacks what is
        demanded."""
        self.note_passed(cache.name, why)
        text = await substituted_in_slices(cache.text, parameters)
        return await self._pass(text, cache.database, format_, why, cache.name, demand, cache.tables)

    async def _pass(
        self,
        sql: str,
        database: str,
        format_: int,
        why: Why,
        cache: str,
        demand: CallDemand | None,
        tables: Sequence[str] = (),
    ) -> Answer:
        self._passed += 1
        read = partial(self._executor.read, sql, database, tables=tables)
        since = self._engine.ring.position.freeze()
        passed = await read()
        if not since.issubset(GtidSet.parse(passed.executed)):
            # The stream tells of a transaction before it is visible: hits may have shown what this lacks.
            passed = await read(after=since, patience=VISIBLE_SOON)
        if demand is not None and not demand.met_by_source(passed.executed):
            # The stream is waited for first, for it takes no connection; it brings what is about to be executed.
            if await demand.reached():
                after, patience = demand.needed, max(demand.seconds_left, LEAST_PATIENCE)
                passed = await read(after=after, patience=patience)
            if not demand.met_by_source(passed.executed):
                raise TooStale(f"MySQL has not executed {demand.lacking(passed.executed)}, which the read asks for")
        if len(passed.columns) > WIDE:  # to name the columns, to make the encoders and to encode are three steps
            await asyncio.sleep(0)
        encode = self.encoder(format_, passed.columns)
        if len(passed.columns) > WIDE:
            await asyncio.sleep(0)
        body = await encode_in_slices(encode, self.join(format_), passed.rows)
        return Answer(Served.PASSED, passed.columns, body, passed.executed, cache, why, passed.horizon)

    def _matched(
        self, sql: str, database: str, parameters: Sequence[ParameterValue]
    ) -> tuple[str, tuple[ParameterValue, ...]] | None:
        """As `match`. A text that makes it fail has no cache, and neither has one that tells its collation: MySQL
        would not get that."""
        if MARK in sql:
            return None
        try:
            return self._matcher.match(sql, database, parameters)
        except Exception as error:
            if not is_fault(error):
                raise
            self.faults.note("query", sql[:200], error, text=sql[:2000])
            return None

    def match(
        self, sql: str, database: str, parameters: Sequence[ParameterValue]
    ) -> tuple[str, tuple[ParameterValue, ...]] | None:
        return self._matcher.match(sql, database, parameters)

    @property
    def caches_version(self) -> int:
        return self._matcher.changes

    # -- subscriptions -----------------------------------------------------------------------------------------------

    def subscribe(self, name: str, parameters: Sequence[ParameterValue]) -> AsyncGenerator[SubscriptionEvent, None]:
        return self._subscriptions.subscribe(name, parameters)

    def close(self, reason: str) -> None:
        """No hit is served from now on, and every subscription ends: its rows may be older than was promised."""
        if not self.closed:
            self._subscriptions.end(reason)
        self.closed = reason

    async def reached(self, own: GtidSet, seconds: float) -> bool:
        return await self._freshener.reached(own, monotonic() + seconds)

    async def answers(self) -> bool:
        try:
            await self._freshener.executed(monotonic())
        except UpwellError:
            return False
        return True

    def source_up(self) -> bool:
        return self._stream.connected

    def written_unlogged(self, account: str, *, cause: str, schema: bool) -> None:
        self.count("unlogged_writes")
        self._catalog.written_unlogged(account, cause=cause, schema=schema)
        self.accounts.changed()

    def sequence(self) -> int:
        return self._engine.memory.sequence

    def rebuilding(self) -> bool:
        return self._catalog.rebuilding

    def seconds_since_change(self) -> float:
        return monotonic() - self._changed_at

    def _on_position(self, event: StreamEvent) -> None:
        """An event of the stream has been processed."""
        self._changed_at = monotonic()
        if isinstance(event, Gap) or (isinstance(event, Progress) and event.accounts):
            self.accounts.changed()
        ring, moment = self._engine.state.ring, self.moment
        if ring is not self._ring:
            self._ring = ring
            self.moment = Moment(moment.ring + 1, ring.pushed)
        elif ring.pushed != moment.pushed:
            self.moment = tuple.__new__(Moment, (moment.ring, ring.pushed))  # without a call in Python
        self._visible.on_stream(event)
        self._freshener.on_stream(event)
        self.auditor.on_stream(event)
        self.sampler.comparer.on_stream(event)

    def fill(
        self, name: str, keys: Sequence[Sequence[ParameterValue]] | None = None, by: FillBy = FillBy.SIZE
    ) -> AsyncGenerator[FillProgress, None]:
        assert self.warm_up is not None, "it is there before the listeners"
        return self.warm_up.fill(name, keys, by)

    def want(self, cache: NamedCache, parameters: Sequence[ParameterValue]) -> None:
        """As `Bulk.want`."""
        if self.bulk is not None:
            self.bulk.want(cache, parameters)

    def hold_all(self, name: str, most: int) -> None:
        """As `Bulk.hold_all`."""
        if self.bulk is not None:
            self.bulk.hold_all(name, most)

    async def fill_first(self, name: str, keys: Sequence[Sequence[ParameterValue]]) -> bool:
        return self.bulk is not None and await self.bulk.fill_first(name, keys)

    async def held_before(self, name: str, most: int) -> list[tuple[ParameterValue, ...]]:
        assert self.warm_up is not None, "it is there before the listeners"
        return await self.warm_up.hottest(name, most)

    def audit(
        self, name: str = "", by: FillBy = FillBy.SIZE, *, repair: bool = False
    ) -> AsyncGenerator[AuditProgress, None]:
        assert self.bulk is not None, "it is there before the listeners"
        return self.bulk.audit(name, by, repair=repair)

    # -- status ------------------------------------------------------------------------------------------------------

    def position(self) -> str:
        ring = self._engine.ring  # another one after each reset
        if ring.pushed != self._position_pushed or ring is not self._position_ring:
            self._position_pushed, self._position_ring = ring.pushed, ring
            self._position_text = str(ring.position)
        return self._position_text

    def position_with(self, more: GtidSet) -> str:
        """The position and these transactions, as text: what an entry ahead of the position reflects."""
        return str(self._engine.ring.position.freeze().union(more))

    def position_at(self, moment: Moment) -> str:
        if moment == self.moment:
            return self.position()
        found = self._ring.position_at(moment.pushed) if moment.ring == self.moment.ring else None
        return "" if found is None else str(found)

    def _on_change(self) -> None:
        self.changes += 1

    look_again = _on_change

    def count(self, name: str) -> None:
        """Counts one occurrence of a rule."""
        self._engine.memory.count(name)

    def hold(self, reader: ReaderNode, key: Key, params: Params) -> Held | None:
        return self._engine.hold(reader, key, params)

    def seconds(self, reader: ReaderNode) -> float:
        """MySQL's recent time for the reader's upqueries, in seconds."""
        return self._engine.latency.get(reader.tag, 0.0)

    def substituted(self, sql: str, parameters: Sequence[ParameterValue]) -> str:
        return substituted(sql, parameters)

    def keep_limit(self) -> None:
        """After answers were encoded and stored: evicts if that passed the limit."""
        if self._engine.memory.used > self._engine.limit:
            self._engine.keep_limit()

    @property
    def memory_is_short(self) -> bool:
        """Whether keys may soon have to go: then it is noted which are asked for."""
        return self._engine.memory.used > SHORT * self._engine.limit

    def not_ready(self) -> str:
        if self.stopping:
            return "it is stopping"
        if self._stream.refused and not self.closed:
            return f"MySQL refuses its change stream: {self._stream.refused}"
        if self.closed or not self._catalog.unplanned:
            return self.closed
        return f"{self._catalog.unplanned} caches of the settings or of an earlier run are still to be planned"

    def status(self) -> SystemStatus:
        engine = self._engine
        caches = self._catalog.caches.values()
        p50, p99 = self._visible.quantiles(0.5, 0.99)
        return SystemStatus(
            version=upwell.__version__,
            source=self._upstream.redacted,
            address=self._upstream.address,
            source_up=self._stream.connected,
            server_version=self.server_version,
            server_uuid=self._stream.history,
            position=self.position(),
            lag_seconds=self._stream.lag(),
            memory_bytes=engine.memory.used,
            memory_limit=engine.limit,
            hits=self._catalog.gone.hits + sum(cache.hits for cache in caches),
            misses=self._catalog.gone.misses + sum(cache.misses for cache in caches),
            passed=sum(self.proxied.by_reason.values()),
            upqueries_in_flight=engine.upqueries_in_flight,
            visible_p50_seconds=p50,
            visible_p99_seconds=p99,
            visible_buckets=self._visible.buckets(),
            visible_sum_seconds=self._visible.sum,
            late_buckets=self.lateness.buckets() if self.lateness is not None else (),
            late_sum_seconds=self.lateness.sum if self.lateness is not None else 0.0,
            by_reason={reason.value: count for reason, count in self.proxied.by_reason.items()},
            read_times={served: (times.buckets(), times.sum) for served, times in self.times.items()},
            fills=tuple(self.bulk.under_way) if self.bulk is not None else (),
            counters={
                **dict.fromkeys(COUNTERS, 0),
                **engine.memory.counters,
                "transactions": engine.memory.counters["transactions"] + engine.ring.pushed,
                "records_applied": engine.memory.applied,
                **of_source(self._executor),
                **self.sampler.counters,
                **self._catalog.texts.process.counters,
                **self.auditor.counters,
                **(self.access_log.writer.counters if self.access_log is not None else {}),
                **(self.auto_cache.counters if self.auto_cache is not None else {}),
                "automatic_reads_left": self.budget.left if self.budget is not None else 0,
                "clock_keys_dropped": self.clock_keys.dropped,
                "evicted": engine.sieve.evicted,
                "ring_transactions": len(engine.ring),
                "subscriptions": len(engine.subscriptions),
                **self.session_figures(),
                "freshness_waits": self._freshener.waits,
                "loop_late": self.lateness.times if self.lateness is not None else 0,
                "freshness_waits_in_vain": self._freshener.late,
            },
        )
