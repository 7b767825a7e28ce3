"""A TABLE_MAP event's description of a table, and whether that is the wanted table.

Rows in a binlog have the layout of the moment when they were written. Reflection saw the wanted `Table` earlier or
later. `difference` compares the two, so no row is ever decoded by a layout that is not its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqltypes.schema import SqlType, Table
from vstream.charsets import BINARY_COLLATION, text_decoder

TINY, SHORT, LONG, FLOAT, DOUBLE, LONGLONG, INT24 = 1, 2, 3, 4, 5, 8, 9
DATE, YEAR, VARCHAR, BIT, TIMESTAMP2, DATETIME2, TIME2 = 10, 13, 15, 16, 17, 18, 19
VECTOR, JSON, NEWDECIMAL, ENUM, SET, BLOB, STRING, GEOMETRY = 242, 245, 246, 247, 248, 252, 254, 255

_META_BYTES = {
    **dict.fromkeys((FLOAT, DOUBLE, BLOB, JSON, GEOMETRY, VECTOR, TIMESTAMP2, DATETIME2, TIME2), 1),
    **dict.fromkeys((VARCHAR, STRING, NEWDECIMAL, BIT, ENUM, SET), 2),
}
_NUMERIC = frozenset({TINY, SHORT, INT24, LONG, LONGLONG, NEWDECIMAL, FLOAT, DOUBLE, YEAR})
_CHARACTER = frozenset({VARCHAR, STRING, BLOB, VECTOR})  # of which the binlog tells collations
_INTEGER_NAMES = {TINY: "tinyint", SHORT: "smallint", INT24: "mediumint", LONG: "int", LONGLONG: "bigint"}
_PLAIN_NAMES = {
    FLOAT: "float", DOUBLE: "double", DATE: "date", YEAR: "year", BIT: "bit", TIMESTAMP2: "timestamp",
    DATETIME2: "datetime", TIME2: "time", VECTOR: "vector", JSON: "json", NEWDECIMAL: "decimal", ENUM: "enum",
    SET: "set", GEOMETRY: "geometry",
}  # fmt: skip
_BLOB_NAMES = {
    1: ("tinyblob", "tinytext"),
    2: ("blob", "text"),
    3: ("mediumblob", "mediumtext"),
    4: ("longblob", "longtext"),
}


class LayoutError(ValueError):
    """A TABLE_MAP event that cannot be read, or a table whose rows cannot be decoded exactly."""


@dataclass(slots=True)
class ColumnLayout:
    """One column as the binlog has it. `size`: bytes of the length prefix, or of the value, by type."""

    kind: int
    meta: int
    name: str | None = None
    unsigned: bool = False
    collation: int = BINARY_COLLATION
    members: tuple[bytes, ...] = ()
    texts: tuple[str, ...] | None = None  # the members as the schema has them, where the binlog does not tell them


@dataclass(slots=True)
class TableLayout:
    schema: str
    table: str
    columns: list[ColumnLayout]


def lenenc(data: bytes, at: int) -> tuple[int, int]:
    """A length-encoded integer and where it ends."""
    first = data[at]
    if first < 251:
        return first, at + 1
    width = {252: 2, 253: 3, 254: 8}[first]
    return int.from_bytes(data[at + 1 : at + 1 + width], "little"), at + 1 + width


def table_names(body: bytes) -> tuple[str, str, int]:
    """(schema, table, offset behind them) of a TABLE_MAP event's body."""
    length = body[8]
    schema = body[9 : 9 + length].decode()
    at = 10 + length
    length = body[at]
    return schema, body[at + 1 : at + 1 + length].decode(), at + 2 + length


def parse_table_map(body: bytes) -> TableLayout:
    """Reads the body (behind the event's header). Raises LayoutError for types that are not known."""
    schema, table, at = table_names(body)
    try:
        count, at = lenenc(body, at)
        kinds = body[at : at + count]
        size, at = lenenc(body, at + count)
        columns = list(_columns(kinds, body[at : at + size]))
        at += size + (count + 7) // 8
        fields: dict[int, bytes] = {}
        while at < len(body):
            kind = body[at]
            size, at = lenenc(body, at + 1)
            fields[kind] = body[at : at + size]
            at += size
        _apply_metadata(columns, fields)
    except (IndexError, KeyError, UnicodeDecodeError) as error:
        raise LayoutError(f"a TABLE_MAP event of {schema}.{table} that cannot be read: {error!r}") from error
    return TableLayout(schema, table, columns)


def _columns(kinds: bytes, meta: bytes) -> Iterator[ColumnLayout]:
    at = 0
    for kind in kinds:
        width = _META_BYTES.get(kind, 0)
        raw = meta[at : at + width]
        at += width
        if kind == STRING:
            yield _string(raw[0], raw[1])
        elif kind in (NEWDECIMAL, BIT):
            yield ColumnLayout(kind, raw[0] << 8 | raw[1])
        elif width or kind in _INTEGER_NAMES or kind in (DATE, YEAR):
            yield ColumnLayout(kind, int.from_bytes(raw, "little"))
        else:
            raise LayoutError(f"a column of a type that is not decoded: binlog type {kind}")


def _string(first: int, second: int) -> ColumnLayout:
    """CHAR, BINARY, ENUM and SET share a type code: two bits of the length hide in the real type's byte."""
    if first & 0x30 != 0x30:
        return ColumnLayout(first | 0x30, second | ((first & 0x30) ^ 0x30) << 4)
    return ColumnLayout(first, second)


def _apply_metadata(columns: list[ColumnLayout], fields: Mapping[int, bytes]) -> None:
    numeric = [c for c in columns if c.kind in _NUMERIC]
    signedness = fields.get(1, b"")
    for number, column in enumerate(numeric):
        if number // 8 < len(signedness):
            column.unsigned = bool(signedness[number // 8] >> (7 - number % 8) & 1)
    _apply_collations([c for c in columns if c.kind in _CHARACTER], fields.get(2), fields.get(3))
    listed = [c for c in columns if c.kind in (ENUM, SET)]
    _apply_collations(listed, fields.get(10), fields.get(11))
    for kind, tag in ((SET, 5), (ENUM, 6)):
        at = 0
        for column in columns:
            if column.kind == kind and tag in fields:
                column.members, at = _strings(fields[tag], at)
    at = 0
    names = fields.get(4, b"")
    for column in columns if names else ():
        size, at = lenenc(names, at)
        column.name = names[at : at + size].decode()
        at += size


def _apply_collations(columns: list[ColumnLayout], default: bytes | None, each: bytes | None) -> None:
    at = 0
    if each is not None:
        for column in columns:
            column.collation, at = lenenc(each, at)
    elif default is not None:
        common, at = lenenc(default, 0)
        for column in columns:
            column.collation = common
        while at < len(default):
            number, at = lenenc(default, at)
            columns[number].collation, at = lenenc(default, at)


def _strings(data: bytes, at: int) -> tuple[tuple[bytes, ...], int]:
    count, at = lenenc(data, at)
    found = []
    for _ in range(count):
        size, at = lenenc(data, at)
        found.append(data[at : at + size])
        at += size
    return tuple(found), at


def difference(
    layout: TableLayout, table: Table, charsets: Mapping[int, str], *, by_schema: bool = False
) -> str | None:
    """In words, the first way in which the binlog's table is not the wanted one; None if they agree. `by_schema`: where
    the binlog does not tell names and members, the schema's are right."""
    if len(layout.columns) != len(table.columns):
        return f"{len(layout.columns)} columns in the binlog, {len(table.columns)} in the schema"
    for column, wanted in zip(layout.columns, table.columns, strict=True):
        if column.name is None and not by_schema:
            return "no column names in the binlog; binlog_row_metadata must be FULL"
        if column.name is not None and column.name.lower() != wanted.name.lower():
            return f"column {column.name!r} in the binlog, {wanted.name!r} in the schema"
        seen = describe(column)
        if seen != expected(wanted.type):
            return f"column {wanted.name!r} is {seen} in the binlog, {expected(wanted.type)} in the schema"
        if column.name is None:
            if column.kind in (ENUM, SET) and column.meta != listed_size(column.kind, len(wanted.type.members)):
                return f"column {wanted.name!r} has another number of members in the binlog"
        elif column.kind in (ENUM, SET):
            members = decoded_members(column, charsets)
            if members is not None and members != wanted.type.members:
                return f"column {column.name!r} has other members in the binlog"
    return None


def listed_size(kind: int, members: int) -> int:
    """Bytes of a value of an ENUM or SET with so many members."""
    if kind == ENUM:
        return 1 if members < 256 else 2
    size = (members + 7) // 8
    return size if size < 5 else 8


def add_members(layout: TableLayout, table: Table) -> None:
    """The members of ENUM and SET columns are those of the table's definition, for the binlog does not tell them. A
    member with a `?` may have another character there, which information_schema does not tell: no value is known."""
    for column, wanted in zip(layout.columns, table.columns, strict=True):
        if column.kind in (ENUM, SET) and not any("?" in member for member in wanted.type.members):
            column.texts = wanted.type.members


def decoded_members(column: ColumnLayout, charsets: Mapping[int, str]) -> tuple[str, ...] | None:
    """The members of an ENUM or SET as text; None where their character set has no exact decoder."""
    if column.texts is not None:
        return column.texts
    decode = text_decoder(charsets.get(column.collation, ""))
    if column.collation == BINARY_COLLATION:
        decode = text_decoder("utf8mb4")
    if decode is None:
        return None
    try:
        return tuple(decode(member) for member in column.members)
    except UnicodeDecodeError:
        return None


def describe(column: ColumnLayout) -> str:
    """The type in one word or two, in the form of `expected`."""
    kind, meta = column.kind, column.meta
    if kind in _INTEGER_NAMES:
        return _INTEGER_NAMES[kind] + (" unsigned" if column.unsigned else "")
    binary = column.collation == BINARY_COLLATION
    if kind == VARCHAR:
        return "varbinary" if binary else "varchar"
    if kind == STRING:
        return f"binary({meta})" if binary else "char"
    if kind == BLOB:
        return _BLOB_NAMES[meta][0 if binary else 1]
    name = _PLAIN_NAMES[kind]
    if kind == NEWDECIMAL:
        return f"decimal({meta >> 8},{meta & 255})"
    if kind in (TIMESTAMP2, DATETIME2, TIME2):
        return f"{name}({meta})"
    if kind == BIT:
        return f"bit({(meta & 255) * 8 + (meta >> 8)})"
    return name


def expected(wanted: SqlType) -> str:
    """How a column of this type is described, whoever streams it."""
    name = wanted.name
    if name in _INTEGER_NAMES.values():
        return name + (" unsigned" if wanted.unsigned else "")
    if name == "decimal":
        return f"decimal({wanted.precision},{wanted.scale or 0})"
    if name in ("timestamp", "datetime", "time"):
        return f"{name}({wanted.scale or 0})"
    if name in ("bit", "binary"):
        return f"{name}({wanted.length})"
    return name
