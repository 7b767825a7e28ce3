"""The model source's tables, and an SQL engine that is not ours to answer from them: SQLite, with the SQL transpiled
by sqlglot."""

from __future__ import annotations

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

Rows = Mapping[str, Mapping[int, Row]]  # all tables' rows by primary key


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


class State:
    """The tables' content at one moment."""

    def __init__(self, rows: Rows | None = None) -> None:
        self.rows: dict[str, dict[int, Row]] = {name: {} for name in TABLES}
        self._db = sqlite3.connect(":memory:", isolation_level=None)
        for made in TABLES.values():
            columns = ", ".join(
                f"{column.name} TEXT COLLATE NOCASE" if column.type.is_string else column.name
                for column in made.columns
            )
            self._db.execute(f"CREATE TABLE {made.name} ({columns}, PRIMARY KEY ({made.primary_key[0]}))")
        for name, held in (rows or {}).items():
            self.replace(name, list(held.values()))

    def close(self) -> None:
        self._db.close()

    def apply(self, name: str, pairs: Iterable[Pair]) -> None:
        for before, after in pairs:
            if before is not None:
                self._db.execute(f"DELETE FROM {name} WHERE id = ?", (before[0],))
                del self.rows[name][number_of(before)]
            if after is not None:
                self._insert(name, after)

    def _insert(self, name: str, row: Row) -> None:
        self._db.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(row))})", row)
        self.rows[name][number_of(row)] = row

    def replace(self, name: str, rows: Iterable[Row]) -> None:
        """The table holds these rows and no others: TRUNCATE, or a table of that name that was swapped in."""
        self._db.execute(f"DELETE FROM {name}")
        self.rows[name].clear()
        for row in rows:
            self._insert(name, row)

    def copy(self) -> Rows:
        return {name: dict(rows) for name, rows in self.rows.items()}

    def query(self, sql: str, types: Sequence[SqlType]) -> list[Row]:
        """The rows of a MySQL SELECT, in the canonical forms of the types."""
        return [canonical(row, types) for row in self._db.execute(transpiled(sql))]

    def spellings(self) -> set[Value]:
        """All strings that a row holds."""
        return {
            value for rows in self.rows.values() for row in rows.values() for value in row if isinstance(value, str)
        }


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


@lru_cache(maxsize=100_000)
def transpiled(sql: str) -> str:
    """MySQL's text in SQLite's dialect: no databases, no row constructors in IN."""
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
