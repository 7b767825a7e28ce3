"""Nodes of expressions with MySQL's types: literals, parameters, columns, conditions. Operators and functions:
`functions.call`.

A call that the planner makes:

    call("and", [call("=", [column("o", table, "id"), parameter(0)]),
                 call(">", [column("o", table, "total"), literal(Decimal("9.50"))])])
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from sqltypes.casts import cast_call
from sqltypes.errors import UnsupportedQuery
from sqltypes.expression import Call, ColumnRef, Expr, Literal, ParamRef
from sqltypes.functions import call
from sqltypes.schema import BIGINT, BIGINT_UNSIGNED, DOUBLE, NULL, SqlType, Table

CONNECTION_COLLATION = "utf8mb4_0900_ai_ci"  # of string literals: utf8mb4's default in MySQL 8 and later


def literal(value: bool | int | Decimal | float | str | bytes | None, collation: str = CONNECTION_COLLATION) -> Literal:
    """A literal as MySQL types it. `collation`: that of the connection (or of the literal's COLLATE).

    1.5 in SQL is a Decimal, 1.5e0 a float. Integers beyond 64 bits are DECIMALs, as in MySQL.
    """
    match value:
        case None:
            return Literal(None, NULL)
        case bool():
            return Literal(int(value), BIGINT)
        case int() if -(2**63) <= value < 2**63:
            return Literal(value, BIGINT)
        case int() if 0 <= value < 2**64:
            return Literal(value, BIGINT_UNSIGNED)
        case int():
            return _decimal(Decimal(value))
        case Decimal():
            return _decimal(value)
        case float():
            return Literal(value, DOUBLE)
        case str():
            return Literal(value, SqlType("varchar", length=len(value), collation=collation))
        case bytes():
            return Literal(value, SqlType("varbinary", length=len(value)))


def _decimal(value: Decimal) -> Literal:
    _, digits, exponent = value.as_tuple()
    scale = max(0, -int(exponent))
    precision = max(len(digits) + max(0, int(exponent)), scale + 1)
    if precision > 65 or scale > 30:
        raise UnsupportedQuery("decimal_scale", "a number with more digits than a DECIMAL has", str(value))
    return Literal(value, SqlType("decimal", precision=precision, scale=scale))


def parameter(index: int, type_: SqlType = NULL) -> ParamRef:
    """A parameter. Without a type it takes that of what it is compared with (`functions.call`)."""
    return ParamRef(index, type_)


def column(source: str, table: Table, name: str, outer: bool = False) -> ColumnRef:
    """A column of a table under the alias `source`; `outer`: on the inner side of an outer join, so NULL is
    possible.
    """
    found = table.column(name)
    return ColumnRef(source, found.name, found.type, found.nullable or outer)


def cast(arg: Expr, target: SqlType) -> Expr:
    """CAST(arg AS target): see `casts.cast_call`."""
    return cast_call(arg, target)


def conjunction(conditions: Sequence[Expr]) -> Expr | None:
    """All conditions by AND, flat; None for none."""
    flat: list[Expr] = []
    for condition in conditions:
        flat.extend(conjuncts(condition))
    return call("and", flat) if flat else None


def conjuncts(condition: Expr) -> list[Expr]:
    """The parts of a condition that AND joins."""
    if isinstance(condition, Call) and condition.op == "and":
        return [part for arg in condition.args for part in conjuncts(arg)]
    return [condition]
