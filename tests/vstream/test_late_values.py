"""Rows with large JSON documents, which become text in steps, and rows so large that they are not read."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import zstandard

from dataflow.messages import Ddl, Pair, StreamEvent, TableChanges, Transaction
from gtid_tracker.gtid import Gtid, MutableGtidSet
from tests.support import binlog_bytes as binlog
from tests.support.binlog_bytes import COLLATIONS, SERVER, BinlogTable, large_array, transaction
from vstream.binlog.assemble import Assembler
from vstream.binlog.decode import TableDecoders
from vstream.jsonb import json_text
from vstream.late_values import AT_ONCE

J = BinlogTable("j", ("bigint", "json"))
T = BinlogTable("t", ("bigint", "varchar"), number=101)
SMALL = large_array([b"\x0c\x01a"])
LARGE = large_array([b"\x0c\x64" + b"x" * 100] * 60)
ROWS = ((1, SMALL), (2, LARGE), (3, None), (4, LARGE))
READ: list[Pair] = [(None, (number, None if data is None else json_text(data))) for number, data in ROWS]
ONE = TableChanges("d.t", [(None, (1, "one"))])


class Stream:
    """As one that reads on an event loop."""

    def __init__(self) -> None:
        self.given: list[StreamEvent] = []
        tables = TableDecoders(in_steps=True)
        tables.charsets = COLLATIONS
        self.assembler = Assembler(tables, MutableGtidSet(), self.given.append)
        self.assembler.want(J.table, frozenset({"c0", "c1"}))
        self.assembler.want(T.table, frozenset({"c0", "c1"}))

    def feed(self, events: Sequence[bytes]) -> int:
        """How many steps it took beside the events."""
        steps = 0
        for data in events:
            self.assembler.feed(data, 0, len(data))
            while self.assembler.inflating:
                self.assembler.inflate(1)
                steps += 1
        return steps

    def feed_partly(self, events: Sequence[bytes]) -> None:
        """Up to the middle of the last event's values."""
        self.feed(events[:-1])
        self.assembler.feed(events[-1], 0, len(events[-1]))
        self.assembler.inflate(20)
        assert self.assembler.inflating


def rows_of(*rows: tuple[int, bytes | None]) -> bytes:
    return J.inserts(*rows)


def test_documents_are_finished_before_the_next_event() -> None:
    assert len(SMALL) <= AT_ONCE < len(LARGE)
    stream = Stream()
    steps = stream.feed(transaction(1, J.map(), rows_of(*ROWS), T.map(), T.inserts((1, "one"))))
    (found,) = stream.given
    assert isinstance(found, Transaction)
    assert list(found.changes) == [TableChanges("d.j", READ), ONE] and steps > 2 * 60


def test_rows_of_several_events() -> None:
    """They are of one list, and each event's are finished."""
    stream = Stream()
    stream.feed(transaction(1, J.map(), rows_of(*ROWS), J.map(), rows_of(*ROWS)))
    (found,) = stream.given
    assert isinstance(found, Transaction) and list(found.changes) == [TableChanges("d.j", READ + READ)]


def test_a_compressed_transaction() -> None:
    stream = Stream()
    whole = transaction(1, J.map(), rows_of(*ROWS))
    inside = b"".join(whole[1:])
    stream.feed([whole[0], binlog.payload(whole[1:], zstandard.ZstdCompressor().compress(inside))])
    (found,) = stream.given
    assert isinstance(found, Transaction) and list(found.changes) == [TableChanges("d.j", READ)]


def test_what_is_wanted_changes_in_the_middle() -> None:
    stream = Stream()
    events = transaction(1, J.map(), rows_of(*ROWS))
    stream.feed_partly(events[:-1])
    stream.assembler.want(J.table, frozenset({"c0"}))
    while stream.assembler.inflating:
        stream.assembler.inflate(1)
    stream.feed(events[-1:])
    (found,) = stream.given
    assert isinstance(found, Ddl) and found.tables == frozenset({"d.j"}) and not found.schema


def test_the_connection_is_lost_in_the_middle() -> None:
    stream = Stream()
    events = transaction(1, J.map(), rows_of(*ROWS))
    stream.feed_partly(events[:-1])
    stream.assembler.reset()
    assert not stream.assembler.inflating and stream.given == []
    stream.feed(events)
    (found,) = stream.given
    assert isinstance(found, Transaction) and list(found.changes) == [TableChanges("d.j", READ)]


def test_a_document_that_cannot_be_read_empties_its_table() -> None:
    stream = Stream()
    broken = LARGE[:9] + b"\xff" * (len(LARGE) - 9)
    stream.feed(transaction(1, J.map(), rows_of((1, broken)), T.map(), T.inserts((1, "one"))))
    (found,) = stream.given
    assert isinstance(found, Ddl) and found.tables == frozenset({"d.j", "d.t"}) and not found.schema


@pytest.mark.parametrize("table", [J, T])
def test_an_event_of_which_only_the_beginning_is_there(table: BinlogTable) -> None:
    stream = Stream()
    events = transaction(1, table.map(), table.inserts((1, None)), J.map(), rows_of((1, SMALL)))
    for number, data in enumerate(events):
        if number == 3:
            stream.assembler.feed_cut(data[:40], 0, 40)
        else:
            stream.feed([data])
    (found,) = stream.given
    assert isinstance(found, Ddl) and found.gtid == Gtid(SERVER, 1) and not found.schema
    assert found.tables == frozenset({"d.j", table.table.qualified})


def test_who_reads_without_steps_reads_all_at_once() -> None:
    tables, given = TableDecoders(), list[StreamEvent]()
    tables.charsets = COLLATIONS
    assembler = Assembler(tables, MutableGtidSet(), given.append)
    assembler.want(J.table, frozenset({"c0", "c1"}))
    for data in transaction(1, J.map(), rows_of(*ROWS)):
        assembler.feed(data, 0, len(data))
        assert not assembler.inflating
    (found,) = given
    assert isinstance(found, Transaction) and list(found.changes) == [TableChanges("d.j", READ)]
