"""Memory while over ten times more keys than fit are scanned: peak growth of the process against the limit.

The peak is the kernel's high-water mark of the resident set, reset when the proxy is ready: what was there for a
millisecond counts.
"""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks.bench import SCRATCH, Bench
from benchmarks.result import Figure, Result, Sheet
from examples.lobsters.cpu import peak_rss, rss

LIMIT_MIB = 64
ROWS = 1_600_000
BATCH = 200
QUERY = "SELECT id, owner, title, body FROM scanned WHERE id = ?"


def run(bench: Bench) -> Result:
    bench.report(f"creating {ROWS:,} rows")
    numbers = f"WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS})"
    connection = bench.scratch(
        f"SET cte_max_recursion_depth = {ROWS}",
        "CREATE TABLE scanned (id INT PRIMARY KEY, owner INT, title VARCHAR(60), body VARCHAR(200))",
        f"INSERT INTO scanned {numbers} SELECT i, i % 977, CONCAT('title of ', i), REPEAT('b', 100) FROM n",
    )
    connection.close()
    limit = LIMIT_MIB << 20
    sheet = Sheet("the scan: MiB", ("keys read", "held keys", "counted", "resident, growth", "peak growth"))
    with bench.proxy(f"--memory-limit={LIMIT_MIB}MiB") as (proxy, client):
        client.create_cache(QUERY, name="scanned", database=SCRATCH)
        cache = client.cache("scanned")
        cache.get_many(range(ROWS - BATCH, ROWS))  # connections and plans are there before the count begins
        start_rss = rss(proxy.pid)
        Path(f"/proc/{proxy.pid}/clear_refs").write_text("5")
        started, scanned, held, most, full = time.monotonic(), 0, 0, 0, False
        while scanned < ROWS - BATCH and not (full and scanned >= 10.5 * most):
            cache.get_many(range(scanned, scanned + BATCH))
            scanned += BATCH
            if scanned % 20_000 == 0:
                held = sum(one.keys for one in client.caches())
                most = max(most, held)
                full = full or held < scanned  # something was evicted
                counted, growth, peak = (
                    value / 2**20
                    for value in (
                        client.status().memory_bytes,
                        rss(proxy.pid) - start_rss,
                        peak_rss(proxy.pid) - start_rss,
                    )
                )
                sheet.rows.append((f"{scanned:,}", held, counted, growth, peak))
        growth = peak_rss(proxy.pid) - start_rss
        seconds = time.monotonic() - started
    result = Result("memory", sheets=[sheet])
    result.figures.append(Figure("peak growth against the limit", growth / limit, "x"))
    result.figures.append(Figure("keys scanned against the most that fitted", scanned / max(1, most), "x"))
    result.figures.append(Figure("keys held at the end against the most that fitted", held / max(1, most), "x"))
    result.figures.append(Figure("bytes of a held single-row key of 130 bytes", growth / max(1, most), "B"))
    result.figures.append(Figure("misses a second", scanned / seconds, "keys/s"))
    return result
