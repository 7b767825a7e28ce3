"""BIT columns in what a function chooses from, with parameters: through Upwell as MySQL itself answers, byte by byte.

Once a function has had a BIT, MySQL may send a number, text or other bytes; and a parameter has another type in a
prepared statement than as a literal.
"""

from __future__ import annotations

import os
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.protocol.test_hits_same_bytes import comparable, without
from integration.servers.mysql_server import Server
from integration.support.proxy_thread import Beside, proxy_in_thread
from integration.support.raw_client import RawClient, bound
from integration.support.served import last_served
from proxy.mysql.wire.packets import CLIENT_DEPRECATE_EOF, lenenc

LONGLONG, DOUBLE, STRING, BLOB = 0x08, 0x05, 0xFD, 0xFC
WARNINGS = 9  # their place in the packet behind the rows
ROUNDS = 3  # of which the first shows how MySQL announces the columns
TABLE = (
    "CREATE TABLE t (id INT PRIMARY KEY, k INT, n INT, o BIT(1), b BIT(9), w BIT(64), s VARCHAR(20), KEY (k))",
    "INSERT INTO t VALUES (1, 1, 5, 1, 1, 65, 'a'), (2, 1, NULL, 0, 300, 97, 'A'), (3, 1, 97, NULL, NULL, NULL, NULL),"
    " (4, 2, 0, 1, 97, 1, '97'), (5, 2, 1, NULL, 511, 18446744073709551615, '1')",
)
CHOICES = (
    "COALESCE({c}, n)", "COALESCE({c}, {d})", "COALESCE({c}, s)", "IFNULL({c}, 0)", "GREATEST({c}, n)",
    "LEAST({c}, {d})", "IF(n > 1, {c}, NULL)", "IF(n > 1, {c}, {d})", "CASE WHEN n > 1 THEN {c} ELSE 1 END",
    "CASE {c} WHEN 97 THEN {d} END", "NULLIF({c}, 1)", "ANY_VALUE({c})", "MAX({c})", "{c}", "{c} + 0",
    "CAST({c} AS CHAR)",
)  # fmt: skip
CONDITIONS = (
    "{c} = ?", "COALESCE({c}, 97) = ?", "GREATEST({c}, n) >= ?", "IF(n > 1, {c}, {d}) = ?", "NULLIF({c}, 1) <=> ?",
    "CASE WHEN n THEN {c} END IN (?, 1)", "IFNULL({c}, {d}) BETWEEN ? AND 300",
)  # fmt: skip
GIVEN = (
    (LONGLONG, struct.pack("<q", 97), "97"),
    (LONGLONG, struct.pack("<q", 1), "1"),
    (DOUBLE, struct.pack("<d", 1.5), "1.5e0"),
    (STRING, lenenc(b"97"), "'97'"),
    (STRING, lenenc(b"a"), "'a'"),
    (BLOB, lenenc(b"\x01\x2c"), "x'012C'"),
)


@pytest.fixture(scope="module")
def beside(mysql: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    database = f"t{os.getpid()}_bits"
    mysql.execute(f"CREATE DATABASE {database}", f"USE {database}", *TABLE)
    with proxy_in_thread(mysql, database, Path(tmp_path_factory.mktemp("state"))) as found:
        yield found
    mysql.execute(f"DROP DATABASE `{database}`")


def compare(beside: Beside, sql: str, given: tuple[int, bytes, str], served: Counter[str]) -> Iterator[str]:
    """What differs, as text and prepared."""
    kind, value, literal = given
    with (
        beside.direct(capabilities=CLIENT_DEPRECATE_EOF) as direct,
        beside.client(capabilities=CLIENT_DEPRECATE_EOF) as client,
    ):
        if client.query(f"CREATE CACHE FROM {sql}")[4] == 0xFF:
            served["refused"] += 1
        text, parameters = sql.replace("?", literal), bound([kind], [value])
        statements = direct.prepare(sql).id, client.prepare(sql).id
        for _ in range(ROUNDS):
            for how in ("text", "prepared"):
                one, other = (
                    (connection.query(text) if how == "text" else connection.execute(statement, parameters))
                    for connection, statement in zip((direct, client), statements, strict=True)
                )
                told = last_served(beside)
                served[served_as(told)] += 1
                cached = served_as(told) != "passed"
                if shown(direct, one, warned=not cached) != shown(client, other, warned=not cached):
                    yield f"{how}, {told}: {sql} [{literal}]\n  MySQL  {one!r}\n  Upwell {other!r}"


def served_as(told: str) -> str:
    return told.split()[0].rstrip(":")


def shown(client: RawClient, answer: bytes, *, warned: bool) -> object:
    """`warned`: with the number of warnings, which a hit or a miss does not have."""
    found = comparable(client, answer, ordered=False)
    if warned or not isinstance(found, tuple):
        return found
    head, rows, end = found
    return head, rows, without(end, WARNINGS, 0xFFFF)


@pytest.mark.parametrize(("column", "other"), [("o", "b"), ("b", "w"), ("w", "o")])
def test_bits_that_functions_choose_are_mysqls(beside: Beside, column: str, other: str) -> None:
    served: Counter[str] = Counter()
    wrong: list[str] = []
    for form in CHOICES:
        group = " GROUP BY id" if form.startswith(("ANY_VALUE", "MAX")) else ""
        sql = f"SELECT id, {form.format(c=column, d=other)} AS x FROM t WHERE k = ?{group}"
        wrong += compare(beside, sql, (LONGLONG, struct.pack("<q", 1), "1"), served)
    for form in CONDITIONS:
        sql = f"SELECT id, {column} FROM t WHERE {form.format(c=column, d=other)}"
        for given in GIVEN:
            wrong += compare(beside, sql, given, served)
    assert not wrong, f"{len(wrong)} of {served}:\n" + "\n".join(wrong[:5])
    assert served["hit"] > 20 and served["refused"], served
