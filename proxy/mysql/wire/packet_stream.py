"""Packets of a connection before the command phase: of a client from the bare socket first, then from a transport.

`PlainPackets` reads from the client's socket exactly what it is asked for, since a TLS handshake may follow a packet
immediately and must be left for the TLS layer. It turns into a `PacketStream`, which the command phase takes over
(`hand_over`) without a byte lost. MySQL says nothing behind its greeting until it is answered: its connection is a
`PacketStream` from the beginning. Both count sequence numbers: each side of Upwell has its own.

Packets are small here; `Malformed` is raised for one over `LARGEST_LOGIN`, or out of order. `Lost` is raised where the
other side is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import cast

from proxy.mysql.wire.packets import Malformed, packet

LARGEST_LOGIN = 1 << 17  # bytes: connection attributes may be 64 KB
SHUTDOWN_SECONDS = 5.0  # for the last bytes and the closing words of TLS
HEADER = 4
ENOUGH = HEADER + LARGEST_LOGIN  # bytes: the largest packet is among them


class Lost(Exception):
    """The other side closed the connection, or the network did."""


class OutOfOrder(Malformed):
    """A packet whose number is not the next one."""


class TooLarge(Malformed):
    """A packet that is no part of a login."""


@dataclass(frozen=True, slots=True)
class Tls:
    """How to secure a connection; `hostname` is the server's where the other side is one. Seconds for the handshake."""

    context: ssl.SSLContext
    seconds: float
    hostname: str = ""


class PlainPackets:
    """The packets of a non-blocking socket of ours. Invariant: no byte behind the last packet was taken from it."""

    def __init__(self, sock: socket.socket) -> None:
        self.sequence = 0  # of the next packet, whichever way it goes
        self._socket = sock

    async def packet(self) -> bytes:
        """The next payload. Raises Lost, Malformed."""
        size, self.sequence = _read_header(await self._exactly(HEADER), self.sequence)
        return await self._exactly(size)

    def send(self, payload: bytes) -> None:
        """Raises Lost. Nothing of a login is as large as what a socket takes at once."""
        try:
            sent = self._socket.send(packet(payload, self.sequence))
        except OSError as error:
            raise Lost(str(error)) from error
        if sent < len(payload) + HEADER:
            raise Lost("the other side takes no bytes")
        self.sequence += 1

    async def stream(self, wake: asyncio.Event, tls: Tls | None = None) -> PacketStream:
        """The same connection as a transport, through TLS if asked for. The socket is the transport's from here on;
        where this fails, it is closed. Raises Lost."""
        context = seconds = closing = None
        if tls is not None:
            context, seconds, closing = tls.context, tls.seconds, SHUTDOWN_SECONDS
        stream = PacketStream(self.sequence, wake)
        with _made_or(self._socket.close):
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: stream, self._socket,
                ssl=context, ssl_handshake_timeout=seconds, ssl_shutdown_timeout=closing,
            )  # fmt: skip
        return stream

    def close(self) -> None:
        """What was sent last arrives: closing with unread bytes would discard it on its way."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
            self._socket.recv(LARGEST_LOGIN)
        self._socket.close()

    async def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            try:
                piece = await self._some(size - len(data))
            except OSError as error:
                raise Lost(str(error)) from error
            if not piece:
                raise Lost("the connection was closed")
            data += piece
        return data

    async def _some(self, size: int) -> bytes:
        """What is there, of so many bytes at most; the loop would look for it a turn later."""
        with contextlib.suppress(BlockingIOError):
            return self._socket.recv(size)
        return await asyncio.get_running_loop().sock_recv(self._socket, size)


@contextlib.contextmanager
def _made_or(close: Callable[[], None]) -> Iterator[None]:
    """Closes what no transport is made of. Raises Lost."""
    try:
        yield
    except BaseException as error:
        close()
        if isinstance(error, OSError):  # ssl.SSLError is one
            raise Lost(str(error)) from error
        raise


async def server_stream(sock: socket.socket, wake: asyncio.Event) -> PacketStream:
    """A connected socket of ours as a transport. Where this fails, it is closed. Raises Lost."""
    loop, stream = asyncio.get_running_loop(), PacketStream(0, wake)
    connection = loop.create_unix_connection if sock.family == socket.AF_UNIX else loop.create_connection
    with _made_or(sock.close):
        await connection(lambda: stream, sock=sock)
    return stream


class PacketStream(asyncio.Protocol):
    """The packets of a transport, until `hand_over`. `wake` is set whenever there may be something new. `below`: the
    transport under TLS with MySQL, None where there is none.

    Invariants:
    1. `_held` begins with a packet's header, or is empty.
    2. The transport is paused while `ENOUGH` bytes are held, and only then: what must still come is read.
    """

    transport: asyncio.Transport

    def __init__(self, sequence: int, wake: asyncio.Event) -> None:
        self.sequence = sequence
        self.wake = wake
        self.lost = False
        self.below: asyncio.Transport | None = None
        self._held = bytearray()
        self._unsent = b""
        self._paused = False

    # -- what the transport says ---------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's are not of that class

    def data_received(self, data: bytes) -> None:
        self._held += data
        if len(self._held) >= ENOUGH and not self._paused:
            self._paused = True
            self.transport.pause_reading()
        self.wake.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        self.wake.set()

    # -- what the login asks -------------------------------------------------------------------------------------------

    def take(self) -> bytes | None:
        """The next payload, None where it is not complete yet. Raises Malformed, and Lost where it never will be."""
        if len(self._held) >= HEADER:
            size, sequence = _read_header(self._held, self.sequence)
            if len(self._held) >= HEADER + size:
                payload = bytes(self._held[HEADER : HEADER + size])
                del self._held[: HEADER + size]
                self.sequence = sequence
                if self._paused and len(self._held) < ENOUGH and not self.lost:
                    self._paused = False
                    self.transport.resume_reading()
                return payload
        if self.lost:
            raise Lost("the connection was closed")
        return None

    async def packet(self) -> bytes:
        """The next payload. Raises Lost, Malformed."""
        while True:
            self.wake.clear()
            payload = self.take()
            if payload is not None:
                return payload
            await self.wake.wait()

    def put(self, payload: bytes) -> None:
        """Is sent with what is sent next, or by `flush`."""
        self._unsent += packet(payload, self.sequence)
        self.sequence += 1

    def send(self, payload: bytes) -> None:
        """Raises Lost."""
        self.put(payload)
        self.flush()

    def flush(self) -> None:
        """Raises Lost where anything is to be sent and cannot be."""
        if self._unsent:
            if self.lost or self.transport.is_closing():
                raise Lost("the connection was closed")
            self.transport.write(self.unsent())

    def unsent(self) -> bytes:
        """What was put and not sent yet: the caller sends it."""
        unsent, self._unsent = self._unsent, b""
        return unsent

    async def secure(self, tls: Tls) -> None:
        """Puts TLS between MySQL and us. Where this fails, the connection is closed. Raises Lost, and Malformed where
        MySQL has sent more than its greeting: that was not secured."""
        below = self.transport
        with _made_or(below.abort):
            if self._held:
                raise Malformed("more than a greeting before TLS begins")
            secured = await asyncio.get_running_loop().start_tls(
                below, self, tls.context, server_hostname=tls.hostname,
                ssl_handshake_timeout=tls.seconds, ssl_shutdown_timeout=SHUTDOWN_SECONDS,
            )  # fmt: skip
        assert secured is not None
        self.transport, self.below = secured, below

    def hand_over(self, protocol: asyncio.BaseProtocol) -> bytes:
        """From here on `protocol` is told what comes (not that the connection was made). The bytes that have come and
        belong to no packet taken: they are not told again. Raises Lost where the end has come already."""
        if self.lost:
            raise Lost("the connection was closed")
        self.transport.set_protocol(protocol)
        if self._paused:
            self.transport.resume_reading()
        held = bytes(self._held)
        self._held.clear()
        return held

    def close(self) -> None:
        """What was sent is delivered first."""
        self.transport.close()

    def abort(self) -> None:
        self.transport.abort()


def _read_header(data: bytes | bytearray, expected: int) -> tuple[int, int]:
    """(payload's size, the sequence number of the packet after it). Raises Malformed."""
    size = data[0] | data[1] << 8 | data[2] << 16
    if data[3] != expected & 0xFF:
        raise OutOfOrder(f"a packet has number {data[3]}, expected {expected & 0xFF}")
    if size > LARGEST_LOGIN:
        raise TooLarge(f"a packet of {size} bytes, expected at most {LARGEST_LOGIN} before the login is over")
    return size, expected + 1
