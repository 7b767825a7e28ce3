"""What the overview says of a proxy beside a real MySQL: caches with their figures, passed queries, plans, rates."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pymysql

from integration.servers.mysql_server import Server
from integration.support.grpc_app import Proxy, proxy_beside, run
from proxy.system.overviews import Overviews
from tests.support.waiting import until

TABLES = (
    "CREATE TABLE item (id INT PRIMARY KEY, owner INT, name VARCHAR(20), KEY (owner))",
    "CREATE TABLE part (id INT PRIMARY KEY, item INT, KEY (item))",
    "INSERT INTO item VALUES (1, 1, 'one'), (2, 1, 'two')",
    "INSERT INTO part VALUES (1, 1), (2, 1)",
)
JOINED = "SELECT i.name, p.id FROM item i JOIN part p ON p.item = i.id WHERE i.id = ?"


def got(proxy: Proxy, path: str) -> Any:
    with urlopen(f"http://127.0.0.1:{proxy.app.http_port}{path}", timeout=60) as answer:
        return json.loads(answer.read())


def ask(proxy: Proxy, *texts: str) -> None:
    user, password, port = proxy.mysql.user, proxy.mysql.password, proxy.app.mysql_port
    with (
        pymysql.connect(host="127.0.0.1", port=port, user=user, password=password, database=proxy.database) as session,
        session.cursor() as cursor,
    ):
        for text in texts:
            cursor.execute(text)


async def sampled(overviews: Overviews) -> bool:
    return bool((await overviews.look()).history.rows)


def test_an_overview_of_a_proxy_at_work(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            await proxy.write(*TABLES)
            await proxy.client.create_cache(JOINED, name="joined", database=database)
            for _ in range(5):
                await proxy.client.cache("joined").get(1)
            await asyncio.to_thread(ask, proxy, "SELECT name FROM item WHERE owner = 1", "SELECT RAND()")
            seen = await asyncio.to_thread(got, proxy, "/v1/overview")

            cache = seen["caches"]["joined"]
            assert (cache["mode"], cache["state"], cache["keys"]) == ("maintain", "ready", 1)
            assert cache["hits"] + cache["misses"] == 5 and cache["misses"] >= 1 and cache["bytes"] > 0
            assert cache["miss_p99_us"] >= cache["miss_p50_us"] > 0 and cache["sql"] == JOINED
            assert cache["tables"] == [f"{database}.item", f"{database}.part"]
            assert seen["source"]["up"] and seen["source"]["position"] and seen["ready"] == ""
            assert seen["reads"]["hits"] == cache["hits"] and seen["memory"]["used"] > 0
            queries = {query["query"]: query["cacheable"] for query in seen["queries"]}
            assert all(query["id"] for query in seen["queries"])
            assert queries["SELECT name FROM item WHERE owner = ?"] == "yes" and queries["SELECT RAND()"] == "no"

            plan = await asyncio.to_thread(got, proxy, "/v1/caches/joined/plan")
            kinds = [node["kind"] for node in plan["nodes"]]
            assert kinds == ["table", "table", "arrangement", "arrangement", "reader"]
            assert {edge["target"] for edge in plan["edges"]} == {"a0", "a1", "reader"}
            assert "query: SELECT" in plan["text"]

    run(scenario)


EVICTED = "SELECT COUNT(DISTINCT item) FROM part WHERE item = ?"


def test_it_tells_what_emptied_each_cache_and_how_much_needlessly(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path, verify_new_caches="off") as proxy:
            await proxy.write(*TABLES)
            await proxy.client.create_cache(EVICTED, name="evicted", database=database)
            await proxy.client.create_cache(JOINED, name="joined", database=database)
            evicted, joined = proxy.client.cache("evicted"), proxy.client.cache("joined")
            overviews, table = proxy.app.router.overviews, f"{database}.part"
            for text in ("INSERT INTO part VALUES (3, 1)", "DELETE FROM part WHERE item = 1"):
                await evicted.get(1)  # 1 both times, and 0 at last
                await joined.get(1)
                await proxy.write(text)
                await proxy.caught_up()
            await evicted.get(1)
            seen = (await overviews.look()).caches
            found = seen["evicted"]
            assert (found.emptied, found.emptied_by) == (2, {"change": {table: 2}})
            assert (found.compared, found.needless) == ({table: 2}, {table: 1})
            assert (seen["joined"].emptied, seen["joined"].emptied_by) == (0, {}), "changes are computed into it"

            await proxy.client.flush_cache("evicted")
            await evicted.get(1)
            await proxy.write("ALTER TABLE part ADD note INT")
            await proxy.caught_up()
            await until(lambda: ready_again(overviews))
            found = (await overviews.look()).caches["evicted"]
            assert found.emptied_by == {"change": {table: 2}, "flush": {"": 1}, "ddl": {"": 1}}
            shown = await asyncio.to_thread(asked, proxy, "SHOW CACHES LIKE 'evicted'")
            assert shown["emptied"] == 4
            assert shown["emptied_by"] == f"{table} 2 (50% needlessly), ddl 1, flush 1"
            metrics = await asyncio.to_thread(text_of, proxy, "/metrics")
            labels = f'cache="evicted",cause="change",table="{table}"'
            assert f"upwell_cache_emptied_total{{{labels}}} 2.0" in metrics
            assert f'upwell_cache_needless_total{{cache="evicted",table="{table}"}} 1.0' in metrics

            await proxy.client.drop_cache("evicted")
            await proxy.client.create_cache(EVICTED, name="evicted", database=database)
            assert (await overviews.look()).caches["evicted"].emptied == 0
            again = await asyncio.to_thread(text_of, proxy, "/metrics")
            assert f"upwell_cache_emptied_total{{{labels}}} 2.0" in again, "no counter falls"

    run(scenario)


async def ready_again(overviews: Overviews) -> bool:
    return all(cache.state == "ready" for cache in (await overviews.look()).caches.values())


def text_of(proxy: Proxy, path: str) -> str:
    with urlopen(f"http://127.0.0.1:{proxy.app.http_port}{path}", timeout=60) as answer:
        text: str = answer.read().decode()
    return text


def asked(proxy: Proxy, text: str) -> dict[str, Any]:
    """The first row."""
    user, password, port = proxy.mysql.user, proxy.mysql.password, proxy.app.mysql_port
    with (
        pymysql.connect(host="127.0.0.1", port=port, user=user, password=password, database=proxy.database) as session,
        session.cursor(pymysql.cursors.DictCursor) as cursor,
    ):
        cursor.execute(text)
        row: dict[str, Any] = cursor.fetchall()[0]
    return row


def test_the_last_hour_is_kept_whoever_looks(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            await proxy.write(*TABLES)
            await proxy.client.create_cache(JOINED, name="joined", database=database)
            for _ in range(20):
                await proxy.client.cache("joined").get(1)
            overviews = proxy.app.router.overviews
            await until(lambda: sampled(overviews))
            history = (await overviews.look()).history
            row = dict(zip(history.columns, history.rows[0], strict=True))
            assert row["hits"] > 0 and row["memory"] > 0 and 0 < row["hit_rate"] <= 1

    run(scenario)


def test_caches_come_and_go_and_earn_their_trust(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path, verify_new_caches="4") as proxy:
            await proxy.write(*TABLES)
            overviews, create = proxy.app.router.overviews, proxy.client.create_cache
            assert not (await overviews.look()).caches
            for number in range(30):
                await create(f"SELECT id + {number} FROM item WHERE owner = ?", name=f"c{number}", database=database)
            await proxy.client.cache("c7").get(1)
            seen = (await overviews.look()).caches
            assert len(seen) == 30 and all(cache.trust == "being checked" for cache in seen.values())
            assert (seen["c7"].checked, seen["c8"].checked) == (1, 0)
            await proxy.client.drop_cache("c7")
            assert "c7" not in (await overviews.look()).caches
            await create("SELECT name FROM item WHERE owner = ?", name="c7", database=database)
            again = (await overviews.look()).caches["c7"]
            assert (again.misses, again.keys, again.sql) == (0, 0, "SELECT name FROM item WHERE owner = ?")
            while not (await overviews.look()).caches["c7"].miss_p50_us:  # measured of some at each look, in turn
                await proxy.client.cache("c7").get(1)

    run(scenario)
