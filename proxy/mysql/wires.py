"""The two sockets of a session: bytes in, whole commands to the session, bytes out, and neither side outruns the other.

Who does not read what it is sent is not read from, and the other side's socket is not read on its behalf: memory per
connection stays bounded, and a slow client holds up nobody else.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from proxy.mysql.packets import LARGEST, Malformed
from proxy.mysql.responses import Exchange, Kind, Outcome, Responses

WHOLE = 64 * 1024  # bytes of a command that is looked at; a larger one is forwarded as it comes
HELD = 256 * 1024  # bytes of a client's commands that wait for the ones before them
SOCKET_HIGH = 256 * 1024  # bytes written and not yet taken by a socket from which on the other side is not read


class Owner(Protocol):
    """A session, as its sockets see it."""

    def on_bytes(self, data: bytes) -> None: ...

    def on_client_writable(self, writable: bool) -> None: ...

    def on_client_lost(self) -> None: ...

    def on_server_writable(self, writable: bool) -> None: ...

    def on_server_lost(self) -> None: ...

    def on_farewell(self, payload: bytes) -> None: ...


class ClientWire(asyncio.Protocol):
    """The client's side. What comes goes to the session at once."""

    def __init__(self, owner: Owner, transport: asyncio.Transport) -> None:
        self._owner = owner
        self.transport = transport
        self.alive = True
        self.data_received = owner.on_bytes  # type: ignore[method-assign]  # one call less for each command
        self.write = transport.write
        transport.set_write_buffer_limits(SOCKET_HIGH)

    def pause_writing(self) -> None:
        self._owner.on_client_writable(False)

    def resume_writing(self) -> None:
        self._owner.on_client_writable(True)

    def connection_lost(self, error: Exception | None) -> None:
        self._owner.on_client_lost()


class ServerWire(asyncio.Protocol):
    """MySQL's side. `alive`: until the connection is lost."""

    def __init__(self, owner: Owner, transport: asyncio.Transport, responses: Responses) -> None:
        self._owner = owner
        self.transport = transport
        self.responses = responses
        self.alive = True
        self.write = transport.write
        transport.set_write_buffer_limits(SOCKET_HIGH)

    def data_received(self, data: bytes) -> None:
        try:
            self.responses.feed(data)
        except (Malformed, IndexError):
            self.transport.abort()

    def pause_writing(self) -> None:
        self._owner.on_server_writable(False)

    def resume_writing(self) -> None:
        self._owner.on_server_writable(True)

    def connection_lost(self, error: Exception | None) -> None:
        self.alive = False
        self._owner.on_server_lost()

    def send(self, packets: bytes, exchange: Exchange) -> None:
        self.responses.expect(exchange)
        self.write(packets)

    def ask(self, packets: bytes, kind: Kind) -> asyncio.Future[Outcome]:
        """A command of our own. The future is cancelled when the connection is lost."""
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

        def done(outcome: Outcome) -> None:
            if not future.done():
                future.set_result(outcome)

        self.send(packets, Exchange(kind, done, visible=False))
        return future


class Commands:
    """Cuts a client's bytes into commands.

    Invariants:
    1. `bytes`, what is there, begins with a packet's header, unless `_left` > 0: then it is empty.
    2. `_left` > 0: the rest of a large command that is being forwarded; `_goes_on`: another packet of it follows.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit  # bytes of one command
        self.bytes = b""
        self._left = 0
        self._goes_on = False
        self._size = 0  # of the large command so far

    def add(self, data: bytes) -> None:
        self.bytes = self.bytes + data if self.bytes else data

    @property
    def in_large(self) -> bool:
        """Whether the bytes that come next belong to a command that is being forwarded."""
        return self._left > 0 or self._goes_on

    def next(self) -> tuple[bytes, bool] | None:
        """(a command's packet with its header, True), or (the beginning of a large one: what is there of it, False);
        None where nothing can be said yet. Raises Malformed. Requires: not `in_large`."""
        held = self.bytes
        if len(held) < 5:
            if len(held) == 4 and held[:3] == b"\0\0\0":
                raise Malformed("an empty command")
            return None
        size = held[0] | held[1] << 8 | held[2] << 16
        end = 4 + size
        if size == 0:
            raise Malformed("an empty command")
        if size < LARGEST and len(held) >= end:
            self.bytes = held[end:]
            return held[:end], True
        if size <= WHOLE:
            return None
        if len(held) < WHOLE:  # enough of it to be told apart
            return None
        taken = held[:end]
        self.bytes = held[end:]
        self._left = end - len(taken)
        self._goes_on = size == LARGEST
        self._size = size
        return taken, False

    def rest(self) -> bytes:
        """More of the large command. Raises Malformed where it passes the limit. Requires: `in_large`."""
        pieces = []
        while True:
            if self._left:
                piece = self.bytes[: self._left]
                if not piece:
                    break
                self.bytes = self.bytes[len(piece) :]
                self._left -= len(piece)
                pieces.append(piece)
            elif self._goes_on and len(self.bytes) >= 4:
                size = self.bytes[0] | self.bytes[1] << 8 | self.bytes[2] << 16
                self._size += size
                if self._size > self._limit:
                    raise Malformed(f"a command of more than {self._limit} bytes")
                pieces.append(self.bytes[:4])
                self.bytes = self.bytes[4:]
                self._left = size
                self._goes_on = size == LARGEST
            else:
                break
        return b"".join(pieces)

    def take(self) -> bytes:
        """All that is held, uncut: a file's contents, or an answer to MySQL's question."""
        held, self.bytes = self.bytes, b""
        return held
