"""Upwell's own SQL in a client's session: CREATE CACHE, SHOW CACHES, EXPLAIN LAST STATEMENT and their like."""

from __future__ import annotations

from proxy.mysql.commands import Command, Done, LastStatement, recognise
from proxy.mysql.relay import Relay
from proxy.mysql.result_set import text_result
from proxy.mysql.run_command import run
from proxy.mysql.session_context import SessionContext
from proxy.mysql.upstream import Upstream
from sqltypes.errors import SourceError


class OwnSql:
    """Runs statements that are Upwell's, not MySQL's, with the rights of the session's account. It is the `SessionView`
    of those."""

    def __init__(self, context: SessionContext, relay: Relay, upstream: Upstream) -> None:
        self._context = context
        self._shared = context.shared
        self._relay = relay
        self._upstream = upstream

    def runs(self, text: bytes) -> bool:
        """Whether the text is Upwell's; then a task runs it."""
        command = recognise(text.decode("utf-8", "replace"))
        if command is None:
            return False
        self._relay.start(self._run(command))
        return True

    async def _run(self, command: Command) -> None:
        state = self._context.state
        if not state.known and self._upstream.alive:
            await self._upstream.refresh()
        result = await run(command, self._shared.system, self)
        if isinstance(result, Done):
            self._upstream.ok(state.status, result.info)
        else:
            self._relay.answer(
                await text_result(result.columns, result.rows, eof=self._context.eof, status=state.status)
            )

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
    def last_statement(self) -> LastStatement | None:
        return self._context.last_statement

    async def may_read(self, sql: str, database: str) -> None:
        """Raises MySQL's own error where the account may not run this SELECT."""
        outcome = await self._upstream.prepare(sql.encode())
        if outcome.error is not None:
            raise SourceError(outcome.error.errno, outcome.error.sqlstate, outcome.error.message)
