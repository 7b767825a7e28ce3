"""Upwell's own SQL in a client's session: CREATE CACHE, SHOW CACHES, EXPLAIN LAST STATEMENT and their like."""

from __future__ import annotations

from proxy.mysql.commands import Command, Done, LastStatement, recognise
from proxy.mysql.packets import COM_STMT_CLOSE, COM_STMT_PREPARE, packet
from proxy.mysql.quick_hits import QuickHits
from proxy.mysql.responses import Kind
from proxy.mysql.result_set import text_result
from proxy.mysql.run_command import run
from proxy.mysql.trackers import refresh
from sqltypes.errors import SourceError


class OwnSql(QuickHits):
    """Runs a statement that is Upwell's, not MySQL's, with the rights of the session's account."""

    def _command(self, text: bytes) -> bool:
        command = recognise(text.decode("utf-8", "replace"))
        if command is None:
            return False
        self._start(self._run_command(command))
        return True

    async def _run_command(self, command: Command) -> None:
        if not self.state.known and self.server.alive:
            await refresh(self)
        result = await run(command, self.shared.system, self)
        if isinstance(result, Done):
            self.ok(self.state.status, result.info)
        else:
            self.answer(await text_result(result.columns, result.rows, eof=self.eof, status=self.state.status))

    @property
    def account(self) -> str:
        return self.state.account

    @property
    def is_admin(self) -> bool:
        return self.shared.is_admin(self.state.account)

    @property
    def database(self) -> str:
        return self.state.database

    @property
    def last_statement(self) -> LastStatement | None:
        cache = self.quick_cache
        if cache is not None:
            return LastStatement("hit", cache.name, "", self.shared.system.position_at(self.quick_moment))
        return LastStatement(*self.last) if self.last is not None else None

    async def may_read(self, sql: str, database: str) -> None:
        """Raises MySQL's own error where the account may not run this SELECT."""
        outcome = await self.server.ask(packet(bytes((COM_STMT_PREPARE,)) + sql.encode(), 0), Kind.PREPARED)
        if outcome.error is not None:
            raise SourceError(outcome.error.errno, outcome.error.sqlstate, outcome.error.message)
        self.send_unanswered(packet(bytes((COM_STMT_CLOSE,)) + outcome.payloads[0][1:5], 0))
