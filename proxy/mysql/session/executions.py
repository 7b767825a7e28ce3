"""Executions of prepared statements: for which cache each is, and with which values."""

from __future__ import annotations

from dataclasses import dataclass

from proxy.mysql.reads.announced import definitions_in
from proxy.mysql.reads.bound_types import BY_CURSOR, CURSOR
from proxy.mysql.reads.gate import READ_OTHERWISE
from proxy.mysql.reads.prepared_statement import PreparedStatement
from proxy.mysql.reads.routes import NO_CACHE, Target
from proxy.mysql.session.shared import Shared
from proxy.mysql.state.session_state import SessionState
from proxy.mysql.wire.bound_values import NotDecoded
from proxy.mysql.wire.packets import Malformed
from proxy.port.api import ParameterValue
from proxy.port.reasons import NO_REASON, Reason, Why
from sqltypes.errors import UpwellError
from sqltypes.expression import Value


@dataclass(slots=True)
class Execution:
    """What an execution asks for."""

    target: Target
    why: Why = NO_REASON  # it is no read of a cache
    given: tuple[Value, ...] = ()  # the statement's values, where they were looked at
    values: tuple[ParameterValue, ...] | None = None  # those of the cache's parameters, where it is a read of one


class Executions:
    """Looks at the executions of a session. `eof`: its rows end with EOF."""

    def __init__(self, shared: Shared, state: SessionState, *, eof: bool) -> None:
        self._shared = shared
        self._state = state
        self._eof = eof

    def look(self, statement: PreparedStatement, data: bytes, *, again: bool) -> Execution:
        """What the execution asks for, and notes what it binds. `data`: its packet with the header, of 14 bytes at
        least. `again`: the transaction may have been shown its answer, so its values are wanted for no cache, too."""
        target, bound = self._target(statement), statement.bound
        if data[9] & CURSOR:
            bound.turn(BY_CURSOR)
        found = Execution(target, target.why or bound.turned)
        bound.fits = False
        try:
            self._bind(found, statement, data, again=again)
        except NotDecoded as reason:
            found.why = Reason.PARAMETERS.why(str(reason))
        except Malformed as reason:  # MySQL says what it thinks of it
            found.why = Reason.PARAMETERS.why(str(reason))
            bound.types = None
        except UpwellError as error:
            found.why = self._shared.note_fault("an execution", error, text=repr(statement.text)[:2000])
        return found

    def _bind(self, found: Execution, statement: PreparedStatement, data: bytes, *, again: bool) -> None:
        """Fills in the values. Raises NotDecoded, Malformed, UpwellError."""
        bound, target = statement.bound, found.target
        if found.why is NO_CACHE and again and not bound.turned:
            found.given = bound.values(data[4:])
        elif found.why:
            if bound.binds(data) and not (bound.turned and bound.told):
                bound.note(data[4:])
        else:
            before = bound.types
            found.given = bound.values(data[4:])
            found.why = target.resolved_otherwise(statement)
            if b"\\" in data and self._state.variables.escapes(data, statement.differed):
                found.why = READ_OTHERWISE
            if not found.why:
                values = target.bind(found.given, statement)
                if target.cache is not None and target.cache.moments.clocks is not None:
                    values = tuple(target.cache.moments.in_utc(values))
                target.learn(before, data[9:], found.given, values, statement)
                found.values = values

    def _target(self, statement: PreparedStatement) -> Target:
        """For which cache it is, as of now."""
        shared, target = self._shared, statement.target
        hint = self._state.hint
        if hint is None:  # not known: the gate asks
            hint = statement.hinted
        clocks = self._state.variables.clocks
        if (
            not isinstance(target, Target)
            or target.version != shared.system.caches.version
            or statement.hinted != hint
            or statement.clocks is not clocks
        ):
            target = statement.target = self._in_its_mode(statement, hint)
            statement.hinted, statement.clocks = hint, clocks
            self._announce(statement, target)
        if not target.route.by_clock:
            return target
        now = shared.texts.by_clock(statement.text, self._state)
        if now is None or now.first != now.last:
            return target
        target = self._in_its_mode(statement, hint, now.first)
        self._announce(statement, target)
        return target

    def _in_its_mode(self, statement: PreparedStatement, hint: bytes, now: bytes | None = None) -> Target:
        """The target of the text as it is or, where the session's sql_mode counts, of the one with this hint."""
        clocks = self._state.variables.clocks
        plain = self._shared.texts.target(statement, eof=self._eof, now=now, clocks=clocks)
        assert plain is not None
        texts, cache = self._shared.texts, plain.cache
        if not (texts.may_have(hint) if cache is None else hint and self._state.variables.differing(cache.needs)):
            return plain
        return texts.target(statement, eof=self._eof, now=now, hint=hint, clocks=clocks) or plain

    def _announce(self, statement: PreparedStatement, target: Target) -> None:
        """The statement may be for another cache than before, or for another plan of it."""
        headed = target.cache, None if target.cache is None else target.cache.generation
        if headed == statement.headed:
            return
        statement.headed = headed
        statement.heads.clear()
        announces, version = statement.announced
        if target.cache is not None and announces is not None and version == target.version:
            found = self._shared.announced.of(
                target.cache, definitions_in(statement.answer, eof=self._eof),
                binary=True, eof=self._eof, told=announces, resolved=statement.resolved,
            )  # fmt: skip
            statement.heads.learn(announces, target.cache, target.cache.generation, found)
