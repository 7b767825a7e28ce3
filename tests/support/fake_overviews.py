"""What people see of a system of tests (`tests/support/fake_system.py`): as its caches and queries are."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from planner.explain import Edge, Node, PlanGraph
from proxy.port.api import CacheInfo
from proxy.port.overview import (
    AccessCharts,
    CacheView,
    ConnectionsView,
    FillView,
    HistoryView,
    MemoryView,
    NotTold,
    Overview,
    QueryView,
    RatesView,
    ReadsView,
    SourceView,
    UpqueriesView,
)
from sqltypes.errors import UnknownCache

GRAPH = PlanGraph(
    (Node("db.t", "table", "db.t"), Node("a0", "arrangement", "rows t(id)"), Node("reader", "reader", "reader(id)")),
    (Edge("db.t", "a0"), Edge("a0", "reader", "t")),
)
QUERY = QueryView("q1a2b3c", "SELECT * FROM t WHERE id = ?", "db", 12, 850.0, 10.2, "yes", "maintain", 1_700_000_000.0)


def view(info: CacheInfo) -> CacheView:
    return CacheView(
        name=info.name, database=info.database, mode=info.mode, state=info.state, origin=info.made_by.origin.value,
        tables=["db.t"], keys=info.keys, bytes=info.bytes, hits=info.hits, misses=info.misses, passed=info.passed,
        passed_by_reason=info.passed_ever, hit_p50_us=info.hit_p50_us, hit_p99_us=9.0, miss_p50_us=info.miss_p50_us,
        miss_p99_us=0.0, saved_seconds=1.5, emptied=9, emptied_by={"change": {"db.t": 7}, "memory": {"": 2}},
        compared={"db.t": 4}, needless={"db.t": 1}, trust="trusted", checked=0, sql=info.sql, why=info.why,
        passed_why=info.passed_why, account=info.made_by.account, reason="", decided="",
    )  # fmt: skip


@dataclass
class FakeCharts:
    """`fault`: why it cannot be told; "" if it can. `asked`: the hours."""

    told: dict[str, Any]
    fault: str = ""
    share: float = 0.25
    asked: list[float] = field(default_factory=list)

    async def look(self, hours: float) -> bytes:
        self.asked.append(hours)
        if self.fault:
            raise NotTold(self.fault)
        return json.dumps(self.told).encode()


@dataclass
class FakeOverviews:
    """`caches`: those that are shown. `looks`: how often somebody looked. `changed`: makes another overview of each."""

    caches: Callable[[], Mapping[str, CacheView]]
    looks: int = 0
    rows: list[tuple[float, ...]] = field(default_factory=lambda: [(1.0, 2.0)])
    queries: list[QueryView] = field(default_factory=lambda: [QUERY])
    fills: list[FillView] = field(default_factory=list)
    graph: PlanGraph = GRAPH
    charts: AccessCharts | None = None
    changed: Callable[[Overview], Overview] = lambda overview: overview

    async def look(self) -> Overview:
        self.looks += 1
        return self.changed(
            Overview(
                at=1_700_000_000.0 + self.looks,
                version="0.1.0",
                ready="",
                source=SourceView("mysql://127.0.0.1:3306", True, "8.4.3", "uuid", "uuid:1-5", 0.25, 0.001, 0.002, {}),
                reads=ReadsView(7, 2, 1, 0.7, {"shape": 1}),
                rates=RatesView(1.0, 10.0, 7.0, 2.0, 1.0, 0.7, 0.001),
                memory=MemoryView(1000, 2000),
                upqueries=UpqueriesView(0, 0, 0, 9),
                connections=ConnectionsView(3, 8, 1),
                loop_late_seconds=0.0,
                fills=self.fills,
                access_log=self.charts.share if self.charts is not None else 0.0,
                counters={"transactions": 12},
                caches=self.caches(),
                queries=self.queries,
                history=HistoryView(5.0, ("at", "hits"), list(self.rows)),
            )
        )

    def plan(self, name: str) -> tuple[str, PlanGraph]:
        if name not in self.caches():
            raise UnknownCache(f"no cache {name!r}")
        return f"plan of {name}", self.graph


def more_hits(name: str) -> Callable[[Overview], Overview]:
    """Each look finds the cache with a hit more."""
    hits = 0

    def changed(overview: Overview) -> Overview:
        nonlocal hits
        hits += 1
        cache = overview.caches[name]
        return replace(overview, caches={**overview.caches, name: replace(cache, hits=cache.hits + hits)})

    return changed
