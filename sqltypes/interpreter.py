"""The plain evaluator: walks the tree for every row. Obviously right rather than fast: the oracle of `compile.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqltypes.expression import Call, ColumnRef, Expr, Literal, ParamRef, Value
from sqltypes.implementations import COMPARE, comparison_key, implementation

Columns = Callable[[ColumnRef], Value]


def evaluate(expr: Expr, columns: Columns, params: Sequence[Value] = ()) -> Value:
    """The value of the expression, canonical for its type. Raises EvaluationError where MySQL's value is not known."""
    match expr:
        case Literal():
            return expr.value
        case ColumnRef():
            return columns(expr)
        case ParamRef():
            return params[expr.index]
    special = _SPECIAL.get(expr.op)
    if special is not None:
        return special(expr, lambda arg: evaluate(arg, columns, params))
    values = _present(expr.args, lambda arg: evaluate(arg, columns, params))
    return None if values is None else implementation(expr)(*values)


Evaluate = Callable[[Expr], Any]


def _present(args: Sequence[Expr], value: Evaluate) -> list[Any] | None:
    """The arguments' values; None at the first that is NULL: what follows is not evaluated."""
    found = []
    for arg in args:
        item = value(arg)
        if item is None:
            return None
        found.append(item)
    return found


def _compare(expr: Call, value: Evaluate) -> int | None:
    if expr.op == "<=>":
        left, right = (value(arg) for arg in expr.args)
        if left is None or right is None:
            return int(left is right)
        return int(_compared("=", expr.args[0], left, right))
    values = _present(expr.args, value)
    return None if values is None else int(_compared(expr.op, expr.args[0], *values))


def _compared(op: str, side: Expr, left: Any, right: Any) -> bool:
    key = comparison_key(side.type, ordered=op not in ("=", "<=>", "<>"))
    return COMPARE[op](left, right) if key is None else COMPARE[op](key(left), key(right))


def _in(expr: Call, value: Evaluate) -> int | None:
    needle = value(expr.args[0])
    if needle is None:
        return None
    unknown = False
    for arg in expr.args[1:]:
        item = value(arg)
        if item is None:
            unknown = True
        elif _compared("=", expr.args[0], needle, item):
            return 1
    return None if unknown else 0


def _and(expr: Call, value: Evaluate) -> int | None:
    result: int | None = 1
    for arg in expr.args:
        found = value(arg)
        if found is None:
            result = None
        elif not found:
            return 0
    return result


def _or(expr: Call, value: Evaluate) -> int | None:
    result: int | None = 0
    for arg in expr.args:
        found = value(arg)
        if found is None:
            result = None
        elif found:
            return 1
    return result


def _xor(expr: Call, value: Evaluate) -> int | None:
    values = _present(expr.args, value)
    return None if values is None else int(bool(values[0]) != bool(values[1]))


def _not(expr: Call, value: Evaluate) -> int | None:
    found = value(expr.args[0])
    return None if found is None else int(not found)


def _is_null(expr: Call, value: Evaluate) -> int:
    return int(value(expr.args[0]) is None)


def _is_true(expr: Call, value: Evaluate) -> int:
    return int(bool(value(expr.args[0])))


def _is_false(expr: Call, value: Evaluate) -> int:
    found = value(expr.args[0])
    return int(found is not None and not found)


def _case(expr: Call, value: Evaluate) -> Value:
    for condition, result in zip(expr.args[:-1:2], expr.args[1:-1:2], strict=True):
        if value(condition):
            return value(result)  # type: ignore[no-any-return]  # Value is a union with object
    return value(expr.args[-1])  # type: ignore[no-any-return]


def _coalesce(expr: Call, value: Evaluate) -> Value:
    for arg in expr.args:
        found = value(arg)
        if found is not None:
            return found  # type: ignore[no-any-return]
    return None


_SPECIAL: dict[str, Callable[[Call, Evaluate], Value]] = {
    **dict.fromkeys(COMPARE, _compare),
    "in": _in,
    "and": _and,
    "or": _or,
    "xor": _xor,
    "not": _not,
    "is_null": _is_null,
    "is_true": _is_true,
    "is_false": _is_false,
    "case": _case,
    "coalesce": _coalesce,
}
