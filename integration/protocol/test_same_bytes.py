"""What clients are sent through the proxy is what MySQL sends, byte by byte: commands, texts, statements, results."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, proxy_in_thread
from integration.support.raw_client import RawClient, bound, bound_before
from integration.support.same_bytes import same
from proxy.mysql.session.session import Session
from proxy.mysql.wire.packets import (
    CLIENT_DEPRECATE_EOF,
    COM_DEBUG,
    COM_INIT_DB,
    COM_PING,
    COM_PROCESS_KILL,
    COM_RESET_CONNECTION,
    COM_SET_OPTION,
    COM_STATISTICS,
    lenenc,
    packet,
)

TABLES = (
    "CREATE TABLE item (id INT PRIMARY KEY AUTO_INCREMENT, n INT NOT NULL, name VARCHAR(40), KEY (n))",
    "INSERT INTO item VALUES (1, 10, 'one'), (2, 20, NULL), (3, 30, 'drei ä 🐬')",
    "CREATE TABLE scratch (id INT PRIMARY KEY AUTO_INCREMENT, n INT, name VARCHAR(40), UNIQUE KEY one_name (name))",
    "CREATE TABLE bytes (id INT PRIMARY KEY, b LONGBLOB)",
    "CREATE PROCEDURE several(IN a INT, OUT b INT, INOUT c INT) BEGIN SET b = a * 2; SET c = c + 1; "
    "SELECT id, name FROM item WHERE n > a; SELECT a, b, c; SELECT 1 FROM item WHERE id = 0; END",
    "CREATE PROCEDURE fails() BEGIN SELECT 1; SELECT * FROM nowhere; SELECT 2; END",
    "CREATE PROCEDURE many() BEGIN DECLARE n INT DEFAULT 0; WHILE n < 100 DO SELECT n; SET n = n + 1; END WHILE; END",
    "CREATE PROCEDURE silent(OUT b VARCHAR(20)) SET b = 'said'",
)
ONE_KIND = [("deprecate-eof", CLIENT_DEPRECATE_EOF)]
EMPTY = "DELETE FROM same_bytes.scratch"


@pytest.fixture(scope="module")
def beside(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    """A proxy without caches: everything is passed through."""
    database = "same_bytes"
    mysql.execute(f"DROP DATABASE IF EXISTS {database}", f"CREATE DATABASE {database}", f"USE {database}", *TABLES)
    with proxy_in_thread(mysql, database, Path(tmp_path_factory.mktemp("state"))) as found:
        yield found
        found.at_rest()
    mysql.execute(f"DROP DATABASE {database}")


# -- texts -------------------------------------------------------------------------------------------------------------


TEXTS = (
    "SELECT 1",
    "SELECT id, n, name FROM item ORDER BY id",
    "SELECT * FROM item WHERE id = 0",
    "SELECT NULL, '', 0.5, 1e3, x'00ff', DATE '2020-02-29', TIME '-800:59:59.123456', CAST('[1]' AS JSON)",
    "SELECT id FROM item WHERE name = 'drei ä 🐬'",
    "DO 0",
    "SET @x = 5",
    "SELECT @x",
    "",
    ";",
    "/* only a comment */",
    "# nothing",
    "SELECT",
    "SELECT * FROM nowhere",
    "SELECT nothing FROM item",
    "SELECT 1; SELECT 2",
    "DELETE FROM scratch",
    "SET insert_id = 100",
    "INSERT INTO scratch (n, name) VALUES (1, 'a'), (2, 'b'), (3, 'c')",
    "INSERT INTO scratch (n, name) VALUES (4, 'a')",
    "INSERT IGNORE INTO scratch (n, name) VALUES (5, 'a')",
    "SHOW WARNINGS",
    "INSERT INTO scratch VALUES (101, 1, 'bb') ON DUPLICATE KEY UPDATE n = 9",
    "REPLACE INTO scratch VALUES (101, 1, 'cc')",
    "UPDATE scratch SET n = n + 1 WHERE id < 102",
    "UPDATE scratch SET n = n WHERE id < 102",
    "UPDATE item SET n = n WHERE id = 1",
    "SELECT ROW_COUNT(), LAST_INSERT_ID()",
    "DELETE FROM scratch WHERE id = 100",
    "SELECT CAST('12x' AS SIGNED), 1/0",
    "SHOW WARNINGS",
    "SHOW COUNT(*) WARNINGS",
    "SELECT SQL_CALC_FOUND_ROWS id FROM item LIMIT 1",
    "SELECT FOUND_ROWS()",
    "BEGIN",
    "INSERT INTO scratch VALUES (500, 5, 'e')",
    "SAVEPOINT a",
    "ROLLBACK TO a",
    "ROLLBACK TO nothing",
    "SELECT COUNT(*) FROM scratch",
    "ROLLBACK",
    "START TRANSACTION READ ONLY",
    "DELETE FROM scratch",
    "COMMIT",
    "SET autocommit = 0",
    "SELECT 1",
    "SELECT id FROM item WHERE id = 1",
    "COMMIT AND CHAIN",
    "SET autocommit = 1",
    "SET NAMES latin1",
    b"SELECT name, '\xe4' FROM item WHERE id = 3",
    "SET NAMES utf8mb4",
    "SET nothing = 1",
    "CREATE TEMPORARY TABLE t (a INT)",
    "INSERT INTO t VALUES (1), (2)",
    "SELECT * FROM t",
    "DROP TEMPORARY TABLE t",
    "EXPLAIN FORMAT=TREE SELECT * FROM item WHERE id = 1",
    "SHOW COLUMNS FROM item",
    "SHOW CREATE TABLE item",
    "CHECK TABLE item",
    "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'said so', MYSQL_ERRNO = 5000",
    "SIGNAL SQLSTATE '01000' SET MESSAGE_TEXT = 'warned'",
    "SELECT REPEAT('x', 70000)",
    "PREPARE s FROM 'SELECT ? + 1'",
    "EXECUTE s USING @x",
    "DEALLOCATE PREPARE s",
    "KILL QUERY 0",
    "HANDLER item OPEN",
    "HANDLER item READ FIRST",
    "HANDLER item CLOSE",
    "LOCK TABLES item READ",
    "SELECT * FROM scratch",
    "UNLOCK TABLES",
)


def texts(client: RawClient) -> None:
    for sql in TEXTS:
        client.query(sql)


def several_statements(client: RawClient) -> None:
    for sql in (
        "SELECT 1; SELECT 2",
        "SELECT 1; DO 0; SELECT id FROM item WHERE id = 0; SELECT 3;",
        "SELECT 1; SELECT * FROM nowhere; SELECT 2",
        "SELECT 1; SELEC 2; SELECT 3",
        "SET @a = 1; SELECT @a; SET @a = 2; SELECT @a",
        "DELETE FROM scratch; INSERT INTO scratch VALUES (1, 1, 'x'); UPDATE scratch SET n = 2; SELECT * FROM scratch",
        "BEGIN; SELECT 1; COMMIT; SELECT 2",
        "CALL many()",
        "CALL fails()",
        "CALL silent(@b); SELECT @b",
        "SET @c = 5; CALL several(5, @b, @c); SELECT @b, @c",
        "CALL several(5, @b, @c)",
        "SELECT @b, @c",
        "SELECT 'a' AS " + "x" * 64 + "; ;",
    ):
        client.query(sql)
    client.command(COM_SET_OPTION, b"\0\0", "multi statements on")
    client.query("SELECT 1; SELECT 2")
    client.command(COM_SET_OPTION, b"\1\0", "multi statements off")
    client.query("SELECT 1; SELECT 2")
    client.command(COM_SET_OPTION, b"\7\0")
    client.command(COM_SET_OPTION, b"")


def test_texts(beside: Beside) -> None:
    same(beside, texts, before=[EMPTY])


def test_several_statements_and_results(beside: Beside) -> None:
    same(beside, several_statements, before=[EMPTY])


def test_attributes_of_queries(beside: Beside) -> None:
    named = lenenc(b"trace")
    some = b"\1\1" + b"\0" + b"\1" + b"\xfe\0" + named + lenenc(b"00-ab")
    null = b"\2\1" + b"\2" + b"\1" + b"\x08\0" + named + b"\xfe\0" + lenenc(b"b") + struct.pack("<q", 7)

    def script(client: RawClient) -> None:
        if not client.attributes:
            return
        for attributes in (some, null):
            for sql in ("SELECT 1", "BEGIN", "SELECT id FROM item WHERE id = 1", "ROLLBACK", "SELEC"):
                client.query(sql, f"{sql} with attributes", attributes)
        for broken in (
            b"\1",
            b"\1\1",
            b"\1\1\0",
            b"\1\1\0\1\xfe",
            b"\xfe",
            b"\5\1\0\1\x08\0\0",
            b"\1\2\0\1\xfe\0\0\1x",
        ):
            client.query("SELECT 1", f"broken attributes {broken!r}", broken)
        client.write(packet(b"\3", 0))
        client.note("a query of no byte", client.result())

    same(beside, script)


def test_results_of_many_columns_and_of_none(beside: Beside) -> None:
    columns = ", ".join(f"{number} AS c{number}" for number in range(4096))

    def script(client: RawClient) -> None:
        client.query(f"SELECT {columns}", "4096 columns")
        client.query(f"SELECT {columns}, 1", "4097 columns")
        client.query(f"SELECT {columns} FROM item WHERE id = 0", "4096 columns, no row")
        statement = client.prepare(f"SELECT {columns}")
        client.execute(statement.id)

    same(beside, script)


# -- prepared statements -----------------------------------------------------------------------------------------------

STRING, LONGLONG, UNSIGNED = 0xFE, 0x08, 0x8000
VALUES: tuple[tuple[str, int, bytes | None], ...] = (
    ("null of type null", 0x06, None),
    ("null of type string", STRING, None),
    ("tiny", 0x01, struct.pack("<b", -128)),
    ("unsigned tiny", 0x01 | UNSIGNED, b"\xff"),
    ("short", 0x02, struct.pack("<h", -32768)),
    ("unsigned short", 0x02 | UNSIGNED, b"\xff\xff"),
    ("year", 0x0D, struct.pack("<h", 2020)),
    ("long", 0x03, struct.pack("<i", -(2**31))),
    ("unsigned long", 0x03 | UNSIGNED, b"\xff" * 4),
    ("medium", 0x09, struct.pack("<i", -5)),
    ("longlong", LONGLONG, struct.pack("<q", -(2**63))),
    ("unsigned longlong", LONGLONG | UNSIGNED, b"\xff" * 8),
    ("float", 0x04, struct.pack("<f", 1.25)),
    ("double", 0x05, struct.pack("<d", -1e300)),
    ("decimal", 0xF6, lenenc(b"-123456789012345678901234567890.123456789")),
    ("old decimal", 0x00, lenenc(b"1.50")),
    ("decimal that is none", 0xF6, lenenc(b"x")),
    ("decimal with an exponent", 0xF6, lenenc(b"1e2")),
    ("string", STRING, lenenc("ä🐬".encode())),
    ("empty string", 0xFD, lenenc(b"")),
    ("varchar", 0x0F, lenenc(b"x" * 300)),
    ("string that is not utf-8", STRING, lenenc(b"\xff\xfe")),
    ("blob", 0xFC, lenenc(bytes(range(256)))),
    ("tiny blob", 0xF9, lenenc(b"\0")),
    ("medium blob", 0xFA, lenenc(b"\0")),
    ("long blob", 0xFB, lenenc(b"\0")),
    ("bit", 0x10, lenenc(b"\5")),
    ("json", 0xF5, lenenc(b"[1]")),
    ("enum", 0xF7, lenenc(b"a")),
    ("geometry", 0xFF, lenenc(b"a")),
    ("no type of MySQL's", 0x20, lenenc(b"a")),
    ("date", 0x0A, b"\4" + struct.pack("<HBB", 2020, 2, 29)),
    ("zero date", 0x0A, b"\0"),
    ("date with a time", 0x0A, b"\7" + struct.pack("<HBBBBB", 2020, 2, 29, 1, 2, 3)),
    ("no date", 0x0A, b"\4" + struct.pack("<HBB", 2020, 13, 32)),
    ("datetime", 0x0C, b"\7" + struct.pack("<HBBBBB", 2020, 2, 29, 23, 59, 58)),
    ("datetime of a day", 0x0C, b"\4" + struct.pack("<HBB", 2020, 2, 29)),
    ("datetime with microseconds", 0x0C, b"\x0b" + struct.pack("<HBBBBBI", 2020, 2, 29, 23, 59, 58, 120)),
    ("timestamp", 0x07, b"\x0b" + struct.pack("<HBBBBBI", 2020, 2, 29, 23, 59, 58, 999999)),
    ("time", 0x0B, b"\x08" + struct.pack("<BIBBB", 1, 2, 3, 4, 5)),
    ("time with microseconds", 0x0B, b"\x0c" + struct.pack("<BIBBBI", 0, 34, 22, 59, 59, 7)),
    ("no time at all", 0x0B, b"\0"),
    ("too long a time", 0x0B, b"\x08" + struct.pack("<BIBBB", 0, 100, 3, 4, 5)),
)


def parameters(client: RawClient) -> None:
    asked = client.prepare("SELECT ?, CONCAT(?), id FROM item WHERE id = 1")
    for name, type_, value in VALUES:
        client.execute(asked.id, bound((type_, type_), (value, value)), step=name)
        client.execute(asked.id, bound_before((value, value)), step=f"{name} again")
    client.execute(asked.id, bound_before((None, None)), step="nulls of the types before")
    found = client.prepare("SELECT id, n, name FROM item WHERE id = ?")
    for name, type_, value in VALUES:
        client.execute(found.id, bound((type_,), (value,)), step=f"key: {name}")
    for cut in (b"", b"\0", b"\0\1", b"\0\1\x08", b"\0\1\x08\0", b"\0\1\x08\0abc", b"\0\1\xfe\0\xfd"):
        client.execute(found.id, cut, step=f"cut off {cut!r}")
        client.execute(found.id, bound((LONGLONG,), (struct.pack("<q", 2),)), step="and then a good one")
    client.execute(found.id, bound((LONGLONG,), (struct.pack("<q", 2),)) + b"more", step="more than is wanted")


def test_parameters_of_all_types(beside: Beside) -> None:
    same(beside, parameters)


def test_attributes_of_executions(beside: Beside) -> None:
    def script(client: RawClient) -> None:
        if not client.attributes:
            return
        found = client.prepare("SELECT id FROM item WHERE id = ?")
        two = struct.pack("<q", 2)
        named = b"\1" + b"\0\1" + b"\x08\0" + lenenc(b"") + two
        client.execute(found.id, named, flags=8, step="its parameters are counted")
        client.execute(found.id, b"\1" + b"\0\0" + two, flags=8, step="types as before")
        more = b"\2" + b"\0\1" + b"\x08\0" + lenenc(b"") + b"\xfe\0" + lenenc(b"trace") + two + lenenc(b"x")
        client.execute(found.id, more, flags=8, step="with an attribute")
        client.execute(found.id, b"\2" + b"\0\0" + two + lenenc(b"x"), flags=8, step="with an attribute as before")
        client.execute(found.id, b"\0\0" + two, step="without")
        plain = client.prepare("SELECT id FROM item WHERE id = 1")
        trace = b"\1" + b"\0\1" + b"\xfe\0" + lenenc(b"trace") + lenenc(b"x")
        client.execute(plain.id, trace, flags=8, step="only an attribute")
        client.execute(plain.id, b"\0", flags=8, step="none")
        client.execute(plain.id, step="not even counted")
        for broken in (b"", b"\5", b"\xfe", b"\1\0\1", b"\1\0\1\x08\0\3a"):
            client.execute(found.id, broken, flags=8, step=f"broken {broken!r}")

    same(beside, script)


def long_data(client: RawClient) -> None:
    asked = client.prepare("SELECT ?, LENGTH(?), MD5(?)")
    types = (0xFC, 0xFC, 0xFC)
    client.long_data(asked.id, 1, b"ab")
    client.long_data(asked.id, 2, b"x" * 70000)
    client.long_data(asked.id, 1, b"cd")
    client.execute(asked.id, bound(types, (lenenc(b"here"), b"", b"")), step="two parameters in pieces")
    client.execute(asked.id, bound_before((lenenc(b"a"), lenenc(b"b"), lenenc(b"c"))), step="none in pieces")
    client.long_data(asked.id, 0, b"dropped")
    client.reset_statement(asked.id)
    client.execute(asked.id, bound_before((lenenc(b"a"), lenenc(b"b"), lenenc(b"c"))), step="after a reset")
    client.long_data(asked.id, 9, b"for no parameter")
    client.execute(asked.id, bound_before((lenenc(b"a"), lenenc(b"b"), lenenc(b"c"))), step="for no parameter")
    client.long_data(999_999, 0, b"for no statement")
    client.reset_statement(999_999)
    client.long_data(asked.id, 1, b"")
    client.execute(asked.id, bound_before((lenenc(b"a"), b"", lenenc(b"c"))), step="a piece of nothing")


def test_long_data(beside: Beside) -> None:
    same(beside, long_data)


def life_of_statements(client: RawClient) -> None:
    for sql in ("SELECT 1", "SELECT ?", "DO ?", "DELETE FROM scratch WHERE id = ?", "SELEC", "", "SELECT 1; SELECT 2"):
        client.prepare(sql)
    found = client.prepare("SELECT id FROM item WHERE id = ?")
    key = bound((LONGLONG,), (struct.pack("<q", 2),))
    client.execute(found.id, key)
    client.reset_statement(found.id)
    client.execute(found.id, bound_before((struct.pack("<q", 3),)), step="types are kept by a reset")
    client.close_statement(found.id)
    client.execute(found.id, key, step="closed")
    client.execute(999_999, key, step="unknown")
    client.execute(0, b"", step="number 0")
    client.close_statement(999_999)
    client.write(packet(b"\x17\1\0", 0))
    client.note("an execution cut off", client.result())
    client.write(packet(b"\x17", 0))
    client.note("an execution of nothing", client.result())
    kept = client.prepare("SELECT id FROM item WHERE id = ?")
    client.command(COM_RESET_CONNECTION)
    client.execute(kept.id, key, step="after a reset of the connection")
    made = client.prepare("SELECT n, name FROM item WHERE id = ?")
    client.execute(made.id, key)
    client.execute(made.id, bound((STRING,), (lenenc(b"2"),)), step="a string for a number")


def test_life_of_statements(beside: Beside) -> None:
    same(beside, life_of_statements)


def test_thousands_of_statements(beside: Beside) -> None:
    def script(client: RawClient) -> None:
        made = [client.prepare(f"SELECT id + {number} FROM item WHERE id = ?") for number in range(3000)]
        for statement in made[::7]:
            client.execute(statement.id, bound((LONGLONG,), (struct.pack("<q", 2),)))
        for statement in made:
            client.close_statement(statement.id)
        client.execute(made[5].id, bound((LONGLONG,), (struct.pack("<q", 2),)))

    same(beside, script, ONE_KIND)
    with beside.client() as client:
        script(client)
        (session,) = beside.shared.sessions
        assert isinstance(session, Session)
        assert not session.statements  # closed ones are forgotten


def cursors(client: RawClient) -> None:
    found = client.prepare("SELECT id, name FROM item WHERE id < ? ORDER BY id")
    all_of_them = bound((LONGLONG,), (struct.pack("<q", 9),))
    client.execute(found.id, all_of_them, flags=1, step="a cursor")
    client.fetch(found.id, 2)
    client.fetch(found.id, 2)
    client.fetch(found.id, 2)
    client.execute(found.id, all_of_them, flags=1, step="a cursor again")
    client.fetch(found.id, 1)
    client.reset_statement(found.id)
    client.fetch(found.id, 1)
    client.close_statement(found.id)
    found = client.prepare("SELECT id, name FROM item WHERE id < ? ORDER BY id")
    client.execute(found.id, all_of_them, step="no cursor")
    client.execute(found.id, bound((LONGLONG,), (struct.pack("<q", 0),)), flags=1, step="a cursor over nothing")
    client.fetch(found.id, 1)
    client.fetch(999_999, 1)
    client.execute(found.id, all_of_them, flags=2, step="a cursor for update")
    client.execute(found.id, all_of_them, flags=4, step="a scrollable cursor")
    changed = client.prepare("DO ?")
    client.execute(changed.id, all_of_them, flags=1, step="a cursor of no rows")
    called = client.prepare("CALL several(?, @b, @c)")
    client.execute(called.id, bound((LONGLONG,), (struct.pack("<q", 15),)), flags=1, step="a cursor of a call")
    client.query("SELECT 1")


def test_cursors(beside: Beside) -> None:
    same(beside, cursors)


def test_calls_with_several_results_and_parameters_that_come_out(beside: Beside) -> None:
    def script(client: RawClient) -> None:
        called = client.prepare("CALL several(?, ?, ?)")
        given = [struct.pack("<q", number) for number in (15, 0, 4)]
        client.execute(called.id, bound((LONGLONG,) * 3, given))
        client.execute(called.id, bound_before(given), step="again")
        said = client.prepare("CALL silent(?)")
        client.execute(said.id, bound((STRING,), (None,)))
        failing = client.prepare("CALL fails()")
        client.execute(failing.id)
        client.query("SELECT 1")

    same(beside, script)


# -- other commands ----------------------------------------------------------------------------------------------------


def commands(client: RawClient) -> None:
    client.ping()
    client.use("same_bytes")
    client.use("no_such_database")
    client.use("information_schema")
    client.query("SELECT DATABASE()")
    client.use("")
    client.query("USE same_bytes")
    client.query("USE no_such_database")
    client.command(COM_INIT_DB, b"\xff\xfe", "a name that is not utf-8")
    client.use("same_bytes")
    client.fields("item")
    client.fields("no_such_table")
    client.write(packet(b"\x04item\0na%", 0))
    client.note("some fields", client.rows())
    client.write(packet(b"\x04item", 0))
    client.note("fields without an end", client.rows())
    client.command(COM_DEBUG)
    client.command(COM_PING, b"more than a ping")
    client.command(COM_PROCESS_KILL, struct.pack("<I", 999_999_999), "kill what there is not")
    client.command(COM_PROCESS_KILL, b"", "kill nothing")
    client.command(COM_RESET_CONNECTION)
    client.query("SELECT DATABASE()")
    for code in (0x00, 0x05, 0x06, 0x07, 0x0A, 0x0B, 0x0F, 0x10, 0x13, 0x14, 0x1D, 0x22, 0x30, 0x7F, 0xFF):
        client.command(code, b"", f"command {code:#x}")
        client.command(code, b"\0\0\0\0something", f"command {code:#x} with more")
    client.write(packet(b"", 0))
    client.note("an empty packet", client.one())
    client.ping()


def test_other_commands(beside: Beside) -> None:
    same(beside, commands)


def test_a_command_that_ends_the_connection(beside: Beside) -> None:
    def script(client: RawClient) -> None:
        client.command(0x21, step="a stream of group replication")
        client.note("ended", bytes([client.at_end()]))

    same(beside, script, ONE_KIND)


def test_statistics_are_mysqls(beside: Beside) -> None:
    for deprecate_eof in (0, 1 << 24):
        with beside.client(capabilities=deprecate_eof) as client:
            found = client.command(COM_STATISTICS)
            assert found[4:].startswith(b"Uptime: ") and b"Queries per second avg: " in found
            client.ping()


def test_a_packet_with_a_wrong_number_ends_the_connection(beside: Beside) -> None:
    def script(client: RawClient) -> None:
        client.write(packet(client.text("SELECT 1"), 3))
        client.note("out of order", client.one())
        client.note("ended", bytes([client.at_end()]))

    same(beside, script, ONE_KIND)


def test_a_session_that_kills_itself(beside: Beside) -> None:
    def script(client: RawClient) -> None:
        client.query("KILL CONNECTION_ID()")
        client.note("ended", bytes([client.at_end()]))

    same(beside, script, ONE_KIND)
