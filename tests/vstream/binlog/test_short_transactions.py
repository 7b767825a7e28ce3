"""A transaction that is read as a whole gives what its events give one by one."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataflow.messages import Progress, StreamEvent, Transaction
from gtid_tracker.gtid import Gtid, GtidSet, MutableGtidSet
from tests.support.binlog_bytes import (
    COLLATIONS,
    COMMITTED_AT,
    SERVER,
    BinlogTable,
    event,
    gtid,
    packets,
    payload,
    query,
    transaction,
    unended,
    xid,
)
from vstream.binlog.assemble import Assembler
from vstream.binlog.decode import TableDecoders
from vstream.binlog.dump import take
from vstream.binlog.packets import PacketBuffer
from vstream.errors import StreamBroken

T = BinlogTable("t", ("bigint", "varchar"))
U = BinlogTable("u", ("bigint", "int"), number=101)
V = BinlogTable("v", ("bigint", "varchar"), number=102)  # never announced
OTHER_T = BinlogTable("t", ("unsigned", "varchar"))  # as t would be after an ALTER: not what is wanted
ALL = frozenset({"c0", "c1"})
ROW, OTHER = (1, "a"), (1, None)
MAX_WEIGHT = 200
BEFORE = 100
ANOTHER = "5acf2e92-e5bb-11f1-a813-02fc00000002"


def format_event(checksum: bool) -> bytes:
    """Says whether events end with a checksum; has one itself in either case."""
    return event(15, struct.pack("<H50sIB", 4, b"9.7.0", 0, 19) + bytes(40) + bytes((checksum,)) + bytes(4))


# What a transaction may be made of; each takes its number.
SHAPES: dict[str, Callable[[int], list[bytes]]] = {
    "insert": lambda n: transaction(n, T.map(), T.inserts(ROW)),
    "inserts": lambda n: transaction(n, T.map(), T.inserts(ROW, OTHER)),
    "update": lambda n: transaction(n, T.map(), T.updates((ROW, OTHER))),
    "delete": lambda n: transaction(n, T.map(), T.deletes(OTHER)),
    "not wanted": lambda n: transaction(n, U.map(), U.inserts((1, 2))),
    "two tables": lambda n: transaction(n, T.map(), T.inserts(ROW), U.map(), U.inserts((1, 2))),
    "two statements": lambda n: transaction(n, T.map(), T.inserts(ROW), T.map(), T.deletes(ROW)),
    "two maps": lambda n: transaction(n, T.map(), U.map(), U.inserts((1, 2))),
    "other rows than the map's": lambda n: transaction(n, T.map(), V.inserts(ROW)),
    "of a table that is not as wanted": lambda n: transaction(n, OTHER_T.map(), OTHER_T.inserts((1, "b"))),
    "heavy": lambda n: transaction(n, T.map(), T.inserts((1, "a" * 190), (2, "b" * 190))),
    "a column is missing": lambda n: transaction(n, T.map(), T.inserts(ROW).replace(b"\2\xff", b"\2\xfd")),
    "rows that end early": lambda n: transaction(n, T.map(), T.inserts(ROW)[:-1]),
    "rows that are not the last": lambda n: transaction(n, T.map(), unended(T.inserts(ROW))),
    "no rows": lambda n: transaction(n, T.map()),
    "nothing": lambda n: transaction(n),
    "ddl": lambda n: [gtid(n), query("ALTER TABLE t ADD x INT")],
    "committed by a statement": lambda n: [gtid(n), query("BEGIN"), T.map(), T.inserts(ROW), query("COMMIT")],
    "rolled back": lambda n: [gtid(n), query("BEGIN"), T.map(), T.inserts(ROW), query("ROLLBACK")],
    "without BEGIN": lambda n: [gtid(n), query("XBEGIN"), T.map(), T.inserts(ROW), xid()],
    "compressed": lambda n: [gtid(n), payload([query("BEGIN"), T.map(), T.inserts(ROW), xid()], None)],
    "received before": lambda n: transaction(BEFORE, T.map(), T.inserts(ROW)),
    "of another server": lambda n: [gtid(n, ANOTHER), *transaction(n, T.map(), T.inserts(ROW))[1:]],
    "without a GTID": lambda n: transaction(n, T.map(), T.inserts(ROW))[1:],
    "without an end": lambda n: transaction(n, T.map(), T.inserts(ROW))[:-1],
    "a new binlog file": lambda n: [event(4, bytes(8) + b"binlog.000002")],
    "checksums": lambda n: [format_event(checksum=True)],
    "no checksums": lambda n: [format_event(checksum=False)],
}


class Side:
    """An assembler and what it gave."""

    def __init__(self) -> None:
        self.given: list[StreamEvent] = []
        tables = TableDecoders()
        tables.charsets = COLLATIONS
        self.position = MutableGtidSet(GtidSet.parse(f"{SERVER}:{BEFORE}"))
        self.assembler = Assembler(tables, self.position, self.given.append, MAX_WEIGHT)
        self.assembler.want(T.table, ALL)

    def one_by_one(self, events: Sequence[bytes]) -> str:
        """How it ended."""
        try:
            for data in events:
                self.assembler.feed(data, 0, len(data))
                while self.assembler.inflating:
                    self.assembler.inflate(1)
        except StreamBroken as broken:
            return str(broken)
        return ""

    def as_received(self, data: bytes, piece: int) -> str:
        """The same from packets, so many bytes at a time."""
        buffer = PacketBuffer()
        try:
            for at in range(0, len(data), piece):
                buffer.feed(data[at : at + piece])
                while self.assembler.inflating or take(buffer, self.assembler):
                    if self.assembler.inflating:
                        self.assembler.inflate(1)
        except StreamBroken as broken:
            return str(broken)
        return ""


def stream(shapes: Sequence[str]) -> list[bytes]:
    """The events, with a checksum each as the last format event has said."""
    events: list[bytes] = []
    checksum = b""
    for number, shape in enumerate(shapes, 1):
        events += [data + checksum for data in SHAPES[shape](number)]
        if shape == "checksums":
            checksum = b"#sum"
        elif shape == "no checksums":
            checksum = b""
    return events


def same_both_ways(shapes: Sequence[str], piece: int) -> Side:
    events = stream(shapes)
    single, received = Side(), Side()
    assert received.as_received(packets(events), piece) == single.one_by_one(events)
    assert received.given == single.given
    assert [getattr(e, "size", 0) for e in received.given] == [getattr(e, "size", 0) for e in single.given]
    assert received.position.freeze() == single.position.freeze()
    assert received.assembler.committed_at == single.assembler.committed_at
    assert received.assembler.tables.writes == single.assembler.tables.writes
    assert received.assembler.gtid == single.assembler.gtid
    return received


@given(st.lists(st.sampled_from(sorted(SHAPES)), max_size=8), st.sampled_from((7, 150, 400, 1_000_000)))
def test_any_stream_gives_the_same_both_ways(shapes: list[str], piece: int) -> None:
    same_both_ways(shapes, piece)


@pytest.mark.parametrize("shape", sorted(SHAPES))
@pytest.mark.parametrize("before", ["no checksums", "checksums"])
def test_each_shape_gives_the_same_both_ways_between_others(shape: str, before: str) -> None:
    same_both_ways([before, "insert", shape, shape, "update", shape, "insert"], 1_000_000)


@pytest.mark.parametrize("before", ["no checksums", "checksums"])
@pytest.mark.parametrize(
    ("shape", "kind"), [("insert", Transaction), ("update", Transaction), ("not wanted", Progress)]
)
def test_what_is_common_is_read_as_a_whole(
    shape: str, kind: type[StreamEvent], before: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    side, buffer = Side(), PacketBuffer()
    *known, gtid_, begin, map_, rows, end = stream([before, shape, shape])
    side.one_by_one(known)  # the table becomes known
    side.assembler.committed_at = 0.0
    monkeypatch.setattr(side.assembler, "feed", None)
    buffer.feed(packets([gtid_, begin, map_, rows, end]))
    assert take(buffer, side.assembler)
    assert not take(buffer, side.assembler)
    assert [type(message) for message in side.given] == [kind, kind]
    assert Gtid(SERVER, 3) in side.position
    assert side.assembler.committed_at == COMMITTED_AT


def test_nothing_is_given_before_the_last_byte_has_come() -> None:
    first = packets(stream(["insert"]))
    second = packets(stream(["insert", "insert"]))[len(first) :]
    for missing in range(1, len(second)):
        side, buffer = Side(), PacketBuffer()
        side.as_received(first, 1_000_000)
        buffer.feed(second[:-missing])
        while take(buffer, side.assembler):
            pass
        assert len(side.given) == 1
        buffer.feed(second[-missing:])
        while take(buffer, side.assembler):
            pass
        assert len(side.given) == 2
