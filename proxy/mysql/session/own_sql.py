"""Upwell's own SQL in a client's session: CREATE CACHE, SHOW CACHES, EXPLAIN LAST STATEMENT and their like."""

from __future__ import annotations

from dataclasses import replace

from proxy.auto.passed_reads import ProxiedQueries
from proxy.mysql.reads.routes import NO_CACHE
from proxy.mysql.session.pass_through import PassThrough
from proxy.mysql.session.relay import Relay
from proxy.mysql.session.run_command import columns_of, run
from proxy.mysql.session.session_context import SessionContext
from proxy.mysql.session.upstream import Upstream
from proxy.mysql.text.own_sql_syntax import (
    Command,
    Done,
    ExplainLastStatement,
    LastStatement,
    may_be_command,
    recognise,
)
from proxy.mysql.text.statement_kind import Kind
from proxy.mysql.wire.packets import end_payload, error_payload, packet
from proxy.mysql.wire.result_set import definitions_of, result
from sqltypes.errors import ParseError, SourceError

FIRST_ID = 1 << 31  # of prepared statements that are Upwell's: MySQL counts its own from 1
MOST = 10_000  # of them in one session


class OwnSql:
    """Runs statements that are Upwell's, not MySQL's, with the rights of the session's account. It is the `SessionView`
    of those."""

    def __init__(self, context: SessionContext, relay: Relay, upstream: Upstream, passing: PassThrough) -> None:
        self._context = context
        self._passing = passing
        self._shared = context.shared
        self._relay = relay
        self._upstream = upstream
        self._number = 0  # of statements prepared so far

    def runs(self, text: bytes) -> bool:
        """Whether the text is Upwell's; then a task runs it, or the client is told what would be accepted."""
        try:
            command = recognise(text.decode("utf-8", "replace"))
        except ParseError as error:
            self._relay.client.fail(error)
            return True
        if command is None:
            return False
        self._relay.start(self._run(command, binary=False))
        return True

    async def _run(self, command: Command, *, binary: bool) -> None:
        state, eof = self._context.state, self._context.eof
        # What tells of the last statement leaves the session as that has left it.
        if not (state.known or isinstance(command, ExplainLastStatement)) and self._upstream.alive:
            await self._upstream.refresh()
        found = await run(command, self._shared.system, self)
        if isinstance(found, Done):
            self._upstream.ok(state.transaction.status, found.info)
        else:
            self._relay.client.answer(
                await result(found.columns, found.rows, eof=eof, status=state.transaction.status, binary=binary)
            )

    # -- prepared ------------------------------------------------------------------------------------------------------

    def prepares(self, text: bytes) -> bool:
        """Whether the text is Upwell's; then it is prepared here, and MySQL knows nothing of it. The `?` of a cache's
        query are no parameters of the statement."""
        try:
            command = recognise(text.decode("utf-8", "replace")) if may_be_command(text) else None
        except ParseError as error:
            self._relay.client.fail(error)
            return True
        if command is None:
            return False
        own, eof = self._context.own, self._context.eof
        if len(own) >= MOST:
            self._relay.client.answer(packet(error_payload(1461, "42000", f"more than {MOST} prepared statements"), 1))
            return True
        self._number += 1
        id_ = (FIRST_ID | self._number & FIRST_ID - 1).to_bytes(4, "little")
        own[id_] = command
        payloads = definitions_of(columns_of(command))
        head = b"\0" + id_ + len(payloads).to_bytes(2, "little") + bytes(5)
        end = [end_payload(self._context.state.transaction.status, deprecate_eof=False)] if payloads and eof else []
        packets = (packet(payload, number) for number, payload in enumerate((head, *payloads, *end), 1))
        self._relay.client.answer(b"".join(packets))
        return True

    def executes(self, data: bytes) -> bool:
        """Whether a COM_STMT_EXECUTE is of such a statement; then a task runs it."""
        command = self._context.own.get(data[5:9])
        if command is None:
            return False
        self._relay.start(self._run(command, binary=True))
        return True

    def closes(self, data: bytes) -> bool:
        """Whether a COM_STMT_CLOSE is of such a statement; then that is forgotten."""
        return self._context.own.pop(data[5:9], None) is not None

    def has(self, data: bytes) -> bool:
        """Whether another command is about such a statement."""
        return data[5:9] in self._context.own

    # -- as a `SessionView` --------------------------------------------------------------------------------------------

    @property
    def proxied(self) -> ProxiedQueries:
        return self._shared.proxied

    @property
    def account(self) -> str:
        return self._context.state.account

    @property
    def is_admin(self) -> bool:
        return self._shared.is_admin(self._context.state.account)

    @property
    def database(self) -> str:
        return self._context.state.database

    @property
    def speaks(self) -> str:
        return "MySQL" if self._shared.positions is None else "vtgate"

    @property
    def last_statement(self) -> LastStatement | None:
        last = self._context.last_statement
        if last is None or last.reason != NO_CACHE:
            return last
        sql, kind = self._passing.last_noted
        return replace(last, sql=sql if kind is Kind.READ else "", locks=kind is Kind.LOCKING_READ)

    async def may_read(self, sql: str, database: str) -> None:
        """Raises MySQL's own error where the account may not run this SELECT."""
        outcome = await self._upstream.prepare(sql.encode())
        if outcome.error is not None:
            raise SourceError(outcome.error.errno, outcome.error.sqlstate, outcome.error.message)
