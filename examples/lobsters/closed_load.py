"""A closed load of the site's pages at MySQL's port and at Upwell's, in turns, from caches that hold nothing yet.

Some clients read and write one page after the other, each by a connection to either port that was made in the same way.
A round is a turn at each port, as long at one as at the other. Which port is first changes from round to round, so what
else the machine does meets both. The first rounds warm both; the figures are of the others.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain
from statistics import fmean

import pymysql

from examples.lobsters.cpu import process_seconds
from examples.lobsters.data import Shape
from examples.lobsters.direct import Direct
from examples.lobsters.pages import EvenStream, Page, PageStream, Rows, Write, run_page
from examples.lobsters.queries import Parameters

SEEDS = (20, 21)  # of the pages at MySQL, and of those at Upwell
CLIENTS = max(2, min(4, os.cpu_count() or 2))  # MySQL alone is busy then, and hardly anything waits for a core
TURN = 0.3  # seconds at one port, and until the pages end that were begun
FEWEST = 4  # rounds
WARMING = 1 / 3  # of the time
WINDOW = 5  # rounds behind each point of a chart
DEADLOCK = 1213


@dataclass(frozen=True, slots=True)
class Turn:
    """What one port's pages took. `page_ms`: of each, in milliseconds. `mysql_ms`: CPU of the whole MySQL, None where
    it cannot be read. `upwell_ms`: CPU of the proxy. `hits`: of the `reads`."""

    page_ms: tuple[float, ...]
    mysql_ms: float | None
    upwell_ms: float
    reads: int
    hits: int


@dataclass(frozen=True, slots=True)
class Round:
    """`warm`: it counts."""

    alone: Turn
    through: Turn
    warm: bool


@dataclass(slots=True)
class Asked:
    """One query in the pages that count. Milliseconds of each of its reads, at MySQL's port and at Upwell's, misses
    among them. `hits`: the part of Upwell's answers that were hits."""

    id: str
    mysql_ms: list[float] = field(default_factory=list)
    upwell_ms: list[float] = field(default_factory=list)
    hits: float = 0.0


@dataclass(frozen=True, slots=True)
class PageCosts:
    """What a page takes at one port. Milliseconds, `page_ms` with median and 99th percentile; `a_second`: pages of all
    clients; `mysql_cpu_ms`: None where it cannot be read; `hits`: a part of the reads; `pages`: how many there were."""

    page_ms: float
    p50_ms: float
    p99_ms: float
    a_second: float
    mysql_cpu_ms: float | None
    upwell_cpu_ms: float
    hits: float
    pages: int


@dataclass(frozen=True, slots=True)
class Pages:
    """The whole load. `queries`: of the pages that count, the one that MySQL spends most time on first."""

    clients: int
    rounds: Sequence[Round]
    queries: Sequence[Asked]

    @property
    def alone(self) -> PageCosts:
        return costs([round_.alone for round_ in self.rounds if round_.warm], self.clients)

    @property
    def through(self) -> PageCosts:
        return costs([round_.through for round_ in self.rounds if round_.warm], self.clients)

    def history(self) -> list[tuple[PageCosts, PageCosts]]:
        """For each round what a page took at either port, in that round and those just before it."""
        windows = [self.rounds[max(0, end - WINDOW) : end] for end in range(1, len(self.rounds) + 1)]
        return [
            (
                costs([each.alone for each in window], self.clients),
                costs([each.through for each in window], self.clients),
            )
            for window in windows
        ]

    def share(self, asked: Asked) -> float:
        """The query's part of the time that all reads of the pages take at MySQL's port."""
        return sum(asked.mysql_ms) / sum(sum(each.mysql_ms) for each in self.queries)


def costs(turns: Sequence[Turn], clients: int) -> PageCosts:
    """Of all pages of these turns, at least one."""
    times = sorted(chain.from_iterable(turn.page_ms for turn in turns))
    mean = fmean(times)
    mysql = [turn.mysql_ms for turn in turns if turn.mysql_ms is not None]
    return PageCosts(
        mean,
        percentile(times, 0.5),
        percentile(times, 0.99),
        clients * 1e3 / mean,  # of a closed load. A turn's end, where some clients have no page left, is not in it
        sum(mysql) / len(times) if mysql else None,
        sum(turn.upwell_ms for turn in turns) / len(times),
        sum(turn.hits for turn in turns) / max(1, sum(turn.reads for turn in turns)),
        len(times),
    )


def percentile(ascending: Sequence[float], part: float) -> float:
    """The smallest of them that is not below `part` of them all."""
    return ascending[max(0, -int(-part * len(ascending) // 1) - 1)]


class Port:
    """One port: a connection of each client, and the pages that they visit there.

    `known`: the queries that are read; a Vitess may not know others at all.
    """

    def __init__(self, connections: Sequence[Direct], known: Collection[str], pages: PageStream) -> None:
        self.connections, self._known, self._pages = connections, known, pages
        self._one = threading.Lock()
        self.times: dict[str, list[float]] = {id: [] for id in known}  # milliseconds of each read

    def run(self, seconds: float, pool: ThreadPoolExecutor) -> list[float]:
        """Pages of all clients for so long: milliseconds of each."""
        end = time.perf_counter() + seconds
        return list(chain.from_iterable(pool.map(lambda client: self._visit(client, end), self.connections)))

    @property
    def reads(self) -> int:
        return sum(map(len, self.times.values()))

    def forget(self) -> None:
        """What the reads took until now."""
        for times in self.times.values():
            times.clear()

    def _visit(self, client: Direct, end: float) -> list[float]:
        """One page at least."""
        took: list[float] = []
        while (began := time.perf_counter()) < end or not took:
            run_page(self._next(), lambda id, key: self._read(client, id, key), lambda write: write_to(client, write))
            took.append((time.perf_counter() - began) * 1e3)
        return took

    def _next(self) -> Page:
        with self._one:
            return next(self._pages)[1]

    def _read(self, client: Direct, id: str, key: Parameters) -> Rows:
        if id not in self._known:
            return ()
        began = time.perf_counter()
        rows = client.read(id, key)
        self.times[id].append((time.perf_counter() - began) * 1e3)
        return rows


def write_to(client: Direct, write: Write) -> None:
    """As applications do: what MySQL rolled back to end a deadlock is tried again."""
    while True:
        try:
            return client.write(write)
        except pymysql.err.OperationalError as error:
            if error.args[0] != DEADLOCK:
                raise


class ClosedLoad:
    """`alone`, `through`: a connection of each client to MySQL, and to Upwell. `mysql`, `upwell`: numbers of the
    processes. `hits`: of each query with a cache, so far, as Upwell counts them. `writes`: whether pages may write."""

    def __init__(
        self,
        alone: Sequence[Direct],
        through: Sequence[Direct],
        shape: Shape,
        mysql: int | None,
        upwell: int,
        hits: Callable[[], Mapping[str, int]],
        *,
        writes: bool,
    ) -> None:
        known = hits().keys()
        self._alone, self._through = (
            Port(connections, known, EvenStream(shape, "N", seed, writes=writes))
            for connections, seed in zip((alone, through), SEEDS, strict=True)
        )
        self._processes, self._hits = (mysql, upwell), hits
        self.clients = len(alone)

    def run(self, enough: float, tell: Callable[[Pages, float], None]) -> Pages:
        """For about `enough` seconds. `tell` is given what there is after each round, and which part of the whole that
        is."""
        rounds: list[Round] = []
        began = time.monotonic()
        first: Mapping[str, int] = {}
        with ThreadPoolExecutor(self.clients) as pool:
            while len(rounds) < FEWEST or time.monotonic() < began + enough:
                warm = len(rounds) >= FEWEST // 2 and time.monotonic() > began + enough * WARMING
                if warm and not first:
                    first = self._hits()
                    self._alone.forget()
                    self._through.forget()
                order = (self._alone, self._through) if len(rounds) % 2 else (self._through, self._alone)
                done = {port: self._turn(port, pool) for port in order}
                rounds.append(Round(done[self._alone], done[self._through], warm))
                done_part = min(max((time.monotonic() - began) / enough, 0.0), len(rounds) / FEWEST, 1.0)
                tell(Pages(self.clients, rounds, ()), done_part)
        return Pages(self.clients, rounds, self._asked(first))

    def _turn(self, port: Port, pool: ThreadPoolExecutor) -> Turn:
        hits, reads, used = sum(self._hits().values()), port.reads, self._used()
        took = port.run(TURN, pool)
        mysql, upwell = ((now - then) * 1e3 for now, then in zip(self._used(), used, strict=True))
        return Turn(
            tuple(took),
            None if self._processes[0] is None else mysql,
            upwell,
            port.reads - reads,
            sum(self._hits().values()) - hits,
        )

    def _used(self) -> list[float]:
        """Seconds of CPU so far."""
        return [0.0 if pid is None else process_seconds(pid) for pid in self._processes]

    def _asked(self, first: Mapping[str, int]) -> list[Asked]:
        asked = []
        for id, hits in self._hits().items():
            mysql, upwell = self._alone.times[id], self._through.times[id]
            if mysql:
                asked.append(Asked(id, mysql, upwell, (hits - first[id]) / max(1, len(upwell))))
        return sorted(asked, key=lambda each: -sum(each.mysql_ms))
