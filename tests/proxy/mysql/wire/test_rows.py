"""Rows in MySQL's two protocols: the text form as the decoder of upqueries reads it, the binary form as the protocol's
pages say, answers joined and renumbered."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataflow.readers.derivation import TooLong
from dataflow.readers.in_steps import at_once
from external_upquery.protocol import Answers, ResultSet
from proxy.mysql.wire import rows as mysql_rows
from proxy.mysql.wire.packets import LARGEST, STATUS_IN_TRANS, STATUS_MORE_RESULTS, lenenc_int, read_lenenc
from proxy.mysql.wire.rows import FORMATS, ZEROFILL, OneRow, forms_of, head, joined, with_status
from sqltypes.errors import InvariantViolated
from sqltypes.expression import Row, Value
from sqltypes.schema import ResultColumn, SqlType
from tests.support.mysql_packets import column, ok, packet

VARCHAR = SqlType("varchar", length=300)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
# Every type, its number in the protocol, and values in its canonical form.
TYPES: dict[SqlType, tuple[int, st.SearchStrategy[object]]] = {
    SqlType("tinyint"): (1, st.integers(-128, 127)),
    SqlType("tinyint", unsigned=True): (1, st.integers(0, 255)),
    SqlType("smallint"): (2, st.integers(-(1 << 15), (1 << 15) - 1)),
    SqlType("year"): (13, st.integers(1901, 2155)),
    SqlType("mediumint", unsigned=True): (9, st.integers(0, (1 << 24) - 1)),
    SqlType("int"): (3, st.integers(-(1 << 31), (1 << 31) - 1)),
    SqlType("bigint"): (8, st.integers(-(1 << 63), (1 << 63) - 1)),
    SqlType("bigint", unsigned=True): (8, st.integers(0, (1 << 64) - 1)),
    SqlType("bit", length=12): (16, st.integers(0, (1 << 12) - 1)),
    SqlType("double"): (5, st.floats(allow_nan=False, allow_infinity=False)),
    SqlType("decimal", precision=65, scale=10): (246, st.decimals(places=10, min_value=-(10**50), max_value=10**50)),
    VARCHAR: (253, TEXT),
    SqlType("enum", members=("a", "b")): (254, st.sampled_from(("a", "b"))),
    SqlType("blob"): (252, st.binary(max_size=300)),
    SqlType("date"): (10, st.dates().map(str)),
    SqlType("datetime", scale=6): (12, st.datetimes().map(lambda moment: moment.isoformat(" ", "microseconds"))),
    SqlType("timestamp", scale=0): (7, st.datetimes().map(lambda moment: moment.isoformat(" ", "seconds"))),
    SqlType("time", scale=6): (11, st.integers(-3_020_399_000_000, 3_020_399_000_000)),
    SqlType("json"): (245, st.just('{"a": [1, "é"]}')),
    SqlType("null"): (6, st.none()),
}
CHARACTERS, UNSIGNED = {253, 254}, 32
EOF = pytest.mark.parametrize("eof", [False, True], ids=["deprecate_eof", "eof"])
Columns = tuple[ResultColumn, ...]


def columns_of(*types: SqlType, flags: int = 0, length: int = 0) -> Columns:
    return tuple(ResultColumn(f"c{at}", type_, True, flags=flags, length=length) for at, type_ in enumerate(types))


def encoded(columns: Columns, rows: Sequence[Row], protocol: str = "text", eof: bool = False) -> bytes:
    return FORMATS[f"mysql-{protocol}{'-eof' if eof else ''}"].encoder_for(columns)(rows)


def payloads(body: bytes, first: int) -> list[bytes]:
    """The payload of each packet, the last of them the end. Asserts that the packets are numbered from `first` on."""
    found: list[bytes] = []
    at = 0
    while at < len(body):
        assert body[at + 3] == (first + len(found)) & 0xFF
        size = int.from_bytes(body[at : at + 3], "little")
        found.append(body[at + 4 : at + 4 + size])
        at += 4 + size
    return found


def one_value(type_: SqlType, value: Value, protocol: str, flags: int = 0, length: int = 0) -> bytes:
    """The bytes of a row's only value, without the head of a row of the binary protocol."""
    (row, _) = payloads(encoded(columns_of(type_, flags=flags, length=length), [(value,)], protocol), 3)
    return row.removeprefix(b"\0\0") if protocol == "binary" else row


@st.composite
def typed_rows(draw: st.DrawFn, size: int = 5) -> tuple[Columns, list[Row]]:
    types = draw(st.lists(st.sampled_from(list(TYPES)), min_size=1, max_size=20))
    rows = draw(st.lists(st.tuples(*(st.none() | TYPES[type_][1] for type_ in types)), max_size=size))
    return columns_of(*types), rows


def announced(columns: Columns) -> list[bytes]:
    """Definitions from which the decoder of upqueries takes each column's type."""
    return [
        column(item.name, code, 255 if code in CHARACTERS else 63, flags=UNSIGNED if item.type.unsigned else 0)
        for item in columns
        for code in (TYPES[item.type][0],)
    ]


# -- the text protocol -------------------------------------------------------------------------------------------------


@EOF
@given(typed_rows())
def test_the_decoder_of_upqueries_reads_the_values_back(eof: bool, typed: tuple[Columns, list[Row]]) -> None:
    columns, rows = typed
    reader = Answers(deprecate_eof=not eof)
    reader.expect(1)
    (answer,) = reader.feed(head(announced(columns), eof=eof) + encoded(columns, rows, eof=eof))
    assert isinstance(answer, ResultSet)
    assert [(row, [str(value) for value in row]) for row in answer.rows] == [
        (row, [str(value) for value in row]) for row in rows
    ]


@pytest.mark.parametrize(
    ("type_", "value", "shown"),
    [
        (SqlType("bigint"), -(1 << 63), b"-9223372036854775808"),
        (SqlType("int"), 0, b"0"),
        (SqlType("year"), 2024, b"2024"),
        (SqlType("bit", length=9), 5, b"\0\5"),
        (SqlType("decimal", scale=30), Decimal("0E-30"), b"0.000000000000000000000000000000"),
        (SqlType("float"), 16777216.0, b"16777200"),
        (SqlType("float", scale=3), -1.5, b"-1.500"),
        (SqlType("double"), 1e20, b"1e20"),
        (SqlType("double"), -0.0, b"-0"),
        (SqlType("double", scale=2), 1e20, b"100000000000000000000.00"),
        (SqlType("time", scale=0), -3_020_399_000_000, b"-838:59:59"),
        (SqlType("time", scale=3), -500_000, b"-00:00:00.500"),
        (VARCHAR, "é" * 125, "é".encode() * 125),
        (VARCHAR, "é" * 126, "é".encode() * 126),
        (SqlType("longtext"), "x" * 70_000, b"x" * 70_000),
    ],
)
def test_a_value_is_shown_as_mysql_shows_it(type_: SqlType, value: Value, shown: bytes) -> None:
    row = one_value(type_, value, "text")
    assert read_lenenc(row, 0) == (shown, len(row))


def test_zerofill_pads_to_the_width_in_the_text_protocol_and_a_decimal_in_both() -> None:
    def shown(type_: SqlType, value: Value, length: int, protocol: str = "text") -> bytes:
        return one_value(type_, value, protocol, ZEROFILL, length)[1:]

    unsigned = SqlType("int", unsigned=True)
    assert shown(unsigned, 42, 8) == b"00000042"
    assert shown(unsigned, 123456789, 8) == b"123456789"
    assert shown(SqlType("year"), 0, 4) == b"0000"
    assert shown(SqlType("float"), 3.4028234663852886e38, 12) == b"000003.40282e38"[-12:]
    assert shown(SqlType("double"), -0.0, 5) == b"000-0"
    assert shown(SqlType("double", scale=3), 3.5, 12) == b"00000003.500"
    assert one_value(unsigned, 42, "binary", ZEROFILL, 8) == b"\x2a\0\0\0"
    for protocol in ("text", "binary"):
        assert shown(SqlType("decimal", scale=2), Decimal("1.50"), 11, protocol) == b"00000001.50"


# -- the binary protocol -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type_", "value", "wire"),
    [
        (SqlType("tinyint"), -1, b"\xff"),
        (SqlType("tinyint", unsigned=True), 255, b"\xff"),
        (SqlType("smallint"), -2, b"\xfe\xff"),
        (SqlType("year"), 2155, b"\x6b\x08"),
        (SqlType("mediumint"), -1, b"\xff\xff\xff\xff"),
        (SqlType("int", unsigned=True), (1 << 32) - 1, b"\xff\xff\xff\xff"),
        (SqlType("bigint"), -1, b"\xff" * 8),
        (SqlType("float"), 1.5, struct.pack("<f", 1.5)),
        (SqlType("double"), 0.1, struct.pack("<d", 0.1)),
        (SqlType("decimal", scale=2), Decimal("-1.50"), b"\5-1.50"),
        (SqlType("date"), "0000-00-00", b"\0"),
        (SqlType("date"), "2024-02-00", b"\4\xe8\x07\2\0"),
        (SqlType("datetime", scale=0), "0000-00-00 00:00:00", b"\0"),
        (SqlType("datetime", scale=3), "2024-02-29 00:00:00.000", b"\4\xe8\x07\2\x1d"),
        (SqlType("datetime", scale=0), "2024-02-29 00:00:01", b"\7\xe8\x07\2\x1d\0\0\1"),
        (SqlType("datetime", scale=3), "2024-02-29 12:34:56.500", b"\x0b\xe8\x07\2\x1d\x0c\x22\x38\x20\xa1\x07\0"),
        (SqlType("timestamp", scale=6), "2024-02-29 00:00:00.000001", b"\x0b\xe8\x07\2\x1d\0\0\0\1\0\0\0"),
        (SqlType("time", scale=0), 0, b"\0"),
        (SqlType("time", scale=0), -90_061_000_000, b"\x08\1\1\0\0\0\1\1\1"),
        (SqlType("time", scale=6), 1, b"\x0c\0\0\0\0\0\0\0\0\1\0\0\0"),
        (SqlType("bit", length=9), 5, b"\2\0\5"),
        (VARCHAR, "é", b"\2\xc3\xa9"),
        (SqlType("blob"), b"\0" * 251, b"\xfc\xfb\0" + bytes(251)),
        (SqlType("json"), "{}", b"\2{}"),
    ],
)
def test_a_binary_value_has_the_shortest_form_of_its_type(type_: SqlType, value: Value, wire: bytes) -> None:
    assert one_value(type_, value, "binary") == wire


@pytest.mark.parametrize("width", [1, 5, 6, 7, 14, 15, 40, 4096])
def test_nulls_of_a_binary_row_are_bits_from_the_third_on(width: int) -> None:
    columns = columns_of(*[SqlType("tinyint")] * width)
    for nulls in ({0}, {width - 1}, set(range(width)), set(range(0, width, 3)), set[int]()):
        (row, _) = payloads(
            encoded(columns, [tuple(None if at in nulls else at % 128 for at in range(width))], "binary"), width + 2
        )
        size = (width + 7 + 2) // 8
        assert row[0] == 0
        assert int.from_bytes(row[1 : 1 + size], "little") == sum(4 << at for at in nulls)
        assert row[1 + size :] == bytes(at % 128 for at in range(width) if at not in nulls)


# -- whole answers -----------------------------------------------------------------------------------------------------


@EOF
@pytest.mark.parametrize("protocol", ["text", "binary"])
def test_an_answer_goes_on_counting_where_the_column_definitions_end(protocol: str, eof: bool) -> None:
    columns = columns_of(SqlType("int"), VARCHAR)
    definitions = announced(columns)
    before = payloads(head(definitions, eof=eof), 1)
    assert before == [b"\2", *definitions, *([b"\xfe\0\0\2\0"] if eof else [])]
    *rows, end = payloads(
        encoded(columns, [(number, "x") for number in range(600)], protocol, eof=eof), 1 + len(before)
    )
    assert len(rows) == 600
    assert end == (b"\xfe\0\0\2\0" if eof else b"\xfe\0\0\2\0\0\0")


def test_an_answer_without_columns_or_rows_is_its_end() -> None:
    for name, form in FORMATS.items():
        assert len(payloads(form.encoder_for(())([]), 3 if name.endswith("-eof") else 2)) == 1


def test_the_first_number_wraps_around_behind_250_columns() -> None:
    for width in (253, 254, 300):
        columns = columns_of(*[SqlType("int")] * width)
        payloads(encoded(columns, [(1,) * width] * 3, "binary"), width + 2)
        payloads(encoded(columns, [(1,) * width] * 3, "binary", eof=True), width + 3)


@EOF
@pytest.mark.parametrize("protocol", ["text", "binary"])
@pytest.mark.parametrize("over", [-6, -5, -4, 0, LARGEST - 5, LARGEST])
def test_a_row_that_one_packet_cannot_hold_goes_on_in_the_next(protocol: str, eof: bool, over: int) -> None:
    """A row of exactly the largest size is followed by an empty packet."""
    columns = columns_of(SqlType("longblob"))
    large = bytes(LARGEST + over)
    length = lenenc_int(len(large))
    front = b"\0\0" if protocol == "binary" else b""
    rows = [front + b"\1a", front + length + large, front + b"\1b", *([front + b"\1c"] * 300)]
    end = b"\xfe\0\0\2\0" if eof else ok(0xFE)
    wanted, sequence = [], 4 if eof else 3
    for row in (*rows, end):
        wanted.append(packet(row, sequence))
        sequence += len(row) // LARGEST + 1
    given_rows: list[Row] = [(b"a",), (large,), (b"b",), *([(b"c",)] * 300)]
    assert encoded(columns, given_rows, protocol, eof) == b"".join(wanted)


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (SqlType("bigint"), "7"),
        (VARCHAR, b"x"),
        (VARCHAR, "\udc80"),
        (SqlType("decimal"), "1.0"),
        (SqlType("double"), "1.0"),
        (SqlType("blob"), "x"),
        (SqlType("bit", length=8), 256),
        (SqlType("null"), 1),
    ],
)
@pytest.mark.parametrize("protocol", ["text", "binary"])
def test_a_value_of_another_form_is_an_internal_breach_not_a_wrong_answer(
    protocol: str, type_: SqlType, value: Value
) -> None:
    with pytest.raises(InvariantViolated, match="does not fit its columns"):
        encoded(columns_of(type_), [(value,)], protocol)


@pytest.mark.parametrize(
    ("type_", "value"),
    [(SqlType("tinyint"), 128), (SqlType("int", unsigned=True), -1), (SqlType("datetime"), "2024-01-01")],
)
def test_a_value_that_the_binary_form_has_no_room_for_is_an_internal_breach(type_: SqlType, value: Value) -> None:
    with pytest.raises(InvariantViolated, match="does not fit its columns"):
        encoded(columns_of(type_), [(value,)], "binary")


def test_rows_of_another_width_are_an_internal_breach() -> None:
    for form in FORMATS.values():
        with pytest.raises(InvariantViolated):
            form.encoder_for(columns_of(SqlType("int")))([(1, 2)])


def test_a_type_without_wire_form_is_named() -> None:
    for form in FORMATS.values():
        with pytest.raises(InvariantViolated, match="hyperloglog"):
            form.encoder_for(columns_of(SqlType("hyperloglog")))


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("eof", [False, True])
@settings(max_examples=30)  # code is generated for each example
@given(typed_rows(size=3))
def test_columns_that_are_encoded_one_by_one_are_encoded_alike(
    binary: bool, eof: bool, typed: tuple[Columns, list[Row]]
) -> None:
    columns, found = typed
    forms = forms_of(columns, binary=binary)
    assert forms is not None
    for many in (1, 12):
        given, wide = forms * many, [row * many for row in found]
        whole = mysql_rows._by_column(given, binary, eof)(wide)
        assert whole == mysql_rows._generated(given, binary, eof)(wide)
        assert type(whole) is (OneRow if len(wide) == 1 else bytes)
    with pytest.raises(ValueError, match="argument"):
        mysql_rows._by_column(forms, binary, eof)([(None,) * (len(forms) + 1)])


def test_rows_of_very_many_columns_are_those_of_the_generated_encoder() -> None:
    columns = columns_of(*[SqlType("int")] * (mysql_rows.WIDE + 1))
    for name, form in FORMATS.items():
        binary, eof = name.startswith("mysql-binary"), name.endswith("eof")
        found: list[Row] = [tuple(range(mysql_rows.WIDE + 1)), (None,) * (mysql_rows.WIDE + 1)]
        forms = forms_of(columns, binary=binary)
        assert forms is not None
        assert form.encoder_for(columns)(found) == mysql_rows._generated(forms, binary, eof)(found)


# -- answers made of others --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FORMATS)
@given(typed_rows(size=12), st.lists(st.integers(0, 12), min_size=1, max_size=6))
def test_the_answers_of_several_keys_join_to_that_of_all_their_rows(
    name: str, typed: tuple[Columns, list[Row]], cuts: list[int]
) -> None:
    columns, rows = typed
    form = FORMATS[name]
    encode = form.encoder_for(columns)
    places = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    parts = [rows[start:end] for start, end in pairwise(places)]
    assert form.join([encode(part) for part in parts]) == encode(rows)
    assert form.join([encode(rows)]) == encode(rows)
    assert form.join_in_steps is not None
    assert at_once(form.join_in_steps([encode(part) for part in parts])) == encode(rows)


@pytest.mark.parametrize("lengths", [300, 1])
@pytest.mark.parametrize("name", FORMATS)
def test_answers_of_more_than_256_rows_are_renumbered(name: str, lengths: int) -> None:
    """Rows of one length are numbered at once."""
    form, rows = FORMATS[name], [(number + 1000, "x" * (number % lengths)) for number in range(1500)]
    encode = form.encoder_for(columns_of(SqlType("int"), VARCHAR))
    for parts in (
        [rows[:256], rows[256:512], rows[512:]],
        [rows[:300], [], rows[300:301], rows[301:1400], rows[1400:]],
        [rows[at : at + 1] for at in range(1500)],
        [[], rows, []],
        [[], *([row] for row in rows)],
    ):
        assert form.join([encode(part) for part in parts]) == encode(rows)


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_long_to_join_is_joined_in_steps(name: str) -> None:
    form, rows = FORMATS[name], [(number, "x" * (number % 300)) for number in range(3000)]
    encode = form.encoder_for(columns_of(SqlType("int"), VARCHAR))
    assert form.join_in_steps is not None
    for cuts in ([0, 1, 3000], [0, 700, 700, 701, 3000], list(range(0, 3001, 10))):
        parts = [encode(rows[start:end]) for start, end in pairwise(cuts)]
        with pytest.raises(TooLong):
            form.join_short(parts)
        steps = form.join_in_steps(parts)
        assert next(steps, "over") is None, "there is more than one step"
        assert at_once(steps) == encode(rows) == form.join(parts)
    few = [encode(rows[:10]), encode(rows[10:20])]
    many = [encode([row]) for row in rows]  # those of one row each are numbered by C
    assert [form.join_short(few), form.join_short(many)] == [encode(rows[:20]), encode(rows)]


@pytest.mark.parametrize("name", FORMATS)
def test_a_row_in_several_packets_is_renumbered_with_the_others(name: str) -> None:
    form = FORMATS[name]
    encode = form.encoder_for(columns_of(SqlType("longblob")))
    rows: list[Row] = [(b"a",), (bytes(LARGEST),), (b"b",)]
    assert form.join([encode(rows[:1]), encode(rows[1:2]), encode(rows[2:])]) == encode(rows)


@EOF
def test_other_status_flags_leave_the_rest_as_it_is(eof: bool) -> None:
    body = encoded(columns_of(VARCHAR), [("x",), (None,)], eof=eof)
    status = STATUS_IN_TRANS | STATUS_MORE_RESULTS
    changed = with_status(body, status, eof=eof)
    assert payloads(changed, 4 if eof else 3)[:-1] == payloads(body, 4 if eof else 3)[:-1]
    assert changed.endswith(b"\xfe\0\0\x09\0" if eof else b"\xfe\0\0\x09\0\0\0")
    assert with_status(changed, 2, eof=eof) == body


@EOF
def test_an_answer_with_other_flags_is_put_together_in_one_copy(eof: bool) -> None:
    columns = columns_of(VARCHAR)
    body = encoded(columns, [("x",), (None,)], eof=eof)
    status = STATUS_IN_TRANS | STATUS_MORE_RESULTS
    one = head([b"a definition"], eof=eof) + body
    whole = joined(head([b"a definition"], eof=eof), body, status, eof=eof)
    assert whole == head([b"a definition"], eof=eof, status=status) + with_status(body, status, eof=eof)
    assert joined(head([b"a definition"], eof=eof), body, 2, eof=eof) == one
