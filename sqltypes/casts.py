"""CAST, where MySQL's conversion is exact, and the widening that CASE and its kind do."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal

from sqltypes.arithmetic import UNSIGNED_MAX, decimal_fit, decimal_round_to_int, out_of_range, signed
from sqltypes.errors import EvaluationError, UnsupportedQuery
from sqltypes.expression import Call, Expr, Literal, ParamRef, Value, walk
from sqltypes.schema import DOUBLE, SqlType
from sqltypes.temporal import as_datetime, datetime_text, parse_datetime, time_text

Convert = Callable[..., Value]


def cast_call(arg: Expr, target: SqlType) -> Expr:
    """CAST(arg AS target): BIGINT [UNSIGNED], DECIMAL(p,s), DOUBLE, VARCHAR (CHAR), DATE or DATETIME(n).

    Raises UnsupportedQuery where the conversion is not reproduced.
    """
    if arg.type.name == "null" and isinstance(arg, ParamRef):
        return replace(arg, type=target)
    if arg.type.name == "null":
        return Literal(None, target)
    if isinstance(arg, Literal) and arg.type.is_string and target.name in ("date", "datetime"):
        return _temporal_literal(str(arg.value), target)
    if target.is_string and isinstance(arg, Call) and arg.op == "case" and scale_varies(arg):
        raise UnsupportedQuery("function", "CAST AS CHAR of a DECIMAL whose scale varies from row to row")
    if target.is_string and any(part.type.zerofill for part in walk(arg)):
        raise UnsupportedQuery("function", "CAST AS CHAR of a number that is filled with zeros")
    if target.is_string and arg.type.name != "year" and any(part.type.name == "year" for part in walk(arg)):
        raise UnsupportedQuery("function", "CAST AS CHAR of what is computed from a YEAR, whose 0 may be 0000")
    conversion(arg.type, target)
    return Call("cast", (arg,), target, arg.nullable or target.name in ("date", "datetime"))


def _temporal_literal(text: str, target: SqlType) -> Literal:
    parsed = parse_datetime(text)
    value = None if parsed is None else datetime_text(parsed, target)
    if value is None:
        raise UnsupportedQuery("function", f"CAST of this string AS {target.name.upper()}", repr(text))
    return Literal(value, target)


def converted(arg: Expr, target: SqlType) -> Expr:
    """The number in a common numeric type of several results, exactly. A change of scale is the op "widen"."""
    if arg.type.name == "null" or (arg.type.name, arg.type.scale) == (target.name, target.scale):
        return arg
    if target.is_integer or arg.type.is_approximate:
        return arg
    if isinstance(arg, Literal):
        try:
            widened = Literal(None if arg.value is None else conversion(arg.type, target)(arg.value), target)
        except EvaluationError as error:
            raise UnsupportedQuery("function", str(error), str(arg.value)) from error
        return widened if target.is_approximate else Call("widen", (widened,), target, arg.nullable)
    return Call("cast" if target.is_approximate else "widen", (arg,), target, arg.nullable)


def scale_varies(expr: Expr) -> bool:
    """Whether MySQL computes the DECIMAL with the scale of whichever result was chosen, not with that of the type.

    Such a value is given with the type's scale here. MySQL may print it with fewer zeros, depending on its plan.
    """
    if not isinstance(expr, Call) or expr.type.name != "decimal" or expr.op == "cast":
        return False
    results: Sequence[Expr] = expr.args
    if expr.op == "case":
        results = (*expr.args[1:-1:2], expr.args[-1])
    if any(isinstance(arg, Call) and arg.op == "widen" for arg in results):
        return True
    return any(scale_varies(arg) for arg in results)


def conversion(source: SqlType, target: SqlType) -> Convert:
    """The function that casts a value that is not NULL. Raises UnsupportedQuery, at the time of planning."""
    integer = source.is_integer or source.name == "bit"
    exact = integer or source.name == "decimal"
    match target.name:
        case "bigint" if exact:
            return _to_unsigned if target.unsigned else _to_signed
        case "decimal" if exact:
            precision, scale = target.precision or 10, target.scale or 0
            return lambda value: decimal_fit(value, precision, scale)
        case "double" if exact:
            return float
        case "double" if source.is_approximate:
            return _identity
        case "varchar" | "char" if target.collation and target.length is None:
            return _to_text(source, target)
        case "date" if source.name == "date":
            return lambda value: None if _incomplete(value) or _no_day(value) else value
        case "date" if source.name in ("datetime", "timestamp"):  # of which MySQL leaves days of no calendar alone
            return lambda value: None if _incomplete(value) else value[:10]
        case "datetime" if source.name in ("date", "datetime", "timestamp"):
            scale = target.scale or 0
            if (source.scale or 0) <= scale:
                return lambda value: None if _incomplete(value) else as_datetime(value, scale)
    raise UnsupportedQuery("function", f"CAST of {source.name.upper()} AS {target.name.upper()} is not reproduced")


def _to_text(source: SqlType, target: SqlType) -> Convert:
    if source.is_integer and source.name != "year":
        return str
    if source.name == "decimal":
        return lambda value: format(value, "f")
    if source.name in ("date", "datetime", "timestamp"):
        return _identity
    if source.is_string and source.collation == target.collation:
        return _identity
    if source.name == "time":
        scale = source.scale or 0
        return lambda value: time_text(value, scale)
    raise UnsupportedQuery("function", f"CAST of {source.name.upper()} AS CHAR is not reproduced")


def _identity(value: Value) -> Value:
    return value


def _incomplete(value: str) -> bool:
    """Whether CAST makes NULL of the date, as it does under NO_ZERO_DATE and NO_ZERO_IN_DATE, MySQL's default."""
    return value[5:7] == "00" or value[8:10] == "00"


def _no_day(value: str) -> bool:
    """Whether no calendar has the day: a session with ALLOW_INVALID_DATES may have stored 2024-02-31."""
    day = value[8:10]
    return day >= "29" and int(day) > monthrange(int(value[:4]) or 1, int(value[5:7]))[1]


def no_zero(value: str | int) -> str | int:
    """The date, if it has no zero in it and is one of the calendar's; the YEAR, if it is not zero."""
    if _incomplete(value) or _no_day(value) if isinstance(value, str) else value == 0:
        raise EvaluationError(f"MySQL may make another date of {value}, or show it otherwise, as its plan is")
    return value


def no_partial(value: str) -> str:
    """The date, if it is a whole one of the calendar's, or 0000-00-00."""
    if not value.startswith("0000-00-00"):
        no_zero(value)
    return value


def _to_signed(value: int | Decimal) -> int:
    """An unsigned value above the signed range wraps, as in MySQL; a decimal outside of it would be cut with a
    warning.
    """
    if isinstance(value, int):
        return value if value < 2**63 else value - 2**64
    return signed(decimal_round_to_int(value))


def _to_unsigned(value: int | Decimal) -> int:
    if isinstance(value, int):
        return value if value >= 0 else value + 2**64
    rounded = decimal_round_to_int(value)
    if not 0 <= rounded <= UNSIGNED_MAX:
        out_of_range("BIGINT UNSIGNED")
    return rounded


__all__ = ["DOUBLE", "cast_call", "conversion", "converted", "no_partial", "no_zero"]
