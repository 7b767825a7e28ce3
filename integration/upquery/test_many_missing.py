"""Very many keys that are not held: a batch has them filled together first, and a list that MySQL answers behind it."""

from __future__ import annotations

from pathlib import Path

from integration.servers.mysql_server import Server
from integration.support.grpc_app import Proxy, proxy_beside, run
from proxy.fills.fills import MANY_MISSED
from tests.support.waiting import until

ROWS = 3 * MANY_MISSED
OPTIONS = {"spark_master": "off", "verify_new_caches": "0"}
TABLE = (
    "CREATE TABLE item (id INT PRIMARY KEY, n INT NOT NULL)",
    "INSERT /*+ SET_VAR(cte_max_recursion_depth = 100000) */ INTO item WITH RECURSIVE s(n) AS"
    f" (SELECT 0 UNION ALL SELECT n + 1 FROM s WHERE n < {ROWS - 1}) SELECT n, n * 3 FROM s",
)


def counted(proxy: Proxy, name: str) -> int:
    return proxy.app.router.status().counters[name]


def test_a_batch_has_its_keys_filled_together(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path, **OPTIONS) as proxy:
            await proxy.write(*TABLE)
            await proxy.app.router.caches.create("c", "SELECT id, n FROM item WHERE id = ?", database)
            cache = proxy.client.cache("c")
            few = await cache.get_many(range(MANY_MISSED - 1))
            assert counted(proxy, "unasked_keys") == 0 and [list(answer) for answer in few[:2]] == [[(0, 0)], [(1, 3)]]
            many = await cache.get_many(range(-10, ROWS))
            assert counted(proxy, "unasked_keys") >= ROWS - MANY_MISSED + 11  # on a busy machine some are asked again
            assert [list(answer) for answer in many[10:]] == [[(id, 3 * id)] for id in range(ROWS)]
            assert all(not list(answer) for answer in many[:10])
            reader = proxy.app.catalog.get("c").reader
            assert reader is not None and len(reader.entries) == ROWS + 10
            await proxy.write("UPDATE item SET n = -1 WHERE id = 5000")
            await proxy.caught_up()
            assert list(await cache.get(5000)) == [(5000, -1)]
            proxy.app.engine.check_invariants()

    run(scenario)


def test_a_cache_that_is_new_is_read_one_by_one(mysql: Server, database: str, tmp_path: Path) -> None:
    """A read brings the comparison with MySQL's own answer with it."""

    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path, spark_master="off", verify_new_caches="32") as proxy:
            await proxy.write(*TABLE)
            await proxy.app.router.caches.create("c", "SELECT id, n FROM item WHERE id = ?", database)
            many = await proxy.client.cache("c").get_many(range(MANY_MISSED))
            assert [list(answer) for answer in many] == [[(id, 3 * id)] for id in range(MANY_MISSED)]
            assert counted(proxy, "unasked_keys") == 0 and counted(proxy, "trust_agrees") > 0

    run(scenario)


def test_what_cannot_be_filled_together_is_read_one_by_one(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path, memory_limit="1MiB", **OPTIONS) as proxy:
            await proxy.write(*TABLE)
            await proxy.app.router.caches.create("c", "SELECT id, n FROM item WHERE id = ?", database)
            many = await proxy.client.cache("c").get_many(range(ROWS))
            assert [list(answer) for answer in many] == [[(id, 3 * id)] for id in range(ROWS)]
            assert proxy.app.engine.memory.used <= proxy.app.engine.limit.bytes

    run(scenario)


def test_a_list_that_mysql_answers_is_filled_behind(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path, **OPTIONS) as proxy:
            await proxy.write(*TABLE)
            await proxy.app.router.caches.create("c", "SELECT id, n FROM item WHERE id IN (?)", database)
            ids = tuple(range(ROWS - 2_500, ROWS))
            sql = f"SELECT id, n FROM item WHERE id IN ({', '.join(map(str, ids))})"
            answer = await proxy.client.query(sql, database=database)
            assert len(answer) == len(ids) and answer.served == "passed", answer.why
            reader = proxy.app.catalog.get("c").reader
            assert reader is not None
            await until(lambda: len(reader.entries) == len(ids))
            assert counted(proxy, "unasked_keys") == len(ids)
            for _ in range(5):  # each encodes a thousand
                again = await proxy.client.query(sql, database=database)
                assert sorted(again) == sorted(answer)
            assert again.served == "hit", again.why
            assert counted(proxy, "unasked_keys") == len(ids), "nothing is asked for twice"

    run(scenario)
