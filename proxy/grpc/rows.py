"""Rows and columns as protobuf bytes, without building messages.

Promises: `encoder_for(columns)(rows)` is byte for byte the serialisation of a message with `repeated Row rows = 1`
holding those rows, so answers are joined by writing one after the other. One function is generated per tuple of column
types: protobuf's own classes take some ten times as long for a row. Called by the system behind the listeners, once per
answer and wire format; a hit only copies the bytes.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from functools import lru_cache

from proxy.loop.memo import Memo
from proxy.loop.slices import Encoder
from sqltypes.errors import InvariantViolated
from sqltypes.expression import Row
from sqltypes.schema import ResultColumn, SqlType
from upwell.v1 import upwell_pb2 as pb

FORMAT = "grpc"
"""The name under which this encoder is registered with the system."""


def varint(number: int) -> bytes:
    """Base-128 varint of a non-negative integer."""
    if number < 0 or number >> 64:
        raise ValueError(f"{number} is not an unsigned 64-bit integer")
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def zigzag(number: int) -> int:
    """The unsigned integer that stands for a signed one in sint64 fields."""
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError(f"{number} is not a signed 64-bit integer")
    return number * 2 if number >= 0 else -number * 2 - 1


def length_delimited(tag: int) -> Memo[int]:
    """Heads of a length-delimited field with this one-byte tag."""
    return Memo(lambda length: bytes([tag]) + varint(length))


def _value_heads(field: int) -> Memo[int]:
    """Heads of a string or bytes payload: Row.values (field 1) holding a Value whose `field` is the payload."""

    def head(length: int) -> bytes:
        inner = bytes([field << 3 | 2]) + varint(length)
        return b"\x0a" + varint(len(inner) + length) + inner

    return Memo(head)


def _integers(field: int, number: Callable[[int], int]) -> Memo[int | None]:
    """The whole encoding of NULL and of integers."""

    def encode(value: int | None) -> bytes:
        if value is None:
            return NULL
        inner = bytes([field << 3]) + varint(number(value))
        return b"\x0a" + varint(len(inner)) + inner

    memo = Memo(encode)
    memo[None] = NULL  # however many integers come first
    return memo


WIDE = 64  # columns, from which on they are encoded one by one
NULL = b"\x0a\x02\x08\x00"
_ROW = length_delimited(0x0A)
_DOUBLE = struct.Struct("<d").pack

# Kind of value on the wire -> (names for the generated code, expression that encodes the variable {v}).
_TEXT = "(NULL if {v} is None else {k}[len(b := {v}.encode())] + b)"
_CODE: dict[str, str] = {
    "null": "NULLS[{v}]",
    "int": "INT[{v}]",
    "uint": "UINT[{v}]",
    "time": "TIME[{v}]",
    "double": "(NULL if {v} is None else b'\\x0a\\x09\\x21' + DOUBLE({v}))",
    "bytes": "(NULL if {v} is None else bytes_[len({v})] + {v})",
    "decimal": "(NULL if {v} is None else decimal[len(b := format({v}, 'f').encode())] + b)",
    **{kind: _TEXT.replace("{k}", kind) for kind in ("string", "date", "datetime", "timestamp", "json")},
}
_NAMES: dict[str, object] = {
    "NULL": NULL,
    "NULLS": {None: NULL},
    "INT": _integers(2, zigzag),
    "UINT": _integers(3, lambda value: value),
    "TIME": _integers(11, zigzag),
    "DOUBLE": _DOUBLE,
    "ROW": _ROW,
    "string": _value_heads(5),
    "bytes_": _value_heads(6),
    "decimal": _value_heads(7),
    "date": _value_heads(8),
    "datetime": _value_heads(9),
    "timestamp": _value_heads(10),
    "json": _value_heads(12),
}


def value_kind(type: SqlType) -> str:
    """Which field of `Value` carries the values of a type."""
    if type.name == "bit" or (type.is_integer and type.unsigned):
        return "uint"
    if type.is_integer:
        return "int"
    if type.is_approximate:
        return "double"
    if type.is_string:
        return "string"
    if type.is_binary:
        return "bytes"
    if type.name in ("decimal", "date", "datetime", "timestamp", "time", "json", "null"):
        return type.name
    raise InvariantViolated(f"no wire form for columns of type {type.name!r}")


def _encoder_of_kinds(kinds: tuple[str, ...]) -> Encoder:
    """Of many columns none is generated: that takes 0.02 ms a column, in one step."""
    return (_generated if len(kinds) <= WIDE else _by_column)(kinds)


def _by_column(kinds: tuple[str, ...]) -> Encoder:
    """As `_generated`, with a call for each value."""
    encoders = [_one(kind) for kind in kinds]

    def encode(rows: Sequence[Row]) -> bytes:
        out: list[bytes] = []
        for values in rows:
            row = b"".join([encoded(value) for encoded, value in zip(encoders, values, strict=True)])
            out += _ROW[len(row)], row
        return b"".join(out)

    return encode


@lru_cache(maxsize=32)
def _one(kind: str) -> Callable[[object], bytes]:
    """The encoder of one value."""
    code = _CODE[kind].format(v="v")
    made: Callable[[object], bytes] = eval(f"lambda v: {code}", dict(_NAMES))  # of nothing but names from above
    return made


@lru_cache(maxsize=1024)
def _generated(kinds: tuple[str, ...]) -> Encoder:
    names = [f"c{index}" for index in range(len(kinds))]
    pieces = "".join(_CODE[kind].format(v=name) + ", " for name, kind in zip(names, kinds, strict=True))
    source = (
        "def encode(rows):\n"
        "    out = []\n"
        f"    for ({''.join(name + ', ' for name in names)}) in rows:\n"
        f"        row = join(({pieces}))\n"
        "        out.append(ROW[len(row)] + row)\n"
        "    return join(out)\n"
    )
    scope: dict[str, object] = {**_NAMES, "join": b"".join}
    exec(
        compile(source, f"<encoder of {', '.join(kinds)}>", "exec"), scope
    )  # the text holds nothing but names from above
    encode: Encoder = scope["encode"]  # type: ignore[assignment]  # made by exec: mypy sees an object
    return encode


def encoder_for(columns: tuple[ResultColumn, ...]) -> Encoder:
    """The encoder of rows of these columns. It raises InvariantViolated for a value that is not of its column's
    canonical form.
    """
    generated = _encoder_of_kinds(tuple(value_kind(column.type) for column in columns))

    def encode(rows: Sequence[Row]) -> bytes:
        try:
            return generated(rows)
        except (AttributeError, TypeError, ValueError, KeyError, struct.error) as error:
            names = ", ".join(f"{column.name} {column.type.name}" for column in columns)
            raise InvariantViolated(f"a row does not fit its columns ({names}): {error}") from error

    return encode


@lru_cache(maxsize=1024)
def type_message(type: SqlType) -> pb.Type:
    """Not to be changed: it is kept. As a field of another message it is copied."""
    return pb.Type(
        name=type.name,
        unsigned=type.unsigned,
        length=type.length,
        precision=type.precision,
        scale=type.scale,
        collation=type.collation or "",
        members=type.members,
    )


def column_messages(columns: Sequence[ResultColumn]) -> list[pb.Column]:
    return [
        pb.Column(name=column.name, type=type_message(column.type), nullable=column.nullable, table=column.table)
        for column in columns
    ]


def columns_id(messages: Sequence[pb.Column], before: int = 0) -> int:
    """A 32-bit name for a tuple of columns; equal columns have equal ids, and none has 0. `before`: the name of those
    in front of them, where they are named in pieces."""
    return zlib.crc32(pb.Cache(columns=messages).SerializeToString(deterministic=True), before) or 1
