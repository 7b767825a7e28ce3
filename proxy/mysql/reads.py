"""Whether a session's read may be answered by a cache, and the hits of a transaction. Pure but for calls of a cache.

A hit shows the newest state that the stream has brought. Outside of a transaction that is what MySQL promises. Inside
one, what was shown before counts: READ COMMITTED shows each statement the newest state; REPEATABLE READ shows all of
them one state, so a hit is given only while every answer that the transaction was shown is still the answer. Once MySQL
has opened its own snapshot for the transaction (a read that was passed through), or written or locked rows, the
transaction is MySQL's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from proxy.api import ParameterValue, SessionCache
from proxy.mysql.session_state import SessionState

SHOWN = 1000
"""Answers of one transaction that are remembered; a transaction that has read more is MySQL's."""
COMMITTED = frozenset({"READ-COMMITTED", "READ-UNCOMMITTED"})


class Transactions(Enum):
    """`--transactions`. ON: as described above. STRICT: no hit in a REPEATABLE READ transaction. OFF: in none."""

    ON = "on"
    STRICT = "strict"
    OFF = "off"


@dataclass(slots=True)
class Shown:
    """What hits have shown one transaction: by cache and parameters, the bytes. `position`: at which all of it was the
    answer. `settled`: MySQL has a snapshot of its own for the transaction, or it was found that it will be another
    state."""

    answers: dict[tuple[SessionCache, tuple[ParameterValue, ...]], bytes] = field(default_factory=dict)
    position: str = ""
    settled: bool = False

    def note(self, cache: SessionCache, parameters: Sequence[ParameterValue], body: bytes, position: str) -> None:
        """A hit was given. Requires: `holds(position)`."""
        self.answers[cache, tuple(parameters)] = body
        self.position = position

    def holds(self, position: str) -> bool:
        """Is every answer that was shown still the answer? No where that cannot be told: a key that was evicted."""
        if not self.answers or position is self.position:
            return True
        if any(cache.peek(parameters) != body for (cache, parameters), body in self.answers.items()):
            return False
        self.position = position
        return True

    def clear(self) -> None:
        self.settled = False
        if self.answers:
            self.answers.clear()


def refusal(state: SessionState, needs: frozenset[str]) -> str:
    """What of the session's state, beside transactions, keeps a query from being answered by a cache; "" if nothing
    does. Requires: `state.known`."""
    if state.locks or state.locked:
        return "the session has locked tables"
    if state.one_shot:
        return "SET TRANSACTION is in force for the next transaction"
    return state.differing(needs)


def transaction_rule(state: SessionState, mode: Transactions, shown: Shown, position: str) -> str:
    """Which rule keeps a read of a transaction from being a hit; "" if none does.

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
    if state.touched:
        return "the REPEATABLE READ transaction has its snapshot at MySQL"
    if len(shown.answers) >= SHOWN:
        return f"the REPEATABLE READ transaction was shown {SHOWN} answers"
    if not shown.holds(position):
        return "what the REPEATABLE READ transaction was shown has changed"
    return ""


def ends_here(state: SessionState) -> bool:
    """Whether COMMIT and ROLLBACK have nothing to end at MySQL, and would do nothing else there."""
    return (
        state.vacant
        and state.known
        and not (state.in_transaction or state.one_shot or state.locks)
        and state.values.get("completion_type") == "NO_CHAIN"
    )


def hit_rule(state: SessionState) -> str:
    """Which rule let a hit through: the reason that EXPLAIN LAST STATEMENT gives."""
    if state.autocommit and not state.in_transaction:
        return ""
    if state.values.get("transaction_isolation", "") in COMMITTED:
        return "in a READ COMMITTED transaction that has not written"
    return "in a REPEATABLE READ transaction: all that it was shown is one state"
