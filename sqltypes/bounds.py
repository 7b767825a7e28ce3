"""The bounds that a condition gives to single columns: at least this, at most that.

Python compares a column and its bound as the condition does (`sqltypes.compile`): neither is a string, and both are of
one kind. A condition that may raise an error for some row gives no bounds, because the bounds could leave out that row.
"""

from __future__ import annotations

from typing import NamedTuple

from sqltypes.expression import Call, ColumnRef, Expr, Literal, ParamRef
from sqltypes.functions import COMPARISONS
from sqltypes.implementations import comparison_key
from sqltypes.schema import INTEGER_TYPES, SqlType

LOWER, UPPER = frozenset({">", ">=", "="}), frozenset({"<", "<=", "="})
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}
_PLAIN = COMPARISONS | {"and", "or", "not", "in", "is_null", "is_true", "is_false"}
_EXACT = INTEGER_TYPES | {"decimal"}


class Bound(NamedTuple):
    """`column` `op` `to`, of a row that passes."""

    column: ColumnRef
    op: str
    to: Literal | ParamRef


def bounds_of(condition: Expr | None) -> list[Bound]:
    """All that are certain."""
    parts = _conjuncts(condition) if condition is not None else []
    if not all(map(_is_plain, parts)):
        return []
    return [bound for part in parts if (bound := _bound_of(part)) is not None]


def _conjuncts(expr: Expr) -> list[Expr]:
    if isinstance(expr, Call) and expr.op == "and":
        return [part for arg in expr.args for part in _conjuncts(arg)]
    return [expr]


def _is_plain(expr: Expr) -> bool:
    """Whether no row can make it raise."""
    return not isinstance(expr, Call) or (expr.op in _PLAIN and all(map(_is_plain, expr.args)))


def _bound_of(expr: Expr) -> Bound | None:
    if not isinstance(expr, Call) or expr.op not in _TURNED:
        return None
    left, right = expr.args
    return _bound(left, expr.op, right) or _bound(right, _TURNED[expr.op], left)


def _bound(column: Expr, op: str, to: Expr) -> Bound | None:
    if isinstance(column, ColumnRef) and isinstance(to, ParamRef | Literal) and _compare_alike(column.type, to.type):
        return Bound(column, op, to)
    return None


def _compare_alike(one: SqlType, other: SqlType) -> bool:
    if comparison_key(one, ordered=True) is not None or comparison_key(other, ordered=True) is not None:
        return False
    return one.name == other.name or (one.name in _EXACT and other.name in _EXACT)
