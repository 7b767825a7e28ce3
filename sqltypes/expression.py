"""Typed scalar expressions: what the planner builds and the engine evaluates.

Columns are named here (source alias and column name); positions are assigned where a graph is built
(`dataflow/graph/build.py`). Nodes are immutable and hashable, so equal expressions are equal nodes and graphs can be
shared.

`build.py` of this package makes nodes with MySQL's result types. `interpreter.py` is the plain evaluator, the oracle
for the compiled form of `compile.py`.

Logic is three-valued: None is NULL (UNKNOWN). Comparisons give the ints 1 and 0, as in MySQL.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from sqltypes.schema import SqlType

Value = (
    None | int | float | str | bytes | object
)  # one of the canonical forms of sqltypes.schema; Decimal is the `object`
Row = tuple[Value, ...]
Key = Hashable  # canonical comparison key: a scalar for one part, a tuple for several


@dataclass(frozen=True, slots=True)
class Literal:
    value: Value
    type: SqlType

    @property
    def nullable(self) -> bool:
        return self.value is None


@dataclass(frozen=True, slots=True)
class ColumnRef:
    """A column of `source`: an alias that is unique within the plan."""

    source: str
    name: str
    type: SqlType
    nullable: bool


@dataclass(frozen=True, slots=True)
class ParamRef:
    """A parameter of the query, by its index from 0."""

    index: int
    type: SqlType
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class Call:
    """An operator or function. `op` is one of the names in `sqltypes/functions.py`.

    Operators: "=", "<=>", "<>", "<", "<=", ">", ">=", "and", "or", "xor", "not", "is_null", "is_true", "is_false",
    "+", "-", "*", "/",
    "div", "%", "neg", "in" (needle, then the list), "between" (x, low, high), "like". CASE is "case": (condition,
    value)*, otherwise;
    simple CASE x WHEN y is rewritten to it. CAST is "cast": the target is `type`. Functions by their lower-case MySQL
    name.
    """

    op: str
    args: tuple[Expr, ...]
    type: SqlType
    nullable: bool


Expr = Literal | ColumnRef | ParamRef | Call


def walk(expr: Expr) -> list[Expr]:
    """The node and all below it, parents first."""
    found: list[Expr] = []
    ahead = [expr]
    while ahead:
        node = ahead.pop()
        found.append(node)
        if isinstance(node, Call):
            ahead += reversed(node.args)
    return found


def columns_of(expr: Expr) -> frozenset[ColumnRef]:
    """All columns that the expression reads."""
    if isinstance(expr, ColumnRef):
        return frozenset((expr,))
    return frozenset([node for node in walk(expr) if isinstance(node, ColumnRef)])


def sources_of(expr: Expr) -> frozenset[str]:
    """The aliases of all inputs that the expression reads."""
    return frozenset([column.source for column in columns_of(expr)])
