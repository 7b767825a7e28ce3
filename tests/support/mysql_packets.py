"""What a MySQL server would send, packet by packet, for tests of decoders."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

MULTI = 0xFFFFFF
BINARY = 63
UTF8MB4 = 255


def packet(payload: bytes, sequence: int = 1) -> bytes:
    """A payload as packets, cut where it is 16 MB and more."""
    pieces = []
    for start in range(0, len(payload) + 1, MULTI):
        piece = payload[start : start + MULTI]
        pieces.append(len(piece).to_bytes(3, "little") + bytes((sequence & 0xFF,)) + piece)
        sequence += 1
        if len(piece) < MULTI:
            break
    return b"".join(pieces)


def length(value: int) -> bytes:
    if value < 0xFB:
        return bytes((value,))
    if value < 1 << 16:
        return b"\xfc" + value.to_bytes(2, "little")
    if value < 1 << 24:
        return b"\xfd" + value.to_bytes(3, "little")
    return b"\xfe" + value.to_bytes(8, "little")


def text(value: bytes | None) -> bytes:
    return b"\xfb" if value is None else length(len(value)) + value


def column(
    name: str, code: int, charset: int = BINARY, size: int = 20, flags: int = 0, decimals: int = 0, of: str = "shop.t"
) -> bytes:
    """`of`: the schema and the table that it is a column of; "." where it is computed."""
    schema, table = of.split(".")
    head = b"".join(text(part.encode()) for part in ("def", schema, table, table, name, name))
    return head + b"\x0c" + struct.pack("<HIBHB", charset, size, code, flags, decimals) + b"\0\0"


def ok(first: int = 0, affected: int = 0, status: int = 2) -> bytes:
    return bytes((first,)) + length(affected) + length(0) + struct.pack("<HH", status, 0)


def eof(status: int = 2) -> bytes:
    return b"\xfe" + struct.pack("<HH", 0, status)


def error(errno: int, sqlstate: str, message: str) -> bytes:
    return b"\xff" + struct.pack("<H", errno) + b"#" + sqlstate.encode() + message.encode()


def result_set(
    columns: Sequence[bytes],
    rows: Iterable[Sequence[bytes | None]],
    *,
    deprecate_eof: bool = True,
    status: int = 2,
    last: bytes | None = None,
) -> bytes:
    """A whole answer. `last`: the payload that ends it, where that is not the usual one."""
    middle = [] if deprecate_eof else [eof()]
    end = last or (ok(0xFE, status=status) if deprecate_eof else eof(status))
    payloads = [length(len(columns)), *columns, *middle, *(b"".join(map(text, row)) for row in rows), end]
    return b"".join(packet(payload, number + 1) for number, payload in enumerate(payloads))


def prepared(
    statement: int, columns: Sequence[bytes], parameters: Sequence[bytes], *, deprecate_eof: bool = True
) -> bytes:
    """The answer to COM_STMT_PREPARE."""
    payloads = [b"\0" + struct.pack("<IHHBH", statement, len(columns), len(parameters), 0, 0)]
    for group in (parameters, columns):
        if group:
            payloads += [*group, *([] if deprecate_eof else [eof()])]
    return b"".join(packet(payload, number + 1) for number, payload in enumerate(payloads))
