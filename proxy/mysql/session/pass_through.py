"""Statements that MySQL answers, in the client's own session: what MySQL must do before, and what follows for the
session when it has answered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter_ns

from proxy.auto.passed_reads import UNKNOWN
from proxy.mysql.reads.gate import lacks_own_writes, unable
from proxy.mysql.reads.last_hit import COUNTS_NONE, FOUND, FOUND_BY_VTGATE, FOUND_NONE, NONE_BY_VTGATE
from proxy.mysql.reads.prepared_statement import PreparedStatement
from proxy.mysql.reads.routes import NO_CACHE, Route
from proxy.mysql.reads.trackerless import after_statement
from proxy.mysql.session.interruption import kill_of
from proxy.mysql.session.own_transactions import Bounds
from proxy.mysql.session.quick_path import NO_ATTRIBUTES
from proxy.mysql.session.relay import Relay
from proxy.mysql.session.session_context import SessionContext
from proxy.mysql.session.upstream import Upstream
from proxy.mysql.state.session_rules import Sent, after, ends_shown
from proxy.mysql.state.set_names import Names, names_of
from proxy.mysql.text.statement_kind import Kind as StatementKind
from proxy.mysql.wire.packets import CLIENT_MULTI_STATEMENTS, COM_QUERY, COM_STMT_EXECUTE
from proxy.mysql.wire.responses import NO_STATUS, Exchange, Kind, Outcome, nobody_is_told
from proxy.port.api import ParameterValue, Served
from proxy.port.reasons import Why

PASSED = Served.PASSED.value


@dataclass(slots=True)
class Passing:
    """A statement that MySQL is answering."""

    route: Route
    noted: bytes | None  # its text, where it is noted as one that no cache is for
    sent: Sent
    executed: PreparedStatement | None  # whose execution it is
    key: int  # of what it asks, where it is noted
    at: int  # nanoseconds of `perf_counter_ns`
    # Of a read that a cache is for.
    cache: str
    values: Sequence[ParameterValue] | None
    why: Why  # MySQL answers it
    victim: int | None  # whose statement it kills


class PassThrough:
    """The statements of one session that MySQL answers. `several`: whether a text may hold several of them."""

    def __init__(self, context: SessionContext, relay: Relay, upstream: Upstream, bounds: Bounds) -> None:
        self.several = bool(context.capabilities & CLIENT_MULTI_STATEMENTS)
        self._context = context
        self._shared = context.shared
        self._state = context.state
        self._relay = relay
        self._upstream = upstream
        self._bounds = bounds
        self._passing: Passing | None = None
        self._exchange = Exchange(Kind.RESULT, self._passed)  # of all that nobody watches

    def ended(self) -> None:
        """The session is over."""
        self._exchange.done = nobody_is_told  # no cycle stays behind

    def statement(
        self,
        data: bytes,
        route: Route,
        why: Why,
        *,
        cache: str = "",
        values: Sequence[ParameterValue] | None = None,
        noted: bytes | None = None,
        watched: Callable[[Callable[[Outcome], None]], Exchange] | None = None,
    ) -> None:
        """MySQL answers a statement. `cache`: that it is for, and the `values` of its parameters. `noted`: the text of
        one that no cache is for. `watched`: makes the exchange, where more is to be learned from the answer."""
        relay, context, state, shared = self._relay, self._context, self._state, self._shared
        if not relay.server.alive:
            relay.lose()
            return
        now = state.transaction
        if now.begun and (not route.effects.bounds or now.begun_by):  # COMMIT AND CHAIN begins another one like it
            self._upstream.begin()
        if context.shown.began or context.last_hit.asked_by(route):
            self._before(route)
        executed = context.statements.get(data[5:9]) if data[4] == COM_STMT_EXECUTE else None
        if executed is not None:
            executed.note_session(state)
            self._upstream.show_owed(executed, data)
            data = executed.bound.for_mysql(data)
        elif route.effects.resolves:
            self._before_resolving(route)
        names = self._names(data) if route.effects.recodes else None
        within, autocommit = now.in_transaction, now.autocommit
        transactional = within or now.begun != 0 or not autocommit
        sent = Sent(transactional, autocommit, within, now.wrote, state.known, names)
        victim = None
        if route.statement.kind is StatementKind.KILL:
            victim = self._victim(data)
        key = 0 if noted is None else hash((noted, data[9:])) if executed is not None else hash(noted)
        self._passing = Passing(route, noted, sent, executed, key, perf_counter_ns(), cache, values, why, victim)
        now.vacant = False
        if not state.passed:
            # A text too large to be looked up, or one whose cache is being planned again, may be a cached read.
            state.passed = cache != "" or route.large or (why is NO_CACHE and shared.system.caches.rebuilding)
        context.note(PASSED, cache, why)
        shared.passed += 1
        if relay.client.out:
            relay.client.flush()
        relay.occupy()
        context.server_used_at = context.active_at
        effects = route.effects
        if effects.one_phase or (
            (effects.locks or effects.bounds) and (state.may_be_unlogged or state.variables.unlogged)
        ):
            shared.system.doubt()
        relay.server.send(data, self._exchange if watched is None else watched(self._passed))

    def _names(self, data: bytes) -> Names | None:
        """Of a lone SET NAMES; None for other commands."""
        return names_of(self._text(data))

    def _victim(self, data: bytes) -> int | None:
        """The number of the connection whose statement a KILL ends."""
        kill = kill_of(self._text(data))
        return kill.number if kill is not None and kill.query else None

    def _text(self, data: bytes) -> bytes:
        """Of a COM_QUERY without attributes; b"" of other commands."""
        if data[4] != COM_QUERY:
            return b""
        if not self._context.attributes:
            return data[5:]
        return data[7:] if data[5:7] == NO_ATTRIBUTES else b""

    def _passed(self, outcome: Outcome) -> None:
        """MySQL has answered the statement."""
        passing, state, context = self._passing, self._state, self._context
        assert passing is not None
        route, sent, failed = passing.route, passing.sent, outcome.status == NO_STATUS
        effects = route.effects
        self._relay.free()
        if passing.victim is not None and not failed:
            self._shared.sessions.interrupt(passing.victim)
        if passing.executed is not None:
            passing.executed.failed = failed
        if outcome.state and state.token:
            lacks_own_writes(state, self._shared)  # or they would gather in a session that never reads
        after(state, effects, sent, outcome)
        if not state.tells:
            after_statement(state, route.statement, effects, sent, outcome)
        self._note(passing)
        if context.shown.began:
            if ends_shown(state, effects, sent, failed=failed):
                context.shown.clear()
            elif effects.touches:
                self._upstream.compare_shown(opens_snapshot=effects.opens_snapshot and not failed)
        context.last_hit.passed(route, failed=failed, several=self.several, by_vtgate=not state.tells)
        told = state.hides_writes and not failed  # by the answer to this statement, of one before
        if (effects.locks or effects.bounds or told) and (state.may_be_unlogged or state.variables.unlogged):
            self._upstream.wrote_unlogged(schema=route.statement.kind is not StatementKind.WRITE)
        if effects.one_phase and not failed and not (effects.single and sent.in_transaction):
            # It was prepared: MySQL 9.7 writes no event of its end.
            self._upstream.wrote_unlogged(schema=False, cause="XA COMMIT ... ONE PHASE of a prepared transaction")
        if self._relay.commands.held:
            self._upstream.answered()

    def _note(self, passing: Passing) -> None:
        """What MySQL has answered is noted for who decides of caches."""
        state, noted = self._state, passing.route.noted
        took = (perf_counter_ns() - passing.at) / 1000
        if passing.noted is not None and noted is not None:
            why = unable(state, noted.needs, self._shared.options.transactions)
            values = state.variables.values if state.known else UNKNOWN
            if values is UNKNOWN and (why or noted.depends):
                state.asks_first = True  # what it has decides whether a cache is made
            noted.note(took, state.account, passing.noted, why, passing.key, values)
        elif passing.cache or noted is not None:
            self._shared.note_passed(passing.cache, passing.values, passing.why, took)

    @property
    def last_noted(self) -> tuple[str, StatementKind]:
        """The text of the last statement that no cache was for, "" where it has none, and its kind."""
        passing = self._passing
        if passing is None:
            return "", StatementKind.OTHER
        return (passing.noted or b"").decode("utf-8", "replace"), passing.route.statement.kind

    def bound_here(self, data: bytes, route: Route) -> bool:
        """Whether it was a BEGIN, COMMIT or ROLLBACK that MySQL need not hear of: it is answered."""
        answer = self._bounds.answer(data, route)
        if answer is not None:
            self._relay.client.answer(answer)
        return answer is not None

    # -- what MySQL must do before -------------------------------------------------------------------------------------

    def _before(self, route: Route) -> None:
        """What MySQL must do first, unseen by the client, so that the statement finds what it would find without
        Upwell."""
        hit, upstream = self._context.last_hit, self._upstream
        tells = self._state.tells
        if tells and hit.is_unseen and not self._context.shown.pinned:
            upstream.wait_for_shown()
        some, none = (FOUND, FOUND_NONE) if tells else (FOUND_BY_VTGATE, NONE_BY_VTGATE)
        found = none if hit.may_leave_none(route) and not self._state.transaction.one_shot else ""
        if route.statement.of_found:
            found = hit.found_text(upstream.text_of(hit.command), some, none)
        replays = route.statement.of_last and hit.command != b"" and not found
        if found:
            upstream.run(found, nobody_is_told)
            if hit.may_leave_none(route):
                upstream.run(COUNTS_NONE, nobody_is_told)
        elif replays:
            upstream.run_command(upstream.for_mysql(hit.command), upstream.replayed)
        hit.let_go(upstream.text_of(hit.command))
        if replays or route.effects.touches:
            upstream.compare_shown(opens_snapshot=replays)

    def _before_resolving(self, route: Route) -> None:
        """MySQL may resolve prepared statements otherwise behind this one: it must have seen what it has not. What runs
        ahead would be the last statement that this one asks about, or the one transaction that was set, or would open
        the snapshot of a transaction that has not read yet: then it is not shown."""
        now = self._state.transaction
        begins = now.transactional and not now.touched
        hidden = route.statement.of_last or now.one_shot != "" or begins
        for statement in self._context.statements.values():
            if hidden:
                statement.bound.resolve_unshown()
            else:
                self._upstream.show_owed(statement)
            if route.effects.recodes:
                statement.bound.recode()
