"""A client is told of its session's state what it has asked to be told, and no more, though Upwell has MySQL tell it
more; and whatever a client asks for, Upwell still knows what it must."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, proxy_in_thread
from integration.support.raw_client import RawClient, scrambled
from integration.support.same_bytes import same
from integration.support.served import last_served, read_until_hit
from proxy.mysql.wire.packets import (
    CLIENT_DEPRECATE_EOF,
    CLIENT_MULTI_STATEMENTS,
    CLIENT_SESSION_TRACK,
    COM_CHANGE_USER,
    COM_RESET_CONNECTION,
    packet,
)

DATABASE = "session_tracking"
TABLES = (
    "CREATE TABLE item (id INT PRIMARY KEY, n INT NOT NULL)",
    "INSERT INTO item VALUES (1, 10), (2, 20)",
    "CREATE TABLE scratch (id INT PRIMARY KEY)",
    "CREATE TABLE unsafe (id INT PRIMARY KEY) ENGINE=MyISAM",
    "CREATE PROCEDURE changes() BEGIN SET character_set_results = latin1, max_join_size = 1000;"
    " SET @x = 1; SELECT 1; END",
)
TRACKING = CLIENT_SESSION_TRACK | CLIENT_MULTI_STATEMENTS
KINDS = [("deprecate-eof", TRACKING | CLIENT_DEPRECATE_EOF), ("eof", TRACKING), ("not tracking", CLIENT_DEPRECATE_EOF)]
EMPTY = [f"DELETE FROM {DATABASE}.scratch"]


@pytest.fixture(scope="module")
def beside(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    mysql.execute(f"DROP DATABASE IF EXISTS {DATABASE}", f"CREATE DATABASE {DATABASE}", f"USE {DATABASE}", *TABLES)
    with proxy_in_thread(mysql, DATABASE, Path(tmp_path_factory.mktemp("state"))) as found:
        with found.client() as client:
            assert client.query("CREATE CACHE by_id FROM SELECT id, n FROM item WHERE id = ?")[4] == 0
        yield found
        found.at_rest()
    mysql.execute(f"DROP DATABASE {DATABASE}")


CHANGES = (
    "SET NAMES utf8mb4",
    "SET NAMES latin1",
    "SET NAMES utf8mb4 COLLATE utf8mb4_bin",
    "SET autocommit = 1",
    "SET time_zone = '+02:00'",
    "SET sql_mode = 'ANSI'",
    "SET sql_mode = DEFAULT, time_zone = DEFAULT",
    "SET wait_timeout = 100",
    "SET lock_wait_timeout = 100, group_concat_max_len = 9",
    "SET @x = 1",
    "USE information_schema",
    f"USE {DATABASE}",
    "CREATE TEMPORARY TABLE t (a INT)",
    "DROP TEMPORARY TABLE t",
    "PREPARE s FROM 'SELECT 1'",
    "EXECUTE s",
    "DEALLOCATE PREPARE s",
    "CALL changes()",
    "SELECT id FROM item",
    "SELECT @y := 5",
    "DO 0",
    "SELECT nothing",
    "INSERT INTO scratch VALUES (1)",
    "INSERT INTO scratch VALUES (1)",
    "BEGIN",
    "INSERT INTO scratch VALUES (2)",
    "UPDATE item SET n = n",
    "COMMIT",
    "SET autocommit = 0",
    "SELECT id FROM item WHERE id = 1",
    "INSERT INTO scratch VALUES (3)",
    "INSERT INTO unsafe VALUES (3)",
    "DELETE FROM unsafe",
    "COMMIT AND CHAIN",
    "ROLLBACK",
    "SET autocommit = 1",
    "SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "START TRANSACTION READ ONLY",
    "SELECT id FROM item",
    "ROLLBACK",
    "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
    "START TRANSACTION WITH CONSISTENT SNAPSHOT",
    "COMMIT",
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "LOCK TABLES item WRITE",
    "UNLOCK TABLES",
    "SET @z = 2; SET time_zone = '+01:00'; SELECT 1; SET time_zone = 'SYSTEM'",
    "FLUSH TABLES",
)
ASKED = {
    "the defaults": [],
    "gtids": ["SET session_track_gtids = OWN_GTID"],
    "gtids, and off again": ["SET session_track_gtids = OWN_GTID", "SET session_track_gtids = OFF"],
    "all gtids": ["SET SESSION session_track_gtids = 'ALL_GTIDS'"],
    "changes of state": ["SET session_track_state_change = ON"],
    "changes of state, by number": ["SET @@session.session_track_state_change = 1"],
    "no schema": ["SET session_track_schema = OFF"],
    "every variable": ["SET session_track_system_variables = '*'"],
    "no variable": ["SET session_track_system_variables = ''"],
    "two variables": ["SET session_track_system_variables = 'sql_mode, lock_wait_timeout'"],
    "a variable that is none": ["SET session_track_system_variables = 'sql_mode,what_is_this'"],
    "the trackers themselves": [
        "SET session_track_system_variables = 'session_track_gtids,session_track_state_change'",
        "SET session_track_gtids = OWN_GTID",
        "SET session_track_state_change = ON",
    ],
    "transactions": ["SET session_track_transaction_info = STATE"],
    "transactions and what they are like": ["SET session_track_transaction_info = CHARACTERISTICS"],
    "several at once": ["SET session_track_gtids = OWN_GTID, session_track_system_variables = 'sql_mode'"],
    "several in one text": ["SET session_track_gtids = OWN_GTID; SET session_track_state_change = ON"],
    "what are the defaults": [
        "SET session_track_gtids = OFF, session_track_state_change = OFF, session_track_schema = ON",
    ],
    "by a prepared statement": [
        "PREPARE s FROM 'SET session_track_gtids = OWN_GTID'",
        "EXECUTE s",
        "DEALLOCATE PREPARE s",
    ],
}


@pytest.mark.parametrize("asked", list(ASKED))
def test_what_a_client_is_told(beside: Beside, asked: str) -> None:
    def script(client: RawClient) -> None:
        client.tracks_transactions = "transactions" in asked
        for statement in ASKED[asked]:
            client.query(statement)
        if asked == "all gtids":  # those of now are told at once where none were told before
            client.transcript.clear()
        for statement in CHANGES:
            client.query(statement)
        client.use(DATABASE)
        client.command(COM_RESET_CONNECTION)
        client.tracks_transactions = False
        for statement in CHANGES[:7]:
            client.query(statement, f"{statement} after a reset")

    same(beside, script, KINDS, before=EMPTY)


def test_another_account_is_told_by_default(beside: Beside) -> None:
    def script(client: RawClient) -> None:
        client.query("SET session_track_state_change = ON")
        client.query("SET session_track_system_variables = '*'")
        changed = b"root\0" + b"\0" + DATABASE.encode() + b"\0" + b"\xff\0" + b"caching_sha2_password\0"
        client.write(packet(bytes((COM_CHANGE_USER,)) + changed, 0))
        asked = client.packet()
        assert asked[4] == 0xFE, asked
        client.write(packet(scrambled("", asked[-21:-1]), asked[3] + 1))
        client.note("another account", client.authenticated()[4:])
        for statement in CHANGES[:10]:
            client.query(statement)

    same(beside, script, KINDS[:2])


@pytest.mark.parametrize("asked", ["no variable", "every variable", "a variable that is none", "what are the defaults"])
@pytest.mark.parametrize(("kind", "capabilities"), KINDS)
def test_whatever_a_client_wants_to_know_a_changed_session_does_not_hit(
    beside: Beside, asked: str, kind: str, capabilities: int
) -> None:
    read = "SELECT id, n FROM item WHERE id = 1"
    with beside.client(capabilities=capabilities) as client:
        for statement in ASKED[asked]:
            client.query(statement)
        read_until_hit(beside, client, client.query, read)
        client.query("SET max_join_size = 1000")
        client.query(read)
        assert last_served(beside).startswith("passed max_join_size is ")
        client.query("SET max_join_size = DEFAULT")
        client.query(read)
        assert last_served(beside) == "hit"
        client.query("BEGIN")
        client.query("CREATE TEMPORARY TABLE item (id INT)")
        client.query("COMMIT")
        client.query(read)
        assert last_served(beside) == "passed a temporary table hides item"


def test_one_row_that_ends_a_call_tells_what_the_call_changed(beside: Beside) -> None:
    for _, capabilities in KINDS:
        with beside.client(capabilities=capabilities) as client:
            client.query("SELECT id, n FROM item WHERE id = 1")
            client.query("CALL changes()")
            client.query("SELECT id, n FROM item WHERE id = 1")
            assert last_served(beside).startswith("passed ")
