"""A query as a tree of pieces of text, so that it can be written in several ways and made smaller.

A tree is written as the text of a cache (`?` where parameters are), as a text with literals, and as a text with
placeholders beside the values that are bound to them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from proxy.mysql.wire.packets import lenenc

NOT_BOUND = -1
UNSIGNED = 0x8000
NULL_TYPE = 0x06


@dataclass(frozen=True, slots=True)
class Spelled:
    """A value as it is written in a text, and as it is bound to a placeholder. `type`: of the protocol; NOT_BOUND for
    a literal that no parameter has, such as N'a'. `data` None: NULL."""

    text: str
    type: int = NOT_BOUND
    data: bytes | None = None

    @property
    def bindable(self) -> bool:
        return self.type != NOT_BOUND


Given = tuple[Spelled, ...]  # of a mark: one value, or those of an IN-list


@dataclass(eq=False, slots=True)
class Mark:
    """The place of a parameter, and what may be given there, mostly and also. `many`: it is the list of an IN; `shown`:
    by what is given, columns may be announced otherwise."""

    values: tuple[Spelled, ...]
    odd: tuple[Spelled, ...] = ()
    many: bool = False
    shown: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the world by its number; which of its twins is meant is decided when the text is written."""

    number: int


@dataclass(eq=False, slots=True)
class Node:
    """`sep` None: the parts stand beside each other. Else they are the items of a list: nodes may be left out
    while `least` items stay, and an empty list is written without its `lead`. `expr`: something smaller of its kind may
    stand in its place."""

    parts: list[Part]
    sep: str | None = None
    lead: str = ""
    least: int = 0
    expr: bool = False


Part = str | Mark | Table | Node
Piece = str | Mark | Table


def expr(*parts: Part) -> Node:
    return Node(list(parts), expr=True)


def clause(lead: str, sep: str, items: Sequence[Part], least: int = 0) -> Node:
    return Node(list(items), sep, lead, least)


def pieces(part: Part) -> Iterator[Piece]:
    if not isinstance(part, Node):
        yield part
        return
    if part.sep is not None and not part.parts:
        return
    yield part.lead
    for number, item in enumerate(part.parts):
        if number and part.sep is not None:
            yield part.sep
        yield from pieces(item)


def marks(part: Part) -> list[Mark]:
    return [piece for piece in pieces(part) if isinstance(piece, Mark)]


def walk(node: Node) -> Iterator[Node]:
    yield node
    for part in node.parts:
        if isinstance(part, Node):
            yield from walk(part)


def cache_text(tree: Node, twin: str) -> str:
    return "".join(_written(piece, twin, "?") for piece in pieces(tree))


def literal_text(tree: Node, twin: str, given: Mapping[Mark, Given]) -> str:
    out = []
    for piece in pieces(tree):
        shown = ", ".join(value.text for value in given[piece]) if isinstance(piece, Mark) else ""
        out.append(_written(piece, twin, shown))
    return "".join(out)


def prepared_text(tree: Node, twin: str, given: Mapping[Mark, Given]) -> str:
    out = []
    for piece in pieces(tree):
        shown = ", ".join("?" * len(given[piece])) if isinstance(piece, Mark) else ""
        out.append(_written(piece, twin, shown))
    return "".join(out)


def _written(piece: Piece, twin: str, mark: str) -> str:
    if isinstance(piece, Mark):
        return mark
    return f"{twin}{piece.number}" if isinstance(piece, Table) else piece


def bound_values(tree: Node, given: Mapping[Mark, Given]) -> list[Spelled]:
    return [value for mark in marks(tree) for value in given[mark]]


# -- smaller trees -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Change:
    """One step towards a smaller tree, and the way back."""

    node: Node
    parts: list[Part]
    before: list[Part] = field(default_factory=list)

    def do(self) -> None:
        self.before, self.node.parts = self.node.parts, self.parts

    def undo(self) -> None:
        self.node.parts = self.before


def smaller(tree: Node) -> Iterator[Change]:
    """Steps to try, the boldest first: items left out, then expressions replaced by what is within them or by NULL."""
    nodes = list(walk(tree))
    for node in nodes:
        if node.sep is not None:
            loose = [number for number, part in enumerate(node.parts) if isinstance(part, Node)]
            if len(loose) > 1 and len(node.parts) - len(loose) >= node.least:
                yield Change(node, [part for part in node.parts if not isinstance(part, Node)])
            for number in loose if len(node.parts) > node.least else ():
                yield Change(node, node.parts[:number] + node.parts[number + 1 :])
    for node in nodes:
        if node.expr:
            for inner in list(walk(node))[1:]:
                if inner.expr:
                    yield Change(node, inner.parts)
    for node in nodes:
        if node.expr and len(node.parts) > 1:
            yield from (Change(node, [leaf]) for leaf in ("1", "NULL"))


# -- values ------------------------------------------------------------------------------------------------------------

LONGLONG, TINY, SHORT, LONG, FLOAT, DOUBLE = 0x08, 0x01, 0x02, 0x03, 0x04, 0x05
DATE, TIME, DATETIME, TIMESTAMP = 0x0A, 0x0B, 0x0C, 0x07
NEWDECIMAL, VAR_STRING, STRING, BLOB = 0xF6, 0xFD, 0xFE, 0xFC
_FORMS = {LONGLONG: "<q", TINY: "<b", SHORT: "<h", LONG: "<i", FLOAT: "<f", DOUBLE: "<d"}

NULL = Spelled("NULL", NULL_TYPE)


def quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def integer(number: int, type_: int = LONGLONG) -> Spelled:
    if number >= 1 << 63:
        return Spelled(str(number), LONGLONG | UNSIGNED, struct.pack("<Q", number))
    return Spelled(str(number), type_, struct.pack(_FORMS[type_], number))


def double(number: float, type_: int = DOUBLE) -> Spelled:
    return Spelled(f"{number!r}" if "e" in repr(number) else f"{number!r}e0", type_, struct.pack(_FORMS[type_], number))


def decimal(text: str) -> Spelled:
    return Spelled(text, NEWDECIMAL, lenenc(text.encode()))


def string(text: str, type_: int = VAR_STRING) -> Spelled:
    return Spelled(quoted(text), type_, lenenc(text.encode()))


def blob(data: bytes) -> Spelled:
    return Spelled(f"x'{data.hex()}'", BLOB, lenenc(data))


def moment(text: str, type_: int = DATETIME) -> Spelled:
    """`2024-02-29`, with ` 12:34:56[.789]` where the type is not DATE."""
    day, _, rest = text.partition(" ")
    year, month, date = map(int, day.split("-"))
    data = struct.pack("<HBB", year, month, date)
    name = "DATE" if type_ == DATE else "TIMESTAMP"
    if rest:
        clock, _, fraction = rest.partition(".")
        data += struct.pack("<BBB", *map(int, clock.split(":")))
        if fraction:
            data += struct.pack("<I", int(fraction.ljust(6, "0")))
    written = f"{name}'{text}'" if rest or type_ == DATE else f"{name}'{text} 00:00:00'"
    return Spelled(written, type_, bytes((len(data),)) + data)


def clock(text: str) -> Spelled:
    """`[-]hh:mm:ss[.ffffff]`"""
    whole, _, fraction = text.lstrip("-").partition(".")
    hours, minutes, seconds = map(int, whole.split(":"))
    data = struct.pack("<BIBBB", text.startswith("-"), *divmod(hours, 24), minutes, seconds)
    if fraction:
        data += struct.pack("<I", int(fraction.ljust(6, "0")))
    return Spelled(f"TIME'{text}'", TIME, bytes((len(data),)) + data)


def spelled(value: object) -> Spelled:
    """As drivers of most languages bind such a value."""
    match value:
        case Spelled():
            return value
        case None:
            return NULL
        case int():
            return integer(value) if -(2**63) <= value < 2**63 else decimal(str(value))
        case float():
            return double(value)
        case Decimal():
            return decimal(str(value))
        case bytes():
            return blob(value)
    return string(str(value))


def payload(values: Sequence[Spelled]) -> bytes:
    """The parameters of a COM_STMT_EXECUTE."""
    if not values:
        return b""
    bits = sum(1 << number for number, value in enumerate(values) if value.data is None)
    types = b"".join(struct.pack("<H", value.type) for value in values)
    data = b"".join(value.data for value in values if value.data is not None)
    return bits.to_bytes((len(values) + 7) // 8, "little") + b"\1" + types + data
