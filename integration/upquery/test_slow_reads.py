"""Slow reads of some do not keep others' misses waiting."""

from __future__ import annotations

import asyncio
from pathlib import Path

from integration.servers.mysql_server import Server
from integration.support.grpc_app import run
from integration.support.mysql_clients import connected
from integration.support.mysql_shop import BY_ID, shop, waits_for_tables
from tests.support.waiting import until

SLEEPERS = 20


def test_a_miss_does_not_wait_for_slow_reads_over_grpc(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with shop(mysql, database, tmp_path) as (proxy, asker):
            app = proxy.app
            text = "SELECT SLEEP(600)"
            sleeping = [asyncio.ensure_future(proxy.client.query(text)) for _ in range(SLEEPERS)]
            async with asyncio.timeout(60):
                await until(lambda: app.executor.in_flight + app.executor.queued >= SLEEPERS)
            cache = proxy.client.cache("by_id")
            for key in range(1, 9):
                assert await asker.served(BY_ID, key) == "miss"
                assert len(await cache.get(9)) == 1  # of gRPC, which waits its turn
            assert not any(one.done() for one in sleeping)
            for one in sleeping:
                one.cancel()
            await asyncio.gather(*sleeping, return_exceptions=True)

    run(scenario)


def test_a_miss_for_which_no_connection_is_free_is_passed_in_its_own_session(
    mysql: Server, database: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with shop(mysql, database, tmp_path, upquery_connections="1") as (proxy, asker):
            await asker.until_hit(BY_ID, 1)
            others = [await connected(proxy)]
            with mysql.connect(database=database) as connection, connection.cursor() as cursor:
                cursor.execute("CREATE TABLE slow (id INT PRIMARY KEY, n INT)")
                cursor.execute("INSERT INTO slow VALUES (1, 1), (2, 2)")
                connection.commit()
                await proxy.caught_up()  # a CREATE TABLE that comes later would have the rights asked for anew
                await others[0].ask("CREATE CACHE slow FROM SELECT id, n FROM slow WHERE id = ?")
                await others[0].ask("SELECT id, n FROM slow WHERE id = %s", 7)  # its rights are known
                cursor.execute("LOCK TABLES slow WRITE")
                waiting = [
                    asyncio.ensure_future(other.served("SELECT id, n FROM slow WHERE id = %s", key))
                    for key, other in enumerate(others, 1)
                ]
                async with asyncio.timeout(60):  # a fill waits, of key 1 or still of key 7, and has the connection
                    await waits_for_tables(mysql, database)
                    await until(lambda: proxy.app.executor.full)
                rows, served, why = await asker.read(BY_ID, 2)
                assert (rows, served, why) == (((2, 20, "item 2"),), "passed", "no connection is free for the fill")
                await asker.until_hit(BY_ID, 1)
                assert not any(one.done() for one in waiting)
                cursor.execute("UNLOCK TABLES")
            await asyncio.gather(*waiting)
            for other in others:
                await other.close()

    run(scenario)
