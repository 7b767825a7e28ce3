"""The two sockets of a session: bytes in, whole commands to the session, bytes out, and neither side outruns the other.

Who does not read what it is sent is not read from, and the other side's socket is not read on its behalf: memory per
connection stays bounded, and a slow client holds up nobody else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from proxy.mysql.wire.error_numbers import statement_error
from proxy.mysql.wire.packets import LARGEST, Malformed, packet
from proxy.mysql.wire.responses import Exchange, Kind, Outcome, Responses
from sqltypes.errors import SourceDown, UpwellError

WHOLE = 64 * 1024  # bytes of a command that is looked at; a larger one is forwarded as it comes
HELD = 256 * 1024  # bytes of a client's commands that wait for the ones before them
SOCKET_HIGH = 256 * 1024  # bytes written and not yet taken by a socket from which on the other side is not read


class Owner(Protocol):
    """A session, as its sockets see it."""

    def receiver(self, write: Callable[[bytes], None]) -> Callable[[bytes], None]: ...

    def on_client_writable(self, writable: bool) -> None: ...

    def on_client_lost(self) -> None: ...

    def mind_reading(self) -> None:
        """MySQL's socket takes no more, or takes more again."""
        ...

    def on_server_lost(self) -> None: ...

    def perhaps_ended(self) -> None: ...


class _Nobody:
    """The owner of a wire whose session has ended."""

    def receiver(self, write: Callable[[bytes], None]) -> Callable[[bytes], None]:
        return lambda data: None

    def on_client_writable(self, writable: bool) -> None:
        pass

    def on_client_lost(self) -> None:
        pass

    def mind_reading(self) -> None:
        pass

    def on_server_lost(self) -> None:
        pass

    def perhaps_ended(self) -> None:
        pass


NOBODY = _Nobody()


class ClientWire(asyncio.Protocol):
    """The client's side. What comes goes to the session at once. `writable`: its socket takes bytes. `reading`: it is
    read from. `out`: answers of this turn. `ended`: the session has, and nothing more is written."""

    def __init__(self, owner: Owner, transport: asyncio.Transport, clock: Callable[[], float]) -> None:
        """`clock`: seconds."""
        self._owner = owner
        self._clock = clock
        self.transport = transport
        self.alive = self.writable = self.reading = True
        self.ended = False
        self.out: list[bytes] = []
        # Since when the client has taken nothing, and how many bytes wait for it; None while its socket takes bytes.
        self.stalled: tuple[float, int] | None = None
        self.write = transport.write
        self.data_received = owner.receiver(transport.write)  # type: ignore[method-assign,assignment]  # a call less
        transport.set_write_buffer_limits(SOCKET_HIGH)

    def pause_writing(self) -> None:
        self.writable, self.stalled = False, (self._clock(), self.transport.get_write_buffer_size())
        self._owner.on_client_writable(False)

    def resume_writing(self) -> None:
        self.writable, self.stalled = True, None
        self._owner.on_client_writable(True)

    def stands_still(self, now: float, seconds: float) -> bool:
        """Whether the client has taken nothing for so long."""
        if self.stalled is None:
            return False
        since, waiting = self.stalled
        left = self.transport.get_write_buffer_size()
        if left < waiting:
            self.stalled = since, waiting = now, left
        return now - since > seconds

    def read(self, wanted: bool) -> None:
        if wanted != self.reading and not self.ended:
            self.reading = wanted
            self.transport.resume_reading() if wanted else self.transport.pause_reading()

    def answer(self, data: bytes) -> None:
        """A whole answer, written with others at the end of this turn."""
        self.out.append(data)

    def fail(self, error: UpwellError) -> None:
        """An error in the place of an answer."""
        self.out.append(packet(statement_error(error), 1))

    def flush(self) -> None:
        """Writes the answers of this turn."""
        out, self.out = self.out, []
        if out and not self.ended:
            self.write(out[0] if len(out) == 1 else b"".join(out))

    def forward(self, data: bytes) -> None:
        """Writes what MySQL answers, behind the answers of this turn."""
        if self.out:
            self.flush()
        if not self.ended:
            self.write(data)

    def connection_lost(self, error: Exception | None) -> None:
        self.alive = False
        self._owner.on_client_lost()

    def release(self) -> None:
        """Lets go of the session. Requires: the connection is lost."""
        self._owner = NOBODY
        self.data_received = NOBODY.receiver(self.write)  # type: ignore[method-assign,assignment]


class ServerWire(asyncio.Protocol):
    """MySQL's side. `alive`: until MySQL has ended the connection, or it is lost. `closed`: its socket is. `sent`: how
    often MySQL was sent something. `writable`: its socket takes bytes."""

    def __init__(
        self, owner: Owner, transport: asyncio.Transport, responses: Responses, below: asyncio.Transport | None = None
    ) -> None:
        """`below`: the transport under TLS, if there is any."""
        self._owner = owner
        self._below = below
        self.transport = transport
        self.responses = responses
        self.alive = self.writable = True
        self.closed = False
        self.sent = 0
        transport.set_write_buffer_limits(SOCKET_HIGH)

    def write(self, data: bytes) -> None:
        self.sent += 1
        self.transport.write(data)

    def data_received(self, data: bytes) -> None:
        try:
            self.responses.feed(data)
        except Malformed:
            self.transport.abort()

    def send_unanswered(self, data: bytes) -> None:
        """A command that MySQL does not answer."""
        if self.alive:
            self.write(data)

    def pause_writing(self) -> None:
        self.writable = False
        self._owner.mind_reading()

    def resume_writing(self) -> None:
        self.writable = True
        self._owner.mind_reading()

    def eof_received(self) -> None:
        """The session is told in this turn of the loop already: `connection_lost` comes a turn later, and what the
        client has sent behind the end of its session may be read in between."""
        self.alive = False
        self._owner.on_server_lost()

    def look(self) -> None:
        """TLS keeps the end to itself where MySQL has closed the socket below it: then it is looked for."""
        if self._below is not None and self.alive and self._below.is_closing():
            self.eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        if self.alive:
            self.eof_received()
        self.closed = True
        self._owner.perhaps_ended()

    def release(self) -> None:
        """Lets go of the session. Requires: the connection is closed."""
        self._owner = NOBODY
        self.responses.release()

    def send(self, packets: bytes, exchange: Exchange) -> None:
        self.responses.exchanges.append(exchange)
        self.sent += 1
        self.transport.write(packets)

    def ask(self, packets: bytes, kind: Kind) -> asyncio.Future[Outcome]:
        """A command of our own. The future is cancelled when the connection is lost. Raises SourceDown where it is."""
        if not self.alive:
            raise SourceDown("the session's connection to MySQL is lost")
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

        def done(outcome: Outcome) -> None:
            if not future.done():
                future.set_result(outcome)

        self.send(packets, Exchange(kind, done, visible=False, collected=True))
        return future


class TooLarge(Malformed):
    """A command beyond the limit. `sequence`: the number of the packet that an error about it has."""

    def __init__(self, limit: int, sequence: int) -> None:
        super().__init__(f"a command of more than {limit} bytes")
        self.sequence = sequence


class Commands:
    """Cuts a client's bytes into commands; a large command, and a file that MySQL has asked for, is forwarded instead.

    Invariants:
    1. What is held begins with a packet's header, unless `_left` > 0: that many bytes of the packet are still to come.
    2. `_left` > 0 or `_goes_on` only while `forwarding`.
    3. `pending` unless nothing is held and nothing is being forwarded.
    """

    def __init__(self, limit: int) -> None:
        self.whole = min(WHOLE, limit)  # bytes of a command that is looked at
        self.held = 0  # bytes that are there
        self.forwarding = False  # what comes next belongs to a large command, or to a file
        self.pending = False
        self._limit = limit  # bytes of one command
        self._data = b""
        self._at = 0  # what is held is _data[_at:]
        self._left = 0
        self._goes_on = False  # the packet is of the largest size: another one follows
        self._in_file = False
        self._size = 0  # of the large command so far

    def limit(self, allowed: str) -> None:
        """MySQL takes fewer bytes than `allowed`, its max_allowed_packet. What it would refuse is refused here: its own
        words may be lost on the way, for it closes the connection while it is still written to."""
        if allowed.isdigit():
            self._limit = min(self._limit, int(allowed) - 1)

    def add(self, data: bytes) -> None:
        self._data = self._data[self._at :] + data if self.held else data
        self._at = 0
        self.held += len(data)
        self.pending = True

    def put_back(self, data: bytes) -> None:
        """A whole command that `next` or the client has given is the next one again. Requires: not `forwarding`."""
        self._data = data + self._data[self._at :]
        self._at = 0
        self.held += len(data)
        self.pending = True

    def next(self) -> tuple[bytes, bool] | None:
        """(a command's packet with its header, True), or (the beginning of a large one: what is there of it, False);
        None where nothing can be said yet. Raises TooLarge. Requires: not `forwarding`."""
        if self.held < 4:
            return None
        data, at = self._data, self._at
        size = data[at] | data[at + 1] << 8 | data[at + 2] << 16
        if size > self._limit:
            raise TooLarge(self._limit, data[at + 3] + 1)
        if size < LARGEST and self.held >= size + 4:
            return self._take(size + 4), True
        if size <= WHOLE or self.held < WHOLE:  # of a large one, enough to tell what it is
            return None
        self._goes_on = size == LARGEST
        self._left = self._size = size
        taken = self._take(4) + self._some()
        self._note()
        return taken, False

    @property
    def in_file(self) -> bool:
        """Whether MySQL has asked for a file of which more is to come."""
        return self._in_file

    def begin_file(self) -> None:
        """MySQL has asked for a file: packets come, the last of them empty. Raises Malformed where it is still being
        told what to do."""
        if self.forwarding:
            raise Malformed("a file is asked for in the middle of a command")
        self._in_file = True
        self._note()

    def more(self) -> bytes:
        """The buffered bytes of the command that is being forwarded. Raises TooLarge. Requires: `forwarding`."""
        pieces: list[bytes] = []
        while self.forwarding:
            if not self._left and not self._header(pieces):
                break
            if not self.held and self._left:
                break
            pieces.append(self._some())
            self._note()
        return b"".join(pieces)

    def take(self) -> bytes:
        """All that is held, uncut. Requires: not `forwarding`."""
        return self._take(self.held)

    def _header(self, pieces: list[bytes]) -> bool:
        """Goes on to the next packet; False where its header is not complete."""
        if self.held < 4:
            return False
        header = self._take(4)
        pieces.append(header)
        self._left = header[0] | header[1] << 8 | header[2] << 16
        if self._in_file:
            self._in_file = self._left > 0 or self._goes_on
        else:
            self._size += self._left
            if self._size > self._limit:
                raise TooLarge(self._limit, header[3] + 1)
        self._goes_on = self._left == LARGEST
        return True

    def _some(self) -> bytes:
        """What is there of a packet's rest."""
        piece = self._take(min(self.held, self._left))
        self._left -= len(piece)
        return piece

    def _take(self, size: int) -> bytes:
        at = self._at
        self.held -= size
        if self.held:
            self._at = at + size
            return self._data[at : at + size]
        data, self._data, self._at = self._data, b"", 0
        self.pending = self.forwarding
        return data[at:] if at else data

    def _note(self) -> None:
        self.forwarding = self._left > 0 or self._goes_on or self._in_file
        self.pending = self.held > 0 or self.forwarding
