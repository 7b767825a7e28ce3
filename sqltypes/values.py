"""Canonical values to SQL text, from MySQL's text protocol, from clients' parameters; and what MySQL prints.

The forms are those of `sqltypes.schema`. Sessions have utf8mb4, UTC and a sql_mode without NO_BACKSLASH_ESCAPES.
Parameters: `parameters.convert_parameter` (also importable from here).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from sqltypes.arithmetic import scale_of
from sqltypes.errors import ComparedElsewhere
from sqltypes.expression import Row, Value
from sqltypes.parameters import AsBound, Moment, convert_parameter
from sqltypes.schema import SqlType
from sqltypes.temporal import parse_time, time_text, timedelta_microseconds

BINARY32 = struct.Struct("<f")

_ESCAPES = str.maketrans({"\\": "\\\\", "'": "\\'", "\0": "\\0", "\n": "\\n", "\r": "\\r", "\x1a": "\\Z"})


def identical(one: Row, other: Row) -> bool:
    """Whether a client sees no difference between two rows of the same columns: -0.0 equals 0.0 and reads as "-0"."""
    if one != other:
        return False
    for at, value in enumerate(one):  # a loop, which is quick: it is asked at each change of a held row
        if value.__class__ is float and not value:
            equal: Any = other[at]
            if math.copysign(1, value) != math.copysign(1, equal):
                return False
    return True


def sql_literal(value: Value, type_: SqlType) -> str:
    """The value as a literal of SQL that MySQL compares with a column of the type exactly, and by its index.

    Strings take the column's collation by coercibility. JSON gives CAST(... AS JSON); zero dates stay plain strings.
    """
    match value:
        case None:
            return "NULL"
        case bool():
            return str(int(value))
        case int() if type_.name == "time":
            return f"TIME'{time_text(value, type_.scale or 0 if not value % 1_000_000 else 6)}'"
        case int():
            return str(value)
        case Decimal():
            return format(value, "f")
        case float():
            return _float_literal(value)
        case bytes() | bytearray() | memoryview():
            return f"x'{bytes(value).hex()}'"
        case str():
            return _string_literal(value, type_)
    raise TypeError(f"not a canonical value: {value!r}")


def client_literal(value: Any) -> str:
    """A client's own parameter as the literal that its driver would write: typed by its Python type alone. Raises
    ComparedElsewhere for what has none."""
    match value:
        case AsBound():
            raise ComparedElsewhere("MySQL may read what is bound otherwise than a literal")
        case Moment() if value.has_date:
            return f"{'DATE' if len(value) == 10 else 'TIMESTAMP'}'{value}'"
        case Decimal() if not scale_of(value):
            return f"{value:f}."  # or it would be an INT
        case datetime():
            return f"'{value.isoformat(' ')}'"
        case date() | time():
            return f"'{value.isoformat()}'"
        case timedelta():
            return f"'{time_text(timedelta_microseconds(value), 6 if value.microseconds else 0)}'"
    return sql_literal(value, SqlType("null"))


def _float_literal(value: float) -> str:
    """A literal that MySQL parses to exactly this double, typed DOUBLE (by its exponent)."""
    text = repr(value)
    return text if "e" in text else f"{text}e0"


def _string_literal(value: str, type_: SqlType) -> str:
    if type_.name == "literal":
        return value
    quoted = f"'{value.translate(_ESCAPES)}'"
    if type_.name == "json":
        return f"CAST({quoted} AS JSON)"
    return quoted


# ------------------------------------------------------------------------------------------------------- text protocol

Parse = Callable[[bytes], Value]


def parse_text(type_: SqlType) -> Parse:
    """Converts a value of the text protocol (not NULL) to the canonical form of the type.

    FLOAT prints six digits only: upqueries select such columns through CAST(... AS DOUBLE), and this parses what that
    gives. BIT comes as its bytes, most significant first.
    """
    if type_.is_integer:
        return int
    if type_.is_string or type_.name in ("json", "date", "datetime", "timestamp"):
        return _text
    if type_.name == "decimal":
        return _decimal
    if type_.is_approximate:
        return float
    if type_.is_binary:
        return bytes
    if type_.name == "bit":
        return _bit
    if type_.name == "time":
        return _time
    if type_.name == "null":
        return _text
    raise ValueError(f"no text form for {type_.name}")


def _text(data: bytes) -> str:
    return str(data, "utf-8")


def _decimal(data: bytes) -> Decimal:
    return Decimal(str(data, "ascii"))


def binary32(text: bytes) -> float:
    """The FLOAT that prints so, widened."""
    value: float = BINARY32.unpack(BINARY32.pack(float(text)))[0]
    return value


def _bit(data: bytes) -> int:
    return int.from_bytes(data, "big")


def _time(data: bytes) -> int:
    value = parse_time(str(data, "ascii"))
    if value is None:
        raise ValueError(f"not a TIME: {data!r}")
    return value


# ----------------------------------------------------------------------------------------------------- printed numbers


def float_text(value: float, scale: int | None = None) -> str:
    """A FLOAT as MySQL prints it: six significant digits; FLOAT(m,d) with d digits behind the point."""
    return _fixed(value, scale) if scale is not None else _shortest(float(f"{value:.6g}"))


def double_text(value: float, scale: int | None = None) -> str:
    """A DOUBLE as MySQL prints it: the shortest digits that give it back; DOUBLE(m,d) with d digits behind the
    point.
    """
    return _fixed(value, scale) if scale is not None else _shortest(value)


def _fixed(value: float, scale: int) -> str:
    """The shortest digits that give the number back, if at most `scale` of them follow the point; else rounded."""
    digits = Decimal(repr(value))
    if -int(digits.as_tuple().exponent) <= scale:
        return f"{digits:.{scale}f}"
    return f"{value:.{scale}f}"


def _shortest(value: float) -> str:
    text = repr(value)
    if -1e15 < value < 1e15 and "e" not in text:
        return text.removesuffix(".0")
    return _shortest_slow(value)


def _shortest_slow(value: float) -> str:
    """MySQL writes an exponent below 10^-15, and from 10^15 on unless digits are left behind the point."""
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    digits = Decimal(repr(value)).normalize()
    sign, numbers, exponent = digits.as_tuple()
    point = len(numbers) + int(exponent)  # digits before the point
    minus = "-" if sign else ""
    text = "".join(map(str, numbers))
    if -14 <= point <= max(15, len(text) - 1):
        if point <= 0:
            return f"{minus}0.{'0' * -point}{text}"
        return minus + (text.ljust(point, "0") if point >= len(text) else f"{text[:point]}.{text[point:]}")
    mantissa = text[0] + (f".{text[1:]}" if len(text) > 1 else "")
    return f"{minus}{mantissa}e{point - 1}"


__all__ = [
    "Parse",
    "convert_parameter",
    "double_text",
    "float_text",
    "parse_text",
    "sql_literal",
    "time_text",
]
