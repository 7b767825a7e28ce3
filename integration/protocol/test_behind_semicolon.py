"""What stands behind the semicolon of a cached read, or of a COMMIT that MySQL need not see. Where a session may send
several statements MySQL answers a comment there, too, and spaces not: the answer has one more result."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.protocol.test_hits_same_bytes import comparable
from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, proxy_in_thread
from integration.support.raw_client import RawClient, bound
from integration.support.served import last_served, read_until_hit
from proxy.mysql.wire.packets import (
    CLIENT_DEPRECATE_EOF,
    CLIENT_MULTI_STATEMENTS,
    CLIENT_QUERY_ATTRIBUTES,
    COM_CHANGE_USER,
    COM_RESET_CONNECTION,
    COM_SET_OPTION,
    packet,
)

TABLE = ("CREATE TABLE a (id INT PRIMARY KEY, n INT)", "INSERT INTO a VALUES (1, 10), (2, 20)")
READ = "SELECT id, n FROM a WHERE id = "
IDLE = ("", ";", "; ", ";;", "; ;", ";\n", "\r\n;\x0b\x0c", " -- x;", "/* x */ ;", " # ;\n;")
MORE = ("; -- x", ";-- ", ";--", ";#", "; #c\n", ";/* */", "; /* */ ;", ";/*! */", ";/*!99999 x*/")
OTHER = (";/*x*/;/*y*/", ";; -- x", ";\0", "; \0", "; SELECT 2", ";/* */ SELECT 3")
KINDS = {"eof": 0, "ok": CLIENT_DEPRECATE_EOF, "attributes": CLIENT_DEPRECATE_EOF | CLIENT_QUERY_ATTRIBUTES}
ON, OFF = b"\0\0", b"\1\0"


@pytest.fixture(scope="module")
def beside(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    database = f"t{os.getpid()}_behind_semicolon"
    mysql.execute(f"CREATE DATABASE {database}", f"USE {database}", *TABLE)
    with proxy_in_thread(mysql, database, Path(tmp_path_factory.mktemp("state"))) as found:
        with found.client() as client:
            assert client.query(f"CREATE CACHE FROM {READ}?")[4] == 0
        found.caught_up()
        yield found
        found.at_rest()
    mysql.execute(f"DROP DATABASE `{database}`")


def agree(beside: Beside, direct: RawClient, client: RawClient, *, several: bool) -> None:
    """Texts of each kind are answered as MySQL answers them, and from memory where that is one result."""
    for end in (*IDLE, *MORE, *OTHER):
        sql = f"{READ}1{end}"
        alone = end in IDLE or (end in MORE and not several)
        if alone:
            read_until_hit(beside, client, client.query, sql)
        for text in (sql, sql, f"{READ}2{end}", sql):
            found, wanted = client.query(text), direct.query(text)
            if alone:
                assert comparable(client, found) == comparable(direct, wanted), text
            else:
                assert found.count(b"\0") and found == wanted, text
        assert last_served(beside, client).startswith("hit" if alone else "passed"), sql


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("several", [False, True], ids=["one statement", "several"])
def test_a_comment_behind_a_semicolon_is_a_statement_where_there_may_be_several(
    beside: Beside, kind: str, several: bool
) -> None:
    capabilities = KINDS[kind] | (CLIENT_MULTI_STATEMENTS if several else 0)
    with beside.direct(capabilities=capabilities) as direct, beside.client(capabilities=capabilities) as client:
        agree(beside, direct, client, several=several)
        for command, rest, then in (
            (COM_SET_OPTION, OFF, False),
            (COM_SET_OPTION, ON, True),
            (COM_SET_OPTION, b"\7\0", True),
            (COM_SET_OPTION, OFF, False),
        ):
            for one in (direct, client):
                one.command(command, rest)
            agree(beside, direct, client, several=then)


@pytest.mark.parametrize("before", [ON, OFF, b""], ids=["on", "off", "as logged in"])
@pytest.mark.parametrize("change", [False, True], ids=["reset", "another account"])
@pytest.mark.parametrize("several", [False, True], ids=["one statement", "several"])
def test_a_new_session_of_the_connection(beside: Beside, several: bool, change: bool, before: bytes) -> None:
    capabilities = CLIENT_DEPRECATE_EOF | (CLIENT_MULTI_STATEMENTS if several else 0)
    with beside.direct(capabilities=capabilities) as direct, beside.client(capabilities=capabilities) as client:
        for one in (direct, client):
            if before:
                one.command(COM_SET_OPTION, before)
            if change:
                account = b"root\0\0" + beside.proxy.database.encode() + b"\0\xff\0caching_sha2_password\0"
                one.write(packet(bytes((COM_CHANGE_USER,)) + account, 0))
                one.write(packet(b"", one.packet()[3] + 1))
                assert one.authenticated()[4] == 0
            else:
                one.command(COM_RESET_CONNECTION)
        for end in (*IDLE, *MORE):
            for _ in range(3):
                text = f"{READ}1{end}"
                found, wanted = client.query(text), direct.query(text)
                assert len(found) == len(wanted), (text, found, wanted)


@pytest.mark.parametrize("several", [False, True], ids=["one statement", "several"])
def test_an_end_of_a_transaction_of_hits(beside: Beside, several: bool) -> None:
    capabilities = CLIENT_DEPRECATE_EOF | (CLIENT_MULTI_STATEMENTS if several else 0)
    with beside.direct(capabilities=capabilities) as direct, beside.client(capabilities=capabilities) as client:
        for one in (direct, client):
            one.query("SET autocommit = 0")
            one.query("COMMIT")
        read_until_hit(beside, client, client.query, f"{READ}1")
        long = f";/*{'x' * 3000}*/"
        for end in (*IDLE, *MORE, long, f"/*{'x' * 3000}*/"):
            for verb in ("COMMIT", "ROLLBACK"):
                for one in (direct, client):
                    one.query("COMMIT")
                    one.query(f"{READ}1")
                assert client.query(verb + end) == direct.query(verb + end), (verb, end)


def test_a_prepared_statement_is_one(beside: Beside) -> None:
    key = bound([8], [struct.pack("<q", 1)])
    for capabilities in (CLIENT_DEPRECATE_EOF, CLIENT_DEPRECATE_EOF | CLIENT_MULTI_STATEMENTS):
        with beside.direct(capabilities=capabilities) as direct, beside.client(capabilities=capabilities) as client:
            for end in (*IDLE, *MORE):
                statements = [one.prepare(f"{READ}?{end}") for one in (direct, client)]
                answers = read_until_hit(beside, client, client.execute, statements[1].id, key)
                wanted = comparable(direct, direct.execute(statements[0].id, key))
                assert all(comparable(client, answer) == wanted for answer in answers)


def test_who_asks_for_a_cache_by_a_comment_there_is_told_why_not(beside: Beside) -> None:
    sql = f"{READ}1; /* upwell: force */"
    with beside.client() as client:
        read_until_hit(beside, client, client.query, f"{READ}1")
        client.query(sql)
        assert last_served(beside, client).startswith("hit")
        client.command(COM_SET_OPTION, ON)
        assert b"behind the semicolon" in client.query(sql)
