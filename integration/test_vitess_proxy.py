"""The proxy before a keyspace of two shards: its answers are vtgate's, held and kept current by the stream."""

from __future__ import annotations

import asyncio
import random
from contextlib import closing
from pathlib import Path

import pytest

from integration.grpc_app import run
from integration.vitess.cluster import Cluster
from integration.vitess.proxy import VitessProxy, proxy_before
from integration.vitess.shop import SHARDED, write

pytestmark = pytest.mark.timeout(1800)  # the first of them may build it

QUERIES = {
    "by_id": ("SELECT id, n, name FROM item WHERE id = ?", range(60)),
    "by_n": ("SELECT id, name FROM item WHERE n = ? ORDER BY id", range(8)),
    "sums": ("SELECT COUNT(*), SUM(n), MAX(id) FROM item WHERE n = ?", range(8)),
    "first": ("SELECT id, n FROM item WHERE n < ? ORDER BY id LIMIT 5", (5, 50)),
    "pairs": ("SELECT a.id, b.id FROM item a JOIN item b ON b.id = a.n WHERE a.n = ?", range(8)),
}


async def compare(proxy: VitessProxy) -> int:
    """Each answer with vtgate's own; how many of them were hits."""
    hits = 0
    for name, (sql, keys) in QUERIES.items():
        for key in keys:
            await proxy.client.cache(name).get(key)
            found = await proxy.client.cache(name).get(key)
            expected = await proxy.asked(sql.replace("?", str(key)))
            assert sorted(map(tuple, found)) == sorted(expected), (name, key)
            hits += found.served == "hit"
    return hits


def test_answers_are_held_and_kept_current(vitess: Cluster, tmp_path: Path) -> None:
    rng = random.Random(3)
    vitess.execute(SHARDED, "DELETE FROM item")

    def some_writes() -> None:
        with closing(vitess.connect(SHARDED)) as connection, connection.cursor() as cursor:
            for number in range(60):
                write(cursor, rng, number % 8)

    async def scenario() -> None:
        async with proxy_before(vitess, SHARDED, tmp_path) as proxy:
            for name, (sql, _) in QUERIES.items():
                await proxy.client.create_cache(sql, name=name)
            asked = sum(len(keys) for _, keys in QUERIES.values())
            for _ in range(3):
                await asyncio.to_thread(some_writes)
                await proxy.caught_up()
                assert await compare(proxy) == asked

    run(scenario)
