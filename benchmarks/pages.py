"""The sample's pages, as the site's visitors ask for them, with their writes.

Shows: (1) SELECTs that still reach MySQL per fresh page after W warming pages of the same seeded stream (never the
pages of the warm-up), those of fills and those of their brackets apart, by MySQL's own count; (2) the hit rate
of each template beside the ideal of an unbounded cache with exact keys on the very same reads; (3) pages a second in
closed loop and CPU per page, direct and through Upwell's gRPC. Variant N for 1 and 2, which run in the proxy's process:
100,000 pages are 1.3 million reads, and no listener changes which of them reach MySQL. Both variants for 3.

The list of the front page (F1a) costs MySQL up to seconds and every vote empties it: while warming it is asked on one
front page in 100, and the others take the last answer; in the measured windows every page asks it.
"""

from __future__ import annotations

import asyncio
import io
import pickle
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.bench import Bench, CachedSample
from benchmarks.result import Figure, Result, Sheet
from examples.lobsters.cached import wait_until_current
from examples.lobsters.cpu import ConnectionClock, process_seconds
from examples.lobsters.direct import Direct
from examples.lobsters.load import DATABASE
from examples.lobsters.pages import Page, PageStream, Read, Rows, run_page
from examples.lobsters.queries import CATALOGUE, Parameters, of_variant
from proxy.app import running
from proxy.port.api import Served, WireFormat
from proxy.read.open_cache import OpenCache
from proxy.settings.config import load_config
from proxy.system.system import Router
from sqltypes.expression import Row

WORKERS = 8
ROWS = "rows"  # the format in which the pages read: pickled row lists
STOPS = (0, 1_000, 10_000, 30_000, 100_000, 300_000)  # numbers of warming pages after which a window is measured
WINDOW = 1_000
# Query hit rate after 100,000 pages of the set std with exact keys, simulated; by what the key is made of.
IDEAL_BY_KEY = {"S3": 0.009, "S8": 0.009, "S9": 0.009, "S10": 0.009, "C5": 0.010}
IDEAL_STORY, IDEAL_USER, IDEAL_GLOBAL = 0.82, 0.97, 1.0
IDEAL_FALL = 74.0
FRONT = "F1a-N"


def simulated(id: str) -> float:
    """What an unbounded cache with exact keys reaches after 100,000 pages of the set std."""
    if id in IDEAL_BY_KEY:
        return IDEAL_BY_KEY[id]
    draws = CATALOGUE[id].draws
    if not draws:
        return IDEAL_GLOBAL
    return IDEAL_STORY if draws[0] in ("story", "short_id", "stories") else IDEAL_USER


@dataclass
class Ideal:
    """A cache with exact keys, without limit and without invalidation: what was asked once is there."""

    seen: dict[str, set[Parameters]] = field(default_factory=lambda: defaultdict(set))

    def ask(self, id: str, parameters: Parameters) -> bool:
        """Whether every key of the read was asked for before."""
        keys, seen = set(single_keys(parameters)), self.seen[id]
        held = keys <= seen
        seen |= keys
        return held


def single_keys(parameters: Parameters) -> list[Parameters]:
    """The keys of a read: one for each combination of its lists' values."""
    keys: list[Parameters] = [()]
    for value in parameters:
        keys = [(*key, one) for key in keys for one in (value if isinstance(value, tuple) else (value,))]
    return keys


@dataclass
class Window:
    """Counts of one stretch of pages."""

    pages: int = 0
    reads: int = 0
    asked: Counter[str] = field(default_factory=Counter)
    hits: Counter[str] = field(default_factory=Counter)
    ideal: Counter[str] = field(default_factory=Counter)
    fills: int = 0
    brackets: int = 0


class Visitors:
    """Workers that take the next page of one stream, run it through Upwell, and write to MySQL directly."""

    def __init__(self, system: Router, caches: dict[str, str], direct: Direct, stream: PageStream) -> None:
        self._system, self._direct = system, direct
        self._caches: dict[str, OpenCache] = {id: system.caches.open(name, ROWS) for id, name in caches.items()}
        self._stream, self._ideal = stream, Ideal()
        self._warming, self._front_pages = False, 0
        self._front: Sequence[Sequence[Any]] = ()

    async def visit(self, pages: int, warming: bool = False) -> Window:
        """The next pages of the stream; their counts."""
        self._warming = warming
        window = Window(pages=pages)
        upcoming = iter(range(pages))
        await asyncio.gather(*(self._work(upcoming, window) for _ in range(WORKERS)))
        window.reads = window.asked.total()
        return window

    async def _work(self, upcoming: Iterator[int], window: Window) -> None:
        for _ in upcoming:
            _, page = next(self._stream)
            await self._run(page, window)

    async def _run(self, page: Page, window: Window) -> None:
        rows: Rows = ()
        try:
            step = next(page)
            while True:
                if isinstance(step, Read):
                    rows = await self._read(step.id, step.parameters, window)
                else:
                    self._direct.write(step)  # blocks the loop for a fraction of a millisecond, which is the client's
                    rows = ()
                step = page.send(rows)
        except StopIteration:
            return

    async def _read(self, id: str, parameters: Parameters, window: Window) -> Sequence[Sequence[Any]]:
        if id != FRONT:
            return await self._ask(id, parameters, window)
        self._front_pages += 1
        if not (self._warming and self._front) or self._front_pages % 100 == 0:
            self._front = await self._ask(id, parameters, window)
        return self._front

    async def _ask(self, id: str, parameters: Parameters, window: Window) -> Sequence[Sequence[Any]]:
        window.asked[id] += 1
        window.ideal[id] += self._ideal.ask(id, parameters)
        cache = self._caches.get(id)
        if cache is None:
            answer = await self._system.query(CATALOGUE[id].sql, DATABASE, parameters, ROWS)
        else:
            answer = await cache.read(parameters)
            window.hits[id] += answer.served is Served.HIT
        return decoded(answer.body)


def encoded(rows: Sequence[Row]) -> bytes:
    """Rows one after the other, so that the answers of an IN-list's keys can be put together."""
    return b"".join([pickle.dumps(row) for row in rows])


def decoded(body: bytes) -> list[Row]:
    rows, stream = [], io.BytesIO(body)
    while stream.tell() < len(body):
        rows.append(pickle.load(stream))
    return rows


class Selects:
    """SELECTs that MySQL ran, by digest: those that read a table, and those of brackets, which read none."""

    RESET = "TRUNCATE TABLE performance_schema.events_statements_summary_by_digest"
    # What this benchmark asks in between is left out: it names performance_schema, or reads a GTID for the position.
    COUNT = (
        "SELECT COALESCE(SUM(IF(digest_text LIKE '% FROM %', count_star, 0)), 0),"
        " COALESCE(SUM(IF(digest_text LIKE '% FROM %', 0, count_star)), 0)"
        " FROM performance_schema.events_statements_summary_by_digest"
        " WHERE digest_text LIKE 'SELECT%' AND digest_text NOT LIKE '%performance_schema%'"
        " AND digest_text NOT LIKE '%information_schema%' AND digest_text NOT LIKE '%GTID_SUBSET%'"
    )

    def __init__(self, direct: Direct) -> None:
        self._direct = direct

    def reset(self) -> None:
        self._direct.query(self.RESET)

    def read(self) -> tuple[int, int]:
        """(of fills and of passed reads, of brackets) since `reset`."""
        fills, brackets = self._direct.query(self.COUNT)[0]
        return int(fills), int(brackets)


def run(bench: Bench) -> Result:
    result = Result("pages")
    bench.sample(fresh=True)
    connection = bench.connect()
    with connection:
        curve(result, uvloop.run(windows(bench, Direct(connection))))
    for variant in "DN":
        bench.sample(fresh=True)
        with bench.cached_sample(of_variant(variant)) as sample:
            closed_loop(result, bench, sample, variant)
    return result


async def windows(bench: Bench, direct: Direct) -> list[tuple[int, Window]]:
    """A measured window after each number of warming pages, up to the number wanted."""
    stops = sorted({stop for stop in STOPS if stop <= bench.pages} | {bench.pages})
    options: dict[str, str | None] = {
        "upstream": bench.server.url,
        "grpc-listen": "127.0.0.1:0",
        "http-listen": "127.0.0.1:0",
        "mysql-listen": "127.0.0.1:0",
        "state-dir": str(bench.folder / "pages-state"),
        "log-level": "warning",
    }
    measured: list[tuple[int, Window]] = []
    selects = Selects(direct)
    async with running(load_config(options, {}, Path.home()), {ROWS: WireFormat(lambda columns: encoded)}) as app:
        caches = {}
        for template in of_variant("N"):
            caches[template.id] = (await app.system.caches.create(template.cache_name, template.sql, DATABASE)).name
        visitors = Visitors(app.system, caches, direct, PageStream(bench.shape, "N"))
        done = 0
        for stop in stops:
            await visitors.visit(max(0, stop - done), warming=True)
            selects.reset()
            window = await visitors.visit(WINDOW)
            window.fills, window.brackets = selects.read()
            measured.append((stop, window))
            done = max(stop, done) + WINDOW
            share = window.hits.total() / window.reads
            bench.report(f"after {stop:,} pages: {window.fills / WINDOW:.2f} SELECTs of fills a page, {share:.1%} hits")
    return measured


def curve(result: Result, measured: list[tuple[int, Window]]) -> None:
    columns = "pages before", "reads a page", "of fills", "of brackets", "fall", "hits", "ideal hits (same reads)"
    sheet = Sheet(f"SELECTs that reach MySQL, per page of the {WINDOW} fresh pages that follow; variant N", columns)
    fall = 0.0
    for stop, window in measured:
        fall = 100 * (1 - window.fills / window.reads)
        hits, ideal = (100 * count.total() / window.reads for count in (window.hits, window.ideal))
        pages = window.pages
        row = window.reads / pages, window.fills / pages, window.brackets / pages, f"{fall:.1f} %"
        sheet.rows.append((f"{stop:,}", *row, f"{hits:.1f} %", f"{ideal:.1f} %"))
    stop, last = measured[-1]
    by_template = Sheet(
        f"hit rate by template after {stop:,} pages", ("query", "share of reads", "hits", "ideal", "simulated, std")
    )
    for id, asked in last.asked.most_common():
        rates = last.hits[id] / asked, last.ideal[id] / asked, simulated(id)
        by_template.rows.append((f"{id} {CATALOGUE[id].title}", asked / last.reads, *rates))
    result.sheets += [sheet, by_template]
    result.partial = stop != 100_000  # of which the budget is
    name = f"fall of upstream SELECTs per fresh page after {stop:,} pages (ideal {IDEAL_FALL:g})"
    result.figures.append(Figure(name, fall, "%"))


def closed_loop(result: Result, bench: Bench, sample: CachedSample, variant: str) -> None:
    """One visitor after the other, each side on the same pages; Upwell after as many warming pages as fit."""
    columns = "", "pages/s", "ms a page", "MySQL CPU ms a page", "Upwell CPU ms a page"
    sheet = Sheet(f"closed loop, one client, variant {variant}", columns)
    clock = ConnectionClock(sample.direct.connection)
    seconds = 5 * bench.seconds
    for title, warm, cached in (("MySQL", 0, False), ("Upwell, cold", 0, True), ("Upwell, warmed", 2_000, True)):
        stream = PageStream(bench.shape, variant, seed=2)
        read = sample.cached.read if cached else sample.direct.read
        for (_, page), _ in zip(stream, range(warm), strict=False):
            run_page(page, read, sample.direct.write)
        wait_until_current(sample.client, sample.direct.connection)
        used = MySQLCpu(bench, clock), process_seconds(sample.proxy.pid)
        pages, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            run_page(next(stream)[1], read, sample.direct.write)
            pages += 1
        wall = time.perf_counter() - start
        mysql, proxy = used[0].seconds(), process_seconds(sample.proxy.pid) - used[1]
        cpu = None if mysql is None else mysql / pages * 1e3
        sheet.rows.append((title, pages / wall, wall / pages * 1e3, cpu, proxy / pages * 1e3))
    result.sheets.append(sheet)


class MySQLCpu:
    """CPU of the whole server since then, or of our connection where the server's process is not known."""

    def __init__(self, bench: Bench, clock: ConnectionClock) -> None:
        self._pid, self._clock = bench.server.pid, clock
        self._start = self._now()

    def seconds(self) -> float | None:
        now = self._now()
        return None if now is None or self._start is None else now - self._start

    def _now(self) -> float | None:
        if self._pid is not None:
            return process_seconds(self._pid)
        return self._clock.seconds() if self._clock.works else None
