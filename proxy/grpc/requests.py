"""Requests of the hot path: raw bytes to a cache's parameters.

Protobuf writes an embedded message and a bytes field alike. So hot requests are parsed as twins: messages with the same
numbers in which a `Key` is `bytes`. From one client library, equal keys have equal bytes, and a memo has the parsed
parameters of keys seen before. A batch of 100 keys then costs one parse and 100 dictionary lookups. A `Freshness` is
bytes too. It is empty in a request that asks for none, so it costs one test.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Protocol

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from gtid_tracker.gtid import GtidSet
from proxy.loop.slices import Slices
from proxy.port.api import DEFAULT_WAIT, Freshness, Otherwise, ParameterValue
from sqltypes.errors import BadParameters, MalformedRequest
from sqltypes.expression import Value
from sqltypes.temporal import time_literal
from upwell.rows import MOST_DIGITS
from upwell.v1 import upwell_pb2 as pb

LONGEST_WAIT = 60.0
"""Seconds that a read may wait for freshness."""
NOTHING = GtidSet.empty()
VALUES_AT_ONCE = 250
"""How many parameters, or values of a list, are parsed from one look at the clock to the next."""
AT_ONCE = 1 << 13
"""Bytes of a key, or of several, that are parsed in one step: a list of 1,000 numbers, 0.5 ms."""
LIST_VALUES = 0x0A  # the tag of `List.values`
_OTHERWISE = {pb.PASS: Otherwise.PASS, pb.FAIL: Otherwise.FAIL}


class ExecuteTwin(Protocol):
    """`ExecuteRequest` with raw bytes for its key."""

    cache: str
    key: bytes
    columns_id: int
    freshness: bytes


class BatchTwin(Protocol):
    """`ExecuteBatchRequest` with raw bytes for its keys."""

    cache: str
    keys: list[bytes]
    columns_id: int
    freshness: bytes


class SubscribeTwin(Protocol):
    """`SubscribeRequest` with raw bytes for its key."""

    cache: str
    key: bytes


class QueryTwin(Protocol):
    """`QueryRequest` whose parameters have raw bytes for a list's values."""

    sql: str
    database: str
    parameters: list[Any]
    freshness: pb.Freshness

    def HasField(self, name: str) -> bool: ...


class StreamTwin(Protocol):
    """`StreamRequest` with raw bytes for its key."""

    id: int
    cache: str
    key: bytes
    columns_id: int
    freshness: bytes


def _twins() -> dict[str, Any]:
    """The parsers of the twins by message name, in a pool of their own (reflection shows none)."""
    file = descriptor_pb2.FileDescriptorProto(name="upwell/twin.proto", package="upwell.twin", syntax="proto3")
    file.dependency.append(pb.DESCRIPTOR.name)
    for request in (pb.ExecuteRequest, pb.ExecuteBatchRequest, pb.StreamRequest, pb.SubscribeRequest):
        _copy(file, request.DESCRIPTOR, raw=(".upwell.v1.Key", ".upwell.v1.Freshness"))
    _copy(file, pb.Value.DESCRIPTOR, raw=(".upwell.v1.List",))
    for descriptor in (pb.Key.DESCRIPTOR, pb.QueryRequest.DESCRIPTOR):
        _copy(file, descriptor, twins=(".upwell.v1.Value",))
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(pb.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return {
        twin.name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"upwell.twin.{twin.name}")).FromString
        for twin in file.message_type
    }


def _copy(file: Any, descriptor: Any, *, raw: tuple[str, ...] = (), twins: tuple[str, ...] = ()) -> None:
    """`raw`: messages that are bytes in the copy; `twins`: those of which it has the copy."""
    twin = file.message_type.add()
    descriptor.CopyToProto(twin)
    for field in twin.field:
        if field.type_name in raw:
            field.type = descriptor_pb2.FieldDescriptorProto.TYPE_BYTES
            field.ClearField("type_name")
        elif field.type_name in twins:
            field.type_name = field.type_name.replace(".upwell.v1.", ".upwell.twin.")


_PARSERS: dict[str, Any] = _twins()
parse_execute: Callable[[bytes], ExecuteTwin] = _PARSERS["ExecuteRequest"]
parse_batch: Callable[[bytes], BatchTwin] = _PARSERS["ExecuteBatchRequest"]
parse_stream: Callable[[bytes], StreamTwin] = _PARSERS["StreamRequest"]
parse_subscribe: Callable[[bytes], SubscribeTwin] = _PARSERS["SubscribeRequest"]
parse_query: Callable[[bytes], QueryTwin] = _PARSERS["QueryRequest"]


def _decimal(text: str) -> Value:
    try:
        number = Decimal(
            text if "_" not in text and text.isascii() else "no number"
        )  # Python takes 1_0, and other digits
    except InvalidOperation:
        raise BadParameters(f"{text!r} is not a decimal: digits with an optional sign and point are accepted") from None
    if not number.is_finite():
        raise BadParameters(f"decimal {text!r} is not accepted: MySQL has finite numbers only")
    if abs(number.adjusted()) > MOST_DIGITS:  # of a large exponent as many digits would be written
        raise BadParameters(f"decimal {text[:40]!r} is not accepted: MySQL has numbers of 65 digits at most")
    return number


def _double(number: float) -> Value:
    if not math.isfinite(number):
        raise BadParameters(f"double {number!r} is not accepted: MySQL has finite numbers only")
    return number


# Temporal values reach the system as the literals that MySQL would compare: text.
_CONVERT: dict[str, Callable[[pb.Value], Value]] = {
    "null": lambda value: None,
    "int": lambda value: value.int,
    "uint": lambda value: value.uint,
    "double": lambda value: _double(value.double),
    "string": lambda value: value.string,
    "bytes": lambda value: value.bytes,
    "decimal": lambda value: _decimal(value.decimal),
    "date": lambda value: value.date,
    "datetime": lambda value: value.datetime,
    "timestamp": lambda value: value.timestamp,
    "time": lambda value: time_literal(value.time),
    "json": lambda value: value.json,
}


def _single(index: int, value: pb.Value) -> Value:
    kind = value.WhichOneof("kind")
    if kind is None:
        raise BadParameters(f"parameter {index + 1} has no value: NULL is given as `null`")
    if kind == "list":
        raise BadParameters(f"parameter {index + 1} has a list inside a list: a list of plain values is accepted")
    return _CONVERT[kind](value)


def parameter_value(index: int, value: pb.Value) -> ParameterValue:
    """What a parameter is for the system: canonical for the client's own type. Raises BadParameters."""
    if value.WhichOneof("kind") == "list":
        return tuple(_single(index, item) for item in value.list.values)
    return _single(index, value)


def key_parameters(raw: bytes) -> tuple[ParameterValue, ...]:
    """The parameters of a serialised `Key`. Raises MalformedRequest, BadParameters."""
    try:
        key = pb.Key.FromString(raw)
    except DecodeError as error:
        raise _no_key(raw, error) from None
    return tuple([parameter_value(index, value) for index, value in enumerate(key.parameters)])


def _no_key(raw: bytes, error: Exception) -> MalformedRequest:
    return MalformedRequest(f"a key of {len(raw)} bytes is no upwell.v1.Key: {error}")


# -- long lists --------------------------------------------------------------------------------------------------------


async def long_key_parameters(raw: bytes) -> tuple[ParameterValue, ...]:
    """As `key_parameters`, in several steps of the loop."""
    try:
        key = _PARSERS["Key"](raw)
    except DecodeError as error:
        raise _no_key(raw, error) from None
    return await long_parameters(key.parameters)


async def long_parameters(values: Sequence[Any]) -> tuple[ParameterValue, ...]:
    """The parameters of twins of `Value`, in several steps of the loop. Raises MalformedRequest, BadParameters."""
    slices = Slices()
    parameters: list[ParameterValue] = []
    for index, value in enumerate(values):
        if index % VALUES_AT_ONCE == 0:
            await slices.turn()
        if value.WhichOneof("kind") == "list":
            parameters.append(await _long_list(index, value.list, slices))
        else:
            parameters.append(_single(index, value))
    return tuple(parameters)


async def _long_list(index: int, raw: bytes, slices: Slices) -> tuple[Value, ...]:
    """The values of a serialised `List`, of which some are parsed at a time."""
    values: list[Value] = []
    at = 0
    while at < len(raw):
        first = at
        for _ in range(VALUES_AT_ONCE):
            at = _end_of_value(index, raw, at)
            if at >= len(raw):
                break
        try:
            items = pb.List.FromString(raw[first:at]).values
        except DecodeError as error:
            raise _no_list(index, error) from None
        values += [_single(index, item) for item in items]
        await slices.turn()
    return tuple(values)


def _end_of_value(index: int, raw: bytes, at: int) -> int:
    """Where the value ends that begins there: a tag, its length as a varint, so many bytes."""
    size = shift = 0
    if raw[at] == LIST_VALUES:
        for place in range(at + 1, min(at + 6, len(raw))):
            byte = raw[place]
            size |= (byte & 0x7F) << shift
            if byte < 0x80:
                return place + 1 + size
            shift += 7
    raise _no_list(index, "a value was expected")


def field_at(raw: bytes | memoryview, at: int) -> tuple[int, int, int]:
    """Of a message's field that begins there: its tag, where its value begins, and where it ends. Raises
    MalformedRequest."""
    tag, first = _varint(raw, at)
    match tag & 7:
        case 0:
            _, end = _varint(raw, first)
        case 2:
            size, first = _varint(raw, first)
            end = first + size
        case kind:
            end = first + {1: 8, 5: 4}.get(kind, len(raw))
    if end > len(raw):
        raise MalformedRequest(f"the request is no message of its method: the field at byte {at} has no end")
    return tag, first, end


def _varint(raw: bytes | memoryview, at: int) -> tuple[int, int]:
    """The number, and where it ends."""
    number = shift = 0
    for place in range(at, min(at + 10, len(raw))):
        byte = raw[place]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, place + 1
        shift += 7
    raise MalformedRequest(f"the request is no message of its method: a number was expected at byte {at}")


def _no_list(index: int, why: object) -> MalformedRequest:
    return MalformedRequest(f"parameter {index + 1} is no upwell.v1.List: {why}")


LONGEST_SET = 32 << 10  # characters: some 700 servers' transactions, parsed in 3 ms


def _gtids(name: str, text: str) -> GtidSet:
    if not text:
        return NOTHING
    if len(text) > LONGEST_SET:
        raise BadParameters(f"{name} has {len(text)} characters: up to {LONGEST_SET} are accepted")
    try:
        return GtidSet.parse(text)
    except ValueError as error:
        shown = text if len(text) <= 200 else text[:200] + "..."
        raise BadParameters(
            f"{name} {shown!r} is no GTID set ({error!s:.200}): UUID:1-5, UUID:7, UUID:1-5:7, UUID:tag:1-5 and "
            "several of these joined by commas are accepted"
        ) from None


def freshness_asked(message: pb.Freshness) -> Freshness:
    """What a caller asks for. Raises BadParameters."""
    min_gtid, not_before = _gtids("min_gtid", message.min_gtid), _gtids("not_before", message.not_before)
    staleness = message.max_staleness if message.HasField("max_staleness") else None
    if staleness is not None and not 0 <= staleness < math.inf:
        raise BadParameters(f"max_staleness {staleness!r} is not accepted: seconds from 0 on are")
    wait = message.wait if message.HasField("wait") else DEFAULT_WAIT
    if not 0 <= wait <= LONGEST_WAIT:
        raise BadParameters(f"wait {wait!r} is not accepted: 0 to {LONGEST_WAIT:g} seconds are")
    if message.otherwise not in _OTHERWISE:
        raise BadParameters(f"otherwise {message.otherwise} is not known: PASS (0) and FAIL (1) are accepted")
    return Freshness(min_gtid, staleness, wait, _OTHERWISE[message.otherwise], not_before)


class FreshnessMemo(dict[bytes, Freshness]):
    """The freshness that callers ask for, by its raw bytes. Calls of one idle session, and requests of one stream, ask
    for the same. It holds at most `entries`, then starts over."""

    def __init__(self, entries: int = 1 << 10, longest: int = 1 << 10) -> None:
        super().__init__()
        self._entries = entries
        self._longest = longest

    def __missing__(self, raw: bytes) -> Freshness:
        try:
            message = pb.Freshness.FromString(raw)
        except DecodeError as error:
            raise MalformedRequest(f"{len(raw)} bytes are no upwell.v1.Freshness: {error}") from None
        asked = freshness_asked(message)
        if len(raw) <= self._longest:
            if len(self) >= self._entries:
                self.clear()
            self[raw] = asked
        return asked


class KeyMemo(dict[bytes, tuple[ParameterValue, ...]]):
    """Parsed parameters by the key's raw bytes. `parsed` is for keys of any length.

    Invariants:
    1. At most `entries` of keys of at most `longest` bytes are held, so it takes a few megabytes at most; when full it
       starts over, and the keys in use are back after one parse each.
    """

    def __init__(self, entries: int = 1 << 15, longest: int = 128) -> None:
        super().__init__()
        self._entries = entries
        self._longest = longest

    def __missing__(self, raw: bytes) -> tuple[ParameterValue, ...]:
        parameters = key_parameters(raw)
        if len(raw) <= self._longest:
            if len(self) >= self._entries:
                self.clear()
            self[raw] = parameters
        return parameters

    async def parsed(self, raw: bytes) -> tuple[ParameterValue, ...]:
        """Those of a long key are parsed in several steps of the loop, and not held."""
        return self[raw] if len(raw) <= AT_ONCE else await long_key_parameters(raw)
