"""MySQL 9.7 with innodb_native_foreign_keys=OFF: in a session that was begun anew (COM_RESET_CONNECTION,
COM_CHANGE_USER) InnoDB itself follows foreign keys, and the binlog has nothing of the children's rows."""

from __future__ import annotations

import pytest

from integration.oracle.answers import parse
from integration.oracle.asker import Asker
from integration.servers.mysql_server import Server
from integration.support.raw_client import RawClient
from proxy.mysql.wire.packets import (
    CLIENT_DEPRECATE_EOF,
    CLIENT_MULTI_STATEMENTS,
)

READ = "SELECT id, p FROM child WHERE id = 1"
OTHER = "SELECT id, p FROM child WHERE id = 2"
OF_PARENT = "SELECT COUNT(*) FROM child WHERE p = 1"
WRITES = (
    "DELETE FROM parent WHERE id = 1",
    "UPDATE parent SET id = 9 WHERE id = 1",
    "REPLACE INTO parent VALUES (1)",
    "INSERT INTO parent VALUES (1) ON DUPLICATE KEY UPDATE id = 11",
)


@pytest.fixture(scope="module", autouse=True)
def logged(mysql: Server) -> None:
    """Elsewhere InnoDB follows all keys (`test_cascades_by_innodb.py`)."""
    if mysql.execute("SHOW VARIABLES LIKE 'innodb_native_foreign_keys'") != (("innodb_native_foreign_keys", "OFF"),):
        pytest.skip("this MySQL's binlog has no rows that foreign keys change")


def begun_anew(client: RawClient, how: str, database: str) -> None:
    if how == "statement":
        client.query("SET binlog_format = 'STATEMENT'")
    elif how != "plain":
        client.begin_anew(database, change_user=how == "change")


@pytest.mark.parametrize("beside", [False, True], ids=["through", "beside"])
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("how", ["plain", "reset", "change", "statement"])
def test_children_of_cascades(asker: Asker, how: str, write: str, beside: bool) -> None:
    asker.begin(
        [
            "CREATE TABLE parent (id INT PRIMARY KEY)",
            "CREATE TABLE child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id)"
            " ON DELETE CASCADE ON UPDATE CASCADE)",
            "INSERT INTO parent VALUES (1), (2)",
            "INSERT INTO child VALUES (1, 1), (2, 2)",
        ]
    )
    for name, text in (("c", "SELECT id, p FROM child WHERE id = ?"), ("d", "SELECT COUNT(*) FROM child WHERE p = ?")):
        answer = asker.create_cache(name, text)
        assert answer.errno == 0, answer.message
    for text in (READ, OF_PARENT, OTHER):
        asker.until_hit(text)
    make = asker.beside.direct if beside else asker.beside.client
    with make(database=asker.database, capabilities=CLIENT_DEPRECATE_EOF | CLIENT_MULTI_STATEMENTS) as client:
        assert client.query("DELETE FROM parent WHERE id = 7")[4] == 0  # and the stream knows the table
        assert client.query("INSERT INTO parent VALUES (8)")[4] == 0
        begun_anew(client, how, asker.database)
        assert client.query(write)[4] == 0
        asker.wait()
        if not beside:  # the session's own writes
            assert parse(client.query(READ), binary=False).rows == asker.ask("direct", READ, None).rows
    if how == "plain":
        asker.ask("through", OTHER, None)
        assert asker.served()[0] == "hit", "the binlog has all that has changed"
    for text in (READ, OF_PARENT):
        assert asker.ask("through", text, None).rows == asker.ask("direct", text, None).rows


def test_only_tables_that_follow_are_emptied(asker: Asker) -> None:
    """Of sessions begun anew: rows of a table further up, and of one that has come to be there by a later key."""
    asker.begin(
        [
            "CREATE TABLE beside (id INT PRIMARY KEY, v INT)",
            "CREATE TABLE top (id INT PRIMARY KEY, v INT)",
            "CREATE TABLE parent (id INT PRIMARY KEY, t INT, FOREIGN KEY (t) REFERENCES top (id) ON DELETE CASCADE)",
            "CREATE TABLE child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id) ON DELETE CASCADE)",
            "INSERT INTO beside VALUES (1, 1), (2, 2)",
            "INSERT INTO top VALUES (1, 1), (2, 2), (3, 3)",
            "INSERT INTO parent VALUES (1, 1), (2, 2)",
            "INSERT INTO child VALUES (1, 1), (2, 2)",
        ]
    )
    assert asker.create_cache("c", "SELECT id, p FROM child WHERE id = ?").errno == 0

    def held() -> bool:
        asker.wait()
        assert asker.ask("through", READ, None).rows == asker.ask("direct", READ, None).rows
        return asker.served()[0] == "hit"

    def hold() -> None:
        for _ in range(100):
            if held():
                return
        raise AssertionError("never a hit")

    with asker.beside.direct(database=asker.database, capabilities=CLIENT_DEPRECATE_EOF) as client:
        begun_anew(client, "reset", asker.database)

        def write(text: str) -> None:
            assert client.query(text)[4] == 0, text

        hold()
        write("DELETE FROM beside WHERE id = 1")
        write("UPDATE top SET v = 2 WHERE id = 1")  # its key says nothing of updates
        assert held()
        write("DELETE FROM top WHERE id = 3")  # whose rows another row follows, nobody can tell
        assert not held()
        hold()
        write("ALTER TABLE top ADD FOREIGN KEY (v) REFERENCES beside (id) ON UPDATE CASCADE ON DELETE CASCADE")
        asker.settled()
        hold()
        write("DELETE FROM beside WHERE id = 5")
        assert held(), "no row was deleted"
        write("DELETE FROM beside WHERE id = 2")
        assert not held()
        assert asker.ask("direct", READ, None).rows == ()
