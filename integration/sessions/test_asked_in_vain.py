"""Statements behind which all is known of a session that a hit needs, but perhaps whether a temporary table hides one:
MySQL is asked nothing more about it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pymysql
import pytest

from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, proxy_in_thread
from integration.support.served import Reads
from integration.support.wire_client import WireClient

DATABASE = "asked_in_vain"
TABLES = (
    "CREATE TABLE item (id INT PRIMARY KEY, n INT)",
    "INSERT INTO item VALUES (1, 10)",
    "CREATE TABLE other (id INT PRIMARY KEY, n INT)",
    "CREATE FUNCTION hidden() RETURNS INT DETERMINISTIC MODIFIES SQL DATA BEGIN CREATE TEMPORARY TABLE item"
    " SELECT 1 id, 777 n; RETURN 1; END",
    "CREATE PROCEDURE fails() BEGIN CREATE TEMPORARY TABLE item SELECT 1 id, 777 n; SIGNAL SQLSTATE '45000'; END",
)
READ = "SELECT id, n FROM item WHERE id = 1"


@pytest.fixture(scope="module")
def beside(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    mysql.execute(f"DROP DATABASE IF EXISTS {DATABASE}", f"CREATE DATABASE {DATABASE}", f"USE {DATABASE}", *TABLES)
    with proxy_in_thread(mysql, DATABASE, Path(tmp_path_factory.mktemp("state"))) as found:
        with found.client() as client:
            client.query("CREATE CACHE by_id FROM SELECT id, n FROM item WHERE id = ?")
        yield found
        found.at_rest()
    mysql.execute(f"DROP DATABASE {DATABASE}")


@pytest.fixture
def client(beside: Beside) -> Iterator[WireClient]:
    made = WireClient(eof=True, host="127.0.0.1", port=beside.proxy.app.mysql_port, user="root", database=DATABASE)
    until_hit(made)
    yield made
    made.close()


def served(client: WireClient) -> str:
    return str(client.query("EXPLAIN LAST STATEMENT")[0][0])


def until_hit(client: WireClient) -> None:
    reads = Reads("hit")
    while True:
        client.query(READ)
        if reads.done(served(client)):
            return


def asked(client: WireClient) -> int:
    """How many statements MySQL has had of the session, this question counted."""
    return int(client.query("SHOW SESSION STATUS LIKE 'Questions'")[0][1])


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE made (id INT PRIMARY KEY, n INT DEFAULT (ABS(-1)), CHECK (n > 0)) PARTITION BY HASH (id)",
        "CREATE TABLE shaped (id INT AS (n + ABS(n)), n INT)",
        "CREATE INDEX by_n ON other (n)",
        "CREATE OR REPLACE VIEW seen (a, b) AS SELECT id, n FROM other",
        "ALTER TABLE other ADD COLUMN more INT, ADD INDEX of_more (more)",
        "DO 1",
        "DO @x := 1, @y := 2",
        "DO (SELECT COUNT(*) FROM other)",
        "FLUSH STATUS",
        "FLUSH LOCAL TABLES other",
        "FLUSH BINARY LOGS",
    ],
)
def test_behind_these_a_hit_asks_for_temporary_tables_at_most(
    beside: Beside, client: WireClient, statement: str
) -> None:
    before = asked(client)
    client.query(statement)
    beside.caught_up()
    client.query(READ)
    assert served(client) == "hit"
    begins = 0 if statement == "FLUSH STATUS" else before + 1
    assert asked(client) - begins in ((1,) if statement.startswith("DO") else (1, 2))


def test_a_temporary_table_is_looked_for_once(client: WireClient) -> None:
    """A session that once had a reason to look has looked, until there is another one."""
    client.query("CREATE TEMPORARY TABLE own (id INT)")
    until_hit(client)
    before = asked(client)
    for statement in ("SET @x = 1", "USE asked_in_vain", "SET SESSION sql_mode = DEFAULT"):
        client.query(statement)
        client.query(READ)
        assert served(client) == "hit"
    with pytest.raises(pymysql.err.OperationalError):
        client.query("SELECT nope")
    client.query(READ)
    assert served(client) == "hit" and asked(client) == before + 5
    client.query("ALTER TABLE own ADD COLUMN n INT")
    client.query("ALTER TABLE own RENAME TO item")
    assert client.query(READ) == [] and served(client) == "passed"


@pytest.mark.parametrize(
    "statement",
    ["CREATE TABLE one_more (id INT) SELECT hidden() AS id", "DO hidden()", "CALL fails()", "DO (SELECT hidden())"],
)
def test_what_may_hide_a_table_is_looked_at(client: WireClient, statement: str) -> None:
    try:
        client.query(statement)
    except pymysql.err.OperationalError:
        assert statement == "CALL fails()"
    assert client.query(READ) == [(1, 777)] and served(client) == "passed"
