"""A client's connection whose packets are compressed. It stands between the socket's transport and the session, as TLS
does: to the transport it is the protocol, to the session's wire it is the transport.

MySQL takes a client's frames one command after the other, and so they are handed on here: frames have numbers that both
sides count, from 0 with each command. What comes ahead waits until the session has answered.

Whatever takes longer than a frame is inflated in a thread, and what follows it waits.

Invariants:
1. The socket is not read from while the session does not want it, or more than `HELD` bytes wait of which the first
   frame is complete.
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from proxy.mysql.wire.compressed_output import CompressedOutput
from proxy.mysql.wire.compression import HEADER, Compression, PacketNumbers, unpacked
from proxy.mysql.wire.held_frames import HeldFrames
from proxy.mysql.wire.packets import Malformed, error_payload, packet
from proxy.mysql.wire.sockets import HELD

AT_ONCE = 64 * 1024  # bytes that are inflated on the loop: a fifth of a millisecond
TURN = 32  # frames of one client, then others are looked after


class FramedSession(Protocol):
    """The relay of the session."""

    closed: bool

    @property
    def busy(self) -> bool:
        """Whether a command is under way."""
        ...

    @property
    def next_number(self) -> int | None:
        """The number of the client's next packet, where MySQL has asked for one in the middle of a command."""
        ...

    def end_with(self, words: bytes) -> None: ...


class CompressedClient(asyncio.Protocol):
    """From the login on. `protocol`: the session's wire, to be set before anything comes. The first that is written,
    the login's OK, is not compressed."""

    protocol: asyncio.Protocol

    def __init__(self, below: asyncio.Transport, compression: Compression, session: FramedSession) -> None:
        self._below = below
        self._compression = compression
        self._session: FramedSession | None = session
        self._output = CompressedOutput(below, compression, self._on_full, self.go_on)
        self._begun = False
        self._held = HeldFrames()
        self._rest = memoryview(b"")  # of the packets of a frame
        self._numbers = PacketNumbers()
        self._turned = False  # something was written since the last frame came
        self._empty = False  # the last frame: the next one goes on from its number, and still begins a command
        self._wanted = self._reading = True  # by the session; from the socket
        self._inflating = self._handing_on = False
        self._closing = False

    # -- from the client -----------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self._session is None or self._session.closed:
            return
        self._held.feed(data)
        self.go_on()

    def go_on(self) -> None:
        """Hands on the frames that are there, as far as it is their turn."""
        if self._handing_on:
            return
        self._handing_on = True
        try:
            for _ in range(TURN):
                if not self._hand_on():
                    break
            else:
                asyncio.get_running_loop().call_soon(self.go_on)
        finally:
            self._handing_on = False
        self._mind_reading()

    def _hand_on(self) -> bool:
        """The next frame; whether there may be more."""
        held, session = self._held, self._session
        if session is None or self._inflating or self._closing or not self._wanted:
            return False
        if self._rest:
            return self._receive()
        header = held.header()
        if header is None:
            return False
        begins = self._numbers.between
        asked = session.next_number if begins else None
        if begins and asked is None and not self._begins_command(session):
            return False
        size, number, announced = header
        if number != self._output.number & 0xFF:
            self._refuse(1156, "Got packets out of order")
            return False
        if held.size < HEADER + size:
            return False
        body = held.take(size)
        self._output.number += 1
        if begins:
            first = 0 if asked is None else asked if self._turned else self._numbers.next
            self._numbers.begin(first, series=asked is not None)
        self._turned = False
        return self._take(body, announced)

    def _begins_command(self, session: FramedSession) -> bool:
        """Whether it is a command's turn. Its frames are numbered from 0."""
        if session.busy or not self._output.idle:
            return False
        if not self._empty:
            self._output.number = 0
        return True

    def _take(self, body: memoryview, announced: int) -> bool:
        """What is in a frame; as `_hand_on`."""
        if max(announced, len(body)) > AT_ONCE and announced:  # very many bytes may become none
            self._inflating = True
            job = asyncio.get_running_loop().run_in_executor(None, unpacked, body, announced, self._compression)
            job.add_done_callback(self._inflated)
            return False
        try:
            self._rest = memoryview(unpacked(body, announced, self._compression)) if announced else body
        except Malformed:
            self._refuse_inflating()
            return False
        self._empty = not self._rest
        return self._receive()

    def _inflated(self, done: asyncio.Future[bytes]) -> None:
        self._inflating = False
        failed = done.cancelled() or done.exception() is not None
        if self._session is None or self._closing or done.cancelled():
            return
        if failed:
            self._refuse_inflating()
            return
        self._rest = memoryview(done.result())
        self._empty = not self._rest
        self.go_on()

    def _receive(self) -> bool:
        """Hands on what is there of a frame's packets, a piece at a time. Whether there may be more to do at once."""
        piece, self._rest = self._rest[:AT_ONCE], self._rest[AT_ONCE:]
        inner = self._numbers.renumbered(bytes(piece))
        if inner:
            self.protocol.data_received(inner)
        if self._rest:
            asyncio.get_running_loop().call_soon(self.go_on)
        return not self._rest

    def _refuse_inflating(self) -> None:
        self._refuse(1157, "Couldn't uncompress communication packet")

    def _refuse(self, number: int, message: str) -> None:
        if self._session is not None:
            self._session.end_with(packet(error_payload(number, "08S01", message), self._output.number))

    def _mind_reading(self) -> None:
        there, header = self._held.size, self._held.header()
        whole = there > HELD and header is not None and there >= HEADER + header[0]
        reading = self._wanted and not whole
        if reading != self._reading and not self._below.is_closing():
            self._reading = reading
            self._below.resume_reading() if reading else self._below.pause_reading()

    def eof_received(self) -> bool | None:
        return self.protocol.eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        self._output.drop(lost=True)
        self._held, self._rest = HeldFrames(), memoryview(b"")
        self._closing, self._session = True, None
        self.protocol.connection_lost(error)

    # -- to the client -------------------------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        if self._closing or not data:
            return
        if not self._begun:
            self._begun = True
            self._below.write(data)
            return
        self._turned = True
        if self._output.write(data) and self._held:  # perhaps it was what they waited for
            asyncio.get_running_loop().call_soon(self.go_on)

    def unasked(self) -> None:
        """What is written next belongs to no command: MySQL says goodbye."""
        self._output.number = 0

    def _on_full(self, full: bool) -> None:
        """Tells the session, as a transport does."""
        self.protocol.pause_writing() if full else self.protocol.resume_writing()

    def pause_writing(self) -> None:
        self._output.takes(more=False)

    def resume_writing(self) -> None:
        self._output.takes(more=True)

    # -- as the session's wire sees it ---------------------------------------------------------------------------------

    def set_write_buffer_limits(self, high: int) -> None:
        self._below.set_write_buffer_limits(high)

    def get_write_buffer_size(self) -> int:
        return self._output.waiting + self._below.get_write_buffer_size()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._below.get_extra_info(name, default)

    def is_closing(self) -> bool:
        return self._closing or self._below.is_closing()

    def can_write_eof(self) -> bool:
        return self._below.can_write_eof()

    def write_eof(self) -> None:
        self._output.write_eof()

    def pause_reading(self) -> None:
        self._wanted = False
        self._mind_reading()

    def resume_reading(self) -> None:
        self._wanted = True
        self._mind_reading()
        asyncio.get_running_loop().call_soon(self.go_on)

    def close(self) -> None:
        """What was written is sent first."""
        self._closing = True
        self._output.close()

    def abort(self) -> None:
        self._closing = True
        self._output.drop(lost=False)
        self._below.abort()
