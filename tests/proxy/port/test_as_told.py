"""Packets as a session was told them become values, and MySQL's likewise."""

from __future__ import annotations

import struct

import pytest

from external_upquery.columns import RawColumn
from external_upquery.mysql.other_session import Settings
from proxy.mysql.wire.packets import lenenc, packet
from proxy.port.as_told import AsTold, shown
from sqltypes.schema import BIGINT, DOUBLE, ResultColumn, SqlType

TEXT = SqlType("varchar", collation="utf8mb4_0900_ai_ci")
PLANNED = tuple(
    ResultColumn(name, type_, True)
    for name, type_ in (("i", BIGINT), ("s", TEXT), ("x", DOUBLE), ("d", SqlType("datetime")))
)
COLUMNS = [
    RawColumn(name, "t", code, 0, charset, 20, 0)
    for name, code, charset in (("i", 8, 63), ("s", 253, 255), ("x", 5, 63), ("d", 12, 63))
]
DAY = struct.pack("<HBB", 2024, 3, 2)


def told(rows: list[bytes], execution: bytes = b"", results: str = "utf8mb4") -> AsTold:
    packets = [packet(payload, number) for number, payload in enumerate((*rows, b"\xfe\0\0\2\0\0\0"))]
    return AsTold(Settings((), ()), b"SELECT 1", execution, "", b"", b"".join(packets), results)


def test_rows_of_the_text_protocol() -> None:
    row = lenenc(b"7") + lenenc("süß".encode()) + lenenc(b"1e20") + lenenc(b"2024-03-02 00:00:00")
    one = told([row, b"\xfb" * 4])
    assert one.payloads == [row, b"\xfb" * 4]
    (first, second) = one.rows(PLANNED, COLUMNS, one.payloads)
    assert first == (b"7", "süß", 1e20, b"2024-03-02 00:00:00") and second == (None,) * 4
    other = told([row.replace(lenenc(b"1e20"), lenenc(b"100000000000000000000"))])
    assert other.rows(PLANNED, COLUMNS, other.payloads) == [first], "the same number"
    assert shown([first]) != shown(other.rows(PLANNED, COLUMNS, other.payloads)), "written otherwise"


def test_rows_of_the_binary_protocol() -> None:
    row = b"\0\0" + struct.pack("<q", -7) + lenenc(b"a") + struct.pack("<d", 1.5) + b"\4" + DAY
    nulls = b"\0" + bytes([0b111100])
    one = told([row, nulls], execution=b"\0")
    assert one.rows(PLANNED, COLUMNS, one.payloads) == [(-7, "a", 1.5, DAY), (None,) * 4]


def test_characters_that_are_not_read_here_are_compared_as_packets() -> None:
    row = lenenc(b"7") + lenenc(b"s\xfc\xdf") + b"\xfb\xfb"
    one = told([row, b"\xfb" * 4], results="latin1")
    with pytest.raises(UnicodeDecodeError):
        one.rows(PLANNED, COLUMNS, one.payloads)
    assert one.same_packets([b"\xfb" * 4, row]) and not one.same_packets([row, row])
