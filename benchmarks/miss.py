"""What a miss costs: from lookup to installed answer, against the same query by PyMySQL, on an idle source.

Single rows by primary key: inside the proxy's process, on the loop that it runs on, alternating with PyMySQL in the
same process, since the promise is about the way from the lookup to the installed answer. Queries that take MySQL 5 ms
and more: as a client of a running proxy sees them. Every miss is a real one, of a key that was never asked for.
"""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median

import uvloop

from benchmarks.bench import SCRATCH, Bench
from benchmarks.result import Figure, Result, Sheet
from examples.lobsters.load import Connection
from proxy.app import running
from proxy.grpc.rows import FORMAT
from proxy.settings.config import load_config
from upwell.client import Cache

LOOKUP = "SELECT id, title, body FROM items WHERE id = ?"
ROWS = 20_000
# Each reads about 10,000 rows through an index without the columns: 5 to 50 ms on MySQL.
SLOW = {
    "sum of a group": "SELECT COUNT(*), SUM(amount), MAX(amount) FROM facts WHERE kind = ?",
    "newest of a group": "SELECT id, amount, note FROM facts WHERE kind = ? ORDER BY amount DESC, id LIMIT 20",
    "grouped": "SELECT day, COUNT(*), SUM(amount) FROM facts WHERE kind = ? GROUP BY day ORDER BY day",
}
KINDS, FACTS = 40, 400_000


def run(bench: Bench) -> Result:
    result = Result("miss")
    numbers = "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < {})"
    connection = bench.scratch(
        f"SET cte_max_recursion_depth = {FACTS}",
        "CREATE TABLE items (id INT PRIMARY KEY, title VARCHAR(80) NOT NULL, body VARCHAR(400) NOT NULL)",
        f"INSERT INTO items {numbers.format(ROWS)} SELECT i, CONCAT('item ', i), REPEAT('x', 200) FROM n",
        "CREATE TABLE facts (id INT PRIMARY KEY, kind INT NOT NULL, day INT NOT NULL, amount INT NOT NULL,"
        " note VARCHAR(40) NOT NULL)",
        f"INSERT INTO facts {numbers.format(FACTS)}"
        f" SELECT i, i % {KINDS}, i % 14, i * 7919 % 100003, CONCAT('note ', i) FROM n",
        "ALTER TABLE facts ADD KEY by_kind (kind)",
        "ANALYZE TABLE items, facts",
    )
    with connection:
        lookups(result, bench, connection)
        slow(result, bench, connection)
    return result


def lookups(result: Result, bench: Bench, connection: Connection) -> None:
    options: dict[str, str | None] = {
        "upstream": bench.server.url,
        "grpc-listen": "127.0.0.1:0",
        "http-listen": "127.0.0.1:0",
        "mysql-listen": "127.0.0.1:0",
        "state-dir": str(bench.folder / "miss-state"),
        "log-level": "warning",
    }
    missed, direct = uvloop.run(alternate(options, connection, min(5_000, ROWS // 2)))
    ratio = median(missed) / median(direct)
    sheet = Sheet("by primary key, in one process: us", ("", "p50", "p95"))
    sheet.rows.append(("miss, from lookup to installed answer", *percentiles(missed)))
    sheet.rows.append(("PyMySQL", *percentiles(direct)))
    result.sheets.append(sheet)
    result.figures.append(Figure("a miss by primary key, in times of PyMySQL", ratio, "x"))


async def alternate(
    options: dict[str, str | None], connection: Connection, count: int
) -> tuple[list[float], list[float]]:
    """`count` misses and as many queries by PyMySQL, in turns, of different keys."""
    config = load_config(options, {}, Path.home())
    missed, direct = [], []
    async with running(config) as app:
        await app.system.caches.create("lookup", LOOKUP, SCRATCH)
        cache = app.system.caches.open("lookup", FORMAT)
        text = LOOKUP.replace("?", "%s")
        with connection.cursor() as cursor:
            for number in range(count + 200):
                start = time.perf_counter()
                assert cache.hit((number,)) is None
                await cache.read((number,))
                between = time.perf_counter()
                cursor.execute(text, (ROWS - number,))
                cursor.fetchall()
                if number >= 200:
                    missed.append(between - start)
                    direct.append(time.perf_counter() - between)
    return missed, direct


def percentiles(times: list[float]) -> tuple[float, float]:
    """p50 and p95 in microseconds."""
    ordered = sorted(times)
    return ordered[len(ordered) // 2] * 1e6, ordered[len(ordered) * 95 // 100] * 1e6


def slow(result: Result, bench: Bench, connection: Connection) -> None:
    sheet = Sheet("queries of 5 ms and more, by a client: ms", ("query", "PyMySQL", "miss", "of which a hit", "ratio"))
    worst = 0.0
    with bench.proxy("--verify-new-caches=off") as (_, client), connection.cursor() as cursor:
        for name, sql in SLOW.items():
            client.create_cache(sql, name=name.replace(" ", "_"), database=SCRATCH)
            cache = client.cache(name.replace(" ", "_"))
            direct, missed, hits = [], [], []
            for kind in range(KINDS):
                cursor.execute(sql.replace("?", "%s"), (kind,))  # its pages are in memory for both sides
                cursor.fetchall()
                start = time.perf_counter()
                cursor.execute(sql.replace("?", "%s"), (kind,))
                cursor.fetchall()
                direct.append(time.perf_counter() - start)
                missed.append(timed(cache, kind, "miss"))
                hits.append(timed(cache, kind, "hit"))
            # The first few warm the connection and the plan on both sides.
            typical, miss = median(direct[4:]), median(missed[4:])
            sheet.rows.append((name, typical * 1e3, miss * 1e3, median(hits[4:]) * 1e3, miss / typical))
            if typical >= 0.005:
                worst = max(worst, miss / typical)
    result.sheets.append(sheet)
    result.figures.append(Figure("a miss of a query of 5 ms and more, in times of PyMySQL, worst", worst, "x"))


def timed(cache: Cache, key: int, served: str) -> float:
    """Seconds of one read by the client. A hit is the call itself: what a miss costs more is the upquery's way."""
    start = time.perf_counter()
    answer = cache.get(key)
    seconds = time.perf_counter() - start
    assert answer.served == served, answer.served
    return seconds
