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
    failed, transaction = outcome.status == NO_STATUS, state.transaction
    if not failed:
        transaction.on_status(outcome.status)
        if state.variables.eof:
            _miss_what_rows_hide(state, effects, sent, told=outcome.state != b"")
    if outcome.state:
        state.on_trackers(outcome.state)
    if not failed and effects.table_locks is not None:
        transaction.locked = effects.table_locks
    if not failed and effects.bounds:
        transaction.touched = transaction.wrote = False  # they were the transaction's before
        transaction.vacant = effects.ends_only and not transaction.in_transaction
        transaction.begun, transaction.begun_by = 0, ""
        transaction.beyond = False
    transaction.beyond |= effects.calls_unknown
    if effects.touches and (transaction.in_transaction or (failed and (sent.transactional or effects.error_hides))):
        transaction.touched = True
        transaction.wrote |= effects.locks
    if transaction.kind_changed or effects.ends_only or effects.saves:
        _settle_kind(state, effects, sent, failed=failed)
    if sent.names is not None and sent.known and not failed and not transaction.one_shot:
        state.named(sent.names)
    elif failed or effects.recodes or not effects.simple:
        state.names = None
    if effects.sets:
        transaction.numbered |= "gtid_next" in effects.sets
        state.variables.own_clock |= "timestamp" in effects.sets
    if failed or state.tracks.reported or not effects.simple:
        _doubt(state, effects, outcome.error, failed=failed)


def untold(state: SessionState) -> None:
    """A statement goes to MySQL while its trackers may be off: it may do anything of which they alone would tell."""
    state.known = state.token_known = False
    state.hiding = state.transaction.unsettled = state.transaction.locked = True
    state.not_hidden.clear()


def ends_shown(state: SessionState, effects: Effects, sent: Sent, *, failed: bool) -> bool:
    """Whether the transaction may be over that the session was in when the statement was sent. Requires: `after`."""
    transaction = state.transaction
    ended = not failed and (effects.ends or not transaction.in_transaction)
    switched = transaction.autocommit or (effects.several and "autocommit" in effects.sets)
    return ended or effects.ends_within or (not sent.autocommit and switched)


def _miss_what_rows_hide(state: SessionState, effects: Effects, sent: Sent, *, told: bool) -> None:
    """Rows that end with EOF carry no session state: what they may hide is asked for. `told`: some part of the answer
    has told something. ANALYZE TABLE and its like commit, and answer with rows."""
    if state.transaction.one_shot:  # its transaction may be over
        state.known = False
    if effects.several:
        state.token_known &= not effects.ends_within
    elif sent.wrote and not (state.transaction.in_transaction or told or effects.bounds):
        state.token_known = False


def _settle_kind(state: SessionState, effects: Effects, sent: Sent, *, failed: bool) -> None:
    """Whether it is known of what kind the next transaction is, and that no savepoint is set."""
    transaction = state.transaction
    if transaction.kind_changed:
        transaction.kind_changed = False
        within = sent.transactional or transaction.in_transaction
        alone = effects.sets_only or (effects.simple and not effects.several)
        transaction.unsettled |= within or not alone
    if not failed and effects.ends_only and state.variables.values.get("completion_type") == "NO_CHAIN":
        transaction.unsettled = transaction.saved = False
    elif effects.saves and (failed or not (transaction.in_transaction or transaction.autocommit)):
        transaction.saved = True


def _doubt(state: SessionState, effects: Effects, error: ErrorAnswer | None, *, failed: bool) -> None:
    """The statement may have done what MySQL does not tell."""
    if error is not None and error.errno in ROLLED_BACK:
        state.known = False  # whether the transaction is over, is asked
    if tracks := {name for name in effects.sets if name.startswith("session_track")}:
        state.tracks.changed = True
        if not failed:  # else none of them is set
            state.tracks.set_ |= tracks
    state.variables.own_clock |= state.tracks.renewed and not effects.simple
    state.hides_writes |= failed and effects.procedures
    if effects.calls_unknown or "role" in effects.sets:
        state.doubt_rights()
        state.role_set = not effects.calls_unknown and (state.role_set or not failed)
    untold_of = failed and (effects.error_hides or effects.triggers)
    if untold_of or (effects.calls_unknown and state.variables.eof):
        state.known = state.token_known = False  # an error tells nothing, nor do rows that end with EOF
        state.variables.marks = ALL_MARKS
    elif effects.unsettles:
        state.known = False
    hides = effects.hides_tables or (state.tracks.reported and not effects.explained)
    state.hiding |= hides
    if hides or untold_of or not effects.simple:
        state.not_hidden.clear()
    state.tracks.reported = False
