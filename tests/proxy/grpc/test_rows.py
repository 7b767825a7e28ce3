"""Generated encoders against protobuf's own serialisation; requests as twins."""

from __future__ import annotations

import asyncio
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.grpc import rows as grpc_rows
from proxy.grpc.answers import answer_bytes, wide_answer_bytes
from proxy.grpc.requests import KeyMemo, key_parameters, parse_batch, parse_execute, parse_stream
from proxy.grpc.rows import column_messages, columns_id, encoder_for, value_kind
from proxy.port.api import Answer, Served
from sqltypes.errors import BadParameters, InvariantViolated, MalformedRequest
from sqltypes.expression import Row, Value
from sqltypes.schema import ResultColumn, SqlType
from sqltypes.temporal import time_literal
from upwell.v1 import upwell_pb2 as pb

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
# Every type name that a column can have, with values in its canonical form.
VALUES: dict[SqlType, st.SearchStrategy[object]] = {
    SqlType("bigint"): st.integers(-(1 << 63), (1 << 63) - 1),
    SqlType("bigint", unsigned=True): st.integers(0, (1 << 64) - 1),
    SqlType("tinyint", length=1): st.integers(-128, 127),
    SqlType("year"): st.integers(1901, 2155),
    SqlType("bit", length=64): st.integers(0, (1 << 64) - 1),
    SqlType("float"): st.floats(width=32, allow_nan=False, allow_infinity=False),
    SqlType("double"): st.floats(allow_nan=False, allow_infinity=False),
    SqlType("decimal", precision=65, scale=30): st.decimals(places=10, min_value=-(10**50), max_value=10**50),
    SqlType("varchar", length=300): TEXT,
    SqlType("enum", members=("a", "b")): st.sampled_from(("a", "b")),
    SqlType("blob"): st.binary(max_size=300),
    SqlType("date"): st.just("0000-00-00"),
    SqlType("datetime", scale=6): st.just("2026-02-03 04:05:06.000001"),
    SqlType("timestamp"): st.just("2026-02-03 04:05:06"),
    SqlType("time", scale=6): st.integers(-3_020_399_000_000, 3_020_399_000_000),
    SqlType("json"): st.just('{"a": [1, "é"]}'),
    SqlType("null"): st.none(),
}


def message_of(rows: list[Row], columns: tuple[ResultColumn, ...]) -> bytes:
    """The oracle: messages built and serialised by protobuf."""

    def value(column: ResultColumn, item: Value) -> pb.Value:
        if item is None:
            return pb.Value(null=pb.NULL_VALUE)
        shown = format(item, "f") if isinstance(item, Decimal) else item
        return pb.Value(**{value_kind(column.type): shown})  # type: ignore[arg-type]  # one field by name

    messages = [pb.Row(values=[value(column, item) for column, item in zip(columns, row, strict=True)]) for row in rows]
    return pb.Rows(rows=messages).SerializeToString()


@st.composite
def typed_rows(draw: st.DrawFn) -> tuple[tuple[ResultColumn, ...], list[Row]]:
    types = draw(st.lists(st.sampled_from(list(VALUES)), max_size=6))
    columns = tuple(ResultColumn(f"c{index}", type, True) for index, type in enumerate(types))
    rows = draw(st.lists(st.tuples(*(st.none() | VALUES[type] for type in types)), max_size=5))
    return columns, rows


@given(typed_rows())
def test_rows_encode_as_protobuf_serialises_them(typed: tuple[tuple[ResultColumn, ...], list[Row]]) -> None:
    columns, rows = typed
    encode = encoder_for(columns)
    assert encode(rows) == message_of(rows, columns)
    assert encode(rows[:2]) + encode(rows[2:]) == encode(rows)


@settings(max_examples=30)
@given(typed_rows())
def test_columns_that_are_encoded_one_by_one_are_encoded_alike(
    typed: tuple[tuple[ResultColumn, ...], list[Row]],
) -> None:
    columns, rows = typed
    wide, many = columns * 70, [row * 70 for row in rows]
    kinds = tuple(value_kind(column.type) for column in wide)
    assert encoder_for(wide)(many) == grpc_rows._by_column(kinds)(many) == message_of(many, wide)
    if columns and rows:
        with pytest.raises(InvariantViolated):
            encoder_for(wide)([many[0][:-1]])


def test_payloads_around_the_varint_boundaries() -> None:
    columns = (ResultColumn("c", SqlType("longtext"), False),)
    for length in (0, 1, 121, 122, 123, 124, 125, 126, 127, 128, 16380, 16383, 16384, 70_000, 2_100_000):
        rows: list[Row] = [("x" * length,)]
        assert encoder_for(columns)(rows) == message_of(rows, columns), length


@pytest.mark.parametrize(
    ("type", "value"),
    [
        (SqlType("bigint"), "7"),
        (SqlType("bigint"), 1 << 63),
        (SqlType("bigint", unsigned=True), -1),
        (SqlType("varchar"), b"x"),
        (SqlType("varchar"), "\udc80"),
        (SqlType("decimal"), "1.0"),
        (SqlType("double"), "1.0"),
        (SqlType("blob"), "x"),
    ],
)
def test_a_value_of_another_form_is_an_internal_breach_not_a_wrong_answer(type: SqlType, value: object) -> None:
    with pytest.raises(InvariantViolated, match="does not fit its columns"):
        encoder_for((ResultColumn("c", type, False),))([(value,)])


def test_rows_of_another_width_are_an_internal_breach() -> None:
    with pytest.raises(InvariantViolated):
        encoder_for((ResultColumn("c", SqlType("int"), False),))([(1, 2)])


def test_a_type_without_wire_form_is_named() -> None:
    with pytest.raises(InvariantViolated, match="hyperloglog"):
        value_kind(SqlType("hyperloglog"))


def test_columns_have_equal_ids_only_when_equal() -> None:
    one = column_messages((ResultColumn("c", SqlType("int"), False),))
    other = column_messages((ResultColumn("c", SqlType("int"), True),))
    assert columns_id(one) == columns_id(column_messages((ResultColumn("c", SqlType("int"), False),))) != 0
    assert columns_id(one) != columns_id(other)


def test_a_twin_gives_the_raw_bytes_of_each_key() -> None:
    keys = [pb.Key(parameters=[pb.Value(int=number)]) for number in (1, -2)]
    raw = [key.SerializeToString() for key in keys]
    batch = parse_batch(pb.ExecuteBatchRequest(cache="c", keys=keys, columns_id=9).SerializeToString())
    assert (batch.cache, list(batch.keys), batch.columns_id) == ("c", raw, 9)
    single = parse_execute(pb.ExecuteRequest(cache="c", key=keys[1], columns_id=9).SerializeToString())
    assert (single.cache, single.key, single.columns_id) == ("c", raw[1], 9)
    streamed = parse_stream(pb.StreamRequest(id=5, cache="c", key=keys[0]).SerializeToString())
    assert (streamed.id, streamed.cache, streamed.key, streamed.columns_id) == (5, "c", raw[0], 0)


def test_parameters_come_in_the_form_of_the_clients_own_type() -> None:
    values = [
        (pb.Value(null=pb.NULL_VALUE), None),
        (pb.Value(int=-3), -3),
        (pb.Value(uint=(1 << 64) - 1), (1 << 64) - 1),
        (pb.Value(double=0.5), 0.5),
        (pb.Value(string="é"), "é"),
        (pb.Value(bytes=b"\x00"), b"\x00"),
        (pb.Value(decimal="-1.50"), Decimal("-1.50")),
        (pb.Value(date="2026-01-01"), "2026-01-01"),
        (pb.Value(time=-1_500_000), "-00:00:01.500000"),
        (pb.Value(list=pb.List(values=[pb.Value(int=1), pb.Value(string="a")])), (1, "a")),
    ]
    raw = pb.Key(parameters=[value for value, _ in values]).SerializeToString()
    assert key_parameters(raw) == tuple(expected for _, expected in values)
    assert key_parameters(b"") == ()


@pytest.mark.parametrize(
    "value",
    [
        pb.Value(),
        pb.Value(decimal="many"),
        pb.Value(decimal="NaN"),
        pb.Value(double=float("inf")),
        pb.Value(list=pb.List(values=[pb.Value(list=pb.List())])),
        pb.Value(list=pb.List(values=[pb.Value()])),
    ],
)
def test_a_parameter_that_is_no_value_of_mysql_is_refused(value: pb.Value) -> None:
    with pytest.raises(BadParameters, match=r"accepted|given as"):
        key_parameters(pb.Key(parameters=[value]).SerializeToString())


def test_bytes_that_are_no_key_are_refused() -> None:
    with pytest.raises(MalformedRequest):
        key_parameters(b"\x0a\xff")


def test_the_memo_starts_over_when_full_and_holds_no_long_keys() -> None:
    memo = KeyMemo(entries=2, longest=16)
    raw = [pb.Key(parameters=[pb.Value(int=number)]).SerializeToString() for number in range(3)]
    assert [memo[item] for item in (*raw, *raw)] == [(0,), (1,), (2,)] * 2
    assert len(memo) <= 2
    long = pb.Key(parameters=[pb.Value(string="x" * 100)]).SerializeToString()
    assert memo[long] == ("x" * 100,)
    assert long not in memo


def test_times_print_as_mysql_prints_them() -> None:
    assert time_literal(0) == "00:00:00"
    assert time_literal(-3_020_399_000_000) == "-838:59:59"
    assert time_literal(1) == "00:00:00.000001"


@pytest.mark.parametrize("count", [1, 199, 200, 201, 2500])
def test_an_answer_of_many_columns_is_the_same_message_made_in_pieces(count: int) -> None:
    columns = tuple(ResultColumn(f"c{number}", SqlType("int"), number % 2 == 0) for number in range(count))
    body = encoder_for(columns)([tuple(range(count))])
    answer = Answer(Served.PASSED, columns, body, "server:1-5", "", "no cache for this query", "server:1-6")
    found = pb.Answer.FromString(asyncio.run(wide_answer_bytes(answer, 200)))
    assert found == pb.Answer.FromString(answer_bytes(answer, 0))
