"""Reads one dump connection event by event in the caller's thread: for callers without an event loop.

It reads the same as `dump.py`, at the caller's pace. While the caller does not ask, the server waits in its socket, and
gives up after its `net_write_timeout`.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable

from vstream.binlog.assemble import Assembler
from vstream.binlog.connection import Session
from vstream.binlog.dump import RECEIVE, SILENCE, WOULD_BLOCK, DumpLost, take
from vstream.binlog.packets import PacketBuffer
from vstream.errors import MALFORMED, StreamBroken


class PulledDump:
    """Requires: the dump was asked for on the session, and the assembler was fed nothing of another connection."""

    def __init__(
        self,
        session: Session,
        assembler: Assembler,
        heartbeat: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`heartbeat`: seconds."""
        self._session = session
        self._socket = session.socket
        self._assembler = assembler
        self._silence = SILENCE * heartbeat
        self._clock = clock
        self._packets = PacketBuffer()
        self._received = 0
        self._received_at = clock()

    @property
    def taken(self) -> int:
        """Bytes of what was read."""
        return self._received - self._packets.size

    def step(self, seconds: float) -> bool:
        """Reads the next event, or a whole transaction; False if none has come within so many seconds.

        Raises StreamBroken, or DumpLost when the connection is at its end.
        """
        until = self._clock() + seconds
        while not self._take():
            if not self._receive(max(0.0, until - self._clock())) and self._clock() >= until:
                return False
        return True

    def _take(self) -> bool:
        assembler = self._assembler
        try:
            if assembler.inflating:
                assembler.inflate(1)
                return True
            return take(self._packets, assembler)
        except MALFORMED as error:
            raise StreamBroken(f"a binlog event that cannot be read: {error!r}", assembler.gtid) from error

    def _receive(self, seconds: float) -> bool:
        """False if nothing has come."""
        try:
            chunk = self._socket.recv(RECEIVE)
        except WOULD_BLOCK:
            self._wait(seconds)
            return False
        except OSError as error:
            raise DumpLost(f"the connection broke: {error}") from error
        if not chunk:
            raise DumpLost("the source closed the connection")
        self._received += len(chunk)
        self._received_at = self._clock()
        self._packets.feed(chunk)
        return True

    def _wait(self, seconds: float) -> None:
        silent = self._clock() - self._received_at
        if silent > self._silence:
            raise DumpLost(f"nothing came for {silent:.1f} s, not even a heartbeat")
        waiting = select.poll()
        waiting.register(self._socket, select.POLLIN)
        waiting.poll(1000 * min(seconds, self._silence))

    def close(self) -> None:
        self._session.close()
