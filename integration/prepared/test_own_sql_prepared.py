"""Upwell's own SQL as prepared statements, as drivers send it that prepare whatever they run: answers are those of the
texts, in the binary protocol."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.protocol.test_hits_same_bytes import KINDS
from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, proxy_in_thread
from integration.support.raw_client import RawClient, payloads_of
from proxy.mysql.wire.packets import COM_RESET_CONNECTION, COM_STMT_PREPARE, packet, read_lenenc

DATABASE = "own_sql_prepared"
BY_ID = "SELECT id, n FROM item WHERE id = ?"
LONGLONG, DOUBLE = 8, 5
TABLES = ("SHOW CACHES", "SHOW CACHES LIKE 'by%'", f"EXPLAIN CREATE CACHE FROM {BY_ID}", "EXPLAIN LAST STATEMENT")


@pytest.fixture(scope="module")
def beside(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    mysql.execute(f"DROP DATABASE IF EXISTS {DATABASE}", f"CREATE DATABASE {DATABASE}", f"USE {DATABASE}")
    mysql.execute(f"CREATE TABLE {DATABASE}.item (id INT PRIMARY KEY, n INT)")
    with proxy_in_thread(mysql, DATABASE, Path(tmp_path_factory.mktemp("state")), admin_users="root@%") as found:
        yield found
        found.at_rest()
    mysql.execute(f"DROP DATABASE {DATABASE}")


def table(client: RawClient, answer: bytes, *, binary: bool) -> tuple[list[str], list[tuple[object, ...]]]:
    """The names of the columns, and the rows, decoded by what the definitions say."""
    found = payloads_of(answer)
    count = found[0][0]
    definitions = found[1 : 1 + count]
    rows = found[1 + count + client.eof : -1]
    names, types = [], []
    for definition in definitions:
        at = 0
        for _ in range(4):
            _, at = read_lenenc(definition, at)
        name, _ = read_lenenc(definition, at)
        names.append(name.decode())
        types.append(definition[-6])
    return names, [of_binary(row, types) if binary else of_text(row, types) for row in rows]


def of_text(row: bytes, types: list[int]) -> tuple[object, ...]:
    at = 0
    values: list[object] = []
    for type_ in types:
        if row[at] == 0xFB:
            values.append(None)
            at += 1
            continue
        value, at = read_lenenc(row, at)
        values.append({LONGLONG: int, DOUBLE: float}.get(type_, bytes.decode)(value))
    return tuple(values)


def of_binary(row: bytes, types: list[int]) -> tuple[object, ...]:
    at = 1 + (len(types) + 9) // 8
    values: list[object] = []
    for number, type_ in enumerate(types, 2):
        if row[1 + number // 8] >> number % 8 & 1:
            values.append(None)
        elif type_ in (LONGLONG, DOUBLE):
            values.append(struct.unpack_from("<q" if type_ == LONGLONG else "<d", row, at)[0])
            at += 8
        else:
            value, at = read_lenenc(row, at)
            values.append(value.decode())
    return tuple(values)


@pytest.mark.parametrize("kind", list(KINDS))
def test_prepared_is_answered_as_the_text(beside: Beside, kind: str) -> None:
    with beside.client(capabilities=KINDS[kind]) as client:
        made = client.prepare(f"CREATE CACHE IF NOT EXISTS by_id FROM {BY_ID}")
        assert (made.columns, made.parameters, made.error) == (0, 0, False)
        assert client.execute(made.id)[4] == 0
        client.query("SELECT id, n FROM item WHERE id = 1")
        beside.until(lambda: not beside.shared.fills)  # SHOW CACHES tells of keys and memory
        for sql in TABLES:
            statement = client.prepare(sql)
            wanted = table(client, client.query(sql), binary=False)
            for _ in range(2):
                found = table(client, client.execute(statement.id), binary=True)
                assert found == wanted and len(found[0]) == statement.columns and found[1]
            assert client.reset_statement(statement.id)[4] == 0
            client.close_statement(statement.id)
        dropped = client.prepare("DROP CACHE by_id")
        assert client.execute(dropped.id)[4] == 0
        assert client.execute(dropped.id)[4] == 0xFF, "there is none any more"


def test_mysqls_own_statements_are_not_touched(beside: Beside) -> None:
    with beside.client() as client:
        ours, mysqls = client.prepare("SHOW CACHES"), client.prepare("SELECT 1")
        assert ours.id != mysqls.id and client.execute(mysqls.id)[4] == 1
        client.close_statement(ours.id)
        client.long_data(ours.id, 0, b"x")
        assert client.execute(ours.id)[4] == 0xFF, "MySQL says that it knows none of that number"
        assert client.execute(mysqls.id)[4] == 1
        again = client.prepare("SHOW CACHES")
        client.command(COM_RESET_CONNECTION)
        assert client.execute(again.id)[4] == 0xFF
        assert client.query("SELECT 1")[4] == 1


def test_a_command_that_is_not_complete_is_an_error(beside: Beside) -> None:
    with beside.client() as client:
        assert client.prepare("CREATE CACHE FROM").error
        assert client.prepare("SELECT 1").error is False


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("CREATE CACHE FROM", b"a SELECT is expected at the end; accepted is: CREATE CACHE [IF NOT EXISTS]"),
        ("CREATE CACHE one of SELECT 1", b"FROM is expected at line 1, column 18"),
        ("SHOW CACHE", b"CACHES or PROXIED or UPWELL is expected at line 1, column 6"),
        ("SHOW UPWELL STATE", b"STATUS or SETTINGS is expected at line 1, column 13"),
        ("DROP CACHE IF EXISTS", b"the name of a cache is expected at the end"),
    ],
)
def test_a_mistyped_one_is_told_what_would_be_accepted(beside: Beside, text: str, words: bytes) -> None:
    with beside.client() as client:
        for command in (client.text(text), bytes((COM_STMT_PREPARE,)) + text.encode()):
            client.write(packet(command, 0))
            (error,) = payloads_of(client.packet())
            assert error[:9] == b"\xff\x28\x04#42000" and words in error
        assert client.query("SELECT 1")[4:5] == b"\x01", "the session goes on"
