"""The system behind the listeners: implements `proxy.port.session.SessionSystem`. A read is answered from a cache, or
MySQL answers it.

Nothing here decodes rows of passed reads, and a hit (`proxy/read/open_cache.py`) does not come here at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic, perf_counter

import upwell
from dataflow.engine import Engine
from planner.matcher import QueryMatcher
from planner.text.clock import MAY_HAVE
from planner.text.hints import MARK
from proxy.access.spans import SentSpans
from proxy.access.watch import Watch
from proxy.auto.clock_keys import ClockKeys
from proxy.auto.decisions import AutoCache
from proxy.auto.fill_budget import FillBudget
from proxy.auto.passed_reads import ProxiedQueries
from proxy.auto.write_rates import WriteRates
from proxy.cache.key_binder import MOST_KEYS
from proxy.catalog.catalog import Catalog
from proxy.loop.lateness import Lateness
from proxy.loop.loop_load import LoopLoad
from proxy.port.accounts import Accounts
from proxy.port.api import Answer, Freshness, ParameterValue, SystemStatus
from proxy.port.changes import Changes
from proxy.port.faults import is_fault
from proxy.port.figures import COUNTERS, of_source
from proxy.port.reasons import Reason
from proxy.pump.pump import Pump
from proxy.read.host import ReadHost
from proxy.read.literals import is_long, read_text, substituted
from proxy.read.open_cache import OpenCache
from proxy.read.passing import Passing
from proxy.read.traced import TracedCache, TracedPassing
from proxy.settings.automatic import Policy
from proxy.settings.in_effect import LiveSettings
from proxy.source.source import Source
from proxy.system.assembly import Followers, auditor_of, sampler_of
from proxy.system.caches import Caches
from proxy.system.fills import Fills
from proxy.system.overviews import Overviews
from proxy.system.source_gate import Gate
from proxy.system.subscriptions import Subscriptions
from sqltypes.errors import UnknownName

GRPC_ACCOUNT = ""  # callers of gRPC are no accounts of MySQL
NO_CACHE = Reason.NOT_CACHED.why("no cache matches; `upwell cache explain` says whether the query can be cached")
BY_CLOCK = Reason.NOT_CACHED.why(
    "no cache matches: queries by the clock (NOW() and the like) are hits over MySQL's protocol alone"
)


class Router:
    """The parts of the system, by what they are about. `stopping`: new callers should go elsewhere, those that are here
    are served. `listener_figures`: of the listeners, which come after this."""

    def __init__(
        self,
        settings: LiveSettings,
        source: Source,
        version: str,
        engine: Engine,
        pump: Pump,
        catalog: Catalog,
        matcher: QueryMatcher,
        fills: Fills,
        followers: Followers,
        budget: FillBudget,
        changes: Changes,
        spans: SentSpans | None = None,
    ) -> None:
        """`budget`: of fills of automatic caches. `spans`: take reads that are no hits; None: none are made."""
        config = settings.config
        stream, executor = source.stream, source.upqueries
        self._source, self._engine, self._catalog = source, engine, catalog
        self.settings = settings
        self.server_version = version
        self.stopping = False
        self.listener_figures: Callable[[], dict[str, int]] = dict
        self.changes = changes
        self.accounts = Accounts(changes.note)
        self.pump, self.faults, self.formats = pump, pump.faults, pump.formats
        self.fills = fills
        self.count = engine.memory.count
        self.position, self.freshness, self._visible = followers.position, followers.freshness, followers.visible
        self.earning = followers.earning
        self.proxied = ProxiedQueries(catalog)
        self.clock_keys = ClockKeys(catalog.caches.values, lambda: engine.sieve, monotonic)
        self.budget = budget
        self.auditor = auditor_of(engine, followers, catalog)
        self.sampler = sampler_of(engine, source, pump, config.check_sample, self.auditor, followers.comparer)
        self.spans = spans
        passing, opened = _traced(spans)
        passed = passing(engine, executor, pump.formats, self.proxied, catalog.caches)
        self.note_passed = passed.note
        self.reads = ReadHost(
            engine, pump, self.position, passed, self.sampler, self.auditor, fills.bulk.want, self.budget
        )
        self.watching = Watch(catalog.caches, self.reads, self.proxied.noted)
        self.caches = Caches(catalog, matcher, self.reads, source.upstream.database, fills.bulk.hold_all, opened)
        self.subscriptions = Subscriptions(self.reads, catalog)
        self.subscribe = self.subscriptions.subscribe
        self.gate = Gate(self.reads, stream, config.max_staleness, self.subscriptions.end)
        self.lateness = Lateness(self.gate.frozen, self.gate.look)
        self.auto_cache: AutoCache | None = None
        self.overviews = Overviews(
            self.status,
            self.not_ready,
            catalog,
            lambda name: self.caches.decided(name),
            self.proxied,
            source,
            self.lateness,
            checked=lambda: bool(self.earning.wanted),
        )

    def begin_automatic(self, policy: Policy) -> AutoCache:
        """Automatic caching is on from now on."""
        stream = self._source.stream
        self.auto_cache = auto_cache = AutoCache(
            policy,
            self.proxied,
            self.caches,
            monotonic,
            lambda: stream.connected and not self.not_ready(),
            budget=self.budget,
            load=LoopLoad(),
            statements=self.statements,
            late=lambda: self.lateness.lately,
            writes=WriteRates(stream.writes),
        )
        # It makes caches of passed reads, and both are shown with what it decides.
        self.caches.decided, self.proxied.why_not = auto_cache.decided, auto_cache.why_not
        return auto_cache

    async def end_automatic(self) -> None:
        """It makes no caches from now on, and drops none."""
        auto_cache, self.auto_cache = self.auto_cache, None
        self.caches.decided, self.proxied.why_not = (lambda name: ""), (lambda entry: "")
        if auto_cache is not None:
            await auto_cache.close()

    async def query(
        self,
        sql: str,
        database: str,
        parameters: Sequence[ParameterValue],
        format: str,
        freshness: Freshness | None = None,
    ) -> Answer:
        demand = self.freshness.demand(freshness) if freshness is not None else None
        database = database or self._source.upstream.database
        matched = None if is_long(sql) else self._matched(sql, database, parameters)
        if matched is not None:
            name, values = matched
            opened = self.caches.open(name, format)
            # A read of longer lists is no fill, nor is it compared.
            short = sum(len(value) for value in parameters if isinstance(value, tuple)) <= MOST_KEYS
            text = substituted(sql, parameters) if short and opened.named.trust is not None else ""
            return await opened.read(values, demand, text)
        text = await read_text(sql, parameters)
        started = perf_counter()
        why = NO_CACHE if MAY_HAVE.search(sql.encode(errors="replace")) is None else BY_CLOCK
        answer = await self.reads.passing.read(text, database, self.formats.number(format), why, "", demand)
        took = perf_counter() - started
        await asyncio.sleep(0)  # to encode the answer and to look at the text are two steps
        self.proxied.entry(sql, database).note(took * 1e6, GRPC_ACCOUNT)
        return answer

    async def passed_query(self, id: str) -> tuple[str, str]:
        entry = await self.proxied.by_id(id)
        if entry is None:
            raise UnknownName(f"no query has the id {id!r}: SHOW PROXIED QUERIES has them")
        return entry.shape, entry.database

    def _matched(
        self, sql: str, database: str, parameters: Sequence[ParameterValue]
    ) -> tuple[str, tuple[ParameterValue, ...]] | None:
        """As `Caches.match`. A text that makes it fail has no cache, and neither has one that tells its collation:
        MySQL would not get that."""
        if MARK in sql:
            return None
        try:
            return self.caches.match(sql, database, parameters)
        except Exception as error:
            if not is_fault(error):
                raise
            self.faults.note("query", sql[:200], error, text=sql[:2000])
            return None

    def statements(self) -> int:
        """How many statements were answered until now, by a cache or by MySQL."""
        gone = self._catalog.gone
        held = sum(cache.hits + cache.misses for cache in self._catalog.caches.values())
        passed = self.reads.passing.count + self.listener_figures().get("mysql_passed", 0)
        return passed + held + gone.hits + gone.misses

    def source_up(self) -> bool:
        return self._source.stream.connected

    def written_unlogged(self, account: str, *, cause: str, schema: bool) -> None:
        self.count("unlogged_writes")
        self._catalog.written_unlogged(account, cause=cause, schema=schema)
        self.accounts.changed()

    def doubt(self) -> None:
        self._engine.state.doubt()

    # -- status ------------------------------------------------------------------------------------------------------

    def not_ready(self) -> str:
        if self.stopping:
            return "it is stopping"
        if self._source.stream.refused and not self.reads.closed:
            return f"MySQL refuses its change stream: {self._source.stream.refused}"
        if self.reads.closed or not self._catalog.unplanned:
            return self.reads.closed
        return f"{self._catalog.unplanned} caches of the settings or of an earlier run are still to be planned"

    def status(self) -> SystemStatus:
        engine = self._engine
        caches = self._catalog.caches.values()
        p50, p99 = self._visible.quantiles(0.5, 0.99)
        return SystemStatus(
            version=upwell.__version__,
            source=self._source.upstream.redacted,
            address=self._source.upstream.address,
            source_up=self._source.stream.connected,
            server_version=self.server_version,
            server_uuid=self._source.stream.history,
            position=self.position.text(),
            lag_seconds=self._source.stream.lag(),
            memory_bytes=engine.memory.used,
            memory_limit=engine.limit.bytes,
            hits=self._catalog.gone.hits + sum(cache.hits for cache in caches),
            misses=self._catalog.gone.misses + sum(cache.misses for cache in caches),
            passed=sum(self.proxied.by_reason.values()),
            upqueries_in_flight=len(engine.fills.unanswered),
            visible_p50_seconds=p50,
            visible_p99_seconds=p99,
            visible_buckets=self._visible.buckets(),
            visible_sum_seconds=self._visible.sum,
            late_buckets=self.lateness.buckets(),
            late_sum_seconds=self.lateness.sum,
            by_reason={reason.value: count for reason, count in self.proxied.by_reason.items()},
            read_times={served: (times.buckets(), times.sum) for served, times in self.reads.times.items()},
            fills=tuple(self.fills.bulk.under_way),
            counters={
                **dict.fromkeys(COUNTERS, 0),
                **engine.memory.counters,
                "transactions": engine.memory.counters["transactions"] + engine.state.ring.pushed,
                "records_applied": engine.memory.applied,
                **of_source(self._source.upqueries),
                **self.sampler.counters,
                **self._catalog.texts.process.counters,
                **self.earning.counters,
                **(self.reads.access_log.writer.counters if self.reads.access_log is not None else {}),
                **(self.auto_cache.counters if self.auto_cache is not None else {}),
                "automatic_reads_left": self.budget.left,
                "clock_keys_dropped": self.clock_keys.dropped,
                "spans_dropped": self.spans.dropped if self.spans is not None else 0,
                "evicted": engine.sieve.evicted,
                "ring_transactions": len(engine.state.ring),
                "subscribers_cut_off": self.subscriptions.cut_off,
                "subscriptions": len(engine.subscriptions),
                **self.listener_figures(),
                "freshness_waits": self.freshness.waits,
                "loop_late": self.lateness.times,
                "freshness_waits_in_vain": self.freshness.late,
            },
        )


def _traced(spans: SentSpans | None) -> tuple[Callable[..., Passing], Callable[..., OpenCache]]:
    """What makes passed reads and open caches: those that tell of their reads, where somebody takes spans."""
    if spans is None:
        return Passing, OpenCache
    return partial(TracedPassing, spans), partial(TracedCache, spans)
