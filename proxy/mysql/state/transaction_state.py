"""What is known of a session's transaction: MySQL's flags, and what statements have done in it. Pure.

Invariants:
1. `touched` and `wrote` are False outside of a transaction, once the session is known.
2. A transaction has begun here (`begun`) or at MySQL (`in_transaction`), not both.
"""

from __future__ import annotations

from dataclasses import dataclass

from proxy.mysql.wire.packets import (
    STATUS_AUTOCOMMIT,
    STATUS_IN_TRANS,
    STATUS_IN_TRANS_READONLY,
    STATUS_OF_SESSION,
)


@dataclass(slots=True)
class TransactionState:
    """Of one session."""

    flags: int = STATUS_AUTOCOMMIT  # of MySQL's last answer, those that go on to the next one
    autocommit: bool = True
    # It is off, and MySQL's flags say that it is on, as they do in a session that began with it off until it is set.
    misflagged: bool = False
    in_transaction: bool = False
    begun: int = 0  # the flags of a transaction that has begun here, with a hit or a BEGIN: MySQL knows nothing of it
    begun_by: str = ""  # what MySQL is sent for the client's BEGIN, once it must know
    # Something has been executed that may be no statement of a transaction that is known here (XA), since MySQL has
    # last begun or ended one.
    beyond: bool = False
    numbered: bool = False  # it has set `gtid_next`
    saved: bool = False  # a savepoint may have been set while MySQL had begun no transaction: BEGIN would end it
    kind_changed: bool = False  # the answer tells that the kind of transactions was changed
    unsettled: bool = False  # perhaps in one: MySQL takes it over at the next COMMIT, or before
    one_shot: str = ""  # a SET TRANSACTION that waits for its transaction
    vacant: bool = False  # nothing of the client has reached MySQL since it ended the transaction before
    touched: bool = False  # a statement of this transaction has gone to a table at MySQL
    wrote: bool = False  # one of them may have written or locked
    # Tables are locked. MySQL tells only of those that a transaction has locked.
    locked: bool = False

    @property
    def status(self) -> int:
        """The status flags of an answer of our own."""
        return self.flags | self.begun

    @property
    def under_way(self) -> bool:
        """Whether a transaction is, at MySQL or of hits alone."""
        return self.in_transaction or self.begun != 0

    @property
    def transactional(self) -> bool:
        """Whether the next read is one of a transaction."""
        return self.in_transaction or self.begun != 0 or not self.autocommit

    def begin(self, by: str = "", *, reads_only: bool = False) -> None:
        """A transaction begins here, with a hit, or with the client's BEGIN that is answered without MySQL. `by`: what
        MySQL is sent for that, once it must know. Requires for that: `gate.begins_here`."""
        self.begun = STATUS_IN_TRANS | (STATUS_IN_TRANS_READONLY if reads_only else 0)
        if by:
            self.begun_by, self.vacant = by, True

    def on_status(self, status: int) -> None:
        """MySQL's flags behind a statement."""
        self.flags = status & STATUS_OF_SESSION
        self.autocommit = bool(status & STATUS_AUTOCOMMIT)
        self.in_transaction = bool(status & STATUS_IN_TRANS)
        if not self.in_transaction:
            self.touched = self.wrote = False
        if self.in_transaction or (self.autocommit and not self.begun_by):
            self.begun, self.begun_by = 0, ""
        if self.in_transaction or self.autocommit:
            self.saved = False

    def on_told(self, told: str) -> None:
        """What the tracker tells that the transaction under way has done, a letter each, in the order TrRwWsSL: read
        (R) and written or locked (w, W) rows, locked tables (L) among it."""
        self.locked |= told.endswith("L")
        if self.in_transaction:
            wrote = told[3:5] != "__"
            self.wrote |= wrote
            self.touched |= wrote or told[2:3] == "R"

    def renew(self) -> None:
        """MySQL has begun a new session."""
        self.locked = self.vacant = self.beyond = self.numbered = False
        self.touched = self.wrote = self.saved = self.unsettled = False
        self.one_shot = self.begun_by = ""
        self.begun = 0

    def check_invariants(self) -> None:
        assert not (self.begun and self.in_transaction), "a transaction has begun here, and another one at MySQL"
