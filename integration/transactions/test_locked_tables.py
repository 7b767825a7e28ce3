"""A table that is locked keeps its own reads waiting, and no others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from external_upquery.executor import Executor
from integration.servers.mysql_server import Server
from integration.support.grpc_app import Proxy, proxy_beside, run
from integration.support.mysql_clients import Asker, connected
from tests.support.waiting import until

ROWS = 500
TABLES = ("t", "u", "v", "w", "x")
LOCKED = {  # of t: alone, joined, in evict mode
    "t_by_id": "SELECT a FROM t WHERE id = ?",
    "t_with_u": "SELECT t.a, u.a FROM t JOIN u ON u.id = t.id WHERE t.id = ?",
    "t_with_v": "SELECT v.a FROM v JOIN t ON t.id = v.id WHERE v.id = ?",
    "t_values": "SELECT COUNT(DISTINCT a) FROM t WHERE id < ?",
}
OTHERS = {
    "u_by_id": "SELECT a FROM u WHERE id = ?",
    "v_by_id": "SELECT a, id FROM v WHERE id = ?",
    "w_with_x": "SELECT w.a, x.a FROM w JOIN x ON x.id = w.id WHERE w.id = ?",
    "w_values": "SELECT COUNT(DISTINCT a) FROM w WHERE id < ?",
}
MISSES = 60


@asynccontextmanager
async def caches(mysql: Server, database: str, state: Path) -> AsyncIterator[tuple[Proxy, Asker]]:
    numbers = (
        f"WITH RECURSIVE s AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM s WHERE n < {ROWS}) SELECT n, n % 50 FROM s"
    )
    mysql.execute(f"USE `{database}`")
    for table in TABLES:
        mysql.execute(
            f"USE `{database}`", f"CREATE TABLE {table} (id INT PRIMARY KEY, a INT)", f"INSERT INTO {table} {numbers}"
        )
    async with proxy_beside(mysql, database, state) as proxy:
        asker = await connected(proxy)
        for name, query in (LOCKED | OTHERS).items():
            await asker.ask(f"CREATE CACHE {name} FROM {query}")
            await asker.until_hit(query.replace("?", "%s"), 1)  # now it is known how MySQL announces the columns
        yield proxy, asker
        await asker.close()


def test_cold_keys_of_other_tables_are_filled_while_a_table_is_locked(
    mysql: Server, database: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with caches(mysql, database, tmp_path) as (proxy, asker):
            executor = proxy.app.executor
            assert isinstance(executor, Executor)
            with mysql.connect(database=database) as connection, connection.cursor() as cursor:
                cursor.execute("LOCK TABLES t WRITE")
                names = list(LOCKED)
                hung = [
                    asyncio.ensure_future(proxy.client.cache(names[at % len(names)]).get(2 + at, timeout=300))
                    for at in range(MISSES)
                ]
                shares, locked = executor.jobs.queue.shares, f"`{database}`.`t`"
                await until(lambda: shares.asked(locked) >= 4 and 0 < executor.queued == executor.held_back)
                for key in range(100, 110):
                    for name, query in OTHERS.items():
                        _, served, why = await asker.read(query.replace("?", "%s"), key)
                        assert served != "passed", (name, key, why)
                        filled = await proxy.client.cache(name).get(key + 100, timeout=300)
                        assert filled.served != "passed", (name, key, filled.why)
                text = "SELECT SUM(a) FROM u WHERE id < 9"
                assert list(await proxy.client.query(text, database=database, timeout=300)) == [(36,)]
                assert not any(one.done() for one in hung), "the table is locked"
                cursor.execute("UNLOCK TABLES")
            answers = await asyncio.gather(*hung)
            with mysql.connect(database=database) as connection, connection.cursor() as cursor:
                for at, answer in enumerate(answers):
                    cursor.execute(LOCKED[names[at % len(names)]].replace("?", "%s"), (2 + at,))
                    assert list(answer) == list(cursor.fetchall())

    run(scenario)
