"""Binlog events that stand around the rows: GTIDs, statements, prepared XA transactions, compressed payloads. Pure.

An event is a header of 19 bytes (4 time, 1 type, 4 server id, 4 size, 4 position, 2 flags) and a body; the functions
here take the body's bounds inside a larger buffer.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

from gtid_tracker.gtid import Gtid
from vstream.binlog.layout import lenenc

HEADER = 19
SIZE_AT = 9  # where an event's size stands in its header
STOP, QUERY, ROTATE, INTVAR, FORMAT, XID, TABLE_MAP = 3, 2, 4, 5, 15, 16, 19
RAND, USER_VAR, INCIDENT, HEARTBEAT, IGNORABLE, ROWS_QUERY = 13, 14, 26, 27, 28, 29
WRITE_ROWS, UPDATE_ROWS, DELETE_ROWS, GTID, ANONYMOUS_GTID, PREVIOUS_GTIDS = 30, 31, 32, 33, 34, 35
TRANSACTION_CONTEXT, VIEW_CHANGE, XA_PREPARE, PARTIAL_UPDATE_ROWS, PAYLOAD, HEARTBEAT_V2, TAGGED_GTID = range(36, 43)
ROWS = (WRITE_ROWS, UPDATE_ROWS, DELETE_ROWS, PARTIAL_UPDATE_ROWS)
LOADS = (6, 8, 9, 10, 11, 12, 17, 18)  # LOAD DATA as a statement, in all its ages

# Flags of rows, in the byte behind the table's id.
ENDS_STATEMENT = 0x01
FOLLOWED = 0x12  # MySQL followed the foreign keys itself, and logs what that changed; or nobody follows any

_GTID = struct.Struct("<x16sQ17xQ")
_QUERY = struct.Struct("<8xBHH")
_XA = struct.Struct("<BIII")
_ORIGINAL = 1 << 55
_MICROSECONDS = (1 << 55) - 1
_UTF8_CLIENTS = frozenset({33, 45, 46, 76, 83, 192, 223, 224, 247, *range(224, 248), *range(255, 324)})
_NOT_ASCII = frozenset({10, 82})  # swe7, in which [ is a letter
# Lengths of the status variables that may stand before the client's character set; None: a length byte follows.
_STATUS_SIZES: dict[int, int | None] = {0: 4, 1: 8, 3: 4, 6: None}
_STATUS_MODE, _STATUS_CHARSET = 1, 4
# All that MySQL 8.0 to 9 writes there, with the lengths that are fixed; what is not among it ends the reading.
_ALL_STATUS_SIZES: dict[int, int | None] = _STATUS_SIZES | {
    4: 6, 5: None, 7: 2, 8: 2, 9: 8, 10: 4, 13: 3, 16: 1, 17: 8, 18: 2, 19: 1, 20: 1,
}  # fmt: skip
_INVOKER, _UPDATED_DATABASES = 11, 12
_TOO_MANY = 16  # databases; 254 stands for more, and where MySQL itself does not know


@lru_cache(1000)
def uuid_text(raw: bytes) -> str:
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def read_gtid(data: bytes, at: int) -> tuple[bytes, int, float]:
    """An untagged GTID event: (server's UUID as bytes, number, original commit time in seconds since the epoch)."""
    uuid, number, stamp = _GTID.unpack_from(data, at)
    if stamp & _ORIGINAL:
        stamp = int.from_bytes(data[at + 49 : at + 56], "little")
    return uuid, number, (stamp & _MICROSECONDS) / 1e6


def varint(data: bytes, at: int) -> tuple[int, int]:
    """An integer whose first byte's trailing ones count the bytes that follow; and where it ends."""
    first = data[at]
    more = 0
    while more < 8 and first >> more & 1:
        more += 1
    return int.from_bytes(data[at : at + more + 1], "little") >> min(more + 1, 8), at + more + 1


def read_tagged_gtid(data: bytes, at: int, end: int) -> tuple[Gtid, float]:
    """A tagged GTID event: numbered fields; (GTID, original commit time)."""
    _, at = varint(data, at)  # the format's version
    _, at = varint(data, at)  # the size
    _, at = varint(data, at)  # the last field that may not be ignored
    uuid, tag, number, immediate, original = b"", "", 0, 0, 0
    while at < end:
        field, at = varint(data, at)
        if field == 1:
            raw = bytearray()
            for _ in range(16):
                byte, at = varint(data, at)
                raw.append(byte)
            uuid = bytes(raw)
        elif field == 3:
            size, at = varint(data, at)
            tag = data[at : at + size].decode()
            at += size
        else:
            value, at = varint(data, at)
            if field == 2:
                number = value >> 1  # a signed number: the lowest bit is the sign
            elif field == 6:
                immediate = value
            elif field == 7:
                original = value
    if len(uuid) != 16 or number <= 0:
        raise ValueError("a tagged GTID event without a GTID")
    source = f"{uuid_text(uuid)}:{tag}" if tag else uuid_text(uuid)
    return Gtid(source, number), (original or immediate) / 1e6


def read_query(data: bytes, at: int, end: int) -> tuple[str, str | None, int | None]:
    """(default database, statement, the bits of its sql_mode) of a QUERY event; statement None: in a character set that
    is not read; sql_mode None: not told."""
    schema_size, _, status_size = _QUERY.unpack_from(data, at)
    at += 13
    status = data[at : at + status_size]
    at += status_size
    database = data[at : at + schema_size].decode()
    raw = data[at + schema_size + 1 : end]
    mode, collation = _mode_and_collation(status)
    if collation in _UTF8_CLIENTS or (raw.isascii() and collation not in _NOT_ASCII):
        with suppress(UnicodeDecodeError):
            return database, raw.decode(), mode
    return database, None, mode


def updated_databases(data: bytes, at: int) -> frozenset[str] | None:
    """The databases that a QUERY event's statement uses, by itself and by triggers and functions, as MySQL tells its
    own replicas, which change databases side by side. None where it does not tell: any database may be changed."""
    _, _, size = _QUERY.unpack_from(data, at)
    status = data[at + 13 : at + 13 + size]
    at = 0
    while at < len(status):
        code = status[at]
        if code == _UPDATED_DATABASES:
            count = status[at + 1]
            names = status[at + 2 :].split(b"\0")[:count]
            return frozenset(name.decode() for name in names) if 0 < count <= _TOO_MANY and all(names) else None
        if code == _INVOKER:
            at += 2 + status[at + 1]
            at += 1 + status[at]
            continue
        if code not in _ALL_STATUS_SIZES:
            return None
        length = _ALL_STATUS_SIZES[code]
        at += 1 + (status[at + 1] + 1 if length is None else length)
    return None


def _mode_and_collation(status: bytes) -> tuple[int | None, int | None]:
    """The bits of sql_mode and the number of character_set_client's collation, None where they are not told."""
    at, mode = 0, None
    while at < len(status):
        code = status[at]
        if code == _STATUS_MODE:
            mode = int.from_bytes(status[at + 1 : at + 9], "little")
        if code == _STATUS_CHARSET:
            return mode, int.from_bytes(status[at + 1 : at + 3], "little")
        if code not in _STATUS_SIZES:
            break
        size = _STATUS_SIZES[code]
        at += 1 + (status[at + 1] + 1 if size is None else size)
    return mode, None


def read_xa_prepare(data: bytes, at: int) -> tuple[bool, bytes]:
    """(one phase, xid as `normal_xid` writes it)."""
    one_phase, format_id, gtrid, bqual = _XA.unpack_from(data, at)
    at += _XA.size
    xid = f"X'{data[at : at + gtrid].hex()}',X'{data[at + gtrid : at + gtrid + bqual].hex()}',{format_id}"
    return bool(one_phase), xid.encode()


def normal_xid(written: bytes) -> bytes:
    """An xid of a statement in the binlog in one spelling: no spaces, small letters but for the X."""
    return b"".join(written.split()).lower().replace(b"x'", b"X'")


@dataclass(slots=True)
class Payload:
    """A compressed transaction's frame: where the compressed bytes are, and how."""

    start: int
    end: int
    compression: int


def read_payload(data: bytes, at: int, end: int) -> Payload:
    """Raises ValueError for a frame that cannot be read."""
    compression = 255
    while True:
        field, at = lenenc(data, at)
        if field == 0:
            return Payload(at, end, compression)
        size, at = lenenc(data, at)
        if field == 2:
            compression, _ = lenenc(data, at)
        at += size
        if at >= end:
            raise ValueError("a compressed transaction without its payload")
