"""A DDL statement that MySQL has executed and whose event has not come: caches are made of what the tables look like
now, beside those that were made before it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from integration.grpc_app import Proxy, held_back, proxy_beside, run
from integration.mysql_server import Server
from integration.test_automatic_caching import STORIES, watching
from tests.support.waiting import until

TABLES = (*STORIES, "CREATE TABLE other (id INT PRIMARY KEY, n INT)", "INSERT INTO other VALUES (1, 10)")
OTHER = "SELECT n FROM other WHERE id = ?"


async def stays_current(proxy: Proxy) -> None:
    """The cache `other`, of a table that no DDL statement concerns. Its stream is held back."""
    made = await proxy.client.create_cache(OTHER, name="other", database=proxy.database)
    assert made.state == "ready"
    assert await proxy.client.cache("other").get(1) == [(10,)]
    await proxy.write("UPDATE other SET n = 11 WHERE id = 1")


async def is_current(proxy: Proxy) -> None:
    await proxy.caught_up()
    answers = [await proxy.client.cache("other").get(1) for _ in range(3)]
    assert answers == [[(11,)]] * 3 and answers[-1].served == "hit"


@pytest.mark.parametrize(
    ("altered", "made"),
    [
        ("DROP COLUMN title", "SELECT author FROM stories WHERE id = ?"),
        ("RENAME COLUMN title TO name", "SELECT name FROM stories WHERE id = ?"),
        ("ADD COLUMN more INT DEFAULT 7 FIRST", "SELECT more FROM stories WHERE id = ?"),
        ("MODIFY title VARCHAR(200) FIRST", "SELECT author FROM stories WHERE id = ?"),
    ],
)
def test_caches_of_before_and_behind_it(mysql: Server, database: str, tmp_path: Path, altered: str, made: str) -> None:
    """Rows of before it are still to come when the second cache is made. None is taken for another."""

    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            await proxy.write(*TABLES)
            await proxy.caught_up()
            await until(lambda: proxy.binlog._reader is not None)
            before = "SELECT title, author FROM stories WHERE id = ?"
            await proxy.client.create_cache(before, name="before", database=database)
            assert await proxy.client.cache("before").get(1) == [("one", 1)]
            with held_back(proxy):
                await proxy.write("UPDATE stories SET title = 'uno', author = 5 WHERE id = 1")
                await proxy.write(f"ALTER TABLE stories {altered}")
                told = await proxy.client.create_cache(made, name="behind", database=database)
                assert told.state == "ready"
                expected = await at_mysql(proxy, made)
                assert await proxy.client.cache("behind").get(1) == expected
                await stays_current(proxy)
            await is_current(proxy)
            for _ in range(2):
                answer = await proxy.client.cache("behind").get(1)
                assert answer == expected
            assert answer.served == "hit"
            info = {each.name: each for each in await proxy.app.router.list_caches()}["before"]
            if "title" in str(await asyncio.to_thread(mysql.execute, f"SHOW CREATE TABLE {database}.stories")):
                assert await proxy.client.cache("before").get(1) == await at_mysql(proxy, before)
            else:
                assert (info.state, info.why) == ("refused", "unknown column 'title'")

    run(scenario)


async def at_mysql(proxy: Proxy, sql: str) -> list[tuple[object, ...]]:
    """Its rows for the key 1."""
    return list(await asyncio.to_thread(proxy.mysql.execute, f"USE {proxy.database}", sql.replace("?", "1")))


def test_an_automatic_cache_behind_one_that_was_named(mysql: Server, database: str, tmp_path: Path) -> None:
    """What is known of the table for automatic caches is of before the DDL statement, and no cache is left of that."""

    async def scenario() -> None:
        async with watching(mysql, database, tmp_path) as (proxy, auto):
            await proxy.write(*TABLES)
            await proxy.caught_up()
            await until(lambda: proxy.binlog._reader is not None)

            async def asked(sql: str) -> None:
                for number in range(25):
                    await proxy.client.query(sql.replace("?", str(number)), database=database)
                await auto.look()

            await asked("SELECT title FROM stories WHERE author = ? ORDER BY id LIMIT 3")
            await proxy.client.drop_cache("auto1")
            with held_back(proxy):
                await proxy.write("ALTER TABLE stories ADD COLUMN latest INT DEFAULT 8")
                latest = "SELECT latest FROM stories WHERE id = ?"
                await proxy.client.create_cache(latest, name="latest", database=database)
                await asked("SELECT author FROM stories WHERE author = ? ORDER BY author LIMIT 2")
                await stays_current(proxy)
            await is_current(proxy)
            assert await proxy.client.cache("latest").get(1) == [(8,)]
            states = {info.name: info.state for info in await proxy.app.router.list_caches()}
            assert states == {"latest": "ready", "auto1": "ready", "other": "ready"}

    run(scenario)
