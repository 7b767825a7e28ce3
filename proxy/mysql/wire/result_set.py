"""Small result sets of our own, for commands that MySQL does not know: SHOW CACHES and the like.

Promises: the whole answer to a COM_QUERY or a COM_STMT_EXECUTE, in utf8mb4, with columns described as MySQL describes
those of expressions, so that every client shows them well. Not for rows of MySQL's own tables: those are
`proxy/mysql/wire/rows.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal

from proxy.loop.slices import encode_in_slices, in_slices
from proxy.mysql.wire.packets import lenenc
from proxy.mysql.wire.rows import encoder_for, head, join, with_status
from sqltypes.expression import Value
from sqltypes.schema import BIGINT, DOUBLE, ResultColumn, SqlType
from sqltypes.values import double_text

Kind = Literal["string", "bigint", "double"]
Cell = str | int | float | None

_UTF8MB4, _BINARY = 255, 63  # collation ids
_NOT_NULL, _BINARY_FLAG = 0x01, 0x80
_NO_DECIMALS = 31
_BYTES_PER_CHARACTER = 4

# kind -> (type, its number in the protocol, collation, flags, decimals, length or None: that of the longest value)
_KINDS: dict[Kind, tuple[SqlType, int, int, int, int, int | None]] = {
    "string": (SqlType("varchar"), 253, _UTF8MB4, 0, _NO_DECIMALS, None),
    "bigint": (BIGINT, 8, _BINARY, _BINARY_FLAG, 0, 21),
    "double": (DOUBLE, 5, _BINARY, _BINARY_FLAG, _NO_DECIMALS, 23),
}


def definitions_of(columns: Sequence[tuple[str, Kind]]) -> list[bytes]:
    """The payloads of the column definitions, as the answer to COM_STMT_PREPARE has them: no row is known yet."""
    return [_definition(_column(name, kind, ()), _KINDS[kind][1]) for name, kind in columns]


async def result(
    columns: Sequence[str | tuple[str, Kind]],
    rows: Sequence[Sequence[Cell]],
    *,
    eof: bool,
    status: int,
    binary: bool = False,
) -> bytes:
    """The packets from sequence number 1 on. A column given by its name alone has strings; numbers in it are shown as
    MySQL prints them. `eof`: the client has no CLIENT_DEPRECATE_EOF. `binary`: of a prepared statement. There may be
    thousands of rows: others have their turn meanwhile. Raises InvariantViolated for a value that is not of its
    column's kind."""
    named: list[tuple[str, Kind]] = [(item, "string") if isinstance(item, str) else item for item in columns]
    shown = [
        tuple([_value(cell, kind) for cell, (_, kind) in zip(row, named, strict=True)]) async for row in in_slices(rows)
    ]
    described = tuple(
        [_column(name, kind, [row[at] for row in shown]) async for at, (name, kind) in in_slices(enumerate(named))]
    )
    encode = encoder_for(described, binary=binary, eof=eof)
    body = await encode_in_slices(encode, partial(join, eof=eof), shown)
    definitions = [_definition(column, _KINDS[kind][1]) for column, (_, kind) in zip(described, named, strict=True)]
    return head(definitions, eof=eof, status=status) + with_status(body, status, eof=eof)


def _value(cell: Cell, kind: Kind) -> Value:
    if kind == "string" and cell is not None and not isinstance(cell, str):
        return double_text(cell) if isinstance(cell, float) else str(cell)
    return cell


def _column(name: str, kind: Kind, values: Sequence[Value]) -> ResultColumn:
    type_, _, charset, flags, decimals, length = _KINDS[kind]
    nullable = None in values
    if length is None:
        length = _BYTES_PER_CHARACTER * max((len(value) for value in values if isinstance(value, str)), default=0)
    return ResultColumn(
        name,
        type_,
        nullable,
        flags=flags | (0 if nullable else _NOT_NULL),
        decimals=decimals,
        charset=charset,
        length=length,
    )


def _definition(column: ResultColumn, code: int) -> bytes:
    """The payload of a column definition packet: of no table."""
    return b"".join(
        (
            lenenc(b"def"),
            lenenc(b"") * 3,  # schema, table, original table
            lenenc(column.name.encode()),
            lenenc(b""),  # original name
            b"\x0c",  # bytes of what follows
            column.charset.to_bytes(2, "little"),
            column.length.to_bytes(4, "little"),
            bytes((code,)),
            column.flags.to_bytes(2, "little"),
            bytes((column.decimals, 0, 0)),
        )
    )
