"""Decodes rows where MySQL's answers are collected, so that the process which takes many answers need not.

`taken_out` runs there, on the bytes of some answers. It returns the bytes without the rows, and the rows, decoded by
the same decoder and packed in parts. The receiver calls `put_back`. Rows with values that cannot be packed (DECIMAL)
stay in the bytes.
"""

from __future__ import annotations

import marshal
from collections.abc import Iterator, Sequence

from external_upquery.protocol import Answer, Answers, ProtocolBroken, ResultSet
from sqltypes.expression import Row

PART = 2000  # rows: to unpack them takes half a millisecond
FEW = 16  # rows that stay where they are
END = 9  # bytes of the packet that ends rows, where CLIENT_DEPRECATE_EOF was not asked for
VERSION = 2  # of marshal's format: later ones look for values that occur twice, which takes longer

Packed = Sequence[tuple[int, bytes]]  # rows in parts, each with the number of its answer


class _Spans(Answers):
    """Notes where the rows of each answer stand. Requires: all bytes are fed at once."""

    def __init__(self) -> None:
        super().__init__(deprecate_eof=False)
        self.spans: list[tuple[int, int, int, list[Row]]] = []  # (number of the answer, first byte, end, rows)
        self._began = 0

    def _rows_at(self, data: bytes, position: int, end: int) -> int:
        rows = self._rows
        if not rows:
            self._began = position
        after = super()._rows_at(data, position, end)
        if self._rows is None and rows and self._completed:
            answer = self._completed[-1]
            if isinstance(answer, ResultSet) and answer.rows is rows:
                self.spans.append((len(self._completed) - 1, self._began, after - END, rows))
        return after


def taken_out(received: bytes, count: int) -> tuple[bytes, Packed]:
    """(the bytes without the rows, the rows). `count`: how many answers there are. Bytes that are no answers are
    returned unchanged: the receiver says what is wrong."""
    spans = _Spans()
    spans.expect(count + 1)  # the one behind is never complete
    try:
        spans.feed(received)
    except (ProtocolBroken, ValueError, IndexError, ArithmeticError):
        return received, []
    packed: list[tuple[int, bytes]] = []
    left: list[bytes] = []
    at = 0
    for number, first, end, rows in spans.spans:
        if len(rows) > FEW and number < count and (parts := _packed(rows)):
            packed += [(number, part) for part in parts]
            left.append(received[at:first])
            at = end
    left.append(received[at:])
    return b"".join(left), packed


def _packed(rows: list[Row]) -> list[bytes]:
    """In parts; none where a value cannot be packed."""
    try:
        return [marshal.dumps(rows[first : first + PART], VERSION) for first in range(0, len(rows), PART)]
    except ValueError:
        return []


def put_back(answers: Sequence[Answer], packed: Packed) -> Iterator[None]:
    """Gives the answers their rows, a part in a step. Raises ProtocolBroken where they do not fit."""
    begun: set[int] = set()
    for number, part in packed:
        answer = answers[number]
        if not isinstance(answer, ResultSet) or (answer.rows and number not in begun):
            raise ProtocolBroken("rows came beside an answer that has its own")
        begun.add(number)
        answer.rows += marshal.loads(part)
        yield
