"""The model source's tables, and an SQL engine that is not ours to answer from them: SQLite, with the SQL transpiled
by sqlglot."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache

import sqlglot
from sqlglot import exp

from dataflow.messages import Pair
from sqltypes.expression import Row, Value
from sqltypes.schema import Column, SqlType, Table

DATABASE = "sim"
INT = SqlType("int")
TEXT = SqlType("varchar", length=10, collation="utf8mb4_0900_ai_ci")  # of ASCII letters it is SQLite's NOCASE

Rows = dict[str, dict[int, Row]]  # all tables' rows by primary key


def table(name: str, **columns: SqlType) -> Table:
    """The first column is the primary key, the others may be NULL."""
    made = tuple(Column(column, type_, at > 0, at) for at, (column, type_) in enumerate(columns.items()))
    key = (made[0].name,)
    return Table(DATABASE, name, made, primary_key=key, indexes=(key,), rows_estimate=100)


TABLES = {
    "a": table("a", id=INT, k=INT, j=INT, f=INT, v=INT),
    "b": table("b", id=INT, j=INT, w=INT),
    "n": table("n", id=INT, s=TEXT, v=INT),
}


_PUT = {name: f"INSERT OR REPLACE INTO {name} VALUES ({', '.join('?' * len(TABLES[name].columns))})" for name in TABLES}
_REMOVE = {name: f"DELETE FROM {name} WHERE id = ?" for name in TABLES}


class State:
    """The tables' content at one moment. What was asked since the last change is not asked SQLite again."""

    def __init__(self, rows: Rows | None = None) -> None:
        self.rows: dict[str, dict[int, Row]] = {name: {} for name in TABLES}
        self._answers: dict[str, list[Row]] = {}
        self._db = sqlite3.connect(":memory:", isolation_level=None)
        for made in TABLES.values():
            columns = ", ".join(
                f"{column.name} TEXT COLLATE NOCASE" if column.type.is_string else column.name
                for column in made.columns
            )
            self._db.execute(f"CREATE TABLE {made.name} ({columns}, PRIMARY KEY ({made.primary_key[0]}))")
        if rows is not None:
            self.become(rows)

    def close(self) -> None:
        self._db.close()

    def apply(self, name: str, pairs: Iterable[Pair]) -> None:
        for before, after in pairs:
            if before is not None and (after is None or after[0] != before[0]):
                self._remove(name, number_of(before))
            if after is not None:
                self._put(name, after)

    def _put(self, name: str, row: Row) -> None:
        self._answers.clear()
        self._db.execute(_PUT[name], row)
        self.rows[name][number_of(row)] = row

    def _remove(self, name: str, number: int) -> None:
        self._answers.clear()
        self._db.execute(_REMOVE[name], (number,))
        del self.rows[name][number]

    def replace(self, name: str, rows: Mapping[int, Row]) -> None:
        """The table holds these rows and no others: TRUNCATE, or a table of that name that was swapped in."""
        held = self.rows[name]
        for number in [number for number in held if number not in rows]:
            self._remove(name, number)
        for number, row in rows.items():
            if held.get(number) != row:
                self._put(name, row)

    def become(self, rows: Rows) -> None:
        """All tables hold these rows and no others."""
        for name in TABLES:
            self.replace(name, rows[name])

    def copy(self) -> Rows:
        return {name: dict(rows) for name, rows in self.rows.items()}

    def query(self, sql: str, types: Sequence[SqlType]) -> list[Row]:
        """The rows of a MySQL SELECT, in the canonical forms of the types: a list of the caller's own."""
        found = self._answers.get(sql)
        if found is None:
            rows: list[Row] = self._db.execute(transpiled(sql)).fetchall()
            if any(type_.name == "decimal" for type_ in types):
                rows = [canonical(row, types) for row in rows]
            found = self._answers[sql] = rows
        return list(found)


def number_of(row: Row) -> int:
    number = row[0]
    assert isinstance(number, int)
    return number


def canonical(row: Row, types: Sequence[SqlType]) -> Row:
    return tuple(_canonical(value, type_) for value, type_ in zip(row, types, strict=True))


def _canonical(value: Value, type_: SqlType) -> Value:
    if value is not None and type_.name == "decimal":
        return Decimal(str(value)).quantize(Decimal(1).scaleb(-(type_.scale or 0)))
    return value


_NUMBER = re.compile(r"\b\d+\b")
_SENTINEL = re.compile(r"\b9\d{6}\b")


@lru_cache(maxsize=100_000)
def transpiled(sql: str) -> str:
    """MySQL's text in SQLite's dialect: no databases, no row constructors in IN.

    Texts that differ in their numbers only are taken apart once.
    """
    numbers = _NUMBER.findall(sql)
    places = iter(range(len(numbers)))
    shape = _shape(_NUMBER.sub(lambda _: str(9_000_000 + next(places)), sql))
    return _SENTINEL.sub(lambda found: numbers[int(found[0]) - 9_000_000], shape)


@lru_cache(maxsize=10_000)
def _shape(sql: str) -> str:
    tree = sqlglot.parse_one(sql, read="mysql").transform(_for_sqlite)
    return tree.sql(dialect="sqlite")


def _for_sqlite(node: exp.Expression) -> exp.Expression:
    if isinstance(node, exp.Table):
        node.set("db", None)
    if isinstance(node, exp.Column):
        node.set("db", None)
    if isinstance(node, exp.In) and isinstance(node.this, exp.Tuple) and node.expressions:
        values = exp.Values(expressions=[item.copy() for item in node.expressions])
        return exp.In(this=node.this.copy(), query=values)
    if isinstance(node, exp.SetOperation):
        for side in (node.this, node.expression):
            if isinstance(side, exp.Subquery):  # SQLite takes no brackets there
                side.replace(exp.select("*").from_(side.copy()))
    return node
