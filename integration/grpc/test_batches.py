"""Batches that are looked up in slices: their answers are of one position, whatever happens between two slices."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import Any

import pytest

import proxy.read.batches
from integration.servers.mysql_server import Server
from integration.support.grpc_app import Proxy, proxy_beside
from proxy.grpc.rows import FORMAT
from proxy.port.api import ParameterValue
from proxy.read.open_cache import OpenCache
from sqltypes.errors import BadParameters, UnknownCache
from tests.support.waiting import until
from upwell.errors import BadParameters as BadClientParameters
from upwell.errors import MessageTooLarge, SourceError, UpwellError
from upwell.rows import Answer

BY_ID = "SELECT id, v FROM t WHERE id = ?"
BY_NAME = "SELECT id, v FROM t WHERE name = ?"
BY_LIST = "SELECT id, v FROM t WHERE id IN (?...)"
IDS = range(1, 7)
Keys = list[tuple[ParameterValue, ...]]
KEYS: dict[str, Keys] = {
    "by_id": [(id,) for id in IDS],
    "by_name": [(f"n{id}",) for id in IDS],
    "by_list": [((id,),) for id in IDS],
}


class Between:
    """Does something once, after so many more slices."""

    def __init__(self) -> None:
        self.left = 0
        self.action: Callable[[], Awaitable[object]] | None = None

    def after(self, slices: int, action: Callable[[], Awaitable[object]]) -> None:
        self.left, self.action = slices, action

    async def sleep(self, seconds: float) -> None:
        self.left -= 1
        if self.action is not None and self.left == 0:
            action, self.action = self.action, None
            await action()
        await asyncio.sleep(seconds)


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> Between:
    """Of slices of two keys."""
    made = Between()
    monkeypatch.setattr(proxy.read.batches, "KEYS_AT_ONCE", 2)
    monkeypatch.setattr(proxy.read.batches, "sleep", made.sleep)
    return made


async def held(beside: Proxy, database: str, name: str, sql: str) -> OpenCache:
    """A cache that holds all keys."""
    await beside.client.create_cache(sql, name=name, database=database)
    opened = beside.app.router.caches.open(name, FORMAT)
    async with asyncio.timeout(60):
        for key in KEYS[name]:
            while opened.hit(key) is None:
                await opened.read(key)
    assert isinstance(opened, OpenCache)
    return opened


def tables(mysql: Server, database: str) -> None:
    mysql.execute(
        f"USE `{database}`",
        "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(9) NOT NULL, v INT NOT NULL, KEY (name))",
        *(f"INSERT INTO t VALUES ({id}, 'n{id}', 0)" for id in IDS),
    )


@pytest.mark.parametrize(("name", "sql"), [("by_id", BY_ID), ("by_name", BY_NAME), ("by_list", BY_LIST)])
def test_what_changes_between_two_slices_is_no_answer_of_the_batch(
    mysql: Server, database: str, tmp_path: Path, name: str, sql: str, between: Between
) -> None:
    tables(mysql, database)

    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path, verify_new_caches="0") as beside:
            opened = await held(beside, database, name, sql)
            keys = KEYS[name]
            before = [opened.hit(key) for key in keys]
            assert await opened.hit_batch(keys) == before and None not in before

            async def write() -> None:
                await beside.write("UPDATE t SET v = v + 1 WHERE id IN (1, 2, 5)")
                await beside.caught_up()

            between.after(2, write)
            bodies = await opened.hit_batch(keys)
            assert between.action is None and bodies[:2] == [None, None], "they were looked up before the change"
            assert bodies[2:4] == before[2:4] and bodies[5] == before[5], "they have not changed"
            assert bodies[4] != before[4] and bodies[4] == opened.hit(keys[4])
            answers = await beside.client.cache(name).get_many([list(key) for key in keys])
            assert [[row[1] for row in answer] for answer in answers] == [[1], [1], [0], [0], [1], [0]]

    asyncio.run(scenario())


def test_a_cache_that_goes_between_two_slices(mysql: Server, database: str, tmp_path: Path, between: Between) -> None:
    tables(mysql, database)

    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path, verify_new_caches="0") as beside:
            opened, keys = await held(beside, database, "by_id", BY_ID), KEYS["by_id"]
            with pytest.raises(BadParameters, match="key 6 of 6"):
                await opened.hit_batch([*keys[:5], (1, 2)])
            evicted = opened._cache.reader
            assert evicted is not None

            async def evict() -> None:
                evicted.drop(evicted.entries[1])

            between.after(1, evict)
            bodies = await opened.hit_batch(keys)
            assert between.action is None and bodies[0] is None and None not in bodies[1:]

            async def alter() -> None:
                await beside.write("ALTER TABLE t ADD COLUMN more INT")
                await beside.caught_up()

            between.after(1, alter)
            assert await opened.hit_batch(keys) == [None] * 6
            await beside.app.catalog.settled()

            async def drop() -> None:
                await beside.client.drop_cache("by_id")

            between.after(1, drop)
            with pytest.raises(UnknownCache):
                await opened.hit_batch(keys)
            assert between.action is None

    asyncio.run(scenario())


OUT_OF_RANGE = "SELECT COUNT(DISTINCT id), MAX(u - ?) FROM unsigned_numbers"
NOT_HELD = "SELECT id, u - ? FROM unsigned_numbers WHERE id = ?"


@pytest.mark.parametrize(("sql", "more"), [(OUT_OF_RANGE, ()), (NOT_HELD, (1,))], ids=["held whole", "by key"])
def test_an_error_is_about_the_key_that_it_is_told_for(
    mysql: Server, database: str, tmp_path: Path, sql: str, more: tuple[int, ...]
) -> None:
    """Upqueries ask for several keys: MySQL's error about one of them is not the others' answer."""

    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as beside:
            await beside.write("CREATE TABLE unsigned_numbers (id INT PRIMARY KEY, u BIGINT UNSIGNED)")
            await beside.write("INSERT INTO unsigned_numbers VALUES (1, 10), (2, 20)")
            await beside.caught_up()
            await beside.client.create_cache(sql, name="subtracted", database=database)
            cache = beside.client.cache("subtracted")
            keys = [(value, *more) for value in (0, 1, 10, 511, None, 5)]
            for _ in range(2):
                several = await cache.try_many(keys)
                at_once = await asyncio.gather(*(cache.get(*key) for key in keys), return_exceptions=True)
                for answers in (several, at_once):
                    assert [isinstance(answer, Exception) for answer in answers] == [key[0] == 511 for key in keys]
                    refused = answers[3]
                    assert isinstance(refused, SourceError) and "BIGINT UNSIGNED" in str(refused)

    asyncio.run(scenario())


def rows_of(outcomes: list[Answer | UpwellError]) -> list[Answer]:
    assert all(isinstance(outcome, Answer) for outcome in outcomes), outcomes
    return [outcome for outcome in outcomes if isinstance(outcome, Answer)]


STAR = "SELECT * FROM t WHERE id = ?"


@contextmanager
def locked(mysql: Server, database: str, table: str) -> Iterator[Any]:
    """A session that has locked the table: what reads it waits."""
    with mysql.connect(database=database) as connection, connection.cursor() as cursor:
        cursor.execute(f"LOCK TABLES {table} WRITE")
        yield cursor


async def waits(mysql: Server) -> None:
    async def locked_out() -> bool:
        return bool(await asyncio.to_thread(mysql.execute, LOCKED_OUT))

    await until(locked_out)


LOCKED_OUT = "SELECT 1 FROM information_schema.processlist WHERE state LIKE 'Waiting for table%'"


def test_a_batch_is_told_under_the_columns_that_its_rows_have(mysql: Server, database: str, tmp_path: Path) -> None:
    """A DDL statement that comes while a batch waits moves a column to the front."""

    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as beside:
            await beside.write("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 10), (2, 20)")
            await beside.caught_up()
            await beside.client.create_cache(STAR, name="star", database=database)
            cache = beside.client.cache("star")
            await cache.get(1)
            with locked(mysql, database, "t") as cursor:
                batch = asyncio.create_task(cache.try_many([1, 2]))
                await waits(mysql)
                await asyncio.to_thread(cursor.execute, "ALTER TABLE t MODIFY COLUMN v INT FIRST")
            answers = rows_of(await batch)
            assert [(row.id, row.v) for (row,) in answers] == [(1, 10), (2, 20)]

    asyncio.run(asyncio.wait_for(scenario(), 120))


def test_a_batch_of_a_cache_that_is_passed_since_a_ddl_statement(mysql: Server, database: str, tmp_path: Path) -> None:
    """A cache that cannot be planned any more still has the columns of before: MySQL's answers have others."""

    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as beside:
            await beside.write("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 10), (2, 20)")
            await beside.caught_up()
            await beside.client.create_cache(STAR, name="star", database=database)
            cache = beside.client.cache("star")
            await cache.get(1)
            await beside.write("RENAME TABLE t TO base", "CREATE VIEW t AS SELECT v, id FROM base WHERE RAND() < 2")
            await beside.caught_up()
            one = await cache.get(1)
            assert [(row.id, row.v) for row in one] == [(1, 10)] and one.served == "passed"
            answers = rows_of(await cache.try_many([1, 2, 3]))
            assert [[(row.id, row.v) for row in answer] for answer in answers] == [[(1, 10)], [(2, 20)], []]
            assert [answer.served for answer in answers] == ["passed"] * 3

    asyncio.run(asyncio.wait_for(scenario(), 120))


def test_a_batch_is_of_one_cache(mysql: Server, database: str, tmp_path: Path) -> None:
    """Another cache gets its name while it waits."""

    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as beside:
            rows = ", ".join(f"({id}, 10)" for id in range(1, 300))
            await beside.write("CREATE TABLE t (id INT PRIMARY KEY, v INT)", f"INSERT INTO t VALUES {rows}")
            await beside.write("CREATE TABLE t2 (id INT PRIMARY KEY, w VARCHAR(9))")
            await beside.write("INSERT INTO t2 SELECT id, CONCAT('s', id) FROM t")
            await beside.caught_up()
            await beside.client.create_cache("SELECT id, v FROM t WHERE id IN (?...)", name="c", database=database)
            cache = beside.client.cache("c")
            with locked(mysql, database, "t"):
                batch = asyncio.create_task(cache.try_many([([id, id + 1],) for id in range(1, 299)], timeout=60))
                await waits(mysql)
                await beside.client.drop_cache("c")
                other = "SELECT w, id FROM t2 WHERE id IN (?...)"
                await beside.client.create_cache(other, name="c", database=database)
            answers = rows_of(await batch)
            assert len({tuple(answer.columns) for answer in answers}) == 1
            for answer in answers:
                named = "w" in answer.columns
                assert all(row.w == f"s{row.id}" if named else row.v == 10 for row in answer)

    asyncio.run(asyncio.wait_for(scenario(), 120))


def test_a_subscription_has_the_columns_of_the_cache_of_now(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as beside:
            await beside.write("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 10)")
            await beside.caught_up()
            await beside.client.create_cache("SELECT id, v FROM t WHERE id = ?", name="c", database=database)
            assert (await beside.client.cache("c").get(1))[0].v == 10
            await beside.app.router.caches.drop("c")  # not through gRPC
            await beside.app.router.caches.create("c", "SELECT v, id FROM t WHERE id = ?", database)
            async with aclosing(beside.client.cache("c").subscribe(1)) as events:
                first = await anext(events)
            assert [(row.id, row.v) for row in first.added] == [(1, 10)]

    asyncio.run(asyncio.wait_for(scenario(), 120))


def test_a_request_of_a_stream_that_is_too_long_or_none_fails_alone(
    mysql: Server, database: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path, max_message_size="64KiB") as beside:
            await beside.write("CREATE TABLE t (id INT PRIMARY KEY, v INT, name VARCHAR(9), KEY (name))")
            await beside.write("INSERT INTO t VALUES (1, 10, 'a'), (2, 20, 'b')")
            await beside.caught_up()
            await beside.client.create_cache(BY_NAME, name="by_name", database=database)
            outcomes: dict[int, Any] = {}
            async for place, outcome in beside.client.cache("by_name").stream(
                ["a", "x" * 70_000, "b", 2**64, object()]
            ):
                outcomes[place] = outcome
            assert isinstance(outcomes[1], MessageTooLarge)
            assert all(isinstance(outcomes[place], BadClientParameters) for place in (3, 4))  # of the client itself
            assert [list(map(tuple, outcomes[place])) for place in (0, 2)] == [[(1, 10)], [(2, 20)]]

    asyncio.run(asyncio.wait_for(scenario(), 120))
