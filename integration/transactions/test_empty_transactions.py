"""COMMIT and ROLLBACK of transactions of which MySQL has seen nothing: answered here as MySQL would, and only then.

Drivers with autocommit off, and pools that roll back each connection that comes home, send one for every few reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, proxy_in_thread
from integration.support.raw_client import Ended, RawClient
from integration.support.same_bytes import same
from proxy.mysql.wire.packets import CLIENT_DEPRECATE_EOF, COM_PING, COM_RESET_CONNECTION, ERR

DATABASE = "empty_transactions"
READ = "SELECT id, n FROM item WHERE id = {}"
TABLES = (
    "CREATE TABLE item (id INT PRIMARY KEY, n INT)",
    "INSERT INTO item VALUES " + ", ".join(f"({n}, {n})" for n in range(10)),
)
SAME_ROWS = [f"UPDATE {DATABASE}.item SET n = id"]


@pytest.fixture(scope="module")
def beside(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    mysql.execute(f"DROP DATABASE IF EXISTS {DATABASE}", f"CREATE DATABASE {DATABASE}", f"USE {DATABASE}", *TABLES)
    with proxy_in_thread(mysql, DATABASE, Path(tmp_path_factory.mktemp("state"))) as found:
        with found.client() as client:
            assert client.query("CREATE CACHE by_id FROM " + READ.format("?"))[4] == 0
            for key in range(10):
                client.query(READ.format(key))
        yield found
        found.at_rest()
    mysql.execute(f"DROP DATABASE {DATABASE}")


def passed(beside: Beside) -> int:
    return beside.call(lambda: beside.shared.passed)


def ended_at_mysql(beside: Beside, client: RawClient, end: str) -> int:
    """How many statements MySQL has answered for it."""
    before = passed(beside)
    assert client.query(end)[4] != ERR
    return passed(beside) - before


def without_autocommit(client: RawClient) -> None:
    """As a driver begins. MySQL has ended a transaction."""
    client.query("SET autocommit = 0")
    client.query("ROLLBACK")


def test_the_end_of_a_transaction_of_hits_does_not_reach_mysql(beside: Beside) -> None:
    with beside.client() as client:
        without_autocommit(client)
        before = passed(beside)
        for end in ("COMMIT", "ROLLBACK", "commit work;", "/* pool */ ROLLBACK"):
            for key in range(3):
                client.query(READ.format(key))
            client.query(end)
        assert passed(beside) == before
        explained = client.query("EXPLAIN LAST STATEMENT")
    assert b"answered" in explained
    assert b"nothing of the transaction has reached MySQL" in explained


@pytest.mark.parametrize("autocommit", [0, 1])
def test_answers_are_as_from_mysql(beside: Beside, autocommit: int) -> None:
    def script(client: RawClient) -> None:
        client.query(f"SET autocommit = {autocommit}")
        client.query("COMMIT")
        for end in ("COMMIT", "ROLLBACK", "COMMIT AND NO CHAIN", "ROLLBACK NO RELEASE"):
            client.query(READ.format(1))
            client.query(end)
            client.command(COM_PING)
            client.query(end)
            client.query("SHOW WARNINGS")
            client.query(READ.format(2))
            client.query(end)
            client.query("SELECT ROW_COUNT()")
            client.query(READ.format("'3x'"))
            client.query(end)
            client.query("SELECT @@warning_count")

    same(beside, script)


def test_a_new_transaction_sees_what_was_committed_meanwhile(beside: Beside) -> None:
    with beside.client() as client:
        without_autocommit(client)
        first = client.query(READ.format(4))
        beside.mysql.execute(f"UPDATE {DATABASE}.item SET n = 99 WHERE id = 4")
        beside.caught_up()
        client.query("COMMIT")
        client.query(READ.format(4))
        before = passed(beside)
        second = client.query(READ.format(4))
        assert passed(beside) == before
    beside.mysql.execute(*SAME_ROWS)
    beside.caught_up()
    assert b"\x0299" in second
    assert b"\x0299" not in first


@pytest.mark.parametrize(
    "work",
    [
        ("SELECT COUNT(*) FROM item",),
        ("UPDATE item SET n = n WHERE id = 1",),
        ("BEGIN", "SELECT COUNT(*) FROM item"),
        ("START TRANSACTION READ WRITE", READ.format(1)),
        ("SET TRANSACTION READ ONLY",),
        ("SAVEPOINT a",),
        ("SELECT 1",),
        ("DO 1",),
        ("SET gtid_next = 'AUTOMATIC'",),  # with another value an empty transaction takes the GTID
        ("SELECT COUNT(*) FROM item", READ.format(1)),
        ("PREPARE s FROM 'UPDATE item SET n = n WHERE id = 1'", "EXECUTE s"),
        ("SET autocommit = 1", "SET autocommit = 0"),
    ],
    ids=lambda work: "; ".join(work),
)
def test_what_has_reached_mysql_ends_there(beside: Beside, work: tuple[str, ...]) -> None:
    with beside.client() as client:
        without_autocommit(client)
        assert ended_at_mysql(beside, client, "COMMIT") == 0
        for sql in work:
            client.query(sql)
        assert ended_at_mysql(beside, client, "ROLLBACK") == 1
        client.query(READ.format(1))
        assert ended_at_mysql(beside, client, "ROLLBACK") == 0


def test_writes_are_rolled_back(beside: Beside) -> None:
    with beside.client() as client:
        without_autocommit(client)
        client.query("COMMIT")
        client.query("UPDATE item SET n = 77 WHERE id = 5")
        client.query("ROLLBACK")
        assert b"\x015\x015" in client.query(READ.format(5))


def test_an_end_that_does_more_is_for_mysql(beside: Beside) -> None:
    def script(client: RawClient) -> None:
        client.query("SET autocommit = 0")
        client.query("COMMIT")
        client.query("COMMIT AND CHAIN")
        client.query("SELECT trx_isolation_level FROM information_schema.innodb_trx WHERE 0")
        client.query("ROLLBACK")
        client.query("SET completion_type = 'CHAIN'")
        client.query("COMMIT")
        client.query("COMMIT")
        client.query("SET completion_type = 'RELEASE'")
        client.query("COMMIT")
        try:
            client.query("COMMIT")
        except Ended:
            client.note("the end", b"")

    same(beside, script, [("deprecate-eof", CLIENT_DEPRECATE_EOF)])


def test_no_transaction_is_left_open_that_ddl_would_wait_for(beside: Beside) -> None:
    with beside.client() as client:
        without_autocommit(client)
        client.query(READ.format(1))  # of whose rights MySQL is asked in the session
        client.query("CREATE TEMPORARY TABLE own (id INT)")
        client.query("COMMIT")
        client.query(READ.format(1))  # it is asked what temporary tables hide
        client.query("SET @x = 1")
        client.query("COMMIT")
        client.query(READ.format(1))
        assert ended_at_mysql(beside, client, "COMMIT") == 0
        beside.mysql.execute("SET lock_wait_timeout = 1", f"ALTER TABLE {DATABASE}.item COMMENT = 'changed'")
        beside.caught_up()


def test_a_connection_that_was_reset_tells_mysql_once(beside: Beside) -> None:
    with beside.client() as client:
        without_autocommit(client)
        assert ended_at_mysql(beside, client, "COMMIT") == 0
        client.command(COM_RESET_CONNECTION)
        assert ended_at_mysql(beside, client, "COMMIT") == 1
        assert ended_at_mysql(beside, client, "COMMIT") == 0
