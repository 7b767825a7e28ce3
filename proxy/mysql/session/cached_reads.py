"""Reads of a session that a cache may answer: what `reads.gate` says of each, done.

read -> gate -> HIT  : SessionCache.hit -> head + body, at once      -> a hole: SessionCache.fill, a task -> head + body
             -> Pass : MySQL answers, in the client's own session (`pass_through.py`)
             -> Ask  : a task; then the gate is asked again

What cached reads show a session does not go back in time, whoever answers them. Hits are at the position. Misses, hits
ahead of the position, and MySQL where a read is passed through may show more (`SessionState.shown`): the next answers
must have that too, or are MySQL's. Before MySQL answers after hits, it waits for what they have shown
(`PassThrough._before`). Only what no cache is for does not count: a hit may be older than that, by as much as the
stream lags.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

from gtid_tracker.gtid import GtidSet
from proxy.mysql.reads.announced import FIRST, SEVERAL, definitions_in
from proxy.mysql.reads.cached_read import CachedRead
from proxy.mysql.reads.gate import (
    AGAIN,
    HIT,
    NOTHING,
    OTHER_CACHES,
    OTHER_CHARACTERS,
    Ask,
    Hit,
    Pass,
    Step,
    Verdict,
    beyond_limit,
    gate,
    hit_rule,
    in_results,
    one_state,
    reads_otherwise,
    said_again,
)
from proxy.mysql.reads.grants import NO_RIGHT
from proxy.mysql.reads.prepared_statement import PreparedStatement
from proxy.mysql.reads.shown import Command, Said, command_of
from proxy.mysql.reads.told import as_told
from proxy.mysql.session.interruption import KILLED, RAISE, TOO_LONG, Interrupted, Waiting, time_limit
from proxy.mysql.session.pass_through import PassThrough
from proxy.mysql.session.questions_to_mysql import forget_lost, hidden_table, learn_shown, only_row, unless_ended
from proxy.mysql.session.quick_path import HeadOfRows, QuickPath
from proxy.mysql.session.relay import Relay
from proxy.mysql.session.session_context import SessionContext
from proxy.mysql.session.upstream import Upstream
from proxy.mysql.session.watched import watching
from proxy.mysql.state.recoding import characters_query, recode_by
from proxy.mysql.state.session_variables import ALIKE
from proxy.mysql.wire.packets import PLAIN_STATUS, Malformed
from proxy.mysql.wire.responses import Kind, Outcome
from proxy.mysql.wire.rows import joined
from proxy.port.api import Answer, Served
from proxy.port.faults import is_fault
from proxy.port.reasons import NO_REASON, Reason, Why, of_error
from sqltypes.errors import SourceDown, SourceError, UnknownCache, UpwellError
from sqltypes.expression import Value

BROUGHT_SOON = 0.05  # seconds that the stream may take to bring what misses have shown
ASK_AGAIN = 1.0  # seconds from one question whether what was shown still comes to the next
PATIENT = 0.1  # seconds that a transaction with tables open at MySQL waits for a fill
UNSURE = Reason.LATE.why("of the clock more is asked than is known of it")
NOT_COUNTED = Reason.OTHER.why("FOUND_ROWS() of the answer is not known")
FILL_IS_LATE = Reason.LATE.why("the transaction has tables open at MySQL, for which the fill may be waiting")
NOT_AT_POSITION = Reason.LATE.why("the fill is not at the position of what was shown", other_state=True)
AHEAD = "held ahead of the position"


class CachedReads:
    """Of one session."""

    def __init__(
        self, context: SessionContext, relay: Relay, upstream: Upstream, passing: PassThrough, quick: QuickPath
    ) -> None:
        self._context = context
        self._shared = context.shared
        self._state = context.state
        self._shown = context.shown
        self._relay = relay
        self._upstream = upstream
        self._passing = passing
        self._quick = quick
        self.waiting = Waiting()

    def look(self, read: CachedRead) -> None:
        """Answers, at once where nothing must be asked or waited for."""
        if read.is_of_now:
            read.cache.moments.note()
        if read.upto is not None and self._state.transaction.transactional:
            self.pass_read(read, UNSURE)
            return
        verdict = self._gate(read)
        if isinstance(verdict, Pass):
            self._pass(read, verdict)
        elif verdict is not HIT or not self._hit(read):
            self._relay.start(self._attempt(read, verdict))

    def _gate(self, read: CachedRead) -> Verdict:
        return gate(read, self._state, self._shown, self._shared, connected=self._relay.server.alive)

    async def _attempt(self, read: CachedRead, verdict: Hit | Ask) -> None:
        """What a read needs that is no hit at once. A fault of ours leaves it to MySQL."""
        try:
            if isinstance(verdict, Ask):
                await self._settle(read, verdict)
            else:
                await self._miss(read)
        except Interrupted:
            self._upstream.forward(self._upstream.query(RAISE), Kind.RESULT, lambda _: None)
            self._context.note(Served.PASSED.value, read.cache.name, KILLED)
        except (SourceError, SourceDown, Malformed):  # MySQL's own
            raise
        except Exception as error:
            if self._relay.client.out or self._upstream.server.responses.exchanges:  # it has its answer
                raise
            why = self._shared.note_fault(read.cache.name, error, text=repr(read.text)[:2000])
            self.pass_read(read, why)

    async def _settle(self, read: CachedRead, verdict: Verdict) -> None:
        """What must be asked or waited for, then as `look`."""
        while isinstance(verdict, Ask):
            await self._do(verdict.step, read)
            verdict = self._gate(read)
            if isinstance(verdict, Pass) and (other := self._in_its_mode(read)) is not None:
                read, verdict = other, self._gate(other)
        if isinstance(verdict, Pass):
            self._pass(read, verdict)
        elif not self._hit(read):
            await self._miss(read)

    def _pass(self, read: CachedRead, verdict: Pass) -> None:
        if verdict.learns:
            self._fill_beside(read)
        self.pass_read(read, verdict.why)

    def _in_its_mode(self, read: CachedRead) -> CachedRead | None:
        """The read of a cache whose text sets the session's sql_mode, which was not known as the read came."""
        state, shared, eof = self._state, self._shared, self._context.eof
        if not state.variables.mode_hint or not state.known or read.kind is not read.route:
            return None
        text, entry, values, route, (instead, _), _ = shared.texts.find(read.text, state, eof=eof)
        if instead is None:
            return None
        if entry.cache is None:
            read.wanted = text, route
            return None
        system = shared.system
        cache = route.opened(system, entry.cache, binary=False, eof=eof, clocks=state.variables.clocks)
        other = CachedRead(read.data, system.caches.version, cache, values, text, read.database, route, route)
        other.sent, other.forced, other.marks = read.sent, read.forced, read.marks
        return None if other.to_utc() else other

    def pass_read(self, read: CachedRead, why: Why) -> None:
        """MySQL is to answer, unless the transaction was shown the answer before."""
        statement = read.kind if isinstance(read.kind, PreparedStatement) else None
        if why.other_state and self.says_again(read.data, read.sent, statement, read.given):
            return
        if read.forced:
            self._relay.client.fail(self._shared.forced(why))
            return
        watched = None if read.announced is None else lambda done: watching(self._shared, read, done)
        noted, route = read.wanted or (None, read.route)
        if reads_otherwise(read, self._state):
            route = self._shared.texts.large
        self._passing.statement(
            read.data, route, why, cache=read.cache.name, values=read.values, noted=noted, watched=watched
        )

    # -- what must be asked or waited for ------------------------------------------------------------------------------

    async def _do(self, step: Step, read: CachedRead) -> None:
        match step:
            case Step.REFRESH:
                await self._upstream.refresh()
            case Step.RIGHTS:
                await self._ask_rights(read)
            case Step.COLUMNS:
                await self._learn_unseen(read)
            case Step.OWN_WRITES:
                await self._own_writes(read)
            case Step.SHOWN:
                await self._ask_shown(read)
            case Step.BROUGHT:
                await self._until_shown(read)
            case Step.CHARACTERS:
                await self._learn_characters()
            case Step.HIDDEN:
                read.hidden = await hidden_table(self._upstream, read.cache.relations)

    async def _learn_characters(self) -> None:
        """Of the session's character set of results: MySQL tells them once."""
        name = self._state.variables.announces.results
        self._shared.character_sets[name] = None  # what cannot be told is not asked for again
        outcome = await self._upstream.server.ask(self._upstream.query(characters_query(name)), Kind.RESULT)
        unless_ended(self._state, outcome)
        told = only_row(outcome.payloads, 1)[0] if outcome.error is None else None
        if told:
            self._shared.character_sets[name] = recode_by(told)

    async def _own_writes(self, read: CachedRead) -> None:
        read.waited = True
        self._shared.system.count("session_write_waits")
        with self.waiting:
            came = await self._shared.reached(self._state.token)
        if not came:
            await forget_lost(self._upstream)

    async def _ask_shown(self, read: CachedRead) -> None:
        """MySQL has answered cached reads: what may they have shown?"""
        read.asked = True
        self._shared.system.count("session_shown_asked")
        await learn_shown(self._upstream)

    async def _until_shown(self, read: CachedRead) -> None:
        state, came = self._state, False
        if state.behind is None:
            with self.waiting:
                came = await self._shared.system.freshness.reached(state.shown, BROUGHT_SOON)
        if not came:
            read.behind = True
            await self._is_behind()

    async def _is_behind(self) -> None:
        """The position lacks what the session was shown: that is waited for no more. MySQL is asked now and then
        whether it still comes."""
        state, now = self._state, self._shared.clock()
        if state.behind is None or now - state.behind > ASK_AGAIN:
            state.behind = now
            await forget_lost(self._upstream)

    async def _ask_rights(self, read: CachedRead) -> None:
        """Whether the account may run the query, and how its columns are announced: MySQL prepares it, and says."""
        state, shared, eof = self._state, self._shared, self._context.eof
        asked = shared.grants.asks(read.cache)
        outcome = await self._upstream.prepare(read.text)
        shared.system.count("mysql_rights_asked")
        unless_ended(state, outcome)
        payloads, error = outcome.payloads, outcome.error
        if error is None or error.errno in NO_RIGHT:
            shared.grants.note(state, read.cache, asked, allowed=error is None)
        if error is not None:  # of this text, or of this moment
            read.refused = Reason.OTHER.why(f"MySQL refuses the query: {error.message}")
            return
        told, kind = state.variables.announces, read.kind
        resolved = kind.resolved if isinstance(kind, PreparedStatement) else None
        found = shared.announced.of(
            read.cache, definitions_in(payloads, eof=eof),
            binary=isinstance(kind, PreparedStatement), eof=eof, told=told, resolved=resolved,
        )  # fmt: skip
        kind.heads.learn(told, read.cache, read.generation, found)
        read.announced = found.of(read.shows())

    # -- what MySQL announces ------------------------------------------------------------------------------------------

    def _fill_beside(self, read: CachedRead) -> None:
        """While MySQL answers the first read of a kind, so that the second one is a hit."""
        if read.upto is not None and not read.cache.moments.tells_between(read.values, read.upto):
            return  # it would be no answer to anything
        if read.cache.peek(read.values) is None:
            filling = read.cache.fill(read.values, None, read.own_text())
            self._shared.keep_fill(asyncio.get_running_loop().create_task(filling))

    async def _learn_unseen(self, read: CachedRead) -> None:
        """For a read that only a cache may answer: MySQL answers it, and the client does not see that."""
        state, upstream = self._state, self._upstream
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        exchange = watching(self._shared, read, future.set_result)
        exchange.visible = False
        if not upstream.alive:
            raise SourceDown("the session's connection to MySQL is lost")
        upstream.server.send(upstream.for_mysql(read.data), exchange)
        outcome = await future
        state.absorb(outcome)
        state.transaction.touched |= state.transaction.in_transaction
        unless_ended(state, outcome)
        if outcome.error is not None:
            read.refused = Reason.OTHER.why(f"MySQL refuses the query: {outcome.error.message}")

    # -- answers -------------------------------------------------------------------------------------------------------

    def _hit(self, read: CachedRead, served: Served = Served.HIT) -> bool:
        """Answers, or has MySQL answer; False where the key is a hole, or held at an older state than was shown.
        `served`: MISS where the read waited for an upquery."""
        if read.body is not None:
            self._hit_before(read, read.body)
            return True
        if self._state.shown.intervals:
            return False
        values = read.values if read.upto is None else read.cache.moments.between(read.values, read.upto)
        if values is None:
            return False
        try:
            body = read.cache.hit(values)
        except UpwellError as error:
            self.pass_read(read, of_error(error))
            return True
        if body is None:
            return self._shown.began != "" and self._again(read)
        if read.cache.counts and (found := read.cache.found(read.values)) is None:
            return False
        if not self._headed(read, body):
            read.cache.recount(None)
            return True
        read.found = found if read.cache.counts else None
        if served is not Served.HIT:
            read.cache.recount(served)
        self._show(read, body, served)
        return True

    def _again(self, read: CachedRead) -> bool:
        """Answers with what the transaction was shown before, which is held no more."""
        body = self._shown.again(read.cache, read.values) if one_state(self._state, self._shown) else None
        if body is None:
            return False
        read.rule = AGAIN
        self._hit_before(read, body)
        return True

    def _show(self, read: CachedRead, body: bytes, served: Served) -> None:
        """Answers with what is the answer at the position."""
        position = self._shared.position.text()
        if one_state(self._state, self._shown):
            self._shown.holds(self._shared.position.sequence(), position)  # the gate has seen that it does
            self._remember(read, body)
        self._send(read, body)
        self._context.note(served.value, read.cache.name, hit_rule(self._state), position)
        settings = self._state.settings
        if settings is not ALIKE and served is Served.HIT and read.cache.told.judges(body, settings):
            read.cache.told.judge(read.values, body, settings, as_told(read, self._state))

    def _shows(self, read: CachedRead, answer: Answer) -> bool:
        """Answers a transaction with what was filled or compared, if that is at the position. Of several keys together
        it is not stored: to look again may take steps of the loop, or a comparison. Requires: the gate is open as of
        now."""
        if answer.horizon or answer.position != self._shared.position.text():
            return False
        if self._headed(read, answer.body):
            read.cache.count(answer.served)
            self._show(read, answer.body, answer.served)
        return True

    def _hit_before(self, read: CachedRead, body: bytes) -> None:
        """Answers a REPEATABLE READ transaction from where it stands, which is not the position."""
        if self._headed(read, body):
            read.cache.count_hit(read.values)
            self._remember(read, body)
            self._send(read, body)
            self._context.note(Served.HIT.value, read.cache.name, read.rule, self._shown.position)

    def _remember(self, read: CachedRead, body: bytes) -> None:
        """The transaction is shown this."""
        cache, statement = read.cache, read.kind if isinstance(read.kind, PreparedStatement) else None
        if read.shown is body and not read.by_clock:
            bound = None if statement is None else (statement, statement.bound.types, read.given)
            kind = self._context.shown_kind(cache, read.head, read.target, by_clock=False)
            given = kind, read.values, body, read.sent, bound
            if self._shown.give(given, self._shared.position.sequence(), self._shared.position.text):
                return
        self._shown.note(cache, read.values, body)
        said = Said(read.head, read.shown, cache.name, cache.needs, cache.relations, self._context.rights, read.target)
        if not read.by_clock:
            self._shown.say(self._command_of(read.sent, statement, read.given), said)

    def _command_of(self, text: bytes, statement: PreparedStatement | None, given: tuple[Value, ...]) -> Command:
        bound = None if statement is None else (statement, statement.bound.types, repr(given))
        return command_of(text, bound, self._state.database, self._state.variables.told_as)

    def says_again(
        self, data: bytes, text: bytes, statement: PreparedStatement | None = None, given: tuple[Value, ...] = ()
    ) -> bool:
        """Whether the transaction was shown the answer to the same command before, and is shown it again: its cache is
        no more, or another one, and MySQL's snapshot would be of another state."""
        state, shown = self._state, self._shown
        if not (shown.began and state.known):
            return False
        mode = self._shared.transactions
        said = said_again(state, mode, shown, self._command_of(text, statement, given), self._context.rights)
        if said is None or (statement is not None and not said.takes(statement, given)):
            return False
        if statement is not None:
            statement.bound.behind = True
        self._give(data, said.head, said.body)
        self._context.last_hit.shown_again(self._upstream.query("SELECT 1"), text)
        self._context.note(Served.HIT.value, said.cache, AGAIN, shown.position)
        return True

    def _headed(self, read: CachedRead, body: bytes) -> bool:
        """Finds what stands before the answer; has MySQL answer where that is not known."""
        assert read.announced is not None, "the gate is open"
        variables = self._state.variables
        shown: bytes | None = body
        if variables.raw or variables.outside is not None:
            sets, binary = self._shared.character_sets, isinstance(read.kind, PreparedStatement)
            shown = in_results(self._state, read.announced, body, sets, binary=binary)
        why = beyond_limit(self._state, body) if variables.row_limit is not None else NO_REASON
        why = why or (OTHER_CHARACTERS if shown is None else NO_REASON)
        if why or shown is None:
            self.pass_read(read, why)
            return False
        read.shown = shown
        head = read.announced.head(body, read.itself)
        if head is None:
            self.pass_read(read, SEVERAL if read.announced.several else FIRST)
            return False
        read.head = head
        return True

    async def _miss(self, read: CachedRead) -> None:
        if read.upto is not None:  # what is filled is of another moment by then
            self._fill_beside(read)
            self.pass_read(read, UNSURE)
            return
        state = self._state
        answer: Answer | Why
        try:
            filling = self._filling(read)
            with self.waiting:
                answer = await filling
        except UnknownCache:  # dropped while the read waited
            answer = OTHER_CACHES
        except UpwellError as error:  # limits of ours: without them MySQL would have answered
            if is_fault(error):
                raise
            answer = of_error(error)
        if isinstance(answer, Answer):
            self._give_filled(read, answer)
            return
        if state.shown and not self._shared.has(state.shown):
            await self._is_behind()
        self.pass_read(read, answer)

    def _give_filled(self, read: CachedRead, answer: Answer) -> None:
        """Answers with what was filled, or compared with MySQL's own answer."""
        state = self._state
        transactional = state.transaction.transactional
        if read.replanned:
            self.pass_read(read, OTHER_CACHES)
        elif read.cache.counts:
            if not self._hit(read, answer.served):
                self.pass_read(read, NOT_COUNTED)
        elif transactional and one_state(state, self._shown):  # the fill is of use if it is a hit now
            verdict = self._gate(read)
            if isinstance(verdict, Pass):
                self._pass(read, verdict)
            elif verdict is not HIT or not (self._hit(read, answer.served) or self._shows(read, answer)):
                self.pass_read(read, NOT_AT_POSITION)
        elif self._headed(read, answer.body):
            ahead = answer.position != self._shared.position.text() or answer.horizon != ""
            state.shown = NOTHING
            if ahead:
                self._note_shown(answer)
            self._send(read, answer.body)
            read.cache.count(answer.served)
            rule = hit_rule(state) if transactional else ""
            rule = AHEAD if ahead and answer.served is Served.HIT else rule
            self._context.note(answer.served.value, answer.cache, rule, answer.position)

    def _filling(self, read: CachedRead) -> Coroutine[None, None, Answer | Why]:
        """The answer of a fill; the reason where there is none. Raises UpwellError, now or later."""
        state, system = self._state, self._shared.system
        if state.shown.intervals:
            wait = BROUGHT_SOON if state.behind is None else 0
            demand = system.freshness.demand_after(state.token, state.shown, wait)
        else:
            demand = system.freshness.demand_after(state.token)
        filling = read.cache.fill(read.values, demand, read.own_text(), wait=read.forced)
        limit, most = None, state.variables.values.get("max_execution_time", "")
        if most not in ("", "0") or b"/*+" in read.sent:  # without hints it tells none of its own
            limit = time_limit(read.sent, most)
        if state.transaction.touched:
            filling = self._while_patient(filling, PATIENT, FILL_IS_LATE)
        return filling if limit is None else self._while_patient(filling, limit, TOO_LONG)

    async def _while_patient(
        self, filling: Coroutine[None, None, Answer | Why], seconds: float, late: Why
    ) -> Answer | Why:
        """What is filled by then, or `late`: it goes on for who comes next. A DDL statement may be waiting for the
        transaction, and the fill for the DDL statement: a deadlock that MySQL cannot see, for the fill has another
        connection. Or MySQL would give up by itself."""
        task = asyncio.get_running_loop().create_task(filling)
        self._shared.keep_fill(task)
        await asyncio.wait((task,), timeout=seconds)
        return task.result() if task.done() else late

    def _note_shown(self, answer: Answer) -> None:
        """The answer has shown what the position lacks."""
        shown = GtidSet.parse(answer.horizon or answer.position)
        if not self._shared.has(shown):
            self._state.shown, self._state.behind = shown, None

    def _give(self, data: bytes, head: bytes, body: bytes, found: int | None = None) -> None:
        """Answers the command. `found`: as `LastHit.hit` has it."""
        self._state.begin_with_hit()
        transaction = self._state.transaction
        status = transaction.flags | transaction.begun
        plain = status == PLAIN_STATUS
        self._relay.client.answer(head + body if plain else joined(head, body, status, eof=self._context.eof))
        self._context.last_hit.hit(data, body, found)

    def _send(self, read: CachedRead, body: bytes) -> None:
        self._give(read.data, read.head, read.shown, read.found)
        if read.found is not None:  # what it has found is no part of the bytes that are at hand
            return
        announced = read.announced
        # Where it depends on its characters or its rows whether a read may be a hit, each one is looked at.
        at_hand = announced is not None and announced.at_hand(raw=self._state.variables.raw) and not read.converted
        if self._state.uniform and announced is not None and at_hand:
            if announced.uniform:
                self._quick.remember(read.kind, read.head)
            elif announced.filled is not None:
                self._quick.remember(read.kind, HeadOfRows(announced.filled))
