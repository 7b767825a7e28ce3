"""Makes what people see of the running proxy (`proxy/port/overview.py`), when somebody looks.

Counters are read as they are. What takes time to measure, the bytes of a cache and the quantiles of its times, is
measured of some caches at each look, in turn. Whether passed queries can be cached is found out beside the looks.
The last hour is kept as a row of numbers for each `SAMPLED` seconds.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import monotonic, perf_counter, time
from weakref import ReferenceType, ref

import structlog

from dataflow.readers.reader import held_bytes
from planner.explain import PlanGraph, explain, graph
from proxy.auto.passed_reads import ProxiedQueries
from proxy.cache.named_cache import NamedCache
from proxy.catalog.catalog import Catalog
from proxy.loop.lateness import Lateness
from proxy.loop.periodic import Periodic
from proxy.loop.slices import Slices
from proxy.port.api import Served, SystemStatus
from proxy.port.fill_progress import FillProgress
from proxy.port.overview import (
    AccessCharts,
    CacheView,
    ConnectionsView,
    FillView,
    HistoryView,
    MemoryView,
    Overview,
    QueryView,
    RatesView,
    ReadsView,
    ShardView,
    SourceView,
    UpqueriesView,
)
from proxy.source.source import Source
from sqltypes.errors import UnknownCache, UpwellError

log = structlog.get_logger("upwell")

SAMPLED = 5.0  # seconds between two rows of the last hour
HOUR = 3600.0
COLUMNS = (
    *("at", "hits", "misses", "passed", "hit_rate", "miss_seconds"),
    *("memory", "lag_seconds", "upqueries", "waiting", "sessions", "late_seconds"),
)
"""Of a row: hits, misses and passed a second; the rest as an Overview has it."""
MEASURING = 0.001  # seconds of a look for what takes time to measure
LISTED_EVERY = 5.0  # seconds between two lists of passed queries, while somebody looks
MOST_QUERIES = 30
AT_FIRST = 1.0  # seconds that the first look waits for them
CACHEABLE = {True: "yes", False: "no", None: "unknown"}
SHORTEST = 0.5  # seconds over which rates are told, at least


@dataclass(slots=True)
class Measured:
    """Of one cache, which this does not keep. `us`: as `NamedCache.quantiles_us`."""

    cache: ReferenceType[NamedCache]
    bytes: int
    us: tuple[float, float, float, float]
    tables: list[str]


@dataclass(frozen=True, slots=True)
class Counted:
    """The reads until then. `seconds`, `timed`: of the misses, in all, and how many."""

    at: float
    hits: int
    misses: int
    passed: int
    seconds: float
    timed: int


class Overviews:
    """`checked`: whether new caches are compared with MySQL. `decided`: as `Caches.decided`, when it is called.

    Invariants: 1. `_rows` has an hour at most. 2. `_turns` has the names of `_measured`.
    """

    def __init__(
        self,
        status: Callable[[], SystemStatus],
        not_ready: Callable[[], str],
        catalog: Catalog,
        decided: Callable[[str], str],
        proxied: ProxiedQueries,
        source: Source,
        lateness: Lateness,
        *,
        checked: Callable[[], bool],
    ) -> None:
        self._status, self._not_ready = status, not_ready
        self._catalog, self._decided, self._checked = catalog, decided, checked
        self._proxied, self._source, self._lateness = proxied, source, lateness
        self._rows: deque[tuple[float, ...]] = deque(maxlen=int(HOUR / SAMPLED))
        self._sampled = self._before = Counted(monotonic(), 0, 0, 0, 0.0, 0)
        self._rates = RatesView(SHORTEST, 0, 0, 0, 0, 0, 0)
        self._measured: dict[str, Measured] = {}
        self._turns: deque[str] = deque()
        self._queries: list[QueryView] = []
        self._listed = asyncio.Event()
        self.charts: AccessCharts | None = None
        self._listing = Periodic(self._list, LISTED_EVERY, monotonic)

    def tick(self) -> None:
        """To be called now and then: keeps the last hour."""
        if monotonic() - self._sampled.at < SAMPLED:
            return
        status = self._status()
        now = _counted(status)
        rates, self._sampled = _rates(self._sampled, now), now
        found = (
            *(time(), rates.hits, rates.misses, rates.passed, rates.hit_rate, rates.miss_seconds),
            *(status.memory_bytes, status.lag_seconds, status.upqueries_in_flight),
            *(status.counters["source_waiting"], status.counters.get("mysql_sessions", 0), self._lateness.lately),
        )
        self._rows.append(tuple(round(value, 6) for value in found))

    async def look(self) -> Overview:
        self._listing.tick()
        if not self._listed.is_set():
            try:
                await asyncio.wait_for(self._listed.wait(), AT_FIRST)
            except TimeoutError:
                self._listed.set()  # later looks do not wait
        slices = Slices()
        await self._measure(slices)
        caches: dict[str, CacheView] = {}
        for name in list(self._measured):
            if (cache := self._catalog.caches.get(name)) is not None:
                caches[name] = self._cache(cache, self._measured[name])
                await slices.turn()
        return self._overview(caches)

    def _overview(self, caches: Mapping[str, CacheView]) -> Overview:
        status, upqueries = self._status(), self._source.upqueries
        counters = status.counters
        now = _counted(status)
        if now.at - self._before.at >= SHORTEST:
            before = self._before if now.at - self._before.at < 2 * SAMPLED else self._sampled
            self._rates, self._before = _rates(before, now), now
        return Overview(
            at=round(time(), 3),
            version=status.version,
            ready=self._not_ready(),
            source=SourceView(
                address=status.address,
                up=status.source_up,
                server_version=status.server_version,
                history=status.server_uuid,
                position=status.position,
                lag_seconds=round(status.lag_seconds, 3),
                visible_p50_seconds=round(status.visible_p50_seconds, 6),
                visible_p99_seconds=round(status.visible_p99_seconds, 6),
                shards=self._shards(),
            ),
            reads=ReadsView(
                status.hits, status.misses, status.passed, round(status.hit_rate, 4), dict(status.by_reason)
            ),
            rates=self._rates,
            memory=MemoryView(status.memory_bytes, status.memory_limit),
            upqueries=UpqueriesView(
                status.upqueries_in_flight,
                counters["source_waiting"],
                counters["source_held_back"],
                counters["source_upqueries"],
            ),
            connections=ConnectionsView(counters.get("mysql_sessions", 0), upqueries.connections, upqueries.in_flight),
            loop_late_seconds=round(self._lateness.lately, 6),
            fills=[_fill(fill) for fill in status.fills],
            access_log=self.charts.share if self.charts is not None else 0.0,
            counters=counters,
            caches=caches,
            queries=self._queries,
            history=HistoryView(SAMPLED, COLUMNS, list(self._rows)),
        )

    def _shards(self) -> dict[str, ShardView]:
        running_at = self._source.upqueries.running_at
        return {
            name: ShardView(at.position, round(at.lag, 3), round(at.last_at, 3), running_at(name))
            for name, at in self._source.shards_at.items()
        }

    def plan(self, name: str) -> tuple[str, PlanGraph]:
        cache = self._catalog.get(name)
        if cache.plan is None:
            raise UnknownCache(f"cache {name!r} is not planned: {cache.why}")
        return explain(cache.plan), graph(cache.plan)

    async def close(self) -> None:
        await self._listing.close()

    # -- caches --------------------------------------------------------------------------------------------------------

    async def _measure(self, slices: Slices) -> None:
        """What takes time: of caches that are new, and of some others in turn."""
        caches = self._catalog.caches
        gone = [name for name, of in self._measured.items() if name not in caches or caches[name] is not of.cache()]
        for name in gone:
            del self._measured[name]
        if gone:
            self._turns = deque(name for name in self._turns if name in self._measured)
        for name, cache in list(caches.items()):
            if name not in self._measured and not cache.dropped:
                self._measured[name] = _measured(cache)
                self._turns.append(name)
                await slices.turn()
        until = perf_counter() + MEASURING
        for _ in range(len(self._turns)):
            name = self._turns[0]
            self._turns.rotate(-1)
            if name in caches:
                self._measured[name] = _measured(caches[name])
            await slices.turn()
            if perf_counter() >= until:
                break

    def _cache(self, cache: NamedCache, measured: Measured) -> CacheView:
        trust, reader = cache.trust, cache.reader
        hit_p50, hit_p99, miss_p50, miss_p99 = measured.us
        losses = cache.losses
        emptied: dict[str, dict[str, int]] = {}
        for (cause, table), keys in losses.counts.items():
            emptied.setdefault(cause.value, {})[table] = keys
        agreed = trust.fills.agreed + trust.changes.agreed if trust is not None else 0
        trusted = "" if reader is None else "trusted" if self._checked() else "not checked"
        return CacheView(
            name=cache.name,
            database=cache.database,
            mode=cache.plan.mode.value if cache.plan is not None else "",
            state=cache.state,
            origin=cache.made_by.origin.value,
            tables=measured.tables,
            keys=len(reader.entries) if reader is not None else 0,
            bytes=measured.bytes,
            hits=cache.hits,
            misses=cache.misses,
            passed=cache.passed.total,
            passed_by_reason={reason.value: count for reason, count in cache.passed.counts.items()},
            hit_p50_us=hit_p50,
            hit_p99_us=hit_p99,
            miss_p50_us=miss_p50,
            miss_p99_us=miss_p99,
            saved_seconds=round(cache.hits * miss_p50 / 1e6, 3),
            emptied=losses.total,
            emptied_by=emptied,
            compared={table: compared for table, (compared, _) in losses.compared.items()},
            needless={table: equal for table, (_, equal) in losses.compared.items()},
            trust=trusted if trust is None else "being checked",
            checked=agreed,
            sql=cache.sql,
            why=cache.why or (trust.told if trust is not None else ""),
            passed_why=cache.passed.top[1],
            account=cache.made_by.account,
            reason=cache.made_by.reason,
            decided=self._decided(cache.name) if cache.is_automatic else "",
        )

    # -- passed queries ------------------------------------------------------------------------------------------------

    async def _list(self) -> None:
        try:
            found = await self._proxied.listed(lambda entry: True, MOST_QUERIES)
            self._queries = [
                QueryView(
                    info.id, info.query, info.database, info.count, round(info.p50_us, 1), round(info.total_ms, 3),
                    CACHEABLE[info.cacheable], info.reason, info.seen,
                )
                for info in found
            ]  # fmt: skip
        except UpwellError as error:
            log.warning("passed_queries_not_listed", why=str(error))
        finally:
            self._listed.set()


def _measured(cache: NamedCache) -> Measured:
    size = held_bytes(cache.reader) if cache.reader is not None else 0
    tables = [f"{schema}.{table}" for schema, table in sorted(cache.relations)]
    return Measured(ref(cache), size, cache.quantiles_us(), tables)


def _fill(fill: FillProgress) -> FillView:
    return FillView(
        fill.cache, fill.by.value, fill.stage, fill.keys, fill.held, fill.left, fill.rows,
        round(fill.seconds, 1), round(fill.seconds_left or 0.0, 1),
    )  # fmt: skip


def _counted(status: SystemStatus) -> Counted:
    buckets, seconds = status.read_times.get(Served.MISS.value, (((0.0, 0),), 0.0))
    return Counted(monotonic(), status.hits, status.misses, status.passed, seconds, buckets[-1][1])


def _rates(before: Counted, now: Counted) -> RatesView:
    seconds = max(now.at - before.at, 1e-9)
    hits, misses, passed = now.hits - before.hits, now.misses - before.misses, now.passed - before.passed
    reads, timed = hits + misses + passed, now.timed - before.timed
    return RatesView(
        round(seconds, 3),
        round(reads / seconds, 1),
        round(hits / seconds, 1),
        round(misses / seconds, 1),
        round(passed / seconds, 1),
        round(hits / reads, 4) if reads else 0.0,
        round((now.seconds - before.seconds) / timed, 6) if timed else 0.0,
    )
