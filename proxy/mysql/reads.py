"""Whether a session's read may be answered by a cache, and the hits of a transaction. Pure but for calls of a cache.

A hit shows the newest state that the stream has brought. Outside of a transaction that is what MySQL promises. READ
COMMITTED shows each statement the newest state. REPEATABLE READ shows all statements of a transaction one state. That
transaction stands at the newest position at which all that it was shown is the answer (`Shown`). A hit is given where
the answer is known to be the same there: it was shown before, or nothing of it has changed since. Once MySQL has opened
its own snapshot for the transaction (a read that was passed through), only what was shown before is shown from memory.
Once the transaction has written or locked rows, all of it is MySQL's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from proxy.api import ParameterValue, SessionCache
from proxy.keys import keys_in
from proxy.mysql.session_state import SessionState

if TYPE_CHECKING:
    from proxy.mysql.routes import Target

SHOWN_KEYS, SHOWN_BYTES = 1000, 1 << 20
"""Of one transaction's answers that are remembered. What is read beyond them is MySQL's: they are looked at again after
each event of the stream, 1,000 keys in 2 to 5 ms."""
AGAIN = "the REPEATABLE READ transaction was shown this before"
UNCHANGED = "in a REPEATABLE READ transaction: unchanged since the state that it was shown"
OPEN = "the REPEATABLE READ transaction has its snapshot at MySQL"
CHANGED = "what the REPEATABLE READ transaction was shown has changed"
FULL = (
    f"the REPEATABLE READ transaction was shown all that is remembered of one, {SHOWN_KEYS} keys or {SHOWN_BYTES} bytes"
)
UNSETTLED = "the kind of transactions was changed in one, and MySQL has not ended a statement outside of it since"
SAVED = "a savepoint may have been set, and no transaction has begun at MySQL since"
COMMITTED = frozenset({"READ-COMMITTED", "READ-UNCOMMITTED"})


class Transactions(Enum):
    """`--transactions`. ON: as described above. STRICT: no hit in a REPEATABLE READ transaction. OFF: in none."""

    ON = "on"
    STRICT = "strict"
    OFF = "off"


Asked = tuple[SessionCache, int, tuple[ParameterValue, ...], tuple[object, ...]]
"""What was asked: 1 and 1.0 are equal, and may be asked for with different results. With the plan that it was asked of:
after another one the columns are others."""


def _asked(cache: SessionCache, parameters: Sequence[ParameterValue]) -> Asked:
    types = tuple(tuple(map(type, value)) if isinstance(value, tuple) else type(value) for value in parameters)
    return cache, cache.generation, tuple(parameters), types


Command = tuple[bytes, object, str, object]
"""A read as the client sent it: a digest of its text, what is bound to it and the statement that it is bound to, the
database, and by what the columns are announced."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a hit has answered, and what the session and its account had to be for that. `rights`: of accounts and of
    this session, as `Grants` has them. `target`: what a prepared statement was for."""

    head: bytes
    body: bytes
    cache: str
    needs: frozenset[str]
    relations: frozenset[tuple[str, str]]
    rights: tuple[object, ...]
    target: Target | None = None


@dataclass(slots=True)
class Shown:
    """What hits have shown one transaction, and where it stands.

    `answers`: the bytes that were shown. `said`: the same, by the command: they outlive their cache. `position`,
    `sequence`: the newest position, and its number, at which all of them are known to be the answers. `settled`: MySQL
    has a snapshot of its own for the transaction, or it was found that this will be another state. `keys`, `size` in
    bytes: of all answers together.
    """

    answers: dict[Asked, bytes] = field(default_factory=dict)
    said: dict[Command, Said] = field(default_factory=dict)
    keys: int = 0
    size: int = 0
    position: str = ""
    sequence: int = 0
    settled: bool = False

    def note(self, cache: SessionCache, parameters: Sequence[ParameterValue], body: bytes) -> None:
        """A hit was given, which is the answer at `sequence`."""
        asked = _asked(cache, parameters)
        if asked not in self.answers:
            self.keys += keys_in(parameters)
            self.size += len(body)
        self.answers[asked] = body

    def say(self, command: Command, said: Said) -> None:
        """It has been said. Of many ways to ask the same not all are remembered."""
        if len(self.said) < SHOWN_KEYS:
            self.said[command] = said

    def again(self, cache: SessionCache, parameters: Sequence[ParameterValue]) -> bytes | None:
        """What was shown for this before."""
        return self.answers.get(_asked(cache, parameters)) if self.answers else None

    def holds(self, sequence: int, position: str) -> bool:
        """Is every answer that was shown still the answer at the position of now? No where that cannot be told: a key
        that was evicted. Where it is, the transaction stands there."""
        if (
            self.answers
            and sequence != self.sequence
            and any(cache.peek(parameters) != body for (cache, _, parameters, _), body in self.answers.items())
        ):
            return False
        self.sequence, self.position = sequence, position
        return True

    def full(self, parameters: Sequence[ParameterValue]) -> bool:
        """Whether no answer to these can be remembered, too. The first one always can."""
        return bool(self.answers) and (self.keys + keys_in(parameters) > SHOWN_KEYS or self.size > SHOWN_BYTES)

    def clear(self) -> None:
        self.settled = False
        if self.answers:
            self.answers.clear()
            self.said.clear()
            self.keys = self.size = 0


def refusal(state: SessionState, needs: frozenset[str]) -> str:
    """What of the session's state, beside transactions, keeps a query from being answered by a cache; "" if nothing
    does. Requires: `state.known`."""
    if state.locks or state.locked:
        return "the session has locked tables"
    if state.one_shot:
        return "SET TRANSACTION is in force for the next transaction"
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
