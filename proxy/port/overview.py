"""What people see of a running proxy at one moment: the page at `/`, `upwell top`, `GET /v1/overview`.

Plain values, ready to be JSON; docs/http.md lists them. Times in seconds, sizes in bytes, counters since the start,
unless a name says otherwise. No value is None: JSON's null takes something away in `GET /v1/live`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from planner.explain import PlanGraph


@dataclass
class ShardView:
    """`lag_seconds`: of its last transaction; 0 where none came lately. `last_at`: when that came, in seconds since
    1970; 0: none has. `running`: requests at the source that wait for this shard, alone or beside others."""

    position: str
    lag_seconds: float
    last_at: float
    running: int


@dataclass
class SourceView:
    """`position`: of all that was processed. `shards`: of a source that has shards."""

    address: str
    up: bool
    server_version: str
    history: str
    position: str
    lag_seconds: float
    visible_p50_seconds: float
    visible_p99_seconds: float
    shards: Mapping[str, ShardView]


@dataclass
class ReadsView:
    """`hit_rate`: from 0 to 1. `by_reason`: those that MySQL has answered."""

    hits: int
    misses: int
    passed: int
    hit_rate: float
    by_reason: Mapping[str, int]


@dataclass
class RatesView:
    """A second, over the last `seconds`. `miss_seconds`: how long a miss took on average; 0 where there was none."""

    seconds: float
    reads: float
    hits: float
    misses: float
    passed: float
    hit_rate: float
    miss_seconds: float


@dataclass
class MemoryView:
    used: int
    limit: int


@dataclass
class UpqueriesView:
    """`waiting`: requests that wait for a connection; `held_back`: those of them whose table or shard has its part."""

    in_flight: int
    waiting: int
    held_back: int
    sent: int


@dataclass
class ConnectionsView:
    """`sessions`: clients over MySQL's protocol. `source`: connections to the source, `running` at work."""

    sessions: int
    source: int
    running: int


@dataclass
class FillView:
    """A large fill under way. `seconds_left`: 0 where that is not known."""

    cache: str
    by: str
    stage: str
    keys: int
    held: int
    left: int
    rows: int
    seconds: float
    seconds_left: float


@dataclass
class CacheView:
    """One cache. `saved_seconds`: its hits times the median of its misses. `passed_by_reason`: reads of it that MySQL
    answered. `trust`: "" while it is not ready, "trusted", or "being checked" with `checked` answers that were
    MySQL's own. `emptied`: keys that went away; `emptied_by`: by cause and table ("" where no table is); `compared`:
    by table, of the answers that a change emptied and that were filled again, those that were compared with the old
    one, and `needless` those of them that were equal. `bytes`, `..._us`: measured now and then. The last six are for
    those who may read texts."""

    name: str
    database: str
    mode: str
    state: str
    origin: str
    tables: Sequence[str]
    keys: int
    bytes: int
    hits: int
    misses: int
    passed: int
    passed_by_reason: Mapping[str, int]
    hit_p50_us: float
    hit_p99_us: float
    miss_p50_us: float
    miss_p99_us: float
    saved_seconds: float
    emptied: int
    emptied_by: Mapping[str, Mapping[str, int]]
    compared: Mapping[str, int]
    needless: Mapping[str, int]
    trust: str
    checked: int
    sql: str
    why: str
    passed_why: str
    account: str
    reason: str
    decided: str


@dataclass
class QueryView:
    """A query that MySQL answers. `id`: CREATE CACHE FROM QUERY takes it. `cacheable`: yes, no, or unknown. `seen`:
    seconds since 1970."""

    id: str
    query: str
    database: str
    count: int
    p50_us: float
    total_ms: float
    cacheable: str
    reason: str
    seen: float


@dataclass
class HistoryView:
    """The last hour: a row for each `every` seconds, the oldest first."""

    every: float
    columns: Sequence[str]
    rows: Sequence[Sequence[float]]


@dataclass
class Overview:
    """`at`: seconds since 1970. `ready`: why callers are not served, "" if they are. `queries`: by MySQL's time, the
    most first. `access_log`: the part of the reads that is logged; 0: none is."""

    at: float
    version: str
    ready: str
    source: SourceView
    reads: ReadsView
    rates: RatesView
    memory: MemoryView
    upqueries: UpqueriesView
    connections: ConnectionsView
    loop_late_seconds: float
    fills: Sequence[FillView]
    access_log: float
    counters: Mapping[str, int]
    caches: Mapping[str, CacheView]
    queries: Sequence[QueryView]
    history: HistoryView


TEXTS = ("sql", "why", "passed_why", "account", "reason", "decided")
"""What of a CacheView is for those who may read texts; so are the `queries` of an Overview."""


ACCESS_HOURS = (1, 24, 168)
"""Of how many hours the access log is told: an hour, a day, a week."""


class NotTold(Exception):
    """What is asked for cannot be told now: a sentence."""


class AccessCharts(Protocol):
    """What the access log says (docs/http.md). `share`: the part of the reads that is logged."""

    @property
    def share(self) -> float: ...

    async def look(self, hours: float) -> bytes:
        """JSON, of the last so many hours, one of ACCESS_HOURS. Raises NotTold."""
        ...


class Overviews(Protocol):
    """Makes overviews. `charts`: None where no reads are logged."""

    charts: AccessCharts | None

    async def look(self) -> Overview:
        """As it is now. In slices: there may be thousands of caches."""
        ...

    def plan(self, name: str) -> tuple[str, PlanGraph]:
        """A cache's plan as text, and to be drawn. Raises UnknownCache."""
        ...
