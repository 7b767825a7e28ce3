"""Transactions of the commonest shape, recognised as a whole: GTID, BEGIN, TABLE_MAP, one event of rows, XID. Pure.

In a transaction of one row, most of the cost is in the events around the row. If all five are in the buffer, one look
at their headers replaces five passes through the assembler.
"""

from __future__ import annotations

import struct

from vstream.binlog.events import DELETE_ROWS, HEADER, QUERY, TABLE_MAP, UPDATE_ROWS, WRITE_ROWS, XID

_FRONT = struct.Struct("<IB4xB")  # a packet's length and sequence; its first byte, 0 for an event; the event's type
_BODY = 5 + HEADER  # from a packet's beginning to its event's body
_ROWS = frozenset({WRITE_ROWS, UPDATE_ROWS, DELETE_ROWS})
_BEGIN = b"\0BEGIN"
_LARGEST = 0xFFFFFF  # no packet of a transaction that is not larger goes on in a next one

# (TABLE_MAP's body: start, end; the kind of rows, their body: start, end; where the packet behind the XID begins)
Whole = tuple[int, int, int, int, int, int]


def whole_transaction(data: bytes, at: int, checksum: int) -> Whole | None:
    """What follows a GTID event, whose packet ends at `at`, if it is of the shape and in the buffer to its end.

    `checksum`: bytes behind each event.
    """
    started = at
    front = _FRONT.unpack_from
    try:
        length, status, kind = front(data, at)
        at += 4 + (length & 0xFFFFFF)
        end = at - checksum
        if kind != QUERY or status or data[end - 6 : end] != _BEGIN:
            return None
        length, status, kind = front(data, at)
        if kind != TABLE_MAP or status:
            return None
        map_at = at + _BODY
        at += 4 + (length & 0xFFFFFF)
        map_end = at - checksum
        length, status, rows = front(data, at)
        if rows not in _ROWS or status:
            return None
        rows_at = at + _BODY
        at += 4 + (length & 0xFFFFFF)
        rows_end = at - checksum
        length, status, kind = front(data, at)
    except struct.error:  # beyond the buffer
        return None
    at += 4 + (length & 0xFFFFFF)
    if kind != XID or status or at > len(data) or at - started > _LARGEST:
        return None
    return map_at, map_end, rows, rows_at, rows_end, at
