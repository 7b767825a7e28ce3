"""Rows as bytes.

    (7, 'seven', Decimal('1.50'))  -- pack -->  b'i\\x07\\x00\\x00\\x00u...'  -- unpack -->  the same

marshal, in its version 2, writes equal values of one type alike, whatever else refers to them, and does it in a
tenth of a microsecond. What it cannot write is written as a text: decimals. Bytes are never kept beyond the process.

The head says that a tuple of so many values follows, which is known. It is cut off: that copies the bytes. What dumps
returns was larger while it was written, so it stands in the C library's heap, where it takes more and leaves holes.

A row of more than LARGE_ROW bytes stays a tuple, for to unpack it would copy all of it, unless it has a FLOAT.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from marshal import dumps, loads
from typing import Any

from sqltypes.compile import Codegen
from sqltypes.expression import Row
from sqltypes.schema import SqlType

Packed = bytes | Row
VERSION = 2  # later ones write a value that is met again as a reference, by how many others refer to it
HEAD = 5
LARGE_ROW = 1 << 16
BYTES = 41  # a bytes object without its bytes, and what the allocator adds on average


@dataclass(frozen=True, slots=True)
class Packing:
    """Of rows of some types. `length`, `frame`: a packed one occupies so many bytes, both together."""

    pack: Callable[[Row], Packed]
    unpack: Callable[[Any], Row]
    length: Callable[[Any], int]
    frame: int


def packing(types: Sequence[SqlType], weigh: Callable[[Row], int]) -> Packing:
    """`weigh`: bytes that a tuple occupies."""
    decimals = [at for at, type_ in enumerate(types) if type_.name == "decimal"]
    # Of a row that stays a tuple 0.0 and -0.0 would be equal.
    large = sum(map(_most_bytes, types)) > LARGE_ROW and not any(type_.is_approximate for type_ in types)
    code = Codegen()
    head = dumps((None,) * len(types), VERSION)[:HEAD] if types else b""  # a row of nothing is but a head
    code.names.update(dumps=dumps, loads=loads, Decimal=Decimal, weigh=weigh, head=head)
    written = _row(types, "r", "str") if decimals else "r"
    read = _row(types, "v", "Decimal")
    pack = [f"p = dumps({written}, {VERSION})", f"return p[{len(head)}:] if len(p) <= {LARGE_ROW} else r"]
    unpack = ["if p.__class__ is tuple: return p", "v = loads(head + p)", f"return {read if decimals else 'v'}"]
    length = [f"return len(p) + {BYTES} if p.__class__ is bytes else weigh(p)"]
    if not large:
        pack = [f"return dumps({written}, {VERSION})[{len(head)}:]"]
        unpack = unpack[1:]
    return Packing(
        code.function("pack", "r", pack),
        code.function("unpack", "p", unpack),
        code.function("length", "p", length) if large else len,
        0 if large else BYTES,
    )


def _row(types: Sequence[SqlType], row: str, convert: str) -> str:
    """The row's tuple with its decimals converted."""
    parts = [
        f"None if {row}[{at}] is None else {convert}({row}[{at}])" if type_.name == "decimal" else f"{row}[{at}]"
        for at, type_ in enumerate(types)
    ]
    return f"({', '.join(parts)},)"


def _most_bytes(type_: SqlType) -> int:
    """Bytes that a value takes at most, if it is a short one."""
    if type_.is_string or type_.is_binary:
        return 4 * type_.length if type_.length is not None else LARGE_ROW + 1
    return LARGE_ROW + 1 if type_.name == "json" else 100
