"""Reads one dump connection on the event loop until it is lost, in slices of about a millisecond.

While decoded work waits, nothing more is received: a faster source waits in its own socket. While the sink is busy
(`Busy`), nothing is decoded, and no turn of the loop is taken until it is free.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from typing import NoReturn, Protocol

import structlog

from gtid_tracker.gtid import Gtid
from vstream.binlog.assemble import Assembler
from vstream.binlog.connection import Session
from vstream.binlog.events import GTID, ROWS
from vstream.binlog.packets import PacketBuffer
from vstream.errors import MALFORMED, HistoryLost, StreamBroken
from vstream.lag import Lag
from vstream.source import NEVER, Busy

_log = structlog.get_logger(__name__)

RECEIVE = 262_144
_EVENTS_BETWEEN_LOOKS = 8  # at the clock
_SLICE = 0.001  # seconds
SILENCE = 3  # heartbeat periods without a word before the connection counts as dead
_OK, _ERROR = 0x00, 0xFF
WOULD_BLOCK = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class DumpLost(Exception):
    """The connection is at its end. `errno`: MySQL's, where it said why."""

    def __init__(self, reason: str, errno: int = 0) -> None:
        super().__init__(reason)
        self.errno = errno


class DumpBroken(Exception):
    """The bytes are not understood, or the sink failed. `gtid`: the transaction; `kind`: the event's type."""

    def __init__(self, reason: str, gtid: Gtid | None, kind: int | None = None) -> None:
        super().__init__(reason)
        self.gtid = gtid
        self.kind = kind


def is_rows(data: bytes, start: int) -> bool:
    """Whether a packet's content, which begins at `start`, is an event of rows. Those of a large one are not read
    (`Assembler.feed_cut`)."""
    return data[start] == _OK and data[start + 5] in ROWS


def take(packets: PacketBuffer, assembler: Assembler) -> bool:
    """Reads the next event, or a whole transaction; False if more must be received for that.

    Requires: the assembler is not inflating. Raises as `Assembler.feed`, and DumpLost if the server says the end.
    """
    packet = packets.next()
    if packet is None:
        return False
    data, start, end = packet
    if data[start] != _OK:
        raise _refusal(data, start, end)
    if packets.was_cut:
        assembler.feed_cut(data, start + 1, end)
        return True
    if data[start + 5] == GTID:
        after = assembler.feed_whole(data, start + 1, end)
        if after:
            packets.at = after  # there the next one begins
            return True
    assembler.feed(data, start + 1, end)
    return True


def _refusal(data: bytes, start: int, end: int) -> DumpLost:
    if data[start] != _ERROR:
        return DumpLost("the source ended the dump")
    number = int.from_bytes(data[start + 1 : start + 3], "little")
    return DumpLost(data[start + 9 : end].decode(errors="replace"), number)


class Follower(Protocol):
    """Who takes what a reader gives."""

    busy: Busy


class DumpReader:
    """One connection. `run` ends with DumpLost, DumpBroken or HistoryLost, or by being cancelled.

    Invariants: 1. While the socket is registered with the loop, `_end` is pending. 2. While `_end` is pending and the
    socket is not registered, the sink is busy, and calls `_go_on` when it is free.
    """

    def __init__(
        self,
        session: Session,
        assembler: Assembler,
        lag: Lag,
        follower: Follower | None = None,
    ) -> None:
        """Requires: the dump was asked for on the session. `follower`: may be busy with what it was given."""
        self.busy = NEVER
        self._follower: Follower = self if follower is None else follower
        self._session = session
        self._socket = session.socket
        self._assembler = assembler
        self._lag = lag
        lag.heard()
        self._packets = PacketBuffer(is_rows)
        self._loop = asyncio.get_running_loop()
        self._end: asyncio.Future[NoReturn] = self._loop.create_future()
        self._scheduled = False  # `_go_on` is to come
        self._watchdog: asyncio.TimerHandle | None = None
        self.received = False  # any event at all

    async def run(self) -> NoReturn:
        self._listen()
        self._watch()
        self._loop.call_soon(self._on_readable)  # with TLS, bytes may wait that the socket does not announce
        try:
            await self._end
        finally:
            self._end.cancel()
            self._loop.remove_reader(self._socket)
            if self._watchdog is not None:
                self._watchdog.cancel()
            self._assembler.reset()
        raise AssertionError("a dump has no result")

    def _listen(self) -> None:
        self._loop.add_reader(self._socket, self._on_readable)

    def _watch(self) -> None:
        idle, lag = not self._scheduled, self._lag
        if idle and lag.clock() - lag.received_at > SILENCE * lag.heartbeat:
            self._fail(DumpLost(f"nothing came for {SILENCE * lag.heartbeat:g} s, not even a heartbeat"))
        else:
            self._watchdog = self._loop.call_later(lag.heartbeat, self._watch)

    def end(self, reason: str) -> None:
        """Gives the connection up."""
        self._fail(DumpLost(reason))

    def _fail(self, error: Exception) -> None:
        if not self._end.done():
            self._end.set_exception(error)

    def _on_readable(self) -> None:
        if not self._scheduled:
            self._work()

    def _go_on(self) -> None:
        self._scheduled = False
        self._work()

    def _work(self) -> None:
        if self._end.done():
            return
        deadline = time.perf_counter() + _SLICE
        try:
            while self._decode(deadline):
                if not self._receive():
                    return
        except (DumpLost, HistoryLost) as lost:
            self._fail(lost)
        except StreamBroken as broken:
            self._fail(DumpBroken(str(broken), broken.gtid, broken.kind))
        except MALFORMED as error:
            _log.exception("a binlog event cannot be read")
            self._fail(DumpBroken(f"a binlog event that cannot be read: {error!r}", self._assembler.gtid))
        except Exception as error:  # noqa: BLE001 - the callback's top level: logs and ends it
            _log.exception("a change could not be taken")
            self._fail(DumpBroken(f"a change could not be taken: {error!r}", None))
        else:
            self._scheduled = True
            if (busy := self._follower.busy).now():  # what arrives would be told in each turn
                self._loop.remove_reader(self._socket)
                busy.when_free(self._is_free)
            else:
                self._loop.call_soon(self._go_on)

    def _is_free(self) -> None:
        if not self._end.done():
            self._listen()
            self._loop.call_soon(self._go_on)

    def _decode(self, deadline: float) -> bool:
        """True when all that was received is decoded, False when the slice is over."""
        assembler, packets, busy = self._assembler, self._packets, self._follower.busy.now
        while True:
            for _ in range(_EVENTS_BETWEEN_LOOKS):
                if busy():
                    return False
                if assembler.inflating:
                    assembler.inflate(1)
                elif not take(packets, assembler):
                    return True
                else:
                    self.received = True
            if time.perf_counter() >= deadline:
                return False

    def _receive(self) -> bool:
        """False if there is nothing to receive now."""
        lag = self._lag
        try:
            chunk = self._socket.recv(RECEIVE)
        except WOULD_BLOCK:
            lag.drained += 1
            return False
        except OSError as error:
            raise DumpLost(f"the connection broke: {error}") from error
        if not chunk:
            raise DumpLost("the source closed the connection")
        lag.received_at, lag.received_wall = lag.clock(), lag.wall_clock()
        self._packets.feed(chunk)
        return True
