"""Answers of a server, decoded from pieces of any size."""

from __future__ import annotations

import random
from decimal import Decimal

import pytest
from pymysql.constants import FIELD_TYPE

from external_upquery.protocol import (
    COM_QUERY,
    Answer,
    Answers,
    Done,
    Prepared,
    ProtocolBroken,
    ResultSet,
    command,
    query,
)
from proxy.mysql.wire.packets import lenenc
from sqltypes.errors import SourceError
from tests.support import mysql_packets as server

INT = server.column("n", FIELD_TYPE.LONG)
TEXT = server.column("t", FIELD_TYPE.VAR_STRING, charset=server.UTF8MB4)
EITHER_END = pytest.mark.parametrize("deprecate_eof", [True, False])


def fed(
    data: bytes, count: int, size: int, *, deprecate_eof: bool = True, prepared: tuple[int, ...] = ()
) -> list[Answer]:
    decoder = Answers(deprecate_eof=deprecate_eof)
    decoder.expect(count, prepared)
    found: list[Answer] = []
    for start in range(0, len(data), size):
        found += decoder.feed(data[start : start + size])
    assert not decoder.expected
    return found


def rows_of(answer: Answer) -> list[tuple[object, ...]]:
    assert isinstance(answer, ResultSet)
    return answer.rows


@EITHER_END
@pytest.mark.parametrize("size", [1, 2, 3, 7, 1 << 20])
def test_pipelined_answers_in_pieces_come_whole_and_in_order(deprecate_eof: bool, size: int) -> None:
    data = (
        server.result_set([INT, TEXT], [(b"1", "ä".encode()), (None, None), (b"-3", b"")], deprecate_eof=deprecate_eof)
        + server.packet(server.error(1054, "42S22", "Unknown column 'x'"))
        + server.packet(server.ok(affected=7))
        + server.result_set([INT], [], deprecate_eof=deprecate_eof)
    )
    first, second, third, fourth = fed(data, 4, size, deprecate_eof=deprecate_eof)
    assert rows_of(first) == [(1, "ä"), (None, None), (-3, "")]
    assert isinstance(second, SourceError)
    assert (second.errno, second.sqlstate, second.message) == (1054, "42S22", "Unknown column 'x'")
    assert isinstance(third, Done) and third.affected == 7
    assert rows_of(fourth) == []


@EITHER_END
def test_random_pieces_of_many_rows(deprecate_eof: bool) -> None:
    randomness = random.Random(7)
    wanted = [(index, "x" * randomness.choice([0, 1, 250, 251, 300, 70_000])) for index in range(200)]
    encoded = [(str(number).encode(), text.encode()) for number, text in wanted]
    data = server.result_set([INT, TEXT], encoded, deprecate_eof=deprecate_eof)
    decoder = Answers(deprecate_eof=deprecate_eof)
    decoder.expect(1)
    found: list[Answer] = []
    position = 0
    while position < len(data):
        size = randomness.choice([1, 5, 100, 5_000, 100_000])
        found += decoder.feed(data[position : position + size])
        position += size
    assert rows_of(found[0]) == wanted


@EITHER_END
def test_raw_rows_in_random_pieces_are_their_payloads(deprecate_eof: bool) -> None:
    randomness = random.Random(8)
    lengths = [0, 1, 250, 251, 300, 70_000, server.MULTI]
    texts = [b"\xff" * randomness.choice(lengths[:-1]) for _ in range(100)] + [b"a" * lengths[-1]]
    data = server.result_set([TEXT], [(text,) for text in texts], deprecate_eof=deprecate_eof)
    decoder = Answers(deprecate_eof=deprecate_eof)
    found: list[Answer] = []
    for _ in range(2):  # the last answer of a pipeline may be remembered, but not by one that reads it otherwise
        decoder.expect(1, raw=True)
        position = 0
        while position < len(data):
            size = randomness.choice([1, 5, 100, 5_000, 4_000_000])
            found += decoder.feed(data[position : position + size])
            position += size
    wanted = [(lenenc(text),) for text in texts]
    assert [rows_of(answer) for answer in found] == [wanted] * 2


@pytest.mark.parametrize("size", [1 << 24, 1 << 16])
@pytest.mark.parametrize(
    "length", [server.MULTI - 10, server.MULTI - 4, server.MULTI, 2 * server.MULTI - 9, 34_000_000]
)
def test_row_of_several_packets(size: int, length: int) -> None:
    data = server.result_set([INT, TEXT], [(b"1", b"a" * length), (b"2", b"b")])
    first, second = rows_of(fed(data, 1, size)[0])
    assert first[0] == 1 and first[1] == "a" * length
    assert second == (2, "b")


def test_row_whose_first_column_is_longer_than_a_packet_is_not_the_end_of_the_rows() -> None:
    data = server.result_set([TEXT], [(b"a" * (1 << 24),), (b"b",)])
    first, second = rows_of(fed(data, 1, 1 << 20)[0])
    assert first == ("a" * (1 << 24),)
    assert second == ("b",)


def test_large_packet_asks_for_large_reads() -> None:
    decoder = Answers(deprecate_eof=True)
    decoder.expect(1)
    data = server.result_set([TEXT], [(b"a" * 1_000_000,)])
    decoder.feed(data[:10_000])
    assert decoder.lacking
    assert len(decoder.feed(data[10_000:])) == 1
    assert not decoder.lacking


def test_error_in_the_middle_of_the_rows_replaces_them() -> None:
    data = server.result_set([INT], [(b"1",)], last=server.error(1317, "70100", "Query execution was interrupted"))
    (answer,) = fed(data, 1, 3)
    assert isinstance(answer, SourceError) and answer.errno == 1317


@EITHER_END
def test_further_results_of_one_statement_are_dropped(deprecate_eof: bool) -> None:
    more = 2 | 8
    data = (
        server.result_set([INT], [(b"1",)], deprecate_eof=deprecate_eof, status=more)
        + server.result_set([INT], [(b"2",)], deprecate_eof=deprecate_eof, status=more)
        + server.packet(server.ok())
        + server.packet(server.ok())
    )
    first, second = fed(data, 2, 5, deprecate_eof=deprecate_eof)
    assert rows_of(first) == [(1,)]
    assert isinstance(second, Done)


@EITHER_END
@pytest.mark.parametrize("size", [1, 1000])
def test_prepared_statement_tells_its_columns_and_parameters(deprecate_eof: bool, size: int) -> None:
    data = (
        server.packet(server.ok())
        + server.prepared(9, [INT, TEXT], [TEXT], deprecate_eof=deprecate_eof)
        + server.prepared(10, [], [], deprecate_eof=deprecate_eof)
        + server.packet(server.ok())
    )
    _, first, second, _ = fed(data, 4, size, deprecate_eof=deprecate_eof, prepared=(1, 2))
    assert isinstance(first, Prepared) and isinstance(second, Prepared)
    assert (first.statement_id, [column.name for column in first.columns], first.parameters) == (9, ["n", "t"], 1)
    assert (second.statement_id, second.columns, second.parameters) == (10, (), 0)


def test_values_are_canonical() -> None:
    cases = [
        (server.column("a", FIELD_TYPE.LONGLONG, flags=32), b"18446744073709551615", 2**64 - 1),
        (server.column("b", FIELD_TYPE.NEWDECIMAL, decimals=3), b"-0.500", Decimal("-0.500")),
        (server.column("c", FIELD_TYPE.DOUBLE), b"1.7976931348623157e308", 1.7976931348623157e308),
        (server.column("d", FIELD_TYPE.FLOAT), b"1.1", 1.100000023841858),
        (server.column("e", FIELD_TYPE.DATE), b"0000-00-00", "0000-00-00"),
        (server.column("f", FIELD_TYPE.DATETIME, decimals=3), b"2024-02-29 23:59:59.100", "2024-02-29 23:59:59.100"),
        (server.column("g", FIELD_TYPE.TIME, decimals=6), b"-838:59:58.000001", -3020398000001),
        (server.column("h", FIELD_TYPE.TIME), b"00:00:01", 1_000_000),
        (server.column("i", FIELD_TYPE.TIME, decimals=2), b"-00:00:00.50", -500_000),
        (server.column("j", FIELD_TYPE.YEAR), b"0000", 0),
        (server.column("k", FIELD_TYPE.BIT, size=9), b"\x01\xff", 511),
        (server.column("l", FIELD_TYPE.BLOB), b"\0\xff", b"\0\xff"),
        (server.column("m", FIELD_TYPE.BLOB, charset=server.UTF8MB4), "ß".encode(), "ß"),
        (server.column("n", FIELD_TYPE.JSON), b'{"a": "\xc3\xa4"}', '{"a": "ä"}'),
        (server.column("o", FIELD_TYPE.GEOMETRY), b"\0\0", b"\0\0"),
        (server.column("p", 242), b"\0\0\x80?", b"\0\0\x80?"),
        (server.column("q", FIELD_TYPE.NULL), None, None),
    ]
    data = server.result_set([case[0] for case in cases], [[case[1] for case in cases]])
    (row,) = rows_of(fed(data, 1, 11)[0])
    assert row == tuple(case[2] for case in cases)
    assert [type(value) for value in row] == [type(case[2]) for case in cases]


@pytest.mark.parametrize("data", [server.packet(b"\xfb/etc/passwd"), server.packet(b"\xfe\0\0\0\0"), b"\0\0\0\1"])
def test_what_is_no_answer_breaks_the_connection(data: bytes) -> None:
    with pytest.raises(ProtocolBroken):
        fed(data, 1, 100)


def test_bytes_that_nothing_asked_for_break_the_connection() -> None:
    with pytest.raises(ProtocolBroken):
        Answers(deprecate_eof=True).feed(server.packet(server.ok()))


def test_command_of_sixteen_megabytes_is_cut_into_packets() -> None:
    for size in (server.MULTI - 2, server.MULTI - 1, server.MULTI, 2 * server.MULTI - 1, 2 * server.MULTI):
        body = b"x" * size
        assert command(COM_QUERY, body) == server.packet(b"\x03" + body, sequence=0)


def test_text_of_a_query_is_sent_as_utf8() -> None:
    assert query("SELECT 'é'") == b"\x0c\0\0\0\x03SELECT '\xc3\xa9'"
