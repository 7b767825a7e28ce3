"""What a statement was answered, taken apart, and whether two answers say the same.

Everything is compared as it came, byte by byte: the definitions of the columns (name, type, length, flags, decimals,
character set), each row, the number of an error. Only where MySQL itself may choose (which of 'a' and 'A' stands for
their group, in which order floats are added) values are compared instead.
"""

from __future__ import annotations

import struct
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from integration.oracle.trees import (
    DATE,
    DATETIME,
    DOUBLE,
    FLOAT,
    LONG,
    LONGLONG,
    NEWDECIMAL,
    SHORT,
    TIME,
    TIMESTAMP,
    TINY,
)
from proxy.mysql.wire.packets import ERR, OK, parse_error, parse_ok, read_lenenc, read_lenenc_int

# Flags of a column that MySQL tells of a prepared statement, and keeps to itself where a run's rows go through a
# temporary table: keys, AUTO_INCREMENT, no default, ON UPDATE; that a number's text is binary.
OF_TABLES = 0x728E
NUMERIC = 0x8000  # tells old clients that a value is a number; MySQL sets it by the plan
UNSIGNED_FLAG = 0x20
_WIDTHS = {TINY: 1, SHORT: 2, 0x0D: 2, LONG: 4, 0x09: 4, LONGLONG: 8, FLOAT: 4, DOUBLE: 8}
_LENGTH_FIRST = frozenset({DATE, DATETIME, TIMESTAMP, TIME})

Cells = tuple[bytes | None, ...]


@dataclass(frozen=True)
class Answer:
    """`errno` 0: a result set. `definitions`, `rows`: payloads of packets. `warnings`: their number."""

    binary: bool
    errno: int = 0
    message: str = ""
    definitions: tuple[bytes, ...] = ()
    rows: tuple[bytes, ...] = ()
    warnings: int = 0

    @cached_property
    def columns(self) -> list[Column]:
        return [Column.read(definition) for definition in self.definitions]

    def cells(self, row: bytes) -> Cells:
        return binary_cells(row, self.columns) if self.binary else text_cells(row, len(self.definitions))

    def told(self, *, ordered: bool = True) -> object:
        """All that a client is told but of warnings: the error, or the columns as they are announced, and the rows."""
        if self.errno:
            return self.errno, self.message
        return self.definitions, self.rows if ordered else sorted(self.rows)

    def shown(self) -> str:
        if self.errno:
            return f"error {self.errno}: {self.message}"
        return f"{len(self.rows)} rows {[self.cells(row) for row in self.rows[:12]]}"


@dataclass(frozen=True, slots=True)
class Column:
    """A column's definition."""

    name: str
    charset: int
    length: int
    type: int
    flags: int
    decimals: int

    @classmethod
    def read(cls, definition: bytes) -> Column:
        at = 0
        texts = []
        for _ in range(6):
            text, at = read_lenenc(definition, at)
            texts.append(text)
        charset, length, type_, flags, decimals = struct.unpack_from("<HIBHB", definition, at + 1)
        return cls(texts[4].decode("utf-8", "replace"), charset, length, type_, flags & ~OF_TABLES & ~NUMERIC, decimals)


def parse(data: bytes, *, binary: bool) -> Answer:
    """Of one statement, from a client with CLIENT_DEPRECATE_EOF."""
    packets = []
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 3], "little")
        packets.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    first = packets[0]
    if first[0] == ERR:
        error = parse_error(first)
        return Answer(binary, error.errno, error.message)
    if first[0] == OK:
        return Answer(binary)
    count, _ = read_lenenc_int(first, 0)
    end = packets[-1]
    if end[0] == ERR:
        error = parse_error(end)
        return Answer(binary, error.errno, error.message)
    warnings = parse_ok(end, session_track=False).warnings
    return Answer(binary, 0, "", tuple(packets[1 : 1 + count]), tuple(packets[1 + count : -1]), warnings)


def text_cells(row: bytes, count: int) -> Cells:
    out: list[bytes | None] = []
    at = 0
    for _ in range(count):
        if row[at] == 0xFB:
            out.append(None)
            at += 1
        else:
            raw, at = read_lenenc(row, at)
            out.append(raw)
    return tuple(out)


def binary_cells(row: bytes, columns: Sequence[Column]) -> Cells:
    """Numbers as their text, for the rest the bytes as they came."""
    out: list[bytes | None] = []
    at = 1 + (len(columns) + 9) // 8
    for number, column in enumerate(columns, 2):
        if row[1 + (number >> 3)] >> (number & 7) & 1:
            out.append(None)
        elif (width := _WIDTHS.get(column.type)) is not None:
            out.append(_number(row[at : at + width], column))
            at += width
        elif column.type in _LENGTH_FIRST:
            out.append(row[at : at + 1 + row[at]])
            at += 1 + row[at]
        else:
            raw, at = read_lenenc(row, at)
            out.append(raw)
    return tuple(out)


def _number(raw: bytes, column: Column) -> bytes:
    if column.type in (FLOAT, DOUBLE):
        return repr(struct.unpack("<f" if len(raw) == 4 else "<d", raw)[0]).encode()
    return str(int.from_bytes(raw, "little", signed=not column.flags & UNSIGNED_FLAG)).encode()


class Announced:
    """The columns that MySQL has announced for answers to one query.

    They depend on its plan (a temporary table, sorted rows, none at all), and of prepared statements on whether they
    ran before. A hit has those of any answer of MySQL's.
    """

    def __init__(self) -> None:
        self._seen: set[tuple[bool, tuple[Column, ...]]] = set()

    def note(self, answer: Answer) -> None:
        self._seen.add((answer.binary, tuple(answer.columns)))

    def has(self, answer: Answer) -> bool:
        return (answer.binary, tuple(answer.columns)) in self._seen


def difference(wanted: Answer, found: Answer, *, ordered: bool, free: bool, announced: Announced | None = None) -> str:
    """What kind of thing differs: "error", "columns", "rows", or "" for nothing. `announced`: columns that MySQL has
    told of the query before."""
    if wanted.errno or found.errno:
        return "" if wanted.errno == found.errno else "error"
    if not same_rows(wanted, found, ordered=ordered, free=free):
        return "rows"
    if wanted.columns == found.columns or (announced is not None and announced.has(found)):
        return ""
    return "columns"


def same_bytes(wanted: Answer, found: Answer, *, ordered: bool) -> bool:
    """Whether the rows are the same without any choice of MySQL's. Columns of other types have other bytes."""
    if wanted.rows == found.rows or (not ordered and Counter(wanted.rows) == Counter(found.rows)):
        return True
    if wanted.columns == found.columns:
        return False
    one, other = (list(map(answer.cells, answer.rows)) for answer in (wanted, found))
    return one == other if ordered else Counter(one) == Counter(other)


def same_spellings(wanted: Answer, found: Answer, *, ordered: bool) -> bool:
    """Whether the rows are the same but for the rounding of floats."""
    one, other = ([_rounded(answer, row) for row in answer.rows] for answer in (wanted, found))
    return one == other if ordered else Counter(one) == Counter(other)


def _rounded(answer: Answer, row: bytes) -> tuple[object, ...]:
    cells = zip(answer.cells(row), answer.columns, strict=True)
    return tuple(f"{float(cell):.10g}" if cell and kind.type in (FLOAT, DOUBLE) else cell for cell, kind in cells)


def same_rows(wanted: Answer, found: Answer, *, ordered: bool, free: bool) -> bool:
    if same_bytes(wanted, found, ordered=ordered):
        return True
    if len(wanted.rows) != len(found.rows):
        return False
    kinds = [column.type for column in wanted.columns]
    if free or kinds != [column.type for column in found.columns]:
        one, other = ([loosely(answer, row, free) for row in answer.rows] for answer in (wanted, found))
        return one == other if ordered else Counter(one) == Counter(other)
    return False


def loosely(answer: Answer, row: bytes, free: bool) -> tuple[object, ...]:
    """The cells; `free`: the same for values that MySQL may take for equal."""
    cells = answer.cells(row)
    if not free:
        return cells
    return tuple(
        None if cell is None else _folded(cell, column) for cell, column in zip(cells, answer.columns, strict=True)
    )


def _folded(cell: bytes, column: Column) -> object:
    """The same for spellings that some collation takes for equal, and for floats that differ by their rounding."""
    if column.type in (FLOAT, DOUBLE):
        return f"{float(cell) + 0.0:.10g}"
    if column.type == NEWDECIMAL or column.type in _WIDTHS or column.type in _LENGTH_FIRST:
        return cell
    text = unicodedata.normalize("NFD", cell.decode("utf-8", "surrogateescape")).casefold().replace("ß", "ss")
    return "".join(letter for letter in text if not unicodedata.combining(letter) and letter not in " \0")


def explained(wanted: Answer, found: Answer) -> str:
    """What differs, in a few lines."""
    if wanted.errno or found.errno or wanted.rows != found.rows:
        one, other = Counter(map(wanted.cells, wanted.rows)), Counter(map(found.cells, found.rows))
        lines = [f"MySQL:  {wanted.shown()}", f"Upwell: {found.shown()}"]
        if one != other and not (wanted.errno or found.errno):
            lines += [f"only MySQL has {list((one - other).elements())[:5]}"]
            lines += [f"only Upwell has {list((other - one).elements())[:5]}"]
        return "\n".join(lines)
    pairs = zip(wanted.columns, found.columns, strict=False)
    return "\n".join(f"MySQL:  {one}\nUpwell: {other}" for one, other in pairs if one != other)
