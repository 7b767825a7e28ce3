"""Reads of a session that a cache may answer: whether, by which rule, and what must be asked first.

read -> gate -> "" : Cache.hit -> head + body, at once      -> a hole: Cache.fill, a task -> head + body
             -> a reason : MySQL answers, in the client's own session
             -> something to be asked or waited for first, a task; then the command is looked at again

What cached reads show a session does not go back in time, whoever answers them. Hits are at the position. Misses, hits
ahead of the position, and MySQL where a read is passed through may show more (`SessionState.shown`): the next answers
must have that too, or are MySQL's. Before MySQL answers after hits, it waits for what they have shown
(`Session._before`). Only what no cache is for does not count: a hit may be older than that, by as much as the stream
lags.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Coroutine

from gtid_tracker.gtid import GtidSet
from proxy.api import Answer, Served
from proxy.mysql.announced import FIRST, SEVERAL, definitions_in
from proxy.mysql.cached_read import CachedRead
from proxy.mysql.grants import NO_RIGHT
from proxy.mysql.packets import COM_STMT_CLOSE, COM_STMT_PREPARE, Malformed, packet
from proxy.mysql.prepared import PreparedStatement
from proxy.mysql.reads import (
    AGAIN,
    CHANGED,
    FULL,
    OPEN,
    UNCHANGED,
    hit_rule,
    one_state,
    refusal,
    said_again,
    transaction_rule,
)
from proxy.mysql.responses import NO_STATUS, Exchange, Kind, Outcome
from proxy.mysql.rows import with_status
from proxy.mysql.session_base import SessionBase
from proxy.mysql.shown import Command, Said, command_of
from proxy.mysql.trackers import forget_lost, hidden_table, learn_shown, refresh, unless_ended
from sqltypes.errors import SourceDown, SourceError, UnknownCache, UpwellError
from sqltypes.expression import Value

NOTHING = GtidSet.empty()
PLAIN_STATUS = 2  # autocommit, and in no transaction: what stored answers end with
VISIBLE_SOON = 0.05
"""Seconds that MySQL may take to show what hits have shown already, and the stream to bring what misses have shown."""
ASK_AGAIN = 1.0  # seconds from one question whether what was shown still comes to the next
PATIENT = 0.1  # seconds that a transaction with tables open at MySQL waits for a fill
FILL_IS_LATE = "the transaction has tables open at MySQL, for which the fill may be waiting"
NOT_AT_POSITION = "the fill is not at the position of what was shown"
NOT_BROUGHT = "the stream has not brought what the session was shown"
NOT_TOLD = "MySQL does not tell what its answers may have shown the session"
AHEAD = "held ahead of the position"
ELSEWHERE = "prepared in another database than the session's, where MySQL cannot be asked about it"
NARROW = "the session's character sets lack characters of the text or its values: they have those of"
OTHER_CACHES = "the cache was planned again, or dropped, while the read waited"
OF_ANOTHER_STATE = frozenset({OTHER_CACHES, CHANGED, OPEN, FULL, NOT_AT_POSITION, FIRST, SEVERAL})
"""Why a read of a transaction is passed, where the answer to the same one before would be as good."""


Step = Callable[[], Awaitable[None]]


class CachedReads(SessionBase):
    @abstractmethod
    def pass_read(self, read: CachedRead, why: str) -> None:
        """MySQL is to answer."""

    def look(self, read: CachedRead) -> None:
        """Answers, at once where nothing must be asked or waited for."""
        gate = self._gate(read)
        if gate == "":
            if not self._hit(read):
                self._start(self._attempt(read, lambda: self._miss(read)))
        elif isinstance(gate, str):
            self.pass_read(read, gate)
        else:
            self._start(self._attempt(read, lambda: self._settle(read, gate)))

    async def _attempt(self, read: CachedRead, steps: Callable[[], Awaitable[None]]) -> None:
        """What a read needs that is no hit at once. A fault of ours leaves it to MySQL."""
        try:
            await steps()
        except (SourceError, SourceDown, Malformed):  # MySQL's own
            raise
        except Exception as error:
            if self._out or self.server.responses.exchanges:  # it has its answer
                raise
            why = self.shared.note_fault(read.cache.name, error, text=repr(read.text)[:2000])
            self.pass_read(read, why)

    async def _settle(self, read: CachedRead, step: Step) -> None:
        """What must be asked or waited for, then as `look`."""
        gate: str | Step = step
        while not isinstance(gate, str):
            await gate()
            gate = self._gate(read)
        if gate:
            self.pass_read(read, gate)
        elif not self._hit(read):
            await self._miss(read)

    # -- the gate ------------------------------------------------------------------------------------------------------

    def _gate(self, read: CachedRead) -> str | Step:
        """The reason why MySQL must answer, "" if a cache may, or what must be done before that can be said."""
        state, cache = self.state, read.cache
        read.body, read.rule = None, ""
        if not state.known:
            return self._refresh
        if read.replanned:
            return OTHER_CACHES
        reason = refusal(state, cache.needs)
        if reason:
            return reason
        if state.narrow and state.misreads(read.text, read.values):
            return f"{NARROW} {state.narrow}"
        if read.announced is None and not self._hides(read):
            read.announced = read.kind.heads.get(state.announces)
            if read.announced is None and not read.refused and read.database == state.database:
                return lambda: self._ask_rights(
                    read
                )  # first: so it is learned from MySQL's answer, if it has to answer
        if not state.plain:
            obstacle = self._obstacle(read)
            if obstacle != "":
                return obstacle
        refused = read.refused or self.shared.grants.refusal(state, cache)
        if refused:
            return refused
        if refused is None or read.announced is None:
            if read.database != state.database:  # there the text would be about other tables
                return ELSEWHERE
            return lambda: self._ask_rights(read)
        return self._columns_known(read)

    def _columns_known(self, read: CachedRead) -> str | Step:
        """As `_gate`: whether it is known how MySQL announces the columns."""
        announced = read.announced
        assert announced is not None
        why = announced.why or announced.unknown(read.itself)
        if why and not announced.why:
            if read.forced:
                return lambda: self._learn_unseen(read)
            self._fill_beside(read)
        return why

    def _hides(self, read: CachedRead) -> bool:
        """Whether the text may be about temporary tables."""
        return self.state.hiding and not read.cache.relations <= self.state.not_hidden

    def _obstacle(self, read: CachedRead) -> str | Step:
        """As `_gate`: the session's own writes, what it was shown, its transaction, its temporary tables."""
        state = self.state
        if state.token and self.lacks_own_writes():
            if read.waited:
                return f"the stream has not brought the session's own writes: {state.token}"
            return lambda: self._own_writes(read)
        if not self.server.alive:
            state.passed, state.shown = False, NOTHING
        if state.transactional:
            reason = self._transaction(read)
            if reason:
                return reason
        if read.body is None and (state.passed or state.shown):
            obstacle = self._was_shown(read)
            if obstacle != "":
                return obstacle
        if read.hidden:
            return f"a temporary table hides {read.hidden}"
        if self._hides(read):
            return lambda: self._ask_hidden(read)
        return ""

    def _transaction(self, read: CachedRead) -> str:
        """Which rule keeps a read of a transaction from being a hit, "" if none does. In REPEATABLE READ `read.body` is
        the answer where the transaction stands, unless that is the position."""
        shown, cache, values = self.shown, read.cache, read.values
        if not self.state.under_way:
            shown.clear()
        again = shown.again(cache, values)
        mode = self.shared.options.transactions
        reason = transaction_rule(self.state, mode, shown, values, again=again is not None)
        if reason:
            return reason
        if again is not None:
            read.body, read.rule = again, AGAIN
        elif shown.answers and not shown.holds(self.shared.sequence(), self.shared.position()):
            read.body, read.rule = cache.peek_since(values, shown.sequence), UNCHANGED
            if read.body is None:
                return CHANGED
        return ""

    def _was_shown(self, read: CachedRead) -> str | Step:
        """As `_gate`: what the session was shown beyond the position."""
        state = self.state
        if state.passed:
            return NOT_TOLD if read.asked else lambda: self._ask_shown(read)
        if state.shown and self._has(state.shown):
            state.shown = NOTHING
        if state.shown and one_state(state, self.shown):
            return NOT_BROUGHT if read.behind else lambda: self._until_shown(read)
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
        if self.state.may_be_unlogged:  # what has been done, an error has not told
            self.wrote_unlogged(schema=True)

    async def _own_writes(self, read: CachedRead) -> None:
        read.waited = True
        self.shared.system.count("session_write_waits")
        if not await self.shared.reached(self.state.token):
            await forget_lost(self)

    async def _ask_shown(self, read: CachedRead) -> None:
        """MySQL has answered cached reads: what may they have shown?"""
        read.asked = True
        self.shared.system.count("session_shown_asked")
        await learn_shown(self)

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
        told, kind = self.state.announces, read.kind
        resolved = kind.resolved if isinstance(kind, PreparedStatement) else None
        read.announced = kind.heads[told] = self.shared.announced.of(
            read.cache, (told, resolved), definitions_in(payloads, eof=self.eof),
            binary=isinstance(kind, PreparedStatement), eof=self.eof,
        )  # fmt: skip

    # -- what MySQL announces ------------------------------------------------------------------------------------------

    def _fill_beside(self, read: CachedRead) -> None:
        """While MySQL answers the first read of a kind, so that the second one is a hit."""
        if read.cache.peek(read.values) is None:
            filling = read.cache.fill(read.values, None, read.own_text())
            self.shared.keep_fill(asyncio.get_running_loop().create_task(filling))

    def watched(self, read: CachedRead, done: Callable[[Outcome], None]) -> Exchange:
        """MySQL's answer to the read, from which is learned how it announces its columns. Requires:
        `read.announced`."""

        def ended(outcome: Outcome) -> None:
            exchange.done = done  # no cycle stays behind
            try:
                self._learn(read, exchange, outcome)
            except Exception as error:  # noqa: BLE001 - an edge: the answer has been the client's already
                self.shared.note_fault(read.cache.name, error, text=repr(read.text)[:2000])
            done(outcome)

        exchange = Exchange(Kind.RESULT, ended, definitions=[])
        return exchange

    def _learn(self, read: CachedRead, exchange: Exchange, outcome: Outcome) -> None:
        """MySQL has answered the read. Not where the tables may have changed meanwhile."""
        announced, system = read.announced, self.shared.system
        if outcome.status == NO_STATUS or announced is None or read.version != system.caches_version:
            return
        if announced.learn(exchange.definitions or (), read.itself, rows=exchange.rows):
            system.look_again()  # sessions have it at hand
        if announced.why:
            system.count("columns_not_announced")

    async def _learn_unseen(self, read: CachedRead) -> None:
        """For a read that only a cache may answer: MySQL answers it, and the client does not see that."""
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        exchange = self.watched(read, future.set_result)
        exchange.visible = False
        if not self.server.alive:
            raise SourceDown("the session's connection to MySQL is lost")
        self.server.send(self.for_mysql(read.data), exchange)
        outcome = await future
        self.state.absorb(outcome)
        self.state.touched |= self.state.in_transaction
        unless_ended(self.state, outcome)
        if outcome.error is not None:
            read.refused = f"MySQL refuses the query: {outcome.error.message}"

    # -- answers -------------------------------------------------------------------------------------------------------

    def _hit(self, read: CachedRead, *, filled: bool = False) -> bool:
        """Answers, or has MySQL answer; False where the key is a hole, or held at an older state than was shown."""
        if read.body is not None:
            self._hit_before(read, read.body)
            return True
        if self.state.shown:
            return False
        try:
            body = read.cache.hit(read.values)
        except UpwellError as error:
            self.pass_read(read, f"{error.reason}: {error.message}")
            return True
        if body is None:
            return False
        if not self._headed(read, body):
            return True
        self._show(read, body, Served.MISS if filled else Served.HIT)
        return True

    def _show(self, read: CachedRead, body: bytes, served: Served) -> None:
        """Answers with what is the answer at the position."""
        position = self.shared.position()
        if one_state(self.state, self.shown):
            self.shown.holds(self.shared.sequence(), position)  # the gate has seen that it does
            self._remember(read, body)
        self._send(read, body)
        self.note(served, read.cache.name, hit_rule(self.state), position)

    def _shows(self, read: CachedRead, answer: Answer) -> bool:
        """Answers a transaction with what was filled or compared, if that is at the position. The rows of several keys
        that are sorted together are not stored: a new cache would have them compared again at each look. Requires: the
        gate is open as of now."""
        if answer.horizon or answer.position != self.shared.position():
            return False
        if self._headed(read, answer.body):
            self._show(read, answer.body, answer.served)
        return True

    def _hit_before(self, read: CachedRead, body: bytes) -> None:
        """Answers a REPEATABLE READ transaction from where it stands, which is not the position."""
        read.cache.count_hit(read.values)
        if self._headed(read, body):
            self._remember(read, body)
            self._send(read, body)
            self.note(Served.HIT, read.cache.name, read.rule, self.shown.position)

    def _remember(self, read: CachedRead, body: bytes) -> None:
        """The transaction is shown this."""
        cache, statement = read.cache, read.kind if isinstance(read.kind, PreparedStatement) else None
        self.shown.note(cache, read.values, body)
        said = Said(read.head, body, cache.name, cache.needs, cache.relations, self._rights(), read.target)
        self.shown.say(self._command_of(read.text, statement, read.given), said)

    def _rights(self) -> tuple[object, ...]:
        """What the account may do is the same while this is."""
        return self.shared.grants.version[1], self.state.identity, self.state.rights

    def _command_of(self, text: bytes, statement: PreparedStatement | None, given: tuple[Value, ...]) -> Command:
        bound = None if statement is None else (statement, statement.types, repr(given))
        return command_of(text, bound, self.state.database, self.state.announces)

    def says_again(
        self, data: bytes, text: bytes, statement: PreparedStatement | None = None, given: tuple[Value, ...] = ()
    ) -> bool:
        """Whether the transaction was shown the answer to the same command before, and is shown it again: its cache is
        no more, or another one, and MySQL's snapshot would be of another state."""
        state, shown = self.state, self.shown
        if not shown.said or not state.known:
            return False
        mode = self.shared.options.transactions
        said = said_again(state, mode, shown, self._command_of(text, statement, given), self._rights())
        if said is None or (statement is not None and not said.takes(statement, given)):
            return False
        if statement is not None:
            statement.note_looked()
        self._give(data, said.head, said.body)
        self.last_hit.shown_again(self.query("SELECT 1"))
        self.note(Served.HIT, said.cache, AGAIN, shown.position)
        return True

    def _headed(self, read: CachedRead, body: bytes) -> bool:
        """Finds what stands before the answer; has MySQL answer where that is not known."""
        assert read.announced is not None, "the gate is open"
        head = read.announced.head(body, read.itself)
        if head is None:
            self.pass_read(read, SEVERAL if read.announced.several else FIRST)
            return False
        read.head = head
        return True

    async def _miss(self, read: CachedRead) -> None:
        state = self.state
        answer = await self._filled(read)
        if not isinstance(answer, Answer):
            if state.shown and not self._has(state.shown):
                await self._is_behind()
            self.pass_read(read, answer)
        elif read.replanned:
            self.pass_read(read, OTHER_CACHES)
        elif one_state(self.state, self.shown):  # the fill is of use if it is a hit now
            gate = self._gate(read)
            if gate != "" or not (self._hit(read, filled=True) or self._shows(read, answer)):
                self.pass_read(read, gate if isinstance(gate, str) and gate else NOT_AT_POSITION)
        elif self._headed(read, answer.body):
            ahead = answer.position != self.shared.position() or answer.horizon != ""
            state.shown = NOTHING
            if ahead:
                self._note_shown(answer)
            self._send(read, answer.body)
            rule = AHEAD if ahead and answer.served is Served.HIT else hit_rule(self.state)
            self.note(answer.served, answer.cache, rule, answer.position)

    async def _filled(self, read: CachedRead) -> Answer | str:
        """The answer of a fill; the reason where there is none."""
        state = self.state
        if state.shown:
            wait = VISIBLE_SOON if state.behind is None else 0
            demand = self.shared.system.demand_after(state.token, state.shown, wait)
        else:
            demand = self.shared.system.demand_after(state.token)
        try:
            filling = read.cache.fill(read.values, demand, read.own_text(), wait=read.forced)
            return await (self._while_patient(filling) if state.touched else filling)
        except UnknownCache:  # dropped while the read waited
            return OTHER_CACHES
        except UpwellError as error:  # limits of ours: without them MySQL would have answered
            return f"{error.reason}: {error.message}"

    async def _while_patient(self, filling: Coroutine[None, None, Answer | str]) -> Answer | str:
        """A DDL statement may be waiting for the transaction, and the fill for the DDL statement: a deadlock that MySQL
        cannot see, for the fill has another connection. It goes on for who comes next."""
        task = asyncio.get_running_loop().create_task(filling)
        self.shared.keep_fill(task)
        await asyncio.wait((task,), timeout=PATIENT)
        return task.result() if task.done() else FILL_IS_LATE

    def _note_shown(self, answer: Answer) -> None:
        """The answer has shown what the position lacks."""
        shown = GtidSet.parse(answer.horizon or answer.position)
        if not self._has(shown):
            self.state.shown, self.state.behind = shown, None

    def _give(self, data: bytes, head: bytes, body: bytes) -> None:
        """Answers the command."""
        self.state.begin_with_hit()
        status = self.state.status
        if status != PLAIN_STATUS:
            body = with_status(body, status, eof=self.eof)
            if self.eof:  # the packet behind the column definitions has them too
                head = head[:-2] + body[-2:]
        self.answer(head + body)
        self.last_hit.hit(data, body)

    def _send(self, read: CachedRead, body: bytes) -> None:
        self._give(read.data, read.head, body)
        announced = read.announced
        # Where it depends on the characters whether a read may be a hit, each one is looked at.
        if self.state.plain and announced is not None and not self.state.narrow:
            if announced.uniform:
                self.heads[read.kind] = read.head
            elif announced.filled is not None:
                self.heads[read.kind] = HeadOfRows(announced.filled)


class HeadOfRows(bytes):
    """A head that stands before rows only: an answer without any has another one."""
