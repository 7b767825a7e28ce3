"""The settings with which drivers and frameworks begin: what their sessions are then answered is byte for byte what
MySQL answers, and reads by key are hits."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from integration.logins.login_settings import LOGINS, Login
from integration.protocol.test_hits_same_bytes import comparable, without
from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, proxy_in_thread
from integration.support.raw_client import RawClient, bound
from integration.support.served import last_served, read_until_hit
from proxy.mysql.state.recoding import ONE_BYTE, characters_query, recode_by
from proxy.mysql.state.session_variables import BINARY, LIKE_ASCII, UNICODE
from proxy.mysql.wire.packets import CLIENT_DEPRECATE_EOF, CLIENT_MULTI_STATEMENTS, lenenc

DATABASE = "login_settings"
TABLES = (
    "CREATE TABLE item (id INT PRIMARY KEY, grp INT, name VARCHAR(40), note TEXT, made DATETIME, price DECIMAL(8,2),"
    " plain VARCHAR(20) CHARACTER SET latin1, raw VARBINARY(20), doc JSON, KEY (grp), KEY (name))",
    "INSERT INTO item VALUES"
    " (1, 1, 'one', 'a note', '2024-01-02 03:04:05', 1.25, 'plain', x'00ff', '{\"a\": 1}'),"
    " (2, 1, 'zw\u00f6lf', 'caf\u00e9', NULL, NULL, 'caf\u00e9', x'c3a9', '{\"a\": \"\u00e9\"}'),"
    " (3, 2, '\U0001f600', '\u65e5\u672c', '2024-02-03', 3, 'x', NULL, NULL)",
)
QUERIES = (
    "SELECT id, grp, name FROM item WHERE id = 1",
    "SELECT * FROM item WHERE id = 1",
    "SELECT * FROM item WHERE id = 2",
    "SELECT * FROM item WHERE id = 3",
    "SELECT id, name FROM item WHERE name = 'one'",
    "SELECT id, name, made FROM item WHERE grp = 1 ORDER BY id",
    "SELECT COUNT(*) FROM item WHERE grp = 1",
)
OTHERS = (
    "SELECT id, CONCAT(name, '!'), UPPER(plain), IF(id = 1, 'yes', 'no') FROM item WHERE id = 2",
    "SELECT id FROM item WHERE name LIKE 'o%' ORDER BY name",
    "SELECT id, plain FROM item WHERE name = 'zw\u00f6lf'",
    "SELECT doc, doc->'$.a', doc->>'$.a' FROM item WHERE id = 2",
    "SELECT GROUP_CONCAT(name ORDER BY id), MIN(name), COUNT(DISTINCT plain) FROM item WHERE grp = 1",
    "SELECT DISTINCT plain, CAST(id AS CHAR), CAST(name AS CHAR) FROM item WHERE grp = 1 ORDER BY plain",
    "SELECT DATE_FORMAT(made, '%M %Y'), HEX(name), LENGTH(name), CHAR_LENGTH(plain) FROM item WHERE id = 1",
    "SELECT id, 'text', raw FROM item WHERE raw = x'c3a9'",
    "SELECT LOWER('ABC'), REVERSE('abc'), name FROM item WHERE id = 1",
)
BY_KEY = QUERIES[0]
TIMES = 4
LONGLONG, VAR_STRING = 8, 0xFD


@pytest.fixture(scope="module")
def beside(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    mysql.execute(f"DROP DATABASE IF EXISTS {DATABASE}", f"CREATE DATABASE {DATABASE}", f"USE {DATABASE}", *TABLES)
    with proxy_in_thread(mysql, DATABASE, Path(tmp_path_factory.mktemp("state"))) as found:
        with found.client() as client:
            for sql in (*QUERIES, *OTHERS):
                client.query(f"CREATE CACHE FROM {sql}")
        yield found
    mysql.execute(f"DROP DATABASE {DATABASE}")


def asked(client: RawClient, statements: Sequence[str], queries: Sequence[str] = QUERIES) -> list[object]:
    """All answers of a session that begins so, without the numbers of warnings."""
    for statement in statements:
        client.query(statement)
    answers = [client.query(sql) for sql in queries for _ in range(TIMES)]
    by_id = client.prepare("SELECT id, grp, name FROM item WHERE id = ?")
    by_name = client.prepare("SELECT id, plain FROM item WHERE name = ?")
    for _ in range(TIMES):
        answers.append(client.execute(by_id.id, bound((LONGLONG,), [struct.pack("<q", 1)])))
        for name in ("one", "zw\u00f6lf", "\U0001f600"):
            answers.append(client.execute(by_name.id, bound((VAR_STRING,), [text(name)])))
    for prepared in (by_id, by_name):
        client.close_statement(prepared.id)
    return [shown(client, answer) for answer in answers]


def text(value: str) -> bytes:
    """A string as it is bound."""
    return lenenc(value.encode())


def shown(client: RawClient, answer: bytes) -> object:
    found = comparable(client, answer)
    if not isinstance(found, tuple):
        return found
    head, rows, end = found
    return head, rows, without(end, 9, 0xFFFF)


CAPABILITIES = CLIENT_DEPRECATE_EOF | CLIENT_MULTI_STATEMENTS


@pytest.mark.parametrize("login", LOGINS, ids=lambda login: login.name)
def test_answers_are_mysqls(beside: Beside, login: Login) -> None:
    with beside.direct(capabilities=CAPABILITIES, collation=login.collation) as client:
        wanted = asked(client, login.statements)
    with beside.client(capabilities=CAPABILITIES, collation=login.collation) as client:
        assert asked(client, login.statements) == wanted


def test_reads_by_key_are_hits(beside: Beside) -> None:
    refused: dict[str, str] = {}
    for login in LOGINS:
        with beside.client(capabilities=CAPABILITIES, collation=login.collation) as client:
            asked(client, login.statements)
            for _ in range(TIMES):
                client.query(BY_KEY)
            served = last_served(beside, client)
            if not served.startswith("hit"):
                refused[login.name] = served
    print(*refused.items(), sep="\n")
    assert not refused


CHARACTER_SETS = (*sorted(LIKE_ASCII | UNICODE), BINARY, "NULL")
WAYS = ("SET NAMES {}", "SET character_set_results = {}", "SET character_set_connection = {}", "SET CHARACTER SET {}")


@pytest.mark.parametrize("way", WAYS)
def test_answers_are_mysqls_in_every_character_set(beside: Beside, way: str) -> None:
    """One session changes from each to the next, through the proxy and at MySQL itself."""
    wrong, hits = [], 0
    with beside.direct(capabilities=CAPABILITIES) as direct, beside.client(capabilities=CAPABILITIES) as through:
        for name in CHARACTER_SETS:
            statement = [way.format(name)]
            wanted, found = (asked(client, statement, (*QUERIES, *OTHERS)) for client in (direct, through))
            wrong += [(name, one, other) for one, other in zip(wanted, found, strict=True) if one != other]
            through.query(BY_KEY)
            hits += last_served(beside, through).startswith("hit")
    assert not wrong, f"{len(wrong)}: {wrong[:3]}"
    assert hits == len(CHARACTER_SETS)


def test_these_character_sets_have_ascii(mysql: Server) -> None:
    """And none of its characters in another place, either way."""
    plain = "".join(f"{code:02x}" for code in range(128))
    for name in sorted(LIKE_ASCII):
        read = f"CONVERT(CONVERT(x'{plain}' USING {name}) USING utf8mb4)"
        sent = f"CONVERT(CONVERT(x'{plain}' USING utf8mb4) USING {name})"
        assert mysql.execute(f"SELECT HEX({read}), HEX({sent})") == ((plain.upper(), plain.upper()),), name


@pytest.mark.parametrize(
    ("names", "sql"),
    [
        ("latin1", QUERIES[2]),
        ("utf8mb3", QUERIES[2]),
        ("utf8mb3", QUERIES[3]),
        ("cp1257", QUERIES[2]),
        ("ascii", BY_KEY),
    ],
)
def test_answers_with_other_characters_are_hits_too(beside: Beside, names: str, sql: str) -> None:
    """In the text protocol; that they are MySQL's bytes, the tests above show."""
    with beside.client(capabilities=CAPABILITIES) as client:
        client.query(f"SET NAMES {names}")
        read_until_hit(beside, client, client.query, sql)


def test_mysql_tells_what_each_set_has(mysql: Server) -> None:
    every = [chr(code) for code in range(0x80, 0x3000)]
    text = "".join(every).encode().hex()
    for name in sorted(ONE_BYTE - {"ascii"}):
        ((told,),) = mysql.execute(characters_query(name))
        ((found,),) = mysql.execute(f"SELECT HEX(CONVERT(_utf8mb4 x'{text}' USING {name}))")
        assert recode_by(told)(bytes.fromhex(text)) == bytes.fromhex(found), name
