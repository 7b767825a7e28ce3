"""What the sample takes on MySQL's port and on Upwell's: the same driver asks the same of both.

Each query is measured in several rounds that are seconds apart. On a busy machine a process may wait for a core at
each read, for a tenth of a second on end; such a bout meets one round of a query, and the median of all hides it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from statistics import median

from examples.lobsters.cached import Made
from examples.lobsters.cpu import process_seconds
from examples.lobsters.direct import Direct
from examples.lobsters.measure import Effort, draw_keys, same
from examples.lobsters.pages import Page, PageStream, Rows, Write, run_page
from examples.lobsters.queries import CATALOGUE, Parameters, Sample
from upwell.client import Client

ROUNDS = 5
SETTLE_SECONDS = 2.0  # for one query at most: until its answers are given without a comparison
SETTLE_FOR = 100  # times what a measurement takes: who measures for a moment does not wait for that
WRITES = 9  # that a hit is waited for
WRITE_SECONDS = 5.0  # until a write must be seen
WARM_PAGES = 60
PAGES = (20, 200)  # on each port: at least, and at most
PAGE_SECONDS = 12.0  # after which there are enough
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


@dataclass(slots=True)
class Asked:
    """One query in the pages. Milliseconds of each of its reads, at MySQL's port and at Upwell's, misses among them.
    `hits`: the part of Upwell's answers that were hits."""

    id: str
    mysql_ms: list[float] = field(default_factory=list)
    upwell_ms: list[float] = field(default_factory=list)
    hits: float = 0.0


@dataclass(frozen=True, slots=True)
class PageCosts:
    """What a page takes at one port, in milliseconds.

    `page_ms`: its reads and writes, one after the other. `mysql_cpu_ms`: CPU of the whole MySQL, None where it cannot
    be read. `upwell_cpu_ms`: CPU of the proxy.
    """

    page_ms: float
    mysql_cpu_ms: float | None
    upwell_cpu_ms: float


@dataclass(frozen=True, slots=True)
class Pages:
    """`count` pages at each port, in turns. `queries`: of those pages, the one that MySQL spends most time on first."""

    count: int
    alone: PageCosts
    through: PageCosts
    queries: Sequence[Asked]

    def share(self, asked: Asked) -> float:
        """The query's part of the time that all reads of the pages take at MySQL's port."""
        return sum(asked.mysql_ms) / sum(sum(each.mysql_ms) for each in self.queries)


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

    def write_until_seen(self) -> tuple[float, str]:
        """Milliseconds from a COMMIT's end at MySQL until an answer at Upwell's port has it, and how it was served."""
        times = [self._seen_after(number + 1) for number in range(WRITES)]
        ((served, *_),) = self.through.query("EXPLAIN LAST STATEMENT")
        return median(times) * 1e3, str(served)

    def pages(self, mysql: int | None, upwell: int, stream: PageStream, enough: float) -> Pages:
        """Pages in turns, one at each port. Writes go to MySQL's port, as an application may send them. After `enough`
        seconds a few pages will do. `mysql`, `upwell`: numbers of the processes. A query that has no cache is left out:
        a Vitess may not know it at all."""

        def warm(id: str, key: Parameters) -> Rows:
            return self.through.read(id, key) if id in self._made.names else ()

        for (_, page), _ in zip(stream, range(WARM_PAGES), strict=False):
            run_page(page, warm, self.direct.write)
        asked = {id: Asked(id) for id in CATALOGUE}
        ports = (
            PortPages(self.direct, mysql, upwell, self._made.names, lambda id: asked[id].mysql_ms),
            PortPages(self.through, mysql, upwell, self._made.names, lambda id: asked[id].upwell_ms),
        )
        counted = self._counted()
        pages, end = 0, time.monotonic() + enough
        while pages < PAGES[0] or (pages < PAGES[1] and time.monotonic() < end):
            for port in ports:
                port.run(next(stream)[1], self.direct.write)
            pages += 1
        for id, (hits, reads) in self._counted().items():
            new = reads - counted[id][1]
            asked[id].hits = (hits - counted[id][0]) / new if new else 0.0
        queries = sorted((each for each in asked.values() if each.mysql_ms), key=lambda each: -sum(each.mysql_ms))
        alone, through = (port.costs(pages) for port in ports)
        return Pages(pages, alone, through, queries)

    def _counted(self) -> dict[str, tuple[int, int]]:
        """Of each query: (hits, hits and misses) so far."""
        caches = {cache.name: (cache.hits, cache.hits + cache.misses) for cache in self._client.caches()}
        return {id: caches[name] for id, name in self._made.names.items()}

    def _seen_after(self, story: int) -> float:
        shown = self.through.read(STORY, (story,))
        self.direct.query(RAISE, (story,))
        began = time.perf_counter()
        while self.through.read(STORY, (story,)) == shown:
            if time.perf_counter() - began > WRITE_SECONDS:
                raise TimeoutError(f"a write was not seen within {WRITE_SECONDS:.0f} s")
        return time.perf_counter() - began

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


class PortPages:
    """Pages whose reads go to one port. `times`: where the milliseconds of a query's reads are noted. `known`: the
    queries that are read."""

    def __init__(
        self,
        reader: Direct,
        mysql: int | None,
        upwell: int,
        known: Container[str],
        times: Callable[[str], list[float]],
    ) -> None:
        self._reader, self._processes, self._known, self._times = reader, (mysql, upwell), known, times
        self._took = [0.0, 0.0, 0.0]  # seconds: of the client, of MySQL's CPU, of Upwell's

    def run(self, page: Page, write: Callable[[Write], None]) -> None:
        before = self._clocks()
        run_page(page, self._read, write)
        self._took = [took + now - then for took, now, then in zip(self._took, self._clocks(), before, strict=True)]

    def costs(self, pages: int) -> PageCosts:
        client, mysql, upwell = (took / pages * 1e3 for took in self._took)
        return PageCosts(client, None if self._processes[0] is None else mysql, upwell)

    def _clocks(self) -> list[float]:
        used = [0.0 if pid is None else process_seconds(pid) for pid in self._processes]
        return [time.perf_counter(), *used]

    def _read(self, id: str, key: Parameters) -> Rows:
        if id not in self._known:
            return ()
        began = time.perf_counter()
        rows = self._reader.read(id, key)
        self._times(id).append((time.perf_counter() - began) * 1e3)
        return rows


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
