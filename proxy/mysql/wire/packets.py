"""The vocabulary of MySQL's client/server protocol: numbers and the small packets, encoded and decoded. Pure.

A packet is a header (3 bytes of length, little endian, and a sequence number) and a payload; a payload of 16 MB less
one byte goes on in the next packet. Whoever reads a client's bytes gets `Malformed` for what is no such thing.
https://dev.mysql.com/doc/dev/mysql-server/latest/PAGE_PROTOCOL.html
"""

from __future__ import annotations

from dataclasses import dataclass

LARGEST = 0xFFFFFF  # payload bytes of one packet

# -- commands ----------------------------------------------------------------------------------------------------------

COM_QUIT = 0x01
COM_INIT_DB = 0x02
COM_QUERY = 0x03
COM_FIELD_LIST = 0x04
COM_STATISTICS = 0x09
COM_PROCESS_KILL = 0x0C
COM_DEBUG = 0x0D
COM_PING = 0x0E
COM_CHANGE_USER = 0x11
COM_BINLOG_DUMP = 0x12
COM_STMT_PREPARE = 0x16
COM_STMT_EXECUTE = 0x17
COM_STMT_SEND_LONG_DATA = 0x18
COM_STMT_CLOSE = 0x19
COM_STMT_RESET = 0x1A
COM_SET_OPTION = 0x1B
COM_STMT_FETCH = 0x1C
COM_BINLOG_DUMP_GTID = 0x1E
COM_RESET_CONNECTION = 0x1F

# -- capabilities ------------------------------------------------------------------------------------------------------

CLIENT_CONNECT_WITH_DB = 1 << 3
CLIENT_COMPRESS = 1 << 5
CLIENT_LOCAL_FILES = 1 << 7
CLIENT_PROTOCOL_41 = 1 << 9
CLIENT_SSL = 1 << 11
CLIENT_TRANSACTIONS = 1 << 13
CLIENT_SECURE_CONNECTION = 1 << 15
CLIENT_MULTI_STATEMENTS = 1 << 16
CLIENT_MULTI_RESULTS = 1 << 17
CLIENT_PS_MULTI_RESULTS = 1 << 18
CLIENT_PLUGIN_AUTH = 1 << 19
CLIENT_CONNECT_ATTRS = 1 << 20
CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA = 1 << 21
CLIENT_SESSION_TRACK = 1 << 23
CLIENT_DEPRECATE_EOF = 1 << 24
CLIENT_OPTIONAL_RESULTSET_METADATA = 1 << 25
CLIENT_ZSTD_COMPRESSION_ALGORITHM = 1 << 26
CLIENT_QUERY_ATTRIBUTES = 1 << 27

# -- status flags ------------------------------------------------------------------------------------------------------

STATUS_IN_TRANS = 0x0001
STATUS_AUTOCOMMIT = 0x0002
STATUS_MORE_RESULTS = 0x0008
STATUS_CURSOR_EXISTS = 0x0040
STATUS_NO_BACKSLASH_ESCAPES = 0x0200
STATUS_PS_OUT_PARAMS = 0x1000
STATUS_IN_TRANS_READONLY = 0x2000
STATUS_SESSION_STATE_CHANGED = 0x4000
PLAIN_STATUS = STATUS_AUTOCOMMIT  # and in no transaction: what stored answers end with
STATUS_OF_SESSION = STATUS_IN_TRANS | STATUS_AUTOCOMMIT | STATUS_NO_BACKSLASH_ESCAPES | STATUS_IN_TRANS_READONLY
"""The flags that go on from one answer to the next; the others are of one answer."""

# -- first bytes of answers --------------------------------------------------------------------------------------------

OK, MORE_AUTH, NEXT_FACTOR, LOCAL_INFILE, EOF, ERR = 0x00, 0x01, 0x02, 0xFB, 0xFE, 0xFF


class Malformed(Exception):
    """Bytes that are not what the protocol says must be here."""


def lenenc_int(number: int) -> bytes:
    """A length-encoded integer."""
    if number < 0xFB:
        return bytes((number,))
    if number < 1 << 16:
        return b"\xfc" + number.to_bytes(2, "little")
    if number < 1 << 24:
        return b"\xfd" + number.to_bytes(3, "little")
    return b"\xfe" + number.to_bytes(8, "little")


def lenenc(text: bytes) -> bytes:
    """A length-encoded string."""
    return lenenc_int(len(text)) + text


def read_lenenc_int(data: bytes, at: int) -> tuple[int, int]:
    """(number, position behind it). Raises Malformed."""
    try:
        first = data[at]
        if first < 0xFB:
            return first, at + 1
        end = at + 1 + {0xFC: 2, 0xFD: 3, 0xFE: 8}[first]
    except (IndexError, KeyError):
        raise Malformed(f"no length-encoded integer at byte {at} of {len(data)}") from None
    if end > len(data):
        raise Malformed(f"a length-encoded integer at byte {at} is cut off")
    return int.from_bytes(data[at + 1 : end], "little"), end


def read_lenenc(data: bytes, at: int) -> tuple[bytes, int]:
    """(string, position behind it). Raises Malformed."""
    size, start = read_lenenc_int(data, at)
    if start + size > len(data):
        raise Malformed(f"a string of {size} bytes at byte {at} is cut off")
    return data[start : start + size], start + size


def read_null_terminated(data: bytes, at: int) -> tuple[bytes, int]:
    """(string, position behind its zero byte). Raises Malformed."""
    end = data.find(b"\0", at)
    if end < 0:
        raise Malformed(f"a string at byte {at} has no end")
    return data[at:end], end + 1


def count_packets(data: bytes) -> int:
    """How many whole packets these bytes are."""
    count = at = 0
    while at < len(data):
        at += 4 + int.from_bytes(data[at : at + 3], "little")
        count += 1
    return count


def packet(payload: bytes, sequence: int) -> bytes:
    """The payload as one packet, or as several where it is too large for one."""
    size = len(payload)
    if size < LARGEST:
        return size.to_bytes(3, "little") + bytes((sequence & 0xFF,)) + payload
    pieces = []
    for number, start in enumerate(range(0, size + 1, LARGEST)):
        piece = payload[start : start + LARGEST]
        pieces.append(len(piece).to_bytes(3, "little") + bytes(((sequence + number) & 0xFF,)) + piece)
    return b"".join(pieces)


def ok_payload(status: int, *, warnings: int = 0, affected: int = 0, insert_id: int = 0) -> bytes:
    return (
        b"\0"
        + lenenc_int(affected)
        + lenenc_int(insert_id)
        + status.to_bytes(2, "little")
        + warnings.to_bytes(2, "little")
    )


def end_payload(status: int, *, deprecate_eof: bool) -> bytes:
    """What ends columns and rows: an EOF packet, or an OK packet with EOF's first byte. There are no warnings."""
    two = status.to_bytes(2, "little")
    return b"\xfe\0\0" + two + b"\0\0" if deprecate_eof else b"\xfe\0\0" + two


def error_payload(errno: int, sqlstate: str, message: str) -> bytes:
    return b"\xff" + errno.to_bytes(2, "little") + b"#" + sqlstate.encode() + message.encode()


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    errno: int
    sqlstate: str
    message: str


def parse_error(payload: bytes) -> ErrorAnswer:
    """An ERR packet. Before the handshake is over there is no SQLSTATE in it."""
    errno = int.from_bytes(payload[1:3], "little")
    if payload[3:4] == b"#":
        return ErrorAnswer(errno, payload[4:9].decode("ascii", "replace"), payload[9:].decode("utf-8", "replace"))
    return ErrorAnswer(errno, "HY000", payload[3:].decode("utf-8", "replace"))


@dataclass(frozen=True, slots=True)
class OkAnswer:
    """An OK packet; `state` is the session-state information as it came, b"" where there is none."""

    affected: int
    insert_id: int
    status: int
    warnings: int
    info: bytes = b""
    state: bytes = b""


def parse_ok(payload: bytes, *, session_track: bool) -> OkAnswer:
    """An OK packet, also one with EOF's first byte. Raises Malformed."""
    affected, at = read_lenenc_int(payload, 1)
    insert_id, at = read_lenenc_int(payload, at)
    status = int.from_bytes(payload[at : at + 2], "little")
    warnings = int.from_bytes(payload[at + 2 : at + 4], "little")
    at += 4
    info = state = b""
    if at < len(payload):
        info, at = read_lenenc(payload, at)
    if session_track and status & STATUS_SESSION_STATE_CHANGED and at < len(payload):
        state, at = read_lenenc(payload, at)
    return OkAnswer(affected, insert_id, status, warnings, info, state)


def ok_bytes(answer: OkAnswer, first: int, *, session_track: bool) -> bytes:
    """The payload of an OK packet with this first byte (OK or EOF), as MySQL writes it."""
    status = answer.status if answer.state and session_track else answer.status & ~STATUS_SESSION_STATE_CHANGED
    head = (
        bytes((first,))
        + ok_payload(status, warnings=answer.warnings, affected=answer.affected, insert_id=answer.insert_id)[1:]
    )
    if answer.info or (answer.state and session_track):
        head += lenenc(answer.info)  # the protocol's pages say otherwise of clients that do not track sessions
    return head + (lenenc(answer.state) if answer.state and session_track else b"")
