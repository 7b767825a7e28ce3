"""Comparisons of two values, and those of one with several: BETWEEN, IN and CASE x WHEN.

MySQL takes one collation, one time or one number format for all values of an IN or CASE; comparing pair by pair may
give another result. Raises UnsupportedQuery as `functions.call`.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqltypes.collation import key_function, require, sort_key
from sqltypes.comparison import (
    aligned,
    as_double,
    constant,
    domain,
    one_collation,
    place,
    refuse_large,
    refuse_short_years,
    refuse_tolerance,
)
from sqltypes.errors import EvaluationError, UnsupportedQuery
from sqltypes.expression import Call, Expr, Literal, ParamRef
from sqltypes.schema import BIGINT, SqlType

COMPARISONS = frozenset({"=", "<=>", "<>", "<", "<=", ">", ">="})

Args = tuple[Expr, ...]


def any_nullable(args: Sequence[Expr]) -> bool:
    """Whether a strict function of these may be NULL."""
    return any([arg.nullable for arg in args])


def compare(op: str, args: Args) -> Call:
    """One of COMPARISONS."""
    _refuse_chosen_dates(args)
    refuse_tolerance(*args)
    left, right = aligned(*args)
    for side in (left, right):  # one may be a bare NULL
        if side.type.is_string:
            require(side.type.collation)
            _require_weights(side, ordered=op not in ("=", "<=>", "<>"))
    return Call(op, (left, right), BIGINT, op != "<=>" and any_nullable((left, right)))


def _refuse_chosen_dates(args: Args) -> None:
    """Refuses a date with a zero in it that COALESCE, IF, CASE or their kind gives: it may be NULL, or not, in the
    comparison around it."""
    for arg in args:
        while isinstance(arg, Call) and arg.op in ("widen", "cast"):
            (arg,) = arg.args
        if isinstance(arg, Call) and arg.op in ("case", "coalesce") and domain(arg.type) == "datetime":
            raise UnsupportedQuery("function", f"a {arg.type.name.upper()} of {arg.op.upper()} is compared")


def _require_weights(side: Expr, ordered: bool) -> None:
    """Raises UnsupportedQuery for a literal whose comparison is not proven: nothing could ever be compared with it."""
    if isinstance(side, Literal) and side.value is not None:
        key = sort_key(side.type.collation) if ordered else key_function(side.type.collation)
        try:
            key(str(side.value))
        except EvaluationError as error:
            raise UnsupportedQuery("collation", str(error), place(side)) from error


def between(op: str, args: Args) -> Call:
    """BETWEEN, as two comparisons."""
    value, low, high = _as_one(args)
    if len({arg.type.name for arg in args if domain(arg.type) == "datetime" and not constant(arg)}) > 1:
        raise UnsupportedQuery("comparison_type", "BETWEEN over DATE and DATETIME, where a date may have a zero in it")
    _refuse_several_collations("BETWEEN", args, value)
    return _logic("and", (compare(">=", (value, low)), compare("<=", (value, high))))


def _logic(op: str, conditions: Args) -> Call:
    return Call(op, conditions, BIGINT, any_nullable(conditions))


def _as_one(args: Args) -> Args:
    """The operands of BETWEEN and IN, where MySQL takes one type and one collation for all of them."""
    if _domains(args) == {"exact", "double"}:
        for arg in args[1:]:
            refuse_short_years(args[0], arg)
        refuse_tolerance(*args)
        refuse_large([arg for arg in args if arg.type.name != "null"])
        return tuple(arg if arg.type.name == "null" else as_double(arg) for arg in args)
    return _in_one_collation(args)


def _domains(args: Sequence[Expr]) -> set[str]:
    return {domain(arg.type) for arg in args if arg.type.name != "null"}


def _in_one_collation(args: Args) -> Args:
    """The same, where all are strings or NULL in the one collation of them all."""
    if _domains(args) != {"string"}:
        return args
    strings = iter(one_collation([arg for arg in args if arg.type.name != "null"]))
    return tuple(arg if arg.type.name == "null" else next(strings) for arg in args)


def is_one_of(op: str, args: Args) -> Call:
    """IN: the needle, then the list."""
    args = _as_one(args)
    equalities = [compare("=", (args[0], item)) for item in args[1:]]
    if len(equalities) == 1:
        return equalities[0]
    _refuse_several_kinds(args[0], args[1:])
    for item in args[1:]:
        _refuse_mixed_signs("IN", args[0], item)
    if not all(map(constant, args[1:])):
        _refuse_unknown_signs("IN", args)
    needle = equalities[0].args[0]
    if any(equality.args[0] != needle for equality in equalities):
        return _logic("or", tuple(equalities))
    items = tuple(equality.args[1] for equality in equalities)
    return Call("in", (needle, *items), BIGINT, any_nullable((needle, *items)))


def whens(subject: Expr, values: Sequence[Expr]) -> list[Call]:
    """The conditions of CASE subject WHEN value ...: numbers are compared pair by pair, strings in one collation,
    dates as dates only if the subject is one."""
    if domain(subject.type) == "string" and _domains(values) & {"datetime", "time"}:
        raise UnsupportedQuery("comparison_type", "CASE of a string WHEN a date or time")
    _refuse_several_kinds(subject, values)
    for value in values:
        _refuse_mixed_signs("CASE", subject, value)
    _refuse_unknown_signs("CASE", (subject, *values))
    one, *others = _in_one_collation((subject, *values))
    _refuse_several_collations("CASE", (subject, *values), one)
    return [compare("=", (one, value)) for value in others]


def _refuse_several_collations(what: str, args: Sequence[Expr], one: Expr) -> None:
    """It is written as a comparison of the first with each other, of which MySQL must make each as it makes that of
    all. `one`: the first, in the collation of them all."""
    if not one.type.is_string:
        return
    for other in args[1:]:
        if other.type.name != "null" and aligned(args[0], other)[0].type.collation != one.type.collation:
            raise UnsupportedQuery("collation", f"{what} over strings of several collations")


def _refuse_several_kinds(needle: Expr, items: Sequence[Expr]) -> None:
    """Beside bytes MySQL compares all strings as bytes, beside a date all as dates."""
    if domain(needle.type) == "string" and len(_domains(items)) > 1:
        raise UnsupportedQuery("comparison_type", "a string is compared with values of several kinds at once")


def _refuse_mixed_signs(what: str, needle: Expr, item: Expr) -> None:
    """MySQL compares the 64 bits of integers, so that 2^63 is found to be -2^63."""
    for unsigned, other in ((needle, item), (item, needle)):
        harmless = isinstance(other, Literal) and isinstance(other.value, int) and other.value >= 0
        if _beyond_signed(unsigned) and other.type.is_integer and not _never_negative(other.type) and not harmless:
            raise UnsupportedQuery("comparison_type", f"{what} over BIGINT UNSIGNED or BIT and signed integers")


def _refuse_unknown_signs(what: str, args: Args) -> None:
    """What is bound may be of either sign. Constants alone IN looks up with their signs."""
    if any(isinstance(arg, ParamRef) and (arg.type.is_integer or arg.type.name == "bit") for arg in args):
        raise UnsupportedQuery("comparison_type", f"{what} over integers and a parameter, whose sign is not known")


def _beyond_signed(expr: Expr) -> bool:
    """Whether it may be an integer from 2^63 on."""
    type_ = expr.type
    if isinstance(expr, Literal):
        return type_.unsigned
    return (type_.name == "bit" and (type_.length or 64) == 64) or (type_.name == "bigint" and type_.unsigned)


def _never_negative(type_: SqlType) -> bool:
    return type_.unsigned or type_.name == "year"
