"""Keys of any length: those with long lists are parsed a little at a time."""

from __future__ import annotations

import asyncio

import pytest

from proxy.grpc.requests import AT_ONCE, VALUES_AT_ONCE, KeyMemo, key_parameters, long_key_parameters
from sqltypes.errors import BadParameters, MalformedRequest
from upwell.v1 import upwell_pb2 as pb

SINGLES = [
    pb.Value(null=pb.NULL_VALUE),
    pb.Value(int=-7),
    pb.Value(uint=7),
    pb.Value(double=0.5),
    pb.Value(string="it's"),
    pb.Value(bytes=b"\0\xff"),
    pb.Value(decimal="1.50"),
    pb.Value(date="2024-01-01"),
    pb.Value(datetime="2024-01-01 00:00:00"),
    pb.Value(timestamp="2024-01-01 00:00:00"),
    pb.Value(time=-3_600_000_000),
    pb.Value(json='{"a": 1}'),
]


def many(count: int) -> pb.Value:
    return pb.Value(list=pb.List(values=[pb.Value(int=number) for number in range(count)]))


KEYS = {
    "nothing": [],
    "single values": SINGLES,
    "all kinds in a list": [pb.Value(list=pb.List(values=SINGLES * 100)), *SINGLES],
    "no values": [pb.Value(list=pb.List()), pb.Value(int=1)],
    "long lists": [many(5 * VALUES_AT_ONCE + 3), many(VALUES_AT_ONCE), many(1)],
    "long strings": [pb.Value(list=pb.List(values=[pb.Value(string="x" * size) for size in (1, 127, 128, 40_000)]))],
}


@pytest.mark.parametrize("name", KEYS)
def test_a_long_key_gives_what_it_gives_at_once(name: str) -> None:
    raw = pb.Key(parameters=KEYS[name]).SerializeToString()
    assert asyncio.run(long_key_parameters(raw)) == key_parameters(raw)
    assert asyncio.run(KeyMemo().parsed(raw)) == key_parameters(raw)


BAD = {
    "a list inside a list": pb.Key(parameters=[pb.Value(list=pb.List(values=[many(2)]))]).SerializeToString(),
    "a value without a kind": pb.Key(parameters=[pb.Value(list=pb.List(values=[pb.Value()]))]).SerializeToString(),
    "a decimal that is none": pb.Key(parameters=[pb.Value(decimal="1e")]).SerializeToString(),
    "a decimal with an underscore": pb.Key(parameters=[pb.Value(decimal="1_0")]).SerializeToString(),
    "a decimal of other digits": pb.Key(parameters=[pb.Value(decimal="\uff11\uff10")]).SerializeToString(),
    "a decimal of a billion digits": pb.Key(parameters=[pb.Value(decimal="1e999999999")]).SerializeToString(),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_with_a_long_key_is_told_in_the_same_words(name: str) -> None:
    with pytest.raises(BadParameters) as at_once:
        key_parameters(BAD[name])
    with pytest.raises(BadParameters) as later:
        asyncio.run(long_key_parameters(BAD[name]))
    assert str(later.value) == str(at_once.value)


@pytest.mark.parametrize(
    "values", [b"\x0a", b"\x0a\x05\x10\x01", b"\x10\x01", b"\x0a" + b"\xff" * 9, b"\x0a\x02\xff\xff"]
)
def test_bytes_that_are_no_list_are_refused(values: bytes) -> None:
    value = b"\x6a" + bytes((len(values),)) + values
    with pytest.raises(MalformedRequest):
        asyncio.run(long_key_parameters(b"\x0a" + bytes((len(value),)) + value))
    with pytest.raises(MalformedRequest):
        asyncio.run(long_key_parameters(b"\x0a\xff"))


def test_others_have_their_turn_while_a_long_list_is_parsed() -> None:
    """A list of 100,000 numbers was parsed in one step of 40 ms."""
    raw = pb.Key(parameters=[many(100_000)]).SerializeToString()
    assert len(raw) > AT_ONCE

    async def scenario() -> int:
        parsing = asyncio.ensure_future(KeyMemo().parsed(raw))
        turns = 0
        while not parsing.done():
            turns += 1
            await asyncio.sleep(0)
        assert parsing.result() == (tuple(range(100_000)),)
        return turns

    assert asyncio.run(scenario()) > 10
