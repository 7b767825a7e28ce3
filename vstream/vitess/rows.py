"""Turns rows of a VStream into canonical rows. Values come as texts, their types from the FIELD event before. Pure.

A table's decoder is made for the wanted columns, from its shard's description (`Fields`) and the wanted `Table`. If the
two differ, or a wanted column has no exact text, there is no decoder, but a reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pymysql.charset import charset_by_id

from sqltypes.collation import character_set
from sqltypes.expression import Row, Value
from sqltypes.schema import SqlType, Table
from sqltypes.values import binary32, parse_text
from vstream.binlog.layout import expected
from vstream.charsets import text_decoder
from vstream.vitess.json import text_or_late

if TYPE_CHECKING:
    from vstream import vitess_pb2 as pb

RowDecoder = Callable[["pb.Row"], Row]
Parse = Callable[[bytes], Value]

GEOMETRIES = frozenset(
    {"point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geomcollection"}
    | {"geometrycollection"}
)
NAMES = {"integer": "int", "dec": "decimal", "numeric": "decimal", "bool": "tinyint", "real": "double"}
FIRST = re.compile(r"[a-z ]*[a-z]")
NUMBERS = re.compile(r"\(([0-9]+)(?:,\s*([0-9]+))?\)")


class ColumnTold(NamedTuple):
    """As a FIELD event tells of it. `charset`: a collation's number, 0 where it is not told."""

    name: str
    column_type: str
    charset: int


class AnyColumnTold(Protocol):
    """`ColumnTold`, or the event's own."""

    @property
    def name(self) -> str: ...

    @property
    def column_type(self) -> str: ...

    @property
    def charset(self) -> int: ...


class Unreadable(ValueError):
    """Rows of this table cannot be decoded, for that reason."""


def decoder(table: Table, wanted: frozenset[int], fields: Sequence[AnyColumnTold], *, listed: bool) -> RowDecoder:
    """`wanted`: column positions; the others are None in a row. `listed`: values of ENUM and SET come as texts, not as
    numbers. Raises Unreadable."""
    if len(fields) != len(table.columns):
        raise Unreadable(f"{len(fields)} columns in the stream, {len(table.columns)} in the schema")
    parses: list[Parse | None] = []
    for field, column in zip(fields, table.columns, strict=True):
        if field.name.lower() != column.name.lower():
            raise Unreadable(f"column {field.name!r} in the stream, {column.name!r} in the schema")
        if (seen := described(field.column_type)) != (meant := _expected(column.type)):
            raise Unreadable(f"column {field.name!r} is {seen} in the stream, {meant} in the schema")
        if (other := _other_collation(field.charset, column.type)) is not None:
            raise Unreadable(f"column {field.name!r} is {other} in the stream, {column.type.collation} in the schema")
        if column.position not in wanted:
            parses.append(None)
        elif column.type.name in ("enum", "set") and not listed:
            raise Unreadable(f"values of column {column.name!r} come as numbers")
        else:
            parses.append(_parse(column.name, column.type))
    return _decoder(tuple(parses))


def _decoder(parses: tuple[Parse | None, ...]) -> RowDecoder:
    """A function of a table's own, as `rows.py` has them: no loop over the columns, and what is not wanted is stepped
    over."""
    count = len(parses)
    scope: dict[str, object] = {"Unreadable": Unreadable}
    lines = [
        "def decode(row):",
        " lengths, data = row.lengths, row.values",
        f" if len(lengths) != {count}:",
        f"  raise Unreadable(f'{{len(lengths)}} values in a row of {count} columns')",
        f" {''.join(f'n{at}, ' for at in range(count))} = lengths",
        " e0 = 0",
    ]
    cells = []
    for at, parse in enumerate(parses):
        lines.append(f" e{at + 1} = e{at} + n{at} if n{at} > 0 else e{at}")  # a length of -1: NULL
        if parse is None:
            cells.append("None")
            continue
        scope[f"p{at}"] = parse
        cells.append(f"None if n{at} < 0 else p{at}(data[e{at}:e{at + 1}])")
    lines += [
        f" if e{count} != len(data):",
        "  raise Unreadable('the values of a row do not end where it does')",
        f" return ({', '.join(cells)},)",
    ]
    exec(compile("\n".join(lines), "<rows of a VStream>", "exec"), scope)
    decode: RowDecoder = scope["decode"]  # type: ignore[assignment]
    return decode


def _parse(name: str, type_: SqlType) -> Parse:
    if type_.name == "json":
        return text_or_late
    if type_.name == "float":
        return binary32
    if type_.name == "bit":
        return _bit
    if type_.is_string and type_.name not in ("enum", "set"):
        charset = character_set(type_.collation or "utf8mb4")
        decode = text_decoder(charset)
        if decode is None:
            raise Unreadable(f"column {name!r} has the character set {charset}, which is not decoded exactly")
        return (lambda data: decode(data).rstrip(" ")) if type_.name == "char" else decode
    if type_.name == "binary":
        return lambda data: data.ljust(type_.length or 1, b"\0")
    return parse_text(type_)


def described(column_type: str) -> str:
    """A type of information_schema's `COLUMN_TYPE`, in the form of `_expected`."""
    text = column_type.lower()
    found = FIRST.match(text)
    name = (found[0] if found else text).removesuffix(" zerofill").removesuffix(" unsigned").strip()
    name = NAMES.get(name, name)
    numbers = NUMBERS.search(text) if name not in ("enum", "set") else None
    if name in GEOMETRIES:
        return "geometry"
    if name in ("tinyint", "smallint", "mediumint", "int", "bigint"):
        return name + (" unsigned" if " unsigned" in text else "")
    if name in ("enum", "set"):
        return name + column_type[len(name) :]
    if name == "decimal":
        return f"decimal({numbers[1]},{numbers[2] or 0})" if numbers else "decimal(10,0)"
    if name in ("timestamp", "datetime", "time", "bit", "binary"):
        return f"{name}({numbers[1] if numbers else 1 if name in ('bit', 'binary') else 0})"
    return name


def _expected(type_: SqlType) -> str:
    if type_.name in ("enum", "set"):
        members = ",".join("'" + member.replace("'", "''") + "'" for member in type_.members)
        return f"{type_.name}({members})"
    return expected(type_)


def _other_collation(number: int, type_: SqlType) -> str | None:
    """Another one than the column's, by which its bytes are other characters, or compare otherwise."""
    if not number or type_.collation is None or not type_.is_string or type_.name in ("enum", "set"):
        return None
    try:
        told = str(charset_by_id(number).collation)  # type: ignore[attr-defined]  # missing in the stubs
    except KeyError:  # newer than the list
        return None
    told = "utf8mb3_" + told.removeprefix("utf8_") if told.startswith("utf8_") else told
    return told if told != type_.collation.lower() else None


def _bit(data: bytes) -> Value:
    return int.from_bytes(data, "big")
