"""Writes binlog events as a server would, for tests without one: enough of the format for a few kinds of columns."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from decimal import Decimal

from sqltypes.schema import Column, SqlType, Table

SERVER = "5acf2e92-e5bb-11f1-a813-02fc00000001"
COLLATIONS = {8: "latin1", 63: "binary", 255: "utf8mb4"}
COMMITTED_AT = 1_700_000_000.25

# (binlog type, metadata, the type) of what these events can carry.
_KINDS: dict[str, tuple[int, bytes, SqlType]] = {
    "bigint": (8, b"", SqlType("bigint")),
    "unsigned": (8, b"", SqlType("bigint", unsigned=True)),
    "int": (3, b"", SqlType("int")),
    "varchar": (15, b"\xc8\x00", SqlType("varchar", length=50, collation="utf8mb4_0900_ai_ci")),
    "decimal": (246, b"\x0a\x02", SqlType("decimal", precision=10, scale=2)),
    "datetime": (18, b"\x06", SqlType("datetime", scale=6)),
    "json": (245, b"\x04", SqlType("json")),
}
_NUMERIC = frozenset({"bigint", "unsigned", "int", "decimal"})

Cells = Sequence[object]


class BinlogTable:
    """A table `schema.name` with columns c0, c1, ... of the kinds in `_KINDS`; a JSON document is given in its binary
    form."""

    def __init__(self, name: str, kinds: Sequence[str], number: int = 100, schema: str = "d") -> None:
        self.kinds = tuple(kinds)
        self.number = number
        columns = tuple(Column(f"c{n}", _KINDS[kind][2], True, n) for n, kind in enumerate(kinds))
        self.table = Table(schema, name, columns, ("c0",))

    @property
    def id(self) -> bytes:
        return self.number.to_bytes(6, "little")

    def map(self) -> bytes:
        schema, name = self.table.schema.encode(), self.table.name.encode()
        count = len(self.kinds)
        meta = b"".join(_KINDS[kind][1] for kind in self.kinds)
        body = self.id + b"\1\0" + bytes((len(schema),)) + schema + b"\0" + bytes((len(name),)) + name + b"\0"
        body += bytes((count,)) + bytes(_KINDS[kind][0] for kind in self.kinds)
        body += bytes((len(meta),)) + meta + b"\xff" * ((count + 7) // 8)
        signs = "".join(str(int(kind == "unsigned")) for kind in self.kinds if kind in _NUMERIC).ljust(8, "0")
        names = b"".join(bytes((len(c.name),)) + c.name.encode() for c in self.table.columns)
        fields = ((1, bytes((int(signs, 2),))), (2, b"\xfc\xff\x00"), (4, names))
        return event(19, body + b"".join(bytes((kind, len(value))) + value for kind, value in fields))

    def inserts(self, *rows: Cells) -> bytes:
        return event(30, self._front(1) + b"".join(map(self._image, rows)))

    def deletes(self, *rows: Cells) -> bytes:
        return event(32, self._front(1) + b"".join(map(self._image, rows)))

    def updates(self, *pairs: tuple[Cells, Cells]) -> bytes:
        return event(31, self._front(2) + b"".join(self._image(before) + self._image(after) for before, after in pairs))

    def _front(self, images: int, present: bytes | None = None) -> bytes:
        count = len(self.kinds)
        return self.id + b"\1\0\2\0" + bytes((count,)) + (present or b"\xff" * ((count + 7) // 8)) * images

    def _image(self, row: Cells) -> bytes:
        nulls = sum(1 << n for n, value in enumerate(row) if value is None)
        cells = [_cell(kind, value) for kind, value in zip(self.kinds, row, strict=True) if value is not None]
        return nulls.to_bytes((len(self.kinds) + 7) // 8, "little") + b"".join(cells)


def _cell(kind: str, value: object) -> bytes:
    if kind == "varchar":
        raw = str(value).encode()
        return bytes((len(raw),)) + raw
    if kind == "json":
        assert isinstance(value, bytes)
        return len(value).to_bytes(4, "little") + value
    if kind == "decimal":
        whole, _, fraction = f"{Decimal(str(value)):.2f}".partition(".")
        return (int(whole) ^ 1 << 31).to_bytes(4, "big") + bytes((int(fraction),))
    if kind == "datetime":
        day, _, clock = str(value).partition(" ")
        year, month, date = map(int, day.split("-"))
        hour, minute, second = clock.split(":")
        whole, _, micro = second.partition(".")
        packed = ((year * 13 + month) << 5 | date) << 17 | int(hour) << 12 | int(minute) << 6 | int(whole)
        return (packed + 0x8000000000).to_bytes(5, "big") + int(micro or 0).to_bytes(3, "big")
    size = 4 if kind == "int" else 8
    return int(str(value)).to_bytes(size, "little", signed=kind != "unsigned")


def large_array(elements: Sequence[bytes]) -> bytes:
    """A large array (type 3) of JSON documents, in MySQL's binary form."""
    entries, payload, behind = b"", b"", 8 + 5 * len(elements)
    for element in elements:
        entries += struct.pack("<BI", element[0], behind + len(payload))
        payload += element[1:]
    return struct.pack("<BII", 3, len(elements), behind + len(payload)) + entries + payload


def event(kind: int, body: bytes) -> bytes:
    return struct.pack("<IBIIIH", 1_700_000_000, kind, 1, 19 + len(body), 0, 0) + body


def unended(rows: bytes) -> bytes:
    """An event of rows behind which more of the same statement come."""
    return rows[:25] + b"\0" + rows[26:]


def gtid(number: int, server: str = SERVER) -> bytes:
    body = b"\0" + bytes.fromhex(server.replace("-", "")) + struct.pack("<QBQQ", number, 2, number - 1, number)
    return event(33, body + int(COMMITTED_AT * 1e6).to_bytes(7, "little") + b"\xc8" + struct.pack("<I", 90704))


def query(text: str, database: str = "d", client_collation: int = 255) -> bytes:
    status = b"\4" + struct.pack("<HHH", client_collation, 255, 255)
    front = struct.pack("<IIBHH", 7, 0, len(database), 0, len(status))
    return event(
        2, front + status + database.encode() + b"\0" + text.encode("latin1" if client_collation == 8 else "utf-8")
    )


def xid() -> bytes:
    return event(16, struct.pack("<Q", 77))


def transaction(number: int, *inner: bytes) -> list[bytes]:
    """The events of a whole transaction around these."""
    return [gtid(number), query("BEGIN"), *inner, xid()]


def payload(events: Sequence[bytes], compressed: bytes | None, kind: int = 0) -> bytes:
    """A compressed transaction; `compressed` None: its events as they are."""
    body = compressed if compressed is not None else b"".join(events)
    if compressed is None:
        kind = 255
    size = b"\xfd" + len(body).to_bytes(3, "little")
    kind_field = b"\2\3\xfc" + kind.to_bytes(2, "little") if kind > 250 else b"\2\1" + bytes((kind,))
    return event(40, kind_field + b"\1\4" + size + b"\0" + body)


def packets(events: Sequence[bytes]) -> bytes:
    """As they come over the wire."""
    return b"".join((len(e) + 1).to_bytes(3, "little") + b"\1\0" + e for e in events)
