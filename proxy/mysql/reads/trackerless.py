"""A session at a server that has no session trackers, as vtgate has none. What they would tell is asked for, before the
next read that may be a hit.

 what went there               | what follows
-------------------------------+-----------------------------------------------------------------------------------------
 a read                        | nothing; in a transaction, that it has touched tables
 SET                           | the session's variables are asked for
 SET workload                  | nothing is a hit any more: with `olap` vtgate's flags are of before. (A session may
                               | begin so: it is asked for with the variables. COM_RESET_CONNECTION leaves it.)
 USE, and what is not known to | likewise, and its database, before the next command is looked at: which tables it is
 leave the database            | about depends on that
 what may have written, once   | how far the source has come is asked for: the session's own writes are among that
 no transaction is under way   |
 COMMIT, ROLLBACK, and what    | likewise, where the transaction may have written
 else ends a transaction       |
 what may write or lock in a   | the transaction has written
 transaction                   |
 an error                      | both is asked for; of a transaction, that it has written

In a transaction the session is asked nothing, for that would be a part of it: it is asked before BEGIN. vtgate's flags
tell whether one is under way. What a statement may do there its text tells, as far as it is known.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from gtid_tracker.bracket import History
from gtid_tracker.gtid import GtidSet
from proxy.mysql.reads.cached_read import CachedRead
from proxy.mysql.state.effects import Effects
from proxy.mysql.state.session_rules import Sent
from proxy.mysql.state.session_state import SessionState
from proxy.mysql.state.session_variables import PINNED_VALUES, ROW_LIMIT, switched_on
from proxy.mysql.text.statement_kind import Kind, Statement
from proxy.mysql.wire.packets import (
    COM_PING,
    COM_SET_OPTION,
    COM_STMT_CLOSE,
    COM_STMT_PREPARE,
    COM_STMT_RESET,
)
from proxy.mysql.wire.responses import NO_STATUS, Outcome
from proxy.port.reasons import NO_REASON, Reason, Why

Positions = Callable[[], Awaitable[tuple[History, GtidSet, GtidSet, str]]]
"""Asks the source which GTIDs it owns, and then what it has executed: the second value and the third."""

LEAVES_ALL = frozenset({
    Kind.READ, Kind.LOCKING_READ, Kind.WRITE, Kind.HARMLESS, Kind.BEGIN, Kind.SAVEPOINT, Kind.COMMIT, Kind.ROLLBACK,
})  # fmt: skip
"""Statements that leave the session's variables and its database as they are, where they call nothing unknown."""
KEEPS_DATABASE = LEAVES_ALL | {Kind.SET, Kind.UNLOCK_TABLES, Kind.KILL, Kind.PREPARE}
TELLING = frozenset({COM_PING, COM_STMT_PREPARE, COM_STMT_RESET, COM_STMT_CLOSE})
OLD_FLAGS = TELLING | {COM_SET_OPTION}
"""Commands that leave them as they are. The flags in vtgate's OK are of the last statement that has not failed."""
WORKLOAD = "workload"
"""vtgate's variable. Where it is `olap`, vtgate's flags are those of before the statement that they stand behind."""
FLAGS_AT_ONCE = frozenset({"OLTP", "UNSPECIFIED"})  # its values, as it tells them, where they are not
UNLIMITED = "0"  # vtgate's sql_select_limit where there is none
RESOLVED_ANEW = Reason.SETTING.why(
    "prepared in another keyspace than the session's, and vtgate resolves it in this one"
)
OTHER_BYTES = Reason.COLUMNS.why(
    "prepared, and vtgate sends a FLOAT as its six digits are, a VECTOR without its length"
)
SENT_OTHERWISE = frozenset({"float", "vector"})
FLAGS_LAG = Reason.SETTING.why(
    "the session has set `workload`, and vtgate does not tell at once what a statement has done there"
)
NOT_TOLD_OF = Reason.TRANSACTION.why("in a transaction, and vtgate does not tell what the session is like by now")


def after_statement(state: SessionState, statement: Statement, effects: Effects, sent: Sent, outcome: Outcome) -> None:
    """What follows from a statement that has been answered. Requires: `session_rules.after` was told of it."""
    kind, failed = statement.kind, outcome.status == NO_STATUS
    set_ = [one.name for part in (statement, *statement.parts) for one in part.settings or ()]
    state.flags_lag |= WORKLOAD in set_ or (kind is Kind.SET and statement.settings is None)
    if failed and (sent.transactional or state.transaction.in_transaction):
        state.transaction.touched = state.transaction.wrote = True
    ended = sent.wrote and (effects.ends or not state.transaction.in_transaction)
    if failed or ended or (effects.touches and effects.locks and not state.transaction.in_transaction):
        state.token_known = False
    if not state.variables.values:  # they were asked for in vain
        state.known = state.token_known = False
    if failed or effects.calls_unknown or kind not in LEAVES_ALL:
        state.known = False
    state.asks_first |= kind not in KEEPS_DATABASE


def after_command(state: SessionState, command: int) -> None:
    """What follows from a command that is no statement."""
    if not state.variables.values:
        state.known = state.token_known = False
    if command not in TELLING:
        state.known, state.asks_first = False, True


def learned(state: SessionState) -> None:
    """The session's variables are known: as they are asked for again where they may have changed, they count as told.
    Requires: `SessionState.learn`."""
    state.variables.values.update(switched_on({}))
    if state.variables.values.get(ROW_LIMIT) == UNLIMITED:
        state.variables.values[ROW_LIMIT] = PINNED_VALUES[ROW_LIMIT]
    state.variables.note_values()


def before_vtgate(read: CachedRead, state: SessionState) -> Why:
    """Why vtgate is to answer, "" if nothing says so: where its flags tell nothing, in a transaction of a session that
    cannot be asked what it is like, where a statement is about the tables of another keyspace by now, and where vtgate
    sends another value than MySQL."""
    if state.flags_lag:
        return FLAGS_LAG
    if not state.known and not state.askable:
        return NOT_TOLD_OF
    if state.known and read.database != state.database:
        read.announced = None  # what vtgate announces then is of that one
        return RESOLVED_ANEW
    if read.target is not None and any(column.type.name in SENT_OTHERWISE for column in read.cache.columns):
        return OTHER_BYTES
    return NO_REASON
