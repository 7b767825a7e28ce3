"""What single queries take on MySQL's port and on Upwell's: the same driver asks the same of both.

Each query is measured in several rounds that are seconds apart. On a busy machine a process may wait for a core at
each read, for a tenth of a second on end; such a bout meets one round of a query, and the median of all hides it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from statistics import median

from examples.lobsters.cached import Made
from examples.lobsters.direct import Direct
from examples.lobsters.measure import Effort, draw_keys, same
from examples.lobsters.pages import STORY_UP
from examples.lobsters.queries import CATALOGUE, Parameters, Sample
from upwell.client import Client

ROUNDS = 5
SETTLE_SECONDS = 2.0  # for one query at most: until its answers are given without a comparison
SETTLE_FOR = 100  # times what a measurement takes: who measures for a moment does not wait for that
WRITES = 9  # that a hit is waited for
WRITE_SECONDS = 5.0  # until a write must be seen
LONG = 2.0  # seconds of a read that one round measures well enough
STORY = "W4-D"  # by id; its upvotes are written
RAISE = "UPDATE stories SET upvotes = upvotes + 1 WHERE id = ?"


@dataclass(slots=True)
class Pair:
    """One query on both ports. Milliseconds, medians; `hits`: the part of Upwell's answers that were hits. `first_ms`:
    of the first read of a key."""

    id: str
    mysql_ms: float
    first_ms: float
    upwell_ms: float
    hits: float
    keys: int
    differences: list[str] = field(default_factory=list)

    @property
    def gain(self) -> float:
        """How many times MySQL's time is Upwell's."""
        return self.mysql_ms / self.upwell_ms


@dataclass(slots=True)
class Reads:
    """What one query's reads took, in seconds. `expected`: MySQL's answer for each key; `hits`: of Upwell's reads."""

    id: str
    expected: dict[Parameters, Sequence[tuple[object, ...]]]
    first: list[float]
    mysql: list[float] = field(default_factory=list)
    upwell: list[float] = field(default_factory=list)
    hits: int = 0


@dataclass(frozen=True, slots=True)
class Written:
    """A write at MySQL's port and the read at Upwell's port that shows it, as text with their values. `shown`: the
    column before and after; `served`: how the read was; `ms`: from the COMMIT's end, the median of several."""

    write: str
    read: str
    shown: tuple[int, int]
    served: str
    ms: float


def seconds(port: Direct, id: str, key: Parameters) -> float:
    """What one read takes its client."""
    began = time.perf_counter()
    port.read(id, key)
    return time.perf_counter() - began


class TwoPorts:
    """`direct` is a connection to MySQL, `through` one to Upwell: the same driver, account and database."""

    def __init__(self, direct: Direct, through: Direct, client: Client, made: Made, effort: Effort) -> None:
        self.direct, self.through = direct, through
        self._client, self._made, self._effort = client, made, effort

    def begin(self, id: str, sample: Sample) -> Reads:
        """Reads a few keys of one query until Upwell answers them with hits."""
        keys = draw_keys(CATALOGUE[id], sample, self._effort.keys)
        # The first run of each key is not measured at MySQL: its pages are in memory then, as in a busy server.
        expected = {key: self.direct.read(id, key) for key in keys}
        reads = Reads(id, expected, [seconds(self.through, id, key) for key in keys])
        self._settle(id, keys)
        return reads

    def measure(self, reads: Reads) -> None:
        """One round of a query."""
        before = self._hits(reads.id)
        self._in_turns(reads)
        reads.hits += self._hits(reads.id) - before

    def end(self, reads: Reads) -> Pair:
        """The source must be at rest: the answers are compared."""
        made = Pair(
            reads.id,
            median(reads.mysql) * 1e3,
            median(reads.first) * 1e3,
            median(reads.upwell) * 1e3,
            reads.hits / len(reads.upwell),
            len(reads.expected),
        )
        for key, rows in reads.expected.items():
            made.differences += self.differences(reads.id, key, rows)
        return made

    def differences(self, id: str, key: Parameters, expected: Sequence[tuple[object, ...]]) -> Iterator[str]:
        """A line where Upwell's answer is not MySQL's."""
        seen = self.through.read(id, key)
        if not same(CATALOGUE[id], self.direct, key, expected, seen):
            yield f"{key!r}: MySQL {list(expected)[:3]!r}, Upwell {list(seen)[:3]!r}"

    def write_until_seen(self) -> Written:
        """Writes, and reads until each write is seen. The source must be at rest."""
        seen = [self._seen_after(number + 1) for number in range(WRITES)]
        ((served, *_),) = self.through.query("EXPLAIN LAST STATEMENT")
        write, read = (sql.replace("?", str(WRITES)) for sql in (RAISE, CATALOGUE[STORY].sql))
        return Written(write, read, seen[-1][1], str(served), median(took for took, _ in seen) * 1e3)

    def _seen_after(self, story: int) -> tuple[float, tuple[int, int]]:
        """Seconds, and the votes before and after."""
        before = self.through.read(STORY, (story,))[0][STORY_UP]
        self.direct.query(RAISE, (story,))
        began = time.perf_counter()
        while (now := self.through.read(STORY, (story,))[0][STORY_UP]) == before:
            if time.perf_counter() - began > WRITE_SECONDS:
                raise TimeoutError(f"a write was not seen within {WRITE_SECONDS:.0f} s")
        return time.perf_counter() - began, (before, now)

    def _in_turns(self, reads: Reads) -> None:
        """Reads at MySQL and at Upwell, one after the other: what else the machine does meets both."""
        end = time.perf_counter() + self._effort.seconds
        for key in islice(cycle(reads.expected), self._effort.runs):
            reads.mysql.append(seconds(self.direct, reads.id, key))
            reads.upwell.append(seconds(self.through, reads.id, key))
            if time.perf_counter() > end:
                return

    def _settle(self, id: str, keys: Sequence[Parameters]) -> None:
        """Reads through Upwell until no answer of a whole round is compared with MySQL's first, as those of a new cache
        are. What that costs is in the first reads."""
        end = time.perf_counter() + min(SETTLE_SECONDS, self._effort.seconds * SETTLE_FOR)
        while time.perf_counter() < end:
            before = self._comparisons()
            for key in keys:
                self.through.read(id, key)
            if self._comparisons() == before:
                return

    def _comparisons(self) -> int:
        """With MySQL's own answers so far, of all caches."""
        counters = self._client.status().counters
        return sum(count for name, count in counters.items() if name.startswith("trust_"))

    def _hits(self, id: str) -> int:
        """Of the cache, as Upwell counts them."""
        name = self._made.names[id]
        return next(cache.hits for cache in self._client.caches() if cache.name == name)


def all_pairs(ports: TwoPorts, made: Made, sample: Callable[[], Sample], tell: Callable[[str], None]) -> list[Pair]:
    """Every cached query; `tell` is given what is done next."""
    begun = []
    for number, id in enumerate(made.names, 1):
        tell(f"first reads of {id}, {number} of {len(made.names)}")
        begun.append(ports.begin(id, sample()))
    for round_ in range(1, ROUNDS + 1):
        for reads in begun:
            if round_ > 1 and reads.mysql and median(reads.mysql) > LONG:
                continue
            tell(f"measuring {reads.id}, round {round_} of {ROUNDS}")
            ports.measure(reads)
    return [ports.end(reads) for reads in begun]
