"""Expressions computed by the real MySQL and by the interpreter: values and types must be equal."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from random import Random
from typing import Any

import pymysql
import pytest
from pymysql.constants import FIELD_TYPE, FLAG

from integration.servers.mysql_server import Server
from integration.support.unconverted import unconverted_cursor
from sqltypes.arithmetic import average, rescale
from sqltypes.casts import scale_varies
from sqltypes.errors import EvaluationError
from sqltypes.expression import Expr, Row, Value
from sqltypes.functions import aggregate_type
from sqltypes.interpreter import evaluate
from sqltypes.schema import SqlType
from sqltypes.values import parse_text, sql_literal
from tests.support.expressions import COLUMNS, LAYOUT, ROWS, Generator

BATCH = 40
OUT_OF_RANGE = 1690
Computed = tuple[str, Expr, list[Value]]
INTEGERS = {FIELD_TYPE.TINY, FIELD_TYPE.SHORT, FIELD_TYPE.INT24, FIELD_TYPE.LONG, FIELD_TYPE.LONGLONG, FIELD_TYPE.YEAR}


@pytest.fixture
def cursor(mysql: Server, database: str) -> Iterator[Any]:
    with unconverted_cursor(mysql, database, autocommit=False) as made:
        made.execute("CREATE TABLE awkward (" + ", ".join(f"{name} {sql}" for name, sql, _, _ in COLUMNS) + ")")
        for row in ROWS:
            values = (sql_literal(value, type_) for value, (_, _, type_, _) in zip(row, COLUMNS, strict=True))
            made.execute(f"INSERT INTO awkward VALUES ({', '.join(values)})")
        made.connection.commit()
        yield made


def interpreted(expr: Expr, row: Row) -> Value:
    return evaluate(expr, lambda ref: row[LAYOUT[ref.source, ref.name]])


def canonical(text: bytes | None, type_: SqlType) -> Value:
    return None if text is None else parse_text(type_)(text if isinstance(text, bytes) else str(text).encode())


def announced(field: Any) -> str:
    if field.type_code in INTEGERS:
        return "unsigned" if field.flags & FLAG.UNSIGNED else "signed"
    if field.type_code == FIELD_TYPE.NEWDECIMAL:
        return f"decimal({field.scale})"
    return "double" if field.type_code in (FIELD_TYPE.DOUBLE, FIELD_TYPE.FLOAT) else "other"


def expected_type(type_: SqlType) -> str:
    if type_.is_integer:
        return "unsigned" if type_.unsigned else "signed"
    if type_.name == "decimal":
        return f"decimal({type_.scale})"
    return "double" if type_.is_approximate else "other"


def computable(made: list[tuple[str, Expr]]) -> list[Computed]:
    """The expressions that the interpreter computes for every row, with its values."""
    kept = []
    for sql, expr in made:
        try:
            kept.append((sql, expr, [interpreted(expr, row) for row in ROWS]))
        except EvaluationError:
            continue
    return kept


def differences(cursor: Any, batch: list[Computed]) -> list[str]:
    """MySQL may fail where the interpreter does not, by operands that need no value: it never fills that."""
    try:
        cursor.execute("SELECT " + ", ".join(sql for sql, _, _ in batch) + " FROM awkward r ORDER BY r.id")
    except pymysql.err.OperationalError as error:
        if error.args[0] != OUT_OF_RANGE:
            raise
        if len(batch) == 1:
            return []
        half = len(batch) // 2
        return differences(cursor, batch[:half]) + differences(cursor, batch[half:])
    return compared(cursor, batch, cursor.fetchall())


def compared(cursor: Any, batch: list[Computed], rows: Any) -> list[str]:
    found = []
    for at, (sql, expr, values) in enumerate(batch):
        field = cursor._result.fields[at]
        if expr.type.name != "null" and announced(field) != expected_type(expr.type):
            found.append(f"{sql}: MySQL announces {announced(field)}, built {expected_type(expr.type)}")
            continue
        for row, value in zip(rows, values, strict=True):
            theirs = canonical(row[at], expr.type)
            if isinstance(theirs, Decimal) and scale_varies(expr):
                theirs = rescale(theirs, expr.type.scale or 0)
            same = theirs == value and type(theirs) is type(value)
            same = same and (not isinstance(value, Decimal) or str(value) == str(theirs))
            if not same:
                found.append(f"{sql}: MySQL {row[at]!r}, interpreted {value!r}")
    return found


@pytest.mark.parametrize("seed", range(10))
def test_random_expressions_have_mysqls_values_and_types(cursor: Any, seed: int) -> None:
    generator = Generator(Random(seed))
    made = computable([generator.any() for _ in range(600)])
    assert len(made) > 300
    found = [line for at in range(0, len(made), BATCH) for line in differences(cursor, made[at : at + BATCH])]
    assert found == [], f"seed {seed}: {len(found)} differences\n" + "\n".join(found[:20])


NUMERIC_COLUMNS = [name for name, _, type_, _ in COLUMNS if type_.is_numeric]


@pytest.mark.parametrize("name", NUMERIC_COLUMNS)
def test_aggregates_have_the_announced_types(cursor: Any, name: str) -> None:
    functions = ("SUM", "AVG", "MIN", "MAX", "COUNT")
    cursor.execute("SELECT " + ", ".join(f"{function}({name})" for function in functions) + " FROM awkward")
    argument = next(type_ for column, _, type_, _ in COLUMNS if column == name)
    for function, field in zip(functions, cursor._result.fields, strict=True):
        type_, _ = aggregate_type(function, argument)
        assert announced(field) == expected_type(type_), f"{function}({name})"
        if type_.name == "decimal":
            point_and_sign = (1 if type_.scale else 0) + 1  # as for the argument: display length is digits and these
            assert field.length == (type_.precision or 0) + point_and_sign, f"{function}({name})"


def test_average_of_sum_and_count_is_mysqls(cursor: Any) -> None:
    random = Random(11)
    for scale in (0, 1, 2, 4, 5, 6, 8, 9, 10, 14, 20):
        values = [Decimal(random.randrange(-(10**12), 10**12)).scaleb(-scale) for _ in range(random.randrange(1, 12))]
        rows = " UNION ALL ".join(f"SELECT CAST({value:f} AS DECIMAL(35,{scale})) v" for value in values)
        cursor.execute(f"SELECT SUM(v), AVG(v) FROM ({rows}) t")
        total, mean = cursor.fetchone()
        assert average(Decimal(total), len(values), scale + 4) == Decimal(mean), f"scale {scale}: {values}"
