"""The types and values of an execution's parameters, and of a query's attributes, from their bytes. Pure.

https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_binary_resultset.html
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from operator import or_

from proxy.mysql.wire.packets import Malformed, read_lenenc, read_lenenc_int
from sqltypes.expression import Value
from sqltypes.parameters import Moment
from sqltypes.temporal import time_literal

UNSIGNED = 0x8000  # of a type
NULL_TYPE = 0x06

_DECIMAL = re.compile(rb"[ ]*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,4})?[ ]*")
_INT8, _INT16, _INT32, _INT64 = struct.Struct("<b"), struct.Struct("<h"), struct.Struct("<i"), struct.Struct("<q")
_UINT8, _UINT16, _UINT32, _UINT64 = struct.Struct("<B"), struct.Struct("<H"), struct.Struct("<I"), struct.Struct("<Q")

Reader = Callable[[bytes, int], tuple[Value, int]]


class Undecoded(bytes):
    """A string that is no UTF-8, as drivers bind what a BINARY column is to equal: its bytes, which stay the same where
    the session does not convert strings."""

    __slots__ = ()


class NotDecoded(Exception):
    """Parameters whose meaning is left to MySQL. The text says why."""


def _number(form: struct.Struct) -> Reader:
    def read(data: bytes, at: int) -> tuple[Value, int]:
        try:
            return form.unpack_from(data, at)[0], at + form.size
        except struct.error:
            raise Malformed(f"a parameter at byte {at} of {len(data)} is cut off") from None

    return read


def _text(data: bytes, at: int) -> tuple[Value, int]:
    raw, at = read_lenenc(data, at)
    try:
        return raw.decode(), at
    except UnicodeDecodeError:
        return Undecoded(raw), at


def _decimal(data: bytes, at: int) -> tuple[Value, int]:
    raw, at = read_lenenc(data, at)
    if _DECIMAL.fullmatch(raw) is None:  # Python takes 1_0, too
        raise NotDecoded("a decimal parameter is no number")
    return Decimal(raw.decode("ascii")), at


def _moment(data: bytes, at: int) -> tuple[Value, int]:
    """DATE, DATETIME and TIMESTAMP, as the literal that MySQL would compare."""
    raw, at = read_lenenc(data, at)
    if len(raw) not in (0, 4, 7, 11):
        raise Malformed(f"a date of {len(raw)} bytes")
    raw = raw.ljust(11, b"\0")
    year, micro = int.from_bytes(raw[:2], "little"), int.from_bytes(raw[7:11], "little")
    text = f"{year:04}-{raw[2]:02}-{raw[3]:02} {raw[4]:02}:{raw[5]:02}:{raw[6]:02}"
    return Moment(f"{text}.{micro:06}" if micro else text), at


def _date(data: bytes, at: int) -> tuple[Value, int]:
    if data[at : at + 1] != b"\4":  # newer servers take nothing else
        raise NotDecoded("a DATE without a date, or with a time of day")
    text, at = _moment(data, at)
    assert isinstance(text, str)
    return Moment(text[:10]), at


def _time(data: bytes, at: int) -> tuple[Value, int]:
    raw, at = read_lenenc(data, at)
    if len(raw) not in (0, 8, 12):
        raise Malformed(f"a time of {len(raw)} bytes")
    if len(raw) == 12:  # it depends on the column's digits whether they count
        raise NotDecoded("a TIME with microseconds")
    raw = raw.ljust(8, b"\0")
    days = int.from_bytes(raw[1:5], "little")
    total = (((days * 24 + raw[5]) * 60 + raw[6]) * 60 + raw[7]) * 1_000_000
    return Moment(time_literal(-total if raw[0] else total)), at


def _bytes(data: bytes, at: int) -> tuple[Value, int]:
    return read_lenenc(data, at)


# MySQL's type codes of parameters -> how their values are read. Of MEDIUMINT and YEAR no client binds one, and newer
# servers refuse them.
READERS: dict[int, Reader] = {
    0x01: _number(_INT8),
    0x02: _number(_INT16),
    0x03: _number(_INT32),
    0x08: _number(_INT64),
    0x01 | UNSIGNED: _number(_UINT8),
    0x02 | UNSIGNED: _number(_UINT16),
    0x03 | UNSIGNED: _number(_UINT32),
    0x08 | UNSIGNED: _number(_UINT64),
    0x05: _number(struct.Struct("<d")),
    0x07: _moment,
    0x0C: _moment,
    0x0A: _date,
    0x0B: _time,
    0x0F: _text,
    0xFD: _text,
    0xFE: _text,
    0x00: _decimal,
    0xF6: _decimal,
    0xF9: _bytes,
    0xFA: _bytes,
    0xFB: _bytes,
    0xFC: _bytes,
}


def read_types(payload: bytes, at: int, count: int, *, named: bool) -> tuple[tuple[int, ...], int]:
    """(the types of `count` parameters, the position behind them). Raises Malformed."""
    if at + 2 * count > len(payload):
        raise Malformed("the types of parameters are cut off")
    quick = _quick_types(payload, at, count, named)
    if quick is not None:
        return quick, at + (3 if named else 2) * count
    types = []
    for _ in range(count):
        types.append(int.from_bytes(payload[at : at + 2], "little"))
        at += 2
        if named:
            _, at = read_lenenc(payload, at)
    return tuple(types), at


def _quick_types(payload: bytes, at: int, count: int, named: bool) -> tuple[int, ...] | None:
    """Of parameters without names, as clients send them; None where one has a name."""
    if not named:
        return struct.unpack_from(f"<{count}H", payload, at)
    end = at + 3 * count
    if payload[at + 2 : end : 3] != bytes(count):
        return None
    low, high = payload[at:end:3], payload[at + 1 : end : 3]
    return tuple(low) if not any(high) else tuple(map(or_, low, map((256).__mul__, high)))


_WIDTHS = {0x01: 1, 0x02: 2, 0x0D: 2, 0x03: 4, 0x09: 4, 0x04: 4, 0x05: 8, 0x08: 8, NULL_TYPE: 0}


def text_at(payload: bytes) -> int:
    """Where the text of a COM_QUERY begins, behind its attributes. `payload`: without the command's byte. Raises
    Malformed.

    https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_query.html
    """
    count, at = read_lenenc_int(payload, 0)
    sets, at = read_lenenc_int(payload, at)
    if not count:
        return at
    nulls = payload[at : at + (count + 7 >> 3)]
    at += count + 7 >> 3
    if sets != 1 or payload[at : at + 1] != b"\1":
        raise Malformed("attributes of a query without their types")
    types, at = read_types(payload, at + 1, count, named=True)
    return behind_values(payload, at, types, nulls)


def behind_values(payload: bytes, at: int, types: Sequence[int], nulls: bytes, first: int = 0) -> int:
    """The position behind values of these types, of which the first has this number among all. Raises Malformed."""
    for number, type_ in enumerate(types, first):
        if nulls[number >> 3] >> (number & 7) & 1:
            continue
        width = _WIDTHS.get(type_ & 0xFF)
        if width is None:
            _, at = read_lenenc(payload, at)
        else:
            at += width
    if at > len(payload):
        raise Malformed("the attributes of a query are cut off")
    return at
