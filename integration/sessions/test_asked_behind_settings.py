"""What a session asks about its last statement is told as MySQL tells it, where that statement has left open what the
session is like: Upwell has questions of its own then, and they come behind."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, beside_database
from integration.support.raw_client import RawClient
from integration.support.same_bytes import kinds_of_client, same
from integration.support.served import read_until_hit
from proxy.mysql.wire.packets import COM_PING, packet

READ = "SELECT id, n FROM item WHERE id = 1"
BEFORE = ("SELECT id FROM item", "INSERT INTO written VALUES (1), (2)", "SELECT 1/0", READ, "BEGIN", "SELECT no_such")
LAST = (
    "SET session_track_schema = ON",
    "SET SESSION session_track_gtids = OWN_GTID",
    "SET session_track_system_variables = 'sql_mode', @x = 3",
    "SET session_track_transaction_info = 'STATE'",
    "CALL tracks()",
    "CALL tracks_and_warns()",
    "CALL writes()",
    "SELECT id, 1/0 FROM item WHERE NOW() > '2000-01-01'",
    "SET ROLE NONE",
    "SET ROLE DEFAULT",
    "SET ROLE no_such",
)
ASKED = (
    "SELECT ROW_COUNT()",
    "SELECT FOUND_ROWS()",
    "SHOW WARNINGS",
    "SHOW COUNT(*) WARNINGS",
    "SELECT @@warning_count, @@error_count",
    "SET @asked = ROW_COUNT()",
    "SELECT ROW_COUNT() AS r, FOUND_ROWS() AS f FROM item WHERE id = 1",
)
BEHIND = (
    "SELECT @asked",
    "SELECT ROW_COUNT()",
    "USE {database}",
    "SET TRANSACTION READ ONLY",
    READ,
    "COMMIT",
    "INSERT INTO written VALUES (3)",
    READ,
    "SELECT FOUND_ROWS()",
)


@pytest.fixture(scope="module")
def beside(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    statements = (
        "CREATE TABLE item (id INT PRIMARY KEY, n INT)",
        "INSERT INTO item VALUES (1, 10), (2, 20), (3, 30)",
        "CREATE TABLE written (n INT)",
        "CREATE PROCEDURE tracks() SET SESSION session_track_schema = ON",
        "CREATE PROCEDURE tracks_and_warns() BEGIN SET SESSION session_track_schema = ON; SELECT 1/0; END",
        "CREATE PROCEDURE writes() INSERT INTO written VALUES (4), (5)",
    )
    state = Path(tmp_path_factory.mktemp("state"))
    with beside_database(mysql, f"t{os.getpid()}_behind_settings", state, *statements) as found:
        with found.client() as client:
            assert client.query("CREATE CACHE item FROM SELECT id, n FROM item WHERE id = ?")[4] == 0
            read_until_hit(found, client, client.query, READ)
        yield found


@pytest.mark.parametrize("last", LAST)
@pytest.mark.parametrize("before", BEFORE)
def test_the_statement_before_is_the_clients(beside: Beside, before: str, last: str) -> None:
    def script(client: RawClient) -> None:
        for asked in ASKED:
            for text in (before, last, asked, asked, *BEHIND, "ROLLBACK"):
                client.query(text.format(database=beside.proxy.database))

    kinds = random.Random(before + last).sample(list(kinds_of_client()), 2)
    same(beside, script, kinds, before=(f"TRUNCATE {beside.proxy.database}.written",))


@pytest.mark.parametrize("asked", [text for text in ASKED if text.startswith("SELECT")])
def test_so_it_is_where_the_question_is_prepared(beside: Beside, asked: str) -> None:
    def script(client: RawClient) -> None:
        statement = client.prepare(asked)
        for text in ("SET session_track_schema = OFF", "SET session_track_schema = ON", "CALL tracks_and_warns()"):
            client.query("SELECT id FROM item")
            client.query(text)
            client.execute(statement.id)
            client.execute(statement.id)
            client.query(READ)

    same(beside, script)


@pytest.mark.parametrize("last", ["SET ROLE NONE", "SET NAMES latin1", "SET optimizer_switch = 'mrr=on'", *LAST[:5]])
def test_so_it_is_where_the_question_is_prepared_behind(beside: Beside, last: str) -> None:
    def script(client: RawClient) -> None:
        for asked in ("SELECT ROW_COUNT()", "SELECT FOUND_ROWS()", "SELECT @@warning_count", "SHOW WARNINGS"):
            for before in ("SELECT id FROM item", "INSERT INTO written VALUES (1), (2)", READ):
                client.query(before)
                client.query(last)
                statement = client.prepare(asked)
                client.execute(statement.id)
                client.query(READ)
                client.execute(statement.id)
        client.query("SET NAMES utf8mb4")

    same(beside, script, random.Random(last).sample(list(kinds_of_client()), 3))


def test_what_is_sent_ahead_keeps_its_order(beside: Beside) -> None:
    texts = ("SET session_track_schema = ON", READ, "SELECT FOUND_ROWS()", "CALL tracks()", "SELECT ROW_COUNT()", READ)

    def script(client: RawClient) -> None:
        pieces = [packet(client.text(text), 0) for text in texts]
        pieces.insert(1, packet(bytes((COM_PING,)), 0))
        client.write(b"".join(pieces))
        for number in range(len(pieces)):
            client.note(f"answer {number}", client.result())

    same(beside, script)
