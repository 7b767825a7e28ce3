"""Prometheus metrics, read from the system when somebody asks: nothing is counted on the hot path for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from proxy.loop.slices import in_slices
from proxy.port.api import CacheInfo, System, SystemStatus
from proxy.port.figures import GAUGES
from proxy.port.fill_progress import FillProgress

__all__ = ["CONTENT_TYPE_LATEST", "Metrics"]


CACHES_AT_ONCE = 20  # each is seven lines, and some for each reason for which its reads were MySQL's, and its keys went


class Metrics:
    """The text of /metrics."""

    def __init__(self, system: System) -> None:
        self._system = system
        # Our own registry: the global one would carry whatever a library registers.
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_SystemCollector(system))
        ProcessCollector(registry=self._registry)

    async def text(self) -> bytes:
        """There may be thousands of caches: others have their turn meanwhile."""
        caches = await self._system.caches.listed()
        by_metric = [[generate_latest(_Single(metric))] for metric in _cache_metrics([])]  # what each is, told once
        async for first in in_slices(range(0, len(caches), CACHES_AT_ONCE)):
            metrics = _cache_metrics(caches[first : first + CACHES_AT_ONCE])
            for parts, metric in zip(by_metric, metrics, strict=True):
                parts.append(generate_latest(_Single(metric)).split(b"\n", 2)[2])
        return b"".join((generate_latest(self._registry), *chain.from_iterable(by_metric)))


class _Single(Collector):
    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterable[Metric]:
        return (self._metric,)


class _SystemCollector(Collector):
    def __init__(self, system: System) -> None:
        self._system = system

    def collect(self) -> Iterable[Metric]:
        status = self._system.status()
        yield from _status_metrics(status, ready=not self._system.not_ready())

    def describe(self) -> Iterable[Metric]:
        return ()


def _status_metrics(status: SystemStatus, *, ready: bool) -> Iterable[Metric]:
    build = {"version": status.version, "source": status.address, "server_version": status.server_version}
    yield InfoMetricFamily("upwell", "What runs, and what it stands beside", value=build)
    gauges = (
        ("upwell_ready", "1 while callers can be served", float(ready)),
        ("upwell_source_up", "1 while MySQL can be reached", float(status.source_up)),
        ("upwell_lag_seconds", "How far the applied position is behind the source", status.lag_seconds),
        ("upwell_memory_bytes", "Size of what is held", float(status.memory_bytes)),
        ("upwell_memory_limit_bytes", "What it may be", float(status.memory_limit)),
        ("upwell_upqueries_in_flight", "Upqueries that MySQL has not answered yet", float(status.upqueries_in_flight)),
    )
    for name, text, value in gauges:
        yield GaugeMetricFamily(name, text, value=value)
    counters = (
        ("upwell_hits", "Reads answered from what was held", status.hits),
        ("upwell_misses", "Reads that waited for MySQL", status.misses),
        ("upwell_passed", "Reads that MySQL answered itself, whoever asked", status.passed),
    )
    for name, text, count in counters:
        yield CounterMetricFamily(name, text, value=float(count))
    for name, text in GAUGES.items():
        yield GaugeMetricFamily(f"upwell_{name}", text, value=float(status.counters.get(name, 0)))
    events = CounterMetricFamily("upwell_events", "How often each rule has acted, by name", labels=("event",))
    for event, count in sorted(status.counters.items()):
        if event not in GAUGES:
            events.add_metric((event,), float(count))
    yield events
    passed = CounterMetricFamily("upwell_reads_passed", "Reads that MySQL answered itself, by why", labels=("reason",))
    for reason, count in status.by_reason.items():
        passed.add_metric((reason,), float(count))
    yield passed
    times = HistogramMetricFamily(
        "upwell_read_seconds", "How long reads took, of hits those that are timed", labels=("served",)
    )
    for served, (buckets, seconds) in status.read_times.items():
        times.add_metric((served,), [(_bound(bound), float(count)) for bound, count in buckets], seconds)
    yield times
    yield from _fill_metrics(status.fills)
    committed = "Time from a commit in MySQL until hits show it, of transactions that concern a cache"
    late = "How late the event loop is, looked at every 20 ms: what one step of it makes all others wait"
    histograms = (
        ("upwell_visible_seconds", committed, status.visible_buckets, status.visible_sum_seconds),
        ("upwell_loop_late_seconds", late, status.late_buckets, status.late_sum_seconds),
    )
    for name, text, held, total in histograms:
        if held:
            found = [(_bound(bound), float(count)) for bound, count in held]
            yield HistogramMetricFamily(name, text, buckets=found, sum_value=total)


def _fill_metrics(fills: Sequence[FillProgress]) -> Iterable[Metric]:
    """Of large fills under way."""
    gauges: tuple[tuple[str, str, Callable[[FillProgress], float]], ...] = (
        ("keys", "Keys that a large fill under way is to fill", lambda fill: fill.keys),
        ("held_keys", "Of them, those that are held", lambda fill: fill.held),
        ("left_keys", "Of them, those that could not be held", lambda fill: fill.left),
        ("rows", "Rows that MySQL has sent for it", lambda fill: fill.rows),
        ("slices", "Upqueries of it that have ended", lambda fill: fill.slices),
        ("rows_per_second", "Rows a second since it began", lambda fill: fill.rate),
        ("seconds", "Seconds since it began", lambda fill: fill.seconds),
        ("left_seconds", "Seconds until it ends, if it goes on so", lambda fill: fill.seconds_left or 0.0),
    )
    for name, text, value in gauges:
        family = GaugeMetricFamily(f"upwell_fill_{name}", text, labels=("cache", "by"))
        for fill in fills:
            family.add_metric((fill.cache, fill.by.value), float(value(fill)))
        yield family


def _bound(seconds: float) -> str:
    """A histogram bucket's label."""
    return "+Inf" if seconds == float("inf") else repr(seconds)


def _cache_metrics(caches: Sequence[CacheInfo]) -> Sequence[Metric]:
    labels = ("cache",)
    keys = GaugeMetricFamily("upwell_cache_keys", "Keys held", labels=labels)
    size = GaugeMetricFamily("upwell_cache_bytes", "Size of what is held", labels=labels)
    hits = CounterMetricFamily("upwell_cache_hits", "Reads answered from what was held", labels=labels)
    misses = CounterMetricFamily("upwell_cache_misses", "Reads that waited for MySQL", labels=labels)
    passed = CounterMetricFamily(
        "upwell_cache_passed", "Reads of it that MySQL answered itself, by why", labels=("cache", "reason")
    )
    ready = GaugeMetricFamily("upwell_cache_ready", "1 while the cache answers", labels=labels)
    p50 = GaugeMetricFamily("upwell_cache_p50_seconds", "Median time of a read", labels=("cache", "served"))
    emptied = CounterMetricFamily(
        "upwell_cache_emptied", "Keys of it that went away, by cause", labels=("cache", "cause", "table")
    )
    compared = CounterMetricFamily(
        "upwell_cache_compared",
        "Answers that a change of the table emptied, compared with those that came next",
        labels=("cache", "table"),
    )
    needless = CounterMetricFamily("upwell_cache_needless", "Those of them that were equal", labels=("cache", "table"))
    for info in caches:
        keys.add_metric((info.name,), float(info.keys))
        size.add_metric((info.name,), float(info.bytes))
        before_hits, before_misses = info.before  # a counter of one name goes on where it was
        hits.add_metric((info.name,), float(before_hits + info.hits))
        misses.add_metric((info.name,), float(before_misses + info.misses))
        for reason, count in info.passed_ever.items():
            passed.add_metric((info.name, reason), float(count))
        lost, again = info.losses.ever
        for (cause, table), count in lost.items():
            emptied.add_metric((info.name, cause.value, table), float(count))
        for table, (of, equal) in again.items():
            compared.add_metric((info.name, table), float(of))
            needless.add_metric((info.name, table), float(equal))
        ready.add_metric((info.name,), float(info.state == "ready"))
        p50.add_metric((info.name, "hit"), info.hit_p50_us / 1e6)
        p50.add_metric((info.name, "miss"), info.miss_p50_us / 1e6)
    return keys, size, hits, misses, passed, emptied, compared, needless, ready, p50
