"""The hottest key under a load of up to 1,000 transactions a second: what share of its reads comes from memory?

A tenth of the transactions writes one key and the others are spread, or all write it. One client reads that one key, as
fast as it gets answers. Every quarter of a second another key is the hottest, so that getting in under load is part of
the measurement: once in, a key stays, for its changes are applied. With `--exact-fills=auto` and with `off`, on the
server as it is and with commits that wait 2 ms to be synced in groups: while all write the key, a transaction that does
is in nearly every bracket's Q.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.bench import SCRATCH, Bench
from benchmarks.result import Figure, Result, Sheet

RATE = 1_000  # transactions a second, aimed at: those of one row follow each other, which may be slower
WRITERS = 4
ROWS = 1_000
CACHES = {
    "rows": "SELECT id, n FROM written WHERE k = ?",
    "groups": "SELECT COUNT(*), SUM(n) FROM written WHERE k = ?",
}
LOADS = (  # what it is, the share of the transactions that write the hottest key, microseconds that commits wait
    ("a tenth writes it", 0.1, 0),
    ("a tenth writes it, commits in groups", 0.1, 2_000),
    ("all write it, commits in groups", 1.0, 2_000),
)
REIGN = 0.25  # seconds that a key is the hottest


def run(bench: Bench) -> Result:
    result = Result("hot")
    seconds = max(4.0, 4 * bench.seconds)
    sheet = Sheet("reads of the hottest key", ("load", "exact fills", "tx/s", "reads", "% hits", "exact", "not exact"))
    with bench.scratch(
        "CREATE TABLE written (id INT PRIMARY KEY, k INT NOT NULL, n INT NOT NULL, KEY (k))",
        f"SET cte_max_recursion_depth = {ROWS}",
        f"INSERT INTO written WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS})"
        " SELECT i, i DIV 2, 0 FROM n",
    ):
        for load, share, delay in LOADS:
            for exact in ("auto", "off"):
                with grouped(bench, delay):
                    row = measured(bench, seconds, share, exact)
                sheet.rows.append((load, exact, *row))
                if exact == "auto":
                    name = f"% of the hottest key's reads from memory, {load}, another one every {REIGN:g} s"
                    result.figures.append(Figure(name, row[2], "%"))
    result.sheets.append(sheet)
    return result


@contextmanager
def grouped(bench: Bench, delay: int) -> Iterator[None]:
    names = ("sync_binlog", "binlog_group_commit_sync_delay")
    with bench.connect(None) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT " + ", ".join(f"@@global.{name}" for name in names))
        before = cursor.fetchone()
        assert before is not None
        if delay:
            cursor.execute("SET GLOBAL sync_binlog = 1")
            cursor.execute("SET GLOBAL binlog_group_commit_sync_delay = %s", (delay,))
        yield
        for name, value in zip(names, before, strict=True):
            cursor.execute(f"SET GLOBAL {name} = %s", (value,))


def measured(bench: Bench, seconds: float, share: float, exact: str) -> tuple[float, int, float, int, int]:
    """(transactions a second, reads, % hits, exact fills, those that could not be)"""
    with bench.proxy(f"--exact-fills={exact}") as (_, client):
        for name, sql in CACHES.items():
            client.create_cache(sql, name=name, database=SCRATCH)
        stop, written, served = threading.Event(), [0] * WRITERS, Counter[str]()
        writers = [threading.Thread(target=write, args=(bench, at, share, stop, written)) for at in range(WRITERS)]
        for writer in writers:
            writer.start()
        began = time.perf_counter()
        while (now := time.perf_counter()) < began + seconds:
            for name in CACHES:
                served[client.cache(name).get(hottest(now)).served] += 1
        rate = sum(written) / (time.perf_counter() - began)
        stop.set()
        for writer in writers:
            writer.join()
        counters = dict(client.status().counters)
    total = sum(served.values())
    hits = 100 * served["hit"] / total
    return rate, total, hits, counters.get("exact_fills", 0), counters.get("source_exact_fills_failed", 0)


def hottest(now: float) -> int:
    """The key that is the hottest now."""
    return int(now / REIGN) % (ROWS // 2 - 1) + 1


def write(bench: Bench, number: int, share: float, stop: threading.Event, written: list[int]) -> None:
    """One writer's share of the transactions, each at its time or as soon after it as can be."""
    rng = random.Random(number)
    with bench.connect(SCRATCH) as connection, connection.cursor() as cursor:
        began = time.perf_counter()
        while not stop.wait(max(0.0, began + written[number] * WRITERS / RATE - time.perf_counter())):
            row = 2 * hottest(time.perf_counter()) if rng.random() < share else rng.randrange(1, ROWS + 1)
            cursor.execute("UPDATE written SET n = n + 1 WHERE id = %s", (row,))
            written[number] += 1
