"""Values and rows of the client."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import IntEnum

import pytest

from upwell.errors import BadParameters
from upwell.rows import Answer, from_wire, key_message, row_type, rows_from_wire, to_wire
from upwell.v1 import upwell_pb2 as pb

COLUMNS = [pb.Column(name=name) for name in ("id", "title", "count", "id")]


class Level(IntEnum):
    HIGH = 3


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, pb.Value(null=pb.NULL_VALUE)),
        (True, pb.Value(int=1)),
        (-(1 << 63), pb.Value(int=-(1 << 63))),
        ((1 << 64) - 1, pb.Value(uint=(1 << 64) - 1)),
        (Level.HIGH, pb.Value(int=3)),
        (0.5, pb.Value(double=0.5)),
        ("é", pb.Value(string="é")),
        (b"\x00", pb.Value(bytes=b"\x00")),
        (bytearray(b"a"), pb.Value(bytes=b"a")),
        (memoryview(b"a"), pb.Value(bytes=b"a")),
        (Decimal("1E+3"), pb.Value(decimal="1000")),
        (date(2026, 2, 3), pb.Value(date="2026-02-03")),
        (datetime(2026, 2, 3, 4, 5, 6, 7), pb.Value(datetime="2026-02-03 04:05:06.000007")),
        (datetime(2026, 2, 3, 4, tzinfo=timezone(timedelta(hours=2))), pb.Value(timestamp="2026-02-03 02:00:00")),
        (time(1, 0, 0, 5), pb.Value(time=3_600_000_005)),
        (timedelta(hours=-1), pb.Value(time=-3_600_000_000)),
        ([1, "a"], pb.Value(list=pb.List(values=[pb.Value(int=1), pb.Value(string="a")]))),
    ],
)
def test_a_python_value_as_a_parameter(value: object, message: pb.Value) -> None:
    assert to_wire(value) == message


@pytest.mark.parametrize("value", [1 << 64, -(1 << 63) - 1, object(), 1j])
def test_a_value_without_a_literal_is_refused_before_it_is_sent(value: object) -> None:
    with pytest.raises(BadParameters):
        key_message([value])


@pytest.mark.parametrize(
    ("message", "value"),
    [
        (pb.Value(null=pb.NULL_VALUE), None),
        (pb.Value(int=-5), -5),
        (pb.Value(uint=1 << 63), 1 << 63),
        (pb.Value(double=0.1), 0.1),
        (pb.Value(decimal="1.50"), Decimal("1.50")),
        (pb.Value(string="x"), "x"),
        (pb.Value(bytes=b"x"), b"x"),
        (pb.Value(date="2026-02-03"), date(2026, 2, 3)),
        (pb.Value(date="0000-00-00"), "0000-00-00"),
        (pb.Value(datetime="2026-02-03 04:05:06.000007"), datetime(2026, 2, 3, 4, 5, 6, 7)),
        (pb.Value(datetime="2026-00-01 00:00:00"), "2026-00-01 00:00:00"),
        (pb.Value(timestamp="2026-02-03 04:05:06"), datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)),
        (pb.Value(timestamp="0000-00-00 00:00:00"), "0000-00-00 00:00:00"),
        (pb.Value(time=-1), timedelta(microseconds=-1)),
        (pb.Value(json='{"a": 1}'), '{"a": 1}'),
    ],
)
def test_a_column_value_as_python_has_it(message: pb.Value, value: object) -> None:
    assert from_wire(message) == value
    assert type(from_wire(message)) is type(value)


def test_a_row_is_a_tuple_with_names() -> None:
    message = pb.Row(values=[pb.Value(int=1), pb.Value(string="t"), pb.Value(int=9), pb.Value(int=2)])
    (row,) = rows_from_wire([message], row_type(COLUMNS))
    assert tuple(row) == (1, "t", 9, 2)
    assert (row.title, row["title"], row[1], row[-1], row[:2]) == ("t", "t", "t", 2, (1, "t"))
    assert row.id == 1  # of two columns with one name the first
    assert row.asdict() == {"id": 1, "title": "t", "count": 9}
    assert repr(row) == "Row(id=1, title='t', count=9, id=2)"
    assert row["count"] == 9  # a tuple's own method has that name
    with pytest.raises(AttributeError, match="no column 'nope': there are id, title"):
        _ = row.nope
    with pytest.raises(KeyError):
        row["nope"]


def test_one_is_for_at_most_one_row() -> None:
    kind = row_type([pb.Column(name="a")])
    assert Answer().one is None
    assert Answer([kind((1,))]).one == (1,)
    with pytest.raises(ValueError, match="2 rows"):
        _ = Answer([kind((1,)), kind((2,))]).one
