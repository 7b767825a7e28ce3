"""A client's session in the command phase: its parts put together, and what each command does.

 client -> Relay -> QuickPath             -> a hit, from the bytes at hand
                 -> Session -> CachedReads -> a hit, or a miss, or a question first
                            -> PreparedCommands -> one of these, for a prepared statement
                            -> AnsweredHere -> what it asks about itself
                            -> OwnSql      -> a command of Upwell's
                            -> PassThrough -> MySQL -> Responses -> the client (bytes as they came)

What the parts know in common is their `SessionContext`. Each knows those below it only: Session; PreparedCommands;
CachedReads, AnsweredHere and OwnSql; PassThrough; Upstream; Relay; QuickPath; Bounds. The relay knows its session and
the quick path as what they do for it (`Handler`, `Quick`).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import suppress

import structlog

from planner.text.hints import MARK
from proxy.mysql.login.logged_in import LoggedIn
from proxy.mysql.reads.cached_read import CachedRead
from proxy.mysql.reads.gate import NAMED_BY_QUOTES, READ_OTHERWISE, TELLS
from proxy.mysql.reads.routes import NO_CACHE, SKIPPED
from proxy.mysql.session.answered_here import AnsweredHere
from proxy.mysql.session.cached_reads import CachedReads
from proxy.mysql.session.change_user import AccountChange
from proxy.mysql.session.known_texts import Looked
from proxy.mysql.session.own_sql import OwnSql
from proxy.mysql.session.own_transactions import Bounds
from proxy.mysql.session.pass_through import PassThrough
from proxy.mysql.session.prepared_commands import PreparedCommands
from proxy.mysql.session.questions_to_mysql import Asked, FirstQuestions, ask_all, asked_first, learn_first
from proxy.mysql.session.quick_path import QuickPath
from proxy.mysql.session.relay import Relay
from proxy.mysql.session.session_context import context_of
from proxy.mysql.session.shared import Shared
from proxy.mysql.session.traced import TracedPassThrough, TracedReads
from proxy.mysql.session.upstream import Upstream
from proxy.mysql.state.session_rules import untold
from proxy.mysql.text.text_matcher import Steer
from proxy.mysql.wire.bound_values import text_at
from proxy.mysql.wire.packets import (
    COM_BINLOG_DUMP,
    COM_BINLOG_DUMP_GTID,
    COM_CHANGE_USER,
    COM_FIELD_LIST,
    COM_PING,
    COM_QUERY,
    COM_QUIT,
    COM_RESET_CONNECTION,
    COM_SET_OPTION,
    COM_STMT_CLOSE,
    COM_STMT_EXECUTE,
    COM_STMT_FETCH,
    COM_STMT_PREPARE,
    COM_STMT_RESET,
    COM_STMT_SEND_LONG_DATA,
    Malformed,
    error_payload,
    packet,
)
from proxy.mysql.wire.responses import NO_STATUS, Kind, Outcome, nobody_is_told
from proxy.port.reasons import NO_REASON, Reason
from sqltypes.errors import UpwellError

log = structlog.get_logger("upwell.mysql")

MORE = Reason.OTHER.why("MySQL has a result for what stands behind the semicolon, too")
TOLD = MARK.encode()
TOO_LARGE = Reason.OTHER.why("the statement is too large to be looked at")
STATEMENTS_OFF = b"\1\0"
COMMANDS = {COM_QUERY: "a text", COM_STMT_EXECUTE: "an execution", COM_STMT_PREPARE: "a statement to prepare"}


class Session:
    """From login to end. It is its relay's `Handler`, and a `Member` of those that are looked after."""

    def __init__(self, shared: Shared, logged_in: LoggedIn) -> None:
        self.shared = shared
        self.user = logged_in.user
        self.connection_id = logged_in.connection_id
        self.context = context = context_of(shared, logged_in)
        self.state = context.state
        self.statements = context.statements
        bounds = Bounds(context)
        self.quick = QuickPath(context, bounds)
        self.relay = Relay(
            self, self.quick, logged_in,
            largest=shared.options.largest_command, keep_state=self.state.tracks.shown, clock=shared.clock,
        )  # fmt: skip
        self.upstream = Upstream(context, self.relay)
        context.shown.on_first, context.shown.on_end = self.upstream.perhaps_pin, shared.forecast.note
        passing, reads = (PassThrough, CachedReads) if shared.spans is None else (TracedPassThrough, TracedReads)
        self.passing = passing(context, self.relay, self.upstream, bounds)
        self.reads = reads(context, self.relay, self.upstream, self.passing, self.quick)
        self._answered = AnsweredHere(context, self.relay, self.upstream, self.passing, self.connection_id)
        self._own_sql = OwnSql(context, self.relay, self.upstream, self.passing)
        self.prepared = PreparedCommands(
            context, self.relay, self.upstream, self.passing, self.reads, self._answered, self._own_sql, bounds
        )
        self._terms = logged_in.terms
        self._server_capabilities = logged_in.server_capabilities

    # -- beginning and end ---------------------------------------------------------------------------------------------

    def begin(self, logged_in: LoggedIn, first: FirstQuestions | None = None) -> None:
        """Takes the connections over, with what was read beyond the login. `first`: what MySQL has been asked already.
        Raises Lost, Malformed."""
        from_server, from_client = self.relay.take_over(logged_in)
        client = logged_in.client
        asked = None if first is None else asked_first(self.upstream, first)
        self._accepted(logged_in.ok_payload, client.sequence, client.unsent(), asked)
        if from_server:
            self.relay.server.data_received(from_server)
        if from_client:
            self.relay.early(from_client)

    def _accepted(self, ok: bytes, number: int, unsent: bytes = b"", asked: Asked | None = None) -> None:
        """MySQL has let the client in: it is told so at once, by a packet of this number behind what is unsent. Its
        first command waits until MySQL is asked and told what it must be. Raises Malformed."""
        self.relay.client.write(unsent + packet(self.upstream.shown_ok(ok), number))
        self.relay.start(self._first(asked))

    async def _first(self, asked: Asked | None = None) -> None:
        """Asks what the session is like, unless that is done, and learns it."""
        upstream, new = self.upstream, self.shared.new_sessions
        if not self.state.tells:
            await ask_all(upstream)
        else:
            packets = new.first.packets(self.context.capabilities)
            await learn_first(upstream, new, asked or asked_first(upstream, new.first, packets))
        self.relay.commands.limit(self.state.variables.values.get("max_allowed_packet", ""))

    async def outlive(self) -> None:
        self.relay.orphan = True
        await self.upstream.outlive(lambda: self.shared.sessions.orphans.add(self))

    def last_look(self) -> Coroutine[None, None, None] | None:
        return self.upstream.last_look() if self.state.hides_writes and self.upstream.alive else None

    def ending(self) -> None:
        if self.state.variables.unlogged or self.state.hides_writes:  # its last statement may have been done
            self.upstream.wrote_unlogged(schema=True)
        self.shared.sessions.ending(self, self.shared.clock())

    def ended(self) -> None:
        self.passing.ended()
        self.context.shown.release()
        self.shared.sessions.ended(self)

    # -- as who looks after all sessions sees it -----------------------------------------------------------------------

    def ping_server(self) -> None:
        self.upstream.ping()

    def forget_rights(self) -> None:
        """The gate is to ask for them at the next read."""
        self.quick.invalidate()

    def interrupt(self) -> None:
        self.reads.waiting.interrupt()

    # -- commands ------------------------------------------------------------------------------------------------------

    def handle(self, data: bytes) -> None:
        """One command, its packet with the header. Raises Malformed."""
        self.context.active_at = self.shared.now
        if data[3] or len(data) == 4:  # MySQL's error: out of order, or an empty packet
            self._other(data)
            return
        out, state = self.relay.client.out, self.state
        answered = len(out)
        # Whether it may have to wait until the session has been asked what it is like.
        looks = state.tracks.changed or state.asks_first or not (state.known or state.tells)
        try:
            if looks and self.upstream.looks_first(data):
                return
            HANDLERS.get(data[4], Session._other)(self, data)
        except Malformed:
            raise
        except Exception as error:
            if len(self.relay.client.out) != answered or not self._left_to_mysql(data, error):
                log.exception("a command of a session has failed")
                self.relay.close()

    def _left_to_mysql(self, data: bytes, error: Exception) -> bool:
        """A command that could not be understood is passed as it came, where it is one that MySQL answers."""
        command = data[4]
        if self.relay.busy or command not in COMMANDS:
            return False
        why = self.shared.note_fault(COMMANDS[command], error, command=repr(data[:2000]))
        if command == COM_STMT_PREPARE:
            self.upstream.forward(data, Kind.PREPARED, nobody_is_told)
        else:
            self.passing.statement(data, self.shared.texts.large, why)
        return True

    def large(self, data: bytes) -> None:
        """What a command does that is too large to be looked at, MySQL tells."""
        command, relay = data[4], self.relay
        if self.state.tracks.changed:
            untold(self.state)
        if command == COM_STMT_SEND_LONG_DATA:
            self.prepared.note_long_data(data)
            relay.server.send_unanswered(data)
            relay.occupy()  # until all of it is sent
        elif command == COM_STMT_PREPARE:
            self.upstream.forward(data, Kind.PREPARED, nobody_is_told)
        elif command in (COM_QUERY, COM_STMT_EXECUTE):
            statement = self.upstream.executed_by(data)
            if statement is not None:
                statement.bound.types = None
            self.passing.statement(data, self.shared.texts.large, TOO_LARGE)
        elif command == COM_BINLOG_DUMP_GTID:
            self._dump(data)
        else:
            raise Malformed("a command of such a size")
        relay.send_more()

    # -- texts ---------------------------------------------------------------------------------------------------------

    def _query(self, data: bytes) -> None:
        sent = data[5:]
        if self.context.attributes:
            try:
                sent = sent[text_at(sent) :]
            except Malformed as reason:
                self.passing.statement(data, self.shared.texts.large, Reason.OTHER.why(str(reason)))
                return
        state = self.state
        marks = state.variables.marks_of(sent) if state.variables.marks and state.known else b""
        filled = state.variables.as_filled(sent) if marks else sent
        if filled is None:
            self.passing.statement(data, self.shared.texts.large, READ_OTHERWISE)
            return
        at_hand, self.quick.looked = self.quick.looked, None
        if at_hand is not None and at_hand[0] is data:
            looked = at_hand[1]
        else:
            looked = self.shared.texts.find(filled, state, eof=self.context.eof)
        told = TOLD in sent and not looked.route.is_command
        if told or (marks and looked.route.spelled):
            self.passing.statement(data, looked.route, TELLS if told else NAMED_BY_QUOTES)
            return
        self._asked(data, sent, marks, looked)

    def _asked(self, data: bytes, sent: bytes, marks: bytes, looked: Looked) -> None:
        """A text was sent. `marks`: of it, that were read as the session's sql_mode has it."""
        text, entry, values, route, (instead, differing), upto = looked
        shared, database = self.shared, self.state.database
        if route.is_command and self._own_sql.runs(text):
            return
        self.state.asks_first |= route.by_clock and not self.state.known
        more = entry.more and self.passing.several
        if entry.cache is not None and not more and entry.steer is not Steer.SKIP:
            system = shared.system
            clocks = self.state.variables.clocks
            cache = route.opened(system, entry.cache, binary=False, eof=self.context.eof, clocks=clocks)
            read = CachedRead(data, system.caches.version, cache, values, text, database, route, route)
            read.sent, read.marks, read.upto = sent, marks, upto
            read.forced = entry.steer is Steer.FORCE
            why = NO_REASON if cache.moments.clocks is None else read.to_utc()
            if why:
                self.reads.pass_read(read, why)
            else:
                self.reads.look(read)
            return
        if not marks and self.state.variables.marks and self.state.variables.changes_marks(text):
            route = shared.texts.large  # perhaps: for a cached read MySQL would be asked
        why = (differing or NO_CACHE) if entry.cache is None else MORE
        again = entry.cache is None and entry.steer is not Steer.SKIP and not more
        if again and self.context.shown.began and self.reads.says_again(data, sent):
            return
        if route.asks and not more and entry.steer is Steer.NOT and self._answered.look(data, sent, text, route, why):
            return
        if entry.steer is Steer.FORCE:
            self.relay.client.fail(shared.forced(why))
        elif entry.steer is Steer.SKIP:
            self.passing.statement(data, route, SKIPPED)
        elif more or not (route.effects.bounds and self.passing.bound_here(data, route)):
            noted = text if entry.cache is None else None
            self.passing.statement(data, route, why, cache=entry.cache or instead or "", noted=noted)

    # -- other commands ------------------------------------------------------------------------------------------------

    def _quit(self, data: bytes) -> None:
        last = self.last_look()
        if last is None:
            self.relay.server.send_unanswered(data)
            self.relay.close()
        else:
            self.relay.start(self._quit_behind(last, data), leaving=True)

    async def _quit_behind(self, last: Coroutine[None, None, None], data: bytes) -> None:
        with suppress(UpwellError):  # what the session leaves is not known then: `ending` counts that
            await last
        self.relay.server.send_unanswered(data)
        self.relay.close()

    def _ping(self, data: bytes) -> None:
        state, upstream = self.state, self.upstream
        if upstream.alive and state.transaction.begun:
            self.relay.start(upstream.ping_unbegun(data))
        elif upstream.alive:
            vacant = state.transaction.vacant
            upstream.forward(data, Kind.ONE, nobody_is_told)
            state.transaction.vacant = vacant
        else:  # the session still has its hits
            upstream.ok(state.transaction.status)

    def _reset_connection(self, data: bytes) -> None:
        def after(outcome: Outcome) -> None:
            if outcome.status != NO_STATUS:
                self.context.begin_anew()
                self.relay.start(self._first())

        self.upstream.forward(data, Kind.ONE, after)

    def _change_account(self, data: bytes) -> None:
        """COM_CHANGE_USER. Raises Malformed."""
        relay, capabilities = self.relay, self.context.capabilities
        if not self.upstream.alive:
            relay.lose()
            return
        relay.occupy()
        try:
            change = AccountChange(
                relay, data, capabilities, self._server_capabilities, self._terms, self._account_changed
            )
        except Malformed:
            relay.end_with(packet(error_payload(1047, "08S01", "Unknown command"), 1))
            return
        relay.dialogue = change
        relay.client.flush()
        if relay.commands.held:
            change.on_bytes(relay.commands.take())

    def _account_changed(self, change: AccountChange, final: bytes) -> None:
        """MySQL has accepted the account, and begun a new session for it."""
        relay = self.relay
        relay.dialogue = None
        self.user = self.state.login = change.user
        self._terms = change.terms
        if change.left:
            relay.commands.add(change.left)
        self.context.begin_anew()
        self.state.note_rights(login=True)
        self._accepted(final, change.sequence)

    def _set_option(self, data: bytes) -> None:
        passing = self.passing

        def after(outcome: Outcome) -> None:
            passing.several = outcome.error is not None or data[5:] != STATEMENTS_OFF

        passing.several = True
        self.upstream.forward(data, Kind.ONE, after)

    def _field_list(self, data: bytes) -> None:
        self.upstream.forward(data, Kind.ROWS, nobody_is_told)

    def _dump(self, data: bytes) -> None:
        self.upstream.forward(data, Kind.ENDLESS, nobody_is_told)

    def _other(self, data: bytes) -> None:
        self.upstream.forward(data, Kind.ONE, nobody_is_told)


HANDLERS: dict[int, Callable[[Session, bytes], None]] = {
    COM_QUERY: Session._query,
    COM_STMT_PREPARE: lambda session, data: session.prepared.prepare(data),
    COM_STMT_EXECUTE: lambda session, data: session.prepared.execute(data),
    COM_STMT_CLOSE: lambda session, data: session.prepared.close(data),
    COM_STMT_SEND_LONG_DATA: lambda session, data: session.prepared.long_data(data),
    COM_STMT_RESET: lambda session, data: session.prepared.reset(data),
    COM_STMT_FETCH: lambda session, data: session.prepared.fetch(data),
    COM_FIELD_LIST: Session._field_list,
    COM_QUIT: Session._quit,
    COM_PING: Session._ping,
    COM_RESET_CONNECTION: Session._reset_connection,
    COM_SET_OPTION: Session._set_option,
    COM_CHANGE_USER: Session._change_account,
    COM_BINLOG_DUMP: Session._dump,
    COM_BINLOG_DUMP_GTID: Session._dump,
}
