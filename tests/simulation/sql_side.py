"""The model source's tables, and an SQL engine that is not ours to answer from them: SQLite, with the SQL transpiled
by sqlglot."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from decimal import Decimal
from functools import lru_cache

import sqlglot
from sqlglot import exp

from dataflow.messages import Pair
from sqltypes.expression import Row, Value
from sqltypes.schema import Column, SqlType, Table

DATABASE = "sim"
INT = SqlType("int")


def table(name: str, *columns: str) -> Table:
    """A table of INT columns; the first is the primary key, the others may be NULL."""
    made = tuple(Column(column, INT, at > 0, at) for at, column in enumerate(columns))
    return Table(DATABASE, name, made, primary_key=(columns[0],), indexes=((columns[0],),), rows_estimate=100)


TABLES = {
    "a": table("a", "id", "k", "j", "f", "v"),
    "b": table("b", "id", "j", "w"),
}


class State:
    """The tables' content at one moment."""

    def __init__(self) -> None:
        self._db = sqlite3.connect(":memory:", isolation_level=None)
        for made in TABLES.values():
            columns = ", ".join(column.name for column in made.columns)
            self._db.execute(f"CREATE TABLE {made.name} ({columns}, PRIMARY KEY ({made.primary_key[0]}))")

    def close(self) -> None:
        self._db.close()

    def apply(self, name: str, pairs: Iterable[Pair]) -> None:
        for before, after in pairs:
            if before is not None:
                self._db.execute(f"DELETE FROM {name} WHERE id = ?", (before[0],))
            if after is not None:
                self._db.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(after))})", after)

    def truncate(self, name: str) -> None:
        self._db.execute(f"DELETE FROM {name}")

    def rows(self, name: str) -> list[Row]:
        return list(self._db.execute(f"SELECT * FROM {name} ORDER BY id"))

    def query(self, sql: str, types: Sequence[SqlType]) -> list[Row]:
        """The rows of a MySQL SELECT, in the canonical forms of the types."""
        return [canonical(row, types) for row in self._db.execute(transpiled(sql))]


def canonical(row: Row, types: Sequence[SqlType]) -> Row:
    return tuple(_canonical(value, type_) for value, type_ in zip(row, types, strict=True))


def _canonical(value: Value, type_: SqlType) -> Value:
    if value is not None and type_.name == "decimal":
        return Decimal(str(value)).quantize(Decimal(1).scaleb(-(type_.scale or 0)))
    return value


@lru_cache(maxsize=50_000)
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
    return node
