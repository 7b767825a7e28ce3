"""What a session was told by a hit, to be compared with what MySQL tells under the session's variables.

The packets as they were sent are compared with MySQL's, so that what encodes, recodes and shows them is judged, too.
Where these are not the same bytes, values are: MySQL may put rows in another order, and so on
(`proxy/checking/agreement.py`).
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from external_upquery.columns import RawColumn, length_encoded, length_encoded_integer, parse_column
from external_upquery.mysql.other_session import Settings
from sqltypes.expression import Row, Value
from sqltypes.schema import ResultColumn

FLOAT, DOUBLE, NULL, YEAR = 0x04, 0x05, 0x06, 0x0D
MOMENTS = frozenset({0x07, 0x0A, 0x0B, 0x0C})
_FIXED = {
    0x01: struct.Struct("<b"), 0x02: struct.Struct("<h"), YEAR: struct.Struct("<h"), 0x03: struct.Struct("<i"),
    0x09: struct.Struct("<i"), 0x08: struct.Struct("<q"), FLOAT: struct.Struct("<f"), DOUBLE: struct.Struct("<d"),
}  # fmt: skip
_BYTES = 63  # the number of the collation of what is no text
UTF8 = frozenset({"utf8mb4", "utf8mb3", "utf8"})


class Approximate(float):
    """A FLOAT or DOUBLE of the text protocol, which shows as it was written."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> Approximate:
        made = super().__new__(cls, text)
        made.text = text
        return made

    def __repr__(self) -> str:
        return self.text


@dataclass(slots=True, eq=False)
class AsTold:
    """`text`: as the session sent it; `execution`: as `Question` has it, b"" of a text. `database`: where unqualified
    names are of. `head`, `body`: the packets. `results`: the session's character set of results. `on_end`: is told
    whether it is known now to be the same."""

    settings: Settings
    text: bytes
    execution: bytes
    database: str
    head: bytes
    body: bytes
    results: str
    on_end: Callable[[bool], None] = lambda known: None

    @property
    def payloads(self) -> list[bytes]:
        """Of each row."""
        return list(_payloads(self.body))[:-1]  # the last one ends them

    @property
    def columns(self) -> list[RawColumn]:
        """As they were announced."""
        first, *others = _payloads(self.head)
        count, _ = length_encoded_integer(first, 0)
        return [parse_column(payload) for payload in others[:count]]

    def rows(self, planned: Sequence[ResultColumn], columns: Sequence[RawColumn], rows: Sequence[bytes]) -> list[Row]:
        """Rows as values. Raises UnicodeDecodeError where a text has characters that are not read here."""
        texts = [own.charset != _BYTES or column.type.is_string for own, column in zip(columns, planned, strict=True)]
        encoding = "utf-8" if self.results in UTF8 else "ascii"
        read = _binary if self.execution else _text
        return [
            tuple(
                [
                    value.decode(encoding) if is_text and isinstance(value, bytes) else value
                    for value, is_text in zip(read(payload, columns), texts, strict=True)
                ]
            )
            for payload in rows
        ]

    def same_packets(self, rows: Sequence[bytes]) -> bool:
        """Whether they are the same, in any order."""
        return Counter(self.payloads) == Counter(rows)


def shown(rows: Sequence[Row]) -> bytes:
    """Rows so that those are equal which are told alike."""
    return repr(rows).encode(errors="surrogatepass")


def _payloads(packets: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(packets):
        end = at + 4 + int.from_bytes(packets[at : at + 3], "little")
        yield packets[at + 4 : end]
        at = end


def _text(payload: bytes, columns: Sequence[RawColumn]) -> list[Value]:
    values: list[Value] = []
    at = 0
    for column in columns:
        if payload[at] == 0xFB:
            values.append(None)
            at += 1
            continue
        start, at = length_encoded(payload, at)
        value = payload[start:at]
        values.append(Approximate(value.decode("ascii")) if column.code in (FLOAT, DOUBLE) else value)
    return values


def _binary(payload: bytes, columns: Sequence[RawColumn]) -> list[Value]:
    values: list[Value] = []
    nulls = int.from_bytes(payload[1 : (at := 1 + (len(columns) + 9 >> 3))], "little") >> 2
    for number, column in enumerate(columns):
        if nulls >> number & 1 or column.code == NULL:
            values.append(None)
        elif (form := _FIXED.get(column.code)) is not None:
            values.append(form.unpack_from(payload, at)[0])
            at += form.size
        elif column.code in MOMENTS:
            end = at + 1 + payload[at]
            values.append(payload[at + 1 : end])
            at = end
        else:
            start, at = length_encoded(payload, at)
            values.append(payload[start:at])
    return values
