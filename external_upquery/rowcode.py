"""Row decoders: functions generated for one tuple of column kinds, from packets of text rows to canonical values.

The generated loop walks the packets in place, without an object per packet or column, because decoding is most of a
large answer's cost on the event loop. `sqltypes/schema.py` lists the canonical values.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from typing import Any

from pymysql.constants import FIELD_TYPE, FLAG

from external_upquery.columns import BINARY_CHARSET, VECTOR_TYPE, RawColumn, length_encoded
from sqltypes.expression import Row

BINARY32 = struct.Struct("<f")
WIDE = 64  # columns, from which on they are decoded one by one
NO_ROW = 0xFE  # a packet's first byte, from which on it is none
MULTI_PACKET = 0xFFFFFF  # a packet of this size goes on in the next one

# Decodes the whole packets in data[position:end] and returns the position of the first one that it left: an
# incomplete packet, one that goes on in the next, or one that is not a row.
DecodeRows = Callable[[bytes, int, int, Callable[[Row], None]], int]
DecodeRow = Callable[[bytes], Row]


def binary32(text: bytes) -> float:
    """`sqltypes.values.binary32`; but Spark's executors are sent few files (`bulk/session.py`), and not that one."""
    value: float = BINARY32.unpack(BINARY32.pack(float(text)))[0]
    return value


def unfilled(text: bytes) -> bytes:
    """A number without the zeros that ZEROFILL has put before it, and before its sign too: `0000-0` is minus zero."""
    return text.lstrip(b"0") or b"0"


def microseconds(text: bytes) -> int:
    """TIME as MySQL prints it (`[-]h+:mm:ss[.f+]`) in microseconds."""
    clock, _, fraction = text.partition(b".")
    hours, minutes, seconds = clock.split(b":")
    whole = (abs(int(hours)) * 60 + int(minutes)) * 60 + int(seconds)
    total = whole * 1_000_000 + (int(fraction.ljust(6, b"0")) if fraction else 0)
    return -total if text.startswith(b"-") else total


# kind -> expression of the bytes `d[s:q]`
CONVERSIONS = {
    "int": "int(d[s:q])",
    "decimal": "Decimal(d[s:q].decode())",
    "double": "float(d[s:q])",
    "float": "binary32(d[s:q])",
    "double zerofill": "float(unfilled(d[s:q]))",
    "float zerofill": "binary32(unfilled(d[s:q]))",
    "time": "microseconds(d[s:q])",
    "bit": "from_bytes(d[s:q], 'big')",
    "text": "d[s:q].decode()",
    "bytes": "d[s:q]",
}
_NAMES: dict[str, Any] = {
    "Decimal": Decimal,
    "binary32": binary32,
    "unfilled": unfilled,
    "microseconds": microseconds,
    "from_bytes": int.from_bytes,
    "length_encoded": length_encoded,
}
LONG_KINDS = frozenset({"text", "bytes"})  # the others never need more than 250 bytes
CODES = {
    FIELD_TYPE.TINY: "int",
    FIELD_TYPE.SHORT: "int",
    FIELD_TYPE.INT24: "int",
    FIELD_TYPE.LONG: "int",
    FIELD_TYPE.LONGLONG: "int",
    FIELD_TYPE.YEAR: "int",
    FIELD_TYPE.DECIMAL: "decimal",
    FIELD_TYPE.NEWDECIMAL: "decimal",
    FIELD_TYPE.DOUBLE: "double",
    FIELD_TYPE.FLOAT: "float",
    FIELD_TYPE.TIME: "time",
    FIELD_TYPE.BIT: "bit",
    FIELD_TYPE.DATE: "text",
    FIELD_TYPE.NEWDATE: "text",
    FIELD_TYPE.DATETIME: "text",
    FIELD_TYPE.TIMESTAMP: "text",
    FIELD_TYPE.JSON: "text",
    FIELD_TYPE.GEOMETRY: "bytes",
    VECTOR_TYPE: "bytes",
}


def kind_of(raw: RawColumn) -> str:
    """How a column's text becomes its canonical value: a key of CONVERSIONS."""
    kind = CODES.get(raw.code)
    if kind is None:
        return "bytes" if raw.charset == BINARY_CHARSET else "text"
    return f"{kind} zerofill" if kind in ("double", "float") and raw.flags & FLAG.ZEROFILL else kind


def row_decoders(kinds: tuple[str, ...]) -> tuple[DecodeRows, DecodeRow]:
    """(decoder of packets in a buffer, decoder of one row's payload) for these kinds of columns. Of many columns none
    are generated: that takes 0.1 ms a column, in one step."""
    return _generated(kinds) if len(kinds) <= WIDE else _by_column(kinds)


def _by_column(kinds: tuple[str, ...]) -> tuple[DecodeRows, DecodeRow]:
    """As `_generated`, with a call for each value."""
    readers = [_reader(kind) for kind in kinds]

    def row_at(d: bytes, q: int) -> Row:
        row = []
        for read in readers:
            value, q = read(d, q)
            row.append(value)
        return tuple(row)

    def decode_rows(d: bytes, p: int, end: int, append: Callable[[Row], None]) -> int:
        while p + 4 < end:
            n = d[p] | d[p + 1] << 8 | d[p + 2] << 16
            if p + 4 + n > end or n == MULTI_PACKET or d[p + 4] >= NO_ROW:
                return p
            append(row_at(d, p + 4))
            p += 4 + n
        return p

    return decode_rows, lambda d: row_at(d, 0)


@lru_cache(maxsize=32)
def _reader(kind: str) -> Callable[[bytes, int], tuple[Any, int]]:
    """(the value of a column of this kind in `d` at `q`, where the next one begins)."""
    lines = ["def read(d, q):", *("    " + line for line in _column_lines("value", kind)), "    return value, q"]
    scope = dict(_NAMES)
    exec("\n".join(lines), scope)
    return scope["read"]  # type: ignore[no-any-return]  # made by exec


@lru_cache(maxsize=1024)
def _generated(kinds: tuple[str, ...]) -> tuple[DecodeRows, DecodeRow]:
    names = [f"c{index}" for index in range(len(kinds))]
    row = ", ".join(names) + ","
    columns = [line for name, kind in zip(names, kinds, strict=True) for line in _column_lines(name, kind)]
    source = [
        "def decode_rows(d, p, end, append):",
        "    while p + 4 < end:",
        "        n = d[p] | d[p + 1] << 8 | d[p + 2] << 16",
        "        q = p + 4",
        "        e = q + n",
        # No row begins with 0xFE below 16 MB: there it is the size of a string of more, or the end of the rows.
        f"        if e > end or n == {MULTI_PACKET} or d[q] >= {NO_ROW}: return p",
        *("        " + line for line in columns),
        f"        append(({row}))",
        "        p = e",
        "    return p",
        "def decode_row(d):",
        "    q = 0",
        *("    " + line for line in columns),
        f"    return ({row})",
    ]
    names_in_scope = dict(_NAMES)
    exec("\n".join(source), names_in_scope)
    return names_in_scope["decode_rows"], names_in_scope["decode_row"]


def _column_lines(name: str, kind: str) -> list[str]:
    conversion = f"{name} = {CONVERSIONS[kind]}"
    lines = ["n = d[q]", f"if n < 251: s = q + 1; q = s + n; {conversion}"]
    if kind in LONG_KINDS:
        lines += [f"elif n == 251: {name} = None; q += 1", f"else: s, q = length_encoded(d, q); {conversion}"]
    else:
        lines += [f"else: {name} = None; q += 1"]
    return lines
