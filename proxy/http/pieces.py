"""JSON of large answers, in pieces. Each is one short step of the loop, and is written before the next is made."""

from __future__ import annotations

import base64
import codecs
import json
from collections import deque
from collections.abc import AsyncGenerator, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from proxy.grpc.requests import LIST_VALUES as REPEATED
from proxy.grpc.requests import field_at
from proxy.http.spelled import Spelling, of_wire, text
from proxy.loop.slices import Slices
from sqltypes.expression import Row
from upwell.v1 import upwell_pb2 as pb

PIECE = 64 << 10  # bytes that are written together
STEP = 48 << 10  # bytes or letters of one value that are spelled together: base64 has three bytes in four letters
BYTES = 0x32  # the tag of `Value.bytes`


@dataclass(slots=True)
class Cut:
    """A message with its repeated field 1 (rows, answers of keys, values) in front of its other fields. `parts`: each
    of those, where it is in the message; `rest`: the others."""

    parts: deque[memoryview] = field(default_factory=deque)
    rest: bytes = b""


def cut(message: bytes | memoryview) -> Generator[None, None, Cut]:
    """In steps. Raises MalformedRequest."""
    found, at, rest = Cut(), 0, []
    view = memoryview(message)
    while at < len(message):
        tag, first, end = field_at(message, at)
        if tag == REPEATED:
            found.parts.append(view[first:end])
        else:
            rest.append(view[at:end])
        at = end
        yield
    found.rest = b"".join(rest)
    return found


def rows_written(rows: deque[memoryview]) -> Iterator[bytes]:
    """Serialised rows as JSON, without the brackets."""
    comma = b""
    while rows:
        row = rows.popleft()
        if len(row) <= STEP:
            yield comma + text(of_wire(pb.Row.FromString(bytes(row)))).encode()
        else:
            yield comma
            yield from _wide_row(row)
        comma = b","


def _wide_row(row: memoryview) -> Iterator[bytes]:
    at, before = 0, b"["
    while at < len(row):
        _, first, end = field_at(row, at)
        yield before
        if end - first <= STEP:
            yield text(of_wire(pb.Row(values=[pb.Value.FromString(bytes(row[first:end]))]))[0]).encode()
        else:
            yield from _long_value(row, first, end)
        before, at = b",", end
    yield b"]"


def _long_value(row: memoryview, first: int, end: int) -> Iterator[bytes]:
    """Requires: it is a text or bytes, as each value is that is so long."""
    tag, begin, _ = field_at(row, first)
    steps = range(begin, end, STEP)
    if tag == BYTES:
        yield from quoted(base64.b64encode(row[at : min(at + STEP, end)]) for at in steps)
    else:
        decode = codecs.getincrementaldecoder("utf-8")().decode
        yield from quoted(_escaped(decode(row[at : min(at + STEP, end)])) for at in steps)


def spelled_rows(rows: Sequence[Row], spelling: Spelling) -> Iterator[bytes]:
    """The rows of a subscription as JSON, without the brackets."""
    for at, row in enumerate(rows):
        if at:
            yield b","
        if any(isinstance(value, str | bytes) and len(value) > STEP for value in row):
            yield from _wide_spelled(row, spelling)
        else:
            yield text(spelling.row(row)).encode()


def _wide_spelled(row: Row, spelling: Spelling) -> Iterator[bytes]:
    before = b"["
    for place, value in enumerate(row):
        yield before
        before = b","
        if isinstance(value, bytes):
            yield from quoted(base64.b64encode(value[at : at + STEP]) for at in range(0, len(value), STEP))
        elif isinstance(value, str) and len(value) > STEP:  # no long text is spelled otherwise
            yield from quoted(_escaped(value[at : at + STEP]) for at in range(0, len(value), STEP))
        else:
            yield text(spelling.one(place, value)).encode()
    yield b"]"


def _escaped(part: str) -> bytes:
    return json.dumps(part, ensure_ascii=False)[1:-1].encode()


def quoted(parts: Iterable[bytes]) -> Iterator[bytes]:
    yield b'"'
    yield from parts
    yield b'"'


async def in_pieces(written: Iterator[bytes]) -> AsyncGenerator[bytes, None]:
    """Joins small parts to pieces of about PIECE bytes; others run in between. At least one, the last one maybe empty.
    Requires: no part takes long to make, nor is much longer than a piece."""
    slices, some, size = Slices(), list[bytes](), 0
    for part in written:
        some.append(part)
        size += len(part)
        if size >= PIECE:
            yield b"".join(some)
            some, size = [], 0
        await slices.turn()
    yield b"".join(some)
