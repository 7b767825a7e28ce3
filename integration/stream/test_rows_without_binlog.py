"""Changes that MySQL commits, and of which its binlog has the tables' names only."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from pathlib import Path

import pymysql
import pytest

from dataflow.messages import Ddl, Transaction
from integration.servers.mysql_server import Server
from integration.stream.stream_support import follow
from integration.support.grpc_app import proxy_beside
from vstream.binlog.open_transaction import NOT_ALL

TABLES = (
    "CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(9), KEY (s))",
    "CREATE TABLE w (id INT PRIMARY KEY, v INT)",
    "INSERT INTO w VALUES (1, 1)",
    "CREATE FUNCTION rename_second() RETURNS INT DETERMINISTIC MODIFIES SQL DATA"
    " BEGIN UPDATE t SET s = 'new' WHERE id = 2; RETURN 1; END",
    "INSERT INTO t VALUES (1, 'old'), (2, 'old')",
)


DIGITS = "(SELECT 0 AS n UNION SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5)"
EVERYDAY = (
    "CREATE TABLE t (id INT PRIMARY KEY, v INT, s VARCHAR(9))",
    "CREATE TABLE p (id INT PRIMARY KEY, v INT)",
    "CREATE TABLE c (id INT PRIMARY KEY, pid INT,"
    " FOREIGN KEY (pid) REFERENCES p (id) ON DELETE CASCADE ON UPDATE CASCADE)",
    "CREATE TABLE r (id INT PRIMARY KEY, rid INT, FOREIGN KEY (rid) REFERENCES r (id) ON DELETE CASCADE)",
    "CREATE TABLE log (id INT AUTO_INCREMENT PRIMARY KEY, v INT)",
    "CREATE TABLE w (id INT PRIMARY KEY, v INT)",
    "INSERT INTO w VALUES (2, 1)",
    "CREATE TRIGGER updated AFTER UPDATE ON t FOR EACH ROW INSERT INTO log (v) VALUES (NEW.v)",
    "CREATE TRIGGER deleted AFTER DELETE ON t FOR EACH ROW UPDATE w SET v = v + 1 WHERE id = OLD.id",
)
LOCKS = "LOCK TABLES t WRITE, p WRITE, log WRITE, c WRITE, w WRITE"
# Of one session each; a statement that begins with ! fails.
STATEMENTS = (
    (
        "INSERT INTO t SELECT a.n * 1000 + b.n * 100 + d.n * 10 + e.n, 1, 'x'"
        f" FROM {DIGITS} a, {DIGITS} b, {DIGITS} d, {DIGITS} e",
    ),
    ("INSERT INTO p VALUES (1, 1), (2, 2), (3, 3)", "INSERT INTO c VALUES (1, 1), (2, 2)"),
    (
        "INSERT INTO r VALUES (1, NULL), (2, 1), (3, 2)",
        "UPDATE r SET id = 4 WHERE id = 3",
        "DELETE FROM r WHERE id = 1",
    ),
    ("UPDATE t SET v = 2", "UPDATE t SET v = 2", "UPDATE t SET v = 7 WHERE id = -1", "DELETE FROM t WHERE id = -1"),
    ("UPDATE t JOIN p ON p.id = t.id SET t.v = 3, p.v = 4", "UPDATE t JOIN p ON p.id = t.id SET t.v = 3, p.v = 5"),
    ("UPDATE t JOIN p ON p.id = t.id SET t.v = 3, p.v = 4 WHERE p.id = 99",),
    ("DELETE t, p FROM t JOIN p ON p.id = t.id WHERE p.id = 3",),
    ("INSERT INTO p VALUES (1, 5) ON DUPLICATE KEY UPDATE v = 9",) * 2,
    (
        "INSERT IGNORE INTO p VALUES (1, 5)",
        "REPLACE INTO p VALUES (9, 5), (10, 6)",
        "!INSERT INTO p VALUES (21, 1), (1, 1)",
    ),
    (LOCKS, "UPDATE t SET v = 8 WHERE id = 2", "UPDATE p SET v = 1 WHERE id = -1", "UPDATE p SET v = 77 WHERE id = 2"),
    ("SET autocommit = 0", LOCKS, "UPDATE t SET v = 9 WHERE id = 2", "UPDATE p SET v = 78 WHERE id = 2", "COMMIT"),
    ("LOCK TABLES r WRITE", "INSERT INTO r VALUES (10, NULL), (11, 10)", "DELETE FROM r WHERE id = 10"),
    ("SET autocommit = 0", "LOCK TABLES r WRITE", "INSERT INTO r VALUES (10, NULL)", "DELETE FROM r", "COMMIT"),
    ("LOCK TABLES w WRITE", "UPDATE w SET v = 5", "UPDATE w SET v = 6"),
    (
        "BEGIN",
        "UPDATE p SET v = 3",
        "SAVEPOINT a",
        "UPDATE p SET v = 4",
        "ROLLBACK TO a",
        "UPDATE p SET v = 5",
        "COMMIT",
    ),
    ("BEGIN", "UPDATE t SET v = 13 WHERE id = 2", "!INSERT INTO p VALUES (20, 1), (1, 1)", "COMMIT"),
    ("UPDATE p SET id = 30 WHERE id = 1", "DELETE FROM t WHERE id = 2", "DELETE FROM p WHERE id = 30"),
    ("SET binlog_row_image = MINIMAL", "UPDATE t SET v = 5"),
    ("SET binlog_transaction_compression = ON", "UPDATE t SET v = 6"),
    ("XA START 'a'", "UPDATE p SET v = 6 WHERE id = 2", "XA END 'a'", "XA PREPARE 'a'", "XA COMMIT 'a'"),
    ("INSERT INTO log (v) SELECT v FROM t", "DELETE FROM log"),
)


def test_everyday_statements_have_all_their_rows(mysql: Server, database: str) -> None:
    """None empties the tables that it announces."""

    def execute() -> None:
        for statements in STATEMENTS:
            with mysql.connect(database=database) as connection, connection.cursor() as cursor:
                for statement in statements:
                    with pytest.raises(pymysql.err.MySQLError) if statement[0] == "!" else nullcontext():
                        cursor.execute(statement.lstrip("!"))

    async def scenario() -> None:
        mysql.execute(f"USE `{database}`", *EVERYDAY)
        async with follow(mysql) as stream:
            for name in ("t", "p", "c", "r", "w", "log"):
                stream.want(database, name)
            await stream.caught_up()
            await asyncio.to_thread(execute)
            await stream.caught_up()
            assert not [event for event in stream.events if isinstance(event, Ddl) and NOT_ALL in event.statement]
            assert len([event for event in stream.events if isinstance(event, Transaction)]) > len(STATEMENTS)

    asyncio.run(asyncio.wait_for(scenario(), 120))


WRITES = ("SELECT rename_second()", "UPDATE t SET s = 'new' WHERE id = 2")
BEHIND = ("DO 1", "UPDATE w SET v = v + 1")


@pytest.mark.parametrize("behind", BEHIND)
@pytest.mark.parametrize("written", WRITES)
def test_a_statement_whose_rows_are_not_in_the_binlog_empties_its_tables(
    mysql: Server, database: str, tmp_path: Path, written: str, behind: str
) -> None:
    """A write under LOCK TABLES, an error behind it, and a COMMIT."""

    def write() -> None:
        with mysql.connect(database=database) as connection, connection.cursor() as cursor:
            cursor.execute("SET autocommit = 0")
            cursor.execute("LOCK TABLES t WRITE, w WRITE")
            cursor.execute(written)
            with pytest.raises(pymysql.err.MySQLError):
                cursor.execute("SELECT nothing_there")
            cursor.execute(behind)
            cursor.execute("COMMIT")

    async def scenario() -> None:
        async with proxy_beside(mysql, database, tmp_path) as proxy:
            await proxy.write(*TABLES)
            await proxy.caught_up()
            await proxy.client.create_cache("SELECT s FROM t WHERE id = ?", name="by_id", database=database)
            cache = proxy.client.cache("by_id")
            while (await cache.get(2)).served != "hit":
                pass
            await asyncio.to_thread(write)
            await proxy.caught_up()
            assert [row.s for row in await cache.get(2)] == ["new"]
            await proxy.write("UPDATE t SET s = 'newer' WHERE id = 2")
            await proxy.caught_up()
            assert [row.s for row in await cache.get(2)] == ["newer"]

    asyncio.run(asyncio.wait_for(scenario(), 120))
