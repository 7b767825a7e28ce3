"""Reads over MySQL's protocol: what is answered by a cache, what by MySQL, and by which rule."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pymysql
import pytest

from integration.servers.mysql_server import Server
from integration.support.grpc_app import run
from integration.support.mysql_clients import connected
from integration.support.mysql_shop import BY_ID, OF_GROUP, shop
from proxy.mysql.reads.announced import FIRST
from proxy.mysql.session.nearest_cache import LOCKING


def test_a_read_is_a_miss_then_a_hit_and_follows_writes(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with shop(mysql, database, tmp_path) as (_, asker):
            assert (await asker.read(BY_ID, 3))[:2] == (((3, 30, "item 3"),), "miss")
            assert (await asker.read(BY_ID, 3))[:2] == (((3, 30, "item 3"),), "hit")
            for written in range(20):
                await asker.ask("UPDATE item SET n = %s WHERE id = 3", written)
                rows, served, _ = await asker.read(BY_ID, 3)
                assert (rows, served) == (((3, written, "item 3"),), "hit")
            assert (await asker.read("SELECT id FROM item WHERE n = 50"))[1] == "passed"

    run(scenario)


def test_of_a_read_that_no_cache_matches_it_is_told_what_is_in_the_way(
    mysql: Server, database: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with shop(mysql, database, tmp_path) as (_, asker):

            async def why(sql: str) -> str:
                _, served, reason = await asker.read(sql)
                assert served == "passed"
                return reason

            for sql, reason in {
                "SELECT id, n, name FROM item WHERE id = 1 FOR UPDATE": f"no cache matches: {LOCKING}",
                "SELECT id, n, name FROM item i WHERE id = 1": "the nearest cache is 'by_id', and this query has `i`",
                "SELECT id, n, name FROM item WHERE id = 1 LIMIT 1": "'by_id', and this query has `LIMIT 1` more",
                "SELECT id, name FROM item WHERE id = 1": "the nearest cache is 'by_id', and this query has no `, n`",
                "SELECT COUNT(*), SUM(n) FROM item WHERE name = 'a'": "'of_group', and this query has `name` for `grp`",
                "SELECT UUID()": "no cache matches: it cannot be cached: ",
                "SELECT MAX(n) FROM item": "no cache matches",
            }.items():
                assert reason in await why(sql), sql

    run(scenario)


def test_what_another_client_writes_is_seen(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with shop(mysql, database, tmp_path) as (proxy, asker):
            assert await asker.ask(OF_GROUP, 1) == ((3, 120),)
            await proxy.write("INSERT INTO item VALUES (100, 1, 1000, 'new')")
            await proxy.caught_up()
            assert (await asker.read(OF_GROUP, 1))[:2] == (((4, 1120),), "hit")

    run(scenario)


def test_a_fill_that_takes_longer_than_is_allowed_leaves_the_read_to_mysql(
    mysql: Server, database: str, tmp_path: Path
) -> None:
    """Which takes as long as it takes without Upwell."""

    async def scenario() -> None:
        async with shop(mysql, database, tmp_path, upquery_timeout="1s") as (proxy, asker):
            while await asker.served(BY_ID, 1) != "hit":  # no fill is under way any more
                pass
            with mysql.connect(database=database) as other, other.cursor() as cursor:
                cursor.execute("LOCK TABLES item WRITE")
                before = (await proxy.client.status()).counters["mysql_passed"]
                reading = asyncio.ensure_future(asker.read(BY_ID, 2))
                while (await proxy.client.status()).counters["mysql_passed"] == before:
                    assert not reading.done()
                cursor.execute("UNLOCK TABLES")
                row, served, why = await reading
            assert (row, served) == (((2, 20, "item 2"),), "passed")
            assert why.endswith("(deadline_passed)")

    run(scenario)


def test_comments_skip_the_cache_and_force_it(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with shop(mysql, database, tmp_path) as (_, asker):
            assert (await asker.read(BY_ID, 1))[1:] == ("miss", "")
            assert await asker.served("/* upwell: skip */ " + BY_ID, 1) == "passed"
            assert await asker.served("/* upwell: force */ " + BY_ID, 1) == "hit"
            with pytest.raises(pymysql.err.NotSupportedError, match="no cache matches"):
                await asker.ask("SELECT name FROM item WHERE n = 1 /* upwell: force */")
            assert await asker.served(BY_ID + " -- the session goes on", 1) == "hit"

    run(scenario)


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("SELECT id, n, name FROM item /*!80000 WHERE id = 3 */", (3, 30, "item 3")),
        ("SELECT id, n, name FROM item WHERE id = 3 /*!90000 + 1 */ /*!80300 + 1 */", None),
        ("SELECT id, n, name FROM item WHERE id = /*!999999 1 + */ 3", (3, 30, "item 3")),
        ("/*!40001 SELECT */ id, n, name FROM item WHERE id = /*! 3 */", (3, 30, "item 3")),
        ("SELECT id, n, name FROM item WHERE id = /*!80000 /* 1 + */ 3 */", None),  # MySQL warns of it
        ("SELECT id, n, name FROM item WHERE id = /*!999999 /* 4 */ 1 + */ 3", None),
    ],
)
def test_version_comments_count_as_mysql_counts_them(
    mysql: Server, database: str, tmp_path: Path, text: str, row: tuple[object, ...] | None
) -> None:
    async def scenario() -> None:
        async with shop(mysql, database, tmp_path) as (_, asker):
            assert (await asker.read(BY_ID, 3))[1] == "miss"
            rows, served, why = await asker.read(text)
            assert rows == mysql.execute(f"USE `{database}`", text)
            if row is not None:
                assert (rows, served, why) == ((row,), "hit", "")
            else:
                assert served == "passed"
            assert await asker.served("SELECT id, n, name FROM item WHERE id = 3 /*!80000 FOR UPDATE */") == "passed"

    run(scenario)


# -- transactions ------------------------------------------------------------------------------------------------------


def test_in_repeatable_read_all_answers_are_one_state(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with shop(mysql, database, tmp_path) as (proxy, asker):
            await asker.ask("SET autocommit = 0")
            for key in (1, 2, 1):
                assert (await asker.read(BY_ID, key))[0] == ((key, key * 10, f"item {key}"),)
            assert await asker.served(BY_ID, 2) == "hit"
            await proxy.write("UPDATE item SET n = 0 WHERE id = 7")
            await proxy.caught_up()
            assert await asker.served(BY_ID, 2) == "hit", "nothing that was shown has changed"
            await proxy.write("UPDATE item SET n = -1 WHERE id = 1")
            await proxy.caught_up()
            assert await asker.served(BY_ID, 2) == "hit", "it has not changed since"
            assert (await asker.read(BY_ID, 1))[:2] == (((1, 10, "item 1"),), "hit"), "it is shown again"
            rows, served, reason = await asker.read(BY_ID, 3)
            assert (rows, served) == (((3, 30, "item 3"),), "passed")
            assert reason == "what the REPEATABLE READ transaction was shown has changed"
            assert (await proxy.client.status()).counters["mixed_snapshots"] == 1
            assert (await asker.read(BY_ID, 4))[2] == "the REPEATABLE READ transaction has its snapshot at MySQL"
            await asker.ask("COMMIT")
            assert (await asker.read(BY_ID, 1))[:2] == (((1, -1, "item 1"),), "hit")

    run(scenario)


def test_read_committed_hits_until_the_first_write(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with shop(mysql, database, tmp_path) as (proxy, asker):
            await asker.ask("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
            await asker.ask("BEGIN")
            await asker.ask(BY_ID, 1)
            assert await asker.served(BY_ID, 1) == "hit"
            await proxy.write("UPDATE item SET n = -1 WHERE id = 1")
            await proxy.caught_up()
            assert (await asker.read(BY_ID, 1))[:2] == (((1, -1, "item 1"),), "hit")
            assert await asker.served("SELECT MAX(n) FROM item") == "passed"
            assert await asker.served(BY_ID, 1) == "hit", "a read without locks changes nothing"
            await asker.ask("SELECT n FROM item WHERE id = 2 FOR UPDATE")
            assert (await asker.read(BY_ID, 1))[1:] == ("passed", "the transaction may have written or locked rows")
            await asker.ask("ROLLBACK")
            assert await asker.served(BY_ID, 1) == "hit"

    run(scenario)


@pytest.mark.parametrize(
    ("mode", "isolation", "served"),
    [
        ("on", "REPEATABLE READ", "hit"),
        ("on", "READ COMMITTED", "hit"),
        ("on", "READ UNCOMMITTED", "hit"),
        ("on", "SERIALIZABLE", "passed"),
        ("strict", "REPEATABLE READ", "passed"),
        ("strict", "READ COMMITTED", "hit"),
        ("off", "READ COMMITTED", "passed"),
        ("off", "REPEATABLE READ", "passed"),
    ],
)
def test_the_rules_of_transactions(
    mysql: Server, database: str, tmp_path: Path, mode: str, isolation: str, served: str
) -> None:
    async def scenario() -> None:
        async with shop(mysql, database, tmp_path, transactions=mode) as (_, asker):
            assert (await asker.read(BY_ID, 1))[1:] == ("miss", "")
            await asker.ask(f"SET SESSION TRANSACTION ISOLATION LEVEL {isolation}")
            await asker.ask("START TRANSACTION")
            assert await asker.served(BY_ID, 1) == served
            await asker.ask("COMMIT")
            assert await asker.served(BY_ID, 1) == "hit"

    run(scenario)


def test_a_write_in_the_transaction_is_read_from_mysql(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with shop(mysql, database, tmp_path) as (_, asker):
            assert (await asker.read(BY_ID, 1))[1:] == ("miss", "")
            await asker.ask("BEGIN")
            assert await asker.served(BY_ID, 1) == "hit"
            await asker.ask("UPDATE item SET n = 5 WHERE id = 1")
            assert (await asker.read(BY_ID, 1))[:2] == (((1, 5, "item 1"),), "passed")
            await asker.ask("ROLLBACK")
            assert (await asker.read(BY_ID, 1))[:2] == (((1, 10, "item 1"),), "hit")

    run(scenario)


def test_a_set_transaction_counts_for_the_next_one(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with shop(mysql, database, tmp_path) as (_, asker):
            assert (await asker.read(BY_ID, 1))[1:] == ("miss", "")
            await asker.ask("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")
            _, served, reason = await asker.read(BY_ID, 1)
            assert served == "passed" and "SET TRANSACTION" in reason
            assert await asker.served(BY_ID, 1) == "hit"

    run(scenario)


# -- the session's state -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("SET @@session.sql_select_limit = 0", "sql_select_limit is 0 in this session"),
        ("SET max_join_size = 100", "max_join_size"),
        ("CREATE TEMPORARY TABLE item (id INT)", "a temporary table hides item"),
        ("LOCK TABLES item READ", "locked tables"),
    ],
)
def test_a_session_that_differs_does_not_hit_and_the_reason_says_why(
    mysql: Server, database: str, tmp_path: Path, statement: str, named: str
) -> None:
    async def scenario() -> None:
        async with shop(mysql, database, tmp_path) as (proxy, asker):
            other = await connected(proxy)
            assert await asker.served("SELECT id, n, name FROM item WHERE id = 1") == "miss"
            await asker.ask(statement)
            with_table = "SELECT id, n, name FROM item WHERE id = 1"
            if "TEMPORARY" in statement:
                with pytest.raises(pymysql.err.OperationalError):
                    await asker.ask(with_table)
                served, reason = (await asker.ask("EXPLAIN LAST STATEMENT"))[0][::2]
            else:
                _, served, reason = await asker.read(with_table)
            assert served == "passed" and named in reason, reason
            assert await other.served("SELECT id, n, name FROM item WHERE id = 1") == "hit"
            await other.close()

    run(scenario)


@pytest.mark.parametrize(
    "statement",
    [
        "SET sql_mode = 'STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO'",
        "SET sql_mode = ''",
        "SET sql_mode = 'ANSI,TRADITIONAL'",
        "SET sql_select_limit = 1",
        "SET NAMES utf8mb4 COLLATE utf8mb4_unicode_ci",
        "SET time_zone = '+02:00'",
        "SET @x = 1",
        "SET lock_wait_timeout = 5",
        "SET group_concat_max_len = 5",
    ],
)
def test_what_cannot_change_the_answer_does_not_keep_it_from_the_cache(
    mysql: Server, database: str, tmp_path: Path, statement: str
) -> None:
    async def scenario() -> None:
        async with shop(mysql, database, tmp_path) as (_, asker):
            assert (await asker.read(BY_ID, 1))[1:] == ("miss", "")
            await asker.ask(statement)
            if "COLLATE" in statement or "sql_mode" in statement:  # the session is told of columns in another way
                assert (await asker.read(BY_ID, 1))[1:] == ("passed", FIRST)
            assert (await asker.read(BY_ID, 1))[1:] == ("hit", "")

    run(scenario)


@pytest.mark.parametrize(
    ("statement", "query", "named"),
    [
        ("SET time_zone = '+02:00'", "SELECT id, HOUR(seen) FROM visit WHERE id = 1", "time_zone"),
        ("SET div_precision_increment = 8", "SELECT AVG(grp) FROM visit WHERE id = 1", "div_precision_increment"),
        ("SET group_concat_max_len = 8", "SELECT GROUP_CONCAT(grp) FROM visit WHERE id = 1", "group_concat_max_len"),
        ("SET lc_time_names = 'de_DE'", "SELECT MONTHNAME(seen) FROM visit WHERE id = 1", "lc_time_names"),
        (
            "SET block_encryption_mode = 'aes-256-ecb'",
            "SELECT AES_ENCRYPT(grp, 'k') FROM visit WHERE id = 1",
            "block_encryption_mode",
        ),
        ("SET sql_auto_is_null = ON", "SELECT id FROM visit WHERE id IS NULL", "sql_auto_is_null"),
    ],
)
def test_a_variable_counts_for_the_queries_that_it_changes(
    mysql: Server, database: str, tmp_path: Path, statement: str, query: str, named: str
) -> None:
    async def scenario() -> None:
        async with shop(mysql, database, tmp_path) as (proxy, asker):
            await proxy.write(
                "CREATE TABLE visit (id INT PRIMARY KEY, grp INT, seen TIMESTAMP)",
                "INSERT INTO visit VALUES (1, 2, '2024-03-05 12:00:00')",
            )
            await proxy.caught_up()
            await asker.ask("CREATE CACHE visits FROM " + query.replace("id = 1", "id = ?"))
            assert (await asker.read(query))[1:] == ("passed", FIRST)
            assert (await asker.read(query))[1] in ("miss", "hit")
            assert (await asker.read(query))[1:] == ("hit", "")
            await asker.ask(statement)
            _, served, reason = await asker.read(query)
            assert served == "passed" and reason.startswith(f"{named} is ")

    run(scenario)


def test_use_changes_which_tables_are_meant(mysql: Server, database: str, tmp_path: Path) -> None:
    other = f"{database}_other"

    async def scenario() -> None:
        async with shop(mysql, database, tmp_path) as (_, asker):
            assert (await asker.read(BY_ID, 1))[1:] == ("miss", "")
            await asker.ask(f"USE `{other}`")
            assert (await asker.read(BY_ID, 1))[:2] == (((1, -1, "other"),), "passed")
            assert await asker.ask(BY_ID.replace("item", f"`{database}`.item"), 1) == ((1, 10, "item 1"),)
            await asker.ask(f"USE `{database}`")
            assert await asker.served(BY_ID, 1) == "hit"

    mysql.execute(
        f"CREATE DATABASE `{other}`",
        f"CREATE TABLE `{other}`.item (id INT PRIMARY KEY, n INT, name VARCHAR(40))",
        f"INSERT INTO `{other}`.item VALUES (1, -1, 'other')",
    )
    try:
        run(scenario)
    finally:
        mysql.execute(f"DROP DATABASE `{other}`")


def test_what_asks_about_the_last_statement_is_about_the_hit(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with shop(mysql, database, tmp_path) as (_, asker):
            await asker.ask(BY_ID, 1)
            await asker.ask("SELECT 1 UNION SELECT 2")
            await asker.ask(BY_ID, 1)
            assert await asker.ask("SELECT FOUND_ROWS()") == ((1,),)
            await asker.ask("SELECT CAST('x' AS SIGNED)")
            await asker.ask(BY_ID, 1)
            assert await asker.ask("SHOW WARNINGS") == ()

    run(scenario)


# -- rights ------------------------------------------------------------------------------------------------------------


def test_a_user_without_the_right_gets_mysqls_own_error(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with shop(mysql, database, tmp_path) as (proxy, asker):
            await proxy.write(f"GRANT INSERT ON `{database}`.item TO reader_1")
            await proxy.caught_up()
            assert (await asker.read(BY_ID, 1))[1:] == ("miss", "")
            user = await connected(proxy, user="reader_1", password="secret")
            with pytest.raises(pymysql.err.OperationalError, match="SELECT command denied"):
                await user.ask(BY_ID, 1)
            assert await asker.served(BY_ID, 1) == "hit", "what another account may not read is still this one's"
            with pytest.raises(pymysql.err.OperationalError, match="SELECT command denied"):
                await user.ask("CREATE CACHE mine FROM SELECT grp FROM item WHERE id = ?")
            await proxy.write(f"GRANT SELECT ON `{database}`.item TO reader_1")
            await proxy.caught_up()
            assert await user.served(BY_ID, 1) == "hit"
            await proxy.write(f"REVOKE SELECT ON `{database}`.item FROM reader_1")
            await proxy.caught_up()
            with pytest.raises(pymysql.err.OperationalError, match="SELECT command denied"):
                await user.ask(BY_ID, 1)
            with pytest.raises(pymysql.err.OperationalError, match="admin-users"):
                await user.ask("DROP CACHE by_id")
            await user.close()

    mysql.execute("DROP USER IF EXISTS reader_1", "CREATE USER reader_1 IDENTIFIED BY 'secret'")
    try:
        run(scenario)
    finally:
        mysql.execute("DROP USER reader_1")


def test_a_column_that_comes_is_in_the_next_answer(mysql: Server, database: str, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with shop(mysql, database, tmp_path) as (proxy, asker):
            await asker.ask("CREATE CACHE whole FROM SELECT * FROM item WHERE id = ?")
            assert await asker.ask("SELECT * FROM item WHERE id = 1") == ((1, 1, 10, "item 1"),)
            await proxy.write("ALTER TABLE item ADD COLUMN more INT NOT NULL DEFAULT 5")
            for _ in range(50):
                (row,) = await asker.ask("SELECT * FROM item WHERE id = 1")
                assert row in ((1, 1, 10, "item 1"), (1, 1, 10, "item 1", 5))
            await proxy.caught_up()
            await proxy.app.catalog.settled()
            assert await asker.ask("SELECT * FROM item WHERE id = 1") == ((1, 1, 10, "item 1", 5),)
            await asker.until_hit("SELECT * FROM item WHERE id = 1")

    run(scenario)
