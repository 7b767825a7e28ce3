"""The two sockets of a session, and what is under way between them: order, back-pressure, and the end. What a command
means is its handler's to say (`session.py`).

One command is under way at a time; those that a client sends ahead wait. What must wait for something (a miss, rights
that are asked for, the session's own writes) is a task, of which there is one at most.

Invariants:
1. What is written to the client is whole answers, in the order of its commands.
2. The client is not read from while more than `HELD` bytes of it wait, or MySQL's socket takes no more; MySQL is not
   read from while the client's socket takes no more.
3. `busy` while an exchange or a task is under way, a command without answer is being forwarded, or the session has
   ended, and only then.
4. Between events the quick path remembers nothing while `busy`, and no hot execution while bytes of the client wait
   or its socket takes none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import cast

import structlog

from proxy.mysql.login.logged_in import LoggedIn
from proxy.mysql.session.relay_roles import GONE, Dialogue, Handler, Quick
from proxy.mysql.wire.compressed_client import CompressedClient
from proxy.mysql.wire.packets import CLIENT_DEPRECATE_EOF, CLIENT_SESSION_TRACK, Malformed, error_payload, packet
from proxy.mysql.wire.responses import Responses
from proxy.mysql.wire.sockets import HELD, SOCKET_HIGH, ClientWire, Commands, ServerWire, TooLarge
from sqltypes.errors import SourceDown, UpwellError

log = structlog.get_logger("upwell.mysql")

TURN = 100  # commands of one client, then others are looked after
SHUTDOWN = 1053  # MySQL's error: it is going, and leaves the session its hits


class Relay:
    """From login to end. `largest`: bytes of one command. `keep_state`: what of MySQL's session-state information the
    client may see. `clock`: seconds."""

    def __init__(
        self,
        handler: Handler,
        quick: Quick,
        logged_in: LoggedIn,
        *,
        largest: int,
        keep_state: Callable[[bytes], bytes],
        clock: Callable[[], float],
    ) -> None:
        self.commands = Commands(largest)
        self.busy = True  # until the session is known
        self.closed = False
        self.task: asyncio.Task[None] | None = None
        self.orphan = False  # MySQL has gone; what is in memory is still told
        self._leaving = False  # the client goes, or has gone: what is under way is the last look at its session
        self._verdict: asyncio.Task[None] | None = None  # whether the session is over, sought beside what is under way
        self.dialogue: Dialogue | None = None
        self._handler = handler
        self._quick = quick
        self._sent_at_rest = -1  # `ServerWire.sent` as nothing was under way last
        self._below = logged_in.server.below
        transport = logged_in.client.transport
        self.compressed: CompressedClient | None = None
        if logged_in.compression is not None:
            self.compressed = CompressedClient(transport, logged_in.compression, self)
            transport = cast(asyncio.Transport, self.compressed)  # it has what is used of one
        self.client = ClientWire(self, transport, clock)
        if self.compressed is not None:
            self.compressed.protocol = self.client
        responses = Responses(
            self.client.forward,
            self._on_farewell,
            deprecate_eof=bool(logged_in.capabilities & CLIENT_DEPRECATE_EOF),
            session_track=bool(logged_in.capabilities & CLIENT_SESSION_TRACK),
            keep_state=keep_state,
            file_wanted=self._on_file_wanted,
        )
        self.server = ServerWire(self, logged_in.server.transport, responses, self._below)

    def take_over(self, logged_in: LoggedIn) -> tuple[bytes, bytes]:
        """Takes the connections over; what was read of MySQL and of the client beyond the login. Raises Lost."""
        from_server = logged_in.server.hand_over(self.server)
        return from_server, logged_in.client.hand_over(self.compressed or self.client)

    def early(self, data: bytes) -> None:
        """What the client has sent behind its login, and ahead of MySQL's word. Requires: `busy`."""
        if self.compressed is not None:
            self.compressed.data_received(data)
        else:
            self.commands.add(data)

    def receiver(self, write: Callable[[bytes], None]) -> Callable[[bytes], None]:
        """What takes the client's bytes."""
        received = self._quick.receiver(write, self.on_bytes)
        if self._below is None:
            return received
        is_closing = self._below.is_closing

        def received_behind_look(data: bytes) -> None:
            if is_closing():
                self.server.look()
            received(data)

        return received_behind_look

    # -- commands ------------------------------------------------------------------------------------------------------

    def on_bytes(self, data: bytes) -> None:
        """From the client, where they are no hot execution."""
        if self.busy:
            self._on_bytes_ahead(data)
            return
        client = self.client
        if client.writable and not self.commands.pending and len(data) > 9:
            if self._quick.kinds:
                answer = self._quick.answer(data, alone=True)
                if answer is not None:
                    client.write(answer)
                    return
            if data[0] | data[1] << 8 | data[2] << 16 == len(data) - 4 < self.commands.whole:
                try:
                    self._go_long_way(data)
                except Malformed as error:
                    self.break_off(error)
                if client.out:
                    client.flush()
                return
        self._quick.cool()
        self.commands.add(data)
        self.go_on()

    @property
    def next_number(self) -> int | None:
        """As `FramedSession` has it."""
        if self.dialogue is not None:
            return self.dialogue.sequence
        return self.server.responses.number + 1 if self.commands.in_file else None

    def _go_long_way(self, data: bytes) -> None:
        """The place where a command leaves the quick path. Raises Malformed."""
        if self._quick.hot:
            self._quick.cool()
        self._handler.handle(data)

    def _on_bytes_ahead(self, data: bytes) -> None:
        """From the client, while a command is under way."""
        if self.closed:
            return
        if self.dialogue is not None:
            self.dialogue.on_bytes(data)
        elif self.server.responses.endless:
            self.server.write(data)
        else:
            self.commands.add(data)
            if self.commands.forwarding:
                self.send_more()
                if not self.busy:
                    self.go_on()
        self.mind_reading()

    def go_on(self) -> None:
        """The commands that are there, until one is under way, or others are to have their turn too."""
        size = turn = 0
        client = self.client
        try:
            while not self.busy and client.writable and not self.closed:
                if self.commands.forwarding:
                    self.send_more()
                    if self.commands.forwarding:
                        break
                if turn == TURN:
                    asyncio.get_running_loop().call_soon(self.go_on)
                    break
                turn += 1
                found = self.commands.next()
                if found is None:
                    break
                data, whole = found
                if whole:
                    answer = self._quick.answer(data) if self._quick.kinds and len(data) > 9 else None
                    if answer is None:
                        self._go_long_way(data)
                    else:
                        client.out.append(answer)
                    size += len(client.out[-1]) if client.out else 0
                    if size > SOCKET_HIGH:  # whether the client takes them is seen by writing
                        client.flush()
                        size = 0
                else:
                    self._handler.large(data)
        except Malformed as error:
            self.break_off(error)
        except Exception:  # a fault of ours must not leave the client without an answer
            log.exception("a command of a session has failed")
            self.close()
        if client.out:
            client.flush()
        self.mind_reading()

    def _on_file_wanted(self) -> None:
        self.commands.begin_file()
        self.send_more()
        self.mind_reading()

    def send_more(self) -> None:
        """Of a large command, or of a file."""
        try:
            more = self.commands.more()
        except TooLarge as error:
            self.break_off(error)
            return
        if more and self.server.alive:
            self.server.write(more)
        self.perhaps_free()

    # -- what is under way ---------------------------------------------------------------------------------------------

    def occupy(self) -> None:
        """Something is under way. What was at hand of the session may not hold behind it, if MySQL is sent anything."""
        self.busy = True
        self._quick.close()

    def free(self, *, busy: bool = False) -> None:
        """What was under way has ended. `busy`: something else is under way."""
        self.busy = busy or self.closed
        if not self.busy:
            sent, self._sent_at_rest = self._sent_at_rest, self.server.sent
            self._quick.reopen(unheard=sent == self.server.sent)
        if self.compressed is not None and not self.busy:
            asyncio.get_running_loop().call_soon(self.compressed.go_on)

    def perhaps_free(self) -> None:
        """A command that MySQL does not answer is under way until all of it is sent, and what ran ahead of it is
        answered."""
        if not (self.commands.forwarding or self.server.responses.exchanges or self.task or self.closed):
            self.free()

    def start(self, coroutine: Coroutine[None, None, None], *, leaving: bool = False) -> None:
        """A task in the place of a command's answer; none in a session that has ended. `leaving`: the client goes. That
        it has gone ends nothing: what its session leaves must be known."""
        self._leaving |= leaving
        if self.closed:
            coroutine.close()
            return
        self.occupy()
        self.task = asyncio.get_running_loop().create_task(self._run(coroutine))
        self.task.add_done_callback(partial(self._after, coroutine))

    def _after(self, coroutine: Coroutine[None, None, None], task: asyncio.Task[None]) -> None:
        """A task has ended. One that was cancelled before it had begun has told nobody: MySQL's connection is lost."""
        coroutine.close()
        if task.cancelled() and not self.closed:
            self.task = None
            self.lose()

    async def _run(self, coroutine: Coroutine[None, None, None]) -> None:
        """What the task forwarded to MySQL is under way when it has ended."""
        try:
            await coroutine
        except SourceDown as error:
            if self.server.alive:  # it is not the session's own connection
                self.client.fail(error)
            else:
                self.lose()
        except UpwellError as error:
            self.client.fail(error)
        except (Malformed, asyncio.CancelledError):  # what MySQL has told us, or was asked: its connection is lost
            self.lose()
        except Exception:  # a fault of ours must not leave the client without an answer
            log.exception("a command of a session has failed")
            self.close()
        self.server.look()
        if self._verdict is not None:
            await self._hear(self._verdict)
        self.task = None
        if not self.client.alive:
            self.close()
        if self.closed:
            self.perhaps_ended()
            return
        self.free(busy=any([exchange.visible for exchange in self.server.responses.exchanges]))
        if self.client.out:
            self.client.flush()
        if not self.server.alive and not self.orphan:
            self.start(self._handler.outlive())
        elif not self.busy:
            self.go_on()

    # -- ends ----------------------------------------------------------------------------------------------------------

    def lose(self) -> None:
        """MySQL has gone, and the client wants something of it. It gets what it would get of MySQL, the end of its
        connection, and calls that 2013 itself: in an error packet that number is malformed to libmariadb, and an error
        after which the session goes on to mysql2."""
        self.end_with(b"")

    def break_off(self, error: Malformed) -> None:
        """The client has broken the protocol, or a limit."""
        if isinstance(error, TooLarge):
            payload = error_payload(1153, "08S01", "Got a packet bigger than 'max_allowed_packet' bytes")
            self.end_with(packet(payload, error.sequence))
            return
        payload = error_payload(1835, "HY000", f"malformed packet: {error}")
        self.end_with(packet(payload, 1 if self.dialogue is None else self.dialogue.sequence))

    def end_with(self, words: bytes) -> None:
        """Ends both sides; the client's last words from us must not be lost on the way because it still sends."""
        if self.closed:
            return
        if not self.client.alive:  # nobody is there to read them
            self.close()
            return
        self.client.answer(words)
        self.client.flush()
        linger = self.client.transport.can_write_eof()
        if linger:
            self.client.transport.write_eof()
            if not self.client.reading:
                self.client.transport.resume_reading()
        self.close(linger=linger)

    def close(self, *, linger: bool = False) -> None:
        """Ends both sides; what was written to the client is still sent. `linger`: the client is to close."""
        if self.closed:
            return
        self.closed = self.client.ended = True
        if not linger:
            self.client.transport.close()
        dialogue = self.dialogue
        if self.server.alive and (not self.busy or (dialogue is not None and dialogue.part())):
            self.server.transport.close()
        elif self.server.alive:
            self.server.transport.abort()
        for task in (self.task, self._verdict):
            if task is not None:
                task.cancel()
        self.occupy()  # what still comes is passed over
        self._handler.ending()

    def abort(self) -> None:
        """Ends both sides now. Requires: `close` was called."""
        self.client.transport.abort()
        if not self.server.closed:
            self.server.transport.abort()

    def on_client_lost(self) -> None:
        if self._leaving and self.task is not None:
            return  # which closes when it has ended
        last = None if self.busy else self._handler.last_look()
        if last is None:
            self.close()
            self.perhaps_ended()
        else:
            self.start(last, leaving=True)

    def on_server_lost(self) -> None:
        if self.closed:
            return
        exchanges = self.server.responses.exchanges
        if exchanges or self.dialogue is not None or self.commands.forwarding:
            hidden = bool(exchanges) and not exchanges[0].visible
            self.server.responses.forget()
            if hidden and self.task is not None:
                self.task.cancel()
            else:
                self.lose()
            return
        if self.task is None:
            self.start(self._handler.outlive())
        elif self._verdict is None:
            self._verdict = asyncio.get_running_loop().create_task(self._handler.outlive())

    async def _hear(self, verdict: asyncio.Task[None]) -> None:
        """No answer is given before: MySQL would not have answered a session that it has ended."""
        try:
            await asyncio.wait([verdict])
        except asyncio.CancelledError:  # the session is over
            self.lose()
        self._verdict = None

    def _on_farewell(self, payload: bytes) -> None:
        """MySQL ends the session, and says why. A server that shuts down leaves the session its hits."""
        if not self.closed and int.from_bytes(payload[1:3], "little") != SHUTDOWN:
            if self.compressed is not None:
                self.compressed.unasked()
            self.client.write(packet(payload, 0))
            self.close()

    def perhaps_ended(self) -> None:
        """A socket is closed: maybe both are, of a session that is over."""
        if self.closed and not self.client.alive and self.server.closed:
            self._handler.ended()
            # The collector of cycles would not find what has lived for long (`proxy/app.py`, `freeze`).
            self._handler = GONE
            self.dialogue = self.task = self._verdict = None
            self.client.release()
            self.server.release()

    # -- back-pressure -------------------------------------------------------------------------------------------------

    def mind_reading(self) -> None:
        """The client is read from while not too much of what it sends waits, here or for MySQL's socket."""
        held = self.commands.held if self.dialogue is None else len(self.dialogue.left)
        self.client.read(held <= HELD and self.server.writable)

    def on_client_writable(self, writable: bool) -> None:
        self._quick.cool()
        if self.server.alive and not self.closed:
            if writable:
                self.server.transport.resume_reading()
            else:
                self.server.transport.pause_reading()
        if writable and not self.busy:
            self.go_on()

    def check_invariants(self) -> None:
        """Raises AssertionError. For tests."""
        exchanges = self.server.responses.exchanges
        assert self.busy or not self.closed, "closed, and not busy"
        assert self.busy or (self.task is None and not exchanges), "not busy, and something is under way"
        assert not (self.busy and self._quick.kinds), "busy, and the quick path is open"
