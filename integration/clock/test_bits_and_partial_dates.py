"""What MySQL shows of BIT columns and of dates with a zero in them, once a function has had them: what is computed is
that, and what is held as MySQL gave it can be read as what MySQL announced."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pymysql
import pytest

from external_upquery.address import parse_upstream
from external_upquery.mysql.schema_source import SchemaSource
from integration.servers.mysql_server import Server
from integration.support.unconverted import unconverted_cursor
from integration.support.upqueries import run as with_executor
from planner.api import plan_evict, plan_query, with_result_columns
from planner.tree.plan import Mode
from proxy.planning.process import disagreement
from sqltypes.errors import EvaluationError, UnsupportedQuery
from sqltypes.expression import ColumnRef, Row, Value
from sqltypes.interpreter import evaluate
from sqltypes.schema import SchemaSnapshot, Table
from sqltypes.values import parse_text

DDL = """CREATE TABLE t (
  id INT PRIMARY KEY, d DATE, e DATE NOT NULL, dt DATETIME, d3 DATETIME(3), ts TIMESTAMP NULL, b BIT(9), o BIT(1),
  w BIT(64), y YEAR, n INT
)"""
ROWS = """INSERT INTO t VALUES
  (1, '0000-00-00', '0000-00-00', '0000-00-00', '0000-00-00', '0000-00-00', 1, 1, 1, 0, 1),
  (2, '2024-00-00', '2024-01-00', '2024-00-00 10:00:00', '2024-00-00 10:00:00.5', '2024-01-01 10:00', 300, 0, 65, 0, 2),
  (3, '2024-02-00', '2024-02-01', '2024-02-01 10:00:00', '2024-02-00', '2024-01-01', 97, 1, 97, 2000, NULL),
  (4, '2024-02-29', '2024-02-29', '2024-02-29', '2024-02-29 10:00:00.999', NULL, NULL, NULL, NULL, 2000, 4),
  (5, '2024-02-31', '2024-04-31', '2023-02-29 10:00:00', '2024-02-30 10:00:00.5', '2024-01-01', 1, 1, 1, 2024, 5)"""
DATES, BITS, OTHERS = ("d", "e", "dt", "d3", "ts"), ("b", "o", "w"), ("n", "0", "1.5", "y")
ONE = (
    "CAST({0} AS DATE)", "CAST({0} AS DATETIME)", "CAST({0} AS DATETIME(3))", "CAST({0} AS DATETIME(6))",
    "CAST({0} AS CHAR)", "CAST({0} AS SIGNED)", "CAST({0} AS UNSIGNED)", "CAST({0} AS DECIMAL(20,2))", "{0} + 0",
    "{0} * 2", "-{0}", "{0} / 2", "{0} DIV 2", "{0} % 7", "ABS({0})", "SIGN({0})", "FLOOR({0})", "NOT {0}",
    "{0} IS TRUE", "{0} IS NULL", "{0} IN (97, 1)", "{0} AND 1", "CASE WHEN id THEN {0} END", "IF(id > 1, {0}, NULL)",
    "ANY_VALUE({0})", "COALESCE({0})", "NULLIF({0}, 1)", "{0}", "({0})", "(SELECT x.{0} FROM t x WHERE x.id = t.id)",
    "CAST({0} AS DATE) = '2024-02-29'", "CAST({0} AS DATE) IS NULL", "COALESCE(CAST({0} AS DATE), CAST(dt AS DATE))",
    "CASE WHEN {0} THEN 1 ELSE 2 END", "LAG({0}) OVER (ORDER BY id)", "CONCAT({0})", "{0} = {0}",
)  # fmt: skip
TWO = (
    "COALESCE({0}, {1})", "IFNULL({0}, {1})", "IF(id > 2, {0}, {1})", "CASE WHEN id > 2 THEN {0} ELSE {1} END",
    "GREATEST({0}, {1})", "LEAST({0}, {1})", "NULLIF({0}, {1})", "{0} = {1}", "{0} <=> {1}", "{0} < {1}",
    "{0} + {1}", "{0} BETWEEN {1} AND {1}",
)  # fmt: skip


@pytest.fixture
def cursor(mysql: Server, database: str) -> Iterator[Any]:
    with unconverted_cursor(mysql, database) as made:
        made.execute("SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'")
        made.execute(DDL)
        made.execute(ROWS)
        made.execute("SET sql_mode = DEFAULT")
        yield made


def expressions() -> list[str]:
    columns = (*DATES, *BITS)
    found = [form.format(column) for form in ONE for column in (*columns, "y")]
    pairs = [(one, other) for one in columns for other in (*columns, *OTHERS)]
    return found + [form.format(*pair) for form in TWO for pair in pairs]


def canonical(value: Any, type_: Any) -> Value:
    return None if value is None else parse_text(type_)(value if isinstance(value, bytes) else str(value).encode())


def test_every_function_of_bits_and_partial_dates(cursor: Any, mysql: Server, database: str) -> None:
    schema: SchemaSnapshot = SchemaSource(parse_upstream(mysql.url)).snapshot_now([(database, "t")])
    table = schema.relations[database, "t"]
    assert isinstance(table, Table)
    cursor.execute("SELECT * FROM t ORDER BY id")
    rows: list[Row] = [
        tuple(canonical(value, column.type) for value, column in zip(row, table.columns, strict=True))
        for row in cursor.fetchall()
    ]
    known: dict[str, list[Any]] = {}
    for text in expressions():
        try:
            cursor.execute(f"SELECT {text} AS x FROM t ORDER BY id")
        except pymysql.MySQLError:
            continue
        known[text] = [row[0] for row in cursor.fetchall()]
    sqls = {text: f"SELECT {text} AS x FROM t WHERE id >= ?" for text in known}

    async def describe(executor: Any) -> dict[str, Any]:
        return {text: (await executor.describe(sql, database))[0] for text, sql in sqls.items()}

    described = with_executor(mysql, describe)
    wrong: list[str] = []
    computed = held = 0
    for text, values in known.items():
        columns = described[text]
        try:
            plan = plan_query(sqls[text], database, schema)
            if plan.mode is Mode.MAINTAIN and disagreement(plan, columns) == "":
                computed += 1
                wrong += differences(text, plan.reader.output[0].expr, table, rows, values)
            else:
                held += 1
                with_result_columns(plan_evict(sqls[text], database, schema), columns)
                wrong += unreadable(text, columns[0].type, values)
        except UnsupportedQuery:
            continue
    assert not wrong, f"{len(wrong)}\n" + "\n".join(wrong[:60])
    assert computed > 150 and held > 100, (computed, held)


def differences(text: str, expr: Any, table: Table, rows: list[Row], values: list[Any]) -> list[str]:
    found = []
    for row, value in zip(rows, values, strict=True):

        def column(ref: ColumnRef, row: Row = row) -> Value:
            return row[table.column(ref.name).position]

        try:
            mine, theirs = evaluate(expr, column, (1,)), canonical(value, expr.type)
        except EvaluationError:
            continue  # a hole: MySQL answers
        if mine != theirs:
            found.append(f"{text} of {row}: {mine!r}, MySQL {value!r}")
    return found


def unreadable(text: str, type_: Any, values: list[Any]) -> list[str]:
    """Answers that are held must be values of the type that MySQL announces."""
    found = []
    for value in values:
        try:
            held = canonical(value, type_)
            if type_.name == "bit" and isinstance(held, int) and held >= 2 ** (type_.length or 1):
                found.append(f"{text}: {value!r} announced as BIT({type_.length})")
        except Exception as error:  # noqa: BLE001 - whatever would be raised for the client
            found.append(f"{text}: {value!r} announced as {type_.name}: {error!r}")
    return found
