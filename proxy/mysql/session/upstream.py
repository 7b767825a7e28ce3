"""A session's own connection at MySQL: its client's commands that go there, and what MySQL is asked or shown unseen by
the client. What becomes of reads of caches and of passed statements is in `cached_reads.py` and `pass_through.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from time import perf_counter_ns

from proxy.mysql.reads.prepared_statement import PreparedStatement
from proxy.mysql.reads.shown import Stage
from proxy.mysql.reads.trackerless import OLD_FLAGS, Positions, after_command
from proxy.mysql.session.questions_to_mysql import DEADLOCK, coming, query, refresh, switch_on
from proxy.mysql.session.relay import Relay
from proxy.mysql.session.session_context import SessionContext
from proxy.mysql.session.snapshot_forecast import REST
from proxy.mysql.state.session_state import SessionState
from proxy.mysql.text.statement_kind import Kind as StatementKind
from proxy.mysql.text.statement_set import Scope
from proxy.mysql.wire.bound_values import text_at
from proxy.mysql.wire.packets import (
    COM_CHANGE_USER,
    COM_PING,
    COM_QUERY,
    COM_QUIT,
    COM_RESET_CONNECTION,
    COM_STMT_CLOSE,
    COM_STMT_EXECUTE,
    COM_STMT_PREPARE,
    OK,
    Malformed,
    OkAnswer,
    ok_bytes,
    packet,
    parse_ok,
)
from proxy.mysql.wire.responses import Exchange, Kind, Outcome
from proxy.mysql.wire.sockets import ServerWire
from sqltypes.errors import SourceDown, SourceError

_TELL_NOTHING = (bytes((COM_PING,)), bytes((COM_RESET_CONNECTION,)))  # they are not refused
_LOOKED_BEHIND = (*_TELL_NOTHING, *(bytes((each,)) for each in (COM_QUIT, COM_CHANGE_USER, COM_STMT_CLOSE)))

RECENT = 1.0
"""Seconds after which a transaction that the stream brought is visible at MySQL, as far as nothing is asked."""
VISIBLE_SOON = 0.05
"""Seconds that MySQL may take to show what hits have shown already, and the stream to bring what MySQL shows."""


class Upstream:
    """What one session says to MySQL."""

    def __init__(self, context: SessionContext, relay: Relay) -> None:
        self.state: SessionState = context.state
        self._context = context
        self._shared = context.shared
        self._relay = relay
        self._lags = False  # MySQL was waited for in vain, perhaps, to show what hits have shown

    @property
    def server(self) -> ServerWire:
        return self._relay.server

    @property
    def positions(self) -> Positions | None:
        return self._shared.positions

    @property
    def alive(self) -> bool:
        """Whether the connection is."""
        return self._relay.server.alive

    def query(self, sql: str) -> bytes:
        """The packet of a COM_QUERY of our own."""
        return query(sql, attributes=self._context.attributes)

    # -- commands of the client ----------------------------------------------------------------------------------------

    def forward(self, data: bytes, kind: Kind, after: Callable[[Outcome], None]) -> None:
        """Sends a command; its answer is the client's. `after`: when it has ended. Statements that are executed go by
        `PassThrough`."""
        relay, context = self._relay, self._context
        if not self.alive:
            relay.lose()
            return
        relay.client.flush()
        relay.occupy()
        self.state.transaction.vacant = False
        context.server_used_at = context.active_at
        self.begin()
        last_hit = context.last_hit
        if last_hit.warned:  # what comes may tell of that
            self.run_command(last_hit.command, self._absorbed)
            last_hit.let_go(self.text_of(last_hit.command))
        elif last_hit.command and kind is not Kind.PREPARED and data[4:5] not in _TELL_NOTHING:
            # MySQL adds its error to what the statement before has left. A SELECT leaves nothing, as the hit has, and
            # so does what ended a transaction here: then FOUND_ROWS() stays. BEGIN, which MySQL was sent, does, too.
            if last_hit.is_unseen:
                self.run("SELECT 1", self._absorbed)
            elif not self.state.transaction.in_transaction:
                self.run("COMMIT", self._absorbed)
            last_hit.let_go(self.text_of(last_hit.command))

        def done(outcome: Outcome) -> None:
            relay.free()
            if (
                self.state.tells or data[4] not in OLD_FLAGS
            ):  # vtgate's flags there are of before a statement that failed
                self.state.absorb(outcome)
            if kind is Kind.PREPARED and (outcome.error is not None or _warns(outcome)):
                last_hit.let_go(self.text_of(last_hit.command))  # SHOW WARNINGS tells of that
            if not self.state.tells:
                after_command(self.state, data[4])
            after(outcome)
            self.answered()

        self.server.send(data, Exchange(kind, done, unwarned=last_hit.command != b""))

    def answered(self) -> None:
        """A command of the client has been answered by MySQL."""
        relay = self._relay
        if not relay.busy and relay.commands.held:
            relay.go_on()

    def looks_first(self, data: bytes) -> bool:
        """Whether a command waits until MySQL has been asked what the session is like, for the statement before it has
        left that open: it has set session_track_..., or is by the clock, and its cache could not be found, or has
        perhaps selected another database. What asks about that statement goes first: behind our questions it would be
        told of these."""
        state, relay = self.state, self._relay
        switches = state.tracks.changed and not (state.tracks.wait and state.transaction.in_transaction)
        looks = (state.asks_first or (not state.tells and self._begins(data))) and not state.known
        if not (state.tells or state.askable):
            return False  # it is asked about behind the transaction
        if not (switches or looks) or not self.alive:
            state.asks_first = False
            return False
        if data[4:5] in _LOOKED_BEHIND or self.asks_of_last(data):
            return False
        state.asks_first = False
        relay.commands.put_back(data)
        relay.start(switch_on(self) if switches else self.refresh())
        return True

    def _begins(self, data: bytes) -> bool:
        """Whether a command begins a transaction."""
        text = self._executed_text(data)
        return bool(text) and self._shared.texts.route(text, self.state.database).statement.kind is StatementKind.BEGIN

    def _executed_text(self, data: bytes) -> bytes:
        """What a command executes or prepares; b"" of other commands, and of one that is malformed."""
        executed = self.executed_by(data)
        if executed is not None:
            return executed.text
        if data[4] not in (COM_QUERY, COM_STMT_PREPARE):
            return b""
        text = data[5:]
        if data[4] == COM_QUERY and self._context.attributes:
            try:
                text = text[text_at(text) :]
            except Malformed:
                return b""
        return text

    def asks_of_last(self, data: bytes) -> bool:
        """Whether a command does nothing but ask about the statement before it, perhaps among others."""
        text = self._executed_text(data)
        if not text:
            return False
        route = self._shared.texts.route(text, self.state.database)
        statement = route.statement
        if not (statement.of_last or statement.of_found) or not route.effects.simple:
            return False
        if statement.kind is StatementKind.SET:
            return all(one.scope is Scope.USER for one in statement.settings or ())
        return statement.kind in (StatementKind.READ, StatementKind.HARMLESS)

    async def ping_unbegun(self, data: bytes) -> None:
        """The client's COM_PING in a transaction of which MySQL knows nothing: it need not begin for this."""
        self._context.server_used_at = self._context.active_at
        outcome = await self.server.ask(data, Kind.ONE)
        if outcome.error is None:
            self.ok(self.state.transaction.status)
        else:
            self._relay.client.answer(packet(outcome.payloads[0], 1))

    def ok(self, status: int, info: str = "") -> None:
        """An OK of ours in the place of MySQL's."""
        answer = OkAnswer(0, 0, status, 0, info.encode())
        self._relay.client.answer(packet(ok_bytes(answer, OK, session_track=self._context.tracks), 1))

    def shown_ok(self, payload: bytes) -> bytes:
        """MySQL's OK after a login, as the client may see it. Raises Malformed."""
        ok, tracks = parse_ok(payload, session_track=True), self._context.tracks
        if ok.state:
            self.state.on_trackers(ok.state)
        self.state.transaction.on_status(ok.status)
        kept = self.state.tracks.shown(ok.state) if tracks and ok.state else b""
        return ok_bytes(replace(ok, state=kept), OK, session_track=tracks)

    # -- commands of our own -------------------------------------------------------------------------------------------

    def run(self, sql: str, after: Callable[[Outcome], None]) -> None:
        """Has MySQL run a text ahead of the client's next command; the client sees nothing of it."""
        self.run_command(self.query(sql), after)

    def run_command(self, data: bytes, after: Callable[[Outcome], None]) -> None:
        """As `run`, of a whole command."""

        def done(outcome: Outcome) -> None:
            self.state.absorb(outcome)
            after(outcome)

        self.server.send(data, Exchange(Kind.RESULT, done, visible=False))

    def begin(self, *, snapshot: bool = False) -> None:
        """Has MySQL begin the transaction that has begun here, before it answers anything in it: it refuses some
        statements there, and its flags tell of it. `snapshot`: and opens its snapshot at once."""
        now = self.state.transaction
        if now.begun:
            now.flags |= now.begun
            begin = now.begun_by or "BEGIN"
            if snapshot:
                reads_only = ", READ ONLY" if begin.endswith("READ ONLY") else ""
                begin = f"START TRANSACTION WITH CONSISTENT SNAPSHOT{reads_only}"
            now.begun, now.begun_by, now.in_transaction = 0, "", True
            self.run(begin, self._absorbed)

    def perhaps_pin(self, cache: str) -> None:
        """A REPEATABLE READ transaction was given its first hit, of this cache. Where MySQL will have to answer in it,
        as far as can be foreseen, it opens its snapshot now, behind the hit."""
        shared = self._shared
        if self.state.tells and shared.forecast.expects(cache) and shared.clock() >= shared.forecast.rests_until:
            asyncio.get_running_loop().call_soon(self._pin)

    def _pin(self) -> None:
        state, relay = self.state, self._relay
        repeatable = state.variables.values.get("transaction_isolation") == "REPEATABLE-READ"
        free = self.alive and not relay.busy
        if repeatable and state.transaction.begun and free and self._context.shown.stage is Stage.FOLLOWS:
            relay.start(self._open_snapshot())

    async def _open_snapshot(self) -> None:
        """MySQL waits until it shows what hits have shown; the client's next command waits until the position has what
        the snapshot may have. Raises Malformed."""
        shown, shared = self._context.shown, self._shared
        if not self.alive:
            return
        self.wait_for_shown()
        self.begin(snapshot=True)
        self._context.server_used_at = shared.clock()
        self.state.transaction.vacant = False
        brought = False
        with suppress(SourceError, SourceDown):  # the client has asked for nothing: its next command will tell it
            seen = await coming(self)
            opened = self.state.transaction.in_transaction and not self._lags
            brought = seen is not None and opened and await shared.system.freshness.reached(seen, VISIBLE_SOON)
            if opened and not brought:
                shared.forecast.rests_until = shared.clock() + REST
        if shown.stage is not Stage.FOLLOWS:
            return
        if shown.pin(brought=brought):
            shared.system.count("mixed_snapshots")
        else:
            self.state.transaction.touched = False  # the tracker tells of a snapshot as of a read

    def wait_for_shown(self) -> None:
        """Has MySQL wait, for a moment, until it shows all that the stream has brought, as hits have; unless some
        session has seen that it does."""
        shared, at = self._shared, perf_counter_ns()
        self._lags = False
        if shared.position.seconds_since_change() >= RECENT:
            return
        position = shared.position.text()
        if shared.visible == position:
            return

        def waited(outcome: Outcome) -> None:
            self._lags = outcome.error is not None or perf_counter_ns() - at >= VISIBLE_SOON * 0.9e9
            if not self._lags:
                shared.visible = position

        self.run(f"DO WAIT_FOR_EXECUTED_GTID_SET('{position}', {VISIBLE_SOON})", waited)

    def _absorbed(self, outcome: Outcome) -> None:
        """The session's state has it already."""

    async def prepare(self, text: bytes) -> Outcome:
        """MySQL's answer to preparing a text, which is not kept prepared. Raises SourceDown."""
        outcome = await self.server.ask(packet(bytes((COM_STMT_PREPARE,)) + text, 0), Kind.PREPARED)
        if outcome.error is None:
            self._relay.server.send_unanswered(packet(bytes((COM_STMT_CLOSE,)) + outcome.payloads[0][1:5], 0))
        return outcome

    async def refresh(self) -> None:
        """As `questions_to_mysql.refresh`, and what follows from what has been done that an error has not told."""
        await refresh(self)
        if self.state.may_be_unlogged or self.state.hides_writes:
            self.wrote_unlogged(schema=True)

    async def last_look(self) -> None:
        """The client has gone, or is about to: what its statements may have done that an error has not told."""
        if self.alive:
            await self.refresh()

    def ping(self) -> None:
        """Keeps a session alive at MySQL that is in use here: hits do not reach it."""
        if not self._relay.busy and self.alive:
            self._context.server_used_at = self._shared.clock()
            self._relay.start(self._show_use())

    async def _show_use(self) -> None:
        await self.server.ask(packet(bytes((COM_PING,)), 0), Kind.ONE)

    async def outlive(self, orphaned: Callable[[], None]) -> None:
        """MySQL has closed the connection. If it is still there, it is this session that it has ended, and the client
        is told at once. If it cannot be reached, the session's hits go on, and `orphaned` is told."""
        if await self._shared.lives():
            self._relay.close()
        else:
            orphaned()

    # -- what MySQL must be shown --------------------------------------------------------------------------------------

    def statement_of(self, data: bytes) -> PreparedStatement | None:
        """The prepared statement that a command is about."""
        return self._context.statements.get(data[5:9])

    def executed_by(self, data: bytes) -> PreparedStatement | None:
        """The one that a command executes, if it does."""
        return self._context.statements.get(data[5:9]) if data[4] == COM_STMT_EXECUTE else None

    def text_of(self, data: bytes) -> bytes:
        """What holds the text of a command, b"" of none."""
        return self._context.text_of(data)

    def for_mysql(self, data: bytes) -> bytes:
        """A command, the hits before which MySQL has not seen. Shows it those by whose types it goes on comparing."""
        statement = self.executed_by(data)
        if statement is None:
            return data
        self.show_owed(statement, data)
        return statement.bound.for_mysql(data)

    def show_owed(self, statement: PreparedStatement, data: bytes = b"") -> bool:
        """Shows MySQL the executions of a statement that were hits, and by whose types it goes on comparing. Whether
        there are any. `data`: the execution that follows."""
        owed, waits = statement.bound.owed(data), self.state.transaction.one_shot
        if owed:
            self.compare_shown(opens_snapshot=True)
        for execution in owed:
            self.run_command(execution, self.replayed)
        if owed and self.state.transaction.autocommit:  # else they begin the transaction that is the client's, too
            self._set_again(waits)
        return bool(owed)

    def _set_again(self, waits: str) -> None:
        """A SET TRANSACTION, as MySQL tells of it, that waited for the client's next transaction: ours used it up."""
        for text in filter(None, map(str.strip, waits.split(";"))):
            self.run(text, self._ran)

    def show_now(self, statement: PreparedStatement) -> None:
        """As `show_owed`, with no command behind it that MySQL answers. The next command waits. A transaction that is
        begun by that is none of the client's, and ended."""
        if not self.alive:
            return
        now = self.state.transaction
        begins, waits = not (now.autocommit or now.under_way), now.one_shot
        if self.show_owed(statement):
            if begins:
                self.run("COMMIT AND NO CHAIN NO RELEASE" if self.state.tells else "COMMIT", self._ran)
                self._set_again(waits)
            self._relay.occupy()

    def replayed(self, outcome: Outcome) -> None:
        """MySQL has run a hit."""
        self.state.transaction.touched |= self.state.transaction.in_transaction
        if outcome.error is not None and outcome.error.errno == DEADLOCK:
            self._relay.lose()  # the client is answered the statement behind it, and would not know
        self._ran(outcome)

    def _ran(self, outcome: Outcome) -> None:
        """MySQL has answered what the client does not see."""
        relay = self._relay
        if relay.busy:
            relay.perhaps_free()
            if not relay.busy:
                relay.go_on()

    def compare_shown(self, *, opens_snapshot: bool) -> None:
        """MySQL is about to look at tables for the transaction, or has: is its state the one that hits have shown?"""
        shown, shared = self._context.shown, self._shared
        shown.looked = True
        if shown.stage is Stage.FOLLOWS and shown.at_mysql(
            shared.position.sequence(), shared.position.text(), opens_snapshot=opens_snapshot
        ):
            shared.system.count("mixed_snapshots")

    def wrote_unlogged(self, *, schema: bool, cause: str = "sql_log_bin=0") -> None:
        """The session may have changed anything, and the stream will never tell. `schema`: tables, too."""
        self.state.may_be_unlogged = self.state.hides_writes = False
        self._shared.system.written_unlogged(self.state.account, cause=cause, schema=schema)


def _warns(prepared: Outcome) -> bool:
    """Whether the answer to COM_STMT_PREPARE counts warnings."""
    return prepared.payloads[0][10:12] not in (b"", b"\0\0")
