"""What it costs that a cache earns its trust: its misses, and its first hits after changes, with and without checks.

In one process, single rows by primary key, on an idle source. A checked miss runs the client's own text, too, in its
snapshot; a checked hit asks MySQL for its text. All others cost what they cost without checks: how long a cache is new
is a matter of its first few dozen keys (`--verify-new-caches`).
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.bench import SCRATCH, Bench
from benchmarks.miss import LOOKUP, percentiles
from benchmarks.result import Figure, Result, Sheet
from examples.lobsters.load import Connection
from proxy.app import App, running
from proxy.grpc.rows import FORMAT
from proxy.read.open_cache import OpenCache
from proxy.settings.config import load_config

ROWS, WARM, MISSES, CHANGED = 12_000, 200, 2_000, 400
EVERY_ANSWER = "100000"  # so many checks are more than there are answers
DEFAULT = "32"


def run(bench: Bench) -> Result:
    result = Result("trust")
    connection = bench.scratch(
        f"SET cte_max_recursion_depth = {ROWS}",
        "CREATE TABLE items (id INT PRIMARY KEY, title VARCHAR(80) NOT NULL, body VARCHAR(400) NOT NULL)",
        f"INSERT INTO items WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS})"
        " SELECT i, CONCAT('item ', i), REPEAT('x', 200) FROM n",
        "ANALYZE TABLE items",
    )
    sheet = Sheet("by primary key, in one process, in turns: us", ("", "p50", "p95"))
    with connection:
        found = asyncio.run(measured(bench, connection, ("off", EVERY_ANSWER, DEFAULT)))
    off, every, new = found
    sheet.rows += [
        ("miss, no checks", *percentiles(off.missed)),
        ("miss of a new cache, each checked", *percentiles(every.missed)),
        (f"miss after {WARM} others (--verify-new-caches={DEFAULT})", *percentiles(new.missed)),
        ("first hit after a change, no checks", *percentiles(off.changed)),
        ("first hit after a change, each checked", *percentiles(every.changed)),
        (f"first hit after a change, the later half of {CHANGED}", *percentiles(new.changed[CHANGED // 2 :])),
    ]
    result.sheets.append(sheet)
    p50 = [percentiles(times)[0] for times in (off.missed, every.missed, new.missed)]
    result.figures += [
        Figure("a miss of a new cache against one without checks", p50[1] / p50[0], "x"),
        Figure("a miss once the cache is trusted against one without checks", p50[2] / p50[0], "x"),
        Figure(f"checks in {WARM + MISSES} misses and {CHANGED} first hits after changes", new.agreed),
    ]
    return result


@dataclass
class Times:
    """Of one proxy: of misses, and of first hits after changes, in seconds; how many checks agreed."""

    app: App
    cache: OpenCache
    missed: list[float] = field(default_factory=list)
    changed: list[float] = field(default_factory=list)
    agreed: int = 0


async def measured(bench: Bench, connection: Connection, settings: Sequence[str]) -> list[Times]:
    """A proxy for each setting; they take turns."""
    async with AsyncExitStack() as stack:
        rng = random.Random(1)
        all_times = [await begun(stack, bench, checks) for checks in settings]
        for key in range(WARM + MISSES):
            for times in rng.sample(all_times, len(all_times)):
                taken = await read(times.cache, key)
                if key >= WARM:
                    times.missed.append(taken)
                await read(times.cache, key)
        with connection.cursor() as cursor:
            for key in range(CHANGED):
                pushed = [times.app.engine.state.ring.pushed for times in all_times]
                cursor.execute(f"UPDATE items SET title = CONCAT(title, '.') WHERE id = {key + 1}")
                for times, before in zip(all_times, pushed, strict=True):
                    while times.app.engine.state.ring.pushed == before:
                        await asyncio.sleep(0)
                for times in rng.sample(all_times, len(all_times)):
                    times.changed.append(await read(times.cache, key + 1))
        for times in all_times:
            counters = times.app.router.status().counters
            assert not counters["trust_differs"]
            times.agreed = counters["trust_agrees"]
    return all_times


async def begun(stack: AsyncExitStack, bench: Bench, checks: str) -> Times:
    options: dict[str, str | None] = {
        "upstream": bench.server.url,
        "grpc-listen": "127.0.0.1:0",
        "http-listen": "127.0.0.1:0",
        "mysql-listen": "127.0.0.1:0",
        "state-dir": str(bench.folder / f"trust-state-{checks}"),
        "log-level": "warning",
        "verify-new-caches": checks,
    }
    app = await stack.enter_async_context(running(load_config(options, {}, Path.home())))
    await app.system.caches.create("lookup", LOOKUP, SCRATCH)
    return Times(app, app.system.caches.open("lookup", FORMAT))


async def read(cache: OpenCache, key: int) -> float:
    start = time.perf_counter()
    if cache.hit((key,)) is None:
        await cache.read((key,))
    return time.perf_counter() - start
