"""A client's session without its commands' meaning: order, the state that MySQL tells, and MySQL's end.

One command is under way at a time; those that a client sends ahead wait. What must wait for something (a miss, rights
that are asked for, the session's own writes) is a task, of which there is one at most.

Invariant: `_busy` while an exchange or a task is under way, a command without answer is being forwarded, or the session
has ended, and only then.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING

import structlog

from proxy.api import Served, SessionCache
from proxy.mysql.change_user import AccountChange
from proxy.mysql.error_numbers import statement_error
from proxy.mysql.last_hit import LastHit
from proxy.mysql.packets import (
    CLIENT_DEPRECATE_EOF,
    CLIENT_QUERY_ATTRIBUTES,
    CLIENT_SESSION_TRACK,
    COM_PING,
    COM_RESET_CONNECTION,
    OK,
    Malformed,
    OkAnswer,
    error_payload,
    ok_bytes,
    packet,
    parse_ok,
)
from proxy.mysql.responses import Exchange, Kind, Outcome, Responses
from proxy.mysql.session_sockets import SessionSockets
from proxy.mysql.session_state import SessionState
from proxy.mysql.shown import Shown
from proxy.mysql.trackers import begin, switch_on
from proxy.mysql.wires import ClientWire, ServerWire
from sqltypes.errors import SourceDown, UpwellError

if TYPE_CHECKING:
    from proxy.mysql.handshake import LoggedIn
    from proxy.mysql.listener import Shared

log = structlog.get_logger("upwell.mysql")

_TELL_NOTHING = (bytes((COM_PING,)), bytes((COM_RESET_CONNECTION,)))  # they are not refused
CLOSES = 0.25
"""Seconds in which a MySQL that shuts down closes all connections, also those by which it is asked if it answers."""


class SessionBase(SessionSockets):
    """Order and the session's state; `proxy/mysql/session.py` says what each command does."""

    def __init__(self, shared: Shared, logged_in: LoggedIn) -> None:
        super().__init__(shared)
        eof = not logged_in.capabilities & CLIENT_DEPRECATE_EOF
        self.state = SessionState(database=logged_in.database, eof=eof, accounts=lambda: shared.system.accounts_version)
        self.state.note_rights(login=True)
        self.shown = Shown()
        self.last_hit = LastHit()
        self.user = logged_in.user
        self.connection_id = logged_in.connection_id
        self.capabilities = logged_in.capabilities
        self.eof = eof
        self.attributes = bool(logged_in.capabilities & CLIENT_QUERY_ATTRIBUTES)
        # How the last statement was answered: served, cache, reason, position.
        self.last: tuple[str, str, str, str] | None = None
        self.quick_cache: SessionCache | None = None  # that the last statement was a quick hit of
        self.active_at = self.server_used_at = shared.clock()
        self._seen = b""  # the last command, when the session was last looked at
        self._orphan = False  # MySQL has gone; what is in memory is still told
        self.terms = logged_in.terms
        self._server_capabilities = logged_in.server_capabilities
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
        await begin(self, self.shared.new_sessions)
        self.commands.limit(self.state.values.get("max_allowed_packet", ""))
        self.client.write(ok)

    def query(self, sql: str) -> bytes:
        """The packet of a COM_QUERY of our own."""
        prefix = b"\x03\0\x01" if self.attributes else b"\x03"
        return packet(prefix + sql.encode(), 0)

    # -- another account ---------------------------------------------------------------------------------------------

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
        self.state.note_rights(login=True)
        self._start(self._first(packet(self._shown_ok(final), sequence)))

    def _shown_ok(self, payload: bytes) -> bytes:
        """MySQL's OK after a login, as the client may see it."""
        ok = parse_ok(payload, session_track=True)
        if ok.state:
            self.state.on_trackers(ok.state)
        self.state.on_status(ok.status)
        kept = self.state.shown_state(ok.state) if self._client_tracks and ok.state else b""
        return ok_bytes(replace(ok, state=kept), OK, session_track=self._client_tracks)

    @abstractmethod
    def begin_anew(self) -> None:
        """MySQL has begun a new session on the connection."""

    @abstractmethod
    def for_mysql(self, data: bytes) -> bytes:
        """A command, the hits before which MySQL has not seen."""

    def fail_command(self, error: UpwellError) -> None:
        """An error in the place of an answer."""
        self.answer(packet(statement_error(error), 1))

    def ok(self, status: int, info: str = "") -> None:
        answer = OkAnswer(0, 0, status, 0, info.encode())
        self.answer(packet(ok_bytes(answer, OK, session_track=self._client_tracks), 1))

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
        self.state.vacant = False
        self.server_used_at = self.active_at
        self.begin_at_mysql()
        if self.last_hit.command and kind is not Kind.PREPARED and data[4:5] not in _TELL_NOTHING:
            # MySQL adds its error to what the statement before has left. A SELECT leaves nothing, as the hit has.
            self.server.send(self.query("SELECT 1"), self.unseen(lambda _: None))
            self.last_hit.command = b""

        def done(outcome: Outcome) -> None:
            self._busy = False
            self.state.absorb(outcome)
            if kind is Kind.PREPARED and (outcome.error is not None or _warns(outcome)):
                self.last_hit.command = b""  # SHOW WARNINGS tells of that
            after(outcome)
            self.ended_exchange()

        self.server.send(data, Exchange(kind, done, unwarned=self.last_hit.command != b""))

    def begin_at_mysql(self) -> None:
        """Has MySQL begin the transaction that has begun with hits, before it answers anything in it: it refuses some
        statements there, and its flags tell of it."""
        state = self.state
        if state.begun:
            state.flags |= state.begun
            state.begun, state.in_transaction = 0, True
            self.server.send(self.query("BEGIN"), self.unseen(lambda _: None))

    async def ping_unbegun(self, data: bytes) -> None:
        """The client's COM_PING in a transaction of which MySQL knows nothing: it need not begin for this."""
        self.server_used_at = self.active_at
        outcome = await self.server.ask(data, Kind.ONE)
        if outcome.error is None:
            self.ok(self.state.status)
        else:
            self.answer(packet(outcome.payloads[0], 1))

    def ended_exchange(self) -> None:
        """A command of the client has been answered by MySQL."""
        state = self.state
        if state.tracks_changed and not self._busy and not (state.tracks_wait and state.in_transaction):
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
        self._task.add_done_callback(lambda _: coroutine.close())  # it may be cancelled before it has begun

    async def _run(self, coroutine: Coroutine[None, None, None]) -> None:
        """What the task forwarded to MySQL is under way when it has ended."""
        try:
            await coroutine
        except SourceDown as error:
            if self.server.alive:  # it is not the session's own connection
                self.fail_command(error)
            else:
                self._lost()
        except UpwellError as error:
            self.fail_command(error)
        except Malformed:  # what MySQL has told us
            self._lost()
        except asyncio.CancelledError:  # of what MySQL was asked: its connection is lost
            self._lost()
        except Exception:  # a fault of ours must not leave the client without an answer
            log.exception("a command of a session has failed")
            self.close()
        self._task = None
        if self._closed:
            return
        self._busy = any(exchange.visible for exchange in self.server.responses.exchanges)
        if self._out:
            self._flush()
        if not self.server.alive and not self._orphan:
            self._start(self._end_or_orphan())
        elif not self._busy:
            self._go_on()

    # -- ends ----------------------------------------------------------------------------------------------------------

    def on_server_lost(self) -> None:
        if self._closed:
            self._perhaps_ended()
            return
        exchanges = self.server.responses.exchanges
        if exchanges or self._account_change is not None or self.commands.forwarding:
            hidden = bool(exchanges) and not exchanges[0].visible
            exchanges.clear()
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
        await asyncio.sleep(CLOSES)
        if await self.shared.system.answers():
            self.close()
        else:
            self.shared.orphaned(self)

    def on_farewell(self, payload: bytes) -> None:
        """MySQL ends the session, and says why. A server that shuts down leaves the session its hits."""
        if not self._closed and int.from_bytes(payload[1:3], "little") != 1053:
            self.client.write(packet(payload, 0))
            self.close()

    def wrote_unlogged(self, *, schema: bool) -> None:
        """The session may have changed anything, and the stream will never tell. `schema`: tables, too."""
        self.state.may_be_unlogged = False
        self.shared.system.written_unlogged(self.state.account, schema=schema)

    def _ending(self) -> None:
        if self.state.unlogged:  # its last statement may have been done
            self.wrote_unlogged(schema=True)
        self.shared.ending(self)

    def _ended(self) -> None:
        self.shared.ended(self)

    def note_use(self, now: float) -> None:
        """Quick hits leave nothing but their command."""
        if self.last_hit.command is not self._seen:
            self._seen = self.last_hit.command
            self.active_at = now

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


def _warns(prepared: Outcome) -> bool:
    """Whether the answer to COM_STMT_PREPARE counts warnings."""
    return prepared.payloads[0][10:12] not in (b"", b"\0\0")
