"""The type in which MySQL compares two expressions, and both sides converted to it.

`aligned(a, b)` gives both sides in one domain, so that plain Python comparison (for strings: of their collation keys)
is MySQL's:

| domain | when | how |
| --- | --- | --- |
| exact | integers, BIT, YEAR, DECIMAL among themselves | Python compares int and Decimal exactly, as MySQL does |
| double | one side DOUBLE or FLOAT, the other any number | both as DOUBLE |
| string | both strings | one collation for both, by coercibility |
| binary | one side a binary string, the other one too, or a literal or parameter | bytes |
| datetime | DATE, DATETIME, TIMESTAMP among themselves or with a constant string | `temporal.comparable` text |
| time | TIME with TIME or with a constant string | microseconds |

All else (numbers with strings, JSON, geometry, vectors, mixed collations without a winner) is refused: MySQL would go
through a double, or its rules are not reproduced. Sessions are taken to be in UTC.

It also refuses comparisons that differ with and without an index, because MySQL chooses: a constant with more
fractional digits than the date-time beside it, which an index rounds; large integers beside DOUBLE; strings of two
collations of which only one pads with spaces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqltypes.collation import character_set, encodes, pads
from sqltypes.errors import UnsupportedQuery
from sqltypes.expression import Call, ColumnRef, Expr, Literal, ParamRef
from sqltypes.schema import DOUBLE, SqlType
from sqltypes.temporal import as_datetime, fraction_digits, parse_datetime, parse_time

DATES = frozenset({"date", "datetime", "timestamp"})
COMPARABLE = SqlType("datetime", scale=6)  # of temporal sides after alignment: not of a fixed width, compared as text
YEAR_MIN, YEAR_MAX = 1901, 2155


def domain(type_: SqlType) -> str:
    """exact, double, string, binary, datetime, time or null; refuses types whose comparison is not reproduced."""
    if type_.is_integer or type_.name in ("decimal", "bit"):
        return "exact"
    if type_.is_approximate:
        return "double"
    if type_.is_string:
        return "string"
    if type_.name in DATES:
        return "datetime"
    if type_.name in ("time", "null"):
        return type_.name
    if type_.is_binary and type_.name not in ("geometry", "vector"):
        return "binary"
    raise UnsupportedQuery("comparison_type", f"comparison of {type_.name.upper()} values is not reproduced")


def untyped(expr: Expr) -> bool:
    """A parameter that has no type yet: it takes the type of what it meets."""
    return isinstance(expr, ParamRef) and expr.type.name == "null"


def aligned(left: Expr, right: Expr) -> tuple[Expr, Expr]:
    """Both sides in one domain. A parameter without a type takes the other side's."""
    if untyped(left) and untyped(right):
        raise UnsupportedQuery("parameter_type", "two parameters are compared with each other")
    if isinstance(left, ParamRef) and untyped(left):
        left = replace(left, type=right.type)
    elif isinstance(right, ParamRef) and untyped(right):
        right = replace(right, type=left.type)
    domains = (domain(left.type), domain(right.type))
    if "null" in domains:
        return left, right
    refuse_short_years(left, right)
    match domains:
        case ("exact", "exact"):
            _refuse_negative(left, right)
            return left, right
        case ("exact", "double") | ("double", "exact"):
            refuse_large((left, right))
            _refuse_fractions(left, right)
            return as_double(left), as_double(right)
        case ("exact" | "double", "exact" | "double"):
            return as_double(left), as_double(right)
        case ("string", "string"):
            left, right = one_collation([left, right])
            return left, right
        case ("binary" | "string", "binary" | "string"):
            return _as_bytes(left), _as_bytes(right)
        case ("datetime" | "string", "datetime" | "string"):
            return _datetimes(left, right)
        case ("time" | "string", "time" | "string"):
            return _as_time(left, right.type), _as_time(right, left.type)
    raise UnsupportedQuery(
        "comparison_type",
        f"MySQL compares {left.type.name.upper()} with {right.type.name.upper()} by a conversion not reproduced",
    )


def refuse_short_years(left: Expr, right: Expr) -> None:
    """MySQL reads a constant below 100 beside a YEAR as a short year: 70 is 1970. What is computed from constants it
    reads so, or not, by its plan."""
    for year, other in ((left, right), (right, left)):
        full = isinstance(other, Literal) and isinstance(other.value, int) and YEAR_MIN <= other.value <= YEAR_MAX
        if year.type.name == "year" and _is_computed_constant(other) and not full:
            raise UnsupportedQuery("comparison_type", "YEAR is compared with a number that is not a year of 4 digits")


def _refuse_negative(left: Expr, right: Expr) -> None:
    """By an index MySQL finds the BIT(64) of the same bits for -1."""
    for bit, other in ((left, right), (right, left)):
        positive = isinstance(other, Literal) and (other.value is None or other.value >= 0)  # type: ignore[operator]  # a number
        if bit.type.name == "bit" and _is_computed_constant(other) and not positive:
            raise UnsupportedQuery("comparison_type", "a BIT is compared with a constant that may be negative")


def _is_computed_constant(expr: Expr) -> bool:
    """A literal, or what is computed from literals alone."""
    return isinstance(expr, Literal) or (isinstance(expr, Call) and all(map(_is_computed_constant, expr.args)))


FIRST_INSTANT, LAST_INSTANT = "1970-01-01 00:00:01", "2038-01-19 03:14:07"
"""Of a TIMESTAMP, in UTC."""
EXACT_DOUBLE = 2**53  # integers up to here are DOUBLEs, so comparing as DOUBLE is comparing exactly
SAFE_DIGITS = 15  # decimal digits that survive a DOUBLE
_SMALL_INTEGERS = frozenset({"tinyint", "smallint", "mediumint", "int", "year"})


def refuse_large(exprs: Sequence[Expr]) -> None:
    """Raises UnsupportedQuery for exact numbers beside a DOUBLE that may not be exact as DOUBLEs. MySQL may compare
    them as they are through an index, and as DOUBLEs without one."""
    if all(_small_literal(expr) for expr in exprs if expr.type.is_approximate):
        exprs = [expr for expr in exprs if expr.type.name == "bit"]
    for expr in exprs:
        if not (expr.type.is_approximate or _small(expr.type) or _small_literal(expr)):
            raise UnsupportedQuery("comparison_type", f"{expr.type.name.upper()} is compared with a DOUBLE")


def _refuse_fractions(left: Expr, right: Expr) -> None:
    """In the ON of an outer join MySQL finds 0 for `0.5e0 = integer`, if it looks that up in an index."""
    for number, other in ((left, right), (right, left)):
        value = number.value if isinstance(number, Literal) else None
        if isinstance(value, float) and not value.is_integer() and other.type.name != "decimal":
            raise UnsupportedQuery("comparison_type", "an integer is compared with a DOUBLE that is none", repr(value))


def _small(type_: SqlType) -> bool:
    """Whether every number of the type is a DOUBLE."""
    return type_.name in _SMALL_INTEGERS or (type_.name == "decimal" and (type_.precision or 10) <= SAFE_DIGITS)


def _small_literal(expr: Expr) -> bool:
    value = expr.value if isinstance(expr, Literal) else EXACT_DOUBLE
    return value is None or abs(value) < EXACT_DOUBLE  # type: ignore[arg-type]  # a number


def refuse_tolerance(*exprs: Expr) -> None:
    """Raises UnsupportedQuery if a FLOAT(m,d) or DOUBLE(m,d), or a value made of one, is compared with numbers of a
    fixed number of digits. MySQL takes numbers for equal that differ by less than half of the last digit."""
    if any([expr.type.has_fixed_digits for expr in exprs]) and not any(map(_any_digits, exprs)):
        raise UnsupportedQuery("comparison_type", "MySQL compares a FLOAT(m,d) or DOUBLE(m,d) with a tolerance")


def _any_digits(expr: Expr) -> bool:
    return expr.type.is_approximate and expr.type.scale is None and not isinstance(expr, ParamRef)


def double_of(args: Sequence[Expr]) -> SqlType:
    """The type of a DOUBLE that is made of these. Its `scale` tells that one of them has a fixed number of digits."""
    scales = [arg.type.scale for arg in args if arg.type.has_fixed_digits]
    return replace(DOUBLE, scale=max(scale or 0 for scale in scales)) if scales else DOUBLE


def as_double(expr: Expr) -> Expr:
    """The number as DOUBLE."""
    if expr.type.is_approximate:
        return expr
    if isinstance(expr, Literal):
        return Literal(None if expr.value is None else float(expr.value), DOUBLE)  # type: ignore[arg-type]  # int or Decimal, by the domain
    return Call("cast", (expr,), DOUBLE, expr.nullable)


# ------------------------------------------------------------------------------------------------------------- strings


def coercibility(expr: Expr) -> int:
    """MySQL's: 2 a column, 4 a literal or parameter, 5 a number, 6 NULL. The lowest decides the collation."""
    match expr:
        case ColumnRef():
            return 2 if expr.type.collation or expr.type.is_binary else 5
        case Literal() | ParamRef():
            return 6 if expr.type.name == "null" else 4 if expr.type.collation or expr.type.is_binary else 5
        case Call(op="cast"):
            return 2
        case Call():
            args = expr.args if expr.op != "case" else (*expr.args[1:-1:2], expr.args[-1])
            return min((coercibility(arg) for arg in args if arg.type.is_string), default=4)


def one_collation(exprs: list[Expr]) -> tuple[Expr, ...]:
    """The strings, all typed with the collation in which MySQL compares them."""
    winner = exprs[0]
    for other in exprs[1:]:
        _require_one_padding(winner, other)
        winner = _stronger(winner, other)
    collation = winner.type.collation
    return tuple(_in_collation(expr, collation) for expr in exprs)


def _stronger(left: Expr, right: Expr) -> Expr:
    if left.type.collation == right.type.collation:
        return left if coercibility(left) <= coercibility(right) else right
    by_strength = coercibility(left) - coercibility(right)
    if by_strength:
        return left if by_strength < 0 else right
    a, b = left.type.collation or "", right.type.collation or ""
    if character_set(a) == character_set(b) and a.endswith("_bin") != b.endswith("_bin"):
        return left if a.endswith("_bin") else right
    if "utf8mb4" in (character_set(a), character_set(b)) and character_set(a) != character_set(b):
        return left if character_set(a) == "utf8mb4" else right
    raise UnsupportedQuery("collation", f"strings of the collations {a} and {b} are compared")


def _require_one_padding(left: Expr, right: Expr) -> None:
    if constant(left) or constant(right) or coercibility(left) != coercibility(right):
        return
    a, b = left.type.collation or "", right.type.collation or ""
    if a != b and pads(a) != pads(b):
        raise UnsupportedQuery("collation", f"only one of the collations {a} and {b} pads with spaces")


def _in_collation(expr: Expr, collation: str | None) -> Expr:
    if expr.type.collation == collation:
        return expr
    target, own = character_set(collation or ""), character_set(expr.type.collation or "")
    if isinstance(expr, Literal):
        if not encodes(target, str(expr.value)):
            raise UnsupportedQuery("collation", f"a literal is not representable in {target}", repr(expr.value))
    elif target not in (own, "utf8mb4") and not isinstance(expr, ParamRef):
        raise UnsupportedQuery("collation", f"a string of {own} is compared with one of {target}")
    if isinstance(expr, Call):
        return Call("collate", (expr,), replace(expr.type, collation=collation), expr.nullable)
    if isinstance(expr, ColumnRef):
        return Call("collate", (expr,), SqlType("varchar", collation=collation), expr.nullable)
    return replace(expr, type=replace(expr.type, collation=collation))


def _as_bytes(expr: Expr) -> Expr:
    if expr.type.is_binary:
        return expr
    if isinstance(expr, Literal):
        return Literal(str(expr.value).encode(), SqlType("varbinary", length=len(str(expr.value).encode())))
    if isinstance(expr, ParamRef):
        return replace(expr, type=SqlType("varbinary"))
    raise UnsupportedQuery(
        "comparison_type", "a binary string is compared with a character string that is not constant"
    )


# ------------------------------------------------------------------------------------------------------------ temporal


def _datetimes(left: Expr, right: Expr) -> tuple[Expr, Expr]:
    """Both in one format of text, in which strings compare as the points in time do."""
    for side in (left, right):
        if side.type.is_string and not constant(side):
            raise UnsupportedQuery("comparison_type", "a date is compared with a string that is not constant")
    if not constant(left) and constant(right):
        return left, _like_column(right, left.type)
    if constant(left) and not constant(right):
        return _like_column(left, right.type), right
    same_kind = left.type.name in DATES and (left.type.name == "date") == (right.type.name == "date")
    if same_kind and (left.type.scale == right.type.scale or left.type.name == "date"):
        return left, right
    return _comparable(left), _comparable(right)


def constant(expr: Expr) -> bool:
    """A literal or a parameter."""
    return isinstance(expr, Literal | ParamRef)


def _like_column(expr: Expr, column: SqlType) -> Expr:
    if isinstance(expr, ParamRef):
        return replace(expr, type=column)
    text = parse_datetime(str(expr.value)) if isinstance(expr, Literal) else None
    if text is None:
        raise UnsupportedQuery("comparison_type", "not a full date or date-time beside one", place(expr))
    found = datetime_like(text, column)
    if found is None:
        raise UnsupportedQuery("comparison_type", "a constant finer than the date-time beside it", place(expr))
    return Literal(found, column)


def datetime_like(text: str, column: SqlType) -> str | None:
    """A comparable text in the format of the column's values; None where it is finer than those, which an index rounds.
    Beside a DATE a time of day stays as it is, but for its fraction: of that an index makes whole seconds. None, too,
    where no TIMESTAMP can be so early or so late: an index makes the zero date of it."""
    if column.name == "date":
        return text if fraction_digits(text) == 0 else None
    scale = column.scale or 0
    if fraction_digits(text) > scale:
        return None
    found = as_datetime(text, scale)
    return found if column.name != "timestamp" or FIRST_INSTANT <= found[:19] <= LAST_INSTANT else None


def _comparable(expr: Expr) -> Expr:
    if isinstance(expr, Literal):
        text = parse_datetime(str(expr.value))
        if text is None:
            raise UnsupportedQuery("comparison_type", "not a full date or date-time beside one", place(expr))
        return Literal(text, COMPARABLE)
    return Call("comparable", (expr,), COMPARABLE, expr.nullable)


def place(expr: Expr) -> str:
    """The constant's value, or the kind of the node, for messages."""
    return repr(expr.value) if isinstance(expr, Literal) else type(expr).__name__


def time_like(microseconds: int, column: SqlType) -> int | None:
    """A TIME as it compares with values of the column; None where it is finer than those."""
    return microseconds if microseconds % 10 ** (6 - (column.scale or 0)) == 0 else None


def _as_time(expr: Expr, column: SqlType) -> Expr:
    if expr.type.name == "time":
        return expr
    if isinstance(expr, Literal):
        value = parse_time(str(expr.value))
        if value is None or time_like(value, column) is None:
            raise UnsupportedQuery("comparison_type", "no full time, or one finer than the TIME beside it", place(expr))
        return Literal(value, SqlType("time", scale=6))
    if isinstance(expr, ParamRef):
        return replace(expr, type=SqlType("time", scale=6))
    raise UnsupportedQuery("comparison_type", "a TIME is compared with a string that is not constant")
