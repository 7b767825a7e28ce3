"""Constants beside columns of every type, through an index and without one: what the planner computes is what MySQL
gives both ways, and what it holds as MySQL gave it is emptied by every row that MySQL finds either way.

Where the two ways of MySQL differ nobody can say which it takes, so nothing may be computed. `CASES=5000` tries more.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import pymysql
import pytest

from external_upquery.address import parse_upstream
from external_upquery.mysql.schema_source import SchemaSource
from integration.planner_truth.test_plans_mysql import _key_agrees
from integration.prepared.test_surprising_parameters import FINER, MOMENTS, MORE, WHOLE_SECONDS
from integration.servers.mysql_server import Server
from integration.support.random_tables import KINDS, Kind
from integration.support.unconverted import unconverted_cursor
from planner.api import plan_query
from planner.tree.plan import AnswerArrangement, QueryPlan, RowsArrangement
from sqltypes.errors import BadParameters, EvaluationError, UnknownName, UnsupportedQuery
from sqltypes.expression import ColumnRef, Expr, Row, Value
from sqltypes.implementations import comparison_key
from sqltypes.interpreter import evaluate
from sqltypes.schema import SchemaSnapshot, Table
from sqltypes.values import client_literal, convert_parameter, parse_text

CASES = int(os.environ.get("CASES", "12"))
EXTRA = (
    *WHOLE_SECONDS,
    Kind("k6", "DATETIME(6)", "time", (*MOMENTS, "'2024-01-02 23:00:00.4'", "'2024-01-02 23:00:00.400001'"), ()),
    Kind("z0", "TIMESTAMP NULL", "time", MOMENTS, ()),
    Kind("r6", "TIME(6)", "clock", ("'23:00:00.4'", "'23:00:00'"), ()),
    Kind("b1", "BIT(1)", "bit", ("b'0'", "b'1'"), ()),
    Kind("b64", "BIT(64)", "bit", ("b'0'", "b'1'", "49", "65"), ()),
    Kind("i8", "BIGINT", "number", ("9007199254740993", "9007199254740992", "0", "1"), ()),
    Kind("d20", "DECIMAL(20,4)", "number", ("1.5", "0.4", "1", "9007199254740993"), ()),
    Kind("lob", "BLOB", "bytes", ("'a'", "'A'", "'1'", "''"), ()),
)
_LITERALS = """
    0 | 1 | -1 | 1.5 | 0.5 | 1.10 | 1.101 | 1.1 | 2.499 | 1e0 | 1.1e0 | 0.1e0 | -0.0e0 | 127.5 | 128 | 2147483648
    18446744073709551616 | 9007199254740993 | 9007199254740993.0 | 9007199254740993e0 | 99.99999999 | 99999999.994 | ''
    'a' | 'A' | 'a ' | ' a' | '1' | ' 1' | '1 ' | '01' | '1.0' | '1.10' | '1e0' | '1abc' | 'ä' | 'x,y' | 'y,x' | 'X'
    x'61' | b'1' | TRUE | NULL | N'a' | 'a' COLLATE utf8mb4_bin | '2024-01-02 23:00:00' | '2024-01-02 23:00:00.4'
    '2024-01-02 23:00:00.5' | '2024-01-02 22:59:59.6' | '2024-01-02 23:00:00.0' | '2024-01-02 23:00:00.0000004'
    '2024-01-02T23:00:00' | '2024-01-02' | '2024-1-2' | '20240102' | 20240102 | 20240102230000 | 20240102230000.4
    '2024-01-03 00:00:00' | '2024-01-02 23:00' | '2024-01-02 23:00:00 ' | '2024-02-29 12:34:56.7894'
    '2024-02-29 12:34:56.789' | '2024-02-29 00:00:00.4' | '2024-02-28 23:59:59.7' | '2024-02-29 12:00:00' | '2024-02-29'
    '0000-00-00' | '2024-00-00' | '0000-00-00 00:00:00' | DATE'2024-02-29' | TIMESTAMP'2024-01-02 23:00:00.4'
    TIMESTAMP'2024-01-02 23:00:00' | TIME'23:00:00.4' | TIME'23:00:00' | '23:00:00' | '23:00:00.4' | '22:59:59.6'
    '12:34:56.78' | '12:34:56.784' | '23:00' | 230000 | 230000.4 | '1 23:00:00' | '-1:00:00' | '100:00:00' | 2000 | 24
    '2024' | '24' | 2024.4 | 1900 | 2156 | '%' | 'a%' | '_'
"""
LITERALS = [part.strip() for line in _LITERALS.strip().splitlines() for part in line.split("|")]
OPERATORS = (
    "v = {0}",
    "{0} = v",
    "v <=> {0}",
    "v <> {0}",
    "v < {0}",
    "{0} <= v",
    "v > {0}",
    "v >= {0}",
    "v IN ({0})",
    "v IN ({0}, {1})",
    "v NOT IN ({0}, {1})",
    "v BETWEEN {0} AND {1}",
    "v NOT BETWEEN {0} AND {1}",
    "v LIKE {0}",
    "v NOT LIKE {0}",
    "(v = {0} OR v <=> {1})",
)
PARAMETERS = ("v = ?", "? = v", "v <=> ?", "v <> ?", "v < ?", "v >= ?", "v LIKE ?", "v NOT LIKE ?", "v BETWEEN ? AND ?")


@pytest.fixture
def cursor(mysql: Server, database: str) -> Iterator[Any]:
    with unconverted_cursor(mysql, database) as made:
        made.execute("SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'")
        yield made


class Column:
    """A table of one column with an index, its rows, and what MySQL and the planner say of conditions on it."""

    def __init__(self, cursor: Any, schema: SchemaSnapshot, database: str, name: str) -> None:
        self.cursor, self.schema, self.database, self.name = cursor, schema, database, name
        table = schema.relations[database, name]
        assert isinstance(table, Table)
        self.table = table
        self.type = table.column("v").type
        exactly = "v + 0e0" if self.type.is_approximate else "v"  # as text a FLOAT has six digits
        cursor.execute(f"SELECT id, {exactly} FROM {name} ORDER BY id")
        self.rows: list[Row] = [(int(id_), self._canonical(value)) for id_, value in cursor.fetchall()]
        self.seen: Counter[str] = Counter()
        self.wrong: list[str] = []

    def _canonical(self, value: Any) -> Value:
        if value is None:
            return None
        return parse_text(self.type)(value if isinstance(value, bytes) else str(value).encode())

    def found(self, condition: str) -> list[set[int]]:
        """The ids that MySQL finds through the index and without it. Raises MySQLError."""
        out = []
        for hint in ("FORCE", "IGNORE"):
            self.cursor.execute(f"SELECT id FROM {self.name} {hint} INDEX (v) WHERE {condition}")
            out.append({int(row[0]) for row in self.cursor.fetchall()})
        return out

    def judge(self, condition: str, query: str, params: Sequence[Value]) -> None:
        """`condition`: as MySQL is asked; `query`: with the parameters of the plan as `?`."""
        try:
            ways = self.found(condition)
        except pymysql.MySQLError:
            self.seen["error"] += 1
            return
        if ways[0] != ways[1]:
            self.seen["two answers"] += 1
        for what in ("id", "COUNT(DISTINCT id)"):
            try:
                plan = plan_query(f"SELECT {what} FROM {self.name} WHERE {query}", self.database, self.schema)
                bound = tuple(convert_parameter(v, p.type) for v, p in zip(params, plan.parameters, strict=True))
                self.compare(plan, bound, condition, ways)
            except BadParameters:
                self.seen["passed"] += 1
            except (UnsupportedQuery, UnknownName):
                self.seen["refused"] += 1
            except EvaluationError:
                self.seen["not computed"] += 1

    def compare(self, plan: QueryPlan, params: Row, condition: str, ways: list[set[int]]) -> None:
        root = plan.reader.root
        if isinstance(root, AnswerArrangement):
            self.seen["held"] += 1
            (input_,) = root.inputs
            for row in self.rows:
                if any(row[0] in way for way in ways):
                    passes = input_.filter is None or self.value(input_.filter, row, params) not in (None, 0)
                    if not passes or not _key_agrees(input_, params, row):
                        self.wrong.append(f"{self.type.name}: {condition} {params}: {row} does not empty the answer")
            return
        self.seen["computed"] += 1
        assert isinstance(root, RowsArrangement)
        mine = {row[0] for row in self.rows if self.passes(plan, root, row, params)}
        if any(mine != way for way in ways):
            self.wrong.append(f"{self.type}: {condition}: computed {mine}, MySQL {ways[0]} and {ways[1]}")

    def passes(self, plan: QueryPlan, root: RowsArrangement, row: Row, params: Row) -> bool:
        for part in (plan.key[at] for at in plan.reader.root_key):
            by = comparison_key(self.type) or (lambda item: item)
            given, held = params[part.parameter], row[1]
            if given is None or held is None:
                if not (part.null_safe and given is held):
                    return False
            elif by(given) != by(held):
                return False
        filters = [expr for expr in (root.filter, plan.reader.filter) if expr is not None]
        return all(self.value(expr, row, params) not in (None, 0) for expr in filters)

    def value(self, expr: Expr, row: Row, params: Row) -> Value:
        def column(ref: ColumnRef) -> Value:
            return row[self.table.column(ref.name).position]

        return evaluate(expr, column, params)


def columns(cursor: Any, mysql: Server, database: str) -> list[Column]:
    names = []
    for kind in (*KINDS, *EXTRA):
        name = f"t_{kind.name}"
        prefix = "(9)" if kind.ddl.startswith(("TEXT", "BLOB")) else ""
        rows = ", ".join(f"({at}, {literal})" for at, literal in enumerate((*kind.literals, "NULL")))
        cursor.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, v {kind.ddl}, KEY v (v{prefix}))")
        cursor.execute(f"INSERT INTO {name} VALUES {rows}")
        names.append(name)
    schema = SchemaSource(parse_upstream(mysql.url)).snapshot_now([(database, name) for name in names])
    return [Column(cursor, schema, database, name) for name in names]


def test_an_index_makes_no_other_comparison_than_is_computed(cursor: Any, mysql: Server, database: str) -> None:
    random = Random(3)
    seen: Counter[str] = Counter()
    wrong: list[str] = []
    for column in columns(cursor, mysql, database):
        column.seen, column.wrong = seen, wrong
        kind = next(kind for kind in (*KINDS, *EXTRA) if column.name == f"t_{kind.name}")
        values = list({repr(value): value for value in (*kind.parameters, *MORE, *FINER)}.values())
        for _ in range(CASES):
            condition = random.choice(OPERATORS).format(random.choice(LITERALS), random.choice(LITERALS))
            column.judge(condition, condition, ())
            query = random.choice(PARAMETERS)
            given = [random.choice(values) for _ in range(query.count("?"))]
            condition = query.replace("?", "{}").format(*(client_literal(value) for value in given))
            column.judge(condition, query, given)
        if kind.family not in ("time", "clock", "bit", "year") and CASES < 100:
            continue
        for value in values:  # each with each type at least once
            column.judge(f"v = {client_literal(value)}", "v = ?", (value,))
        for literal in LITERALS:
            column.judge(f"v = {literal}", f"v = {literal}", ())
    print(seen)
    assert not wrong, f"{len(wrong)}\n" + "\n".join(wrong[:60])
    assert seen["computed"] > 500 and seen["held"] > 500 and seen["passed"] > 200 and seen["two answers"] > 50, seen
