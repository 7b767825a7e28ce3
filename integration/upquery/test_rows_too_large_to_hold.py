"""Rows of more than 2 MiB are MySQL's to answer: they are held nowhere, and cost the keys beside them nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path

from integration.servers.mysql_server import Server
from integration.support.grpc_app import Proxy, proxy_beside, run
from integration.support.proxy_thread import proxy_in_thread
from integration.support.served import last_served, read_until_hit
from upwell.client import Client

TABLE = (
    "CREATE TABLE t (id INT PRIMARY KEY, k INT NOT NULL, s LONGTEXT, KEY (k))",
    "INSERT INTO t VALUES (1, 1, 'a'), (2, 1, 'b'), (3, 2, REPEAT('c', 3000000)), (4, 2, 'd')",
    "INSERT INTO t VALUES (5, 3, REPEAT('e', 2000000))",
)
BY_ID = "SELECT id, s FROM t WHERE id = {}"
LISTED = "SELECT id, LEFT(s, 9), s FROM t WHERE id IN ({}) ORDER BY id"


def test_such_reads_are_passed_and_others_beside_them_are_hits(mysql: Server, database: str, tmp_path: Path) -> None:
    mysql.execute(f"USE `{database}`", *TABLE)
    with proxy_in_thread(mysql, database, tmp_path) as beside, beside.client() as client, beside.direct() as direct:
        for sql in (BY_ID.format("?"), LISTED.format("?, ?, ?, ?"), "SELECT MAX(s) FROM t WHERE k = ?"):
            client.query(f"CREATE CACHE FROM {sql}")
        for key in (1, 2, 4, 5):
            read_until_hit(beside, client, client.query, BY_ID.format(key))
        upqueries = beside.proxy.app.executor.counters["upqueries"]
        for _ in range(5):
            assert client.query(BY_ID.format(3)) == direct.query(BY_ID.format(3))
            assert last_served(beside, client).startswith("passed")
        assert "2097152 bytes" in last_served(beside, client)
        assert beside.proxy.app.executor.counters["upqueries"] <= upqueries + 1, "it is remembered for a while"
        for key in (1, 2, 4, 5):
            assert client.query(BY_ID.format(key)) == direct.query(BY_ID.format(key))
            assert last_served(beside, client) == "hit"

        listed = LISTED.format("1, 2, 3, 4")
        for _ in range(5):
            assert client.query(listed) == direct.query(listed)
        read_until_hit(beside, client, client.query, LISTED.format("1, 2, 4, 5"))
        for key in (1, 2, 3):
            of_key = f"SELECT MAX(s) FROM t WHERE k = {key}"
            for _ in range(3):
                assert client.query(of_key) == direct.query(of_key)

        # It becomes small enough, and is a hit; another becomes too large, and is none.
        mysql.execute(f"USE `{database}`", "UPDATE t SET s = IF(id = 3, 'c', REPEAT('d', 2500000)) WHERE id IN (3, 4)")
        beside.caught_up()
        for cache in beside.proxy.app.catalog.caches.values():
            beside.call(cache.too_large.forget)
        read_until_hit(beside, client, client.query, BY_ID.format(3))
        for key in (1, 2, 3, 4, 5):
            assert client.query(BY_ID.format(key)) == direct.query(BY_ID.format(key))


def test_a_fill_of_all_keys(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            await asyncio.to_thread(fill, proxy)
            proxy.app.engine.check_invariants()

    def fill(proxy: Proxy) -> None:
        with Client(f"127.0.0.1:{proxy.app.grpc_port}", token=proxy.app.grpc_token) as client:
            client.create_cache(BY_ID.format("?"), name="c", database=proxy.database)
            *_, done = client.cache("c").fill(by="direct")
            assert (done.held, done.left, done.why) == (4, 1, "a row of the answer is over 2097152 bytes")
            assert [len(client.cache("c").get(key)[0][1]) for key in (1, 2, 4, 5)] == [1, 1, 1, 2_000_000]

    mysql.execute(f"USE `{database}`", *TABLE)
    run(scenario)
