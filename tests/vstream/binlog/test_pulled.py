"""A dump that is read when it is asked, over a socket pair."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from dataflow.messages import StreamEvent, Transaction
from gtid_tracker.gtid import GtidSet, MutableGtidSet
from tests.support.binlog_bytes import COLLATIONS, SERVER, BinlogTable, event, gtid, packets, transaction
from tests.vstream.binlog.test_dump import Connection
from vstream.binlog.assemble import Assembler
from vstream.binlog.connection import Session
from vstream.binlog.decode import TableDecoders
from vstream.binlog.dump import DumpLost
from vstream.binlog.events import HEARTBEAT
from vstream.binlog.pulled import PulledDump
from vstream.errors import StreamBroken

T = BinlogTable("t", ("bigint", "varchar"))


class Wire:
    def __init__(self) -> None:
        self.server, self.client = socket.socketpair()
        self.client.setblocking(False)
        self.given: list[StreamEvent] = []
        self.now = 0.0
        tables = TableDecoders()
        tables.charsets = COLLATIONS
        self.assembler = Assembler(tables, MutableGtidSet(), self.given.append)
        self.assembler.want(T.table, frozenset({"c0", "c1"}))
        session = Session(Connection(self.client), SERVER, GtidSet.empty(), GtidSet.empty(), 0.0, 0.0, COLLATIONS)
        self.dump = PulledDump(session, self.assembler, 1.0, self.clock)

    def clock(self) -> float:
        self.now += 0.25
        return self.now


@pytest.fixture
def wire() -> Iterator[Wire]:
    found = Wire()
    yield found
    found.server.close()
    found.client.close()


def test_it_reads_one_event_at_a_time_and_only_when_it_is_asked(wire: Wire) -> None:
    sent = packets([*transaction(1, T.map(), T.inserts((1, "a"))), *transaction(2, T.map(), T.inserts((2, "b")))])
    wire.server.sendall(sent)
    while not wire.given:
        assert wire.dump.step(10)
    assert len(wire.given) == 1, "the second one waits"
    assert 0 < wire.dump.taken < len(sent)
    while len(wire.given) < 2:
        assert wire.dump.step(10)
    assert [event.changes[0].pairs for event in wire.given if isinstance(event, Transaction)] == [
        [(None, (1, "a"))],
        [(None, (2, "b"))],
    ]
    assert wire.dump.taken == len(sent)
    assert not wire.dump.step(0.5), "nothing has come"


def test_what_ends_it(wire: Wire) -> None:
    wire.server.sendall(packets([event(HEARTBEAT, b"")]))
    assert wire.dump.step(1)
    wire.now += 100
    with pytest.raises(DumpLost, match="heartbeat"):
        wire.dump.step(1)
    wire.server.sendall(packets([gtid(1), event(HEARTBEAT, b""), gtid(2)]))
    with pytest.raises(StreamBroken, match="begins before"):
        for _ in range(3):
            wire.dump.step(1)
    wire.server.close()
    with pytest.raises(DumpLost, match="closed"):
        wire.dump.step(1)
