"""What is written to a client whose packets are compressed. What takes longer than a frame is compressed in a thread,
and what follows it waits."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from proxy.mysql.wire.compression import FRAME, SMALLEST, Compression, framed, frames_of
from proxy.mysql.wire.sockets import SOCKET_HIGH

JOB = 8 * FRAME  # bytes that are compressed before the socket is asked again whether it takes more
SLOW = 2048  # bytes that are compressed on the loop at one of zstd's slow levels


class CompressedOutput:
    """`number`: of the next frame, whichever way it goes. `waiting`: bytes that are not compressed yet.

    Invariants:
    1. What is written goes out in order; `_queue` is empty unless a thread is at work, or the socket takes no more.
    2. The end of what is sent, and the socket's, come behind all that was written.
    """

    def __init__(
        self,
        below: asyncio.Transport,
        compression: Compression,
        on_full: Callable[[bool], None],
        on_sent: Callable[[], None],
    ) -> None:
        """`on_full`: is told when no more is to be written, and when it may be again. `on_sent`: is told when all is
        sent that was not sent at once."""
        self.number = 0
        self.waiting = 0
        self._below, self._compression = below, compression
        self._on_full, self._on_sent = on_full, on_sent
        self._largest_at_once = max(SLOW if compression.slow else FRAME, SMALLEST)
        self._queue: deque[bytes] = deque()
        self._packing = False
        self._takes = True  # the socket
        self._told_full = False
        self._ends = self._closes = self._lost = False

    def check_invariants(self) -> None:
        assert not self._queue or self._packing or not self._takes, "what is written waits for nothing"

    @property
    def idle(self) -> bool:
        """All is sent that was written."""
        return not self._queue and not self._packing

    def write(self, data: bytes) -> bool:
        """Whether it was sent at once."""
        if not self._queue and not self._packing and len(data) <= self._largest_at_once:
            self._below.write(framed(data, self.number, self._compression))
            self.number += 1
            return True
        self._queue.append(data)
        self.waiting += len(data)
        self._mind_fullness()
        self._pack_next()
        return False

    def takes(self, *, more: bool) -> None:
        """Whether the socket takes more."""
        self._takes = more
        if more:
            self._pack_next()
        self._mind_fullness()

    def write_eof(self) -> None:
        if self.idle:
            self._below.write_eof()
        else:
            self._ends = True

    def close(self) -> None:
        if self.idle:
            self._below.close()
        else:
            self._closes = True

    def drop(self, *, lost: bool) -> None:
        """What waits is not sent. `lost`: nobody is there any more."""
        self._queue.clear()
        if lost:
            self.waiting, self._lost = 0, True

    def _pack_next(self) -> None:
        if self._packing or not self._queue or not self._takes:
            return
        data = self._queue.popleft()
        if len(data) > JOB:
            self._queue.appendleft(data[JOB:])
            data = data[:JOB]
        self._packing = True
        number, self.number = self.number, self.number + frames_of(len(data))
        job = asyncio.get_running_loop().run_in_executor(None, framed, data, number, self._compression)
        job.add_done_callback(lambda done: self._packed(done, len(data)))

    def _packed(self, done: asyncio.Future[bytes], size: int) -> None:
        self._packing = False
        if self._lost or done.cancelled():
            return
        self.waiting -= size
        if self._below.is_closing():
            return
        self._below.write(done.result())
        self._pack_next()
        self._mind_fullness()
        if self.idle:
            if self._ends and not self._below.is_closing():
                self._below.write_eof()
            if self._closes:
                self._below.close()
            self._on_sent()

    def _mind_fullness(self) -> None:
        limit = SOCKET_HIGH // 4 if self._told_full else SOCKET_HIGH
        full = not self._takes or self.waiting > limit
        if full != self._told_full and not self._lost:
            self._told_full = full
            self._on_full(full)
