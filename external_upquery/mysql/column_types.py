"""From a row of information_schema.COLUMNS to the type of a column. Pure text handling."""

from __future__ import annotations

import re

from sqltypes.schema import INTEGER_TYPES, SqlType

GEOMETRIES = frozenset(
    {
        "geometry",
        "point",
        "linestring",
        "polygon",
        "multipoint",
        "multilinestring",
        "multipolygon",
        "geomcollection",
        "geometrycollection",
    }
)
MEMBER = re.compile(r"'((?:[^'\\]|''|\\.)*)'", re.DOTALL)
ESCAPED = re.compile(r"''|\\(.)", re.DOTALL)
ESCAPES = {"0": "\0", "n": "\n", "r": "\r"}
SIZE = re.compile(r"\w+\((\d+)\)")


def column_type(
    data_type: str,
    column_type: str,
    *,
    length: int | None,
    precision: int | None,
    scale: int | None,
    fraction: int | None,
    collation: str | None,
) -> SqlType:
    """The type from DATA_TYPE, COLUMN_TYPE, CHARACTER_MAXIMUM_LENGTH, NUMERIC_PRECISION and _SCALE,
    DATETIME_PRECISION and COLLATION_NAME.
    """
    name = data_type.lower()
    text = column_type.lower()
    unsigned, zerofill = " unsigned" in text, " zerofill" in text
    if name in GEOMETRIES:
        return SqlType("geometry")
    if name in INTEGER_TYPES:
        boolean = text == "tinyint(1)"
        return SqlType(name, unsigned=unsigned, length=1 if boolean else None, zerofill=zerofill)
    if name == "decimal":
        return SqlType(name, unsigned=unsigned, precision=precision, scale=scale, zerofill=zerofill)
    if name in ("float", "double"):
        return SqlType(name, unsigned=unsigned, scale=scale, zerofill=zerofill)
    if name == "bit":
        return SqlType(name, length=precision)
    if name in ("datetime", "timestamp", "time"):
        return SqlType(name, scale=fraction or 0)
    if name in ("enum", "set"):
        return SqlType(name, length=length, collation=collation, members=members_of(column_type))
    if name == "vector":
        size = SIZE.match(text)
        # Of four bytes each.
        return SqlType(name, length=4 * int(size.group(1)) if size else length)
    if name in ("date", "json"):
        return SqlType(name)
    return SqlType(name, length=length, collation=collation)


def members_of(column_type: str) -> tuple[str, ...]:
    """The members that an ENUM's or SET's COLUMN_TYPE lists."""
    return tuple(ESCAPED.sub(_unescape, quoted) for quoted in MEMBER.findall(column_type))


def _unescape(match: re.Match[str]) -> str:
    character = match.group(1)
    return "'" if character is None else ESCAPES.get(character, character)
