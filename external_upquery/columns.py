"""What MySQL announces about the columns of an answer, and the SQL types that follow from it.

Pure: bytes of column definition packets in, `ResultColumn` out.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

from pymysql.charset import charset_by_id
from pymysql.constants import FIELD_TYPE, FLAG

from sqltypes.schema import ResultColumn, SqlType

BINARY_CHARSET = 63
VECTOR_TYPE = 242
NO_DECIMALS = 31  # MySQL's "as many as it takes"
FIXED_PART = struct.Struct("<BHIBHB")  # length of what follows, character set, column length, type, flags, decimals

INTEGERS = {
    FIELD_TYPE.TINY: "tinyint",
    FIELD_TYPE.SHORT: "smallint",
    FIELD_TYPE.INT24: "mediumint",
    FIELD_TYPE.LONG: "int",
    FIELD_TYPE.LONGLONG: "bigint",
}
PLAIN = {
    FIELD_TYPE.YEAR: "year",
    FIELD_TYPE.NULL: "null",
    FIELD_TYPE.JSON: "json",
    FIELD_TYPE.GEOMETRY: "geometry",
}
TEMPORALS = {
    FIELD_TYPE.DATE: "date",
    FIELD_TYPE.NEWDATE: "date",
    FIELD_TYPE.DATETIME: "datetime",
    FIELD_TYPE.TIMESTAMP: "timestamp",
    FIELD_TYPE.TIME: "time",
}
# Characters (or bytes) at most -> the prefix of TEXT or BLOB. All of them are announced as one type code with another
# length.
BLOB_SIZES = ((255, "tiny"), (65_535, ""), (16_777_215, "medium"))
# Bytes per character that the announced length of a string counts, where it is not 1.
CHARACTER_WIDTHS = {
    "utf8mb4": 4,
    "utf8mb3": 3,
    "utf8": 3,
    "utf16": 4,
    "utf16le": 4,
    "utf32": 4,
    "ucs2": 2,
    "gb18030": 4,
    "gbk": 2,
    "gb2312": 2,
    "sjis": 2,
    "cp932": 2,
    "big5": 2,
    "euckr": 2,
    "ujis": 3,
    "eucjpms": 3,
}

SIX = range(6)


@dataclass(frozen=True, slots=True)
class RawColumn:
    """A column definition packet, as sent. `length` is in bytes of `charset`. `names`: the bytes of its schema's, its
    table's and its original table's name, which hardly anybody reads: `table_of`."""

    name: str
    table: str
    code: int
    flags: int
    charset: int
    length: int
    decimals: int
    names: bytes = b""


def known_collations() -> dict[int, str]:
    """The collations that are known without asking the source. `Executor.describe` asks it for all of them."""
    known = {}
    for number in range(1, 400):
        try:
            known[number] = charset_by_id(number).collation  # type: ignore[attr-defined]  # missing in the stubs
        except KeyError:
            continue
    return known


KNOWN_COLLATIONS = known_collations()


def parse_column(payload: bytes) -> RawColumn:
    """The body of one column definition packet (Protocol::ColumnDefinition41)."""
    return column_at(payload, 0)


def column_at(data: bytes, at: int) -> RawColumn:
    """As `parse_column`, of the body at this position. An answer may have thousands."""
    starts = []
    for _ in SIX:  # catalog, schema, table, original table, name, original name
        starts.append(at)
        at += 1 + size if (size := data[at]) < 0xFB else length_encoded(data, at)[1] - at
    _, charset, length, code, flags, decimals = FIXED_PART.unpack_from(data, at)
    name, table = length_encoded(data, starts[4]), length_encoded(data, starts[2])
    return RawColumn(
        data[name[0] : name[1]].decode("utf-8", "replace"),
        data[table[0] : table[1]].decode("utf-8", "replace"),
        code,
        flags,
        charset,
        length,
        decimals,
        data[starts[1] : starts[4]],
    )


def table_of(raw: RawColumn) -> tuple[str, str]:
    """The schema and the name of the table that it is a column of; both "" where it is computed."""
    if not raw.names:
        return "", ""
    schema = length_encoded(raw.names, 0)
    origin = length_encoded(raw.names, length_encoded(raw.names, schema[1])[1])
    found = [raw.names[start:end].decode("utf-8", "replace") for start, end in (schema, origin)]
    return found[0], found[1]


def length_encoded(data: bytes, position: int) -> tuple[int, int]:
    """(start, end) of the length-encoded string at `position`; not for NULL."""
    size = data[position]
    if size < 0xFB:
        return position + 1, position + 1 + size
    if size == 0xFC:
        start = position + 3
        return start, start + (data[position + 1] | data[position + 2] << 8)
    if size == 0xFD:
        start = position + 4
        return start, start + int.from_bytes(data[position + 1 : start], "little")
    start = position + 9
    return start, start + int.from_bytes(data[position + 1 : start], "little")


def length_encoded_integer(data: bytes, position: int) -> tuple[int, int]:
    """(value, position behind it) of the length-encoded integer at `position`."""
    size = data[position]
    if size < 0xFB:
        return size, position + 1
    width = {0xFC: 2, 0xFD: 3, 0xFE: 8}[size]
    end = position + 1 + width
    return int.from_bytes(data[position + 1 : end], "little"), end


def to_sql_type(raw: RawColumn, collations: Mapping[int, str] = KNOWN_COLLATIONS) -> SqlType:
    """The SQL type of an announced column. ENUM and SET come without their members: only the table's definition names
    them.
    """
    unsigned = bool(raw.flags & FLAG.UNSIGNED)
    if raw.code in INTEGERS:
        boolean = raw.code == FIELD_TYPE.TINY and raw.length == 1 and not unsigned
        return SqlType(INTEGERS[raw.code], unsigned=unsigned, length=1 if boolean else None)
    if raw.code in TEMPORALS:
        name = TEMPORALS[raw.code]
        return SqlType(name, scale=None if name == "date" else min(raw.decimals, 6))
    if raw.code in (FIELD_TYPE.NEWDECIMAL, FIELD_TYPE.DECIMAL):
        point, sign = (1 if raw.decimals else 0), (0 if unsigned else 1)
        precision = raw.length - point - sign if raw.length else None  # vtgate tells none of what it computes
        return SqlType("decimal", unsigned=unsigned, precision=precision, scale=raw.decimals)
    if raw.code in (FIELD_TYPE.FLOAT, FIELD_TYPE.DOUBLE):
        name = "float" if raw.code == FIELD_TYPE.FLOAT else "double"
        fixed = raw.length and raw.decimals < NO_DECIMALS  # nor how such a number is written
        return SqlType(name, unsigned=unsigned, scale=raw.decimals if fixed else None)
    if raw.code == FIELD_TYPE.BIT:
        return SqlType("bit", length=raw.length)
    if raw.code in PLAIN:
        return SqlType(PLAIN[raw.code])
    if raw.code == VECTOR_TYPE:
        return SqlType("vector", length=raw.length)
    return _string_type(raw, collations)


def _string_type(raw: RawColumn, collations: Mapping[int, str]) -> SqlType:
    if raw.charset == BINARY_CHARSET:
        if _is_blob(raw):
            return SqlType(_sized(raw.length) + "blob", length=raw.length)
        fixed = raw.code == FIELD_TYPE.STRING
        return SqlType("binary" if fixed else "varbinary", length=raw.length)
    collation = collations.get(raw.charset)
    width = CHARACTER_WIDTHS.get((collation or "").split("_", 1)[0], 1)
    length = raw.length // width
    if raw.flags & FLAG.ENUM or raw.code == FIELD_TYPE.ENUM:
        return SqlType("enum", collation=collation)
    if raw.flags & FLAG.SET or raw.code == FIELD_TYPE.SET:
        return SqlType("set", collation=collation)
    if _is_blob(raw):
        return SqlType(_sized(length) + "text", length=length, collation=collation)
    return SqlType("char" if raw.code == FIELD_TYPE.STRING else "varchar", length=length, collation=collation)


def _is_blob(raw: RawColumn) -> bool:
    return FIELD_TYPE.TINY_BLOB <= raw.code <= FIELD_TYPE.BLOB


def _sized(length: int) -> str:
    for limit, prefix in BLOB_SIZES:
        if length <= limit:
            return prefix
    return "long"


def to_result_column(raw: RawColumn, collations: Mapping[int, str] = KNOWN_COLLATIONS) -> ResultColumn:
    """The announced column as the rest of the project sees it."""
    return ResultColumn(
        name=raw.name,
        type=_usual_type(raw) if collations is KNOWN_COLLATIONS else to_sql_type(raw, collations),
        nullable=not raw.flags & FLAG.NOT_NULL,
        table=raw.table,
        flags=raw.flags,
        decimals=raw.decimals,
        charset=raw.charset,
        length=raw.length,
    )


_types: dict[tuple[int, int, int, int, int], SqlType] = {}
MOST_TYPES = 4096


def _usual_type(raw: RawColumn) -> SqlType:
    """`to_sql_type`, remembered: the columns of an answer are of a few types."""
    key = raw.code, raw.flags, raw.charset, raw.length, raw.decimals
    found = _types.get(key)
    if found is None:
        if len(_types) >= MOST_TYPES:
            _types.clear()
        found = _types[key] = to_sql_type(raw)
    return found
