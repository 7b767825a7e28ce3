"""The time from commit to visible: what is counted, and how it is shown."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from dataflow.messages import Progress, Transaction
from gtid_tracker.gtid import Gtid
from proxy.http.metrics import Metrics
from proxy.pump.visibility import RECENT, VisibleTimes
from tests.support.fake_system import SERVER, FakeSystem


@dataclass
class Clock:
    skew: float


def committed(at: float) -> Transaction:
    return Transaction(Gtid(SERVER, 1), (), committed_at=at)


def test_times_are_counted_by_the_sources_clock() -> None:
    times = VisibleTimes(Clock(2.0), lambda: 100.0)  # there it is 102 s
    for at in (101.997, 101.997, 101.9, 103.0):  # the last seems to be committed in the future
        times.on_stream(committed(at))
    assert dict(times.buckets())[0.005] == 3
    assert dict(times.buckets())[0.1] == 4 == times.buckets()[-1][1]
    assert abs(times.sum - 0.106) < 1e-6


def test_what_has_no_time_or_concerns_no_cache_is_not_counted() -> None:
    times = VisibleTimes(Clock(0.0), lambda: 100.0)
    times.on_stream(committed(0.0))
    times.on_stream(Progress(Gtid(SERVER, 2)))
    assert times.buckets()[-1][1] == 0
    assert times.quantiles(0.5, 0.99) == (0.0, 0.0)


def test_quantiles_are_of_the_last_transactions() -> None:
    times = VisibleTimes(Clock(0.0), lambda: 100.0)
    for at in [0.5] * 10 + [100 - n / RECENT for n in range(RECENT)]:
        times.on_stream(committed(at))
    p50, p99 = times.quantiles(0.5, 0.99)
    assert abs(p50 - 0.5) < 0.01 and abs(p99 - 0.99) < 0.01


def test_histogram_in_the_metrics() -> None:
    system = FakeSystem()
    assert b"upwell_visible_seconds" not in asyncio.run(Metrics(system).text())
    status = system.status()
    status.visible_buckets, status.visible_sum_seconds = ((0.005, 3), (float("inf"), 4)), 0.106
    system.status = lambda: status  # type: ignore[method-assign]
    text = asyncio.run(Metrics(system).text()).decode()
    for line in ('bucket{le="0.005"} 3.0', 'bucket{le="+Inf"} 4.0', "count 4.0", "sum 0.106"):
        assert f"upwell_visible_seconds_{line}\n" in text
