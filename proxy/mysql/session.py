"""What each command of a client's session does.

bytes -> Commands -> handle -> a read of a cache     -> Cache.hit -> head + body                (no await, no task)
                            -> Upwell's own SQL      -> run_command -> a result set
                            -> anything else         -> ServerWire -> Responses -> the client   (bytes as they came)
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns
from typing import TYPE_CHECKING

from proxy.mysql.cached_read import CachedRead
from proxy.mysql.cached_reads import OF_ANOTHER_STATE, VISIBLE_SOON
from proxy.mysql.executions import Executions
from proxy.mysql.own_sql import OwnSql
from proxy.mysql.packets import (
    CLIENT_MULTI_STATEMENTS,
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
    packet,
)
from proxy.mysql.prepared import MOST_UNSEEN, PreparedStatement, text_at
from proxy.mysql.reads import ends_here
from proxy.mysql.responses import NO_STATUS, Exchange, Kind, Outcome, nobody_is_told
from proxy.mysql.routes import NO_CACHE, SKIPPED, Route
from proxy.mysql.session_base import SessionBase, log
from proxy.mysql.session_rules import Passing, ends_shown, follow
from proxy.mysql.shown import Stage
from proxy.mysql.statement_kind import Kind as StatementKind
from proxy.mysql.texts import Steer
from proxy.mysql.trackers import DEADLOCK, begin, refresh

if TYPE_CHECKING:
    from proxy.mysql.handshake import LoggedIn
    from proxy.mysql.listener import Shared

MAY_BE_CACHED = (StatementKind.READ, StatementKind.OTHER)
MORE = "MySQL has a result for what stands behind the semicolon, too"
STATEMENTS_OFF = b"\1\0"
ENDED_HERE = "nothing of the transaction has reached MySQL"
COMMANDS = {COM_QUERY: "a text", COM_STMT_EXECUTE: "an execution", COM_STMT_PREPARE: "a statement to prepare"}
RECENT = 1.0
"""Seconds after which a transaction that the stream brought is visible at MySQL, as far as nothing is asked."""


class Session(OwnSql):
    """A client's session in the command phase."""

    def __init__(self, shared: Shared, logged_in: LoggedIn) -> None:
        super().__init__(shared, logged_in)
        self._passing = Passing(shared.large, None, False, True, 0)  # the statement that MySQL is answering
        self._executed: PreparedStatement | None = None  # which one that is
        self._executions = Executions(shared, eof=self.eof)
        self.several = bool(self.capabilities & CLIENT_MULTI_STATEMENTS)  # a text may hold several statements
        self._passed_exchange = Exchange(Kind.RESULT, self._passed)

    def _ended(self) -> None:
        super()._ended()
        self._passed_exchange.done = nobody_is_told  # no cycle stays behind

    def handle(self, data: bytes) -> None:
        """One command, its packet with the header. Raises Malformed."""
        self.active_at = self.shared.now
        self.heads.hot.clear()
        if data[3] or len(data) == 4:  # MySQL's error: out of order, or an empty packet
            self._other(data)
            return
        answered = len(self._out)
        try:
            HANDLERS.get(data[4], Session._other)(self, data)
        except Malformed:
            raise
        except Exception as error:  # noqa: BLE001 - an edge: MySQL answers, or it is logged and ends the session
            if len(self._out) != answered or not self._left_to_mysql(data, error):
                log.exception("a command of a session has failed")
                self.close()

    def _left_to_mysql(self, data: bytes, error: Exception) -> bool:
        """A command that could not be understood is passed as it came, where it is one that MySQL answers."""
        command = data[4]
        if self._busy or command not in (COM_QUERY, COM_STMT_EXECUTE, COM_STMT_PREPARE):
            return False
        why = self.shared.note_fault(COMMANDS[command], error, command=repr(data[:2000]))
        if command == COM_STMT_PREPARE:
            self.forward(data, Kind.PREPARED, _nothing)
        else:
            self.pass_statement(data, self.shared.large, why)
        return True

    # -- texts -----------------------------------------------------------------------------------------------------

    def _query(self, data: bytes) -> None:
        text = data[5:]
        if self.attributes:
            try:
                text = text[text_at(text) :]
            except Malformed as reason:
                self.pass_statement(data, self.shared.large, str(reason))
                return
        entry, values = self.shared.texts.find(text, self.state.database)
        route = entry.attached or self.shared.attach(entry, text, self.state.database)
        if route.is_command and self._command(text):
            return
        more = entry.more and self.several
        if entry.cache is None or more or entry.steer is Steer.SKIP:
            why = NO_CACHE if entry.cache is None else MORE
            again = why is NO_CACHE and entry.steer is not Steer.SKIP and not more
            if again and self.says_again(data, text):
                return
            if entry.steer is Steer.FORCE:
                self.fail_command(self.shared.forced(why))
            elif entry.steer is Steer.SKIP:
                self.pass_statement(data, route, SKIPPED)
            elif more or not (route.ends_only and ends_here(self.state)):
                noted = text if entry.cache is None else None
                self.pass_statement(data, route, why, cache=entry.cache or "", noted=noted)
            else:
                self._end_here(data)
            return
        system = self.shared.system
        cache = route.opened(system, entry.cache, binary=False, eof=self.eof)
        forced = entry.steer is Steer.FORCE
        database = self.state.database
        self.look(CachedRead(data, system.caches_version, cache, values, text, database, route, route, forced=forced))

    def pass_read(self, read: CachedRead, why: str) -> None:
        statement = read.kind if isinstance(read.kind, PreparedStatement) else None
        if why in OF_ANOTHER_STATE and self.says_again(read.data, read.text, statement, read.given):
            return
        if read.forced:
            self.fail_command(self.shared.forced(why))
            return
        self.pass_statement(read.data, read.route, why, cache=read.cache.name, read=read)

    # -- passing through -----------------------------------------------------------------------------------------------

    def pass_statement(
        self,
        data: bytes,
        route: Route,
        why: str,
        *,
        cache: str = "",
        noted: bytes | None = None,
        read: CachedRead | None = None,
    ) -> None:
        """MySQL answers a statement, in the client's own session. `noted`: the text of one that no cache is for.
        `read`: of one that a cache is for."""
        if not self.server.alive:
            self._lost()
            return
        if not route.bounds:
            self.begin_at_mysql()
        if self.shown.answers or self.last_hit.asked_by(route):
            self._before(route)
        self._executed = self._executed_by(data)
        if self._executed is not None:
            data = self.for_mysql(data)
        elif route.resolves:
            # What runs ahead would be the last statement that this one asks about, or the one transaction that was set,
            # or would open the snapshot of a transaction that has not read yet.
            state = self.state
            begins = state.transactional and not state.touched
            hidden = route.statement.of_last or state.one_shot != "" or begins
            for statement in self.statements.values():
                if hidden:
                    statement.resolve_unshown()
                else:
                    self._show_owed(statement)
                if route.recodes:
                    statement.recode()
        state = self.state
        values = None if read is None else read.values
        self._passing = Passing(
            route, noted, state.transactional, state.autocommit, perf_counter_ns(), cache, values, why
        )
        state.vacant = False
        # A text too large to be looked at, or one whose cache is being planned again, may be a cached read.
        shared = self.shared
        state.passed |= cache != "" or route is shared.large or (why is NO_CACHE and shared.system.rebuilding())
        self.last = "passed", cache, why, ""
        self.quick_cache = None
        shared.passed += 1
        if self._out:
            self._flush()
        self._busy = True
        if self.heads:
            self.heads.clear()
        self.server_used_at = self.active_at
        if read is None or read.announced is None:
            self.server.send(data, self._passed_exchange)
        else:
            self.server.send(data, self.watched(read, self._passed))

    def _passed(self, outcome: Outcome) -> None:
        """MySQL has answered the statement."""
        self._busy = False
        state, passing = self.state, self._passing
        route, failed = passing.route, outcome.status == NO_STATUS
        if self._executed is not None:
            self._executed.failed = failed
        if state.token and outcome.state:
            self.lacks_own_writes()  # or they would gather in a session that never reads
        follow(state, passing, outcome)
        if passing.noted is not None and route.noted is not None:
            route.noted.note((perf_counter_ns() - passing.sent) / 1000, state.account, passing.noted)
        elif passing.cache and (note := self.shared.on_passed) is not None and not failed:
            note(passing.cache, passing.values, passing.why, (perf_counter_ns() - passing.sent) / 1000)
        if self.shown.answers:
            if ends_shown(state, passing, failed=failed):
                self.shown.clear()
            elif route.touches:
                self._compare_shown(opens_snapshot=route.opens_snapshot and not failed)
        self.last_hit.passed(route, failed=failed, several=self.several)
        if (state.may_be_unlogged or state.unlogged) and (route.locks or route.bounds):
            self.wrote_unlogged(schema=route.statement.kind is not StatementKind.WRITE)
        self.ended_exchange()

    def _end_here(self, data: bytes) -> None:
        """COMMIT and ROLLBACK of a transaction of hits alone: MySQL has seen nothing of it."""
        self.shown.clear()
        self.last_hit.ended_here(data)
        self.quick_cache = None
        self.last = "answered", "", ENDED_HERE, ""
        self.shared.system.count("empty_transactions")
        self.state.begun = 0
        self.ok(self.state.status)

    def _before(self, route: Route) -> None:
        """What MySQL must do first, unseen by the client, so that the statement finds what it would find without
        Upwell."""
        hit = self.last_hit
        if hit.command and self.shared.seconds_since_change() < RECENT:
            position = self.shared.position()
            self.server.send(
                self.query(f"DO WAIT_FOR_EXECUTED_GTID_SET('{position}', {VISIBLE_SOON})"), self.unseen(_nothing)
            )
        found = ""
        if route.statement.of_found:
            executed = self._executed_by(hit.command) if hit.command else None
            found = hit.found_text(hit.command if executed is None else executed.text)
        replays = route.statement.of_last and hit.command != b"" and not found
        if found:
            self.server.send(self.query(found), self.unseen(_nothing))
        elif replays:
            self.server.send(self.for_mysql(hit.command), self.unseen(self._replayed))
        hit.command = b""
        if replays or route.touches:
            self._compare_shown(opens_snapshot=replays)

    def for_mysql(self, data: bytes) -> bytes:
        """A command, the hits before which MySQL has not seen. Shows it those by whose types it goes on comparing."""
        statement = self._executed_by(data)
        if statement is None:
            return data
        self._show_owed(statement, data)
        return statement.for_mysql(data)

    def _show_owed(self, statement: PreparedStatement, data: bytes = b"") -> bool:
        """Whether there is any."""
        owed = statement.owed(data)
        if owed:
            self._compare_shown(opens_snapshot=True)
        for execution in owed:
            self.server.send(execution, self.unseen(self._replayed))
        return bool(owed)

    def _show_now(self, statement: PreparedStatement) -> None:
        """As `_show_owed`, with no command behind it that MySQL answers. The next one waits."""
        if self.server.alive and self._show_owed(statement):
            self._busy = True
            self.heads.clear()

    def _replayed(self, outcome: Outcome) -> None:
        self.state.touched |= self.state.in_transaction
        if outcome.error is not None and outcome.error.errno == DEADLOCK:
            self._lost()  # the client is answered the statement behind it, and would not know
        if self._busy:
            self._perhaps_free()
            if not self._busy:
                self._go_on()

    def _compare_shown(self, *, opens_snapshot: bool) -> None:
        """MySQL is about to look at tables for the transaction, or has: is its state the one that hits have shown?"""
        shown, shared = self.shown, self.shared
        if shown.stage is Stage.FOLLOWS and shown.at_mysql(
            shared.sequence(), shared.position(), opens_snapshot=opens_snapshot
        ):
            shared.system.count("mixed_snapshots")

    def _statement_of(self, data: bytes) -> PreparedStatement | None:
        """The prepared statement that a command is about."""
        return self.statements.get(data[5:9])

    def _executed_by(self, data: bytes) -> PreparedStatement | None:
        """The one that a command executes, if it does."""
        return self.statements.get(data[5:9]) if data[4] == COM_STMT_EXECUTE else None

    # -- prepared statements -------------------------------------------------------------------------------------------

    def _prepare(self, data: bytes) -> None:
        if self.state.known or not self.server.alive or not self._reads(data[5:]):
            self._send_prepare(data)
        else:  # MySQL resolves a text once, by the variables of now
            self._start(self._prepare_known(data))

    def _reads(self, text: bytes) -> bool:
        return self.shared.route(text, self.state.database).statement.kind in MAY_BE_CACHED

    async def _prepare_known(self, data: bytes) -> None:
        await refresh(self)
        self._send_prepare(data)

    def _send_prepare(self, data: bytes) -> None:
        text, database = data[5:], self.state.database
        differed = self.state.differences(text)
        announced = (self.state.announces, self.shared.system.caches_version)

        def after(outcome: Outcome) -> None:
            if outcome.error is not None:
                return
            statement = PreparedStatement(text, database, outcome.payloads, attributes=self.attributes)
            statement.differed = differed
            if self.state.known:
                statement.announced = announced
            self.statements[statement.id] = statement

        self.forward(data, Kind.PREPARED, after)

    def _execute(self, data: bytes) -> None:
        statement = self._statement_of(data)
        if statement is None or len(data) < 14:
            self.pass_statement(data, self.shared.large, "the prepared statement is not known here")
            return
        asked = self._executions.look(statement, data, again=bool(self.shown.said))
        target, why, given, text = asked.target, asked.why, asked.given, statement.text
        route, cache = target.route, target.cache
        if asked.values is None or cache is None:
            if why == NO_CACHE and not statement.failed and self.says_again(data, text, statement, given):
                return
            if target.forced:
                self._refuse(statement, why)
                return
            name, noted = cache.name if cache is not None else "", text if why == NO_CACHE else None
            self.pass_statement(data, route, why, cache=name, noted=noted)
            return
        read = CachedRead(
            data, target.version, cache, asked.values, text, statement.database, route, statement, target, given
        )
        read.forced = target.forced
        self.look(read)

    def _refuse(self, statement: PreparedStatement, why: str) -> None:
        """An execution that must be a hit."""
        if len(statement.unseen) > MOST_UNSEEN:
            self._show_now(statement)  # or each execution would be refused from now on
        self.fail_command(self.shared.forced(why))

    def _close_statement(self, data: bytes) -> None:
        self.statements.pop(data[5:9], None)
        self.send_unanswered(data)

    def _long_data(self, data: bytes) -> None:
        self._note_long_data(data)
        self.send_unanswered(data)

    def _note_long_data(self, data: bytes) -> None:
        statement = self._statement_of(data)
        if statement is not None:
            self._show_now(statement)  # an execution would take the pieces
            statement.long_data = True

    def _reset_statement(self, data: bytes) -> None:
        statement = self._statement_of(data)
        if statement is not None:
            statement.long_data = statement.cursor = statement.closed = False
        self.forward(data, Kind.ONE, _nothing)

    # -- other commands ------------------------------------------------------------------------------------------------

    def _quit(self, data: bytes) -> None:
        if self.server.alive:
            self.server.write(data)
        self.close()

    def _ping(self, data: bytes) -> None:
        if self.server.alive and self.state.begun:
            self._start(self.ping_unbegun(data))
        elif self.server.alive:
            vacant = self.state.vacant
            self.forward(data, Kind.ONE, _nothing)
            self.state.vacant = vacant
        else:  # the session still has its hits
            self.ok(self.state.status)

    def _reset_connection(self, data: bytes) -> None:
        def after(outcome: Outcome) -> None:
            if outcome.status != NO_STATUS:
                self.begin_anew()
                self._start(begin(self, self.shared.new_sessions))

        self.forward(data, Kind.ONE, after)

    def begin_anew(self) -> None:
        """MySQL has begun a new session on this connection."""
        self.statements.clear()
        self.shown.clear()
        self.last_hit.begun_anew()
        self.state.renew()

    def _set_option(self, data: bytes) -> None:
        def after(outcome: Outcome) -> None:
            self.several = outcome.error is not None or data[5:] != STATEMENTS_OFF

        self.several = True
        self.forward(data, Kind.ONE, after)

    def _field_list(self, data: bytes) -> None:
        self.forward(data, Kind.ROWS, _nothing)

    def _fetch(self, data: bytes) -> None:
        statement = self._statement_of(data)
        if statement is not None and statement.closed and self.server.alive:
            self.server.send(packet(bytes((COM_STMT_RESET,)) + statement.id, 0), self.unseen(_nothing))
            statement.cursor = statement.closed = False
        self.forward(data, Kind.ROWS, _nothing)

    def _dump(self, data: bytes) -> None:
        self.forward(data, Kind.ENDLESS, _nothing)

    def _other(self, data: bytes) -> None:
        self.forward(data, Kind.ONE, _nothing)

    def _large(self, data: bytes) -> None:
        """A command too large to be looked at: what it does, MySQL tells."""
        command = data[4]
        if command == COM_STMT_SEND_LONG_DATA:
            self._note_long_data(data)
            self.send_unanswered(data)
            self._busy = True  # until all of it is sent
        elif command == COM_STMT_PREPARE:
            self.forward(data, Kind.PREPARED, _nothing)
        elif command in (COM_QUERY, COM_STMT_EXECUTE):
            statement = self._executed_by(data)
            if statement is not None:
                statement.types = None
            self.pass_statement(data, self.shared.large, "the statement is too large to be looked at")
        elif command == COM_BINLOG_DUMP_GTID:
            self._dump(data)
        else:
            raise Malformed("a command of such a size")
        self._send_more()


def _nothing(outcome: Outcome) -> None:
    pass


HANDLERS: dict[int, Callable[[Session, bytes], None]] = {
    COM_QUERY: Session._query,
    COM_STMT_PREPARE: Session._prepare,
    COM_STMT_EXECUTE: Session._execute,
    COM_STMT_CLOSE: Session._close_statement,
    COM_STMT_SEND_LONG_DATA: Session._long_data,
    COM_STMT_RESET: Session._reset_statement,
    COM_STMT_FETCH: Session._fetch,
    COM_FIELD_LIST: Session._field_list,
    COM_QUIT: Session._quit,
    COM_PING: Session._ping,
    COM_RESET_CONNECTION: Session._reset_connection,
    COM_SET_OPTION: Session._set_option,
    COM_CHANGE_USER: SessionBase.change_account,
    COM_BINLOG_DUMP: Session._dump,
    COM_BINLOG_DUMP_GTID: Session._dump,
}
