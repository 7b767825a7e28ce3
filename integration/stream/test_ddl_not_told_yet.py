"""A DDL statement that MySQL has executed and whose event has not come: caches are made of what the tables look like
now, beside those that were made before it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dataflow.messages import StreamEvent
from integration.caches.test_automatic_caching import STORIES, watching
from integration.conftest import OwnMySQL
from integration.servers.mysql_server import Server
from integration.support.grpc_app import Proxy, held_back, proxy_beside, run
from tests.support.waiting import until
from vstream.source import Busy

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
            info = {each.name: each for each in await proxy.app.router.caches.listed()}["before"]
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
            states = {info.name: info.state for info in await proxy.app.router.caches.listed()}
            assert states == {"latest": "ready", "auto1": "ready", "other": "ready"}

    run(scenario)


@contextmanager
def one_event(proxy: Proxy) -> Iterator[asyncio.Event]:
    """The stream brings one event and no more meanwhile; then that is set."""
    binlog, came = proxy.binlog, asyncio.Event()
    sink, busy = binlog._sink, binlog.busy
    assert sink is not None

    def take(event: StreamEvent) -> None:
        came.set()
        sink(event)

    waiting: list[Callable[[], None]] = []
    binlog.busy, binlog._sink = Busy(lambda: came.is_set() or busy.now(), waiting.append), take
    try:
        yield came
    finally:
        binlog.busy, binlog._sink = busy, sink
        for call in waiting:
            call()


def test_one_by_which_other_rows_follow(own_mysql: OwnMySQL, tmp_path: Path) -> None:
    """A foreign key whose deletes are in no binlog. Without it nothing would tell the first cache of them."""
    mysql = own_mysql("--innodb-native-foreign-keys=ON")
    mysql.execute("CREATE DATABASE d")
    key = "CONSTRAINT f FOREIGN KEY (pid) REFERENCES p (id) ON DELETE CASCADE"

    async def scenario() -> None:
        async with proxy_beside(mysql, "d", tmp_path) as proxy:
            await proxy.write(
                "CREATE TABLE p (id INT PRIMARY KEY)",
                f"CREATE TABLE c (id INT PRIMARY KEY, pid INT, t INT, {key})",
                "INSERT INTO p VALUES (1), (2)",
                "INSERT INTO c VALUES (1, 1, 7), (2, 2, 8)",
            )
            await proxy.caught_up()
            await until(lambda: proxy.binlog._reader is not None)
            await proxy.client.create_cache("SELECT t FROM c WHERE id = ?", name="first", database="d")
            assert await proxy.client.cache("first").get(1) == [(7,)]
            with one_event(proxy) as came:
                with held_back(proxy):
                    await proxy.write("DELETE FROM p WHERE id = 1", "ALTER TABLE c DROP FOREIGN KEY f")
                    await proxy.client.create_cache("SELECT pid FROM c WHERE id = ?", name="second", database="d")
                await came.wait()
                assert await proxy.client.cache("first").get(1) == []

    run(scenario)


@pytest.mark.parametrize(
    ("altered", "made"),
    [
        ("ADD COLUMN more VARCHAR(10) DEFAULT 'q'", "SELECT id FROM s WHERE more = ?"),
        ("MODIFY k VARCHAR(20)", "SELECT n FROM s WHERE k = ?"),
    ],
)
def test_a_large_transaction_of_before_it(
    mysql: Server, database: str, tmp_path: Path, altered: str, made: str
) -> None:
    """It is being worked out as a cache of behind the statement is made, which knows its rows by other columns."""
    numbers = (
        "WITH RECURSIVE r AS (SELECT 1 i UNION ALL SELECT i + 1 FROM r WHERE i < 30000) SELECT i, i % 50, i % 7 FROM r"
    )

    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            await proxy.write(
                "CREATE TABLE s (id INT PRIMARY KEY, k INT, n INT, INDEX (k))",
                "SET cte_max_recursion_depth = 100000",
                f"INSERT INTO s {numbers}",
            )
            await proxy.caught_up()
            await until(lambda: proxy.binlog._reader is not None)
            await proxy.client.create_cache("SELECT id, n FROM s WHERE k = ?", name="before", database=database)
            for key in range(20):
                await proxy.client.cache("before").get(key)
            change, waits = proxy.app.router.pump.change, True
            go_on = change._go_on

            def slowly() -> None:
                if waits:
                    asyncio.get_running_loop().call_later(0.01, change._go_on)
                else:
                    go_on()

            change._go_on = slowly  # type: ignore[method-assign]
            with held_back(proxy):
                await proxy.write("UPDATE s SET n = n + 1, k = (k + 1) % 50", f"ALTER TABLE s {altered}")
            await until(lambda: change.event is not None)
            await proxy.client.create_cache(made, name="behind", database=database)
            assert change.event is not None
            waits = False
            await proxy.caught_up()
            counters = (await proxy.client.status()).counters
            assert (counters["faults"], counters["resets"]) == (0, 0)
            for value in ("1", "q"):
                for _ in range(2):
                    answer = sorted(map(tuple, await proxy.client.cache("behind").get(value)))
                    found = await asyncio.to_thread(mysql.execute, f"USE {database}", made.replace("?", f"'{value}'"))
                    assert answer == sorted(found)

    run(scenario)
