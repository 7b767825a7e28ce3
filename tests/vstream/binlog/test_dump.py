"""A dump connection over a socket pair: what ends it, what waits, and how the source goes on."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

import pytest

from dataflow.messages import Gap, Progress, StreamEvent
from gtid_tracker.gtid import Gtid, GtidSet, MutableGtidSet
from tests.support.binlog_bytes import COLLATIONS, SERVER, BinlogTable, event, gtid, packets, query, transaction
from vstream.binlog.assemble import Assembler
from vstream.binlog.connection import Account, Session
from vstream.binlog.decode import TableDecoders
from vstream.binlog.dump import DumpBroken, DumpLost, DumpReader
from vstream.binlog.source import BinlogSource
from vstream.lag import Lag
from vstream.source import Busy

T = BinlogTable("t", ("bigint", "varchar"))


class Connection:
    """In the driver's place: only the socket is asked for."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock


class Wire:
    """One end is the server's; `given` is what the reader at the other end gave."""

    def __init__(self, clock: Callable[[], float], heartbeat: float) -> None:
        self.server, client = socket.socketpair()
        client.setblocking(False)
        self.client = client
        self.given: list[StreamEvent] = []
        tables = TableDecoders()
        tables.charsets = COLLATIONS
        self.position = MutableGtidSet()
        self.assembler = Assembler(tables, self.position, self.given.append)
        session = Session(Connection(client), SERVER, GtidSet.empty(), GtidSet.empty(), 0.0, 0.0, COLLATIONS)
        self.is_busy = False
        self.waiting: list[Callable[[], None]] = []
        self.reader = DumpReader(session, self.assembler, Lag(heartbeat, clock, clock))
        self.reader.busy = Busy(lambda: self.is_busy, self.waiting.append)

    def free(self) -> None:
        self.is_busy = False
        while self.waiting:
            self.waiting.pop()()


def run(scenario: Callable[[Wire], Awaitable[None]], heartbeat: float = 60.0, clock: float = 0.0) -> Wire:
    """`clock`: how far the reader's clock goes each time that it looks."""
    now = [0.0]

    def tick() -> float:
        now[0] += clock
        return now[0]

    async def body() -> Wire:
        wire = Wire(tick, heartbeat)
        try:
            async with asyncio.timeout(60):
                await scenario(wire)
        finally:
            wire.server.close()
            wire.client.close()
        return wire

    return asyncio.run(body())


def test_transactions_arrive_and_a_closed_connection_ends_it() -> None:
    async def scenario(wire: Wire) -> None:
        wire.server.sendall(packets([e for n in range(1, 200) for e in transaction(n)]))
        wire.server.shutdown(socket.SHUT_WR)
        with pytest.raises(DumpLost, match="closed the connection"):
            await wire.reader.run()

    assert run(scenario).given == [Progress(Gtid(SERVER, n)) for n in range(1, 200)]


def test_mysqls_refusal_keeps_its_number_and_text() -> None:
    async def scenario(wire: Wire) -> None:
        content = b"\xff" + (1236).to_bytes(2, "little") + b"#HY000purged"
        wire.server.sendall(len(content).to_bytes(3, "little") + b"\1" + content)
        with pytest.raises(DumpLost, match="purged") as lost:
            await wire.reader.run()
        assert lost.value.errno == 1236

    run(scenario)


def test_the_loop_turns_while_a_long_backlog_is_decoded() -> None:
    async def scenario(wire: Wire) -> None:
        turns = 0

        def turn() -> None:
            nonlocal turns
            turns += 1
            asyncio.get_running_loop().call_soon(turn)

        data = packets([e for n in range(1, 20_001) for e in transaction(n, T.map(), T.inserts((n, "x")))])
        wire.assembler.want(T.table, frozenset({"c0", "c1"}))
        turn()
        reading = asyncio.create_task(wire.reader.run())
        await asyncio.to_thread(wire.server.sendall, data)
        wire.server.shutdown(socket.SHUT_WR)
        with pytest.raises(DumpLost):
            await reading
        assert len(wire.given) == 20_000
        assert turns > 50

    run(scenario)


def test_an_event_that_is_not_understood_names_its_transaction() -> None:
    async def scenario(wire: Wire) -> None:
        wire.server.sendall(packets([gtid(1), query("BEGIN"), event(99, b"")]))
        with pytest.raises(DumpBroken, match="unknown type 99") as broken:
            await wire.reader.run()
        assert (broken.value.gtid, broken.value.kind) == (Gtid(SERVER, 1), 99)

    run(scenario)


def test_a_malformed_event_names_its_transaction() -> None:
    async def scenario(wire: Wire) -> None:
        wire.server.sendall(packets([gtid(1), event(2, b"")]))
        with pytest.raises(DumpBroken, match="cannot be read") as broken:
            await wire.reader.run()
        assert broken.value.gtid == Gtid(SERVER, 1)

    run(scenario)


def test_a_sink_that_fails_ends_the_connection_and_is_not_asked_again() -> None:
    async def scenario(wire: Wire) -> None:
        def fails(event: StreamEvent) -> None:
            raise RuntimeError("no room")

        wire.assembler.sink = fails
        wire.server.sendall(packets(transaction(1)))
        with pytest.raises(DumpBroken, match="no room"):
            await wire.reader.run()
        assert Gtid(SERVER, 1) in wire.position

    run(scenario)


def test_nothing_is_decoded_while_the_sink_is_busy() -> None:
    async def scenario(wire: Wire) -> None:
        loop = asyncio.get_running_loop()

        def takes_time(event: StreamEvent) -> None:
            assert not wire.is_busy, "it is given an event that should wait"
            wire.is_busy = True
            wire.given.append(event)
            loop.call_later(0.001, wire.free)

        wire.assembler.sink = takes_time
        wire.server.sendall(packets([e for n in range(1, 20) for e in transaction(n)]))
        wire.server.shutdown(socket.SHUT_WR)
        with pytest.raises(DumpLost, match="closed the connection"):
            await wire.reader.run()

    assert run(scenario).given == [Progress(Gtid(SERVER, n)) for n in range(1, 20)]


@pytest.mark.parametrize("received", [False, True])
def test_no_turn_of_the_loop_is_taken_while_the_sink_is_busy(monkeypatch: pytest.MonkeyPatch, received: bool) -> None:
    """Neither for what was received, nor for what waits in the socket."""
    turns = 0
    work = DumpReader._work

    def counted(reader: DumpReader) -> None:
        nonlocal turns
        turns += 1
        work(reader)

    monkeypatch.setattr(DumpReader, "_work", counted)

    async def scenario(wire: Wire) -> None:
        wire.is_busy = True
        if received:
            wire.server.sendall(packets(transaction(1)))
        reading = asyncio.create_task(wire.reader.run())
        for _ in range(50):
            await asyncio.sleep(0)
        wire.server.sendall(packets([e for n in range(1 + received, 4) for e in transaction(n)]))
        polled = 0
        while polled < 200:
            await asyncio.sleep(0)
            polled += 1
        assert turns == 1 and wire.given == []
        wire.free()
        while len(wire.given) < 3:
            await asyncio.sleep(0)
        wire.is_busy = True
        wire.server.sendall(packets(transaction(4)))
        while not wire.waiting:
            await asyncio.sleep(0)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        before = turns
        wire.free()  # nobody reads any more
        for _ in range(50):
            await asyncio.sleep(0)
        assert turns == before and len(wire.given) == 3

    run(scenario)


def test_silence_ends_the_connection() -> None:
    async def scenario(wire: Wire) -> None:
        with pytest.raises(DumpLost, match="not even a heartbeat"):
            await wire.reader.run()

    run(scenario, heartbeat=0.01, clock=1.0)


def broken_source() -> tuple[BinlogSource, list[StreamEvent]]:
    source = BinlogSource(Account("nowhere", 1, "nobody"))
    given: list[StreamEvent] = []
    source._sink = given.append
    return source, given


def test_what_breaks_once_is_read_again_and_what_breaks_twice_is_passed_over() -> None:
    source, given = broken_source()
    broken = DumpBroken("odd", Gtid(SERVER, 1), 99)
    source._on_broken(broken)
    assert given == [Gap("odd", GtidSet.empty())]
    source._on_broken(broken)
    assert given[1:] == [Gap("odd", GtidSet.parse(f"{SERVER}:1"))]
    assert source.position == GtidSet.parse(f"{SERVER}:1")


def test_an_unknown_event_between_transactions_is_tolerated_the_second_time() -> None:
    source, given = broken_source()
    broken = DumpBroken("odd", None, 99)
    source._on_broken(broken)
    assert source._assembler.tolerated == set()
    source._on_broken(broken)
    assert source._assembler.tolerated == {99}
    assert len(given) == 2


def test_connection_that_is_given_up_ends_with_the_reason() -> None:
    async def scenario(wire: Wire) -> None:
        asyncio.get_running_loop().call_soon(wire.reader.end, "upqueries are answered elsewhere")
        with pytest.raises(DumpLost, match="elsewhere"):
            await wire.reader.run()

    run(scenario)
