"""A transaction that has begun with hits has begun: what MySQL refuses in a transaction, or answers otherwise there, it
refuses and answers so through Upwell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, proxy_in_thread
from integration.support.raw_client import RawClient
from integration.support.same_bytes import same
from integration.support.served import last_served, read_until_hit
from proxy.mysql.wire.packets import CLIENT_DEPRECATE_EOF

DATABASE = "begun_by_hits"
READ = "SELECT id, n FROM item WHERE id = 1"
TABLES = (
    "CREATE TABLE item (id INT PRIMARY KEY, n INT)",
    "INSERT INTO item VALUES (1, 10), (2, 20)",
    "CREATE TABLE other (id INT PRIMARY KEY, n INT)",
    "CREATE TABLE unsafe (id INT PRIMARY KEY) ENGINE=MyISAM",
    "CREATE PROCEDURE changes() BEGIN SET @x = 2; END",
)
KINDS = [("deprecate-eof", CLIENT_DEPRECATE_EOF), ("eof", 0)]


@pytest.fixture(scope="module")
def beside(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    mysql.execute(f"DROP DATABASE IF EXISTS {DATABASE}", f"CREATE DATABASE {DATABASE}", f"USE {DATABASE}", *TABLES)
    with proxy_in_thread(mysql, DATABASE, Path(tmp_path_factory.mktemp("state"))) as found:
        with found.client() as client:
            assert client.query("CREATE CACHE by_id FROM SELECT id, n FROM item WHERE id = ?")[4] == 0
            read_until_hit(found, client, client.query, READ)
        yield found
        found.at_rest()
    mysql.execute(f"DROP DATABASE {DATABASE}")


Step = str | Callable[[RawClient], object]
BEHIND_HITS: dict[str, tuple[Step, ...]] = {
    sql: (sql,)
    for sql in (
        "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
        "SET TRANSACTION READ ONLY",
        "SET @@transaction_isolation = 'SERIALIZABLE'",
        "XA START 'begun'",
        "SET gtid_next = 'AUTOMATIC'",
        "SET sql_log_bin = 1",
        "SET @x = 1",
        "SET NAMES utf8mb4",
        "SELECT 1",
        "DO 0",
        "SHOW WARNINGS",
        "SHOW VARIABLES LIKE 'autocommit'",
        "CALL changes()",
        "SAVEPOINT a",
        "ROLLBACK TO a",
        "RELEASE SAVEPOINT a",
        f"USE {DATABASE}",
        "PREPARE s FROM 'SELECT 1'",
        "EXPLAIN SELECT 1",
        "FLUSH STATUS",
        "CREATE TEMPORARY TABLE own (id INT)",
        "CREATE TABLE item (id INT)",
        "ALTER TABEL item",
        "SET autocommit = 1",
        "BEGIN",
        "START TRANSACTION READ ONLY",
        "COMMIT AND CHAIN",
        "COMMIT",
        "UPDATE item SET n = n WHERE id = 2",
        "SELECT n FROM other",
        "SELECT n FROM other FOR UPDATE",
        "DELETE FROM unsafe",
        "SELECT SLEEP(0)",
    )
} | {
    "back to a savepoint": ("SAVEPOINT a", READ, "ROLLBACK TO a", READ, "RELEASE SAVEPOINT a"),
    "an error and what it was": ("SELECT nothing FROM item", "SHOW WARNINGS", "SET TRANSACTION READ ONLY"),
    "an error and a level": ("SELECT nothing FROM item", "SET TRANSACTION READ ONLY"),
    "a level of later transactions": ("SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE", READ, "COMMIT", READ),
    "reads only, later": ("SET SESSION TRANSACTION READ ONLY", READ, "COMMIT", READ),
    "a ping": (RawClient.ping, "SET TRANSACTION READ ONLY", "COMMIT", "SET TRANSACTION READ ONLY"),
    "a ping, and the end": (RawClient.ping, "COMMIT", RawClient.ping),
    "another database": (lambda client: client.use("information_schema"), lambda client: client.use(DATABASE)),
    "a statement to prepare": (lambda client: client.prepare("SELECT n + ? FROM other"), READ),
    "fields": (lambda client: client.fields("other"), "SET TRANSACTION READ ONLY"),
}
LEVELS = ("REPEATABLE READ", "READ COMMITTED")


def go_on(client: RawClient, name: str, level: str, autocommit: int) -> None:
    """What comes behind hits, what follows from it, and back to where the session was."""
    for step in BEHIND_HITS[name]:
        if isinstance(step, str):
            client.query(step)
        else:
            step(client)
    client.query(READ)
    client.query("SELECT 2")
    client.query("ROLLBACK")
    client.query("SET SESSION TRANSACTION READ WRITE, ISOLATION LEVEL " + level)
    client.query(f"SET autocommit = {autocommit}")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", list(BEHIND_HITS))
def test_behind_hits_as_behind_reads_at_mysql(beside: Beside, name: str, level: str) -> None:
    def script(client: RawClient) -> None:
        through = client.socket.getpeername()[1] == beside.port
        client.query(f"SET SESSION TRANSACTION ISOLATION LEVEL {level}")
        if through:
            read_until_hit(beside, client, client.query, READ)
        client.transcript.clear()
        client.query("SET autocommit = 0")
        for end in ("ROLLBACK", "COMMIT"):
            client.query(end)
            client.query(READ)
            if through:
                assert last_served(beside, client).startswith("hit")
            go_on(client, name, level, autocommit=0)

    same(beside, script, KINDS)
