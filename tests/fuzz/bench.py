"""A whole session between two scripted ends, without sockets and without waiting: what a client sends, and a MySQL that
answers as the protocol says, or not.

Time is the loop's own and jumps to the next timer. Where nothing can ever happen any more, `Stuck` is raised.
"""

from __future__ import annotations

import asyncio
import re
import selectors
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

from proxy.mysql.login.auth_relay import Terms
from proxy.mysql.login.logged_in import LoggedIn
from proxy.mysql.login.login_packets import parse_greeting
from proxy.mysql.session.session import Session
from proxy.mysql.session.shared import Shared
from proxy.mysql.wire.packet_stream import PacketStream
from proxy.mysql.wire.packets import CLIENT_SESSION_TRACK
from tests.fuzz.system import Counts
from tests.support.mysql_packets import ok
from tests.support.scripted_mysql import greeting

GREETING = parse_greeting(greeting())

VALUES = re.compile(r": .*|'.*?'|\d+")  # of a reason
ONE_READ = 256 * 1024  # bytes that a loop hands on at once


class Stuck(Exception):
    """Nothing is ready, and no timer runs."""


class JumpingLoop(asyncio.SelectorEventLoop):
    """An event loop whose time passes when nothing is ready."""

    def __init__(self) -> None:
        self._now = 0.0
        super().__init__(Jumps(self))

    def time(self) -> float:
        return self._now

    def jump(self, seconds: float) -> None:
        self._now += seconds


class Jumps(selectors.SelectSelector):
    def __init__(self, loop: JumpingLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise Stuck
            self._loop.jump(max(0.0, timeout))
        return ready


@contextmanager
def none_unraised() -> Iterator[None]:
    """Raises what a destructor could not: that a coroutine was never awaited."""
    found: list[BaseException | None] = []
    before, sys.unraisablehook = sys.unraisablehook, lambda unraisable: found.append(unraisable.exc_value)
    try:
        yield
    finally:
        sys.unraisablehook = before
        for error in found:
            raise AssertionError("raised by a destructor") from error


class BenchTransport:
    """What a session takes for a socket. Strict where uvloop is: what is closed cannot be used any more.

    `received`: what the other side has read. `takes`: whether it reads; `largest`: how much has waited for it.
    """

    def __init__(self, heard: Callable[[bytes], None] | None = None) -> None:
        self.protocol: Any = None
        self.received = bytearray()
        self.reading = True
        self.takes = True
        self.closed = False  # the other side sees the end
        self.ended = False  # the other side has closed
        self.largest = 0
        self._heard = heard
        self._waiting = bytearray()
        self._high = 1 << 16
        self._lost = self._closing = self._eof = self._paused = False
        self._inbox: list[bytes] = []

    # -- as the session sees it ----------------------------------------------------------------------------------------

    def set_write_buffer_limits(self, high: int) -> None:
        self._high = high

    def get_write_buffer_size(self) -> int:
        return len(self._waiting)

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol

    def write(self, data: bytes) -> None:
        self._alive()
        assert not self._eof, "written to behind the end"
        if self._closing:
            return
        self._waiting += data
        self.largest = max(self.largest, len(self._waiting))
        if self.takes:
            self._flush()
        elif len(self._waiting) > self._high and not self._paused:
            self._paused = True
            self.protocol.pause_writing()

    def pause_reading(self) -> None:
        self._alive()
        self.reading = False

    def resume_reading(self) -> None:
        self._alive()
        self.reading = True
        asyncio.get_running_loop().call_soon(self._deliver)

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self._alive()
        self._eof = True
        self.closed = True

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        self._closing = True
        if not self._waiting:
            self.abort()

    def abort(self) -> None:
        self._closing = self.closed = True
        self._waiting.clear()
        asyncio.get_running_loop().call_soon(self._end)

    # -- as the other side sees it -------------------------------------------------------------------------------------

    def deliver(self, data: bytes) -> None:
        """Bytes that the other side sends."""
        if data and not self._lost and not self.ended:
            self._inbox += [data[at : at + ONE_READ] for at in range(0, len(data), ONE_READ)]
            asyncio.get_running_loop().call_soon(self._deliver)

    def take(self, takes: bool) -> None:
        """The other side reads again, or does not."""
        self.takes = takes
        if takes and not self._lost:
            self._flush()

    def take_some(self) -> None:
        """The other side reads a little."""
        if not self._lost:
            taken = bytes(self._waiting[:100_000])
            del self._waiting[: len(taken)]
            self._hear(taken)
            if self._paused and len(self._waiting) <= self._high // 4:
                self._paused = False
                self.protocol.resume_writing()

    def end(self) -> None:
        """The other side closes: seen when all is read that it has sent."""
        self.ended = True
        asyncio.get_running_loop().call_soon(self._deliver)

    def reset(self) -> None:
        """The connection breaks."""
        self.ended = self._closing = True
        self._inbox.clear()
        asyncio.get_running_loop().call_soon(self._end)

    @property
    def waiting(self) -> int:
        """Bytes that were sent here and have not been read."""
        return sum(map(len, self._inbox))

    # -- in between ----------------------------------------------------------------------------------------------------

    def _alive(self) -> None:
        if self._lost:
            raise RuntimeError("the handler is closed")

    def _flush(self) -> None:
        data = bytes(self._waiting)
        self._waiting.clear()
        self._hear(data)
        if self._paused:
            self._paused = False
            self.protocol.resume_writing()
        if self._closing:
            self.abort()

    def _hear(self, data: bytes) -> None:
        self.received += data
        if self._heard is not None and data:
            self._heard(data)

    def _deliver(self) -> None:
        while self._inbox and self.reading and not self._closing and not self._lost:
            self.protocol.data_received(self._inbox.pop(0))
        if self.ended and self.reading and not self._closing and not self._lost:
            if hasattr(self.protocol, "eof_received"):  # as `asyncio.Protocol` has it; it keeps nothing open
                self.protocol.eof_received()
            self.close()

    def _end(self) -> None:
        if not self._lost:
            self._lost = self.closed = True
            self._waiting.clear()
            self.protocol.connection_lost(None)


@dataclass
class Stream:
    """As much of a login's end as the session takes over."""

    transport: BenchTransport
    early: bytes = b""  # what has come behind the login
    sequence: int = 2
    lost: bool = False
    below: BenchTransport | None = None

    def hand_over(self, protocol: Any) -> bytes:
        self.transport.set_protocol(protocol)
        return self.early

    def unsent(self) -> bytes:
        return b""


def count_answers(session: Session, counts: Counts) -> None:
    """Counts how a session answers its commands: each of these methods goes on to do what it does."""
    client, quick, relay = session.relay.client, session.quick, session.relay
    passing, upstream = session.passing, session.upstream

    def counted(owner: Any, name: str, *names: Callable[..., str]) -> None:
        method = getattr(owner, name)

        def call(*given: Any, **named: Any) -> Any:
            found = method(*given, **named)
            for each in names:
                if told := each(found, *given):
                    counts[told] += 1
            return found

        setattr(owner, name, call)

    def quickest(data: bytes) -> None:
        counts["quickest hit"] += 1
        client.write(data)

    client.data_received = relay.receiver(quickest)  # type: ignore[method-assign,assignment]
    counted(quick, "answer", lambda answer, *_: "quick hit" if answer is not None else "")
    counted(upstream, "forward", lambda *_: "other command")
    counted(client, "fail", lambda _, error: f"error of ours: {error.reason}")
    counted(
        passing, "statement",
        lambda *_: "passed", lambda _, data, route, why: f"passed: {VALUES.sub('...', why)}",
    )  # fmt: skip
    counted(session.reads, "_show", lambda _, read, body, served: served.value)
    counted(session.reads, "_hit_before", lambda *_: "hit")
    counted(session.reads, "_give_filled", lambda _, read, answer: answer.served.value)


def bench_session(
    shared: Shared,
    capabilities: int,
    server_heard: Callable[[bytes], None],
    counts: Counts | None,
    early: tuple[bytes, bytes] = (b"", b""),
) -> tuple[Session, BenchTransport, BenchTransport]:
    """A session that has just begun, and its client's and MySQL's sockets. `early`: what has come with the login.
    `counts` None: how it answers is not counted, for which cycles would be left."""
    client, server = BenchTransport(), BenchTransport(server_heard)
    logged_in = LoggedIn(
        client=cast(PacketStream, Stream(client, early[0])),
        server=cast(PacketStream, Stream(server, early[1])),
        capabilities=capabilities,
        compression=None,
        server_capabilities=capabilities | CLIENT_SESSION_TRACK,
        user="app",
        database="d",
        collation=255,
        greeting=GREETING,
        client_tls=False,
        server_secure=False,
        ok_payload=ok(),
        terms=Terms(nonce=b"n" * 20, client_tls=False, server_tls=False),
    )
    session = Session(shared, logged_in)
    if counts is not None:
        count_answers(session, counts)
    shared.sessions.add(session)
    session.begin(logged_in)
    return session, client, server
