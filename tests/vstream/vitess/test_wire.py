"""Messages cut into their fields: as protobuf itself reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import vitess_events as made
from vstream import vitess_pb2 as pb
from vstream.vitess.wire import fields, without

TEXTS = st.text(max_size=300)
EVENTS = st.builds(
    pb.VEvent,
    type=st.sampled_from(list(pb.VEventType.values())),
    timestamp=st.integers(-(2**63), 2**63 - 1),
    statement=TEXTS,
    shard=TEXTS,
    throttled=st.booleans(),
    row_event=st.none() | st.builds(pb.RowEvent, table_name=TEXTS, shard=TEXTS),
)


@given(st.lists(EVENTS, max_size=5))
def test_a_response_is_cut_into_its_events(events: list[pb.VEvent]) -> None:
    data = pb.VStreamResponse(events=events).SerializeToString()
    found = list(fields(data, 0, len(data)))
    assert [pb.VEvent.FromString(data[one.start : one.end]) for one in found] == events
    assert b"".join(data[one.tag : one.end] for one in found) == data


@given(EVENTS)
def test_a_message_without_some_of_its_fields(event: pb.VEvent) -> None:
    data = b"before" + event.SerializeToString() + b"behind"
    rest, found = without(data, 6, len(data) - 6, 5)
    assert len(found) == event.HasField("row_event")
    assert [pb.RowEvent.FromString(data[one.start : one.end]) for one in found] == [event.row_event][: len(found)]
    event.ClearField("row_event")
    assert pb.VEvent.FromString(rest) == event


@given(st.binary(max_size=60))
def test_whatever_comes_it_is_cut_or_refused(data: bytes) -> None:
    try:
        found = list(fields(data, 0, len(data)))
    except (ValueError, IndexError):
        return
    assert b"".join(data[one.tag : one.end] for one in found) == data


@pytest.mark.parametrize("data", [b"\x0a\x05abc", b"\x0a", b"\x08", b"\x0b", b"\x08" + b"\xff" * 11, b"\x0d\1\2"])
def test_what_is_no_message(data: bytes) -> None:
    with pytest.raises((ValueError, IndexError)):
        list(fields(data, 0, len(data)))


def test_fixed_widths_are_passed_over() -> None:
    data = b"\x0d\1\2\3\4" + b"\x09" + b"8" * 8 + b"\x12\1x"
    assert [(one.number, data[one.start : one.end]) for one in fields(data, 0, len(data))] == [
        (1, b"\1\2\3\4"),
        (1, b"8" * 8),
        (2, b"x"),
    ]


def test_a_field_does_not_reach_behind_its_message() -> None:
    data = made.response(made.HEARTBEAT, made.HEARTBEAT).SerializeToString()
    with pytest.raises(ValueError, match="behind its message"):
        list(fields(data, 0, len(data) - 1))
