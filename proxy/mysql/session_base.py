"""A client's session without its commands' meaning: two sockets, order, the state that MySQL tells, and ends.

One command is under way at a time; those that a client sends ahead wait. What must wait for something (a miss, rights
that are asked for, the session's own writes) is a task, of which there is one at most.

Invariants:
1. `_busy` while an exchange or a task is under way, and only then.
2. What is written to the client is whole answers, in the order of its commands.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING

from proxy.api import Served, SessionCache
from proxy.mysql.change_user import AccountChange
from proxy.mysql.packets import (
    CLIENT_DEPRECATE_EOF,
    CLIENT_QUERY_ATTRIBUTES,
    CLIENT_SESSION_TRACK,
    COM_PING,
    OK,
    STATUS_AUTOCOMMIT,
    STATUS_IN_TRANS,
    Malformed,
    OkAnswer,
    error_payload,
    ok_bytes,
    packet,
    parse_ok,
)
from proxy.mysql.reads import Shown
from proxy.mysql.responses import Exchange, Kind, Outcome, Responses
from proxy.mysql.session_state import SessionState
from proxy.mysql.trackers import switch_on
from proxy.mysql.wires import HELD, SOCKET_HIGH, WHOLE, ClientWire, Commands, ServerWire, TooLarge
from sqltypes.errors import SourceDown, UpwellError

if TYPE_CHECKING:
    from proxy.mysql.handshake import LoggedIn
    from proxy.mysql.listener import Shared

TURN = 100  # commands of one client, then others are looked after


class SessionBase:
    """Sockets, order and the session's state; `proxy/mysql/session.py` says what each command does."""

    replay = b""  # the last command, where a cache has answered it

    def __init__(self, shared: Shared, logged_in: LoggedIn) -> None:
        self.shared = shared
        eof = not logged_in.capabilities & CLIENT_DEPRECATE_EOF
        self.state = SessionState(database=logged_in.database, eof=eof)
        self.shown = Shown()
        self.user = logged_in.user
        self.connection_id = logged_in.connection_id
        self.capabilities = logged_in.capabilities
        self.eof = eof
        self.attributes = bool(logged_in.capabilities & CLIENT_QUERY_ATTRIBUTES)
        # How the last statement was answered: served, cache, reason, position.
        self.last: tuple[str, str, str, str] | None = None
        self.quick_cache: SessionCache | None = None  # that the last statement was a quick hit of
        self.heads: dict[object, bytes] = {}  # `proxy/mysql/quick_hits.py`
        self.active_at = self.server_used_at = shared.clock()
        self._busy = True  # until the session is known
        self._writable = self._server_writable = True  # a socket takes bytes
        self._reading = True  # from the client
        self._orphan = False  # MySQL has gone; what is in memory is still told
        self._whole = min(WHOLE, shared.options.largest_command)
        self._account_change: AccountChange | None = None
        self.terms = logged_in.terms
        self._server_capabilities = logged_in.server_capabilities
        self._closed = False
        self.closed_at = 0.0
        self._task: asyncio.Task[None] | None = None
        self._out: list[bytes] = []
        self.commands = Commands(shared.options.largest_command)
        self._client_tracks = bool(logged_in.capabilities & CLIENT_SESSION_TRACK)
        responses = Responses(
            self._forward_answer,
            self.on_farewell,
            deprecate_eof=not self.eof,
            session_track=self._client_tracks,
            keep_state=self.state.shown_state,
            file_wanted=self._on_file_wanted,
        )
        self.server = ServerWire(self, logged_in.server.transport, responses)
        self.client = ClientWire(self, logged_in.client.transport)

    # -- beginning -----------------------------------------------------------------------------------------------------

    def begin(self, logged_in: LoggedIn) -> None:
        """Takes the connections over, with what was read beyond the login. Raises Lost."""
        from_server = logged_in.server.hand_over(self.server)
        from_client = logged_in.client.hand_over(self.client)
        shown = self._shown_ok(logged_in.ok_payload)
        if from_server:
            self.server.data_received(from_server)
        if from_client:
            self.commands.add(from_client)
        self._start(self._first(packet(shown, logged_in.client.sequence)))

    async def _first(self, ok: bytes) -> None:
        await switch_on(self)
        self.commands.limit(self.state.values.get("max_allowed_packet", ""))
        self.client.write(ok)

    def query(self, sql: str) -> bytes:
        """The packet of a COM_QUERY of our own."""
        prefix = b"\x03\0\x01" if self.attributes else b"\x03"
        return packet(prefix + sql.encode(), 0)

    # -- bytes ---------------------------------------------------------------------------------------------------------

    def on_bytes(self, data: bytes) -> None:
        """From the client."""
        if self._busy:
            self._on_bytes_ahead(data)
            return
        if self._writable and not self.commands.pending and len(data) > 9:
            if self.heads:
                answer = self.quick(data)
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

    def change_account(self, data: bytes) -> None:
        """COM_CHANGE_USER. Raises Malformed."""
        if not self.server.alive:
            self._lost()
            return
        self._busy = True
        self.heads.clear()
        try:
            self._account_change = AccountChange(self, data, self._server_capabilities, self._account_changed)
        except Malformed:
            self._end_with(packet(error_payload(1047, "08S01", "Unknown command"), 1))
            return
        self._flush()
        if self.commands.held:
            self._account_change.on_bytes(self.commands.take())

    def _account_changed(self, final: bytes, sequence: int) -> None:
        """MySQL has accepted the account, and begun a new session for it."""
        change = self._account_change
        assert change is not None
        self._account_change = None
        self.user = change.user
        if change.left:
            self.commands.add(change.left)
        self.begin_anew()
        self._start(self._first(packet(self._shown_ok(final), sequence)))

    def _shown_ok(self, payload: bytes) -> bytes:
        """MySQL's OK after a login, as the client may see it."""
        ok = parse_ok(payload, session_track=True)
        if ok.state:
            self.state.on_trackers(ok.state)
        self.state.on_status(ok.status)
        kept = self.state.shown_state(ok.state) if self._client_tracks and ok.state else b""
        return ok_bytes(replace(ok, state=kept), OK, session_track=self._client_tracks)

    def begin_anew(self) -> None:
        raise NotImplementedError

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
        if self._out:
            self._flush()
        self._mind_reading()

    def _flush(self) -> None:
        out, self._out = self._out, []
        if out and not self._closed:
            self.client.write(out[0] if len(out) == 1 else b"".join(out))

    def handle(self, data: bytes) -> None:
        raise NotImplementedError

    def quick(self, data: bytes) -> bytes | None:
        raise NotImplementedError

    def _large(self, data: bytes) -> None:
        """The beginning of a command too large to be looked at."""
        raise NotImplementedError

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
        if not (self.commands.forwarding or self.server.responses.exchanges or self._task):
            self._busy = False  # it was a command that MySQL does not answer

    def answer(self, data: bytes) -> None:
        """A whole answer, written with others at the end of this turn."""
        self._out.append(data)

    def fail_command(self, error: UpwellError) -> None:
        """An error in the place of an answer."""
        self.answer(packet(error_payload(error.errno, error.sqlstate, error.message), 1))

    def ok(self, info: str = "") -> None:
        answer = OkAnswer(0, 0, self.status, 0, info.encode())
        self.answer(packet(ok_bytes(answer, OK, session_track=self._client_tracks), 1))

    def _forward_answer(self, data: bytes) -> None:
        if self._out:
            self._flush()
        if not self._closed:
            self.client.write(data)

    @property
    def busy(self) -> bool:
        return self._busy

    @property
    def status(self) -> int:
        """The status flags of an answer of our own: what MySQL's would be after a read."""
        state = self.state
        if state.autocommit and not state.in_transaction:
            return STATUS_AUTOCOMMIT
        return STATUS_IN_TRANS | (STATUS_AUTOCOMMIT if state.autocommit else 0)

    # -- what is under way ---------------------------------------------------------------------------------------------

    def forward(self, data: bytes, kind: Kind, after: Callable[[Outcome], None]) -> None:
        """Sends a command of the client to MySQL; its answer is the client's. `after`: when it has ended."""
        if not self.server.alive:
            self._lost()
            return
        if self._out:
            self._flush()
        self._busy = True
        self.heads.clear()
        self.server_used_at = self.active_at

        def done(outcome: Outcome) -> None:
            self._busy = False
            self.state.absorb(outcome)
            after(outcome)
            self.ended_exchange()

        self.server.send(data, Exchange(kind, done, unwarned=bool(self.replay)))

    def ended_exchange(self) -> None:
        """A command of the client has been answered by MySQL."""
        if self.state.tracks_changed and not self._busy:
            self._start(switch_on(self))
        if not self._busy and self.commands.held:
            self._go_on()

    def unseen(self, after: Callable[[Outcome], None]) -> Exchange:
        """A command of our own ahead of one of the client's: the client sees nothing of it."""

        def done(outcome: Outcome) -> None:
            self.state.absorb(outcome)
            after(outcome)

        return Exchange(Kind.RESULT, done, visible=False)

    def send_unanswered(self, data: bytes) -> None:
        """A command that MySQL does not answer."""
        if self.server.alive:
            self.server.write(data)

    def _start(self, coroutine: Coroutine[None, None, None]) -> None:
        """A task in the place of a command's answer."""
        self._busy = True
        self.heads.clear()
        self._task = asyncio.get_running_loop().create_task(self._run(coroutine))

    async def _run(self, coroutine: Coroutine[None, None, None]) -> None:
        """What the task forwarded to MySQL is under way when it has ended."""
        try:
            await coroutine
        except SourceDown:
            self._lost()
        except UpwellError as error:
            self.fail_command(error)
        except Malformed:  # what MySQL has told us
            self._lost()
        except asyncio.CancelledError:  # of what MySQL was asked: its connection is lost
            self._lost()
        self._task = None
        self._busy = bool(self.server.responses.exchanges)
        if self._out:
            self._flush()
        if not self.server.alive and not self._orphan and not self._closed:
            self._start(self._end_or_orphan())
        elif not self._busy:
            self._go_on()

    # -- ends ----------------------------------------------------------------------------------------------------------

    def _lost(self) -> None:
        """MySQL has gone, and the client wants something of it. It gets what it would get of MySQL, the end of its
        connection, and calls that 2013 itself: in an error packet that number is malformed to libmariadb, and an error
        after which the session goes on to mysql2."""
        if self._closed:
            return
        self._flush()
        self.close()

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
        self.closed_at = self.shared.now
        if not linger:
            self.client.transport.close()
        if self.server.alive:
            self.server.transport.abort() if self._busy else self.server.transport.close()
        if self._task is not None:
            self._task.cancel()
        self._busy = True  # what still comes is passed over
        self.shared.ending(self)

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
            self.shared.ended(self)

    def on_server_lost(self) -> None:
        if self._closed:
            self._perhaps_ended()
            return
        exchanges, begun = self.server.responses.exchanges, self.server.responses.begun
        if exchanges or self._account_change is not None or self.commands.forwarding:
            hidden = bool(exchanges) and not exchanges[0].visible
            exchanged = bool(exchanges)
            exchanges.clear()
            if hidden and self._task is not None:
                self._task.cancel()
            elif begun or not (exchanged or self._account_change):
                self._end_with(b"")  # an error would be taken for a part of the answer; or MySQL has answered
            else:
                self._lost()
            return
        # While MySQL cannot be reached, hits go on. If it can be, it is this session that was ended.
        if self._task is None:
            self._start(self._end_or_orphan())

    async def _end_or_orphan(self) -> None:
        self._orphan = True
        if await self.shared.system.answers():
            self.close()
        else:
            self.shared.orphaned(self)

    def on_farewell(self, payload: bytes) -> None:
        """MySQL ends the session, and says why. A server that shuts down leaves the session its hits."""
        if int.from_bytes(payload[1:3], "little") != 1053:
            self.client.write(packet(payload, 0))
            self.close()

    def on_client_writable(self, writable: bool) -> None:
        self._writable = writable
        if self.server.alive and not self._closed:
            if writable:
                self.server.transport.resume_reading()
            else:
                self.server.transport.pause_reading()
        if writable and not self._busy:
            self._go_on()

    def on_server_writable(self, writable: bool) -> None:
        self._server_writable = writable
        self._mind_reading()

    def ping_server(self) -> None:
        """Keeps a session alive at MySQL that is in use here: hits do not reach it."""
        if not self._busy and self.server.alive:
            self.server_used_at = self.shared.clock()
            self._start(self._show_use())

    async def _show_use(self) -> None:
        await self.server.ask(packet(bytes((COM_PING,)), 0), Kind.ONE)

    def note(self, served: Served, cache: str = "", reason: str = "", position: str = "") -> None:
        """What EXPLAIN LAST STATEMENT tells."""
        self.quick_cache = None
        self.last = served.value, cache, reason, position
