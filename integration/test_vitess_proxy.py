"""The proxy before a keyspace of two shards: its answers are vtgate's, held and kept current by the stream."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from integration.grpc_app import run
from integration.vitess.cluster import Cluster
from integration.vitess.proxy import VitessProxy, proxy_before
from integration.vitess.shop import PLAIN, SHARDED, write
from upwell.errors import SourceError

pytestmark = pytest.mark.timeout(1800)  # the first of them may build it

QUERIES = {
    "by_id": ("SELECT id, n, name FROM item WHERE id = ?", range(60)),
    "by_n": ("SELECT id, name FROM item WHERE n = ? ORDER BY id", range(8)),
    "sums": ("SELECT COUNT(*), SUM(n), MAX(id) FROM item WHERE n = ?", range(8)),
    "first": ("SELECT id, n FROM item WHERE n < ? ORDER BY id LIMIT 5", (5, 50)),
    "pairs": ("SELECT a.id, b.id FROM item a JOIN item b ON b.id = a.n WHERE a.n = ?", range(8)),
}


async def compare(proxy: VitessProxy) -> Counter[str]:
    """Each answer with vtgate's own; how they were served."""
    served: Counter[str] = Counter()
    for name, (sql, keys) in QUERIES.items():
        for key in keys:
            await proxy.client.cache(name).get(key)
            found = await proxy.client.cache(name).get(key)
            expected = await proxy.asked(sql.replace("?", str(key)))
            assert sorted(map(tuple, found)) == sorted(expected), (name, key)
            served[f"{found.served} {found.why}".strip()] += 1
    return served


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
                assert await compare(proxy) == {"hit": asked}

    run(scenario)


def test_a_text_is_about_the_keyspace_that_is_named_with_it(vitess: Cluster, tmp_path: Path) -> None:
    vitess.execute(SHARDED, "DELETE FROM item", "INSERT INTO item (id, n) VALUES (1, 1)")
    vitess.execute(PLAIN, "CREATE TABLE IF NOT EXISTS lone (id BIGINT PRIMARY KEY)")

    async def scenario() -> None:
        async with proxy_before(vitess, SHARDED, tmp_path) as proxy:
            for _ in range(3):
                assert [row[0] for row in await proxy.client.query("SELECT COUNT(*) FROM item")] == [1]
                with pytest.raises(SourceError):
                    await proxy.client.query("SELECT COUNT(*) FROM item", database=PLAIN)
                assert [row[0] for row in await proxy.client.query("SELECT COUNT(*) FROM lone", database=PLAIN)] == [0]
            await proxy.client.create_cache(f"SELECT id FROM {SHARDED}.item WHERE id = ?", name="named", database=PLAIN)
            for _ in range(3):
                assert [row.id for row in await proxy.client.cache("named").get(1)] == [1]
            assert [row[0] for row in await proxy.client.query("SELECT COUNT(*) FROM lone", database=PLAIN)] == [0]

    run(scenario)


def test_a_shard_that_does_nothing_makes_no_key_of_another_one_wait(vitess: Cluster, tmp_path: Path) -> None:
    rows = ", ".join(f"({number}, 0)" for number in range(40))
    vitess.execute(SHARDED, "DELETE FROM item", f"INSERT INTO item (id, n) VALUES {rows}")

    async def scenario() -> None:
        async with proxy_before(vitess, SHARDED, tmp_path, verify_new_caches="off", check_sample="off") as proxy:
            await proxy.client.create_cache("SELECT id, n FROM item WHERE id = ?", name="by_id")
            await proxy.client.create_cache("SELECT id, name FROM item WHERE id = ?", name="names")
            cache, another = proxy.client.cache("by_id"), proxy.client.cache("names")
            here = []
            for number in range(40):
                await cache.get(number)
                if "-80" in str(await proxy.asked(f"SELECT shard FROM {SHARDED}.hash WHERE id = {number}")):
                    here.append(number)
            assert 10 < len(here) < 30
            with vitess.held_up(SHARDED, "80-"):
                async with asyncio.timeout(30):
                    for number in here:
                        update = f"UPDATE item SET n = 7, name = 'x' WHERE id = {number}"
                        await asyncio.to_thread(vitess.execute, SHARDED, update)
                        found = await cache.get(number)
                        while [row.n for row in found] != [7]:  # until the stream has brought it
                            found = await cache.get(number)
                        assert found.served == "hit"
                        assert (await another.get(number)).served == "miss"
                        assert (await another.get(number)).served == "hit"

    run(scenario)
