"""Large fills and audits: what they take directly and through Spark, and what others notice of them.

A table of a million rows, 20 for each key. The baseline is what one would write without Spark: one SELECT of all rows
by PyMySQL (`fetchall`), grouped by key, and given to the engine in batches. It and the fills run in this process, on
one proxy, in turns; the loop's lateness is that of a timer every 5 ms. Then a proxy of its own is filled while 500
transactions a second change the table and another client reads another cache, and a million single keys are audited.

On a machine of few cores Spark shares them with MySQL and the proxy: the sheets say what that gives, also where it is
no gain.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import statistics
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager
from multiprocessing.synchronize import Event
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pymysql
import uvloop

from benchmarks.bench import SCRATCH, Bench
from benchmarks.result import Figure, Result, Sheet
from bulk.session import SparkSettings, why_unavailable
from dataflow.messages import Filled, UpqueryAnswer, UpqueryRequest
from examples.lobsters.cpu import process_seconds
from gtid_tracker.bracket import Bracket
from gtid_tracker.gtid import GtidSet
from integration.support.raw_client import RawClient
from proxy.app import App, running
from proxy.fills.one_fill import KEYS, sliced
from proxy.fills.spark_process import SparkProcess
from proxy.mysql.wire.packets import packet
from proxy.port.fill_progress import FillBy, FillProgress
from proxy.settings.config import load_config
from sqltypes.expression import Row

ROWS, OF_A_KEY = 1_000_000, 20
SIZES = 10_000, 50_000, 200_000, 500_000, ROWS
SLOTS = 1, 2, 4
ROUNDS = 3
WRITES = 500  # transactions a second
OTHERS = 1_000  # keys of the other cache
BEAT = 0.005
MEMORY = "6GiB"
QUERY = "SELECT id, item, score FROM events WHERE item = ?"
OTHER = "SELECT score FROM others WHERE id = ?"
SINGLE = "SELECT item, score FROM events WHERE id = ?"


def run(bench: Bench) -> Result:
    result = Result("spark")
    if why := why_unavailable(SparkSettings()):
        result.notes.append(f"not measured: {why}")
        result.partial = True
        return result
    load(bench)
    uvloop.run(fills(bench, result))
    beside_writers(bench, result)
    audit(bench, result)
    return result


def load(bench: Bench) -> None:
    bench.scratch(
        f"SET cte_max_recursion_depth = {ROWS + 1}",
        "CREATE TABLE events (id INT NOT NULL, item INT NOT NULL, score INT NOT NULL, PRIMARY KEY (item, id),"
        " UNIQUE KEY (id))",
        f"INSERT INTO events WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS})"
        f" SELECT i, i DIV {OF_A_KEY}, i * 7 % 1000 FROM n",
        "CREATE TABLE others (id INT NOT NULL PRIMARY KEY, score INT NOT NULL)",
        f"INSERT INTO others SELECT id, score FROM events WHERE id <= {OTHERS}",
        "ANALYZE TABLE events, others",
    ).close()


# -- fills, in this process ------------------------------------------------------------------------------------------


async def fills(bench: Bench, result: Result) -> None:
    sheet = Sheet(
        f"{ROWS:,} rows, {OF_A_KEY} for each key: seconds",
        ("", "seconds", "proxy's CPU", "MySQL's CPU", "loop late p99 ms", "longest ms"),
    )
    async with proxy(bench) as app:
        started = time.perf_counter()
        await app_spark(app).start()
        result.figures.append(Figure("cold start of Spark", time.perf_counter() - started, "s"))
        taken: defaultdict[str, list[Taken]] = defaultdict(list)
        await filled(bench, app, FillBy.SPARK, ROWS)  # its first job loads what the next ones need
        for _ in range(ROUNDS):
            taken["PyMySQL's fetchall, installed in batches"].append(await baseline(bench, app))
            taken["upwell fill --by direct"].append(await filled(bench, app, FillBy.DIRECT, ROWS))
            taken["upwell fill --by spark"].append(await filled(bench, app, FillBy.SPARK, ROWS))
        for name, times in taken.items():
            best = min(times, key=lambda one: one.seconds)
            sheet.rows.append((name, best.seconds, best.cpu, best.mysql, best.late * 1e3, best.longest * 1e3))
        result.sheets.append(sheet)
        plain, direct, spark = (min(one.seconds for one in times) for times in taken.values())
        late = statistics.median(one.late for one in taken["upwell fill --by spark"])
        result.figures += [
            Figure("a fill by Spark, times as fast as PyMySQL's fetchall", plain / spark, "x"),
            Figure("a fill by Spark, times as fast as a direct one", direct / spark, "x"),
            Figure("lateness of the loop meanwhile, p99", late * 1e3, "ms"),
        ]
        crossover = Sheet("seconds, by rows", ("rows", "direct", "Spark", "Spark's gain"))
        faster: int | None = None
        for rows in SIZES:
            direct_times = [(await filled(bench, app, FillBy.DIRECT, rows)).seconds for _ in range(2)]
            spark_times = [(await filled(bench, app, FillBy.SPARK, rows)).seconds for _ in range(2)]
            one, other = min(direct_times), min(spark_times)
            crossover.rows.append((rows, one, other, one / other))
            faster = rows if faster is None and other < one else faster if other < one else None
        result.sheets.append(crossover)
        result.notes.append(
            "From no size on is Spark faster than the proxy's own connections here."
            if faster is None
            else f"From {faster:,} rows on Spark is faster than the proxy's own connections here."
        )
    slots = Sheet(f"{ROWS:,} rows by Spark, by tasks at once", ("tasks", "seconds"))
    for number in SLOTS:
        async with proxy(bench, f"local[{number},3]") as app:
            seconds = [(await filled(bench, app, FillBy.SPARK, ROWS)).seconds for _ in range(3)]
            slots.rows.append((number, min(seconds[1:])))
    result.sheets.append(slots)


@asynccontextmanager
async def proxy(bench: Bench, master: str = "local[2,3]") -> AsyncIterator[App]:
    with TemporaryDirectory(dir=bench.folder) as folder:
        options: dict[str, str | None] = {
            "upstream": bench.server.url,
            "grpc-listen": "127.0.0.1:0",
            "http-listen": "127.0.0.1:0",
            "mysql-listen": "127.0.0.1:0",
            "state-dir": folder,
            "log-level": "error",
            "memory-limit": MEMORY,
            "spark-master": master,
            "warm-up": "off",
        }
        async with running(load_config(options, {}, Path.home())) as app:
            yield app


class Taken:
    """What a fill took: seconds, of processors too; `late`: the loop's lateness, the 99th of a hundred; `longest`."""

    def __init__(self, server_pid: int | None) -> None:
        self._pid = server_pid
        self._lateness: list[float] = []
        self.seconds = self.cpu = self.mysql = self.late = self.longest = 0.0

    async def __aenter__(self) -> Taken:
        self._beating = asyncio.get_running_loop().create_task(self._beat())
        self._began = time.perf_counter(), time.process_time(), self._mysql()
        return self

    async def __aexit__(self, *raised: object) -> None:
        began, cpu, mysql = self._began
        self.seconds = time.perf_counter() - began
        self.cpu, self.mysql = time.process_time() - cpu, self._mysql() - mysql
        self._beating.cancel()
        ordered = sorted(self._lateness) or [0.0]
        self.late, self.longest = ordered[int(len(ordered) * 0.99)], ordered[-1]

    async def _beat(self) -> None:
        while True:
            due = time.perf_counter() + BEAT
            await asyncio.sleep(BEAT)
            self._lateness.append(max(0.0, time.perf_counter() - due))

    def _mysql(self) -> float:
        return process_seconds(self._pid) if self._pid is not None else 0.0


async def filled(bench: Bench, app: App, by: FillBy, rows: int) -> Taken:
    """A new cache, filled; it is dropped, and what was held is taken apart, before the next one begins."""
    await app.router.caches.create("filled", QUERY, SCRATCH)
    keys = None if rows == ROWS else [(key,) for key in range(rows // OF_A_KEY)]
    async with Taken(pid_of(bench)) as taken:
        last = await filled_to_the_end(app, keys, by)
    assert (last.left, last.by) == (0, by) and abs(last.rows - rows) <= OF_A_KEY, last
    await dropped(app)
    return taken


async def filled_to_the_end(app: App, keys: Sequence[Sequence[int]] | None, by: FillBy) -> FillProgress:
    async with aclosing(app.router.fills.fill("filled", keys, by)) as going_on:
        return [progress async for progress in going_on][-1]


async def dropped(app: App) -> None:
    await app.router.caches.drop("filled")
    while app.engine.memory.used:
        await asyncio.sleep(0.01)


async def baseline(bench: Bench, app: App) -> Taken:
    """One SELECT of all rows, and the same insertion as that of upqueries, a batch at a time."""
    await app.router.caches.create("filled", QUERY, SCRATCH)
    cache = app.catalog.get("filled")
    reader, binder, pump = cache.reader, cache.binder, app.router.pump
    assert reader is not None and binder is not None
    held: list[int] = []

    def told(effect: Filled) -> None:
        held.append(effect.rows)

    async with Taken(pid_of(bench)) as taken:
        found, bracket = await asyncio.to_thread(fetched, bench)
        groups: dict[int, list[Row]] = {}
        for row in found:
            groups.setdefault(row[0], []).append(row)  # type: ignore[arg-type]  # a whole number
        del found
        keys = (one for key in groups for one in binder.bind((key,)).keys)
        for slice_ in sliced((key, params, OF_A_KEY) for key, params in keys):
            request = pump.fill_unasked(reader, slice_.keys, told)
            assert isinstance(request, UpqueryRequest) and len(slice_.keys) <= KEYS
            rows = [row for key in slice_.keys for row in groups[key]]  # type: ignore[index]  # likewise
            pump.deliver(UpqueryAnswer(request.id, bracket, (rows,), connected_at=time.monotonic()))
            await asyncio.sleep(0)
        while sum(held) < ROWS:
            await asyncio.sleep(0)
    assert len(reader.entries) == len(groups)
    await dropped(app)
    return taken


def fetched(bench: Bench) -> tuple[Sequence[Row], Bracket]:
    """As a fill's statement would give them, with a bracket around."""
    server = bench.server
    with pymysql.connect(
        host=server.host, port=server.port, user=server.user, password=server.password, database=SCRATCH
    ) as connection, connection.cursor() as cursor:  # fmt: skip
        cursor.execute("SELECT @@server_uuid, @@gtid_executed")
        ((uuid, before),) = cursor.fetchall()
        cursor.execute("SELECT item, id, item, score FROM events")
        rows = cursor.fetchall()
        cursor.execute("SELECT @@gtid_executed")
        ((after,),) = cursor.fetchall()
    return rows, Bracket(uuid, GtidSet.parse(before), GtidSet.parse(""), GtidSet.parse(after))


def app_spark(app: App) -> SparkProcess:
    assert app.router.fills.bulk is not None
    return app.router.fills.bulk.spark


def pid_of(bench: Bench) -> int | None:
    return getattr(bench.server, "pid", None)


# -- beside writers ----------------------------------------------------------------------------------------------------


def beside_writers(bench: Bench, result: Result) -> None:
    sheet = Sheet("hits of another cache, one client: milliseconds", ("meanwhile", "hits", "p50", "p99", "longest"))
    with bench.proxy(f"--memory-limit={MEMORY}", "--warm-up=off") as (process, client):
        client.create_cache(QUERY, name="filled", database=SCRATCH)
        client.create_cache(OTHER, name="others", database=SCRATCH)
        client.cache("others").get_many(range(1, OTHERS + 1))
        list(client.cache("filled").fill([1], by="spark"))  # Spark is there
        user, password = bench.server.user, bench.server.password
        with RawClient("127.0.0.1", process.mysql_port, user=user, password=password, database=SCRATCH) as reader:
            stop, count = multiprocessing.Event(), multiprocessing.Value("q", 0)
            writer = multiprocessing.Process(
                target=write, args=(bench.server.host, bench.server.port, user, password, stop, count)
            )
            before = told(hits(reader, 5.0))
            writer.start()
            try:
                writing = told(hits(reader, 5.0))
                written, started = count.value, time.perf_counter()
                found: list[float] = []
                filling = client.cache("filled").fill(by="spark")
                progress = []
                for one in filling:
                    progress.append(one)
                    found += hits(reader, 0.1)
                last = progress[-1]
                seconds = time.perf_counter() - started
                rate = (count.value - written) / seconds
                audited = list(client.audit("filled"))[-1]
            finally:
                stop.set()
                writer.join(30)
        sheet.rows += [
            ("nothing", *before),
            (f"{WRITES} transactions a second", *writing),
            ("and the fill", *told(found)),
        ]
        result.sheets.append(sheet)
        result.notes.append(
            f"Beside {rate:,.0f} transactions a second {last.held:,} of {last.keys:,} keys were held after"
            f" {seconds:.1f} s; the audit compared {audited.compared:,} of {audited.keys:,} and left {audited.left:,}."
        )
        result.figures += [
            Figure("differences that the audit has found", len(audited.different)),
            Figure("p99 of other caches' hits, more than before", told(found)[2] - writing[2], "ms"),
        ]


def write(host: str, port: int, user: str, password: str, stop: Event, count: Any) -> None:
    """In its own process: transactions at an even pace."""
    rng = random.Random(5)
    with pymysql.connect(host=host, port=port, user=user, password=password, database=SCRATCH) as connection:
        due = time.perf_counter()
        with connection.cursor() as cursor:
            while not stop.wait(max(0.0, due - time.perf_counter())):
                key, other = rng.randrange(1, ROWS), rng.randrange(1, ROWS)
                cursor.execute(f"UPDATE events SET score = score + 1 WHERE id = {key}")
                cursor.execute(f"UPDATE events SET score = score - 1 WHERE id = {other}")
                connection.commit()
                count.value += 1
                due += 1 / WRITES


def hits(client: RawClient, seconds: float) -> list[float]:
    """Milliseconds of each."""
    found: list[float] = []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        command = packet(client.text(OTHER.replace("?", str(random.randrange(1, OTHERS + 1)))), 0)
        started = time.perf_counter()
        client.write(command)
        client.result()
        found.append((time.perf_counter() - started) * 1e3)
    return found


def told(found: list[float]) -> tuple[int, float, float, float]:
    ordered = sorted(found) or [0.0]
    return len(ordered), ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)], ordered[-1]


# -- an audit ----------------------------------------------------------------------------------------------------------


def audit(bench: Bench, result: Result) -> None:
    with bench.proxy(f"--memory-limit={MEMORY}", "--warm-up=off") as (process, client):
        client.create_cache(SINGLE, name="single", database=SCRATCH)
        filled = list(client.cache("single").fill(by="spark"))[-1]
        before = late_buckets(process.http_port)
        cpu, mysql = process_seconds(process.pid), process_seconds(pid) if (pid := pid_of(bench)) else 0.0
        started = time.perf_counter()
        last = list(client.audit("single", by="spark"))[-1]
        seconds = time.perf_counter() - started
        used = process_seconds(process.pid) - cpu, (process_seconds(pid) if pid else 0.0) - mysql
        sheet = Sheet(f"{filled.held:,} held keys of a row each", ("", "seconds", "proxy's CPU", "MySQL's CPU"))
        sheet.rows += [("filled by Spark", filled.seconds, None, None), ("audited by Spark", seconds, *used)]
        result.sheets.append(sheet)
        result.figures += [
            Figure("keys that were audited, to those held", last.compared / filled.held, "x"),
            Figure("differences among them", len(last.different)),
            Figure(
                "share of the loop's looks that were late by more than 10 ms",
                late_share(before, late_buckets(process.http_port)) * 100,
                "%",
            ),
        ]


def late_buckets(port: int) -> dict[str, float]:
    """How often the loop was late by at most so many seconds."""
    from urllib.request import urlopen

    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        lines: Iterator[str] = iter(answer.read().decode().splitlines())
    found = (line for line in lines if line.startswith("upwell_loop_late_seconds_bucket"))
    return {line.split('"')[1]: float(line.rpartition(" ")[2]) for line in found}


def late_share(before: dict[str, float], after: dict[str, float]) -> float:
    """Of the looks between the two, those later than 10 ms."""
    looks = after["+Inf"] - before["+Inf"]
    return 1.0 - (after["0.01"] - before["0.01"]) / looks if looks else 0.0
