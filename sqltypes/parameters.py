"""A client's parameter as a value of the column that it is compared with.

The rule: if MySQL compares in the column's own type, or comparing there is proven to be the same, the value is
converted to the column's canonical form. A value outside the column's range stays exact and finds nothing. If MySQL
compares in another type (a string with letters beside an INT goes through DOUBLE), the read is MySQL's:
ComparedElsewhere.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, NoReturn, cast

from sqltypes.arithmetic import MAX_DIGITS, MAX_SCALE, rescale, scale_of
from sqltypes.collation import character_set, encodes
from sqltypes.comparison import EXACT_DOUBLE, SAFE_DIGITS, YEAR_MAX, YEAR_MIN, datetime_like, time_like
from sqltypes.errors import BadParameters, ComparedElsewhere
from sqltypes.expression import Value
from sqltypes.schema import SqlType
from sqltypes.temporal import MAX_TIME, parse_datetime, parse_time, timedelta_microseconds

_TOO_LARGE = 10**MAX_DIGITS


class Moment(str):
    """A date, date-time or time that was sent as such. MySQL compares a string column with it differently than with a
    string of the same letters."""

    __slots__ = ()

    @property
    def has_date(self) -> bool:
        return self[4:5] == "-"


@dataclass(frozen=True, slots=True)
class AsBound:
    """A value bound to a prepared statement where no column tells the type. MySQL may read it differently from a
    literal of the same value. `unsigned`: it was bound as an unsigned whole number."""

    value: Value
    unsigned: bool = False


KINDS = frozenset(
    {
        "null",
        "int",
        "uint",
        "double",
        "string",
        "bytes",
        "decimal",
        "date",
        "datetime",
        "timestamp",
        "time",
        "json",
        "bool",
        "timedelta",
    }
)
_NUMBER = re.compile(r" *([-+]?\d+(?:\.\d*)?) *", re.ASCII)


def convert_parameter(value: Any, column_type: SqlType, given_kind: str | None = None) -> Value:
    """The parameter in the canonical form of `column_type`.

    `given_kind`: how the client typed it, one of KINDS (the kinds of `upwell.v1.Value`); None: by the Python type,
    where a str is a string. A `decimal` may be given as text, a `time` as microseconds. A parameter without a column
    ("null") is taken as it is. Raises ComparedElsewhere where MySQL compares in another type, BadParameters for what is
    no value of its kind.
    """
    if value is None or given_kind == "null":
        return None
    kind, plain = _normalised(value, given_kind)
    if column_type.name == "null":
        return cast(Value, plain)
    return cast(Value, _converter(column_type)(plain, kind, column_type))


def convert_operand(value: Any, type_: SqlType) -> Value:
    """The parameter as an operand of arithmetic beside a number of `type_`; the result is of the type that is planned.

    Raises ComparedElsewhere where MySQL would compute in another type: beside an INT, 1.0 is a DECIMAL, '1' a DOUBLE.
    """
    converted = convert_parameter(value, type_)
    if converted is None or type_.is_approximate:
        fits = not isinstance(value, str)
    elif type_.name == "decimal":
        fits = isinstance(value, int | Decimal) and scale_of(value) <= (type_.scale or 0)
    else:
        fits = isinstance(value, int)
    if not fits:
        elsewhere(type(value).__name__, type_, value)
    return converted


def _normalised(value: Any, given_kind: str | None) -> tuple[str, Any]:
    """(kind, plain value): kinds int, decimal, double, string, bytes, datetime (of DATEs too), time and json."""
    if given_kind is not None and given_kind not in KINDS:
        raise BadParameters(f"a parameter of the kind {given_kind!r} is given; accepted are {', '.join(sorted(KINDS))}")
    match value:
        case bool() | int() if given_kind == "time":
            return "time", _in_time_range(int(value))
        case bool() | int():
            if not -_TOO_LARGE < value < _TOO_LARGE:
                raise ComparedElsewhere(f"a number of more than {MAX_DIGITS} digits")
            return "int", int(value)
        case Decimal():
            return "decimal", _decimal(value)
        case float():
            return "double", _finite(value)
        case Moment() if given_kind is None and value.has_date:
            return _text(str(value), "datetime")
        case str():
            return _text(value, given_kind)
        case bytes() | bytearray() | memoryview():
            return "bytes", bytes(value)
    return _temporal(value)


def _temporal(value: Any) -> tuple[str, Any]:
    match value:
        case datetime():
            if value.tzinfo is not None:
                raise BadParameters("a date-time with a time zone is given; accepted is one without, in UTC")
            return "datetime", parse_datetime(value.isoformat(" "))
        case date():
            return "datetime", value.isoformat()
        case timedelta():
            return "time", _in_time_range(timedelta_microseconds(value))
        case time():
            return "time", _in_time_range(parse_time(value.isoformat()))
    raise BadParameters(f"a parameter of the Python type {type(value).__name__} is given, which is no value of MySQL")


def _text(value: str, given_kind: str | None) -> tuple[str, Any]:
    match given_kind:
        case "decimal":
            match = _NUMBER.fullmatch(value)
            if match is None:
                raise BadParameters(f"not a decimal number: {value[:80]!r}")
            return "decimal", _decimal(Decimal(match[1]))
        case "date" | "datetime" | "timestamp":
            parsed = parse_datetime(value)
            if parsed is None:
                raise ComparedElsewhere(f"not a full {given_kind}: {value[:80]!r}")
            return "datetime", parsed
        case "time":
            return "time", _in_time_range(parse_time(value))
        case "json":
            return "json", value
    return "string", value


def _decimal(value: Decimal) -> Decimal:
    if not value.is_finite():
        raise BadParameters(f"not a decimal number: {value}")
    if abs(value.adjusted()) > MAX_DIGITS or scale_of(value) > MAX_SCALE:
        raise ComparedElsewhere(f"a number with more digits than a DECIMAL has: {value}")
    return value


def _finite(value: float) -> float:
    if math.isfinite(value):
        return value
    raise BadParameters(f"not a number of MySQL: {value!r}")


def _in_time_range(value: int | None) -> int:
    if value is not None and -MAX_TIME <= value <= MAX_TIME:
        return value
    raise BadParameters("not a TIME between -838:59:59 and 838:59:59")


def elsewhere(kind: str, column: SqlType, value: Any) -> NoReturn:
    """The refusal of a value that MySQL compares in another type."""
    raise ComparedElsewhere(
        f"a {kind} is given for {column.name.upper()}, which MySQL does not compare as such: {str(value)[:80]!r}"
    )


# ------------------------------------------------------------------------------------------------------------- numbers


def _to_integer(value: Any, kind: str, column: SqlType) -> Any:
    """A negative number beside a BIT is MySQL's to compare: by an index it finds the BIT(64) of the same bits."""
    if column.name == "bit" and kind in ("int", "decimal") and value < 0:
        elsewhere(kind, column, value)
    match kind:
        case "int":
            if column.name == "year" and not YEAR_MIN <= value <= YEAR_MAX:
                elsewhere(kind, column, value)
            return value
        case "decimal" if column.name != "year":
            return int(value) if value == value.to_integral_value() else value
        case "double" if column.name not in ("year", "bit") and abs(value) < EXACT_DOUBLE:
            return int(value) if value.is_integer() else value
        case "string" if column.name not in ("year", "bit"):
            number = _safe_number(value)
            if number is not None:
                return int(number) if number == number.to_integral_value() else number
    elsewhere(kind, column, value)


def _safe_number(text: str) -> Decimal | None:
    """The number that the whole string is, if it has so few digits that comparing as DOUBLE, as MySQL does, is
    exact.
    """
    match = _NUMBER.fullmatch(text)
    if match is None:
        return None
    number = Decimal(match[1])
    return number if len(number.as_tuple().digits) <= SAFE_DIGITS else None


def _to_decimal(value: Any, kind: str, column: SqlType) -> Any:
    scale = column.scale or 0
    match kind:
        case "int":
            return rescale(value, scale)
        case "decimal":
            return rescale(value, scale) if scale_of(value) <= scale else value
        case "string" if (column.precision or 10) <= SAFE_DIGITS:
            number = _safe_number(value)
            if number is not None:
                return rescale(number, scale) if scale_of(number) <= scale else number
        case "double" if (column.precision or 10) <= SAFE_DIGITS and (value or math.copysign(1, value) > 0):
            # Of so few digits each number is another DOUBLE, in the same order, and Python writes it with these digits.
            number = _decimal(Decimal(repr(value)))
            if scale_of(number) <= scale:
                return rescale(number, scale)
    elsewhere(kind, column, value)


def _to_float(value: Any, kind: str, column: SqlType) -> Any:
    """-0.0 is MySQL's to compare: it equals 0, but through an index it finds nothing."""
    found = None
    match kind:
        case "int" | "decimal" | "double":
            found = float(value)
        case "string":
            match = _NUMBER.fullmatch(value)
            found = None if match is None else float(match[1])
    if found is None or not math.isfinite(found) or (found == 0 and math.copysign(1, found) < 0):
        elsewhere(kind, column, value)
    return found


# ------------------------------------------------------------------------------------------------ strings and the rest


def _to_string(value: Any, kind: str, column: SqlType) -> Any:
    if kind != "string" or not encodes(character_set(column.collation or ""), value):
        elsewhere(kind, column, value)
    return value


def _to_binary(value: Any, kind: str, column: SqlType) -> Any:
    match kind:
        case "bytes":
            return value
        case "string":
            return value.encode()
    elsewhere(kind, column, value)


def _to_datetime(value: Any, kind: str, column: SqlType) -> Any:
    if kind == "string":
        value = parse_datetime(value)
    if kind not in ("string", "datetime") or value is None:
        elsewhere(kind, column, value)
    found = datetime_like(value, column)
    if found is None:
        elsewhere(kind, column, value)
    return found


def _to_time(value: Any, kind: str, column: SqlType) -> Any:
    if kind == "string":
        value = parse_time(value)
    if kind not in ("string", "time") or value is None or time_like(value, column) is None:
        elsewhere(kind, column, value)
    return value


def _never(value: Any, kind: str, column: SqlType) -> Any:
    elsewhere(kind, column, value)


def _converter(column: SqlType) -> Callable[[Any, str, SqlType], Any]:
    if column.is_integer or column.name == "bit":
        return _to_integer
    if column.is_approximate:
        return _to_float
    if column.is_string:
        return _to_string
    if column.is_binary and column.name not in ("geometry", "vector"):
        return _to_binary
    return {
        "decimal": _to_decimal,
        "date": _to_datetime,
        "datetime": _to_datetime,
        "timestamp": _to_datetime,
        "time": _to_time,
    }.get(column.name, _never)
