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
from proxy.mysql.responses import NO_STATUS, Exchange, Kind, Outcome, Responses
from proxy.mysql.session_state import ASK, TRACK, TRACKS, SessionState, text_row
from proxy.mysql.wires import HELD, WHOLE, ClientWire, Commands, ServerWire
from sqltypes.errors import SourceDown, UpwellError

if TYPE_CHECKING:
    from proxy.mysql.handshake import LoggedIn
    from proxy.mysql.listener import Shared

LOST = error_payload(2013, "HY000", "Lost connection to MySQL server during query")


class SessionBase:
    """Sockets, order and the session's state; `proxy/mysql/session.py` says what each command does."""

    def __init__(self, shared: Shared, logged_in: LoggedIn) -> None:
        self.shared = shared
        self.state = SessionState(database=logged_in.database)
        self.shown = Shown()
        self.user = logged_in.user
        self.connection_id = logged_in.connection_id
        self.capabilities = logged_in.capabilities
        self.eof = not logged_in.capabilities & CLIENT_DEPRECATE_EOF
        self.attributes = bool(logged_in.capabilities & CLIENT_QUERY_ATTRIBUTES)
        # How the last statement was answered: served, cache, reason, position.
        self.last: tuple[str, str, str, str] | None = None
        self.quick_cache: SessionCache | None = None  # that the last statement was a quick hit of
        self.heads: dict[object, bytes] = {}  # `proxy/mysql/quick_hits.py`
        self.active_at = self.server_used_at = shared.clock()
        self._busy = True  # until the session is known
        self._writable = True
        self._orphan = False  # MySQL has gone; what is in memory is still told
        self._account_change: AccountChange | None = None
        self.terms = logged_in.terms
        self._server_capabilities = logged_in.server_capabilities
        self._closed = False
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
        await self.track()
        self.client.write(ok)

    async def track(self) -> None:
        """Switches the trackers on in a session that has just begun, and asks what it is like. A MySQL that cannot do
        that leaves the session unknown: nothing is answered by a cache."""
        if not self.state.client_tracks:
            await self._learn_tracks()
        gtids = self.state.client_tracks.get("session_track_gtids", "OFF")
        switched = self.server.ask(
            self.query(TRACK.format(gtids=gtids if gtids == "ALL_GTIDS" else "OWN_GTID")), Kind.RESULT
        )
        asked = self.server.ask(self.query(ASK), Kind.RESULT)
        outcome = await switched
        found = await asked
        self.state.tracks_changed = self.state.changed = False
        if outcome.error is None and found.error is None:
            self.state.learn(only_row(found.payloads))

    async def _learn_tracks(self) -> None:
        """What the client itself is to be told: what MySQL tells by default, or what the client has set."""
        sql = "SELECT " + ", ".join(f"@@session.{name}" for name in TRACKS)
        found = await self.server.ask(self.query(sql), Kind.RESULT)
        if found.error is None:
            values = (text or "" for text in only_row(found.payloads))
            self.state.client_tracks = dict(zip(TRACKS, values, strict=True))

    async def refresh(self) -> None:
        """Asks again what the trackers did not tell."""
        if self.eof:  # rows carry no trackers there: an OK packet brings what has gathered
            gathered = await self.server.ask(self.query("DO 0"), Kind.RESULT)
            self.state.on_trackers(gathered.state)
            self.state.temporary |= self.state.changed
            self.state.changed = False
        found = await self.server.ask(self.query(ASK), Kind.RESULT)
        if found.error is None:
            self.state.learn(only_row(found.payloads))
        else:
            self.state.values = {}
            self.state.known = True  # with no value that is the caches'

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
        if self._writable and not self.commands.bytes and len(data) > 9:
            if self.heads:
                answer = self.quick(data)
                if answer is not None:
                    self.client.write(answer)
                    return
            if data[0] | data[1] << 8 | data[2] << 16 == len(data) - 4 < WHOLE:
                try:
                    self.handle(data)
                except Malformed as error:
                    self.break_off(f"malformed packet: {error}")
                if self._out:
                    self._flush()
                return
        self.commands.add(data)
        self._go_on()
        if len(self.commands.bytes) > HELD:
            self.client.transport.pause_reading()

    def _on_bytes_ahead(self, data: bytes) -> None:
        """From the client, while a command is under way."""
        if self.server.responses.wants_file:
            self.server.write(data)
        elif self._account_change is not None:
            self._on_authentication(data)
        else:
            self.commands.add(data)
            if self.commands.in_large:
                self._send_rest()
            if len(self.commands.bytes) > HELD:
                self.client.transport.pause_reading()

    def change_account(self, data: bytes) -> None:
        """COM_CHANGE_USER. Raises Malformed."""
        if not self.server.alive:
            self._lost()
            return
        self._flush()
        self._busy = True
        self.heads.clear()
        self._account_change = AccountChange(self, data, self._server_capabilities, self._account_changed)

    def _on_authentication(self, data: bytes) -> None:
        assert self._account_change is not None
        try:
            self._account_change.on_bytes(data)
        except Malformed as error:
            self.break_off(str(error))

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
        """The commands that are there, until one is under way."""
        paused = len(self.commands.bytes) > HELD
        try:
            while not self._busy and self._writable and not self._closed:
                if self.commands.in_large:
                    self._send_rest()
                    if self.commands.in_large:
                        break
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
                else:
                    self._large(data)
        except Malformed as error:
            self.break_off(f"malformed packet: {error}")
        if self._out:
            self._flush()
        if paused and len(self.commands.bytes) <= HELD and not self._closed:
            self.client.transport.resume_reading()

    def _flush(self) -> None:
        if not self._out:
            return
        out, self._out = self._out, []
        self.client.write(out[0] if len(out) == 1 else b"".join(out))

    def handle(self, data: bytes) -> None:
        raise NotImplementedError

    def quick(self, data: bytes) -> bytes | None:
        raise NotImplementedError

    def _large(self, data: bytes) -> None:
        """The beginning of a command too large to be looked at."""
        raise NotImplementedError

    def _send_rest(self) -> None:
        try:
            rest = self.commands.rest()
        except Malformed as error:
            self.break_off(str(error))
            return
        if rest:
            self.server.write(rest)

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
            if outcome.status != NO_STATUS:
                self.state.on_status(outcome.status)
            if outcome.state:
                self.state.on_trackers(outcome.state)
            after(outcome)
            self.ended_exchange()

        self.server.send(data, Exchange(kind, done))

    def ended_exchange(self) -> None:
        """A command of the client has been answered by MySQL."""
        if self.state.tracks_changed and not self._busy:
            self._start(self._renew_trackers())
        if not self._busy and self.commands.bytes:
            self._go_on()

    def unseen(self, after: Callable[[Outcome], None]) -> Exchange:
        """A command of our own ahead of one of the client's: the client sees nothing of it."""

        def done(outcome: Outcome) -> None:
            if outcome.state:
                self.state.on_trackers(outcome.state)
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
        except Malformed as error:
            self.break_off(str(error))
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

    async def _renew_trackers(self) -> None:
        """The client has set session_track_...: what it wants is remembered, and ours are switched on again."""
        self.state.client_tracks = {}
        await self.track()

    # -- ends ----------------------------------------------------------------------------------------------------------

    def _lost(self) -> None:
        """MySQL has gone, and the client wants something of it."""
        if self._closed:
            return
        self.answer(packet(LOST, 1))
        self._flush()
        self.close()

    def break_off(self, why: str) -> None:
        """The client has broken the protocol."""
        self.answer(packet(error_payload(1835, "HY000", why), 1))
        self._flush()
        self.close()

    def close(self) -> None:
        """Ends both sides; what was written to the client is still sent."""
        if self._closed:
            return
        self._closed = True
        self.client.transport.close()
        if self.server.alive:
            self.server.transport.abort() if self._busy else self.server.transport.close()
        if self._task is not None:
            self._task.cancel()
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
        if self.server.responses.exchanges:
            hidden = not self.server.responses.exchanges[0].visible
            self.server.responses.exchanges.clear()
            if hidden and self._task is not None:
                self._task.cancel()
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
        if self.server.alive:
            if writable:
                self.server.transport.resume_reading()
            else:
                self.server.transport.pause_reading()
        if writable and not self._busy:
            self._go_on()

    def on_server_writable(self, writable: bool) -> None:
        if self._closed:
            return
        if writable:
            self.client.transport.resume_reading()
        else:
            self.client.transport.pause_reading()

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


def only_row(payloads: list[bytes]) -> list[str | None]:
    """The row of a result set of one row, from all its packets: the last one ends it."""
    return text_row(payloads[-2])
