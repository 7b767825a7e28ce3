"""The status flags of answers that Upwell gives are those that MySQL's would have: clients escape by them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pymysql
import pytest

from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, proxy_in_thread
from integration.support.raw_client import RawClient
from integration.support.same_bytes import same
from integration.support.served import read_until_hit
from proxy.mysql.wire.packets import CLIENT_DEPRECATE_EOF, COM_PING, COM_RESET_CONNECTION

DATABASE = "status_flags"
READ = "SELECT id, n FROM item WHERE id = 1"
TABLES = ("CREATE TABLE item (id INT PRIMARY KEY, n INT)", "INSERT INTO item VALUES (1, 10), (2, 20)")
KINDS = [("deprecate-eof", CLIENT_DEPRECATE_EOF), ("eof", 0)]
LITERAL = "SET sql_mode = 'NO_BACKSLASH_ESCAPES'"
NO_BACKSLASH_ESCAPES = 0x200


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


def test_a_driver_goes_on_escaping_as_mysql_reads(beside: Beside) -> None:
    with pymysql.connect(
        host="127.0.0.1",
        port=beside.port,
        user=beside.mysql.user,
        password=beside.mysql.password,
        database=DATABASE,
        sql_mode="NO_BACKSLASH_ESCAPES",
    ) as connection:
        flags = []
        with connection.cursor() as cursor:
            cursor.execute(READ)
            for _ in range(3):
                connection.rollback()
                flags.append(connection.server_status)  # type: ignore[attr-defined]
            assert flags == [NO_BACKSLASH_ESCAPES] * 3
            cursor.execute("SELECT %s", ("\\' OR 1 -- ",))
            assert cursor.fetchall() == (("\\' OR 1 -- ",),)


@pytest.mark.parametrize("autocommit", [0, 1])
def test_ends_of_transactions_that_upwell_answers(beside: Beside, autocommit: int) -> None:
    def script(client: RawClient) -> None:
        client.query(f"SET autocommit = {autocommit}")
        for mode in (LITERAL, "SET sql_mode = DEFAULT", LITERAL, "SET sql_mode = 'ANSI,NO_BACKSLASH_ESCAPES'"):
            client.query(mode)
            for end in ("COMMIT", "COMMIT", "ROLLBACK"):
                client.query(end)
                client.command(COM_PING)
        client.query("SET SESSION TRANSACTION READ ONLY")
        for end in ("COMMIT", "COMMIT", "ROLLBACK"):
            client.query(end)
        client.command(COM_RESET_CONNECTION)
        client.query(f"SET autocommit = {autocommit}")
        client.query("ROLLBACK")
        client.query("ROLLBACK")

    same(beside, script, KINDS)


@pytest.mark.parametrize("autocommit", [0, 1])
def test_hits(beside: Beside, autocommit: int) -> None:
    def script(client: RawClient) -> None:
        client.query(f"SET autocommit = {autocommit}")
        for before in ("ROLLBACK", "ROLLBACK", "BEGIN", "START TRANSACTION READ ONLY"):
            client.query(before)
            for _ in range(3):
                client.query(READ)
            client.query("ROLLBACK")
        client.query("SET SESSION TRANSACTION READ ONLY")
        for before in ("ROLLBACK", "ROLLBACK", "BEGIN", "START TRANSACTION READ WRITE"):
            client.query(before)
            for _ in range(3):
                client.query(READ)
            client.query("ROLLBACK")

    same(beside, script, KINDS)


@pytest.mark.parametrize(("name", "eof"), [("deprecate-eof", False), ("eof", True)])
def test_upwells_own_sql(beside: Beside, name: str, eof: bool) -> None:
    def flags(answer: bytes) -> int:
        """Of an OK packet, or of the one that ends rows."""
        at = -2 if eof and answer[4] else len(answer) - 4 if answer[4] else 7
        return int.from_bytes(answer[at:][:2], "little")

    with beside.client(capabilities=0 if eof else CLIENT_DEPRECATE_EOF) as client:
        for mode, wanted in ((LITERAL, 2 | NO_BACKSLASH_ESCAPES), ("SET sql_mode = DEFAULT", 2)):
            client.query(mode)
            for sql in (
                "SHOW CACHES",
                "EXPLAIN LAST STATEMENT",
                "CREATE CACHE IF NOT EXISTS by_id FROM SELECT id, n FROM item WHERE id = ?",
                "SHOW UPWELL STATUS",
            ):
                assert flags(client.query(sql)) == wanted, (mode, sql)
