"""Random schemas, queries, writes, misses, evictions and DDL on a real MySQL: at rest every answer equals MySQL's own.

A seed that fails is printed and makes the same case again: `make differential SEED=n`. For longer, or for others than
the first seeds: `make differential SECONDS=600 FIRST=1000`. `make test` has the first `SEEDS`.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

from integration.planner_truth.differential import Case, Tally, truth
from integration.servers.mysql_server import Server
from integration.support.grpc_app import proxy_beside, run

SEEDS = 4
SECONDS = float(os.environ.get("UPWELL_DIFFERENTIAL_SECONDS", "0"))
SEED = os.environ.get("UPWELL_DIFFERENTIAL_SEED", "")
FIRST_SEED = os.environ.get("UPWELL_DIFFERENTIAL_FIRST", "1")
QUERIES, ROUNDS, WRITES, READS = 16, 4, 12, 60


def test_random_queries_equal_mysql_at_rest(mysql: Server, database: str, tmp_path: Path) -> None:
    tally = Tally()
    trusted: Counter[str] = Counter()

    async def one(seed: int) -> None:
        mysql.execute(f"DROP DATABASE `{database}`", f"CREATE DATABASE `{database}`")
        limit = "150KiB" if seed % 4 == 0 else "64MiB"  # so little that keys are evicted all the time
        checks = "4" if seed % 2 else "off"
        async with proxy_beside(
            mysql, database, tmp_path / str(seed), memory_limit=limit, verify_new_caches=checks
        ) as proxy:
            case = Case(proxy, seed, tally)
            try:
                await case.prepare(QUERIES)
                await case.run(ROUNDS, WRITES, READS)
            finally:
                case.close()
            doubted = [info for info in await proxy.app.router.caches.listed() if "MySQL's own" in info.why]
            assert not doubted, [(info.sql, info.why) for info in doubted]
            counters = proxy.app.router.status().counters
            trusted.update({name: counters[name] for name in ("trust_agrees", "trust_differs", "trust_unknown")})

    began = time.monotonic()
    first = seed = int(SEED or FIRST_SEED)
    while True:
        print(f"seed {seed}", flush=True)
        run(partial(one, seed), 120)
        seed += 1
        enough = time.monotonic() - began > SECONDS and seed - first >= SEEDS
        if SEED or enough or len(tally.differences) > 20:
            break
    print(tally)
    print(dict(tally.reasons.most_common()), dict(trusted))
    assert not trusted["trust_differs"]
    assert not tally.differences, "\n".join(tally.differences[:30])
    if not SEED:
        counts = tally.counts
        assert counts["maintain"] > counts["evict"], tally
        assert counts["maintain"] + counts["evict"] > 10 * counts["refused"], tally
        assert counts["compared hit maintain"] > 500, tally
        assert counts["compared hit evict"] > 50, tally


FOUND = (
    "CREATE TABLE r (id INT PRIMARY KEY, k INT, u BIGINT UNSIGNED, y YEAR, o DATE NOT NULL, g DOUBLE, s VARCHAR(9))",
    "INSERT INTO r VALUES (1, 1, 1, 2024, '0000-00-00', 0, 'a'), (2, 1, 0, 2000, '2024-01-01', -0e0, 'A'),"
    " (3, 2, 18446744073709551615, 1901, '0000-00-00', 1.5, 'ä'), (6, NULL, NULL, NULL, '2024-02-29', NULL, NULL)",
)
ONCE_WRONG: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("SELECT DISTINCT s FROM r WHERE id = ? AND id IN (?)", (2, [1, 6, 2])),
    ("SELECT a.id FROM r a JOIN r b ON b.k = a.k WHERE a.k = ? AND b.id IN (?)", (1, [6, 2, 1])),
    ("SELECT a.id, SUM(CASE WHEN b.u > 5 THEN 1 ELSE 0 END) FROM r a LEFT JOIN r b ON b.k = a.id + 7 WHERE a.k = ?"
     " GROUP BY a.id", (1,)),
    ("SELECT a.id, SUM(CASE WHEN b.u > 5 THEN 1 ELSE 0 END) FROM r a LEFT JOIN r b ON b.k = a.u WHERE a.id = ?"
     " GROUP BY a.id", (3,)),
    ("SELECT a.id, COUNT(COALESCE(b.u, 0)) FROM r a LEFT JOIN r b ON b.k = a.u WHERE a.id = ? GROUP BY a.id", (3,)),
    ("SELECT id FROM r WHERE k = ? AND o IS NULL", (1,)),
    ("SELECT id FROM r WHERE k = ? AND NOT (o IS NULL)", (1,)),
    ("SELECT COUNT(*) FROM r WHERE o <=> ?", (None,)),
    ("SELECT a.id, b.id FROM r a LEFT JOIN r b ON b.k = a.id WHERE a.k = ? AND b.o IS NULL", (1,)),
    ("SELECT id FROM r WHERE u IN (?)", (["1", -1],)),
    ("SELECT id FROM r WHERE y = ?", (24,)),
    ("SELECT id FROM r WHERE y <=> ?", (0,)),
    ("SELECT g FROM r WHERE k = ?", (1,)),
    ("SELECT id FROM r WHERE k = ? AND u LIKE ?", (1, "1.0")),
)  # fmt: skip


def test_what_was_once_wrong(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            await proxy.write("SET sql_mode = 'ALLOW_INVALID_DATES'", *FOUND)
            await proxy.caught_up()
            for number, (sql, _) in enumerate(ONCE_WRONG):
                await proxy.client.create_cache(sql, name=f"q{number}", database=database)
            for change in ("", "UPDATE r SET k = k + 1", "UPDATE r SET k = k - 1, g = -g"):
                if change:
                    await proxy.write("SET sql_mode = 'ALLOW_INVALID_DATES'", change)
                    await proxy.caught_up()
                for _ in range(2):
                    for number, (sql, given) in enumerate(ONCE_WRONG):
                        answer = await proxy.client.cache(f"q{number}").get(*given)
                        _, wanted = await truth(proxy, sql, given)
                        assert sorted(map(repr, map(tuple, answer))) == sorted(map(repr, wanted)), (change, sql, given)

    run(scenario)
