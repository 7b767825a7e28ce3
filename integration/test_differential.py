"""Random schemas, queries, writes, misses, evictions and DDL on a real MySQL: at rest every answer equals MySQL's own.

A seed that fails is printed and makes the same case again: `make differential SEED=n`. For longer, or for others than
the first seeds: `make differential SECONDS=600 FIRST=1000`.
"""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path

from integration.differential import Case, Tally
from integration.grpc_app import proxy_beside, run
from integration.mysql_server import Server

SECONDS = float(os.environ.get("UPWELL_DIFFERENTIAL_SECONDS", "60"))
SEED = os.environ.get("UPWELL_DIFFERENTIAL_SEED", "")
FIRST_SEED = os.environ.get("UPWELL_DIFFERENTIAL_FIRST", "1")
QUERIES, ROUNDS, WRITES, READS = 16, 4, 12, 60


def test_random_queries_equal_mysql_at_rest(mysql: Server, database: str, tmp_path: Path) -> None:
    tally = Tally()

    async def one(seed: int) -> None:
        mysql.execute(f"DROP DATABASE `{database}`", f"CREATE DATABASE `{database}`")
        limit = "150KiB" if seed % 4 == 0 else "64MiB"  # so little that keys are evicted all the time
        async with proxy_beside(mysql, database, tmp_path / str(seed), memory_limit=limit) as proxy:
            case = Case(proxy, seed, tally)
            try:
                await case.prepare(QUERIES)
                await case.run(ROUNDS, WRITES, READS)
            finally:
                case.close()

    began = time.monotonic()
    seed = int(SEED or FIRST_SEED)
    while True:
        print(f"seed {seed}", flush=True)
        run(partial(one, seed), 120)
        seed += 1
        if SEED or time.monotonic() - began > SECONDS or len(tally.differences) > 20:
            break
    print(tally)
    print(dict(tally.reasons.most_common()))
    assert not tally.differences, "\n".join(tally.differences[:30])
    if not SEED:
        counts = tally.counts
        assert counts["maintain"] > counts["evict"], tally
        assert counts["maintain"] + counts["evict"] > 10 * counts["refused"], tally
        assert counts["compared hit maintain"] > 500, tally
        assert counts["compared hit evict"] > 50, tally
