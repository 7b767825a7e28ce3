"""A client's connection whose packets are compressed. It stands between the socket's transport and the session, as TLS
does: to the transport it is the protocol, to the session's wire it is the transport.

MySQL takes a client's frames one command after the other, and so they are handed on here: frames have numbers that both
sides count, from 0 with each command. What comes ahead waits until the session has answered.

Whatever takes longer than a frame is compressed, or inflated, in a thread, and what follows it waits.

Invariants:
1. What is written goes out in order; `_queue` is empty unless a thread is at work, or the socket takes no more.
2. The socket is not read from while the session does not want it, or more than `HELD` bytes wait of which the first
   frame is complete.
3. `_number` is that of the next frame, whichever way it goes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Protocol

from proxy.mysql.wire.compression import (
    FRAME,
    HEADER,
    SMALLEST,
    Compression,
    PacketNumbers,
    framed,
    frames_of,
    unpacked,
)
from proxy.mysql.wire.packets import Malformed, error_payload, packet
from proxy.mysql.wire.sockets import HELD, SOCKET_HIGH

AT_ONCE = 64 * 1024  # bytes that are inflated on the loop: a fifth of a millisecond
JOB = 8 * FRAME  # bytes that are compressed before the socket is asked again whether it takes more
TURN = 32  # frames of one client, then others are looked after
SLOW = 2048  # bytes that are compressed on the loop at one of zstd's slow levels


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
        self._largest_at_once = SLOW if compression.slow else FRAME
        self._number = 0
        self._begun = False
        # From the client.
        self._held = bytearray()
        self._at = 0  # what is held begins there
        self._rest = memoryview(b"")  # of the packets of a frame
        self._numbers = PacketNumbers()
        self._turned = False  # something was written since the last frame came
        self._empty = False  # the last frame: the next one goes on from its number, and still begins a command
        self._wanted = self._reading = True  # by the session; from the socket
        self._inflating = self._handing_on = False
        # To the client.
        self._queue: deque[bytes] = deque()
        self._queued = 0
        self._packing = False
        self._takes = True  # the socket
        self._told_full = False
        self._closing = self._ends = False

    # -- from the client -----------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self._session is None or self._session.closed:
            return
        self._held += data
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
        at = self._at
        if len(held) - at < HEADER:
            return False
        begins = self._numbers.between
        asked = session.next_number if begins else None
        if begins and asked is None and not self._begins_command(session):
            return False
        size = held[at] | held[at + 1] << 8 | held[at + 2] << 16
        announced = held[at + 4] | held[at + 5] << 8 | held[at + 6] << 16
        if held[at + 3] != self._number & 0xFF:
            self._refuse(1156, "Got packets out of order")
            return False
        if len(held) - at < HEADER + size:
            return False
        body = self._body(at + HEADER, at + HEADER + size)
        self._number += 1
        if begins:
            first = 0 if asked is None else asked if self._turned else self._numbers.next
            self._numbers.begin(first, series=asked is not None)
        self._turned = False
        return self._take(body, announced)

    def _body(self, start: int, end: int) -> memoryview:
        """Takes a frame's bytes. Those of a small one are copied, and those of a large one given away: else many small
        ones, or a large one, would have all that is there moved each time."""
        held = self._held
        if end - start > AT_ONCE:
            self._held, self._at = held[end:], 0
            return memoryview(held)[start:end]
        body = memoryview(bytes(held[start:end]))
        self._at = end
        if end * 2 >= len(held):
            del held[:end]
            self._at = 0
        return body

    def _begins_command(self, session: FramedSession) -> bool:
        """Whether it is a command's turn. Its frames are numbered from 0."""
        if session.busy or self._queue or self._packing:
            return False
        if not self._empty:
            self._number = 0
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
        if self._session is None or self._closing or done.cancelled():
            return
        if done.exception() is not None:
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
            self._session.end_with(packet(error_payload(number, "08S01", message), self._number))

    def _mind_reading(self) -> None:
        held, at = self._held, self._at
        there = len(held) - at
        whole = there > HELD and there >= HEADER + int.from_bytes(held[at : at + 3], "little")
        reading = self._wanted and not whole
        if reading != self._reading and not self._below.is_closing():
            self._reading = reading
            self._below.resume_reading() if reading else self._below.pause_reading()

    def eof_received(self) -> bool | None:
        return self.protocol.eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        self._queue.clear()
        self._held, self._at, self._rest = bytearray(), 0, memoryview(b"")
        self._queued = 0
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
        if not self._queue and not self._packing and len(data) <= max(self._largest_at_once, SMALLEST):
            self._below.write(framed(data, self._number, self._compression))
            self._number += 1
            if self._held:  # perhaps it was what they waited for
                asyncio.get_running_loop().call_soon(self.go_on)
            return
        self._queue.append(data)
        self._queued += len(data)
        self._mind_fullness()
        self._pack_next()

    def unasked(self) -> None:
        """What is written next belongs to no command: MySQL says goodbye."""
        self._number = 0

    def _pack_next(self) -> None:
        if self._packing or not self._queue or not self._takes:
            return
        data = self._queue.popleft()
        if len(data) > JOB:
            self._queue.appendleft(data[JOB:])
            data = data[:JOB]
        self._packing = True
        number, self._number = self._number, self._number + frames_of(len(data))
        job = asyncio.get_running_loop().run_in_executor(None, framed, data, number, self._compression)
        job.add_done_callback(lambda done: self._packed(done, len(data)))

    def _packed(self, done: asyncio.Future[bytes], size: int) -> None:
        self._packing = False
        if self._session is None or done.cancelled():
            return
        self._queued -= size
        if self._below.is_closing():
            return
        self._below.write(done.result())
        self._pack_next()
        self._mind_fullness()
        if not self._queue and not self._packing:
            self._end()
            self.go_on()

    def _end(self) -> None:
        """What was put off until all is sent."""
        if self._ends and not self._below.is_closing():
            self._below.write_eof()
        if self._closing:
            self._below.close()

    def pause_writing(self) -> None:
        self._takes = False
        self._mind_fullness()

    def resume_writing(self) -> None:
        self._takes = True
        self._pack_next()
        self._mind_fullness()

    def _mind_fullness(self) -> None:
        """Tells the session, as a transport does."""
        limit = SOCKET_HIGH // 4 if self._told_full else SOCKET_HIGH
        full = not self._takes or self._queued > limit
        if full != self._told_full and self._session is not None:
            self._told_full = full
            self.protocol.pause_writing() if full else self.protocol.resume_writing()

    # -- as the session's wire sees it ---------------------------------------------------------------------------------

    def set_write_buffer_limits(self, high: int) -> None:
        self._below.set_write_buffer_limits(high)

    def get_write_buffer_size(self) -> int:
        return self._queued + self._below.get_write_buffer_size()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._below.get_extra_info(name, default)

    def is_closing(self) -> bool:
        return self._closing or self._below.is_closing()

    def can_write_eof(self) -> bool:
        return self._below.can_write_eof()

    def write_eof(self) -> None:
        if self._queue or self._packing:
            self._ends = True
        else:
            self._below.write_eof()

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
        if not self._queue and not self._packing:
            self._below.close()

    def abort(self) -> None:
        self._closing = True
        self._queue.clear()
        self._below.abort()
