"""Whether a session's read may be answered by a cache, and the hits of a transaction. Pure.

A hit shows the newest state that the stream has brought. Outside of a transaction that is what MySQL promises. READ
COMMITTED shows each statement the newest state. REPEATABLE READ shows all statements of a transaction one state. That
transaction stands at the newest position at which all that it was shown is the answer (`Shown`). A hit is given where
the answer is known to be the same there: it was shown before, or nothing of it has changed since. Once MySQL has opened
its own snapshot for the transaction (a read that was passed through), only what was shown before is shown from memory.
Once the transaction has written or locked rows, all of it is MySQL's.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from proxy.api import ParameterValue
from proxy.mysql.session_state import SessionState
from proxy.mysql.shown import SHOWN_BYTES, SHOWN_KEYS, Command, Said, Shown

AGAIN = "the REPEATABLE READ transaction was shown this before"
UNCHANGED = "in a REPEATABLE READ transaction: unchanged since the state that it was shown"
OPEN = "the REPEATABLE READ transaction has its snapshot at MySQL"
CHANGED = "what the REPEATABLE READ transaction was shown has changed"
FULL = (
    f"the REPEATABLE READ transaction was shown all that is remembered of one, {SHOWN_KEYS} keys or {SHOWN_BYTES} bytes"
)
UNSETTLED = "the kind of transactions was changed in one, and MySQL has not ended a statement outside of it since"
MISFLAGGED = "the session began with autocommit off, of which MySQL's flags do not tell until it is set"
SAVED = "a savepoint may have been set, and no transaction has begun at MySQL since"
COMMITTED = frozenset({"READ-COMMITTED", "READ-UNCOMMITTED"})


class Transactions(Enum):
    """`--transactions`. ON: as described above. STRICT: no hit in a REPEATABLE READ transaction. OFF: in none."""

    ON = "on"
    STRICT = "strict"
    OFF = "off"


def refusal(state: SessionState, needs: frozenset[str]) -> str:
    """What of the session's state, beside transactions, keeps a query from being answered by a cache; "" if nothing
    does. Requires: `state.known`."""
    if state.locks or state.locked:
        return "the session has locked tables"
    if state.one_shot:
        return "SET TRANSACTION is in force for the next transaction"
    if state.misflagged:
        return MISFLAGGED
    if state.unsettled:
        return UNSETTLED
    if state.saved:
        return SAVED
    return state.differing(needs)


def transaction_rule(
    state: SessionState, mode: Transactions, shown: Shown, parameters: Sequence[ParameterValue], *, again: bool
) -> str:
    """Which rule keeps a read of a transaction from being a hit; "" if none does. `again`: it was shown this before.

    Requires: the session has autocommit off or is in a transaction.
    """
    if mode is Transactions.OFF:
        return "in a transaction, and --transactions=off"
    isolation = state.values.get("transaction_isolation", "")
    if isolation == "SERIALIZABLE":
        return "in a SERIALIZABLE transaction"
    if state.wrote:
        return "the transaction may have written or locked rows"
    if isolation in COMMITTED and not shown.answers:  # which are of a transaction that began in REPEATABLE READ
        return ""
    if mode is Transactions.STRICT:
        return "in a REPEATABLE READ transaction, and --transactions=strict"
    if again:
        return ""
    if state.touched:
        return OPEN
    return FULL if shown.full(parameters) else ""


def said_again(
    state: SessionState, mode: Transactions, shown: Shown, command: Command, rights: tuple[object, ...]
) -> Said | None:
    """What the transaction was answered to the same command, where it may be shown that again; else None. `rights`: of
    now, as in `Said`. Requires: `state.known`."""
    if not state.under_way:
        shown.clear()
    said = shown.said.get(command)
    if (
        said is None
        or not state.transactional
        or state.narrow
        or (state.hiding and not said.relations <= state.not_hidden)
        or said.rights != rights
        or refusal(state, said.needs)
        or transaction_rule(state, mode, shown, (), again=True)
    ):
        return None
    return said


def one_state(state: SessionState, shown: Shown) -> bool:
    """Whether all that the transaction is shown must be one state."""
    return state.transactional and (
        bool(shown.answers) or state.values.get("transaction_isolation", "") not in COMMITTED
    )


def ends_here(state: SessionState) -> bool:
    """Whether COMMIT and ROLLBACK have nothing to end at MySQL, and would do nothing else there."""
    return (
        state.vacant
        and state.known
        and not (state.in_transaction or state.one_shot or state.locks or state.unsettled or state.saved)
        and state.values.get("completion_type") == "NO_CHAIN"
    )


def hit_rule(state: SessionState) -> str:
    """Which rule let a hit through: the reason that EXPLAIN LAST STATEMENT gives."""
    if state.autocommit and not state.in_transaction:
        return ""
    if state.values.get("transaction_isolation", "") in COMMITTED:
        return "in a READ COMMITTED transaction that has not written"
    return "in a REPEATABLE READ transaction: all that it was shown is one state"
