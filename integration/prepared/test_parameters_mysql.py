"""Parameters converted to a column's type find what MySQL finds with the client's own literal; numbers print alike."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import closing
from datetime import date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pymysql
import pytest

from integration.servers.mysql_server import Server
from sqltypes.build import column, parameter
from sqltypes.errors import BadParameters
from sqltypes.expression import Expr, Row, Value
from sqltypes.functions import call
from sqltypes.interpreter import evaluate
from sqltypes.values import client_literal, convert_parameter, double_text, float_text, parse_text, sql_literal
from tests.support.expressions import COLUMNS, LAYOUT, ROWS, TABLE

D = Decimal
GIVEN: tuple[Any, ...] = (
    0, 1, -7, 255, 3, 2**31, 2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63), 10**25, D("0"), D("1.0"), D("0.01"),
    D("-0.01"), D("99999999.99"), D("0.005"), D("12345678901234.567891"), D("2.5"), D("10"), 0.0, 1.0, 1.5, 0.1,
    -7.0, 2.5, 1e10, -1e300, 0.05, "", "1", "-7", " 10", "1.0", "0.05", "abc", "ABC", "abc ", "a\u00e9", "\u00c4BC",
    "\U0001f600", "Zeta", "10", "a%c", "1abc", "2020-01-01", "2020-02-29 12:30:00", "2020-02-29 12:30:00.5",
    "2020-02-30", "2020-01-01T00:00:01", "1999-12-31 23:59:59.001", "2020-01-01 00:00:00", "0000-00-00", "01:01:01",
    "-00:00:01", "838:00:00", "00:00", "12", b"abc", b"\x00\xff", b"", date(2020, 2, 29),
    datetime(2020, 2, 29, 12, 30), datetime(2020, 2, 29, 12, 30, 0, 500000), timedelta(seconds=3661),
    timedelta(seconds=-1), True,
)  # fmt: skip


@pytest.fixture
def cursor(mysql: Server, database: str) -> Iterator[Any]:
    connection = pymysql.connect(
        host=mysql.host, port=mysql.port, user=mysql.user, password=mysql.password, database=database, charset="utf8mb4"
    )
    with closing(connection), connection.cursor() as made:
        made.execute("SET time_zone = '+00:00'")
        made.execute("CREATE TABLE awkward (" + ", ".join(f"{name} {sql}" for name, sql, _, _ in COLUMNS) + ")")
        for row in ROWS:
            values = (sql_literal(value, type_) for value, (_, _, type_, _) in zip(row, COLUMNS, strict=True))
            made.execute(f"INSERT INTO awkward VALUES ({', '.join(values)})")
        connection.commit()
        yield made


def found(name: str, operator: str, value: Value) -> list[Value]:
    ref = column("r", TABLE, name)
    test: Expr = call(operator, [ref, parameter(0)])

    def holds(row: Row) -> bool:
        return evaluate(test, lambda ref: row[LAYOUT[ref.source, ref.name]], (value,)) == 1

    return [row[0] for row in ROWS if holds(row)]


@pytest.mark.parametrize("name", [name for name, _, _, _ in COLUMNS])
def test_converted_parameter_finds_the_rows_that_mysql_finds(cursor: Any, name: str) -> None:
    type_ = TABLE.column(name).type
    wrong, converted = [], 0
    for given in GIVEN:
        try:
            value = convert_parameter(given, type_)
        except BadParameters:
            continue
        converted += 1
        for operator in ("=", "<", ">="):
            ours = found(name, operator, value)
            for literal in (client_literal(given), sql_literal(value, type_)):
                cursor.execute(f"SELECT id FROM awkward WHERE {name} {operator} {literal} ORDER BY id")
                theirs = [row[0] for row in cursor.fetchall()]
                if theirs != ours:
                    wrong.append(f"{name} {operator} {literal} ({given!r}): MySQL {theirs}, ours {ours}")
    assert converted > 2
    assert wrong == [], "\n".join(wrong)


def test_parsed_text_of_every_column_is_the_canonical_value(cursor: Any) -> None:
    cursor.connection.decoders = {}
    cursor.execute("SELECT * FROM awkward ORDER BY id")
    for row, wanted in zip(cursor.fetchall(), ROWS, strict=True):
        for value, expected, (_, _, type_, _) in zip(row, wanted, COLUMNS, strict=True):
            data = value.encode() if isinstance(value, str) else value
            assert (None if data is None else parse_text(type_)(data)) == expected


def test_doubles_and_floats_print_as_in_mysql(cursor: Any) -> None:
    random = Random(5)
    doubles = [
        0.0,
        1.0,
        -1.5,
        1e14,
        1e15,
        1e16,
        123456789012345680.0,
        1e-5,
        1e-14,
        1e-15,
        1e-16,
        5e-324,
        1.7976931348623157e308,
    ]
    doubles += [struct.unpack("<d", random.randbytes(8))[0] for _ in range(300)]
    doubles += [random.uniform(-1, 1) * 10 ** random.randrange(-20, 20) for _ in range(300)]
    doubles = [value for value in doubles if value == value and abs(value) != float("inf")]
    floats = [struct.unpack("<f", struct.pack("<f", value))[0] for value in doubles if abs(value) < 3e38]
    cursor.connection.decoders = {}
    for kind, values, text in (("DOUBLE", doubles, double_text), ("FLOAT", floats, float_text)):
        cursor.execute(f"CREATE TEMPORARY TABLE printed_{kind} (id INT, x {kind})")
        rows = ", ".join(f"({at}, {sql_literal(value, TABLE.column('f').type)})" for at, value in enumerate(values))
        cursor.execute(f"INSERT INTO printed_{kind} VALUES {rows}")
        cursor.execute(f"SELECT x FROM printed_{kind} ORDER BY id")
        printed = [row[0] for row in cursor.fetchall()]
        wrong = [(theirs, text(value)) for theirs, value in zip(printed, values, strict=True) if theirs != text(value)]
        assert wrong == []
