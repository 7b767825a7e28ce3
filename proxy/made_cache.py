"""What automatic caching counts of one cache that it has made."""

from __future__ import annotations

from dataclasses import dataclass

from proxy.api import CacheInfo
from proxy.fill_budget import SAVED_US
from proxy.proxied import ProxiedQuery

MINUTE = 60.0
LEAST_HITS = 0.1  # of all reads: with fewer the memory is better used otherwise, whatever time they save
FILL_US = 50.0  # what a miss costs this process at least, beside MySQL's time
HIT_US = 20.0  # what a hit takes, where none was timed yet
LEFT_US = 80.0  # what a read costs that is left to MySQL, beside one that no cache is for


@dataclass(slots=True)
class Made:
    """One cache: `direct_us` is what MySQL took for its reads before. `hits`, `misses`, `left` and `work_us`
    (`CacheInfo`) of the last minute, weighed by age; `seen_...` the cache's own counts at the last look. `worth`:
    microseconds that a hit saves where the loop is short, of MySQL's time, too."""

    entry: ProxiedQuery
    at: float
    direct_us: float
    hits: float = 0.0
    misses: float = 0.0
    left: float = 0.0
    work_us: float = 0.0
    worth: float = SAVED_US
    pays: bool = False  # it has since `woke`
    read_at: float = 0.0
    woke: float = 0.0  # when its reads began, or began again after a pause before which it paid: a trial begins there
    saved_lately_us: float = 0.0  # of the loop, between the last two looks
    seen_hits: int = 0
    seen_misses: int = 0
    seen_left: int = 0
    seen_work_us: float = 0.0
    paid_hits: int = 0  # for which the budget was told
    bytes: int = 0
    hit_us: float = HIT_US
    miss_us: float = 0.0
    refused: str = ""  # why it cannot be cached any more

    @property
    def reads(self) -> float:
        return self.hits + self.misses + self.left

    @property
    def saved_us(self) -> float:
        """Time that hits have saved in the last minute, less what misses took longer than MySQL alone."""
        more = max(FILL_US, self.miss_us - self.direct_us)
        return self.hits * max(0.0, self.direct_us - self.hit_us) - self.misses * more

    @property
    def is_paying(self) -> bool:
        return self.hits >= self.reads * LEAST_HITS and self.saved_us > 0

    def count(self, info: CacheInfo, decay: float, now: float) -> None:
        hits, left, work_us = info.hits - self.seen_hits, info.left - self.seen_left, info.work_us - self.seen_work_us
        if hits or left or info.misses > self.seen_misses:
            if self.pays and now - self.read_at >= MINUTE:  # what writes have emptied in a pause is filled again
                self.woke, self.pays = now, False
            self.read_at = now
        self.saved_lately_us = hits * self.worth - work_us - left * LEFT_US
        self.hits = self.hits * decay + hits
        self.misses = self.misses * decay + info.misses - self.seen_misses
        self.left = self.left * decay + left
        self.work_us = self.work_us * decay + work_us
        self.seen_hits, self.seen_misses, self.bytes = info.hits, info.misses, info.bytes
        self.seen_left, self.seen_work_us = info.left, info.work_us
        self.hit_us = info.hit_p50_us or HIT_US
        self.miss_us = info.miss_p50_us
        self.pays |= hits > 0 and self.is_paying
        self.refused = (info.why or info.state) if info.state == "refused" else ""
