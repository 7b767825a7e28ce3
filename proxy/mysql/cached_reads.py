"""Reads of a session that a cache may answer: whether, by which rule, and what must be asked first.

read -> gate -> "" : Cache.hit -> head + body, at once      -> a hole: Cache.fill, a task -> head + body
             -> a reason : MySQL answers, in the client's own session
             -> something to be asked or waited for first, a task; then the command is looked at again

What a session is shown does not go back in time, but for one case: a hit may be older than what MySQL itself has
answered before, by as much as the stream lags. Hits are at the position; where misses and hits ahead of it have shown
more (`SessionState.shown`), the next answers must have that too, or are MySQL's; before MySQL answers after hits, it
waits for what they have shown (`Session._before`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass

from gtid_tracker.gtid import GtidSet
from proxy.api import Answer, ParameterValue, Served, SessionCache
from proxy.mysql.grants import NO_RIGHT, OTHER_COLUMNS, announce
from proxy.mysql.packets import COM_STMT_CLOSE, COM_STMT_PREPARE, packet
from proxy.mysql.prepared import PreparedStatement
from proxy.mysql.reads import COMMITTED, hit_rule, refusal, transaction_rule
from proxy.mysql.responses import Kind
from proxy.mysql.routes import Route
from proxy.mysql.rows import head, with_status
from proxy.mysql.session_base import SessionBase
from proxy.mysql.trackers import forget_lost, hidden_table, refresh, unless_ended
from sqltypes.errors import DeadlinePassed, Overloaded, SourceDown, SourceError, UnknownCache, UpwellError

NOTHING = GtidSet.empty()
PLAIN_STATUS = 2  # autocommit, and in no transaction: what stored answers end with
VISIBLE_SOON = 0.05
"""Seconds that MySQL may take to show what hits have shown already, and the stream to bring what misses have shown."""
ASK_AGAIN = 1.0  # seconds from one question whether what was shown still comes to the next
PATIENT = 0.1  # seconds that a transaction with tables open at MySQL waits for a fill
FILL_IS_LATE = "the transaction has tables open at MySQL, for which the fill may be waiting"
NOT_AT_POSITION = "the fill is not at the position of what was shown"
NOT_BROUGHT = "the stream has not brought what the session was shown"
AHEAD = "held ahead of the position"
ELSEWHERE = "prepared in another database than the session's, where MySQL cannot be asked about it"
CHANGED = "caches have changed while the read waited"


@dataclass(slots=True, eq=False)
class CachedRead:
    """A command that a cache may answer. `version`: of the caches, as of which the others are. `head`: what stands
    before the rows, once the gate is open. `route` and `data`: for MySQL, if it is to answer. `database`: where
    unqualified names are of."""

    data: bytes
    version: int
    cache: SessionCache
    values: Sequence[ParameterValue]
    text: bytes
    database: str
    route: Route
    kind: Route | PreparedStatement  # what reads that are hits in the same way have in common
    head: bytes = b""
    forced: bool = False  # an error where MySQL would have to answer
    waited: bool = False  # for the session's own writes, in vain
    behind: bool = False  # what the session was shown was waited for, in vain
    hidden: str = ""  # the temporary table that hides one of the query's
    refused: str = ""  # what MySQL has said of the text


Step = Callable[[], Awaitable[None]]


class CachedReads(SessionBase):
    def pass_read(self, read: CachedRead, why: str) -> None:
        """MySQL is to answer."""
        raise NotImplementedError

    def look(self, read: CachedRead) -> None:
        """Answers, at once where nothing must be asked or waited for."""
        gate = self._gate(read)
        if gate == "":
            if self.state.shown or not self._hit(read):
                self._start(self._miss(read))
        elif isinstance(gate, str):
            self.pass_read(read, gate)
        else:
            self._start(self._settle(read, gate))

    async def _settle(self, read: CachedRead, step: Step) -> None:
        """What must be asked or waited for, then as `look`."""
        gate: str | Step = step
        while not isinstance(gate, str):
            await gate()
            gate = self._gate(read)
        if gate:
            self.pass_read(read, gate)
        elif self.state.shown or not self._hit(read):
            await self._miss(read)

    # -- the gate ------------------------------------------------------------------------------------------------------

    def _gate(self, read: CachedRead) -> str | Step:
        """The reason why MySQL must answer, "" if a cache may, or what must be done before that can be said."""
        state, cache = self.state, read.cache
        if not state.known:
            return self._refresh
        if read.version != self.shared.system.caches_version:
            return CHANGED
        reason = refusal(state, cache.needs)
        if reason:
            return reason
        if not state.plain:
            obstacle = self._obstacle(read)
            if obstacle != "":
                return obstacle
        refused = read.refused or self.shared.grants.refusal(state, cache)
        if refused:
            return refused
        found = read.kind.heads.get(state.announces)
        if refused is None or found is None:
            if read.database != state.database:  # there the text would be about other tables
                return ELSEWHERE
            return lambda: self._ask_rights(read)
        if not found:
            return OTHER_COLUMNS
        read.head = found
        return ""

    def _obstacle(self, read: CachedRead) -> str | Step:
        """As `_gate`: the session's own writes, what it was shown, its transaction, its temporary tables."""
        state = self.state
        if state.token and self.lacks_own_writes():
            if read.waited:
                return f"the stream has not brought the session's own writes: {state.token}"
            return lambda: self._own_writes(read)
        if state.shown and (self._has(state.shown) or not self.server.alive):
            state.shown = NOTHING
        if state.transactional:
            reason = transaction_rule(state, self.shared.options.transactions, self.shown, self.shared.position())
            if reason:
                return reason
            if state.shown and self._one_state():
                return NOT_BROUGHT if read.behind else lambda: self._until_shown(read)
        if read.hidden:
            return f"a temporary table hides {read.hidden}"
        if state.hiding and not read.cache.relations <= state.not_hidden:
            return lambda: self._ask_hidden(read)
        return ""

    def _has(self, gtids: GtidSet) -> bool:
        """Whether the position has them."""
        return self.shared.system.demand_after(gtids).met()

    def lacks_own_writes(self) -> bool:
        """Whether a hit would not show what the session has written."""
        if not self.shared.options.read_your_writes or self._has(self.state.token):
            self.state.token = NOTHING
        return bool(self.state.token)

    async def _refresh(self) -> None:
        await refresh(self)

    async def _own_writes(self, read: CachedRead) -> None:
        read.waited = True
        self.shared.system.count("session_write_waits")
        if not await self.shared.reached(self.state.token):
            await forget_lost(self)

    async def _until_shown(self, read: CachedRead) -> None:
        state = self.state
        if state.behind is not None or not await self.shared.system.reached(state.shown, VISIBLE_SOON):
            read.behind = True
            await self._is_behind()

    async def _is_behind(self) -> None:
        """The position lacks what the session was shown: that is waited for no more. MySQL is asked now and then
        whether it still comes."""
        state, now = self.state, self.shared.clock()
        if state.behind is None or now - state.behind > ASK_AGAIN:
            state.behind = now
            await forget_lost(self)

    async def _ask_hidden(self, read: CachedRead) -> None:
        read.hidden = await hidden_table(self, read.cache.relations)

    async def _ask_rights(self, read: CachedRead) -> None:
        """May this account run the cache's query, and what columns does MySQL announce to this session? It prepares
        the statement, and says."""
        asked = self.shared.grants.version
        outcome = await self.server.ask(packet(bytes((COM_STMT_PREPARE,)) + read.text, 0), Kind.PREPARED)
        self.shared.system.count("mysql_rights_asked")
        unless_ended(self.state, outcome)
        payloads, error = outcome.payloads, outcome.error
        if error is None or error.errno in NO_RIGHT:
            self.shared.grants.note(self.state, read.cache, asked, allowed=error is None)
        if error is not None:  # of this text, or of this moment
            read.refused = f"MySQL refuses the query: {error.message}"
            return
        self.send_unanswered(packet(bytes((COM_STMT_CLOSE,)) + payloads[0][1:5], 0))
        read.kind.heads[self.state.announces] = head_of(payloads, read.cache, eof=self.eof)

    # -- answers -------------------------------------------------------------------------------------------------------

    def _hit(self, read: CachedRead, *, filled: bool = False) -> bool:
        """Answers, or has MySQL answer; False where the key is a hole."""
        try:
            body = read.cache.hit(read.values)
        except UpwellError as error:
            self.pass_read(read, f"{error.reason}: {error.message}")
            return True
        if body is None:
            return False
        position = self.shared.position()
        if self._one_state():
            self.shown.note(read.cache, read.values, body, position)
        self._send(read, body)
        self.note(Served.MISS if filled else Served.HIT, read.cache.name, hit_rule(self.state), position)
        return True

    def _one_state(self) -> bool:
        """Whether all that the transaction is shown must be one state."""
        state = self.state
        return state.transactional and (
            bool(self.shown.answers) or state.values.get("transaction_isolation", "") not in COMMITTED
        )

    async def _miss(self, read: CachedRead) -> None:
        state = self.state
        if state.shown:
            wait = VISIBLE_SOON if state.behind is None else 0
            demand = self.shared.system.demand_after(state.token, state.shown, wait)
        else:
            demand = self.shared.system.demand_after(state.token)
        try:
            filling = read.cache.fill(read.values, demand)
            answer = await (self._while_patient(filling) if state.touched else filling)
        except SourceError:
            answer = "MySQL refuses the query that fills the key"
        except SourceDown:  # the session's own connection may be whole
            answer = "the query that fills the key does not reach MySQL"
        except (DeadlinePassed, Overloaded) as error:  # limits of ours: without them MySQL would have answered
            answer = f"{error.reason}: {error.message}"
        except UnknownCache:  # dropped while the read waited
            answer = CHANGED
        if not isinstance(answer, Answer):
            if state.shown and not self._has(state.shown):
                await self._is_behind()
            self.pass_read(read, answer)
        elif read.version != self.shared.system.caches_version:
            self.pass_read(read, CHANGED)
        elif self._one_state():  # the fill is of use if it is a hit now
            gate = self._gate(read)
            if not isinstance(gate, str) or gate or not self._hit(read, filled=True):
                self.pass_read(read, gate if isinstance(gate, str) and gate else NOT_AT_POSITION)
        else:
            ahead = answer.position != self.shared.position() or answer.horizon != ""
            state.shown = NOTHING
            if ahead:
                self._note_shown(answer)
            self._send(read, answer.body)
            rule = AHEAD if ahead and answer.served is Served.HIT else hit_rule(self.state)
            self.note(answer.served, answer.cache, rule, answer.position)

    async def _while_patient(self, filling: Coroutine[None, None, Answer | str]) -> Answer | str:
        """A DDL statement may be waiting for the transaction, and the fill for the DDL statement: a deadlock that MySQL
        cannot see, for the fill has another connection. It goes on for who comes next."""
        task = asyncio.get_running_loop().create_task(filling)
        self.shared.fills.add(task)
        task.add_done_callback(self.shared.fill_ended)
        await asyncio.wait((task,), timeout=PATIENT)
        return task.result() if task.done() else FILL_IS_LATE

    def _note_shown(self, answer: Answer) -> None:
        """The answer has shown what the position lacks."""
        shown = GtidSet.parse(answer.horizon or answer.position)
        if not self._has(shown):
            self.state.shown, self.state.behind = shown, None

    def _send(self, read: CachedRead, body: bytes) -> None:
        status, start = self.status, read.head
        if status != PLAIN_STATUS:
            body = with_status(body, status, eof=self.eof)
            if self.eof:  # the packet behind the column definitions has them too
                start = start[:-2] + body[-2:]
        self.answer(start + body)
        self.replay = read.data
        if self.state.plain:
            self.heads[read.kind] = read.head


def head_of(payloads: Sequence[bytes], cache: SessionCache, *, eof: bool) -> bytes:
    """What stands before the rows of an answer, from all packets of a COM_STMT_PREPARE's answer; b"" where the result
    is not the cache's."""
    columns = int.from_bytes(payloads[0][5:7], "little")
    definitions = (payloads[-columns - 1 : -1] if eof else payloads[-columns:]) if columns else []
    return head(definitions, eof=eof) if announce(definitions, cache.columns) else b""
