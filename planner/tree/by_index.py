"""Which comparisons MySQL answers otherwise by an index, or by a table that it makes of the rows, than without one.

By an index MySQL looks for the other side's value as the column's type has it: rounded to the column's digits, cut to
its range, or in its order. Without one it compares in a type that both sides fit into. Where the two differ, the answer
depends on the plan, and MySQL may choose another plan after any change. What is here was found by sweeps over types,
comparisons, constants and expressions with MySQL as the judge (`integration/planner_truth/test_by_index_*.py`). `table`
shows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, Flag, auto
from itertools import combinations_with_replacement

from sqltypes.comparison import YEAR_MAX, YEAR_MIN
from sqltypes.schema import SqlType
from sqltypes.temporal import parse_datetime, parse_time


class Family(Enum):
    INTEGER = "integer"
    DECIMAL = "decimal"
    FLOAT = "float"  # DOUBLE, too
    BIT = "bit"
    YEAR = "year"
    DATE = "date"
    MOMENT = "moment"  # DATETIME, TIMESTAMP
    TIME = "time"
    TEXT = "text"
    COLLATED = "collated"  # a text of which COLLATE tells how it is compared
    BYTES = "bytes"
    MEMBER = "member"  # ENUM, SET
    JSON = "json"
    GEOMETRY = "geometry"
    NULL = "null"
    UNKNOWN = "unknown"


class Nature(Enum):
    COLUMN = "column"
    COMPUTED = "computed"  # from columns or constants, or given by a subquery
    DERIVED = "derived"  # a column of a derived table or view that is computed there: it may be either
    CONSTANT = "constant"  # a literal, whose text is known
    PARAMETER = "parameter"  # bound as a value of the type that it is compared with


class Asked(Flag):
    """What a comparison asks of its sides. ROWS: they stand in rows of an IN-list; LIST: in an IN-list."""

    EQUAL = auto()
    ORDER = auto()
    LIST = auto()
    ROWS = auto()


NOTHING = Asked(0)
BOTH = Asked.EQUAL | Asked.ORDER


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison.

    `scale`: at most so many digits of the fraction a moment or time has, None where that is not known; `text`: a
    constant's, a number with its sign, of x'' and b'' the digits."""

    family: Family
    scale: int | None
    nature: Nature
    text: str = ""
    long_unsigned: bool = False  # BIGINT UNSIGNED


NUMBERS = frozenset({Family.INTEGER, Family.DECIMAL, Family.FLOAT})
STRINGS = frozenset({Family.TEXT, Family.COLLATED, Family.BYTES, Family.MEMBER})
DATES = frozenset({Family.DATE, Family.MOMENT})
_FINE = DATES | {Family.TIME}  # have a fraction, which an index rounds
_NAMES = {
    **dict.fromkeys(("date", "time", "year", "bit", "json", "geometry", "decimal"), ""),
    **{"datetime": "moment", "timestamp": "moment", "enum": "member", "set": "member", "vector": "geometry"},
}


def family_of(type_: SqlType) -> Family:
    """The family of a column's type."""
    if type_.name == "null":
        return Family.UNKNOWN
    if type_.name in _NAMES:
        return Family(_NAMES[type_.name] or type_.name)
    if type_.is_integer:
        return Family.INTEGER
    if type_.is_approximate:
        return Family.FLOAT
    return Family.BYTES if type_.is_binary else Family.TEXT


def column_of(type_: SqlType) -> Side:
    long = type_.name == "bigint" and type_.unsigned
    return Side(family_of(type_), (type_.scale or 0) if type_.is_temporal else 0, Nature.COLUMN, long_unsigned=long)


def differs(one: Side, other: Side, asked: Asked) -> bool:
    """Whether MySQL may answer the comparison otherwise by an index of one of the sides than without. A side that no
    column gives has no index."""
    for column, beside in ((one, other), (other, one)):
        if column.nature not in (Nature.COLUMN, Nature.DERIVED) or Family.NULL in (column.family, beside.family):
            continue
        if beside.nature is Nature.CONSTANT:
            if _beside_constant(column, beside, asked):
                return True
        elif beside.nature is not Nature.PARAMETER and _beside_values(column, beside, asked):
            return True
    return False


def bounds_differ(subject: Side, low: Side, high: Side) -> bool:
    """Whether BETWEEN over text is over bounds of several kinds: MySQL compares each in its own way, or all as text."""
    if subject.family not in (Family.TEXT, Family.BYTES) or subject.nature not in (Nature.COLUMN, Nature.DERIVED):
        return False
    kinds = set(map(_bound_kind, (low, high)))
    return len(kinds) > 1 and ("other" in kinds or subject.family is Family.BYTES)


def _bound_kind(side: Side) -> str:
    if side.family in STRINGS or side.nature is Nature.PARAMETER:
        return "text"
    return "number" if side.family in NUMBERS else "other"


# -------------------------------------------------------------------------------------------------- columns and values


def _pairs(
    *rules: tuple[Asked, frozenset[Family] | set[Family], frozenset[Family] | set[Family]],
) -> dict[frozenset[Family], Asked]:
    found: dict[frozenset[Family], Asked] = {}
    for asked, some, others in rules:
        for one in some:
            for other in others:
                found.setdefault(frozenset((one, other)), asked)
    return found


_ALL_IN_ORDER = tuple(family for family in Family if family is not Family.NULL)
_ALL = frozenset(_ALL_IN_ORDER)
_COLUMNS = _pairs(
    (NOTHING, {Family.TIME}, {Family.TIME}),
    (NOTHING, {Family.YEAR}, {Family.YEAR}),
    (NOTHING, {Family.BIT}, {Family.BIT, Family.INTEGER, Family.DECIMAL}),
    (NOTHING, {Family.GEOMETRY}, {Family.GEOMETRY}),
    (Asked.ORDER, {Family.YEAR}, NUMBERS),
    (BOTH, {Family.TIME, Family.YEAR, Family.BIT, Family.GEOMETRY}, _ALL),
    (BOTH, DATES, NUMBERS),
    (BOTH, DATES, STRINGS),
    (Asked.EQUAL, DATES, {Family.JSON, Family.UNKNOWN}),
    (Asked.EQUAL, STRINGS, {Family.JSON}),
    (BOTH, STRINGS | {Family.JSON}, {Family.UNKNOWN}),
    (Asked.EQUAL, {Family.BYTES}, {Family.COLLATED}),
    (BOTH, NUMBERS, {Family.UNKNOWN}),
)
"""What is refused of two columns; of pairs that are not here nothing."""


def _beside_values(column: Side, beside: Side, asked: Asked) -> bool:
    refused = _COLUMNS.get(frozenset((column.family, beside.family)), NOTHING)
    if refused & asked:
        return True
    if Asked.LIST in asked and column.family is Family.INTEGER and _may_have_other_sign(column, beside):
        return True
    if Asked.ROWS in asked and not _is_alike(column.family, beside.family):
        return True
    if beside.nature is Nature.COLUMN:
        return False
    if column.family in (Family.YEAR, Family.BIT) and beside.family is not column.family:
        return True
    if column.family is Family.INTEGER and beside.family in {Family.FLOAT, *STRINGS} - {Family.MEMBER}:
        return Asked.EQUAL in asked
    return Asked.EQUAL in asked and _is_finer(column, beside)


def _may_have_other_sign(column: Side, beside: Side) -> bool:
    """Whether a list may have integers that are signed beside others that are not and so long."""
    if beside.family is Family.INTEGER and beside.nature is Nature.COLUMN:
        return column.long_unsigned != beside.long_unsigned
    return beside.family in (Family.INTEGER, Family.BIT) or (
        beside.family is Family.DECIMAL and beside.nature is not Nature.COLUMN
    )


def _is_alike(column: Family, beside: Family) -> bool:
    if column in (Family.DECIMAL, Family.FLOAT):
        return beside in NUMBERS
    return column is beside or any({column, beside} <= alike for alike in (STRINGS, DATES))


def _is_finer(column: Side, beside: Side) -> bool:
    """Whether the other moment or time may have more digits of the fraction than the column."""
    if not {column.family, beside.family} <= _FINE:
        return False
    return beside.scale is None or beside.scale > (column.scale or 0)


# ------------------------------------------------------------------------------------------------------------ constants

_NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", re.ASCII | re.IGNORECASE)
_DAY = re.compile(r"(\d{4})-(\d\d?)-(\d\d?)(?:[ T](\d\d?):(\d\d?)(?::(\d\d?)(\.\d*)?)?)?", re.ASCII)
_DIGITS = re.compile(r"(\d{4})(\d\d)(\d\d)(?:(\d\d)(\d\d)(\d\d)(\.\d*)?)?", re.ASCII)
_OFFSET = re.compile(r"[-+]\d\d:\d\d$", re.ASCII)  # TIMESTAMP'2024-01-01 00:00:00+02:00'
_ZERO_DAY = re.compile(r"0000-00-00( 00:00:00)?", re.ASCII)
_MAX_TIME = 8385959
_LONGEST = 2**63


def _beside_constant(column: Side, constant: Side, asked: Asked) -> bool:
    if constant.family is Family.BYTES and not constant.text:  # x'' is no number
        return column.family not in STRINGS
    match column.family:
        case Family.INTEGER:
            return _beside_integer(column, constant, asked)
        case Family.BIT:
            return not (constant.family is Family.BYTES or (_is_whole(constant) and int(constant.text) >= 0))
        case Family.YEAR:
            return not _is_year(constant)
        case Family.DATE | Family.MOMENT:
            return _beside_date(column, constant, asked)
        case Family.TIME:
            return _beside_time(column, constant, asked)
        case Family.TEXT | Family.BYTES:
            return False
        case Family.MEMBER:
            return Asked.ROWS in asked and constant.family is not Family.TEXT
    return False


def _is_whole(constant: Side) -> bool:
    return constant.family is Family.INTEGER


def _beside_integer(column: Side, constant: Side, asked: Asked) -> bool:
    """In the ON of an outer join MySQL finds an integer for '1.5', if it looks that up."""
    if Asked.ROWS in asked and constant.family in NUMBERS | {Family.TEXT}:
        whole = int(constant.text) if _is_whole(constant) else None
        low, high = (0, _LONGEST * 2) if column.long_unsigned else (-_LONGEST, _LONGEST)
        return whole is None or not low <= whole < high
    if Asked.EQUAL not in asked:
        return False
    if constant.family in _FINE:
        return constant.scale != 0
    match = _NUMBER.match(constant.text) if constant.family in (Family.FLOAT, Family.TEXT) else None
    return match is not None and float(match[0]) % 1 != 0


def _is_year(constant: Side) -> bool:
    text = constant.text.removesuffix(".0") if _is_whole(constant) else constant.text
    if constant.family not in (Family.INTEGER, Family.TEXT) or not (text.isascii() and text.isdigit()):
        return False
    return YEAR_MIN <= int(text) <= YEAR_MAX or (text == "0" and _is_whole(constant))


def _beside_date(column: Side, constant: Side, asked: Asked) -> bool:
    if constant.family in NUMBERS:
        return Asked.ROWS in asked
    if constant.family not in DATES | {Family.TEXT}:
        return True
    text = constant.text.strip(" ")
    if constant.family is Family.MOMENT:
        text = _OFFSET.sub("", text)
    if _ZERO_DAY.fullmatch(text):
        return False
    match = _DAY.fullmatch(text) or _DIGITS.fullmatch(text)
    if match is None:
        return True
    *parts, fraction = match.groups()
    year, month, day, hour, minute, second = (int(part or 0) for part in parts)
    if parse_datetime(f"{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}") is None:
        return True
    digits = len((fraction or "").rstrip("0")[1:])
    return Asked.EQUAL in asked and digits > (column.scale or 0)


def _beside_time(column: Side, constant: Side, asked: Asked) -> bool:
    if _is_whole(constant):
        number = abs(int(constant.text))
        valid = number <= _MAX_TIME and number % 100 < 60 and number // 100 % 100 < 60
        return Asked.ROWS in asked or not valid
    if constant.family not in (Family.TIME, Family.TEXT):
        return True
    if parse_time(constant.text) is None:
        return True
    digits = len(constant.text.partition(".")[2].rstrip(" ").rstrip("0"))
    return constant.family is Family.TIME and Asked.EQUAL in asked and digits > (column.scale or 0)


# ----------------------------------------------------------------------------------------------------------- the table


def table() -> Iterator[tuple[str, str]]:
    """(two families, what is refused of two columns of them), for those of which something is."""
    for one, other in combinations_with_replacement(_ALL_IN_ORDER, 2):
        sides = [Side(family, 0, Nature.COLUMN) for family in (one, other)]
        found = [asked for asked in (Asked.EQUAL, Asked.ORDER) if differs(sides[0], sides[1], asked)]
        if found:
            what = "all" if len(found) > 1 else "equality" if found == [Asked.EQUAL] else "order"
            yield f"{one.value} and {other.value}", what
