"""What an access log says: which keys to warm, which queries to cache, which caches to drop.

An engine adds up (`bulk/rank_direct.py`, `bulk/rank_spark.py`), here follows what is made of the sums. Each row counts
by its weight. Sums are whole numbers, so that engines agree to the last digit: of weights in thousandths, of scores in
millionths.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from bulk.access_rows import CANNOT, HIT, LISTED, MISS, PASSED

READS_UNIT, SCORE_UNIT = 1_000, 1_000_000
HOUR = 3_600_000_000  # microseconds
HIT_MS = 0.1  # that a hit takes, about
NEVER, SELDOM, MISSES = "never read", "read less than once an hour", "more misses than hits"


@dataclass(frozen=True, slots=True)
class Asked:
    """`hours`: how far back, from the newest row; None: all. `half_life`: hours after which a read counts half. `top`:
    keys of each cache."""

    hours: float | None = None
    half_life: float = 24.0
    top: int = 10_000


@dataclass(frozen=True, slots=True)
class Part:
    """Rows that agree in all of this. `reason`: of those without a cache. `us`: all together. Times in microseconds
    since 1970."""

    proxy: str
    cache: str | None
    database: str
    query: str
    outcome: str
    reason: str
    rows: int
    reads: int  # in READS_UNIT
    us: int
    oldest: int
    newest: int


@dataclass(frozen=True, slots=True)
class KeySum:
    """A key of a cache. `score`: its reads, weighed by age, in SCORE_UNIT; `reads` in READS_UNIT."""

    cache: str
    database: str
    query: str
    key: str
    score: int
    reads: int


@dataclass(frozen=True, slots=True)
class Sums:
    """`keys`: of each cache the first by score, those of equal scores by their text."""

    parts: Sequence[Part]
    keys: Sequence[KeySum]


@dataclass(frozen=True, slots=True)
class HotKey:
    key: str
    score: float
    reads: float


@dataclass(slots=True)
class CacheUse:
    """`share`: of its reads that were hits. `hours`: since it was first seen. `why`: it may be dropped for that."""

    name: str
    database: str
    query: str
    hits: float = 0.0
    misses: float = 0.0
    passed: float = 0.0
    hours: float = 0.0
    why: str = ""
    keys: list[HotKey] = field(default_factory=list)

    @property
    def reads(self) -> float:
        return self.hits + self.misses + self.passed

    @property
    def share(self) -> float:
        return self.hits / self.reads if self.reads else 0.0


@dataclass(frozen=True, slots=True)
class PassedQuery:
    """`saved`: seconds of MySQL's that hits would have saved. `why`: it cannot be cached."""

    query: str
    database: str
    reads: float
    ms: float  # of one
    saved: float
    why: str = ""

    @property
    def statement(self) -> str:
        """What caches it; in its database."""
        return "" if self.why or self.query.startswith("(") else f"CREATE CACHE FROM {self.query}"


@dataclass(frozen=True, slots=True)
class Ranking:
    """`caches`: that exist, the most read first. `gone`: those that do not any more."""

    rows: int
    proxies: tuple[str, ...]
    oldest: datetime | None
    newest: datetime | None
    caches: Sequence[CacheUse]
    gone: Sequence[str]
    queries: Sequence[PassedQuery]

    @property
    def to_cache(self) -> list[PassedQuery]:
        return [query for query in self.queries if not query.why and query.saved > 0]

    @property
    def to_drop(self) -> list[CacheUse]:
        order = {NEVER: 0, SELDOM: 1, MISSES: 2}
        found = [cache for cache in self.caches if cache.why]
        return sorted(found, key=lambda cache: (order[cache.why], cache.share, -cache.reads, cache.name))


def ranked(sums: Sums) -> Ranking:
    parts = sums.parts
    newest = max((part.newest for part in parts), default=0)
    there, gone = _existing([part for part in parts if part.cache is not None])
    by_cache: dict[tuple[str, str, str], list[Part]] = defaultdict(list)
    for part in parts:
        if part.cache is not None and there.get(part.cache) == (part.database, part.query):
            by_cache[part.cache, part.database, part.query].append(part)
    caches = {key: _use(key, some, newest) for key, some in by_cache.items()}
    for one in sums.keys:
        if (cache := caches.get((one.cache, one.database, one.query))) is not None:
            cache.keys.append(HotKey(one.key, one.score / SCORE_UNIT, one.reads / READS_UNIT))
    for cache in caches.values():
        cache.keys.sort(key=lambda hot: (-hot.score, hot.key))
    return Ranking(
        sum(part.rows for part in parts),
        tuple(sorted({part.proxy for part in parts})),
        moment(min(part.oldest for part in parts)) if parts else None,
        moment(newest) if parts else None,
        sorted(caches.values(), key=lambda cache: (-cache.reads, cache.name)),
        gone,
        _queries(part for part in parts if part.cache is None),
    )


def _existing(parts: Sequence[Part]) -> tuple[dict[str, tuple[str, str]], list[str]]:
    """(of each cache that exists its database and query, the names of those that do not any more). A proxy lists all
    that exist now and then: what it did not list last, and was not read since, is gone there."""
    last: dict[str, int] = {}
    for part in parts:
        if part.outcome == LISTED:
            last[part.proxy] = max(last.get(part.proxy, 0), part.newest)
    there: dict[str, tuple[int, str, str]] = {}
    for part in parts:
        assert part.cache is not None
        if part.newest >= last.get(part.proxy, 0):
            found = (part.newest, part.database, part.query)
            there[part.cache] = max(there.get(part.cache, found), found)
    names = {part.cache for part in parts if part.cache is not None}
    return {name: found[1:] for name, found in there.items()}, sorted(names - there.keys())


def _use(key: tuple[str, str, str], parts: Sequence[Part], newest: int) -> CacheUse:
    found = CacheUse(*key)
    for part in parts:
        reads = part.reads / READS_UNIT
        found.hits += reads if part.outcome == HIT else 0.0
        found.misses += reads if part.outcome == MISS else 0.0
        found.passed += reads if part.outcome == PASSED else 0.0
    found.hours = (newest - min(part.oldest for part in parts)) / HOUR
    if not found.reads:
        found.why = NEVER
    elif found.hours >= 1 and found.reads < found.hours:
        found.why = SELDOM
    elif found.misses + found.passed > found.hits:
        found.why = MISSES
    return found


def _queries(parts: Iterable[Part]) -> list[PassedQuery]:
    by_query: dict[tuple[str, str], list[Part]] = defaultdict(list)
    for part in parts:
        by_query[part.query, part.database].append(part)
    found = []
    for (query, database), some in by_query.items():
        reads = sum(part.reads for part in some) / READS_UNIT
        ms = sum(part.us for part in some) / reads / 1000 if reads else 0.0
        reason = max(some, key=lambda part: (part.newest, part.reason)).reason
        why = reason.removeprefix(CANNOT) if reason.startswith(CANNOT) else ""
        found.append(PassedQuery(query, database, reads, ms, reads * max(0.0, ms - HIT_MS) / 1000, why))
    return sorted(found, key=lambda one: (-one.saved, one.query, one.database))


def moment(us: int) -> datetime:
    return datetime.fromtimestamp(us / 1e6, UTC)
