"""What a statement that MySQL has answered leaves of a session. Pure.

the text -> effects_of -> Effects ---+
the session, as it was sent -> Sent -+-> after -> the session, as it is now
MySQL's answer -> Outcome -----------+
"""

from __future__ import annotations

from typing import NamedTuple

from proxy.mysql.state.effects import Effects
from proxy.mysql.state.session_state import SessionState
from proxy.mysql.state.set_names import Names
from proxy.mysql.state.sql_modes import ALL_MARKS
from proxy.mysql.wire.packets import ErrorAnswer
from proxy.mysql.wire.responses import NO_STATUS, Outcome

ROLLED_BACK = frozenset({1180, 1205, 1213, 1613, 1614, 3101})  # errors with which MySQL may roll a transaction back


class Sent(NamedTuple):
    """What a session was like when the statement was sent."""

    transactional: bool  # in a transaction, or with autocommit off
    autocommit: bool
    in_transaction: bool = False  # in one, by MySQL's flags
    wrote: bool = False  # in one that may have written
    known: bool = False  # what it is like
    names: Names | None = None  # the statement is a lone SET NAMES


def after(state: SessionState, effects: Effects, sent: Sent, outcome: Outcome) -> None:
    """Takes over what MySQL tells in its answer, and what follows from the statement. Raises Malformed."""
    failed = outcome.status == NO_STATUS
    if not failed:
        state.on_status(outcome.status)
        if state.eof:
            _miss_what_rows_hide(state, effects, sent, told=outcome.state != b"")
    if outcome.state:
        state.on_trackers(outcome.state)
    if not failed and effects.table_locks is not None:
        state.locked = effects.table_locks
    if not failed and effects.bounds:
        state.touched = state.wrote = False  # they were the transaction's before
        state.vacant = effects.ends_only and not state.in_transaction
        state.begun, state.begun_by = 0, ""
        state.beyond = False
    state.beyond |= effects.calls_unknown
    state.numbered |= effects.numbers
    if effects.touches and (state.in_transaction or (failed and (sent.transactional or effects.error_hides))):
        state.touched = True
        state.wrote |= effects.locks
    if state.kind_changed or effects.ends_only or effects.saves:
        _settle_kind(state, effects, sent, failed=failed)
    if sent.names is not None and sent.known and not failed and not state.one_shot:
        state.named(sent.names)
    elif failed or effects.recodes or not effects.simple:
        state.names = None
    if effects.sets_clock or (state.renewed and not effects.simple):
        state.own_clock = True
    if failed or state.changed or not effects.simple:
        _doubt(state, effects, outcome.error, failed=failed)


def untold(state: SessionState) -> None:
    """A statement goes to MySQL while its trackers may be off: it may do anything of which they alone would tell."""
    state.known = state.token_known = False
    state.hiding = state.unsettled = state.locked = True
    state.not_hidden.clear()


def ends_shown(state: SessionState, effects: Effects, sent: Sent, *, failed: bool) -> bool:
    """Whether the transaction may be over that the session was in when the statement was sent. Requires: `after`."""
    ended = not failed and (effects.ends or not state.in_transaction)
    return ended or effects.ends_within or (not sent.autocommit and (state.autocommit or effects.sets_autocommit))


def _miss_what_rows_hide(state: SessionState, effects: Effects, sent: Sent, *, told: bool) -> None:
    """Rows that end with EOF carry no session state: what they may hide is asked for. `told`: some part of the answer
    has told something. ANALYZE TABLE and its like commit, and answer with rows."""
    if state.one_shot:  # its transaction may be over
        state.known = False
    if effects.several:
        if effects.commits_within and (sent.wrote or effects.locks_within):
            state.token_known = False
    elif sent.wrote and not (state.in_transaction or told or effects.bounds):
        state.token_known = False


def _settle_kind(state: SessionState, effects: Effects, sent: Sent, *, failed: bool) -> None:
    """Whether it is known of what kind the next transaction is, and that no savepoint is set."""
    if state.kind_changed:
        state.kind_changed = False
        within = sent.transactional or state.in_transaction
        state.unsettled |= within or not (effects.sets_only or (effects.simple and not effects.several))
    if not failed and effects.ends_only and state.values.get("completion_type") == "NO_CHAIN":
        state.unsettled = state.saved = False
    elif effects.saves and (failed or not (state.in_transaction or state.autocommit)):
        state.saved = True


def _doubt(state: SessionState, effects: Effects, error: ErrorAnswer | None, *, failed: bool) -> None:
    """The statement may have done what MySQL does not tell."""
    if error is not None and error.errno in ROLLED_BACK:
        state.known = False  # whether the transaction is over, is asked
    if effects.tracks:
        state.tracks_changed = True
        if not failed:  # else none of them is set
            state.set_tracks |= effects.tracks
    state.hides_writes |= failed and effects.procedures
    if effects.calls_unknown or effects.sets_roles:
        state.doubt_rights()
        state.role_set = not effects.calls_unknown and (state.role_set or not failed)
    unknown_rows = effects.calls_unknown and state.eof and not effects.calls
    if unknown_rows or (failed and (effects.error_hides or effects.triggers)):
        state.known = state.token_known = False  # an error tells nothing, nor do rows that end with EOF
        state.marks = ALL_MARKS
    elif effects.unsettles:
        state.known = False
    hides = effects.hides_tables or (state.changed and not effects.explained)
    state.hiding |= hides
    if hides or not effects.simple or (failed and (effects.error_hides or effects.triggers)):
        state.not_hidden.clear()
    state.changed = False
