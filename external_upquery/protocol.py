"""MySQL's protocol without I/O: packets of commands out, bytes of answers in.

`Answers` is told how many answers to expect. It takes bytes in pieces of any size and returns complete answers, in
order. Rows are decoded as they come, straight to canonical values. It must not block, wait or know of sockets.
`external_upquery/connection.py` calls it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from external_upquery.columns import RawColumn, column_at, length_encoded_integer, to_result_column
from external_upquery.rowcode import MULTI_PACKET, DecodeRow, DecodeRows, kind_of, row_decoders
from sqltypes.errors import SourceError
from sqltypes.expression import Row
from sqltypes.schema import ResultColumn

COM_QUIT, COM_INIT_DB, COM_QUERY, COM_STMT_PREPARE, COM_STMT_CLOSE = 0x01, 0x02, 0x03, 0x16, 0x19
OK, LOCAL_INFILE, EOF, ERR = 0x00, 0xFB, 0xFE, 0xFF
MORE_RESULTS = 0x0008  # of the status flags
KEPT_LAYOUTS = 4096
ONE_BYTE = b"\x01\0\0"  # before the packet of a count of columns


class ProtocolBroken(Exception):
    """The bytes are not an answer that this decoder knows: the connection is of no more use."""


@dataclass(frozen=True)
class Layout:
    """The columns of a result set with the decoders of its rows; one per distinct announcement, kept."""

    columns: tuple[RawColumn, ...]
    decode_rows: DecodeRows
    decode_row: DecodeRow

    @cached_property
    def result_columns(self) -> tuple[ResultColumn, ...]:
        return tuple(to_result_column(column) for column in self.columns)


@dataclass(slots=True)
class ResultSet:
    layout: Layout
    rows: list[Row] = field(default_factory=list)


@dataclass(slots=True)
class Done:
    """A statement that gives no rows."""

    affected: int
    insert_id: int
    status: int
    warnings: int


@dataclass(slots=True)
class Prepared:
    """A prepared statement: `parameters` is the number of its placeholders."""

    statement_id: int
    columns: tuple[RawColumn, ...]
    parameters: int


Answer = ResultSet | Done | Prepared | SourceError


def command(code: int, body: bytes = b"") -> bytes:
    """The packets of one command. A body of 16 MB and more is cut as the protocol asks."""
    size = len(body) + 1
    if size < MULTI_PACKET:
        return size.to_bytes(3, "little") + b"\0" + bytes((code,)) + body
    payload = bytes((code,)) + body
    packets = []
    for sequence, start in enumerate(range(0, size + 1, MULTI_PACKET)):
        piece = payload[start : start + MULTI_PACKET]
        packets.append(len(piece).to_bytes(3, "little") + bytes((sequence & 0xFF,)))
        packets.append(piece)
    return b"".join(packets)


def query(sql: str | bytes) -> bytes:
    """The packets of COM_QUERY."""
    text = sql.encode() if isinstance(sql, str) else sql
    size = len(text) + 1
    return b"%b\0\x03%b" % (size.to_bytes(3, "little"), text) if size < MULTI_PACKET else command(COM_QUERY, text)


_layouts: dict[bytes, Layout] = {}
PREPARED, RAW = 1, 2
"""Kinds of answers: of COM_STMT_PREPARE; with rows that stay the bytes that they are."""
KEPT_BYTES = 4096  # of the last answer of a pipeline, which may come again
PLAIN = tuple((0,) * count for count in range(8))  # what `expect` is told, without prepared statements


class Answers:
    """Decodes the answers to pipelined commands.

    Invariants:
    1. `_held` begins with an incomplete packet (or head of a result set) of the oldest expected answer, or is empty.
    2. `_rows` is not None exactly while the rows of the oldest expected answer arrive.
    """

    def __init__(self, *, deprecate_eof: bool) -> None:
        self._deprecate_eof = deprecate_eof
        self.expected: deque[int] = deque()  # of which kind each answer is that is still to come
        self._held = bytearray()
        self._rows: list[Row] | None = None
        self._layout: Layout | None = None
        self._answer: Answer | None = None  # the first result of several
        self._completed: list[Answer] = []
        # The last answer of a pipeline is the bracket's: while the source is at rest it comes with the same bytes.
        self._last_bytes = b""
        self._last_answer: Answer | None = None
        self.row_bytes = 0  # of the answers since `expect`, for limits
        self.lacking = 0  # bytes without which nothing more is decoded, at least: those of a packet that is incomplete

    def expect(self, count: int, prepared: tuple[int, ...] = (), *, raw: bool = False) -> None:
        """`count` more answers are coming; those at the indexes `prepared` are of COM_STMT_PREPARE. `raw`: a row of the
        others is one value, the bytes that MySQL has sent."""
        self.row_bytes = 0
        if prepared or raw:
            others = RAW if raw else 0
            self.expected.extend(PREPARED if index in prepared else others for index in range(count))
        else:
            self.expected.extend(PLAIN[count] if count < len(PLAIN) else (0,) * count)

    def feed(self, data: bytes) -> list[Answer]:
        """The answers that are complete with these bytes. Raises ProtocolBroken."""
        if self._held:
            self._held += data
            if len(data) < self.lacking:
                self.lacking -= len(data)
                return []
            data = bytes(self._held)
            self._held.clear()
        self.lacking = 0
        end = len(data)
        position = 0
        expected = self.expected
        while position < end:
            if not expected:
                raise ProtocolBroken(f"{end - position} bytes came that nothing asked for")
            if self._rows is not None:
                left = self._rows_at(data, position, end)
            elif len(expected) > 1 or self._answer is not None or expected[0]:
                left = self._head_at(data, position, end)
            elif self._last_answer is not None and data.startswith(self._last_bytes, position):
                expected.popleft()
                self._completed.append(self._last_answer)
                left = position + len(self._last_bytes)
            else:
                left = self._last_at(data, position, end)
            if left < 0:
                self._held += data[position:] if position else data
                self.lacking = -left - len(self._held)
                break
            position = left
        if not self._completed:
            return []
        completed, self._completed = self._completed, []
        return completed

    # Each of the following takes data[position:end] and returns the new position, or how many bytes are needed from
    # the old one on, as a negative number.

    def _last_at(self, data: bytes, position: int, end: int) -> int:
        """The last answer that is expected: its bytes are kept."""
        left = self._head_at(data, position, end)
        if left > 0 and self._rows is not None and left < end:
            after = self._rows_at(data, left, end)
            if self._rows is None and self._answer is None and after - position <= KEPT_BYTES:
                self._last_bytes, self._last_answer = data[position:after], self._completed[-1]
            return after if after > 0 else left
        return left

    def _rows_at(self, data: bytes, position: int, end: int) -> int:
        layout, rows = self._layout, self._rows
        assert layout is not None and rows is not None
        after = layout.decode_rows(data, position, end, rows.append)
        self.row_bytes += after - position
        ends_at = after + 4
        if ends_at < end and data[ends_at] == EOF:
            # The common case: the whole packet that ends the rows is here, too short to be a row that goes on.
            following = ends_at + data[after]
            if following <= end and not data[after + 1] and not data[after + 2]:
                usual = not (data[ends_at + 1] or data[ends_at + 2])  # no rows affected, no id
                status = data[ends_at + 3] | data[ends_at + 4] << 8 if usual else self._end_status(data, ends_at)
                self._finish(ResultSet(layout, rows), status)
                return following
        return after if after > position else self._rows_slow(layout, rows, data, position, end)

    def _rows_slow(self, layout: Layout, rows: list[Row], data: bytes, position: int, end: int) -> int:
        payload, after = _packet(data, position, end)
        if payload is None:
            return after
        first = payload[0]
        if first == ERR:
            self._finish(_error(payload), 0)
        elif first == EOF and len(payload) < MULTI_PACKET:
            self._finish(ResultSet(layout, rows), self._end_status(payload, 0))
        else:
            rows.append(layout.decode_row(payload))
            self.row_bytes += len(payload)
        return after

    def _end_status(self, data: bytes, start: int) -> int:
        """The status flags of the packet that ends the rows: an OK packet under another first byte, or EOF."""
        position = start + 1
        if self._deprecate_eof:
            _, position = length_encoded_integer(data, position)
            _, position = length_encoded_integer(data, position)
        else:
            position += 2  # warnings
        return data[position] | data[position + 1] << 8

    def _head_at(self, data: bytes, position: int, end: int) -> int:
        """What stands before the rows, or the whole of an answer without rows."""
        count = data[position + 4] if position + 4 < end and data.startswith(ONE_BYTE, position) else 0
        if 0 < count < LOCAL_INFILE and not self.expected[0]:  # the head of nearly every answer
            return self._columns_at(data, position, position + 5, end, count)
        payload, after = _packet(data, position, end)
        if payload is None:
            return after
        first = payload[0]
        if first == ERR:
            self._finish(_error(payload), 0)
            return after
        kind = self.expected[0]
        if kind == PREPARED:
            return self._prepared_at(payload, data, position, after, end)
        if first == OK:
            done = _done(payload)
            self._finish(done, done.status)
            return after
        if first in (LOCAL_INFILE, EOF):
            raise ProtocolBroken(f"an answer begins with {first:#x}")
        return self._columns_at(data, position, after, end, length_encoded_integer(payload, 0)[0])

    def _columns_at(self, data: bytes, position: int, after: int, end: int, count: int) -> int:
        """`after`: where the definitions of `count` columns begin."""
        behind = self._skip(data, after, end, count, position)
        if behind < 0:
            return behind
        announced = data[after:behind]
        known = None if self.expected[0] else _layouts.get(announced)
        self._layout = known or (_raw_layout if self.expected[0] else _layout)(announced, count)
        self._rows = []
        return behind if self._deprecate_eof else self._skip_end(data, behind, end, position)

    def _prepared_at(self, payload: bytes, data: bytes, position: int, after: int, end: int) -> int:
        statement = int.from_bytes(payload[1:5], "little")
        columns, parameters = int.from_bytes(payload[5:7], "little"), int.from_bytes(payload[7:9], "little")
        raw: list[RawColumn] = []
        for count in (parameters, columns):
            if not count:
                continue
            behind = self._skip(data, after, end, count, position)
            if behind < 0:
                return behind
            raw = _columns(data[after:behind], count)
            after = behind
            if not self._deprecate_eof:
                after = self._skip_end(data, after, end, position)
                if after < 0:
                    return after
        self._finish(Prepared(statement, tuple(raw) if columns else (), parameters), 0)
        return after

    @staticmethod
    def _skip(data: bytes, at: int, end: int, count: int, position: int) -> int:
        for _ in range(count):
            if at + 4 > end:
                return position - at - 4
            following = at + 4 + (data[at] | data[at + 1] << 8 | data[at + 2] << 16)
            if following > end:
                return position - following
            at = following
        return at

    def _skip_end(self, data: bytes, at: int, end: int, position: int) -> int:
        after = self._skip(data, at, end, 1, position)
        if after < 0:
            self._rows = None
        return after

    def _finish(self, answer: Answer, status: int) -> None:
        self._rows = None
        self._layout = None
        if self._answer is None:
            self._answer = answer
        if not status & MORE_RESULTS:
            self.expected.popleft()
            self._completed.append(self._answer)
            self._answer = None


def _packet(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    """(payload, position behind it), parts joined; (None, minus the bytes needed) where it is not complete."""
    pieces = []
    at = position
    while True:
        if at + 4 > end:
            return None, position - at - 4
        size = data[at] | data[at + 1] << 8 | data[at + 2] << 16
        following = at + 4 + size
        if following > end:
            return None, position - following
        pieces.append(data[at + 4 : following])
        at = following
        if size < MULTI_PACKET:
            break
    payload = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    if not payload:
        raise ProtocolBroken("an empty packet")
    return payload, at


def _layout(announced: bytes, count: int) -> Layout:
    """The layout for these column definition packets, as they came: the same statement announces the same bytes."""
    layout = _layouts.get(announced)
    if layout is None:
        columns = _columns(announced, count)
        layout = Layout(tuple(columns), *row_decoders(tuple(kind_of(column) for column in columns)))
        if len(_layouts) >= KEPT_LAYOUTS:
            _layouts.clear()
        _layouts[announced] = layout
    return layout


def _raw_layout(announced: bytes, count: int) -> Layout:
    return Layout(tuple(_columns(announced, count)), _raw_rows, lambda payload: (payload,))


def _raw_rows(data: bytes, position: int, end: int, append: Callable[[Row], object]) -> int:
    """As `DecodeRows`: up to what is no whole row in one packet."""
    while position + 4 < end:
        size = data[position] | data[position + 1] << 8 | data[position + 2] << 16
        following = position + 4 + size
        if following > end or size == MULTI_PACKET or data[position + 4] in (EOF, ERR):
            break
        append((data[position + 4 : following],))
        position = following
    return position


def _columns(announced: bytes, count: int) -> list[RawColumn]:
    columns = []
    at = 0
    for _ in range(count):
        size = announced[at] | announced[at + 1] << 8 | announced[at + 2] << 16
        columns.append(column_at(announced, at + 4))
        at += 4 + size
    return columns


def _done(payload: bytes) -> Done:
    affected, position = length_encoded_integer(payload, 1)
    insert_id, position = length_encoded_integer(payload, position)
    status = int.from_bytes(payload[position : position + 2], "little")
    return Done(affected, insert_id, status, int.from_bytes(payload[position + 2 : position + 4], "little"))


def _error(payload: bytes) -> SourceError:
    errno = int.from_bytes(payload[1:3], "little")
    if payload[3:4] == b"#":
        return SourceError(errno, payload[4:9].decode("ascii", "replace"), payload[9:].decode("utf-8", "replace"))
    return SourceError(errno, "HY000", payload[3:].decode("utf-8", "replace"))
