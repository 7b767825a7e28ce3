"""The two sockets of a session, and what is under way between them: bytes that come, bytes that wait, back-pressure and
the end. What a command means, and what MySQL's answers say, is not known here (`session_base.py`, `session.py`).

Invariants:
1. What is written to the client is whole answers, in the order of its commands.
2. The client is not read from while more than `HELD` bytes of it wait, or MySQL's socket takes no more; MySQL is not
   read from while the client's socket takes no more.
3. `_busy` after `close`.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import structlog

from proxy.api import Lookup, SessionCache
from proxy.mysql.change_user import AccountChange
from proxy.mysql.packets import Malformed, error_payload, packet
from proxy.mysql.wires import HELD, SOCKET_HIGH, WHOLE, ClientWire, Commands, ServerWire, TooLarge

if TYPE_CHECKING:
    from proxy.mysql.listener import Shared

log = structlog.get_logger("upwell.mysql")

TURN = 100  # commands of one client, then others are looked after


class Hot(NamedTuple):
    """Executions that differ in one integer, their last 8 bytes. `version`: of caches and accounts, as of which the
    rest is. `key`: takes the integer out of a packet."""

    version: int
    key: Callable[[bytes], tuple[Any, ...]]
    stored: Lookup
    cache: SessionCache
    head: bytes


class Heads(dict[object, bytes]):
    """What stands before the rows of quick hits. `hot`: the executions that are quicker still; cleared with it, and
    whenever a command goes the long way.

    Invariant: `hot` is empty while the session is busy or closed, bytes of the client wait, or its socket takes none.
    """

    def __init__(self) -> None:
        super().__init__()
        self.hot: dict[bytes, Hot] = {}

    def clear(self) -> None:
        super().clear()
        self.hot.clear()


class SessionSockets(ABC):
    """From login to end. `client` and `server` are made by who takes the connections over."""

    client: ClientWire
    server: ServerWire

    def __init__(self, shared: Shared) -> None:
        self.shared = shared
        self.commands = Commands(shared.options.largest_command)
        self.heads = Heads()  # `proxy/mysql/quick_hits.py`
        self._busy = True  # until the session is known
        self._writable = self._server_writable = True  # a socket takes bytes
        self._reading = True  # from the client
        self._whole = min(WHOLE, shared.options.largest_command)
        self._account_change: AccountChange | None = None
        self._closed = False
        self.closed_at = 0.0
        # Since when the client has taken nothing, and how many bytes wait for it; None while its socket takes bytes.
        self.stalled: tuple[float, int] | None = None
        self._task: asyncio.Task[None] | None = None
        self._out: list[bytes] = []

    @abstractmethod
    def handle(self, data: bytes) -> None:
        """One command, its packet with the header. Raises Malformed."""

    @abstractmethod
    def quick(self, data: bytes, *, alone: bool = False) -> bytes | None:
        """The answer to one that can be answered at once. `alone`: nothing came with it, or waits before it."""

    def receiver(self, write: Callable[[bytes], None]) -> Callable[[bytes], None]:
        """What takes the client's bytes."""
        return self.on_bytes

    @abstractmethod
    def _large(self, data: bytes) -> None:
        """The beginning of a command too large to be looked at. Raises Malformed."""

    @abstractmethod
    def _ending(self) -> None:
        """The session is over, though its sockets may still be open."""

    @abstractmethod
    def _ended(self) -> None:
        """Both sockets are closed."""

    @property
    def busy(self) -> bool:
        return self._busy

    # -- bytes ---------------------------------------------------------------------------------------------------------

    def on_bytes(self, data: bytes) -> None:
        """From the client."""
        if self._busy:
            self._on_bytes_ahead(data)
            return
        if self._writable and not self.commands.pending and len(data) > 9:
            if self.heads:
                answer = self.quick(data, alone=True)
                if answer is not None:
                    self.client.write(answer)
                    return
            if data[0] | data[1] << 8 | data[2] << 16 == len(data) - 4 < self._whole:
                try:
                    self.handle(data)
                except Malformed as error:
                    self.break_off(error)
                if self._out:
                    self._flush()
                return
        self.heads.hot.clear()
        self.commands.add(data)
        self._go_on()

    def _on_bytes_ahead(self, data: bytes) -> None:
        """From the client, while a command is under way."""
        if self._closed:
            return
        if self._account_change is not None:
            self._account_change.on_bytes(data)
        elif self.server.responses.endless:
            self.server.write(data)
        else:
            self.commands.add(data)
            if self.commands.forwarding:
                self._send_more()
                if not self._busy:
                    self._go_on()
        self._mind_reading()

    def _mind_reading(self) -> None:
        """The client is read from while not too much of what it sends waits, here or for MySQL's socket."""
        change = self._account_change
        held = self.commands.held if change is None else len(change.left)
        wanted = held <= HELD and self._server_writable
        if wanted != self._reading and not self._closed:
            self._reading = wanted
            self.client.transport.resume_reading() if wanted else self.client.transport.pause_reading()

    def _go_on(self) -> None:
        """The commands that are there, until one is under way, or others are to have their turn too."""
        size = turn = 0
        try:
            while not self._busy and self._writable and not self._closed:
                if self.commands.forwarding:
                    self._send_more()
                    if self.commands.forwarding:
                        break
                if turn == TURN:
                    asyncio.get_running_loop().call_soon(self._go_on)
                    break
                turn += 1
                found = self.commands.next()
                if found is None:
                    break
                data, whole = found
                if whole:
                    answer = self.quick(data) if self.heads and len(data) > 9 else None
                    if answer is None:
                        self.handle(data)
                    else:
                        self._out.append(answer)
                    size += len(self._out[-1]) if self._out else 0
                    if size > SOCKET_HIGH:  # whether the client takes them is seen by writing
                        self._flush()
                        size = 0
                else:
                    self._large(data)
        except Malformed as error:
            self.break_off(error)
        except Exception:  # a fault of ours must not leave the client without an answer
            log.exception("a command of a session has failed")
            self.close()
        if self._out:
            self._flush()
        self._mind_reading()

    def _flush(self) -> None:
        out, self._out = self._out, []
        if out and not self._closed:
            self.client.write(out[0] if len(out) == 1 else b"".join(out))

    def _forward_answer(self, data: bytes) -> None:
        if self._out:
            self._flush()
        if not self._closed:
            self.client.write(data)

    def _on_file_wanted(self) -> None:
        self.commands.begin_file()
        self._send_more()
        self._mind_reading()

    def _send_more(self) -> None:
        """Of a large command, or of a file."""
        try:
            more = self.commands.more()
        except TooLarge as error:
            self.break_off(error)
            return
        if more and self.server.alive:
            self.server.write(more)
        self._perhaps_free()

    def _perhaps_free(self) -> None:
        """A command that MySQL does not answer is under way until all of it is sent, and what ran ahead of it is
        answered."""
        if not (self.commands.forwarding or self.server.responses.exchanges or self._task or self._closed):
            self._busy = False

    def answer(self, data: bytes) -> None:
        """A whole answer, written with others at the end of this turn."""
        self._out.append(data)

    # -- ends ----------------------------------------------------------------------------------------------------------

    def _lost(self) -> None:
        """MySQL has gone, and the client wants something of it. It gets what it would get of MySQL, the end of its
        connection, and calls that 2013 itself: in an error packet that number is malformed to libmariadb, and an error
        after which the session goes on to mysql2."""
        self._end_with(b"")

    def break_off(self, error: Malformed) -> None:
        """The client has broken the protocol, or a limit."""
        if isinstance(error, TooLarge):
            payload = error_payload(1153, "08S01", "Got a packet bigger than 'max_allowed_packet' bytes")
            self._end_with(packet(payload, error.sequence))
            return
        change = self._account_change
        payload = error_payload(1835, "HY000", f"malformed packet: {error}")
        self._end_with(packet(payload, 1 if change is None else change.sequence))

    def _end_with(self, words: bytes) -> None:
        """Ends both sides; the client's last words from us must not be lost on the way because it still sends."""
        if self._closed:
            return
        self.answer(words)
        self._flush()
        linger = self.client.transport.can_write_eof()
        if linger:
            self.client.transport.write_eof()
            if not self._reading:
                self.client.transport.resume_reading()
        self.close(linger=linger)

    def close(self, *, linger: bool = False) -> None:
        """Ends both sides; what was written to the client is still sent. `linger`: the client is to close."""
        if self._closed:
            return
        self._closed = True
        self.heads.clear()
        self.closed_at = self.shared.now
        if not linger:
            self.client.transport.close()
        change = self._account_change
        if self.server.alive and (not self._busy or (change is not None and change.part())):
            self.server.transport.close()
        elif self.server.alive:
            self.server.transport.abort()
        if self._task is not None:
            self._task.cancel()
        self._busy = True  # what still comes is passed over
        self._ending()

    def abort(self) -> None:
        """Ends both sides now. Requires: `close` was called."""
        self.client.transport.abort()
        self.server.transport.abort()

    def on_client_lost(self) -> None:
        self.client.alive = False
        self.close()
        self._perhaps_ended()

    def _perhaps_ended(self) -> None:
        if not self.client.alive and not self.server.alive:
            self._ended()
            # The collector of cycles would not find what has lived for long (`proxy/app.py`, `freeze`).
            self._account_change = None
            self.client.release()
            self.server.release()

    # -- back-pressure -----------------------------------------------------------------------------------------------

    def on_client_writable(self, writable: bool) -> None:
        self._writable = writable
        self.heads.hot.clear()
        self.stalled = None if writable else (self.shared.clock(), self.client.transport.get_write_buffer_size())
        if self.server.alive and not self._closed:
            if writable:
                self.server.transport.resume_reading()
            else:
                self.server.transport.pause_reading()
        if writable and not self._busy:
            self._go_on()

    def stands_still(self, now: float, seconds: float) -> bool:
        """Whether the client has taken nothing for so long. Requires: `stalled`."""
        assert self.stalled is not None
        since, waiting = self.stalled
        left = self.client.transport.get_write_buffer_size()
        if left < waiting:
            self.stalled = since, waiting = now, left
        return now - since > seconds

    def on_server_writable(self, writable: bool) -> None:
        self._server_writable = writable
        self._mind_reading()
