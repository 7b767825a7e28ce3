"""What automatic caching counts for one cache of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import exp
from typing import Protocol

from proxy.auto.fill_budget import SAVED_US
from proxy.auto.passed_reads import ProxiedQuery
from proxy.port.api import CacheInfo
from proxy.port.made_by import MadeBy

MINUTE = 60.0
LEAST_HITS = 0.1  # of all reads: with fewer the memory is better used otherwise, whatever time they save
ENOUGH_HITS = 0.9  # with so many no miss is so slow that the cache would not pay
LEAST_MISSES = 20.0  # fewer say nothing of a cache: the first ones are slow, and come once for each key
LATEST_READS = 100.0  # a cache is judged by the reads of the last minute, or by so many where these took longer
OF_WRITES = 0.1  # statements that change the tables, for each read: more take a short loop longer than hits save
LEAST_WRITES = 20.0  # of these, a second: fewer are no burden
FILL_US = 50.0  # what a miss costs this process at least, beside MySQL's time
MUCH = 10.0  # times what a hit saves the loop: with so much of MySQL's time a cache is kept
LEFT_US = 80.0  # what a read costs that is left to MySQL, beside one that no cache is for


class Counted(Protocol):
    """A cache as it is counted."""

    @property
    def name(self) -> str: ...

    @property
    def hits(self) -> int: ...

    def info(self) -> CacheInfo: ...


class Caches(Protocol):
    """The proxy's caches, reduced to the members that automatic caching needs."""

    def automatic(self) -> Sequence[Counted]:
        """Those that automatic caching has made, but for those that somebody has made his own since."""
        ...

    async def create(self, name: str, sql: str, database: str, made_by: MadeBy) -> CacheInfo: ...

    async def drop_automatic(self, name: str) -> None:
        """Raises UnknownCache where there is none of that name, or it is somebody's own."""
        ...

    @property
    def hold_all(self) -> Callable[[str, int], None]:
        """Fills all keys of a cache that has at most this many, without holding up reads."""
        ...


@dataclass(slots=True)
class Judged:
    """The reads by which a cache is judged, weighed by age: those of the last minute, or the last LATEST_READS."""

    hits: float = 0.0
    misses: float = 0.0

    def add(self, hits: int, misses: int, decay: float) -> None:
        """`decay`: of the counts of a minute."""
        kept = max(decay, exp(-(hits + misses) / LATEST_READS))
        self.hits = self.hits * kept + hits
        self.misses = self.misses * kept + misses

    def pay(self, saved_us: float, lost_us: float) -> bool:
        """Whether these reads cost less with the cache. `saved_us`: by a hit; `lost_us`: by a miss."""
        share = self.hits / max(1.0, self.hits + self.misses)
        if self.misses < LEAST_MISSES or share >= ENOUGH_HITS:
            return True
        return share >= LEAST_HITS and self.hits * saved_us > self.misses * lost_us


@dataclass(slots=True)
class Made:
    """One cache. `direct_us`: MySQL's time for such reads before. `hits`, `misses`, `left`, `work_us` (`CacheInfo`): of
    the last minute, weighed by age; `seen_...`: the cache's own counts at the last look. `worth`: microseconds that a
    hit saves on a loop short of time, MySQL's time included. `tables`: those it reads. `hits_now`: hits of about the
    last second. `burdened`: how many looks in a row found its tables changed too often for these hits."""

    entry: ProxiedQuery
    at: float
    direct_us: float
    hits: float = 0.0
    misses: float = 0.0
    left: float = 0.0
    work_us: float = 0.0
    worth: float = SAVED_US
    tables: frozenset[str] = frozenset()
    hits_now: float = 0.0
    looked_hits: int = 0
    burdened: int = 0
    judged: Judged = field(default_factory=Judged)
    pays: bool = False  # it has since `woke`
    read_at: float = 0.0
    woke: float = 0.0  # when its reads began, or began again after a pause before which it paid: a trial begins there
    saved_lately_us: float = 0.0  # of the loop, between the last two looks
    seen_hits: int = 0
    seen_misses: int = 0
    seen_left: int = 0
    seen_passed: int = 0
    passed: float = 0.0  # reads of the last minute that MySQL has answered, whatever is held
    passed_why: str = ""
    seen_work_us: float = 0.0
    paid_hits: int = 0  # for which the budget was told
    bytes: int = 0
    miss_us: float = 0.0
    refused: str = ""  # why it cannot be cached any more

    @property
    def reads(self) -> float:
        return self.hits + self.misses + self.left

    @property
    def seen_reads(self) -> int:
        return self.seen_hits + self.seen_misses

    @property
    def saves_much(self) -> bool:
        """Whether a hit saves so much of MySQL's time that the loop's does not count beside it."""
        return self.worth >= MUCH * SAVED_US

    @property
    def lost_us(self) -> float:
        """What a miss takes longer than MySQL alone."""
        return max(FILL_US, self.miss_us - self.direct_us)

    @property
    def saved_us(self) -> float:
        """MySQL's time that hits have saved in the last minute, less what misses took longer than MySQL alone."""
        return self.hits * self.direct_us - self.misses * self.lost_us

    @property
    def is_paying(self) -> bool:
        return self.judged.pay(self.direct_us, self.lost_us)

    def look(self, hits: int, writes: float, decay: float) -> None:
        """`hits`: of the cache until now. `writes`: statements of about the last second that changed its tables.
        `decay`: of the counts of a second."""
        self.hits_now = self.hits_now * decay + max(0, hits - self.looked_hits)
        self.looked_hits = hits
        burdens = writes >= LEAST_WRITES and writes > OF_WRITES * self.hits_now
        self.burdened = self.burdened + 1 if burdens else 0

    def count(self, info: CacheInfo, decay: float, now: float) -> None:
        hits, left, work_us = info.hits - self.seen_hits, info.left - self.seen_left, info.work_us - self.seen_work_us
        if hits or left or info.misses > self.seen_misses:
            if self.pays and now - self.read_at >= MINUTE:  # what writes have emptied in a pause is filled again
                self.woke, self.pays = now, False
            self.read_at = now
        self.saved_lately_us = hits * self.worth - work_us - left * LEFT_US
        self.hits = self.hits * decay + hits
        self.misses = self.misses * decay + info.misses - self.seen_misses
        self.judged.add(hits, info.misses - self.seen_misses, decay)
        self.left = self.left * decay + left
        self.work_us = self.work_us * decay + work_us
        self.seen_hits, self.seen_misses, self.bytes = info.hits, info.misses, info.bytes
        self.seen_left, self.seen_work_us = info.left, info.work_us
        self.passed = self.passed * decay + info.passed - self.seen_passed
        self.seen_passed, self.passed_why = info.passed, info.passed_why
        self.miss_us = info.miss_p50_us
        self.pays |= hits > 0 and self.is_paying
        self.refused = (info.why or info.state) if info.state == "refused" else ""
