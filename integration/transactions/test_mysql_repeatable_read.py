"""REPEATABLE READ over MySQL's protocol: what a transaction was shown it is shown again, and all of it is one state."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration.servers.mysql_server import Server
from integration.support.grpc_app import Proxy, run
from integration.support.mysql_clients import Asker
from integration.support.mysql_shop import BY_ID, OF_GROUP, shop
from proxy.mysql.reads.gate import AGAIN, CHANGED, UNCHANGED
from tests.support.waiting import until

OPEN = "the REPEATABLE READ transaction has its snapshot at MySQL"
LOCKED = "the transaction may have written or locked rows"
TWO = "SELECT id, n, name FROM item WHERE id IN (%s, %s)"
JOINED = "SELECT a.n, b.n FROM item a JOIN item b ON b.id = a.grp WHERE a.id = %s"


async def written(proxy: Proxy, sql: str) -> None:
    await proxy.write(sql)
    await proxy.caught_up()


async def mixed(proxy: Proxy) -> int:
    return (await proxy.client.status()).counters["mixed_snapshots"]


async def warm(asker: Asker, *reads: tuple[str, tuple[int, ...]]) -> None:
    for sql, values in reads:
        await asker.until_hit(sql, *values)


@pytest.mark.parametrize("begin", ["BEGIN", "SET autocommit = 0", "START TRANSACTION READ ONLY"])
def test_a_row_that_is_read_twice_is_the_same_twice(mysql: Server, database: str, tmp_path: Path, begin: str) -> None:
    async def scenario() -> None:
        async with shop(mysql, database, tmp_path) as (proxy, asker):
            await warm(asker, (BY_ID, (1,)), (BY_ID, (2,)))
            await asker.ask(begin)
            assert await asker.read(BY_ID, 1) == (((1, 10, "item 1"),), "hit", IN_ONE_STATE)
            await written(proxy, "UPDATE item SET n = 1 WHERE id IN (1, 2)")
            assert await asker.read(BY_ID, 1) == (((1, 10, "item 1"),), "hit", AGAIN)
            assert await asker.read(BY_ID, 2) == (((2, 1, "item 2"),), "passed", CHANGED), "it was not shown"
            assert await asker.read(BY_ID, 1) == (((1, 10, "item 1"),), "hit", AGAIN), "MySQL has its snapshot now"
            await asker.ask("COMMIT")
            if begin == "SET autocommit = 0":
                await asker.ask("SET autocommit = 1")
            assert await asker.read(BY_ID, 1) == (((1, 1, "item 1"),), "hit", "")

    run(scenario)


IN_ONE_STATE = "hit inside a REPEATABLE READ transaction (same snapshot)"


def test_what_has_not_changed_is_a_hit_where_the_transaction_stands(
    mysql: Server, database: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with shop(mysql, database, tmp_path) as (proxy, asker):
            await warm(asker, *((BY_ID, (key,)) for key in range(1, 6)), (OF_GROUP, (0,)), (OF_GROUP, (1,)))
            await asker.ask(f"CREATE CACHE joined FROM {JOINED.replace('%s', '?')}")
            await asker.ask("CREATE CACHE both FROM SELECT id, n, name FROM item WHERE id IN (?)")
            await warm(asker, (JOINED, (3,)), (JOINED, (4,)), (TWO, (3, 4)), (TWO, (3, 5)))
            await asker.ask("BEGIN")
            assert (await asker.read(BY_ID, 1))[1:] == ("hit", IN_ONE_STATE)
            stands = (await asker.ask("EXPLAIN LAST STATEMENT"))[0][3]
            await written(proxy, "UPDATE item SET n = n + 1 WHERE id = 1")
            await written(proxy, "UPDATE item SET name = 'another' WHERE id = 2")
            # Groups: 0 has the items 0, 3, 6, 9, and 1 has 1, 4, 7. An item is joined with that of its group's number.
            for sql, values in (
                (BY_ID, (3,)), (TWO, (3, 4)), (OF_GROUP, (0,)), (JOINED, (3,)),
            ):  # fmt: skip
                assert (await asker.read(sql, *values))[1:] == ("hit", UNCHANGED), (sql, values)
                assert (await asker.ask("EXPLAIN LAST STATEMENT"))[0][3] == stands
            assert await mixed(proxy) == 0
            await written(proxy, "UPDATE item SET n = 0 WHERE id IN (3, 4)")
            assert await asker.read(BY_ID, 3) == (((3, 30, "item 3"),), "hit", AGAIN)
            for sql, values in ((BY_ID, (2,)), (TWO, (3, 5)), (OF_GROUP, (1,)), (JOINED, (4,))):
                await asker.ask("COMMIT")
                await asker.ask("BEGIN")
                assert (await asker.read(BY_ID, 5))[1] == "hit"
                await written(proxy, "UPDATE item SET n = n + 1 WHERE id IN (5, 1, 2)")
                assert (await asker.read(sql, *values))[1:] == ("passed", CHANGED), (sql, values)

    run(scenario)


def test_a_key_that_is_not_held_is_mysqls_once_something_has_changed(
    mysql: Server, database: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with shop(mysql, database, tmp_path) as (proxy, asker):
            await warm(asker, (BY_ID, (1,)))
            await asker.ask("BEGIN")
            await asker.ask(BY_ID, 1)
            assert (await asker.read(BY_ID, 2))[1] == "miss"
            await written(proxy, "UPDATE item SET n = 0 WHERE id IN (1, 3)")
            assert (await asker.read(BY_ID, 3))[1:] == ("passed", CHANGED)
            assert await mixed(proxy) == 1
            assert (await asker.read(BY_ID, 2))[1:] == ("hit", AGAIN), "the miss was shown, too"
            assert (await asker.read(BY_ID, 4))[1:] == ("passed", OPEN)

    run(scenario)


@pytest.mark.parametrize("write", ["UPDATE item SET n = 7 WHERE id = 1", "SELECT n FROM item WHERE id = 1 FOR UPDATE"])
def test_a_transaction_that_has_written_or_locked_is_shown_nothing_again(
    mysql: Server, database: str, tmp_path: Path, write: str
) -> None:
    async def scenario() -> None:
        async with shop(mysql, database, tmp_path) as (_, asker):
            await warm(asker, (BY_ID, (1,)))
            await asker.ask("BEGIN")
            await asker.ask(BY_ID, 1)
            await asker.ask(write)
            rows, served, reason = await asker.read(BY_ID, 1)
            assert (rows[0][1], served, reason) == (7 if "SET" in write else 10, "passed", LOCKED)
            await asker.ask("ROLLBACK")

    run(scenario)


def test_a_changed_table_is_shown_as_before_and_one_of_its_own_is_not(
    mysql: Server, database: str, tmp_path: Path
) -> None:
    """The transaction has nothing open at MySQL, so that a DDL statement need not wait for it."""

    async def scenario() -> None:
        async with shop(mysql, database, tmp_path) as (proxy, asker):
            await until(lambda: proxy.app.router.accounts.version > 0)  # the first look at rights
            await warm(asker, (BY_ID, (1,)))
            await asker.ask("BEGIN")
            await asker.ask(BY_ID, 1)
            await written(proxy, "ALTER TABLE item MODIFY n VARCHAR(20)")
            await proxy.app.catalog.settled()
            assert await asker.read(BY_ID, 1) == (((1, 10, "item 1"),), "hit", AGAIN)
            await asker.ask("ROLLBACK")
            assert (await asker.read(BY_ID, 1))[0] == ((1, "10", "item 1"),)
            await asker.ask("BEGIN")
            await asker.ask(BY_ID, 1)
            await asker.ask("CREATE TEMPORARY TABLE item SELECT 1 id, 5 n, 'of my own' name")
            assert (await asker.ask(BY_ID, 1)) == ((1, 5, "of my own"),)

    run(scenario)


def test_equal_values_of_different_types_are_different_questions(mysql: Server, database: str, tmp_path: Path) -> None:
    """1 and 1.0 are equal here, and not always to MySQL. Its own answer to each is the judge."""
    sql = "SELECT id, n FROM item WHERE name = %s OR id = %s"
    literals = ("1", "1.0", "TRUE", "'1'", "'1.0'", "1e0", "1")

    async def scenario() -> None:
        async with shop(mysql, database, tmp_path) as (proxy, asker):
            await asker.ask("UPDATE item SET name = '1.0' WHERE id = 5")
            await asker.ask(f"CREATE CACHE either FROM {sql.replace('%s', '?')}")
            await proxy.caught_up()
            expected = [await asker.ask(sql % (text, text) + " /* upwell: skip */") for text in literals]
            for _ in range(2):
                await asker.ask("BEGIN")
                assert [await asker.ask(sql % (text, text)) for text in literals] == expected
                await asker.ask("COMMIT")

    run(scenario)
