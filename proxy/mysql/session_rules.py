"""What a statement that MySQL has answered leaves of a session. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from proxy.api import ParameterValue
from proxy.mysql.responses import NO_STATUS, Outcome
from proxy.mysql.routes import Route
from proxy.mysql.session_state import SessionState

ROLLED_BACK = frozenset({1180, 1205, 1213, 1613, 1614, 3101})  # errors with which MySQL may roll a transaction back


@dataclass(slots=True)
class Passing:
    """A statement that MySQL is answering, and what the session was like when it was sent."""

    route: Route
    noted: bytes | None  # its text, where it is noted as one that no cache is for
    transactional: bool  # in a transaction, or with autocommit off
    autocommit: bool
    sent: int  # nanoseconds of `perf_counter_ns`
    # Of a read that a cache is for.
    cache: str = ""
    values: Sequence[ParameterValue] | None = None
    why: str = ""  # MySQL answers it


def follow(state: SessionState, passing: Passing, outcome: Outcome) -> None:
    """Takes over what MySQL tells in its answer, and what follows from the statement's kind. Raises Malformed."""
    route, failed = passing.route, outcome.status == NO_STATUS
    if not failed:
        state.on_status(outcome.status)
        if state.one_shot and state.eof:  # rows that end with EOF do not tell that its transaction has been
            state.known = False
    if outcome.state:
        state.on_trackers(outcome.state)
    if not failed and route.locks_tables is not None:
        state.locked = route.locks_tables
    if not failed and route.bounds:
        state.touched = state.wrote = False  # they were the transaction's before
        state.vacant = route.ends_only and not state.in_transaction
        state.begun = 0
    if route.touches and (state.in_transaction or (failed and (passing.transactional or route.error_hides))):
        state.touched = True
        state.wrote |= route.locks
    _settle_kind(state, passing, failed=failed)
    if outcome.error is not None and outcome.error.errno in ROLLED_BACK:
        state.known = False  # whether the transaction is over, is asked
    if failed or state.changed or not route.simple:
        _doubt(state, route, failed=failed)


def ends_shown(state: SessionState, passing: Passing, *, failed: bool) -> bool:
    """Whether the transaction may be over that the session was in when the statement was sent. Requires: `follow`."""
    route = passing.route
    ended = not failed and (route.ends or not state.in_transaction)
    return ended or route.ends_within or (not passing.autocommit and (state.autocommit or route.sets_autocommit))


def _settle_kind(state: SessionState, passing: Passing, *, failed: bool) -> None:
    """Whether it is known of what kind the next transaction is, and that no savepoint is set."""
    route = passing.route
    if state.kind_changed:
        state.kind_changed = False
        within = passing.transactional or state.in_transaction
        state.unsettled |= within or bool(route.statement.parts) or not route.simple
    if not failed and route.ends_only and state.values.get("completion_type") == "NO_CHAIN":
        state.unsettled = state.saved = False
    elif route.saves and (failed or not (state.in_transaction or state.autocommit)):
        state.saved = True


def _doubt(state: SessionState, route: Route, *, failed: bool) -> None:
    """The statement may have done what MySQL does not tell."""
    if route.tracks:
        state.tracks_changed = True
        state.set_tracks |= route.tracks
    unknown_rows = route.statement.calls_unknown and state.eof and not route.calls
    if unknown_rows or (failed and route.error_hides):
        state.known = state.token_known = False  # an error tells nothing, nor do rows that end with EOF
    elif route.unsettles:
        state.known = False
        if route.sets_roles and not failed:
            state.note_rights(roles=True)
    state.hiding |= route.hides_tables or (state.changed and not route.changes_state)
    if state.hiding:
        state.not_hidden.clear()
    state.changed = False
