"""The commands about prepared statements: COM_STMT_PREPARE, _EXECUTE, _CLOSE, _SEND_LONG_DATA, _RESET and _FETCH."""

from __future__ import annotations

from proxy.mysql.reads.cached_read import CachedRead
from proxy.mysql.reads.gate import READ_OTHERWISE
from proxy.mysql.reads.prepared_statement import PreparedStatement
from proxy.mysql.reads.routes import NO_CACHE
from proxy.mysql.session.answered_here import AnsweredHere
from proxy.mysql.session.cached_reads import CachedReads
from proxy.mysql.session.executions import Executions
from proxy.mysql.session.own_sql import OwnSql
from proxy.mysql.session.own_transactions import Bounds
from proxy.mysql.session.pass_through import PassThrough
from proxy.mysql.session.relay import Relay
from proxy.mysql.session.session_context import SessionContext
from proxy.mysql.session.upstream import Upstream
from proxy.mysql.text.statement_kind import Kind as StatementKind
from proxy.mysql.wire.responses import Kind, Outcome, nobody_is_told
from proxy.port.reasons import Reason

MAY_BE_CACHED = (StatementKind.READ, StatementKind.OTHER)

UNKNOWN = Reason.OTHER.why("the prepared statement is not known here")


class PreparedCommands:
    """Of one session. Each method takes a command, its packet with the header."""

    def __init__(
        self,
        context: SessionContext,
        relay: Relay,
        upstream: Upstream,
        passing: PassThrough,
        reads: CachedReads,
        answered: AnsweredHere,
        own_sql: OwnSql,
        bounds: Bounds,
    ) -> None:
        self._context = context
        self._shared = context.shared
        self._state = context.state
        self._statements = context.statements
        self._relay = relay
        self._upstream = upstream
        self._passing = passing
        self._reads = reads
        self._answered = answered
        self._own_sql = own_sql
        self._bounds = bounds
        self._executions = Executions(context.shared, context.state, eof=context.eof)

    def prepare(self, data: bytes) -> None:
        if self._own_sql.prepares(data[5:]):
            return
        resolved = self._state.known or not self._upstream.alive or not self._may_read(data[5:])
        if resolved or self._upstream.asks_of_last(data):  # which would be told of what we ask
            self._send_prepare(data)
        else:  # MySQL resolves a text once, by the variables of now
            self._relay.start(self._prepare_known(data))

    def _may_read(self, text: bytes) -> bool:
        """Whether it may be a read."""
        kind = self._shared.texts.route(text, self._state.database).statement.kind
        return kind in MAY_BE_CACHED or self._state.variables.changes_marks(text)

    async def _prepare_known(self, data: bytes) -> None:
        await self._upstream.refresh()
        self._send_prepare(data)

    def _send_prepare(self, data: bytes) -> None:
        sent, database, attributes = data[5:], self._state.database, self._context.attributes
        variables = self._state.variables
        marks = variables.marks_of(sent) if self._state.known else b""
        filled = variables.as_filled(sent) if marks or not variables.changes_marks(sent) else None
        text = sent if filled is None else filled
        misread = filled is None or (marks != b"" and self._shared.texts.route(text, database).spelled)
        differed = variables.differences(sent)
        announced = (variables.announces, self._shared.system.caches.version)
        hint, settings = self._state.hint, self._state.settings if self._state.known else None

        def after(outcome: Outcome) -> None:
            if outcome.error is not None:
                return
            statement = PreparedStatement(text, database, outcome.payloads, attributes=attributes)
            statement.sent, statement.marks, statement.misread = sent, marks, misread
            statement.differed, statement.hint, statement.settings = differed, hint, settings
            if self._state.known:
                statement.announced = announced
            self._answered.prepared(statement)
            self._statements[statement.id] = statement

        self._upstream.forward(data, Kind.PREPARED, after)

    def execute(self, data: bytes) -> None:
        statement, state = self._statements.get(data[5:9]), self._state
        if statement is None and self._own_sql.executes(data):
            return
        if statement is None or len(data) < 14:
            self._passing.statement(data, self._shared.texts.large, UNKNOWN)
            return
        variables = state.variables
        marks = variables.marks_of(statement.sent) if variables.marks else b""
        if statement.misread or (state.known and marks != statement.marks):
            statement.bound.types = None
            self._passing.statement(data, self._shared.texts.large, READ_OTHERWISE)
            return
        state.asks_first |= not state.known and self._shared.texts.route(statement.text, statement.database).by_clock
        again = self._context.shown.began != ""
        asked = self._executions.look(statement, data, again=again)
        target, why, given, text = asked.target, asked.why, asked.given, statement.text
        route, cache = target.route, target.cache
        if asked.values is not None and cache is not None:
            read = CachedRead(
                data, target.version, cache, asked.values, text, statement.database, route, statement, target, given
            )
            read.sent, read.marks, read.forced = statement.sent, statement.marks, target.forced
            self._reads.look(read)
            return
        none = why is NO_CACHE
        if none and again and not statement.failed and self._reads.says_again(data, text, statement, given):
            return
        asks = none and statement.asked_as is not None and not target.forced
        if asks and self._answered.look_execution(statement, data, route, why):
            return
        if target.forced:
            self._relay.client.fail(self._shared.forced(why))
            return
        if marks != statement.marks:
            route = self._shared.texts.large
        none &= not statement.bound.turned  # else no cache would have its executions
        if none and not statement.parameters and self._passing.bound_here(data, route):
            return
        name, noted = cache.name if cache is not None else "", target.text if none else None
        self._passing.statement(data, route, why, cache=name, noted=noted)

    def close(self, data: bytes) -> None:
        self._statements.pop(data[5:9], None)
        self._bounds.forget()
        if not self._own_sql.closes(data):
            self._relay.server.send_unanswered(data)

    def long_data(self, data: bytes) -> None:
        if self._own_sql.has(data):  # they have no parameters, and nobody answers this
            return
        self.note_long_data(data)
        self._relay.server.send_unanswered(data)

    def note_long_data(self, data: bytes) -> None:
        statement = self._upstream.statement_of(data)
        if statement is not None:
            self._bounds.forget()
            self._upstream.show_now(statement)  # an execution would take the pieces
            statement.bound.note_pieces()

    def reset(self, data: bytes) -> None:
        if self._own_sql.has(data):
            self._upstream.ok(self._state.transaction.status)
            return
        self._upstream.forward(data, Kind.ONE, nobody_is_told)

    def fetch(self, data: bytes) -> None:
        self._upstream.forward(data, Kind.ROWS, nobody_is_told)
