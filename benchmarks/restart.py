"""A stop, or a kill, and a start on a million held keys, under writers: how soon there are hits, and as many as before.

Readers ask for keys that are drawn evenly, the hardest case: to have 95 % of the hits again, 95 % of the keys must be
held again. One writer raises counters, row by row, before, during and after. A read must show what was committed a
second before it, and all that was committed before the start.
"""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import pymysql

from benchmarks.bench import SCRATCH, Bench
from benchmarks.result import Figure, Result, Sheet
from benchmarks.spark import late_buckets
from examples.lobsters.load import Connection, connect
from examples.lobsters.proxy_process import ProxyProcess
from upwell.client import Client

KEYS = 1_000_000
WRITES = 200  # a second
QUERY = "SELECT score, item FROM events WHERE id = ?"
OPTIONS = ("--memory-limit=4GiB", "--warm-up=off", "--snapshot=1s", "--check-sample=off")
BEFORE = 3.0  # seconds for which the hit rate before is measured
AFTER = 20.0  # seconds in which it must be reached again
WINDOW = 0.25
LAG = 1.0  # seconds by which an answer may be behind, at most


def run(bench: Bench) -> Result:
    bench.scratch(
        f"SET cte_max_recursion_depth = {KEYS + 1}",
        "CREATE TABLE events (id INT NOT NULL PRIMARY KEY, item VARCHAR(30) NOT NULL, score INT NOT NULL)",
        f"INSERT INTO events WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < {KEYS})"
        " SELECT i, CONCAT('item ', i), 0 FROM n",
    ).close()
    sheet = Sheet(
        f"{KEYS:,} held keys, {WRITES} writes a second",
        (
            "",
            "ready s",
            "first hit s",
            "95 % of the hit rate s",
            "hit rate before",
            "after",
            "stale",
            "times late over 10 ms",
        ),
    )
    written = Written()
    writer = threading.Thread(target=written.write, args=(bench.connect(SCRATCH),))
    writer.start()
    try:
        with TemporaryDirectory(dir=bench.folder) as folder:
            for how, row in again(bench, Path(folder), written):
                sheet.rows.append((how, *row))
    finally:
        written.ended.set()
        writer.join()
    figures = []
    for what, _, first, reached, _, _, stale, _ in sheet.rows:
        figures += [
            Figure(f"seconds to the first hit, {what}", float(first or AFTER), "s"),
            Figure(f"seconds to 95 % of the hit rate, {what}", float(reached or AFTER), "s"),
            Figure(f"stale answers, {what}", float(stale or 0)),
        ]
    return Result("restart", figures, [sheet])


@dataclass
class Written:
    """What the writer has committed: by key the counter, and when, the last two times."""

    counters: dict[int, list[tuple[float, int]]] = field(default_factory=dict)
    ended: threading.Event = field(default_factory=threading.Event)

    def write(self, connection: Connection) -> None:
        rng = random.Random(7)
        with connection, connection.cursor() as cursor:
            while not self.ended.wait(1 / WRITES):
                key = rng.randrange(1, KEYS + 1) if rng.random() < 0.5 else rng.randrange(1, 2000)
                cursor.execute("UPDATE events SET score = score + 1 WHERE id = %s", (key,))
                told = self.counters.setdefault(key, [])
                told.append((time.monotonic(), told[-1][1] + 1 if told else 1))

    def least(self, key: int, at: float) -> int:
        """What a read that begins then must show."""
        return max((count for when, count in list(self.counters.get(key, ())) if when < at), default=0)


def read_for(bench: Bench, process: ProxyProcess, client: Client, written: Written, seconds: float) -> list[Window]:
    """Reads for so long; windows of the hit rate. Ends early once it is as high as it gets."""
    found: list[Window] = []
    connection = at_proxy(bench, process)
    started, rng, stale = time.monotonic(), random.Random(11), 0
    hits, reads = served(client)
    with connection, connection.cursor() as cursor:
        until = started + WINDOW
        while time.monotonic() < started + seconds:
            for _ in range(50):
                key = rng.randrange(1, KEYS + 1) if rng.random() < 0.98 else rng.randrange(1, 2000)
                least = written.least(key, time.monotonic() - LAG)
                cursor.execute(QUERY.replace("?", str(key)))
                stale += cursor.fetchall()[0][0] < least
            if time.monotonic() >= until:
                until = time.monotonic() + WINDOW
                now_hits, now_reads = served(client)
                found.append(Window(time.monotonic(), now_hits - hits, now_reads - reads, stale))
                hits, reads = now_hits, now_reads
    return found


@dataclass
class Window:
    at: float
    hits: int
    reads: int
    stale: int

    @property
    def rate(self) -> float:
        return self.hits / self.reads if self.reads else 0.0


@dataclass(frozen=True)
class At:
    host: str
    port: int
    user: str
    password: str


def served(client: Client) -> tuple[int, int]:
    """(hits, reads) until now."""
    status = client.status()
    return status.hits, status.hits + status.misses + status.passed


def at_proxy(bench: Bench, process: ProxyProcess) -> Connection:
    """A connection to the proxy's MySQL port, as soon as there is one."""
    deadline = time.monotonic() + AFTER
    server = bench.server
    address = At("127.0.0.1", process.mysql_port, server.user, server.password)
    while True:
        try:
            return connect(address, SCRATCH)
        except pymysql.err.OperationalError:
            if time.monotonic() > deadline:
                raise


def again(bench: Bench, folder: Path, written: Written) -> Iterator[tuple[str, tuple[float | int | None, ...]]]:
    """What became of a stop, and then of a kill."""
    with started(bench, folder) as process, process.wait_ready() as client:
        client.create_cache(QUERY, name="counters", database=SCRATCH)
        bench.report(f"filling {KEYS:,} keys")
        list(client.cache("counters").fill(by="direct"))
        before = median(one.rate for one in read_for(bench, process, client, written, BEFORE))
    for how in ("stopped", "killed"):
        with started(bench, folder) as process, process.wait_ready() as client:
            ready = time.monotonic() - process.started
            first = first_hit(client) - process.started
            windows = read_for(bench, process, client, written, AFTER)
            await_log(process, re.compile(r"snapshot .*keys=\d{6}"))
            late = late_buckets(process.http_port)
            if how == "stopped":
                process.kill()
        reached = next((one.at - process.started for one in windows if one.rate >= 0.95 * before), None)
        yield how, (ready, first, reached, before, windows[-1].rate, windows[-1].stale, late["+Inf"] - late["0.01"])


def first_hit(client: Client) -> float:
    """When a read of a key that nobody has read since is a hit."""
    rng, deadline = random.Random(5), time.monotonic() + AFTER
    while client.cache("counters").get(rng.randrange(2000, KEYS)).served != "hit":
        if time.monotonic() > deadline:
            raise TimeoutError("no hit")
    return time.monotonic()


def started(bench: Bench, folder: Path) -> ProxyProcess:
    return ProxyProcess(bench.url, folder, options=OPTIONS, grpc_port=0, http_port=0, mysql_port=0)


def await_log(process: ProxyProcess, line: re.Pattern[str]) -> None:
    deadline = time.monotonic() + 120
    while not line.search(process.log.read_text()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"the log does not say {line.pattern!r}")
        threading.Event().wait(0.2)
